"""The files of one topic partition whose records have many folders: how many are open at once, and that each record is in one of them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.filesystem.commit_chain import CommitChain
from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.connectors.filesystem.partition_files import FileNames, PartitionFiles
from airflow_provider_connect.connectors.filesystem.partitioners.partitioner import FieldPartitioner
from airflow_provider_connect.connectors.filesystem.partitioners.rotation import Rotation
from airflow_provider_connect.connectors.filesystem.partitioners.timestamps import Timestamps
from airflow_provider_connect.connectors.filesystem.schema_change import Compatibility
from airflow_provider_connect.connectors.filesystem.stores.local_store import LocalFile, LocalStore
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.offset_row import OffsetRow

MAX_OPEN_FILES = 7
SECONDS = 30.0


class CountedStore(LocalStore):
    """Notes which files were open at once, and the most of them."""

    most = 0

    def new_file(self, path: str) -> LocalFile:
        file = super().new_file(path)
        self.most = max(self.most, len(self.files_of.begun()))
        return file

    files_of: OpenFiles


class OpenFiles(PartitionFiles):
    def begun(self) -> Mapping[str, object]:
        return self._open


def opened(folder: Path, max_records: int = -1) -> OpenFiles:
    store = CountedStore(ALL_ALLOWED.folder("url", str(folder)))
    files = OpenFiles(
        TopicPartition("t", 0),
        store,
        CommitChain(store, "state"),
        file_format("json", None, {}),
        FieldPartitioner(("a",)),
        Rotation(Timestamps(), lambda: 0, ZoneInfo("UTC"), max_records=max_records),
        FileNames("data"),
        Compatibility.NONE,
        MAX_OPEN_FILES,
    )
    store.files_of = files
    files.chain.take("t-0", OffsetRow(None, "topic:1", 1))
    return files


def batch(texts: list[Any], first: int = 0) -> Batch:
    value = pa.array(
        [{"a": text, "n": first + number} for number, text in enumerate(texts)], pa.struct({"a": pa.string(), "n": pa.int64()})
    )
    return KafkaBatch("t", value, kafka_partition=0, first_offset=first, next_offset=first + len(texts))


def written(files: OpenFiles) -> dict[str, list[int]]:
    """By folder, the numbers in its finished files."""
    found: dict[str, list[int]] = {}
    for temporary, path in files.finished:
        numbers = [json.loads(line)["n"] for line in files.store.read(temporary).splitlines()]
        assert path.endswith(f"t+0+{numbers[0]:010d}.json")
        found.setdefault(path.split("/")[2], []).extend(numbers)
    return found


def max_open_files(files: OpenFiles) -> int:
    assert isinstance(files.store, CountedStore)
    return files.store.most


@pytest.mark.parametrize("values", [3, MAX_OPEN_FILES, MAX_OPEN_FILES + 1, 100])
@pytest.mark.parametrize("max_records", [-1, 10])
def test_no_more_files_are_open_than_there_may_be(tmp_path: Path, values: int, max_records: int) -> None:
    chance, files = random.Random(values), opened(tmp_path, max_records)
    texts = [f"v{chance.randrange(values)}" for _ in range(500)]
    for first in range(0, len(texts), 100):
        files.write(batch(texts[first : first + 100], first))
    files.end()
    expected: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        expected.setdefault(f"a={text}", []).append(number)
    assert written(files) == expected
    assert max_open_files(files) < MAX_OPEN_FILES  # before the last was counted


def test_a_batch_of_values_that_are_all_different_is_written_in_time(tmp_path: Path) -> None:
    """A process has perhaps a thousand files; ten thousand would end it, and each run after it."""
    files, begun = opened(tmp_path), time.process_time()
    files.write(batch([f"{number:x}" for number in range(1100)]))
    files.end()
    assert len(files.finished) == len(written(files)) == 1100
    assert max_open_files(files) < MAX_OPEN_FILES
    assert time.process_time() - begun < SECONDS


def test_a_value_without_a_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    files = opened(tmp_path)
    with pytest.raises(DataException, match="too many"):
        files.write(batch([*map(str, range(20)), "x" * 300]))
    assert not files.begun()
    assert not files.finished
