"""FileStreamSink: what it writes, what it refuses, and what its state beside the file does at each turn."""

import datetime
import hashlib
import json
import os
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors import commit_files
from airflow_provider_connect.connectors.commit_files import CommitFiles, CommittedState
from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector, FileStreamSinkTask
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import (
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT32_SCHEMA,
    STRING_SCHEMA,
    Schema,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException, ConnectException, FencedException, RetriableException, StoreException
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport
from airflow_provider_connect.sdk.testing.contexts import MemorySinkContext
from tests.reaching import reaching

ZERO, ONE = TopicPartition("words", 0), TopicPartition("words", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_files, "LOCK_SECONDS", 0.05)


class Tasks:
    """Makes started tasks of one file and ends them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made: list[FileStreamSinkTask] = []

    def __call__(self, claim: int = 1, *, exactly_once: bool = True, scope: str = "topic", tasks: int = 1) -> FileStreamSinkTask:
        config = {"file": str(self.path), "tasks.max": str(tasks)}
        task = reaching(FileStreamSinkTask())
        context = MemorySinkContext(config, [ZERO, ONE], claim_epoch=claim, exactly_once=exactly_once)
        context.claim = f"{scope}:{claim}"
        task.initialize(context)
        task.start(FileStreamSinkConnector.config_def.parse(config))
        self.made.append(task)
        return task

    def opened(self, claim: int = 1, **arguments: Any) -> FileStreamSinkTask:
        task = self(claim, **arguments)
        task.open([ZERO, ONE])
        return task


@pytest.fixture
def tasks(path: Path) -> Iterator[Tasks]:
    tasks = Tasks(path)
    yield tasks
    for task in tasks.made:
        task.stop()


def batch(*texts: str | None, first: int = 0) -> Batch:
    column = pa.array(texts, pa.string())
    return KafkaBatch("words", column, value_schema=STRING_SCHEMA, kafka_partition=0, first_offset=first, next_offset=first + len(texts))


def deliver(task: FileStreamSinkTask, *texts: str, upto: int) -> None:
    task.put(batch(*texts))
    assert task.pre_commit({ZERO: upto}) == {ZERO: upto}


def states(path: Path) -> list[str]:
    """The orders of claims, with the revisions."""
    names = (name.removeprefix(".out.txt.offsets.").lstrip("0") for name in os.listdir(path.parent) if ".offsets." in name)
    return sorted(re.sub("-[0-9a-f]{16}", "", name) for name in names)


# What a line is

PLACE = Schema.struct({"x": INT32_SCHEMA, "y": STRING_SCHEMA.as_optional()})


@pytest.mark.parametrize(
    ("schema", "values", "text"),
    [
        (STRING_SCHEMA, ["one", "zwö", ""], "one\nzwö\n\n"),
        (STRING_SCHEMA.as_optional(), [None, "x"], "null\nx\n"),
        (INT32_SCHEMA, [1, -2], "1\n-2\n"),
        (FLOAT64_SCHEMA, [1.0, 1e10, 1e-5], "1.0\n1.0E10\n1.0E-5\n"),
        (FLOAT32_SCHEMA, [0.10000000149011612], "0.1\n"),
        (BYTES_SCHEMA, [b"raw", b"\xff"], "raw\n\ufffd\n"),
        (decimal_schema(2), [Decimal("1.20")], "1.20\n"),
        (DATE_SCHEMA, [datetime.date(2020, 1, 1)], "Wed Jan 01 00:00:00 UTC 2020\n"),
        (PLACE, [Struct(PLACE, {"x": 1, "y": "z"}), Struct(PLACE, {"x": 2})], "Struct{x=1,y=z}\nStruct{x=2}\n"),
        (Schema.map(STRING_SCHEMA, INT32_SCHEMA), [{"a": 1, "b": 2}], "{a=1, b=2}\n"),
        (None, ["plain"], "plain\n"),
        (None, [True, None], "true\nnull\n"),
        (None, [{"b": 1, "a": [1, None, 2.5, True]}, "x"], "{a=[1, null, 2.5, true], b=1}\nx\n"),
        (None, [None, None], "null\nnull\n"),
    ],
)
def test_each_value_is_a_line_of_its_text(tasks: Tasks, schema: Schema | None, values: list[Any], text: str) -> None:
    for guarantee, expected in ((False, text), (True, text + text)):
        task = tasks.opened(exactly_once=guarantee)
        task.put(Batch("words", column_of(values, schema), value_schema=schema))
        task.put(Batch("words"))
        task.pre_commit({ZERO: len(values)})
        task.stop()
        assert tasks.path.read_text() == expected


def test_batch_without_a_value_column_is_nulls(tasks: Tasks, path: Path) -> None:
    task = tasks.opened()
    task.put(Batch("words", key=pa.array([1, 2])))
    task.pre_commit({ZERO: 2})
    assert path.read_text() == "null\nnull\n"


def test_slices_and_empty_texts(tasks: Tasks, path: Path) -> None:
    task = tasks.opened()
    task.put(batch("a", "b", "", "").slice(1, 3))
    task.put(batch(""))
    task.pre_commit({ZERO: 4})
    assert path.read_text() == "b\n\n\n\n"


# At least once


def test_at_least_once_appends_and_keeps_no_state(tasks: Tasks, path: Path) -> None:
    path.write_text("kept\n")
    first, second = tasks.opened(exactly_once=False), tasks.opened(exactly_once=False)
    assert first.open([ZERO]) is None
    first.put(batch("one"))
    second.put(batch("two"))
    first.put(batch("three"))
    first.pre_commit({ZERO: 2})
    assert path.read_text() == "kept\none\ntwo\nthree\n"
    assert os.listdir(path.parent) == ["out.txt"]


def test_at_least_once_continues_in_a_new_file_and_writes_removed_lines_again(tasks: Tasks, path: Path) -> None:
    task = tasks.opened(exactly_once=False)
    deliver(task, "one", upto=1)
    path.rename(path.with_suffix(".1"))
    deliver(task, "two", upto=2)
    assert (path.with_suffix(".1").read_text(), path.read_text()) == ("one\n", "two\n")
    task.put(batch("three"))
    path.unlink()
    with pytest.raises(RetriableException, match="was removed or replaced"):
        task.pre_commit({ZERO: 3})


def test_half_a_line_of_a_killed_task_swallows_nothing(tasks: Tasks, path: Path) -> None:
    path.write_text("whole\nha")
    deliver(tasks.opened(exactly_once=False), "half", upto=2)
    assert path.read_text() == "whole\nha\nhalf\n"


def test_devices_and_pipes_are_for_at_least_once(tmp_path: Path) -> None:
    connector = reaching(FileStreamSinkConnector())
    os.mkfifo(tmp_path / "pipe")
    support = {
        str(p): connector.exactly_once_support({"file": str(p)}) for p in ("/dev/null", tmp_path / "pipe", tmp_path, tmp_path / "new")
    }
    assert [answer is ExactlyOnceSupport.SUPPORTED for answer in support.values()] == [False, False, False, True]
    assert connector.exactly_once_support({}) is ExactlyOnceSupport.UNSUPPORTED
    task = Tasks(Path("/dev/null"))(exactly_once=False)
    deliver(task, "gone", upto=1)
    task.stop()


# What is refused


@pytest.mark.parametrize("settings", [{}, {"file": ""}])
def test_standard_output_is_refused(settings: dict[str, str]) -> None:
    connector = reaching(FileStreamSinkConnector())
    with pytest.raises(ConfigException, match=r"for configuration file: .*standard output.* Set it to the path"):
        connector.start(connector.config_def.parse(settings))


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("name", ["missing/out.txt", ".", "file/out.txt"])
def test_unwritable_output_names_key_path_and_reason(tmp_path: Path, name: str, exactly_once: bool) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / name
    with pytest.raises(ConfigException) as raised:
        Tasks(path)(exactly_once=exactly_once)
    assert str(raised.value).startswith(f"Invalid value {path} for configuration file: Couldn't find or create file")


@pytest.mark.parametrize("step", ["open", "put", "commit"])
def test_a_full_disk_is_named_with_the_file(tasks: Tasks, path: Path, step: str) -> None:
    task = tasks()
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: task.open([ZERO, ONE]),
        "put": lambda: task.put(batch(*"abc")),
        "commit": lambda: task.pre_commit({ZERO: 3}),
    }
    while (name := next(iter(calls))) != step:
        calls.pop(name)()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        with pytest.raises(ConnectException, match=f"{re.escape(str(path))}.*: File too large"):
            calls[step]()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_every_task_has_the_config() -> None:
    connector = reaching(FileStreamSinkConnector())
    connector.start(connector.config_def.parse({"file": "/x", "topics": "t"}))
    assert connector.task_configs(2) == [{"file": "/x", "topics": "t"}] * 2


# Exactly once


def state_file(path: Path, order: int, scope: str = "topic") -> Path:
    return path.with_name(f".{path.name}.offsets.{order:020d}-{hashlib.sha256(scope.encode()).hexdigest()[:16]}")


def test_state_beside_the_file_holds_what_was_committed(tasks: Tasks, path: Path) -> None:
    deliver(tasks.opened(7), "one", "two", upto=2)
    state = json.loads(state_file(path, 7).read_text())
    assert state == {
        "claim": "topic:7",
        "length": 8,
        "inode": path.stat().st_ino,
        "offsets": {"words": {"0": 2}},
        "topic_ids": {"words": "id-of-words"},
    }


def test_only_known_and_asked_for_partitions_are_returned(tasks: Tasks, path: Path) -> None:
    task = tasks(1)
    assert task.open([ZERO, ONE]) == {}
    deliver(task, "one", upto=1)
    task.stop()
    task = tasks(2)
    assert task.open([ONE]) == {}
    task.pre_commit({ONE: 5})
    task.stop()
    assert tasks(3).open([ZERO, ONE]) == {ZERO: 1, ONE: 5}


def test_file_without_state_is_kept(tasks: Tasks, path: Path) -> None:
    path.write_text("kept\n")
    task = tasks.opened(1)
    task.put(batch("lost"))
    task.stop()
    deliver(tasks.opened(2), "one", upto=1)
    assert path.read_text() == "kept\none\n"


def test_states_of_older_claims_are_removed(tasks: Tasks, path: Path) -> None:
    for claim in (1, 2, 3):
        task = tasks.opened(claim)
        deliver(task, str(claim), upto=claim)
        task.stop()
        assert states(path) == [str(claim)]
    assert path.read_text() == "1\n2\n3\n"


def test_copy_takes_over_from_a_process_that_holds_the_lock(tasks: Tasks, path: Path) -> None:
    zombie = tasks.opened(1)
    deliver(zombie, "one", upto=1)
    zombie.put(batch("never"))
    os.chmod(path, 0o640)
    before = path.stat()
    task = tasks(2)
    assert task.open([ZERO]) == {ZERO: 1}
    assert path.stat().st_ino != before.st_ino
    assert path.stat().st_mode == before.st_mode
    zombie.put(batch("never either"))
    deliver(task, "two", upto=2)
    with pytest.raises(FencedException, match="belongs to the newer claim topic:2"):
        zombie.pre_commit({ZERO: 9})
    assert path.read_text() == "one\ntwo\n"


def test_zombie_between_its_check_and_its_commit_changes_nothing(tasks: Tasks, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The zombie has seen no newer claim, is stopped, and commits after the newer one has taken over."""
    zombie = tasks.opened(1)
    deliver(zombie, "one", upto=1)
    zombie.put(batch("never"))
    write = CommitFiles.write

    def interrupted(self: CommitFiles, committed: CommittedState) -> None:
        monkeypatch.setattr(CommitFiles, "write", write)
        tasks.opened(2)
        write(self, committed)

    monkeypatch.setattr(CommitFiles, "write", interrupted)
    zombie.pre_commit({ZERO: 2})
    assert states(path) == ["1", "2"]
    task = tasks(3)
    assert task.open([ZERO]) == {ZERO: 1}
    deliver(task, "two", upto=2)
    assert path.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("order", [90, 3, 2])
def test_claims_of_a_new_config_topic_outrank_all_older_ones(tasks: Tasks, path: Path, order: int) -> None:
    old = tasks.opened(order, scope="old")
    deliver(old, "one", upto=1)
    first = tasks(3, scope="new")
    assert first.open([ZERO]) == {ZERO: 1}
    first.stop()  # before it has delivered anything
    task = tasks(4, scope="new")
    assert task.open([ZERO]) == {ZERO: 1}
    with pytest.raises(FencedException):
        deliver(old, "never", upto=2)
    deliver(task, "two", upto=2)
    task.stop()
    assert tasks(5, scope="new").open([ZERO]) == {ZERO: 2}
    assert path.read_text() == "one\ntwo\n"


def test_commit_of_nothing_new_writes_nothing(tasks: Tasks, path: Path) -> None:
    task = tasks.opened(1)
    deliver(task, "one", upto=1)
    state = state_file(path, 1)
    before = state.stat().st_ino
    task.pre_commit({ZERO: 1})
    assert state.stat().st_ino == before
    task.pre_commit({ZERO: 0})  # the group's offset was set back by another client
    assert tasks(2).open([ZERO]) == {ZERO: 0}


def test_cut_file_is_an_error(tasks: Tasks, path: Path) -> None:
    task = tasks.opened(1)
    deliver(task, "one", "two", upto=2)
    os.truncate(path, 3)
    with pytest.raises(StoreException, match="another process writes to it or truncates it"):
        task.put(batch("x"))
    task.stop()
    with pytest.raises(StoreException, match=r"has 3 bytes, but 8 bytes were committed: another process has truncated it"):
        tasks.opened(2)
    assert states(path) == ["1"]


def test_moved_file_is_begun_anew_at_the_offsets_reached(tasks: Tasks, path: Path) -> None:
    task = tasks.opened(1)
    deliver(task, "one", upto=1)
    task.stop()
    path.rename(path.with_suffix(".1"))
    task = tasks(2)
    assert task.open([ZERO]) == {ZERO: 1}
    deliver(task, "two", upto=2)
    task.stop()
    path.rename(path.with_suffix(".2"))
    path.write_text("x")
    task = tasks(3)
    assert task.open([ZERO]) == {ZERO: 2}
    deliver(task, "three", upto=3)
    assert [p.read_text() for p in (path.with_suffix(".1"), path.with_suffix(".2"), path)] == ["one\n", "two\n", "x\nthree\n"]


@pytest.mark.parametrize("is_committed", [True, False])
def test_removed_file_is_begun_anew_though_its_inode_comes_again(tasks: Tasks, path: Path, is_committed: bool) -> None:
    """File systems give the number of a removed file to the next one at once."""
    path.write_text("kept\n")
    task = tasks.opened(1)
    if is_committed:
        deliver(task, "one", upto=1)
    task.stop()
    path.unlink()
    task = tasks(2)
    assert task.open([ZERO]) == ({ZERO: 1} if is_committed else {})
    deliver(task, "two", upto=2)
    task.stop()
    assert path.read_text() == "two\n"
    assert tasks(3).open([ZERO]) == {ZERO: 2}


def test_lines_of_a_file_that_is_moved_before_their_commit_are_delivered(tasks: Tasks, path: Path) -> None:
    task = tasks.opened(1)
    task.put(batch("one"))
    path.rename(path.with_suffix(".1"))
    assert task.pre_commit({ZERO: 1}) == {ZERO: 1}
    path.write_text("longer than the moved file\n")
    deliver(task, "two", upto=2)
    task.stop()
    assert tasks(2).open([ZERO]) == {ZERO: 2}
    assert (path.with_suffix(".1").read_text(), path.read_text()) == ("one\n", "longer than the moved file\ntwo\n")


def test_lines_of_a_file_that_is_removed_before_their_commit_are_not_delivered(tasks: Tasks, path: Path) -> None:
    task = tasks.opened(1)
    task.put(batch("one"))
    path.unlink()
    with pytest.raises(FencedException, match="was removed or replaced while claim"):
        task.pre_commit({ZERO: 1})
    assert tasks(2).open([ZERO]) == {}


@pytest.mark.parametrize("is_within_a_commit", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_a_file_that_was_restored_with_its_offsets_is_not_continued(tasks: Tasks, path: Path, count: int, is_within_a_commit: bool) -> None:
    """The restored offsets are older than what this task has committed. To commit newer ones would lose the lines between them."""
    task = tasks.opened(1, tasks=count)
    deliver(task, "one", upto=1)
    folder = path.parent
    backup = shutil.copytree(folder, f"{folder}-backup")
    deliver(task, "two", upto=2)
    if is_within_a_commit:
        task.put(batch("three"))
    folder.rename(f"{folder}-moved")
    shutil.copytree(backup, folder)
    with pytest.raises(FencedException, match="was restored"):
        deliver(task, "three", upto=3)
    assert task.open([ZERO]) == {ZERO: 1}
    deliver(task, "two", "three", upto=3)
    assert path.read_text() == "one\ntwo\nthree\n"


def test_unreadable_state_is_an_error(tasks: Tasks, path: Path) -> None:
    state_file(path, 5).write_text("{}")
    with pytest.raises(StoreException, match="does not contain a committed length"):
        tasks.opened(6)


def test_unfinished_state_and_other_files_states_are_none(tasks: Tasks, path: Path) -> None:
    name = state_file(path, 9).name
    for other in (f"{name}.tmp-1", name.replace(".txt", "2txt"), f"{name}x"):
        (path.parent / other).write_text("rubbish")
    assert tasks(1).open([ZERO]) == {}


def test_symbolic_link_stays_one(tasks: Tasks, path: Path) -> None:
    real = path.parent / "real" / "data.txt"
    real.parent.mkdir()
    path.symlink_to(real)
    zombie = tasks.opened(1)
    deliver(zombie, "one", upto=1)
    deliver(tasks.opened(2), "two", upto=2)
    assert path.is_symlink()
    assert real.read_text() == "one\ntwo\n"


def test_same_claim_twice_is_not_mistaken_for_an_older_one(tasks: Tasks) -> None:
    tasks.opened(1)
    with pytest.raises(RetriableException, match="another process of the same claim"):
        tasks.opened(1)


def test_at_least_once_run_ends_the_state(tasks: Tasks, path: Path) -> None:
    task = tasks.opened(1)
    deliver(task, "one", upto=1)
    task.stop()
    deliver(tasks(2, exactly_once=False), "two", upto=2)
    assert states(path) == []
    assert tasks(3).open([ZERO]) == {}
    assert path.read_text() == "one\ntwo\n"


def test_altered_offsets_fence_every_writer(tasks: Tasks, path: Path) -> None:
    task = tasks.opened(4)
    deliver(task, "one", upto=1)
    config = {"file": str(path)}
    assert reaching(FileStreamSinkConnector()).alter_offsets(config, {ZERO: 7, ONE: 3})
    assert reaching(FileStreamSinkConnector()).alter_offsets(config, {ONE: None})
    assert states(path) == ["4.2"]
    with pytest.raises(FencedException):
        deliver(task, "never", upto=2)
    assert tasks(5).open([ZERO, ONE]) == {ZERO: 7}
    assert states(path) == ["5"]
    assert path.read_text() == "one\n"


def test_nothing_to_alter_is_agreed_to(path: Path) -> None:
    for config in ({}, {"file": str(path)}, {"file": str(path.parent / "missing" / "x")}):
        assert reaching(FileStreamSinkConnector()).alter_offsets(config, {ZERO: 1})
    assert not [name for name in os.listdir(path.parent) if ".offsets." in name]


# Several tasks


def test_several_tasks_of_a_claim_share_the_file(tasks: Tasks, path: Path) -> None:
    path.write_text("kept\n")
    first, second = tasks.opened(1, tasks=2), tasks.opened(1, tasks=2)
    first.put(batch("a1"))
    second.put(batch("b1"))
    second.pre_commit({ONE: 1})
    first.put(batch("a2"))
    first.pre_commit({ZERO: 2})
    second.put(batch("lost"))
    first.stop()
    second.stop()
    assert path.read_text() == "kept\nb1\na1\na2\n"
    assert tasks(2, tasks=2).open([ZERO, ONE]) == {ZERO: 2, ONE: 1}


def test_tasks_that_share_a_moved_file_continue_in_a_new_one(tasks: Tasks, path: Path) -> None:
    first, second = tasks.opened(1, tasks=2), tasks.opened(1, tasks=2)
    deliver(first, "one", upto=1)
    second.put(batch("two"))
    second.pre_commit({ONE: 1})
    path.rename(path.with_suffix(".1"))
    first.stop()
    first = tasks.opened(1, tasks=2)
    deliver(first, "three", upto=2)  # the committed length is now that of the new file
    second.put(batch("four"))
    second.pre_commit({ONE: 2})
    path.rename(path.with_suffix(".2"))
    path.write_text("another program's longer line\n")
    second.put(batch("five"))
    second.pre_commit({ONE: 3})
    deliver(first, "six", upto=3)
    moved = [path.with_suffix(suffix).read_text() for suffix in (".1", ".2")]
    assert [*moved, path.read_text()] == ["one\ntwo\n", "three\nfour\n", "another program's longer line\nfive\nsix\n"]
    for task in (first, second):
        task.stop()
    assert tasks(2, tasks=2).open([ZERO, ONE]) == {ZERO: 3, ONE: 3}


def test_dead_siblings_half_commit_is_written_over(tasks: Tasks, path: Path) -> None:
    first, second = tasks.opened(1, tasks=2), tasks.opened(1, tasks=2)
    deliver(first, "a1", upto=1)
    with path.open("ab") as file:
        file.write(b"half of a commit of a task that was ki")
    second.put(batch("b1"))
    second.pre_commit({ONE: 1})
    assert path.read_text() == "a1\nb1\n"


def test_several_tasks_of_an_older_claim_are_fenced(tasks: Tasks, path: Path) -> None:
    old = [tasks.opened(1, tasks=2), tasks.opened(1, tasks=2)]
    deliver(old[0], "a1", upto=1)
    new = [tasks.opened(2, tasks=2), tasks.opened(2, tasks=2)]
    for task in old:
        task.put(batch("never"))
        with pytest.raises(FencedException):
            task.pre_commit({ZERO: 2})
    new[1].put(batch("b1"))
    new[1].pre_commit({ONE: 1})
    deliver(new[0], "a2", upto=2)
    assert path.read_text() == "a1\nb1\na2\n"


def test_much_waiting_asks_for_a_commit(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.connectors.file_sink.MAX_BUFFERED_BYTES", 10)
    task = tasks.opened(1, tasks=2)
    task.put(batch("short"))
    assert task.context.commit_requests == 0  # type: ignore[attr-defined]
    task.put(batch("longer than that"))
    assert task.context.commit_requests == 1  # type: ignore[attr-defined]
