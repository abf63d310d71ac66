"""FileSystemSink by itself, on a local folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.connectors.filesystem.sink import FileSystemSinkConnector
from airflow_provider_connect.sdk import ALL_ALLOWED, SinkTask, TopicPartition
from airflow_provider_connect.sdk.testing import MemorySinkContext
from airflow_provider_connect.sdk.testing.calls import start_task

PARTITION = TopicPartition("t", 0)


def started(folder: Path) -> SinkTask:
    settings = {"topics": "t", "name": "sink", "url": str(folder), "flush.size": "10"}
    task = start_task(FileSystemSinkConnector(), settings, MemorySinkContext(settings, [PARTITION]), ALL_ALLOWED)
    assert isinstance(task, SinkTask)
    return task


@pytest.mark.parametrize(
    ("first", "offset", "holds"),
    [
        (None, None, False),
        (None, 0, False),
        (0, None, True),
        (0, 0, True),
        (0, 1, False),
        (5, None, True),
        (5, 4, True),
        (5, 5, True),
        (5, 6, False),
    ],
)
def test_records_from_an_offset_on_are_in_files_that_begin_there_or_later(
    tmp_path: Path, first: int | None, offset: int | None, holds: bool
) -> None:
    folder = tmp_path / "topics/t/partition=0"
    folder.mkdir(parents=True)
    for name in ("t+1+0000000009.json", "t+01+0000000009.json", "u+0+0000000009.json"):
        (folder / name).touch()
    if first is not None:
        (folder / f"t+0+{first:010d}.json").touch()
    assert started(tmp_path).holds_records(PARTITION, offset) is holds
