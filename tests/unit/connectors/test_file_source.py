"""FileStreamSource: what it reads, where it goes on, and how it refuses wrong settings and offsets."""

import logging
import os
import resource
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from airflow_provider_connect.connectors import file_source
from airflow_provider_connect.connectors.file_source import FileReader, FileStreamSourceConnector, FileStreamSourceTask
from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException
from airflow_provider_connect.sdk import ALL_ALLOWED
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport
from airflow_provider_connect.sdk.testing.contexts import MemorySourceContext, partition_key
from tests.reaching import reaching


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.txt"


def task_at(path: Path, position: Any = None, **settings: str) -> FileStreamSourceTask:
    config = {"file": str(path), "topic": "lines", **settings}
    offsets = {} if position is None else {partition_key({"filename": str(path)}): {"position": position}}
    task = reaching(FileStreamSourceTask())
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


def test_the_distance_is_what_lies_behind_the_last_batch(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree\n")
    task = task_at(path, **{"batch.size": "1"})
    distances = [task.distance()]
    while task.poll() is not None:
        distances.append(task.distance())
    assert distances == [None, Distance(10, "bytes"), Distance(6, "bytes"), Distance(0, "bytes")]


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
    reader = FileReader(str(path), 0, ALL_ALLOWED, chunk_bytes=16)
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


def test_a_position_within_a_line_is_warned_of(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text("one\ntwo\nthree\n")
    assert read(task_at(path, 8)) == (["three"], 14)
    assert not caplog.records
    path.write_text("other lines\nthan before\n")
    assert read(task_at(path, 14)) == (["an before"], 24)
    assert "Position 14 of file" in caplog.text


def test_file_cut_short_is_read_from_its_beginning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text("new\n")
    assert read(task_at(path, 100)) == (["new"], 4)
    assert "truncated" in caplog.text


def test_file_cut_short_while_it_is_read(path: Path) -> None:
    path.write_bytes(b"0123456789\n" * 20)
    reader = FileReader(str(path), 0, ALL_ALLOWED, chunk_bytes=22)
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
    connector = reaching(FileStreamSourceConnector())
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
    connector = reaching(FileStreamSourceConnector())
    config = {"file": "/x", "topic": "t", "tasks.max": "3", "other": "kept"}
    connector.start(connector.config_def.parse(config))
    assert connector.task_configs(3) == [config]


def test_has_new_data_checks_the_file_only(path: Path) -> None:
    connector = reaching(FileStreamSourceConnector())

    def answer(position: int | None) -> bool | None:
        return connector.check_for_new_data(
            {"file": str(path), "topic": "t"}, lambda _: None if position is None else {"position": position}
        )

    assert answer(None) is False
    path.write_bytes(b"one\ntw")
    assert answer(None) is True
    assert answer(4) is False  # a line without its end
    assert answer(6) is False
    assert answer(100) is True  # cut short
    path.write_bytes(b"x" * 100_000)
    assert answer(0) is True
    assert connector.check_for_new_data({"topic": "t"}, lambda _: None) is None


def test_a_check_for_new_data_names_the_file_that_is_missing(path: Path) -> None:
    """The framework logs it, as that of every connector."""
    connector = reaching(FileStreamSourceConnector())
    assert connector.check_for_new_data({"file": str(path), "topic": "t"}, lambda _: None) is False
    assert connector.missing == f"There is no file {path}: nothing is read until there is"


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
    connector = reaching(FileStreamSourceConnector())
    for offsets in ([(partition, offset)], {None if partition is None else Frozen(partition): offset}):
        with pytest.raises(ConnectException) as raised:
            connector.alter_offsets({"file": "/x", "topic": "t"}, offsets)
        assert str(raised.value) == text


def test_good_offsets_and_any_tombstone_are_agreed_to() -> None:
    connector = reaching(FileStreamSourceConnector())
    assert connector.alter_offsets(
        {"file": "/x", "topic": "t"}, [({"filename": "/y"}, {"position": 7}), ({"rubbish": 1}, None), (None, None)]
    )
    with pytest.raises(ConnectException, match="Offsets cannot be modified if the 'file' configuration is unspecified"):
        connector.alter_offsets({"topic": "t"}, [])


def test_a_position_beyond_the_end_is_refused_where_the_file_is_at_hand(path: Path, tmp_path: Path) -> None:
    """A run would take the file for one that was cut short, and deliver all of it again."""
    path.write_text("one\ntwo\n")
    config = {"file": str(path), "topic": "t"}
    connector = reaching(FileStreamSourceConnector())
    with pytest.raises(ConnectException, match=f"The position 9 is beyond the end of {path}, which has 8 bytes"):
        connector.alter_offsets(config, [({"filename": str(path)}, {"position": 9})])
    assert connector.alter_offsets(config, [({"filename": str(path)}, {"position": 8}), ({"filename": "/y"}, {"position": 9})])
    assert FileStreamSourceConnector().alter_offsets(config, [({"filename": str(path)}, {"position": 9})]), (
        "a file out of reach tells nothing"
    )
    path.unlink()
    assert connector.alter_offsets(config, [({"filename": str(path)}, {"position": 9})])


# Lines that are too long


@pytest.fixture
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_source, "MAX_LINE_BYTES", 16)
    defaults = FileReader.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "chunk_bytes", 8)


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("length", [13, 14, 17, 31, 32, 33, 100])
def test_a_line_that_is_too_long_is_named_and_passed_over(path: Path, length: int, ending: str) -> None:
    path.write_bytes(f"one{ending}{'x' * length}{ending}three{ending}".encode() + b"\n")
    reader = FileReader(str(path), 0, ALL_ALLOWED, chunk_bytes=4)
    texts: list[str] = []
    refused: list[str] = []
    while True:
        try:
            found = reader.next(10)
        except DataException as error:
            refused.append(error.message)
            continue
        if found is None:
            break
        texts += found[0].to_pylist()
    begin, end = len("one" + ending), len("one" + ending) + length + len(ending)
    if length < 16:
        assert (texts[:3], refused) == (["one", "x" * length, "three"], [])
    else:
        assert texts[:2] == ["one", "three"]
        assert refused == [f"The line of {path} from position {begin} to {end} is {end - begin} bytes long: a line may have 16 bytes"]
    reader.close()


@pytest.mark.usefixtures("short_lines")
def test_the_position_behind_a_line_that_is_too_long_is_committed_though_nothing_follows(path: Path) -> None:
    path.write_text("one\n" + "x" * 40 + "\n")
    task = task_at(path)
    first = task.poll()
    assert first is not None
    assert first.source_offset == {"position": 4}
    with pytest.raises(DataException, match=r"from position 4 to 45 is 41 bytes long"):
        task.poll()
    behind = task.poll()
    assert behind is not None
    assert (behind.num_records, behind.source_offset, task.poll()) == (0, {"position": 45}, None)
    task.stop()
    assert read(task_at(path, 45)) == ([], None)


@pytest.mark.usefixtures("short_lines")
def test_a_line_without_end_fails_and_is_read_as_none(path: Path) -> None:
    path.write_text("one\n" + "x" * 40)
    task = task_at(path)
    assert task.poll() is not None
    for _ in range(2):
        with pytest.raises(ConnectException, match=r"at position 4 has no end within 40 bytes") as refused:
            task.poll()
        assert not isinstance(refused.value, DataException)
    task.stop()


@pytest.mark.soak
def test_a_line_without_end_takes_bounded_memory(path: Path) -> None:
    """A file of holes: 4 GiB that no disk holds."""
    with path.open("wb") as file:
        file.write(b"one\n")
        file.truncate(4 << 30)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = psutil.Process().memory_info().vms
    task = task_at(path)
    assert task.poll() is not None
    resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20), hard))
    try:
        with pytest.raises(ConnectException, match="has no end"):
            task.poll()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    task.stop()
