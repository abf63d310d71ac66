"""Batches: records of one topic as Arrow columns. Slicing and filtering create no Python object per record."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import row_numbers
from airflow_provider_connect.data.records import SinkRecord, SourceRecord, TopicPartition
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.converter import RAW_HEADERS, HeaderConverter
from airflow_provider_connect.sdk.record_columns import Row, columns_of, is_headers, is_timestamp, rows_of
from airflow_provider_connect.sdk.rows import Values, column_and_schema

CREATE_TIME = "CreateTime"


@dataclass(slots=True)
class Batch:
    """Records of one topic. All columns have the same length. If ``key`` or ``value`` is None, all keys or values are null.

    ``value_schema`` and ``key_schema`` describe the values of their columns. A column without a schema has scalars of one type, or JSON
    text (``pa.json_()``). ``headers`` is list<struct<key: string, value: binary>>; header values are the bytes on the topic. ``timestamp``
    is int64 or timestamp('ms', 'UTC'). If ``timestamp`` or ``kafka_partition`` is None, the producer sets it.

    ``source_offset`` is the position after the whole batch. ``source_offsets`` has one position per record, or None for a record after
    which a run cannot resume. A task sets ``source_offsets`` if single records may be dropped or fail. An empty mapping as the last offset
    deletes the source partition's offset. An empty batch may have a position, too.

    A sink and its transformations get batches that were read from Kafka. These batches also have the Kafka offsets of their records.
    ``replace``, ``filter`` and ``slice`` keep the offsets.

    The constructor raises ConnectException, with the attribute's name, for columns of different lengths, for wrong types, and for an offset
    without a source partition. It does not check single records. Of ``source_offsets`` it checks the first and last entry.
    """

    topic: str
    value: pa.Array | None = None
    key: pa.Array | None = None
    value_schema: Schema | None = None
    key_schema: Schema | None = None
    headers: pa.Array | None = None
    timestamp: pa.Array | None = None
    kafka_partition: int | None = None
    source_partition: Mapping[str, object] | None = None
    source_offset: Mapping[str, object] | None = None
    source_offsets: Sequence[Mapping[str, object] | None] | None = None

    is_from_kafka: ClassVar[bool] = False
    """Whether these records were read from Kafka for a sink. False: a source read them."""
    _COLUMNS: ClassVar[tuple[str, ...]] = ("value", "key", "headers", "timestamp")

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str) or not self.topic:
            raise _refused("topic", "a non-empty string", self.topic)
        self._check_columns()
        for name, schema in (("value_schema", self.value_schema), ("key_schema", self.key_schema)):
            if schema is not None and not isinstance(schema, Schema):
                raise _refused(name, "a Schema or None", schema)
        partition = self.kafka_partition
        if partition is not None and (type(partition) is not int or partition < 0):
            raise _refused("kafka_partition", "an integer of at least 0, or None", partition)
        if self.source_partition is not None or self.source_offset is not None or self.source_offsets is not None:
            self._check_source_offsets()

    def _check_columns(self) -> None:
        of_first, count = "", -1
        for name in self._COLUMNS:
            column = getattr(self, name)
            if column is None:
                continue
            if not isinstance(column, pa.Array):
                raise _refused(name, "one pyarrow Array (Batch.of accepts other forms)", column)
            if count < 0:
                of_first, count = name, len(column)
            elif len(column) != count:
                raise ConnectException(f"Batch: {name} has {_records(len(column))}, but {of_first} has {_records(count)}")
        if self.timestamp is not None and not is_timestamp(self.timestamp.type):
            raise _refused("timestamp", "a column of int64 or timestamp('ms', 'UTC')", self.timestamp)
        if self.headers is not None and not is_headers(self.headers.type):
            raise _refused("headers", "a column of list<struct<key: string, value: binary>>", self.headers)

    def _check_source_offsets(self) -> None:
        offsets = self.source_offsets
        self.source_partition = _checked_position("source_partition", self.source_partition)
        self.source_offset = _checked_position("source_offset", self.source_offset)
        if offsets is not None:
            if type(offsets) is not list and (not isinstance(offsets, Sequence) or isinstance(offsets, str | bytes)):
                raise _refused("source_offsets", "a list of mappings, one per record", offsets)
            if len(offsets) != self.num_records:
                raise ConnectException(
                    f"Batch: source_offsets has {len(offsets)} entries for {_records(self.num_records)}: give one offset per record, or "
                    "source_offset for the whole batch"
                )
            if offsets:
                _checked_position("source_offsets[0]", offsets[0])
                _checked_position("source_offsets[-1]", offsets[-1])
        if self.source_partition is None and (self.source_offset is not None or offsets):
            name = "source_offset" if self.source_offset is not None else "source_offsets"
            raise ConnectException(f"Batch: {name} needs a source_partition: an offset without a partition is never committed")

    @classmethod
    def of(
        cls,
        topic: str,
        value: Values | None = None,
        key: Values | None = None,
        *,
        value_schema: Schema | None = None,
        key_schema: Schema | None = None,
        schemaless: bool = False,
        headers: pa.Array | None = None,
        timestamp: pa.Array | None = None,
        kafka_partition: int | None = None,
        source_partition: Mapping[str, object] | None = None,
        source_offset: Mapping[str, object] | None = None,
        source_offsets: Sequence[Mapping[str, object] | None] | None = None,
    ) -> Self:
        """Create a batch from values and keys in other forms.

        Accepts an Arrow array or chunked array, and a list of dicts or of other Python values. Also accepts an Arrow table, record batches,
        or a frame of polars, pandas or another library with Arrow's C stream; their rows become structs.

        A schema that is not given is derived from the column's type, and is optional if the column has nulls. Pass a schema if it must not
        change between batches. A field that is null in all dicts is left out. With ``schemaless``, schemas are None and dicts become JSON.
        Columns are cast if their type differs slightly from the schema's (large_string, timestamp('us') …). Raises DataException for values
        that do not fit the schema, and ConnectException for other forms.
        """
        value, value_schema = _column_and_schema("value", value, value_schema, schemaless=schemaless)
        key, key_schema = _column_and_schema("key", key, key_schema, schemaless=schemaless)
        position = source_partition, source_offset, source_offsets
        return cls(topic, value, key, value_schema, key_schema, headers, timestamp, kafka_partition, *position)

    @property
    def num_records(self) -> int:
        """The number of records."""
        for name in self._COLUMNS:
            column = getattr(self, name)
            if column is not None:
                return len(column)
        return 0

    def __len__(self) -> int:
        return self.num_records

    def __bool__(self) -> bool:  # an empty batch may carry a position
        return True

    @property
    def last_offset(self) -> Mapping[str, object] | None:
        """The position after a source's batch: ``source_offset``, or the last of ``source_offsets``. None: it has no position."""
        return self.source_offset if self.source_offset is not None else _last_offset(self.source_offsets or ())

    # What a sink reads

    @property
    def topic_partition(self) -> TopicPartition:
        """The Kafka partition of a sink's records before transformations. Offsets are committed for this partition."""
        return TopicPartition(self.topic, self.kafka_partition or 0)

    @property
    def first_offset(self) -> int | None:
        """The first Kafka offset that a sink's batch covers. None for a source's batch."""
        return None

    @property
    def next_offset(self) -> int | None:
        """The next Kafka offset to read after a sink's batch. Offsets before it may have no record. None for a source's batch."""
        return None

    @property
    def kafka_offsets(self) -> pa.Array:
        """The Kafka offset of each record, int64. For a source's batch, the index of each record."""
        return row_numbers(self.num_records)

    def kafka_offset_at(self, index: int) -> int:
        """The Kafka offset of record ``index``; for a source's batch, ``index``."""
        return index

    @property
    def timestamp_type(self) -> str:
        """``CreateTime`` or ``LogAppendTime``."""
        return CREATE_TIME

    # Other batches

    def replace(self, **changes: Any) -> Self:  # Any: the batch's own attributes
        """A copy with some attributes changed. A sink's batch keeps its original topic and partition as ``topic_partition``."""
        return dataclasses.replace(self, **changes)

    def slice(self, start: int, length: int | None = None) -> Self:
        """The ``length`` records from index ``start`` on; without ``length``, all records from ``start`` on. Columns are not copied.

        A slice without the batch's last record has a ``source_offset`` only if the batch has ``source_offsets``."""
        count = self.num_records
        start = min(start, count)
        stop = count if length is None else min(start + length, count)
        return dataclasses.replace(self, **self._slice_of(start, stop, count))

    def _slice_of(self, start: int, stop: int, count: int) -> dict[str, Any]:
        """The attributes of a slice that differ from the batch's."""
        changes: dict[str, Any] = {
            name: column.slice(start, stop - start) for name in self._COLUMNS if (column := getattr(self, name)) is not None
        }
        if self.source_offsets is not None:
            changes["source_offsets"] = self.source_offsets[start:stop]
        if stop < count:
            changes["source_offset"] = _last_offset(self.source_offsets[:stop]) if self.source_offsets is not None else None
        return changes

    def filter(self, mask: pa.BooleanArray) -> Self:
        """The records whose mask is true; null counts as false. The result covers the same offsets as the batch."""
        changes: dict[str, Any] = {name: column.filter(mask) for name in self._COLUMNS if (column := getattr(self, name)) is not None}
        if self.source_offsets is not None:
            changes["source_offsets"] = list(itertools.compress(self.source_offsets, mask.to_pylist()))
        return dataclasses.replace(self, **changes)

    # The record form

    def source_records(self, header_converter: HeaderConverter = RAW_HEADERS) -> list[SourceRecord]:
        """Single records. Without ``source_offsets``, only the last record has an offset, because a run cannot resume after the others."""
        count = self.num_records
        offsets: Sequence[Mapping[str, object] | None] = self.source_offsets or [None] * (count - 1) + [self.source_offset] * min(count, 1)
        return [
            SourceRecord(
                self.source_partition,
                offset,
                self.topic,
                value,
                key,
                kafka_partition=self.kafka_partition,
                key_schema=self.key_schema,
                value_schema=self.value_schema,
                timestamp=timestamp,
                headers=headers,
            )
            for (value, key, timestamp, headers), offset in zip(self._rows(header_converter), offsets, strict=True)
        ]

    def sink_records(self, header_converter: HeaderConverter = RAW_HEADERS) -> list[SinkRecord]:
        """The records one by one."""
        original = self.topic_partition
        partition = original.partition if self.kafka_partition is None else self.kafka_partition
        return [
            SinkRecord(
                self.topic,
                partition,
                offset,
                key,
                value,
                self.key_schema,
                self.value_schema,
                timestamp,
                self.timestamp_type,
                headers,
                original_topic=original.topic,
                original_kafka_partition=original.partition,
            )
            for (value, key, timestamp, headers), offset in zip(self._rows(header_converter), self.kafka_offsets.to_pylist(), strict=True)
        ]

    def _rows(self, converter: HeaderConverter) -> Iterable[Row]:
        value, key = (self.value, self.value_schema), (self.key, self.key_schema)
        columns = {"timestamp": self.timestamp, "headers": self.headers}
        return rows_of(self.num_records, self.topic, value=value, key=key, **columns, converter=converter)

    @classmethod
    def from_source_records(cls, records: Iterable[SourceRecord], header_converter: HeaderConverter = RAW_HEADERS) -> list[Batch]:
        """Batches of consecutive records with the same topic, partition, schemas and source partition, in order."""
        groups = itertools.groupby(records, key=lambda r: (r.topic, r.kafka_partition, r.source_partition, r.value_schema, r.key_schema))
        return [_batch_of_source(list(group), header_converter) for _, group in groups]

    @classmethod
    def from_sink_records(cls, records: Iterable[SinkRecord], header_converter: HeaderConverter = RAW_HEADERS) -> list[Batch]:
        """Batches of consecutive records with the same topic, partition and schemas, in order. Each covers the offsets of its records."""
        groups = itertools.groupby(
            records,
            key=lambda r: (r.topic, r.kafka_partition, r.topic_partition, r.value_schema, r.key_schema, r.timestamp_type),
        )
        return [_batch_of_sink(list(group), header_converter) for _, group in groups]


@dataclass(slots=True)
class KafkaBatch(Batch):
    """Records read from Kafka. The framework creates it; authors use it as a Batch.

    It covers the Kafka offsets from ``first_offset`` up to ``next_offset``, exclusive. ``kafka_offset`` has the offset of each record. If
    ``kafka_offset`` is None, the offsets are consecutive from ``first_offset`` on. ``original_topic`` and ``original_partition`` are set if
    a transformation changed them.
    """

    first_offset: int | None = None
    next_offset: int | None = None
    kafka_offset: pa.Array | None = None
    timestamp_type: str = CREATE_TIME
    original_topic: str | None = None
    original_partition: int | None = None

    is_from_kafka: ClassVar[bool] = True
    _COLUMNS: ClassVar[tuple[str, ...]] = (*Batch._COLUMNS, "kafka_offset")

    @property
    def kafka_offsets(self) -> pa.Array:
        return row_numbers(self.num_records, self.first_offset or 0) if self.kafka_offset is None else self.kafka_offset

    def kafka_offset_at(self, index: int) -> int:
        return int(self.first_offset or 0) + index if self.kafka_offset is None else int(self.kafka_offset[index].as_py())

    @property
    def topic_partition(self) -> TopicPartition:
        partition = self.kafka_partition if self.original_partition is None else self.original_partition
        return TopicPartition(self.topic if self.original_topic is None else self.original_topic, partition or 0)

    def replace(self, **changes: Any) -> Self:
        if "topic" in changes and self.original_topic is None:
            changes.setdefault("original_topic", self.topic)
        if "kafka_partition" in changes and self.original_partition is None:
            changes.setdefault("original_partition", self.kafka_partition)
        return dataclasses.replace(self, **changes)

    def _slice_of(self, start: int, stop: int, count: int) -> dict[str, Any]:
        changes = Batch._slice_of(self, start, stop, count)
        if self.first_offset is not None:
            changes["first_offset"] = self.first_offset if start == 0 else self._offset_before(start, count)
            if stop < count or self.next_offset is None:
                changes["next_offset"] = self._offset_before(stop, count)
        return changes

    def _offset_before(self, index: int, count: int) -> int:
        """The offset of record ``index``; for ``index == count``, the offset after the last record."""
        if self.kafka_offset is None or index < count:
            return self.kafka_offset_at(index)
        return self.kafka_offset_at(index - 1) + 1 if index else int(self.first_offset or 0)

    def filter(self, mask: pa.BooleanArray) -> Self:
        if self.first_offset is None or self.kafka_offset is not None:
            return Batch.filter(self, mask)
        return Batch.filter(dataclasses.replace(self, kafka_offset=self.kafka_offsets), mask)


def _batch_of_source(records: list[SourceRecord], converter: HeaderConverter) -> Batch:
    offsets = [record.source_offset for record in records]
    return Batch(
        **columns_of(records, converter),
        source_partition=records[0].source_partition,
        source_offset=_last_offset(offsets),
        source_offsets=None if all(offset is None for offset in offsets[:-1]) else offsets,
    )


def _batch_of_sink(records: list[SinkRecord], converter: HeaderConverter) -> Batch:
    first, last = records[0], records[-1]
    original = first.topic_partition
    return KafkaBatch(
        **columns_of(records, converter),
        first_offset=first.kafka_offset,
        next_offset=last.kafka_offset + 1,
        kafka_offset=pa.array([record.kafka_offset for record in records], type=pa.int64()),
        timestamp_type=first.timestamp_type,
        original_topic=None if original.topic == first.topic else original.topic,
        original_partition=None if original.partition == first.kafka_partition else original.partition,
    )


def _column_and_schema(name: str, values: Values | None, given: Schema | None, *, schemaless: bool) -> tuple[Any, Schema | None]:
    if values is None:
        return None, given
    found = column_and_schema(values, given, schemaless=schemaless)
    if found is None:
        raise _refused(name, "an Arrow array or table, record batches, a frame or a list", values)
    return found


def _refused(name: str, wanted: str, value: object) -> ConnectException:
    column = isinstance(value, pa.Array) and value.type
    return ConnectException(f"Batch: {name} must be {wanted}, got {column or f'{type(value).__name__} {value!r:.80}'}")


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _checked_position(name: str, position: object) -> dict[str, object] | None:
    """A copy of ``position``, a source partition or offset: the author may change the original before the batch is committed. ``position``
    must be None, or a mapping with string keys."""
    if position is None:
        return None
    if type(position) is not dict and not isinstance(position, Mapping):  # ``type`` is faster
        raise _refused(name, "a mapping or None", position)
    for key in position:
        if not isinstance(key, str):
            raise _refused(name, "a mapping with string keys", position)
    return dict(position)


def _last_offset(offsets: Sequence[Mapping[str, object] | None]) -> Mapping[str, object] | None:
    return next((offset for offset in reversed(offsets) if offset is not None), None)
