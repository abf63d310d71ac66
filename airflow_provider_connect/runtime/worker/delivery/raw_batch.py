"""Records of one partition as Kafka stores them, in columns, and the batches that a task still retains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_connect.data.columns import row_numbers
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import TaskException
from airflow_provider_connect.runtime.stores.log_consumer import Headers
from airflow_provider_connect.runtime.worker.errors.failures import ConsumedRecord
from airflow_provider_connect.sdk.batch import Batch

_COLUMNS = ("value", "key", "headers", "timestamp", "offsets")
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(slots=True)
class RawBatch:
    """Columns that were not requested are None. ``key`` and ``headers`` are also None if no record has any. A record has null headers if
    they are unreadable, because a name is not UTF-8. ``offsets`` is None if the offsets increase by one from ``first_offset``.
    ``next_offset`` is the offset at which reading continues. Record objects are created only for records that failed."""

    partition: TopicPartition
    first_offset: int
    next_offset: int
    value: pa.Array
    key: pa.Array | None = None
    headers: pa.Array | None = None
    timestamp: pa.Array | None = None
    timestamp_type: str = "CreateTime"
    offsets: pa.Array | None = None

    @property
    def num_records(self) -> int:
        return len(self.value)

    @property
    def num_bytes(self) -> int:
        """The size of keys, values and headers in memory."""
        return sum(int(column.nbytes) for column in (self.value, self.key, self.headers) if column is not None)

    def offset_column(self) -> pa.Array:
        return row_numbers(self.num_records, self.first_offset) if self.offsets is None else self.offsets

    def before(self, offset: int) -> RawBatch | None:
        """The records below ``offset``. None: there are no such records."""
        if self.next_offset <= offset:
            return self
        count = self._index_from(offset)
        if count <= 0:
            return None
        cut = {name: column.slice(0, count) for name in _COLUMNS if (column := getattr(self, name)) is not None}
        return replace(self, next_offset=offset, **cut)

    def record(self, index: int) -> ConsumedRecord:
        """Record number ``index``. Columns that were not read are null."""
        headers = _at(self.headers, index) or []
        return ConsumedRecord(
            self.partition.topic,
            self.partition.partition,
            self.first_offset + index if self.offsets is None else int(self.offsets[index].as_py()),
            key=_at(self.key, index),
            value=_at(self.value, index),
            headers=[(header["key"], header["value"]) for header in headers],
            timestamp=_at(self.timestamp, index),
            timestamp_type=self.timestamp_type,
        )

    def index_of(self, offset: int) -> int | None:
        """The index of the record with this offset. None: no record has it."""
        index = self._index_from(offset)
        if not 0 <= index < self.num_records or (self.offsets is not None and self.offsets[index].as_py() != offset):
            return None
        return index

    def _index_from(self, offset: int) -> int:
        """The index of the first record at or after ``offset``. The index is outside of the batch if all records are before ``offset`` or
        all are after it."""
        return offset - self.first_offset if self.offsets is None else int(np.searchsorted(self.offsets.to_numpy(), offset))

    def original(self, batch: Batch, index: int) -> ConsumedRecord:
        """The record of this batch from which converters and transformations have created record ``index`` of ``batch``."""
        offset = batch.kafka_offset_at(index)
        found = self.index_of(offset)
        if found is None:
            raise TaskException(
                f"A transformation has changed the Kafka offset of a record of {self.partition} to {offset}, which was not read"
            )
        return self.record(found)


def headers_column(rows: Iterable[Headers | None]) -> pa.Array:
    """Headers of each record. None: they are unreadable."""
    return pa.array([None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows], HEADERS_TYPE)


def _at(column: pa.Array | None, index: int) -> Any:  # Any: the value of any column
    return None if column is None else column[index].as_py()


class RetainedBatches:
    """Retains raw batches until their commit. Above ``most_bytes``, it drops the oldest uncommitted batches."""

    def __init__(self, most_bytes: int = 512 * 1024 * 1024) -> None:
        self._raws: dict[TopicPartition, list[RawBatch]] = {}
        self._most = most_bytes
        self.num_bytes = 0

    def keep(self, raw: RawBatch) -> None:
        kept = self._raws.setdefault(raw.partition, [])
        kept.append(raw)
        self.num_bytes += raw.num_bytes
        while self.num_bytes > self._most and len(kept) > 1:
            self.num_bytes -= kept.pop(0).num_bytes

    def release(self, committed: Mapping[TopicPartition, int]) -> None:
        """Drop committed batches. ``committed`` is the offset of the next record to read in each partition."""
        for partition, offset in committed.items():
            kept = self._raws.get(partition, [])
            gone = [raw for raw in kept if raw.next_offset <= offset]
            self.num_bytes -= sum(raw.num_bytes for raw in gone)
            self._raws[partition] = kept[len(gone) :]

    def find(self, partition: TopicPartition, offset: int) -> ConsumedRecord | None:
        """The record at ``offset``. None: it is not retained."""
        for raw in reversed(self._raws.get(partition, [])):
            index = raw.index_of(offset)
            if index is not None:
                return raw.record(index)
        return None
