"""FileStreamSource and FileStreamSink reach what the worker allows, and nothing else of the host."""

import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.commit_files import CommittedState
from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector, FileStreamSinkTask
from airflow_provider_connect.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk import STRING_SCHEMA, AllowedPaths, Batch, TopicPartition
from airflow_provider_connect.sdk.batch import KafkaBatch
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport
from airflow_provider_connect.sdk.testing.contexts import MemorySinkContext, MemorySourceContext

ZERO = TopicPartition("words", 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def dag_file(tmp_path: Path) -> Path:
    """A file of the host that no connector may touch."""
    file = tmp_path / "dag.py"
    file.write_text("import airflow\n")
    return file


def sink_task(data: Path, path: Path, *, exactly_once: bool, tasks: int = 1) -> FileStreamSinkTask:
    config = {"file": str(path), "tasks.max": str(tasks)}
    task = FileStreamSinkTask()
    task.allowed_paths = AllowedPaths((str(data),))
    task.initialize(MemorySinkContext(config, [ZERO], exactly_once=exactly_once))
    task.start(FileStreamSinkConnector.config_def.parse(config))
    return task


def source_task(data: Path, path: Path) -> FileStreamSourceTask:
    config = {"file": str(path), "topic": "t"}
    task = FileStreamSourceTask()
    task.allowed_paths = AllowedPaths((str(data),))
    task.initialize(MemorySourceContext(config))
    task.start(FileStreamSourceConnector.config_def.parse(config))
    return task


def batch(*texts: str) -> Batch:
    return KafkaBatch("words", pa.array(texts), value_schema=STRING_SCHEMA, kafka_partition=0, first_offset=0, next_offset=len(texts))


def test_a_source_reads_no_file_of_the_host(data: Path) -> None:
    (data / "link.txt").symlink_to("/etc/passwd")
    for path in (Path("/etc/passwd"), data / "link.txt", data / ".." / "dag.py"):
        with pytest.raises(ConfigException, match=r"may only use files below .*data .*connectors\.allowed\.paths"):
            source_task(data, path).poll()


def test_a_source_does_not_follow_a_file_that_is_replaced_by_a_link(data: Path, dag_file: Path) -> None:
    (data / "in.txt").write_text("one\n")
    task = source_task(data, data / "in.txt")
    first = task.poll()
    assert first is not None
    (data / "in.txt").unlink()
    (data / "in.txt").symlink_to(dag_file)
    with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
        task.poll()


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_sink_appends_to_no_file_of_the_host(data: Path, dag_file: Path, exactly_once: bool) -> None:
    (data / "link.txt").symlink_to(dag_file)
    for path in (dag_file, data / "link.txt", data / ".." / "new.py"):
        with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
            sink_task(data, path, exactly_once=exactly_once)
    assert dag_file.read_text() == "import airflow\n"
    assert sorted(path.name for path in data.parent.iterdir()) == ["dag.py", "data"]


@pytest.mark.parametrize("name", [".out.txt.offsets.{claim}.tmp-{pid}", ".out.txt.lock.{claim}", ".out.txt.lock"])
def test_links_under_the_names_of_a_sinks_side_files_lead_nowhere(data: Path, dag_file: Path, name: str) -> None:
    task = sink_task(data, data / "out.txt", exactly_once=True, tasks=2)
    claim = CommittedState(task.context.claim, task.context.claim_epoch, 0)
    (data / name.format(pid=os.getpid(), claim=claim.suffix)).symlink_to(dag_file)
    try:
        task.open([ZERO])
        task.put(batch("one"))
        task.pre_commit({ZERO: 1})
    except ConfigException as error:
        assert "connectors.allowed.paths" in error.message  # noqa: PT017  (a lock is refused, an unfinished state is replaced)
    assert dag_file.read_text() == "import airflow\n"


def test_validation_names_the_key_and_the_setting(data: Path, dag_file: Path) -> None:
    for kind in (FileStreamSinkConnector, FileStreamSourceConnector):
        connector = kind()
        connector.allowed_paths = AllowedPaths((str(data),))

        def errors(path: Path, connector: Any = connector) -> list[str]:
            values = connector.validate({"file": str(path), "topic": "t", "topics": "t"})
            return [error for value in values for error in value.errors if value.name == "file"]

        assert errors(data / "new.txt") == []
        assert errors(dag_file) == [connector.allowed_paths.refusal("file", str(dag_file)).message]
        with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
            connector.check({"file": str(dag_file), "topic": "t"})


def test_questions_of_throw_away_connectors_reveal_nothing_of_the_host(data: Path, dag_file: Path) -> None:
    sink, source = FileStreamSinkConnector(), FileStreamSourceConnector()
    sink.allowed_paths = source.allowed_paths = AllowedPaths((str(data),))
    answers = [sink.exactly_once_support({"file": str(path)}) for path in (dag_file, data.parent, data.parent / "nothing")]
    assert answers == [ExactlyOnceSupport.SUPPORTED] * 3
    for path in (dag_file, data.parent / "nothing"):
        with pytest.raises(ConfigException):
            source.check_for_new_data({"file": str(path), "topic": "t"}, lambda _: None)
        with pytest.raises(ConfigException):
            sink.alter_offsets({"file": str(path)}, {ZERO: 1})


def test_lines_of_several_tasks_stay_whole(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take less than it is given: then other tasks must not write in between."""
    write = os.write

    def short_write(descriptor: int, piece: Any) -> int:
        return write(descriptor, memoryview(piece)[:7])

    monkeypatch.setattr(os, "write", short_write)
    path, count = data / "out.txt", 60
    tasks = [sink_task(data, path, exactly_once=False, tasks=4) for _ in range(4)]

    def deliver(number: int) -> None:
        for line in range(count):
            tasks[number].put(batch(f"task {number} line {line} " + "x" * 20, f"task {number} line {line} too"))

    threads = [threading.Thread(target=deliver, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for task in tasks:
        task.pre_commit({})
        task.stop()
    wanted = {f"task {n} line {i} {end}" for n in range(4) for i in range(count) for end in ("x" * 20, "too")}
    lines = path.read_text().splitlines()
    assert (len(lines), set(lines)) == (8 * count, wanted)


def test_what_a_task_that_was_killed_in_its_turn_has_left_is_a_line_of_its_own(data: Path) -> None:
    first, second = (sink_task(data, data / "out.txt", exactly_once=False, tasks=2) for _ in range(2))
    first.put(batch("whole"))
    with (data / "out.txt").open("a") as killed:
        killed.write("part of a li")
    second.put(batch("next"))
    assert (data / "out.txt").read_text() == "whole\npart of a li\nnext\n"
    for task in (first, second):
        task.stop()
