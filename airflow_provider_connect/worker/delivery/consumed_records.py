"""Single records of raw batches, as they lie in Kafka: what a dead letter is made of. Made for records that failed, never for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_connect.errors import TaskException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.worker.delivery.kafka_reader import RawBatch
from airflow_provider_connect.worker.errors.failures import ConsumedRecord


def consumed(raw: RawBatch, index: int) -> ConsumedRecord:
    """Record number ``index`` of a batch; columns that were not read are null."""
    headers = _at(raw.headers, index) or []
    return ConsumedRecord(
        raw.partition.topic,
        raw.partition.partition,
        raw.first_offset + index if raw.offsets is None else int(raw.offsets[index].as_py()),
        key=_at(raw.key, index),
        value=_at(raw.value, index),
        headers=[(header["key"], header["value"]) for header in headers],
        timestamp=_at(raw.timestamp, index),
        timestamp_type=raw.timestamp_type,
    )


def _at(column: pa.Array | None, index: int) -> Any:  # Any: what the column holds
    return None if column is None else column[index].as_py()


def index_of(raw: RawBatch, offset: int) -> int | None:
    """Which record of the batch has this offset; None: it holds none."""
    if raw.offsets is None:
        index = offset - raw.first_offset
    else:
        index = int(np.searchsorted(raw.offsets.to_numpy(), offset))
        if index < raw.num_records and raw.offsets[index].as_py() != offset:
            return None
    return index if 0 <= index < raw.num_records else None


def consumed_at(raw: RawBatch, offset: int) -> ConsumedRecord:
    """The record at ``offset``, which the batch must hold."""
    index = index_of(raw, offset)
    if index is None:
        raise TaskException(f"A transformation has changed the Kafka offset of a record of {raw.partition} to {offset}, which was not read")
    return consumed(raw, index)


def offset_at(batch: Batch, index: int) -> int:
    """The offset of record ``index`` of a batch that was read from Kafka."""
    return int(batch.kafka_offset[index].as_py()) if batch.kafka_offset is not None else int(batch.first_offset or 0) + index


class Originals:
    """The raw batches whose offsets are not committed yet: a task may refuse a record long after it was put. Of those that it does not
    vouch for in ``most_bytes`` the oldest are forgotten."""

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
        """Forget what is committed: ``committed`` is the next record to read of each partition."""
        for partition, offset in committed.items():
            kept = self._raws.get(partition, [])
            gone = [raw for raw in kept if raw.next_offset <= offset]
            self.num_bytes -= sum(raw.num_bytes for raw in gone)
            self._raws[partition] = kept[len(gone) :]

    def find(self, partition: TopicPartition, offset: int) -> ConsumedRecord | None:
        """The record at ``offset``; None where it is not among those that were kept."""
        for raw in reversed(self._raws.get(partition, [])):
            index = index_of(raw, offset)
            if index is not None:
                return consumed(raw, index)
        return None
