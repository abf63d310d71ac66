"""FileStreamSource: what it reads, where it goes on, and what it says to wrong settings and offsets."""

import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.file import FileStreamSourceConnector, FileStreamSourceTask
from airflow_provider_connect.connectors.file_source import FileReader
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport
from airflow_provider_connect.sdk.schema import STRING_SCHEMA
from airflow_provider_connect.sdk.testing_contexts import MemorySourceContext, partition_key


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.txt"


def task_at(path: Path, position: Any = None, **settings: str) -> FileStreamSourceTask:
    config = {"file": str(path), "topic": "lines", **settings}
    offsets = {} if position is None else {partition_key({"filename": str(path)}): {"position": position}}
    task = FileStreamSourceTask()
    task.initialize(MemorySourceContext(config, offsets))
    task.start(FileStreamSourceConnector.config_def.parse(config))
    return task


def read(task: FileStreamSourceTask) -> tuple[list[str], int | None]:
    """All lines of a run, and the position after them."""
    texts: list[str] = []
    position = None
    while (batch := task.poll()) is not None:
        assert batch.value is not None
        assert batch.source_offset is not None
        texts += batch.value.to_pylist()
        position = batch.source_offset["position"]
    return texts, position  # type: ignore[return-value]


def test_lines_are_read_with_positions_in_bytes(path: Path) -> None:
    path.write_bytes("one\nzwö\r\nthree".encode())
    task = task_at(path)
    batch = task.poll()
    assert batch is not None
    assert batch.value is not None
    assert (batch.topic, batch.key, batch.value_schema, batch.value.type) == ("lines", None, STRING_SCHEMA, pa.string())
    assert (batch.source_partition, batch.source_offset) == ({"filename": str(path)}, {"position": 10})
    assert batch.value.to_pylist() == ["one", "zwö"]
    assert task.poll() is None


def test_partial_last_line_waits_for_the_next_run(path: Path) -> None:
    path.write_bytes(b"one\ntw")
    assert read(task_at(path)) == (["one"], 4)
    with path.open("ab") as file:
        file.write(b"o\r")
    assert read(task_at(path, 4)) == ([], None)
    with path.open("ab") as file:
        file.write(b"\nthree\n")
    assert read(task_at(path, 4)) == (["two", "three"], 15)


def test_run_ends_at_the_size_the_file_had(path: Path) -> None:
    path.write_bytes(b"one\n")
    task = task_at(path)
    assert task.poll() is not None
    with path.open("ab") as file:
        file.write(b"two\n")
    assert task.poll() is None
    assert read(task_at(path, 4)) == (["two"], 8)


def test_batch_size_limits_a_poll(path: Path) -> None:
    path.write_text("".join(f"{n}\n" for n in range(10)))
    task = task_at(path, **{"batch.size": "4"})
    polls = [task.poll() for _ in range(3)]
    assert [batch.num_records for batch in polls if batch is not None] == [4, 4, 2]
    assert [batch.source_offset for batch in polls if batch is not None] == [{"position": 8}, {"position": 16}, {"position": 20}]


def test_lines_across_pieces_and_longer_than_a_piece(path: Path) -> None:
    texts = ["x" * length for length in (0, 1, 5, 17, 64, 3, 200, 7)]
    path.write_text("\r\n".join([*texts, ""]), newline="")
    reader = FileReader(str(path), 0, chunk_bytes=16)
    found: list[str] = []
    while (lines := reader.next(3)) is not None:
        found += lines[0].to_pylist()
        position = lines[1]
    reader.close()
    assert (found, position) == (texts, path.stat().st_size)


def test_file_that_is_not_there_yet_is_waited_for(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = task_at(path)
    assert task.poll() is None
    assert task.poll() is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    path.write_text("one\n")
    assert read(task) == (["one"], 4)


def test_file_cut_short_is_read_from_its_beginning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text("new\n")
    assert read(task_at(path, 100)) == (["new"], 4)
    assert "cut short" in caplog.text


def test_file_cut_short_while_it_is_read(path: Path) -> None:
    path.write_bytes(b"0123456789\n" * 20)
    reader = FileReader(str(path), 0, chunk_bytes=22)
    assert reader.next(9) is not None
    path.write_bytes(b"new\n")
    lines = reader.next(9)
    reader.close()
    assert lines is not None
    assert (lines[0].to_pylist(), lines[1]) == (["new"], 4)


def test_replaced_file_is_finished_and_then_the_new_one_read(path: Path) -> None:
    path.write_bytes(b"old 1\nold 2\n")
    task = task_at(path, **{"batch.size": "1"})
    assert task.poll() is not None
    path.rename(path.with_suffix(".1"))
    with path.with_suffix(".1").open("ab") as file:
        file.write(b"old 3\nlast")
    path.write_bytes(b"new 1\n")
    assert read(task) == (["old 2", "old 3", "last", "new 1"], 6)


def test_removed_file_is_finished_and_positions_begin_again(path: Path) -> None:
    path.write_bytes(b"one\nlast")
    task = task_at(path)
    assert task.poll() is not None
    path.unlink()
    assert read(task) == (["last"], 0)


@pytest.mark.parametrize("settings", [{}, {"file": ""}])
def test_standard_input_is_refused(settings: dict[str, str]) -> None:
    connector = FileStreamSourceConnector()
    config = connector.config_def.parse({"topic": "t", **settings})
    with pytest.raises(ConfigException, match=r"for configuration file: .*standard input.* Set it to the path"):
        connector.start(config)
    assert connector.exactly_once_support({"topic": "t", **settings}) is ExactlyOnceSupport.UNSUPPORTED


def test_what_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ConfigException, match=r"for configuration file: This is not a regular file"):
            task_at(path).poll()


@pytest.mark.parametrize("position", ["x", -1, 1.5, True])
def test_committed_position_that_is_none_is_refused(path: Path, position: Any) -> None:
    with pytest.raises(ConnectException, match="must be a number ≥ 0, got"):
        task_at(path, position)


def test_one_task_with_the_config_as_it_is() -> None:
    connector = FileStreamSourceConnector()
    config = {"file": "/x", "topic": "t", "tasks.max": "3", "other": "kept"}
    connector.start(connector.config_def.parse(config))
    assert connector.task_configs(3) == [config]


def test_has_new_data_looks_at_the_file_only(path: Path) -> None:
    connector = FileStreamSourceConnector()

    def answer(position: int | None) -> bool | None:
        return connector.has_new_data({"file": str(path), "topic": "t"}, lambda _: None if position is None else {"position": position})

    assert answer(None) is False
    path.write_bytes(b"one\ntw")
    assert answer(None) is True
    assert answer(4) is False  # a line without its end
    assert answer(6) is False
    assert answer(100) is True  # cut short
    path.write_bytes(b"x" * 100_000)
    assert answer(0) is True
    assert connector.has_new_data({"topic": "t"}, lambda _: None) is None


PARTITION = (("filename", "/x"),)


class Frozen(dict[str, Any]):
    """A source partition as a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items())))


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        ({"filename": "/x"}, {"position": "four"}, "The value for the 'position' key in the offset is expected to be a Long value"),
        ({"filename": "/x"}, {"position": 1.5}, "The value for the 'position' key in the offset is expected to be a Long value"),
        ({"filename": "/x"}, {"position": None}, "The value for the 'position' key in the offset is expected to be a Long value"),
        ({"filename": "/x"}, {"position": True}, "The value for the 'position' key in the offset is expected to be a Long value"),
        ({"filename": "/x"}, {"position": -1}, "The value for the 'position' key in the offset should be a non-negative value"),
        ({"filename": "/x"}, {"line": 1}, "Offset objects should either be null or contain the key 'position'"),
        ({"filename": "/x"}, {}, "Offset objects should either be null or contain the key 'position'"),
        ({"path": "x"}, {"position": 1}, "Partition objects should contain the key 'filename'"),
        ({}, {"position": 1}, "Partition objects should contain the key 'filename'"),
        (None, {"position": 1}, "Partition objects cannot be null"),
    ],
)
def test_wrong_offsets_are_refused_in_connects_words(partition: dict[str, Any] | None, offset: dict[str, Any], text: str) -> None:
    connector = FileStreamSourceConnector()
    for offsets in ([(partition, offset)], {None if partition is None else Frozen(partition): offset}):
        with pytest.raises(ConnectException) as raised:
            connector.alter_offsets({"file": "/x", "topic": "t"}, offsets)
        assert str(raised.value) == text


def test_good_offsets_and_any_tombstone_are_agreed_to() -> None:
    connector = FileStreamSourceConnector()
    assert connector.alter_offsets(
        {"file": "/x", "topic": "t"}, [({"filename": "/y"}, {"position": 7}), ({"rubbish": 1}, None), (None, None)]
    )
    with pytest.raises(ConnectException, match="Offsets cannot be modified if the 'file' configuration is unspecified"):
        connector.alter_offsets({"topic": "t"}, [])
