"""Runs of LogSource over damaged gzip files: every readable line comes once, the rest is an error, other files come too."""

from __future__ import annotations

import gzip
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import SourceTask
from airflow_provider_connect.sdk.testing import partition_key
from tests.unit.connectors.logs.test_source import Logs, age, logs, started, texts
from tests.unit.connectors.logs.test_unreadable import polled_until_failure

__all__ = ["logs"]  # a fixture
LINES = [f"line {number} {random.Random(number).random()}" for number in range(20_000)]
PACKED = gzip.compress("".join(f"{line}\n" for line in LINES).encode(), mtime=0)
CUT = PACKED[: len(PACKED) // 2]
DAMAGED = {
    "6 bytes missing": (PACKED[:-6], 20_000, "it ends before its compressed data does"),
    "cut in half": (CUT, None, "it ends before its compressed data does"),
    "wrong checksum": (PACKED[:-8] + b"\1\2\3\4" + PACKED[-4:], 20_000, "its checksum is wrong"),
    "wrong length": (PACKED[:-4] + b"\1\2\3\4", 20_000, "its checksum is wrong"),
    "trailing garbage": (PACKED + b"garbage", 20_000, "the data after it is not compressed"),
    "no gzip": (b"plain\n" * 1000, 0, "it is not gzip"),
}


def is_start(values: list[Any]) -> bool:
    """Whether these are the first of the lines, about half of them."""
    return values == LINES[: len(values)] and 9_000 < len(values) < 11_000


def batches_until_failure(task: SourceTask) -> Iterator[Batch]:
    while True:
        try:
            polled = task.poll()
        except DataException as error:
            assert "is damaged" in str(error)  # noqa: PT017
            return
        assert polled is not None
        for batch in [polled] if isinstance(polled, Batch) else polled:
            assert isinstance(batch, Batch)
            yield batch


@pytest.mark.parametrize(("data", "count", "reason"), DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("piece_bytes", ["4194304", "50000"])
def test_lines_of_a_damaged_file_are_read_and_the_rest_is_an_error(
    logs: Logs, data: bytes, count: int | None, reason: str, piece_bytes: str
) -> None:
    logs.config |= {"errors.tolerance": "all", "batch.max.bytes": piece_bytes}
    damaged = logs.folder / "app.log.1.gz"
    damaged.write_bytes(data)
    age(damaged)
    logs.write("new\n")
    values = logs.read()
    assert values[-1] == "new"
    assert is_start(values[:-1]) if count is None else values[:-1] == LINES[:count]
    (error,) = logs.skipped
    assert f"File {damaged} is damaged: {reason}" in error
    assert "bytes of its content were read" in error
    assert not logs.has_new_data()
    assert (logs.read(), logs.skipped) == ([], [])


@pytest.mark.parametrize("data", [data for data, _, _ in DAMAGED.values()], ids=DAMAGED)
def test_a_run_that_fails_at_a_damaged_file_has_read_all_others(logs: Logs, data: bytes) -> None:
    damaged = logs.folder / "app.log.1.gz"
    damaged.write_bytes(data)
    age(damaged, 120)
    logs.write("other\n", logs.folder / "other.log")
    logs.write("new\n")
    age(logs.log)
    task = started(logs.config)
    values, error = polled_until_failure(task)
    assert isinstance(error, DataException)
    assert f"{damaged} is damaged" in str(error)
    assert values[-2:] == ["new", "other"]
    task.stop()


def test_a_damaged_file_fails_each_run_and_its_lines_come_once(logs: Logs) -> None:
    damaged = logs.folder / "app.log.1.gz"
    damaged.write_bytes(CUT)
    age(damaged)

    def failing_run() -> list[Any]:
        """What comes before the error; its offsets are kept, as a commit does."""
        task, values = started(logs.config, logs.offsets), []
        for batch in batches_until_failure(task):
            values += texts(batch)
            logs.offsets[partition_key(batch.source_partition or {})] = dict(batch.last_offset or {})
        task.stop()
        return values

    assert is_start(failing_run())
    assert logs.has_new_data()
    assert failing_run() == []
    whole = logs.folder / "whole"
    whole.write_bytes(PACKED)
    age(whole, 30)
    os.replace(whole, damaged)
    values = logs.read()
    assert not is_start(values)
    assert values == LINES[-len(values) :]


def test_a_file_in_the_making_is_no_error_until_it_is_at_rest(logs: Logs) -> None:
    growing = logs.folder / "app.log.1.gz"
    growing.write_bytes(CUT)
    values = logs.read()
    assert is_start(values)
    assert logs.skipped == []
    assert (logs.read(), logs.skipped) == ([], [])
    with growing.open("ab") as file:
        file.write(PACKED[len(CUT) :])
    assert values + logs.read() == LINES
    assert logs.skipped == []


def test_a_file_that_stays_in_the_making_is_an_error_once_it_is_at_rest(logs: Logs) -> None:
    growing = logs.folder / "app.log.1.gz"
    growing.write_bytes(CUT)
    assert is_start(logs.read())
    age(growing)
    assert logs.read() == []
    assert len(logs.skipped) == 1
    assert (logs.read(), logs.skipped) == ([], [])


def test_a_damaged_copy_of_what_was_read_brings_no_line_again(logs: Logs) -> None:
    logs.write("".join(f"{line}\n" for line in LINES))
    assert logs.read() == LINES
    logs.log.unlink()
    damaged = logs.folder / "app.log.1.gz"
    damaged.write_bytes(CUT)
    age(damaged)
    assert logs.read() == []
    assert len(logs.skipped) == 1
    assert (logs.read(), logs.skipped) == ([], [])


def test_a_folder_that_begins_at_the_ends_of_its_files_passes_over_damage(logs: Logs) -> None:
    logs.config["start.from"] = "end"
    for name, data in {"app.log.1.gz": CUT, "app.log.2.gz": PACKED[:-6], "app.log.3.gz": b"plain\n"}.items():
        (logs.folder / name).write_bytes(data)
        age(logs.folder / name)
    logs.write("old\n")
    assert (logs.read(), logs.skipped) == ([], [])
    logs.write("new\n")
    assert (logs.read(), logs.skipped) == (["new"], [])


def test_an_unended_last_line_is_a_record_where_no_byte_of_it_can_be_missing(logs: Logs) -> None:
    packed = gzip.compress(b"one\ntwo")
    for name, data in {"a.log.1.gz": packed + b"garbage", "b.log.1.gz": packed[:-6]}.items():
        (logs.folder / name).write_bytes(data)
        age(logs.folder / name, 120 if name.startswith("a") else 60)
    assert logs.read() == ["one", "two", "one"]
    assert ["3 more are an incomplete line" in error for error in sorted(logs.skipped)] == [False, True]


def test_entries_before_damage_are_whole(logs: Logs) -> None:
    logs.config["multiline.start.pattern"] = "^line"
    damaged = logs.folder / "app.log.1.gz"
    damaged.write_bytes(gzip.compress(b"line one\n more\nline two\n more\n")[:-6])
    age(damaged)
    assert logs.read() == ["line one\n more", "line two\n more"]
    assert len(logs.skipped) == 1


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_wrong_line_holds_no_other_file_up(logs: Logs, tolerance: str) -> None:
    logs.config |= {"line.format": "json", "errors.tolerance": tolerance}
    for name, text in {"a": '{"n":1}\n', "b": '{"n":2}\n{bad\n{"n":4}\n', "c": '{"n":3}\n'}.items():
        path = Path(f"{logs.folder}/{name}.log")
        logs.write(text, path)
        age(path, 200 - ord(name))
    task, found = started(logs.config), []
    while True:
        try:
            batches = task.poll()
        except DataException as error:
            found.append(str(error).rpartition("/")[2])
            continue
        if batches is None:
            break
        found += [json.loads(value)["n"] for value in texts(batches)]
    task.stop()
    wrong = "b.log up to byte 13 is not of format json"
    assert found == ([1, 2, 3, wrong, 4] if tolerance == "none" else [1, 2, wrong, 4, 3])


@pytest.mark.parametrize(("form", "bad"), [("text", b"\xff"), ("json", b"{bad")])
def test_a_small_file_of_wrong_lines_is_some_errors_and_its_good_lines(logs: Logs, form: str, bad: bytes) -> None:
    """Two million wrong lines in 10 kB, each of them an error, were 1.7 GB and minutes."""
    good = {"text": [b"1", b"2", b"3"], "json": [b'{"n":1}', b'{"n":2}', b'{"n":3}']}[form]
    lines = [good[0], *[bad] * 1500, good[1], *[bad] * 500_000, good[2]]
    logs.config |= {"line.format": form, "errors.tolerance": "all", "batch.max.bytes": str(4 << 20)}
    Path(f"{logs.folder}/app.log.1.gz").write_bytes(gzip.compress(b"\n".join(lines) + b"\n", 9))
    logs.config["paths"] = f"{logs.folder}/app.log*"
    before = time.process_time()
    assert logs.read() == (["1", "2", "3"] if form == "text" else [{"n": 1}, {"n": 2}, {"n": 3}])
    assert 1000 < len(logs.skipped) < 4000
    assert any("more lines of" in text and "cannot be read" in text for text in logs.skipped)
    assert time.process_time() - before < 30
    assert logs.read() == []
