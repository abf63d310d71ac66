"""The cases of Apache's connect/file tests that have no row in the tests of those connectors."""

from pathlib import Path

import pytest

from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector
from airflow_provider_connect.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport
from airflow_provider_connect.sdk.testing.contexts import MemorySourceContext, partition_key
from tests.reaching import reaching


def read(path: Path, position: int) -> list[tuple[str, int]]:
    """The lines of a run from a position, one in a batch, each with the position behind it."""
    config = {"file": str(path), "topic": "test", "batch.size": "1"}
    task = reaching(FileStreamSourceTask())
    task.initialize(MemorySourceContext(config, {partition_key({"filename": str(path)}): {"position": position}}))
    task.start(FileStreamSourceConnector.config_def.parse(config))
    found = []
    while (batch := task.poll()) is not None:
        assert batch.value is not None
        assert batch.source_offset is not None
        [text] = batch.value.to_pylist()
        found.append((text, int(str(batch.source_offset["position"]))))
    task.stop()
    return found


def test_lines_end_in_three_ways_and_a_last_carriage_return_waits(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    position, found = 0, []
    for written, lines in [
        ("", []),
        ("partial line", []),
        (" finished\n", [("partial line finished", 22)]),
        ("line1\rline2\r\nline3\nline4\n\r", [("line1", 28), ("line2", 35), ("line3", 41), ("line4", 47)]),
        ("subsequent text", [("", 48)]),
    ]:
        with path.open("a", newline="") as file:
            file.write(written)
        found = read(path, position)
        assert found == lines
        position = found[-1][1] if found else position


@pytest.mark.parametrize(
    ("line", "count"), [("1", 1000), ("7     ", 1000), ("*" * 1024, 1000), ("Neque porro quisquam est qui dolorem ipsum", 10_000)]
)
def test_a_poll_has_as_many_lines_as_batch_size_allows(tmp_path: Path, line: str, count: int) -> None:
    path = tmp_path / "lines"
    path.write_text(f"{line}\n" * count)
    config = {"file": str(path), "topic": "test", "batch.size": str(count // 2)}
    task = reaching(FileStreamSourceTask())
    task.initialize(MemorySourceContext(config, {}))
    task.start(FileStreamSourceConnector.config_def.parse(config))
    for _ in range(2):
        batch = task.poll()
        assert batch is not None
        assert batch.value is not None
        assert batch.value.to_pylist() == [line] * (count // 2)
    assert task.poll() is None
    task.stop()


@pytest.mark.parametrize("settings", [{}, {"topic": "   "}, {"topic": ""}, {"topic": "t", "batch.size": "abcd"}])
def test_a_source_needs_a_topic_and_a_number(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigException, match=r"topic|batch\.size"):
        FileStreamSourceConnector.config_def.parse({"file": "/x", **settings})


@pytest.mark.parametrize(("file", "support"), [("/x", ExactlyOnceSupport.SUPPORTED), (" ", ExactlyOnceSupport.UNSUPPORTED)])
def test_exactly_once_needs_a_file(file: str, support: ExactlyOnceSupport) -> None:
    connector = FileStreamSourceConnector()
    assert connector.exactly_once_support({"topic": "t", "file": file}) is support
    assert not connector.can_define_transaction_boundaries({"topic": "t", "file": file})
    assert FileStreamSourceConnector.config_def.parse({"topic": "t", "file": file})["batch.size"] == 2000


def test_offsets_of_several_partitions_and_of_none_are_agreed_to() -> None:
    connector, config = reaching(FileStreamSourceConnector()), {"file": "/x", "topic": "t"}
    assert connector.alter_offsets(config, [({"filename": "/x"}, {"position": 0}), ({"filename": "/y"}, None), ({}, None)])
    assert connector.alter_offsets(config, [])


@pytest.mark.parametrize("tasks", [1, 2])
def test_tasks_of_a_sink_have_all_settings(tasks: int) -> None:
    connector, config = reaching(FileStreamSinkConnector()), {"topics": "a,b", "file": "/x", "transforms": "insert"}
    connector.start(connector.config_def.parse(config))
    assert connector.task_configs(tasks) == [config] * tasks
