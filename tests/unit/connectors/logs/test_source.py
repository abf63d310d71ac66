"""Runs of LogSource over files that are rotated, cut, copied, compressed and broken between them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.logs import folder_positions
from airflow_provider_connect.connectors.logs.files import FolderFiles
from airflow_provider_connect.connectors.logs.source import LogSourceConnector
from airflow_provider_connect.data.records import SourceRecord
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import SourceTask
from airflow_provider_connect.sdk.testing import MemorySourceContext, Offsets, partition_key, run
from tests.reaching import reaching
from tests.waiting import wait_until

OLD = 60  # seconds: longer than ``line.timeout.ms``


class Logs:
    """A folder, and the runs that read it; each goes on from the offsets of the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "app.log"
        self.offsets: Offsets = {}
        self.skipped: list[str] = []
        self.config = {"paths": f"{folder}/*.log", "topic": "t"}

    def write(self, text: str, path: Path | None = None) -> None:
        with (path or self.log).open("a", encoding="utf-8") as file:
            file.write(text)

    def rename(self, number: int = 1) -> Path:
        return self.log.rename(f"{self.log}.{number}")

    def copy_and_cut(self) -> Path:
        copy = Path(shutil.copyfile(self.log, f"{self.log}.1"))
        os.truncate(self.log, 0)
        return copy

    def compress(self, path: Path, *, keep: bool = False) -> Path:
        compressed = Path(f"{path}.gz")
        compressed.write_bytes(gzip.compress(path.read_bytes()))
        shutil.copystat(path, compressed)
        if not keep:
            path.unlink()
        return compressed

    def read(self) -> list[Any]:
        """The values that a run delivers, and there is new data exactly if it delivers some or has something to note."""
        has_new_data = self.has_new_data()
        done = run(LogSourceConnector(), self.config, offsets=self.offsets)
        is_changed, self.offsets = done.offsets != self.offsets, done.offsets
        self.skipped = [str(error) for error in done.skipped]
        assert has_new_data or not (done.records or done.skipped), "the check for new data has missed some"
        assert not (is_changed and not has_new_data and done.records)
        return [record.value for record in done.records]

    def has_new_data(self) -> bool | None:
        connector = reaching(LogSourceConnector())
        found: bool | None = connector.check_for_new_data(self.config, lambda partition: self.offsets.get(partition_key(partition)))
        return found


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def started(config: dict[str, str], offsets: Offsets | None = None) -> SourceTask:
    task = reaching(LogSourceConnector.task_class())
    task.initialize(MemorySourceContext(config, offsets))
    task.start(LogSourceConnector().task_config(config))
    return task


def texts(polled: Batch | Sequence[Batch] | Sequence[SourceRecord]) -> list[Any]:
    batches = [polled] if isinstance(polled, Batch) else polled
    return [value for batch in batches if isinstance(batch, Batch) and batch.value is not None for value in batch.value.to_pylist()]


def age(path: Path, seconds: float = OLD) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_renamed_file_is_read_to_its_end_before_the_new_one(logs: Logs) -> None:
    logs.write("one\ntwo\nthr")
    assert logs.read() == ["one", "two"]
    renamed = logs.rename()
    logs.write("ee\nfour\n", renamed)
    age(renamed, 1)
    logs.write("five\n")
    assert logs.read() == ["three", "four", "five"]
    assert logs.read() == []


def test_generations_between_two_runs_are_read_the_oldest_first(logs: Logs) -> None:
    for number in range(5):
        logs.write(f"line {number}\n")
        age(logs.log, 100 - number)
        logs.rename(5 - number)
    logs.compress(Path(f"{logs.log}.4"))
    logs.write("newest\n")
    assert logs.read() == [*(f"line {number}" for number in range(5)), "newest"]


def test_a_copy_is_read_on_when_the_original_is_cut(logs: Logs) -> None:
    logs.write("one\n")
    assert logs.read() == ["one"]
    logs.write("two\n")
    copy = Path(shutil.copyfile(logs.log, f"{logs.log}.1"))
    assert logs.read() == ["two"]  # of the original
    os.truncate(logs.log, 0)
    logs.write("three\nand a line that makes it longer than it was\n")
    assert logs.read() == ["three", "and a line that makes it longer than it was"]
    assert logs.read() == []
    assert copy.read_text() == "one\ntwo\n"


def test_what_was_not_read_before_a_cut_is_read_of_the_copy(logs: Logs) -> None:
    logs.write("one\n")
    logs.read()
    logs.write("two\n")
    age(logs.copy_and_cut(), 1)
    logs.write("three\n")
    assert logs.read() == ["two", "three"]


def test_a_file_that_is_cut_before_its_first_line_was_read_is_not_mixed_with_the_new_one(logs: Logs) -> None:
    logs.config["batch.max.bytes"] = "64"
    logs.write(f"a{'x' * 200}\n")
    task = started(logs.config)
    assert texts(task.poll() or []) == []  # a part of the line
    assert texts(task.poll() or []) == []
    logs.copy_and_cut()
    logs.write(f"b{'x' * 300}\n")
    values = []
    while (polled := task.poll()) is not None:
        values += texts(polled)
    task.stop()
    assert sorted(values) == [f"a{'x' * 200}", f"b{'x' * 300}"]


def test_a_compressed_file_is_read_on_where_the_plain_one_was(logs: Logs) -> None:
    logs.write("".join(f"line {number}\n" for number in range(1000)))
    logs.config["batch.max.bytes"] = "1000"
    assert len(logs.read()) == 1000
    logs.write("one more\n")
    renamed = logs.rename()
    logs.compress(renamed, keep=True)
    assert logs.read() == ["one more"]  # of the plain one
    logs.write("last\n", renamed)
    logs.compress(renamed)
    assert logs.read() == ["last"]
    assert logs.has_new_data() is False


def test_a_compressed_file_may_have_an_ending_in_capitals(logs: Logs) -> None:
    logs.write("one\n")
    compressed = logs.compress(logs.rename())
    compressed.rename(compressed.with_suffix(".GZ"))
    assert logs.read() == ["one"]


def test_a_compressed_copy_of_what_was_cut_is_read_on(logs: Logs) -> None:
    logs.write("one\n")
    logs.read()
    logs.write("two\n")
    logs.compress(logs.copy_and_cut())
    logs.write("three\n")
    assert sorted(logs.read()) == ["three", "two"]
    assert logs.read() == []


def test_an_incomplete_compressed_file_waits(logs: Logs) -> None:
    logs.write("one\ntwo\n")
    whole = logs.compress(logs.rename())
    data = whole.read_bytes()
    whole.write_bytes(data[:-10])
    assert logs.read() == []
    whole.write_bytes(data)
    assert logs.read() == ["one", "two"]


def test_what_only_has_the_name_of_a_compressed_file_is_left_alone(logs: Logs) -> None:
    (logs.folder / "app.log.1.gz").write_text("not compressed\n")
    logs.write("one\n")
    assert logs.read() == ["one"]


def test_a_new_file_that_begins_like_the_one_before_is_read_whole(logs: Logs) -> None:
    banner = "started\n" * 300
    logs.write(f"{banner}one\n")
    assert len(logs.read()) == 301
    logs.rename()
    logs.write(f"{banner}two\n")
    assert len(logs.read()) == 301
    os.unlink(f"{logs.log}.1")
    logs.rename()
    logs.write("started\n")
    assert logs.read() == ["started"]


def test_an_inode_that_is_used_again_is_another_file(logs: Logs) -> None:
    logs.write("one\ntwo\n")
    logs.read()
    logs.log.write_text("six\nten\neleven\n")  # the same inode, as after a removal
    assert logs.read() == ["six", "ten", "eleven"]


def test_a_compressed_copy_with_the_inode_of_the_log_that_was_read_in_part(logs: Logs) -> None:
    read = "".join(f"{number} {'x' * 100}\n" for number in range(20))
    logs.write(read)
    logs.read()
    logs.write("more\n")
    copy = Path(shutil.copyfile(logs.log, f"{logs.log}.1"))
    logs.log.write_bytes(gzip.compress(copy.read_bytes()))  # its inode, as after the log's removal
    logs.log.rename(f"{copy}.gz")
    assert logs.read() == ["more"]  # of the copy, not of both
    copy.unlink()
    assert logs.read() == []


def test_files_by_two_names_are_read_once(logs: Logs) -> None:
    logs.write("one\n")
    os.link(logs.log, logs.folder / "other.log")
    assert logs.read() == ["one"]


def test_offsets_of_files_that_are_gone_are_removed_in_time(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_positions, "MAX_MISSING", 3)
    elsewhere = logs.folder / "elsewhere"
    elsewhere.mkdir()
    for number in range(10):
        logs.write(f"line {number}\n")
        assert logs.read() == [f"line {number}"]
        logs.log.rename(elsewhere / str(number))
    logs.write("last\n")
    logs.read()
    assert len(logs.offsets) == 1 + 1 + 3
    logs.config["missing.retention.ms"] = "0"
    time.sleep(0.01)
    logs.write("more\n")
    assert logs.read() == ["more"]
    assert len(logs.offsets) == 2


def test_a_folder_that_was_away_is_not_read_again(logs: Logs) -> None:
    logs.write("one\n")
    logs.read()
    away = logs.folder.rename(f"{logs.folder}-away")
    assert logs.read() == []
    logs.folder.mkdir()
    (logs.folder / "x.log").write_text("x\n")
    assert logs.read() == ["x"]
    shutil.rmtree(logs.folder)
    away.rename(logs.folder)
    assert logs.read() == []


def test_files_may_begin_at_their_ends(logs: Logs) -> None:
    logs.config["start.from"] = "end"
    logs.write("old\nold too")
    logs.compress(Path(shutil.copyfile(logs.log, f"{logs.log}.1")))
    logs.write("older\n", logs.folder / "b.log")
    assert logs.read() == []
    logs.write(" and its rest\nnew\n")
    logs.write("new too\n", logs.folder / "c.log")
    assert logs.read() == ["new", "new too"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_log_that_appears_after_a_first_run_without_files_has_no_old_lines(logs: Logs, *, exists: bool) -> None:
    logs.config["start.from"] = "end"
    if not exists:
        logs.folder.rmdir()
    assert logs.has_new_data() is True  # the first run notes that it found nothing
    assert logs.read() == []
    assert logs.has_new_data() is False
    logs.folder.mkdir(exist_ok=True)
    logs.write("first\n")
    assert logs.read() == ["first"]


def test_a_folder_that_appears_after_the_first_run_has_no_old_lines(logs: Logs) -> None:
    logs.config |= {"start.from": "end", "paths": f"{logs.folder}/*/*.log"}
    for name in ("a", "b"):
        (logs.folder / name).mkdir()
        logs.write(f"{name} 1\n", logs.folder / name / "app.log")
        assert logs.read() == ([] if name == "a" else ["b 1"])
    logs.write("a 2\n", logs.folder / "a" / "app.log")
    assert logs.read() == ["a 2"]


@pytest.mark.parametrize("path", ["x/*.log", "*/*.log", "**/*.log"])
def test_a_path_that_is_added_begins_at_the_end(logs: Logs, path: str) -> None:
    logs.config["start.from"] = "end"
    assert logs.read() == []
    (logs.folder / "x").mkdir()
    logs.write("old\n", logs.folder / "x" / "app.log")
    logs.config["paths"] += f",{logs.folder}/{path}"
    assert logs.read() == []
    logs.write("new\n", logs.folder / "x" / "app.log")
    assert logs.read() == ["new"]


def test_a_folder_that_cannot_be_listed_at_first_begins_at_the_end(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.config["start.from"] = "end"
    logs.write("old\n")
    with monkeypatch.context() as patched:
        patched.setattr(FolderFiles, "list_files", refuse_listing)
        with pytest.raises(ConnectException, match="Cannot read"):
            logs.read()
    assert logs.read() == []
    logs.write("new\n")
    assert logs.read() == ["new"]


def refuse_listing(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_last_line_without_end_is_complete_when_no_process_will_end_it(logs: Logs) -> None:
    logs.write("one\ntwo")
    age(logs.log)
    assert logs.read() == ["one"]
    renamed = logs.rename()
    assert logs.read() == ["two"]
    logs.write("three\nfour", logs.log)
    age(logs.log)
    logs.compress(logs.rename(2))
    assert logs.read() == ["three", "four"]
    assert renamed.exists()


def test_entries_of_several_lines_are_complete_with_the_next_one_or_in_time(logs: Logs) -> None:
    logs.config |= {"multiline.start.pattern": r"^\d", "batch.max.bytes": "64", "line.max.bytes": "100"}
    logs.write("1 a\n at x\n at y\n2 b\n at z\n")
    assert logs.read() == ["1 a\n at x\n at y"]
    assert logs.has_new_data() is False
    age(logs.log)
    assert logs.read() == ["2 b\n at z"]
    logs.write(" at late\n3 c\n")
    assert logs.read() == [" at late"]
    logs.write("".join(f" at {number:04}\n" for number in range(100)) + "4 d\n")
    assert "\n".join(logs.read()) == "3 c\n" + "\n".join(f" at {number:04}" for number in range(100))


def test_an_entry_before_an_overlong_line_is_read(logs: Logs) -> None:
    logs.config |= {"multiline.start.pattern": r"^\d", "line.max.bytes": "100", "errors.tolerance": "all"}
    logs.write("1 a\n at x\n" + "x" * 400)
    assert logs.read() == ["1 a\n at x"]
    logs.write("\n2 b\n3 c\n")
    assert logs.read() == ["2 b"]
    assert "at byte 10 has" in "".join(logs.skipped)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "windows-1252"])
def test_encodings_over_many_batches_and_runs(logs: Logs, encoding: str) -> None:
    logs.config |= {"encoding": encoding, "batch.max.bytes": "64"}
    first = [f"\N{EURO SIGN} {number}" for number in range(50)]
    logs.log.write_bytes("".join(f"{line}\n" for line in first).encode(encoding))
    assert logs.read() == first
    with logs.log.open("ab") as file:
        file.write("more\n".encode({"utf-16": "utf-16-le"}.get(encoding, encoding)))
    assert logs.read() == ["more"]


def test_bad_lines_are_passed_over_one_by_one(logs: Logs) -> None:
    logs.config |= {"line.format": "json", "line.max.bytes": "100", "batch.max.bytes": "4096"}
    logs.log.write_bytes(b'{"a":1}\nbad\n\n{"a":2}\n{"a":"\xff"}\n{"a":"%b"}\n{"a":3}\nworse\n' % (b"x" * 200))
    assert logs.read() == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert len(logs.skipped) == 4
    for text, part in zip(
        logs.skipped, ("up to byte 12 is not of format json", "is not utf-8", "line.max.bytes", "format json"), strict=True
    ):
        assert part in text
    assert logs.read() == []


def test_a_task_that_fails_at_a_line_has_delivered_what_was_before_it(logs: Logs) -> None:
    logs.config |= {"line.format": "json"}
    logs.write('{"a":1}\nbad\n{"a":2}\n')
    task = started(logs.config)
    polled = [task.poll(), task.poll()]
    task.stop()
    batch = polled[1]
    assert isinstance(batch, Batch)
    assert (len(batch), batch.source_offset and batch.source_offset["position"]) == (1, 8)


def test_a_line_of_any_length_takes_little_memory(logs: Logs) -> None:
    logs.config["line.max.bytes"] = "65536"
    with logs.log.open("wb") as file:
        file.write(b"one\n")
        file.seek(1 << 30, os.SEEK_CUR)  # a hole reads as zeros, and takes no space
        file.write(b"\ntwo\n")
    task = started(logs.config)
    values, errors = [], []
    tracemalloc.start()
    while True:
        try:
            polled = task.poll()
        except DataException as error:
            errors.append(str(error))
            continue
        if polled is None:
            break
        values += texts(polled)
    max_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    task.stop()
    assert values == ["one", "two"]
    assert max_bytes < 32 << 20
    [text] = errors
    assert "line.max.bytes" in text


def test_a_line_that_is_too_long_is_passed_over_while_it_grows(logs: Logs) -> None:
    logs.config |= {"line.max.bytes": "100", "batch.max.bytes": "64"}
    logs.write("one\n" + "x" * 300)
    assert logs.read() == ["one"]
    assert len(logs.skipped) == 1
    logs.write("y" * 300)
    assert (logs.read(), logs.skipped) == ([], [])
    logs.write("z\ntwo\n")
    assert (logs.read(), logs.skipped) == (["two"], [])


def test_each_folder_belongs_to_one_task(logs: Logs) -> None:
    for number in range(8):
        (logs.folder / str(number)).mkdir()
        logs.write(f"{number}\n", logs.folder / str(number) / "app.log")
    logs.config["paths"] = f"{logs.folder}/*/app.log"
    done = run(LogSourceConnector(), logs.config, tasks=3)
    assert sorted(record.value for record in done.records) == [str(number) for number in range(8)]
    assert len(done.task_configs) == 3


def test_names_that_are_no_text_are_read(logs: Logs) -> None:
    folder = os.fsencode(logs.folder) + b"/\xff"
    os.mkdir(folder)
    logs.config |= {"paths": f"{logs.folder}/*/*.log", "path.header": "path"}
    Path(os.fsdecode(folder + b"/\xfe.log")).write_text("one\n")
    assert logs.read() == ["one"]
    assert logs.read() == []
    assert "\N{REPLACEMENT CHARACTER}" in str(logs.offsets)


def test_paths_have_headers_if_they_are_wanted(logs: Logs) -> None:
    logs.config["path.header"] = "path"
    logs.write("one\n")
    [record] = run(LogSourceConnector(), logs.config).records
    assert [(header.key, header.value) for header in record.headers] == [("path", str(logs.log).encode())]


def test_a_path_that_is_not_allowed_is_refused_at_validation_and_by_a_run(logs: Logs) -> None:
    logs.write("secret\n")
    connector = LogSourceConnector()
    connector.allowed_paths = AllowedPaths((str(logs.folder / "inner"),))
    [value] = [value for value in connector.validate(logs.config) if value.errors]
    assert value.name == "paths"
    with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
        run(LogSourceConnector(), logs.config, allowed_paths=connector.allowed_paths)


def test_a_file_that_may_not_be_read_fails_with_its_name(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.write("one\n")

    def refuse(*_: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied", "app.log")

    monkeypatch.setattr("airflow_provider_connect.connectors.logs.files.LogFile.open", refuse)
    with pytest.raises(ConnectException, match=r"app\.log"):
        run(LogSourceConnector(), logs.config)


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        ({"device": 1, "inode": 2}, {"position": -1}, "position"),
        ({"device": 1, "inode": 2}, {"position": "x"}, "position"),
        ({"folder": "/x"}, {"files": [1]}, "files"),
        ({"file": "/x"}, {"position": 1}, "device"),
        ({"device": 1, "inode": 2}, 5, "maps"),
    ],
)
def test_wrong_offsets_are_refused(partition: Any, offset: Any, message: str) -> None:
    with pytest.raises(ConnectException, match=message):
        LogSourceConnector().alter_offsets({}, [(partition, offset)])


def test_a_position_set_by_hand_beyond_the_end_is_refused(logs: Logs) -> None:
    """Without the file's hashes it would be taken for the end of the file that was there before."""
    logs.write("one\ntwo\n")
    logs.read()
    [partition] = [json.loads(key) for key in logs.offsets if "inode" in key]
    connector = reaching(LogSourceConnector())
    with pytest.raises(ConnectException, match=r"The position 9 is beyond the end of app\.log, which has 8 bytes"):
        connector.alter_offsets(logs.config, [(partition, {"position": 9})])
    assert connector.alter_offsets(logs.config, [(partition, {"position": 8}), (partition, {"position": 9, "head": "x"})])
    assert connector.alter_offsets(logs.config, [({"device": 1, "inode": 2}, {"position": 9})])


def test_a_position_set_by_hand_holds(logs: Logs) -> None:
    logs.write("one\ntwo\n")
    logs.read()
    [partition] = [key for key in logs.offsets if "inode" in key]
    logs.offsets[partition] = {"position": 4}
    assert logs.read() == ["two"]


def test_follow_waits_for_lines_and_for_the_time_after_which_a_last_line_is_complete(logs: Logs) -> None:
    logs.config |= {"follow": "true", "poll.interval.ms": "10", "line.timeout.ms": "50"}
    task = started(logs.config)

    def polled(wanted: Callable[[list[str]], bool]) -> list[str]:
        found: list[str] = []

        def are_polled() -> bool:
            batches = task.poll()
            assert batches is not None
            found.extend(texts(batches))
            return wanted(found)

        wait_until(are_polled)
        return found

    logs.write("one\n")
    assert polled(bool) == ["one"]
    logs.write("two\n")
    renamed = logs.rename()
    logs.write("three\n")
    assert polled(lambda found: len(found) == 2) == ["two", "three"]
    logs.write("fo", renamed)
    assert polled(bool) == ["fo"]  # by time alone: no file changes
    logs.write("ur\n", renamed)
    logs.write("five\n")
    assert polled(lambda found: len(found) == 2) == ["ur", "five"]
    task.stop()
    assert task.poll() is None


# Copies in a file's own place, names that are not included, files that are gone


@pytest.mark.parametrize("lines", [1, 1000])
def test_a_log_that_was_copied_and_put_in_its_own_place_goes_on(logs: Logs, lines: int) -> None:
    """As ``sed -i`` and editors do, and as a log is found after it was restored: another inode, at first the same content."""
    logs.write("".join(f"line {number}\n" for number in range(lines)))
    assert len(logs.read()) == lines
    copy = Path(shutil.copy2(logs.log, logs.folder / "copy"))
    copy.rename(logs.log)
    assert logs.read() == []
    logs.write("more\n")
    assert logs.read() == ["more"]


def test_short_logs_of_another_device_go_on(logs: Logs) -> None:
    """After a remount each file has another device. The files that it had before are gone."""
    other = logs.folder / "other.log"
    logs.write("one\n")
    logs.write("one\n", other)
    assert logs.read() == ["one", "one"]
    logs.offsets = {key.replace('"device": ', '"device": 1'): _of_device(offset) for key, offset in logs.offsets.items()}
    logs.write("two\n")
    logs.write("three\n", other)
    assert logs.read() == ["two", "three"]


def _of_device(offset: Any) -> Any:
    files = offset.get("files")
    return offset if files is None else {"files": [[int(f"1{device}"), *rest] for device, *rest in files]}


def test_short_logs_that_are_alike_and_differ_in_their_name_are_each_read(logs: Logs) -> None:
    logs.write("banner\n")
    assert logs.read() == ["banner"]
    logs.write("banner\nfirst\n", logs.folder / "other.log")
    logs.log.unlink()
    assert logs.read() == ["banner", "first"]


@pytest.mark.parametrize("name", ["app.log.bak-xyz", "app.log.20261126-xyz", "kept"])
def test_a_log_is_followed_to_any_name_in_its_folder(logs: Logs, name: str) -> None:
    logs.write("one\n")
    assert logs.read() == ["one"]
    logs.write("two\nlast")
    renamed = logs.log.rename(logs.folder / name)
    age(renamed)
    logs.write("new\n")
    assert sorted(logs.read()) == ["last", "new", "two"]
    assert logs.read() == []
    logs.write("later\n", renamed)
    assert logs.read() == ["later"]
    assert logs.read() == []


def test_a_log_that_is_renamed_to_an_excluded_name_is_left(logs: Logs) -> None:
    logs.config["exclude.pattern"] = r".*\.bak-xyz"
    logs.write("one\n")
    assert logs.read() == ["one"]
    logs.write("two\n")
    logs.log.rename(logs.folder / "app.log.bak-xyz")
    assert logs.read() == []


def test_another_file_on_the_inode_of_a_log_is_not_read(logs: Logs) -> None:
    logs.write("one\n")
    assert logs.read() == ["one"]
    logs.log.write_text("another\n")
    logs.log.rename(logs.folder / "notes.txt")
    assert logs.read() == []
    assert not logs.has_new_data()


def test_what_was_not_read_of_a_log_that_is_gone_is_reported_once(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    logs.config |= {"line.timeout.ms": "0", "paths": f"{logs.folder}/*.log"}
    logs.write("one\nhalf a line")
    assert logs.read() == ["one"]
    logs.log.unlink()
    for number in range(3):
        logs.write(f"{number}\n", logs.folder / "other.log")  # maybe on the inode of the one that is gone
        assert logs.read() == [str(number)]
        time.sleep(0.01)
    [warning] = [each.getMessage() for each in caplog.records if "log files" in each.getMessage()]
    assert warning.startswith(f"1 log files: {logs.log} is gone, and its last 11 bytes, from byte 4, were not read. Rotate by renaming")


def test_a_log_that_was_cut_without_a_copy_is_reported_once(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    logs.config["line.timeout.ms"] = "0"
    logs.write("one\n")
    assert logs.read() == ["one"]
    for number in range(3):
        if not number:
            os.truncate(logs.log, 0)
        logs.write(f"{number}\n")
        assert logs.read() == [str(number)]
        time.sleep(0.01)
    [warning] = [each.getMessage() for each in caplog.records if "log files" in each.getMessage()]
    assert f"{logs.log} was truncated, and its folder has no copy of it: its data after byte 4 is lost" in warning


# What users of other tails have reported


@pytest.mark.parametrize("reads_between", [True, False])
def test_rotation_by_time_whose_older_file_is_compressed_loses_and_doubles_nothing(logs: Logs, reads_between: bool) -> None:
    """fluent-bit 2110: Kubernetes renames with a date and compresses the file before; its inode becomes the new log's."""
    expected, found, before = [], [], None
    for number in range(6):
        logs.write(f"early {number}\n")
        if reads_between:
            found += logs.read()
        logs.write(f"late {number}\n")
        expected += [f"early {number}", f"late {number}"]
        age(logs.log, 100 - number)
        if before is not None:
            logs.compress(before)
        before = logs.log.rename(logs.folder / f"app.log.20230810-08{number:02d}34")
    logs.write("end\n")
    found += logs.read()
    assert sorted(found) == sorted([*expected, "end"])
    assert logs.read() == []


def test_logs_whose_compressed_beginnings_are_equal_are_each_read(logs: Logs) -> None:
    """vector 13193: fingerprints of compressed bytes were those of a header that all files have."""
    for number in range(3):
        path = logs.folder / f"app.log.{number + 1}"
        logs.write("# a header that each file has\n" + f"line {number}\n", path)
        age(path, 50 - number)
        logs.compress(path)
    assert sorted(set(logs.read())) == ["# a header that each file has", "line 0", "line 1", "line 2"]
    assert logs.read() == []
