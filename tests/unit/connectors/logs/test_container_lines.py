"""Lines that container runtimes have divided into parts: joined once each, whatever is between the parts and wherever a run ends."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from airflow_provider_connect.connectors.logs.container_lines import CRI, DOCKER
from airflow_provider_connect.connectors.logs.source import LogSourceConnector
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.task import SourceTask
from airflow_provider_connect.sdk.testing import Offsets, run
from airflow_provider_connect.sdk.testing.calls import Polled
from tests.reaching import reaching
from tests.unit.connectors.logs.test_source import Logs, age, started, texts

TIME = "2026-01-02T03:04:{:02}.123456789Z"
MILLIS = 1_767_323_040_123
FORMATS = [CRI, DOCKER]


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def part(format: str, stream: str, text: str, *, is_last: bool = True, second: int = 5) -> str:
    time = TIME.format(second)
    if format == CRI:
        return f"{time} {stream} {'F' if is_last else 'P'} {text}\n"
    return json.dumps({"log": text + "\n" * is_last, "stream": stream, "time": time}, separators=(",", ":")) + "\n"


def values(records: list[Any]) -> list[tuple[str, str]]:
    return [(value["stream"], value["log"]) for value in records]


def read(logs: Logs, format: str, **more: str) -> list[tuple[str, str]]:
    logs.config |= {"line.format": format} | {name.replace("_", "."): value for name, value in more.items()}
    return values(logs.read())


@pytest.mark.parametrize("format", FORMATS)
def test_lines_become_structs_with_their_time(logs: Logs, format: str) -> None:
    logs.config["line.format"] = format
    logs.write(part(format, "stdout", "one P two") + part(format, "stderr", "") + part(format, "stdout", "  three ", second=6))
    found = run(LogSourceConnector(), logs.config).records
    times = [TIME.format(second) for second in (5, 5, 6)]
    assert [record.value.as_dict() for record in found] == [
        {"time": times[0], "stream": "stdout", "log": "one P two"},
        {"time": times[1], "stream": "stderr", "log": ""},
        {"time": times[2], "stream": "stdout", "log": "  three "},
    ]
    assert [record.timestamp for record in found] == [MILLIS + 5000, MILLIS + 5000, MILLIS + 6000]


@pytest.mark.parametrize("format", FORMATS)
def test_parts_are_joined_and_streams_are_joined_apart(logs: Logs, format: str) -> None:
    logs.write(
        part(format, "stdout", "a" * 16_384, is_last=False)
        + part(format, "stderr", "whole")
        + part(format, "stdout", "b" * 16_384, is_last=False, second=6)
        + part(format, "stderr", "be", is_last=False)
        + part(format, "stdout", "c", second=7)
        + part(format, "stderr", "gun")
        + part(format, "stdout", "next")
    )
    assert read(logs, format) == [
        ("stderr", "whole"),
        ("stdout", "a" * 16_384 + "b" * 16_384 + "c"),
        ("stderr", "begun"),
        ("stdout", "next"),
    ]
    assert logs.read() == []


def test_a_docker_line_may_have_other_fields_in_any_order(logs: Logs) -> None:
    logs.write('{"stream":"stdout","attrs":{"log":"no"},"time":"2026-01-02T03:04:05Z","log":"a \\"b\\" \\u00fc "}\n')
    logs.write('{"log":"c\\r\\n","stream":"stdout","time":"2026-01-02T03:04:05Z"}\n')
    assert read(logs, DOCKER) == [("stdout", 'a "b" \u00fc c')]


def test_a_cri_line_may_have_more_tags_and_another_offset(logs: Logs) -> None:
    logs.write("2026-01-02T04:04:05+01:00 stdout P:x a\n2026-01-02T04:04:05+01:00 stdout F:x:y b\n")
    logs.config["line.format"] = CRI
    [found] = run(LogSourceConnector(), logs.config).records
    assert (found.value["log"], found.timestamp) == ("ab", MILLIS + 4877)


def test_a_character_that_two_parts_share_is_whole(logs: Logs) -> None:
    """Runtimes of Kubernetes count bytes."""
    data = "\N{EURO SIGN}" * 3
    first, second = data.encode()[:4], data.encode()[4:]
    head = TIME.format(5).encode()
    logs.log.write_bytes(head + b" stdout P " + first + b"\n" + head + b" stdout F " + second + b"\n")
    assert read(logs, CRI) == [("stdout", data)]
    logs.log.write_bytes(head + b" stdout P a\xff\n" + head + b" stderr F good\n" + head + b" stdout F b\n" + head + b" stdout F next\n")
    assert read(logs, CRI) == [("stderr", "good"), ("stdout", "next")]
    assert [text.partition(" is not")[2] for text in logs.skipped] == [" utf-8 (setting encoding)"]


@pytest.mark.parametrize("format", FORMATS)
def test_an_incomplete_line_waits_and_is_complete_in_time(logs: Logs, format: str) -> None:
    logs.write(part(format, "stdout", "one") + part(format, "stdout", "tw", is_last=False) + part(format, "stderr", "beside"))
    assert read(logs, format) == [("stdout", "one")]
    assert logs.read() == []
    logs.write(part(format, "stdout", "o"))
    assert read(logs, format) == [("stderr", "beside"), ("stdout", "two")]
    logs.write(part(format, "stdout", "three", is_last=False))
    assert logs.read() == []
    age(logs.log)
    assert read(logs, format) == [("stdout", "three")]
    logs.write(part(format, "stdout", " late"))
    assert read(logs, format) == [("stdout", " late")]


@pytest.mark.parametrize("format", FORMATS)
def test_lines_of_rotated_and_compressed_files_are_complete_at_their_ends(logs: Logs, format: str) -> None:
    logs.write(part(format, "stdout", "a", is_last=False) + part(format, "stdout", "b", is_last=False).rstrip("\n"))
    age(logs.log)
    assert read(logs, format) == [("stdout", "a")]  # the last line has no line feed, and may get one
    logs.compress(logs.rename())
    assert read(logs, format) == [("stdout", "b")]


def random_parts(format: str, random: Random, count: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Parts of two streams in turns, and the lines that they are; all lines are complete at the end."""
    parts, lines, open_texts = list[str](), list[tuple[str, str]](), {"stdout": "", "stderr": ""}
    for number in range(count):
        stream = random.choice(["stdout", "stderr"])
        text, is_last = f"{number}{'x' * random.randrange(20)};", random.random() < 0.6
        parts.append(part(format, stream, text, is_last=is_last))
        open_texts[stream] += text
        if is_last:
            lines.append((stream, open_texts[stream]))
            open_texts[stream] = ""
    for stream, text in open_texts.items():
        parts.append(part(format, stream, "."))
        lines.append((stream, f"{text}."))
    return parts, lines


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("has_errors", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_runs_that_end_anywhere_lose_and_double_nothing(logs: Logs, format: str, seed: int, has_errors: bool) -> None:
    random = Random(seed)
    parts, lines = random_parts(format, random, 300)
    for _ in range(20 if has_errors else 0):
        parts.insert(random.randrange(len(parts)), "neither\n")
    logs.config["errors.tolerance"] = "all"
    data = "".join(parts)
    cuts = sorted({0, *(random.randrange(len(data)) for _ in range(20)), len(data)})
    found, errors = list[Any](), 0
    for begin, end in pairwise(cuts):
        logs.write(data[begin:end])
        found += read(logs, format, batch_max_bytes=str(random.choice([1000, 4096])))
        errors += len(logs.skipped)
    assert found == lines
    assert errors == 20 * has_errors


@pytest.mark.parametrize("format", FORMATS)
def test_a_run_that_goes_on_from_any_committed_position_repeats_nothing(logs: Logs, format: str) -> None:
    parts, lines = random_parts(format, Random(7), 100)
    logs.write("".join(parts))
    logs.config |= {"line.format": format, "batch.max.bytes": "400"}
    task, before, count = started(logs.config), list[Any](), 0
    offsets: Offsets = {}
    while (polled := task.poll()) is not None:
        done = Polled(polled)
        before += values([record.value for record in done])
        offsets |= done.offsets
        count += 1
        rest = run(reaching(LogSourceConnector()), logs.config, offsets=offsets)
        assert before + values([record.value for record in rest.records]) == lines
    task.stop()
    assert count > 10


@pytest.mark.parametrize("format", FORMATS)
def test_a_joined_line_that_is_too_long_is_continued_in_another(logs: Logs, format: str) -> None:
    written = [f"{number:02}{'x' * 200}" for number in range(40)]
    for text in written:
        logs.write(part(format, "stdout", text, is_last=text == written[-1]))
    logs.write(part(format, "stdout", "next"))
    found = read(logs, format, line_max_bytes="1000", batch_max_bytes="4096")
    assert "".join(text for _, text in found) == "".join(written) + "next"
    assert max(len(text) for _, text in found) <= 2000
    assert len(found) < 12
    assert found[-1] == ("stdout", "next")
    assert logs.skipped == []


@pytest.mark.parametrize("format", FORMATS)
def test_streams_that_are_never_complete_at_once_are_read_in_bounded_memory(logs: Logs, format: str) -> None:
    written = [f"{number:04};" for number in range(2000)]
    streams = ["stdout", "stderr"]
    for number, text in enumerate(written):
        logs.write(part(format, streams[number // 3 % 2], text, is_last=number % 3 == 1))
    found = read(logs, format, line_max_bytes="500", batch_max_bytes="4096")
    assert sorted("".join(text for _, text in found).split(";")[:-1]) == [text[:-1] for text in written]
    for stream in streams:
        assert "".join(text for each, text in found if each == stream) == "".join(
            text for number, text in enumerate(written) if streams[number // 3 % 2] == stream
        )


def _read_to_end(task: SourceTask, found: list[Any]) -> None:
    while (polled := task.poll()) is not None:
        found += values(texts(polled))


@pytest.mark.parametrize("format", FORMATS)
def test_a_line_of_another_format_is_an_error_and_the_lines_around_it_are_read_once(logs: Logs, format: str) -> None:
    logs.config |= {"line.format": format, "line.max.bytes": "500"}
    logs.write(
        part(format, "stdout", "one")
        + part(format, "stdout", "tw", is_last=False)
        + part(format, "stderr", "beside")
        + "neither\n\n"
        + part(format, "stderr", "x" * 2000)
        + part(format, "stdout", "o")
        + part(format, "stderr", "last")
    )
    task, found = started(logs.config), list[Any]()
    with pytest.raises(DataException, match=f"is not of format {format}"):
        _read_to_end(task, found)
    task.stop()
    assert found == [("stdout", "one")]  # the lines beside the error cannot be separated from it by a position
    logs.config["errors.tolerance"] = "all"
    assert values(logs.read()) == [("stdout", "one"), ("stderr", "beside"), ("stdout", "two"), ("stderr", "last")]
    assert len(logs.skipped) == 2
    assert "line.max.bytes" in "".join(logs.skipped)
    assert logs.read() == []


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("key", "value"), [("multiline.start.pattern", r"^\d"), ("encoding", "utf-16")])
def test_settings_that_do_not_fit_parts_are_refused(logs: Logs, format: str, key: str, value: str) -> None:
    logs.config |= {"line.format": format, key: value}
    found = reaching(LogSourceConnector()).validate(logs.config)
    assert any(key in error for each in found for error in each.errors)
