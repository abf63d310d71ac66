"""Rotations at which users of other agents have lost or doubled lines. Each names its report."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from airflow_provider_connect.connectors.logs.source import LogSourceConnector
from tests.reaching import reaching
from tests.unit.connectors.logs.test_source import Logs, age

BANNER = "".join(f"#Fields of the log, line {number}\n" for number in range(80))
"""More than the first kilobyte, which identifies a file."""


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def swap(logs: Logs) -> None:
    """The log and the file before it exchange their inodes: content moves by copies into what is there."""
    other = Path(f"{logs.log}.0")
    old, new = logs.log.read_bytes(), other.read_bytes()
    logs.log.write_bytes(new)
    other.write_bytes(old)


def test_an_inode_that_is_used_again_is_another_file(logs: Logs) -> None:
    """vectordotdev/vector 18342, 26334, elastic/beats 1341: it was read from the position of the file before, or not at all."""
    logs.write("".join(f"first {number}\n" for number in range(100)))
    assert len(logs.read()) == 100
    logs.log.write_text("".join(f"again {number}\n" for number in range(300)))  # the inode, as a file would have it that is new
    assert logs.read() == logs.log.read_text().splitlines()


def test_files_that_exchange_their_inodes_are_followed(logs: Logs) -> None:
    """vectordotdev/vector 18342."""
    logs.write("a\n" * 2000)
    logs.rename(0)
    logs.write("b\n" * 1000)
    assert len(logs.read()) == 3000
    swap(logs)
    logs.write("c\n")
    read = logs.read()
    assert read[-1] == "c"
    assert read.count("c") == 1


@pytest.mark.parametrize("compressed", [False, True])
def test_a_copy_of_a_log_whose_name_has_a_number_is_not_read_before_the_cut(logs: Logs, *, compressed: bool) -> None:
    """elastic/beats 39731: between the copy and the truncation, all lines came again."""
    log = logs.folder / "worker-1.log"
    logs.write("".join(f"line {number:04}\n" for number in range(200)), log)
    assert len(logs.read()) == 200
    copy = Path(shutil.copyfile(log, f"{log}.1"))
    if compressed:
        logs.compress(copy)
    assert logs.read() == []
    os.truncate(log, 0)
    logs.write("next\n", log)
    assert logs.read() == ["next"]


@pytest.mark.parametrize("grown", [1, 500])
def test_a_log_that_begins_as_the_one_before_is_another(logs: Logs, grown: int) -> None:
    """open-telemetry/opentelemetry-collector-contrib 19765, vectordotdev/vector 25079: the same first bytes, and more than before."""
    logs.write(f"{BANNER}bbbb\nccc\n")
    assert logs.read()[-2:] == ["bbbb", "ccc"]
    Path(f"{logs.log}.1").write_bytes(logs.log.read_bytes())
    logs.log.write_text(BANNER + "".join(f"{number:06}\n" for number in range(grown)))
    assert logs.read() == logs.log.read_text().splitlines()
    assert logs.read() == []


def test_compressed_logs_that_begin_alike_are_two(logs: Logs) -> None:
    """vectordotdev/vector 13193."""
    for number in (1, 2):
        Path(f"{logs.log}.{number}.gz").write_bytes(gzip.compress(f"{BANNER}of {number}\n".encode()))
        age(Path(f"{logs.log}.{number}.gz"), 100 - number)
    logs.write(BANNER)
    lines = logs.read()
    assert [line for line in lines if line.startswith("of")] == ["of 1", "of 2"]
    assert len(lines) == 3 * 80 + 2


def test_a_log_that_is_written_over_loses_only_what_was_gone(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    """fluent/fluent-bit 9580: ``>`` at each tenth line."""
    read, written = [], []
    for number in range(1, 51):
        if number % 10 == 0:
            logs.log.write_text(f"Overwrite: {number}\n")
        else:
            logs.write(f"Append: {number}\n")
        written.append(number)
        read += [int(line.rpartition(" ")[2]) for line in logs.read()]
    assert read == written


def test_a_line_that_is_too_long_comes_again_in_no_run(logs: Logs) -> None:
    """fluent/fluent-bit 3488."""
    logs.config |= {"line.max.bytes": "1000", "errors.tolerance": "all"}
    logs.write("one\n" + "x" * 5000)
    assert logs.read() == ["one"]
    logs.write("x" * 5000)
    assert logs.read() == []
    logs.write("\ntwo\n")
    assert logs.read() == ["two"]
    assert logs.read() == []


def test_a_line_that_is_written_across_a_rotation_is_whole(logs: Logs) -> None:
    """fluent/fluent-bit 5382: the new file was read from the middle of a line."""
    logs.write("2022-04-22T08:03:24 one\n2022-04-")
    assert logs.read() == ["2022-04-22T08:03:24 one"]
    logs.write("22T08:03:25 two\n")
    logs.copy_and_cut()
    logs.write("2022-04-22T08:03:26 three\n")
    assert logs.read() == ["2022-04-22T08:03:25 two", "2022-04-22T08:03:26 three"]


def test_links_are_named_where_what_they_lead_to_is_not_read(logs: Logs, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """open-telemetry/opentelemetry-collector-contrib 25839, signalfx/splunk-otel-collector-chart 637, elastic/beats 25435."""
    pods, containers = tmp_path / "pods", tmp_path / "containers"
    pods.mkdir()
    containers.mkdir()
    (pods / "0.log").write_text("one\n")
    (containers / "web.log").symlink_to(pods / "0.log")
    (containers / "gone.log").symlink_to(pods / "1.log")
    logs.config["paths"] = f"{containers}/*.log"
    connector = reaching(LogSourceConnector())
    connector.check(logs.config)
    assert "web.log" in str(connector.missing)
    assert "links are not followed" in str(connector.missing)
    (containers / "own.log").write_text("two\n")
    assert logs.read() == ["two"]
    assert "gone.log" in caplog.text
    assert "web.log" in caplog.text


def test_a_link_to_a_log_that_is_read_is_not_worth_a_word(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    """fluent/fluent-bit 4839: ``current.log`` leads to the log of the day."""
    (logs.folder / "current.log").symlink_to("app.log")
    logs.write("one\n")
    assert logs.read() == ["one"]
    assert not caplog.records
