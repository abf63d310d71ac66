"""Records of one topic as bytes, in columns. Converters return them for a ``Batch``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(slots=True)
class EncodedBatch:
    """None means all null. ``value`` and ``key`` may have any Arrow type of bytes or text. They are stored as ``binary`` or
    ``large_binary``."""

    topic: str
    num_records: int
    value: pa.Array | None
    key: pa.Array | None = None
    headers: pa.Array | None = None
    timestamp: pa.Array | None = None
    kafka_partition: int | None = None

    def __post_init__(self) -> None:
        self.value, self.key = _with_offsets(self.value), _with_offsets(self.key)

    @property
    def num_bytes(self) -> int:
        """The size of keys and values in bytes."""
        return sum(_data_bytes(column) for column in (self.key, self.value) if column is not None)

    def slice(self, start: int, count: int) -> EncodedBatch:
        """``count`` records from record ``start`` on, without copying."""
        columns = (self.value, self.key, self.headers, self.timestamp)
        value, key, headers, timestamp = (None if c is None else c.slice(start, count) for c in columns)
        return EncodedBatch(self.topic, count, value, key, headers, timestamp, self.kafka_partition)

    def chunks(self, most_records: int, most_bytes: int) -> Iterator[EncodedBatch]:
        """The batch in pieces of ``most_records``. A piece with more than ``most_bytes`` is halved until it fits or has one record."""
        for start in range(0, self.num_records, most_records):
            yield from _halves(self.slice(start, min(most_records, self.num_records - start)), most_bytes)


def _halves(batch: EncodedBatch, most_bytes: int) -> Iterator[EncodedBatch]:
    if batch.num_records == 1 or batch.num_bytes <= most_bytes:
        yield batch
        return
    half = batch.num_records // 2
    yield from _halves(batch.slice(0, half), most_bytes)
    yield from _halves(batch.slice(half, batch.num_records - half), most_bytes)


def _with_offsets(column: pa.Array | None) -> pa.Array | None:
    """The column in a layout whose offsets give the lengths. Fixed-size columns and views have no offsets."""
    if column is None or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column
    return column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())


def _data_bytes(column: pa.Array) -> int:
    """The size of the values in bytes, from the column's offsets. Arrow's ``nbytes`` also counts other bytes if the column is a slice."""
    offsets = column.buffers()[1]
    if len(column) == 0 or offsets is None:
        return 0
    ends = memoryview(offsets).cast("q" if str(column.type).startswith("large_") else "i")
    return int(ends[column.offset + len(column)] - ends[column.offset])
