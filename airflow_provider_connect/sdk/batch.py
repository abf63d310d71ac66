"""A run of records of one topic in columns: the unit that moves. Slicing and filtering create no Python object per record."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.arrow_schema import schema_of
from airflow_provider_connect.sdk.columns import cast_to_schema, column_of, is_json, row_numbers, values_of
from airflow_provider_connect.sdk.converter import RAW_HEADERS, HeaderConverter
from airflow_provider_connect.sdk.records import Header, Headers, SinkRecord, SourceRecord, TopicPartition
from airflow_provider_connect.sdk.schema import Schema

_COLUMNS = ("value", "key", "headers", "timestamp", "kafka_offset")


@dataclass(slots=True)
class Batch:
    """Records of one topic. All columns have the same length; an absent ``key`` or ``value`` column is null throughout.

    The constructor raises ConnectException, with the attribute's name, for lengths that differ, wrong types, and an offset without a
    partition. It checks no single record: of ``source_offsets`` the first and the last entry.

    The schema of a column describes its values; None is schemaless data, that is scalars of one type or JSON text (``pa.json_()``).
    ``headers`` are list<struct<key: string, value: binary>>, bytes as on the topic. ``timestamp`` is int64 or timestamp('ms', 'UTC');
    None lets the producer decide. An empty batch may still carry the position of its source.

    Source: ``source_offset`` is the position after the whole batch, ``source_offsets`` one per record (None: no position to resume from)
    for tasks whose records may be dropped or fail one by one. Sink: the Kafka offsets from ``first_offset`` up to and without
    ``next_offset`` are covered; ``kafka_offset`` has each record's own, None means one after the other from ``first_offset``.
    ``original_topic`` and ``original_partition`` are set where a transformation has changed them: offsets are committed by
    ``topic_partition``.
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
    first_offset: int | None = None
    next_offset: int | None = None
    kafka_offset: pa.Array | None = None
    timestamp_type: str = "CreateTime"
    original_topic: str | None = None
    original_partition: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str) or not self.topic:
            raise _refused("topic", "a non-empty text", self.topic)
        self._check_columns()
        for name, schema in (("value_schema", self.value_schema), ("key_schema", self.key_schema)):
            if schema is not None and not isinstance(schema, Schema):
                raise _refused(name, "a Schema or None", schema)
        partition = self.kafka_partition
        if partition is not None and (type(partition) is not int or partition < 0):
            raise _refused("kafka_partition", "a number of 0 or more, or None", partition)
        if self.source_partition is not None or self.source_offset is not None or self.source_offsets is not None:
            self._check_source_offsets()

    def _check_columns(self) -> None:
        of_first, count = "", -1
        columns = (self.value, self.key, self.headers, self.timestamp, self.kafka_offset)
        for name, column in zip(_COLUMNS, columns, strict=True):
            if column is None:
                continue
            if not isinstance(column, pa.Array):
                raise _refused(name, "one pyarrow Array (Batch.of joins chunks, column_of takes Python values)", column)
            if count < 0:
                of_first, count = name, len(column)
            elif len(column) != count:
                raise ConnectException(f"Batch: {name} has {_records(len(column))}, but {of_first} has {_records(count)}")
        if self.timestamp is not None and not _is_timestamp(self.timestamp.type):
            raise _refused("timestamp", "a column of int64 or timestamp('ms', 'UTC')", self.timestamp)
        if self.headers is not None and self.headers.type != headers_type() and not _is_headers(self.headers.type):
            raise _refused("headers", "a column of list<struct<key: string, value: binary>>", self.headers)

    def _check_source_offsets(self) -> None:
        offsets = self.source_offsets
        _check_position("source_partition", self.source_partition)
        _check_position("source_offset", self.source_offset)
        if offsets is not None:
            if type(offsets) is not list and (not isinstance(offsets, Sequence) or isinstance(offsets, str | bytes)):
                raise _refused("source_offsets", "a list of mappings, one per record", offsets)
            if len(offsets) != self.num_records:
                raise ConnectException(
                    f"Batch: source_offsets has {len(offsets)} entries for {_records(self.num_records)}: give one offset per record, or "
                    "source_offset for the whole batch"
                )
            if offsets:
                _check_position("source_offsets[0]", offsets[0])
                _check_position("source_offsets[-1]", offsets[-1])
        if self.source_partition is None and (self.source_offset is not None or offsets):
            name = "source_offset" if self.source_offset is not None else "source_offsets"
            raise ConnectException(f"Batch: {name} needs a source_partition: an offset without a partition is never committed")

    @classmethod
    def of(cls, topic: str, value: Any = None, key: Any = None, *, schemaless: bool = False, **rest: Any) -> Self:
        """A batch whose schemas are taken from the columns' Arrow types unless ``value_schema`` or ``key_schema`` is given.

        A schema taken from a column is optional if the column has nulls; give the schema where that should not change between batches.
        With ``schemaless`` columns keep schema None. Columns are cast where their type is not quite their schema's
        (large_string, timestamp('us') …), and chunked ones are joined. ``rest`` are further attributes.
        """
        for name, column in (("value", value), ("key", key)):
            if column is not None and not isinstance(column, pa.Array | pa.ChunkedArray):
                raise _refused(name, "a pyarrow Array or ChunkedArray", column)
            given: Schema | None = rest.get(f"{name}_schema")
            schema = given if given is not None or schemaless or column is None else _schema_of_column(column)
            rest[name], rest[f"{name}_schema"] = None if column is None else cast_to_schema(column, schema), schema
        return cls(topic, **rest)

    @property
    def num_records(self) -> int:
        """How many records there are."""
        column = next((getattr(self, name) for name in _COLUMNS if getattr(self, name) is not None), None)
        return 0 if column is None else len(column)

    def __len__(self) -> int:
        return self.num_records

    def __bool__(self) -> bool:  # an empty batch still carries its position
        return True

    @property
    def last_offset(self) -> Mapping[str, object] | None:
        """The position after a source's batch: ``source_offset``, or else the last of ``source_offsets``; None: there is none."""
        return self.source_offset if self.source_offset is not None else _last_offset(self.source_offsets or ())

    @property
    def is_from_kafka(self) -> bool:
        """Whether these records were read from Kafka (a sink's) rather than from a source."""
        return self.first_offset is not None or self.kafka_offset is not None

    @property
    def kafka_offsets(self) -> pa.Array:
        """The offset of each record, int64; only where ``is_from_kafka``."""
        return row_numbers(self.num_records, self.first_offset or 0) if self.kafka_offset is None else self.kafka_offset

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of a sink's records in Kafka, before transformations."""
        partition = self.kafka_partition if self.original_partition is None else self.original_partition
        return TopicPartition(self.topic if self.original_topic is None else self.original_topic, 0 if partition is None else partition)

    def replace(self, **changes: Any) -> Self:  # Any: the batch's own attributes
        """A batch with some attributes changed. A sink's batch remembers its topic and partition as they were first."""
        if self.is_from_kafka:
            if "topic" in changes and self.original_topic is None:
                changes.setdefault("original_topic", self.topic)
            if "kafka_partition" in changes and self.original_partition is None:
                changes.setdefault("original_partition", self.kafka_partition)
        return dataclasses.replace(self, **changes)

    def slice(self, start: int, length: int | None = None) -> Self:
        """``length`` records from ``start`` on, without a copy.

        A slice that ends before the batch does has a ``source_offset`` only if the batch has one per record."""
        count = self.num_records
        start = min(start, count)
        stop = count if length is None else min(start + length, count)
        changes: dict[str, Any] = {
            name: column.slice(start, stop - start) for name in _COLUMNS if (column := getattr(self, name)) is not None
        }
        if self.source_offsets is not None:
            changes["source_offsets"] = self.source_offsets[start:stop]
        if stop < count:
            changes["source_offset"] = _last_offset(self.source_offsets[:stop]) if self.source_offsets is not None else None
        changes |= self._kafka_range(start, stop, count)
        return dataclasses.replace(self, **changes)

    def filter(self, mask: pa.BooleanArray) -> Self:
        """The records whose mask is true (null counts as false). What the batch covers, its offsets, stays as it is."""
        batch = self
        if self.first_offset is not None and self.kafka_offset is None:
            batch = dataclasses.replace(self, kafka_offset=self.kafka_offsets)
        changes: dict[str, Any] = {name: column.filter(mask) for name in _COLUMNS if (column := getattr(batch, name)) is not None}
        if self.source_offsets is not None:
            changes["source_offsets"] = list(itertools.compress(self.source_offsets, mask.to_pylist()))
        return dataclasses.replace(batch, **changes)

    def _kafka_range(self, start: int, stop: int, count: int) -> dict[str, int]:
        if self.first_offset is None:
            return {}
        first = self.first_offset if start == 0 else self._kafka_offset_at(start, count)
        ends = stop == count and self.next_offset is not None
        return {"first_offset": first, "next_offset": int(self.next_offset or 0) if ends else self._kafka_offset_at(stop, count)}

    def _kafka_offset_at(self, index: int, count: int) -> int:
        """The offset of record ``index``; behind the last record, the offset after it."""
        if self.kafka_offset is None:
            return int(self.first_offset or 0) + index
        if index < count:
            return int(self.kafka_offset[index].as_py())
        return int(self.kafka_offset[index - 1].as_py()) + 1 if index else int(self.first_offset or 0)

    # The record form

    def source_records(self, header_converter: HeaderConverter = RAW_HEADERS) -> list[SourceRecord]:
        """The records one by one. Without ``source_offsets`` only the last has an offset: the others are no positions to resume from."""
        count = self.num_records
        offsets: Sequence[Mapping[str, object] | None] = self.source_offsets or [None] * (count - 1) + [self.source_offset] * min(count, 1)
        rows = zip(self._rows(header_converter), offsets, strict=True)
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
            for (value, key, timestamp, headers), offset in rows
        ]

    def sink_records(self, header_converter: HeaderConverter = RAW_HEADERS) -> list[SinkRecord]:
        """The records one by one."""
        first, partition = self.first_offset or 0, self.topic_partition.partition
        offsets = range(first, first + self.num_records) if self.kafka_offset is None else self.kafka_offset.to_pylist()
        rows = zip(self._rows(header_converter), offsets, strict=True)
        return [
            SinkRecord(
                self.topic,
                partition if self.kafka_partition is None else self.kafka_partition,
                offset,
                key,
                value,
                self.key_schema,
                self.value_schema,
                timestamp,
                self.timestamp_type,
                headers,
                original_topic=self.original_topic,
                original_kafka_partition=partition,
            )
            for (value, key, timestamp, headers), offset in rows
        ]

    def _rows(self, converter: HeaderConverter) -> Iterable[tuple[Any, Any, int | None, Headers]]:
        count = self.num_records
        value = [None] * count if self.value is None else values_of(self.value, self.value_schema)
        key = [None] * count if self.key is None else values_of(self.key, self.key_schema)
        timestamp = [None] * count if self.timestamp is None else self.timestamp.cast(pa.int64()).to_pylist()
        return zip(value, key, timestamp, self._headers(converter), strict=True)

    def _headers(self, converter: HeaderConverter) -> list[Headers]:
        if self.headers is None:
            return [Headers() for _ in range(self.num_records)]

        def decode(key: str, data: bytes | None) -> Header:
            schema, value = converter.to_connect_header(self.topic, key, data)
            return Header(key, value, schema)

        rows = self.headers.to_pylist()
        return [Headers.of_wire([(entry["key"], entry["value"]) for entry in row or ()], decode) for row in rows]

    @classmethod
    def from_source_records(cls, records: Iterable[SourceRecord], header_converter: HeaderConverter = RAW_HEADERS) -> list[Self]:
        """Consecutive records of one topic, partition, schemas and source partition as one batch each, in order."""
        groups = itertools.groupby(records, key=lambda r: (r.topic, r.kafka_partition, r.source_partition, r.value_schema, r.key_schema))
        return [cls._of_source_group(list(group), header_converter) for _, group in groups]

    @classmethod
    def _of_source_group(cls, records: list[SourceRecord], converter: HeaderConverter) -> Self:
        first = records[0]
        offsets = [record.source_offset for record in records]
        return cls(
            **_columns_of(records, converter),
            kafka_partition=first.kafka_partition,
            source_partition=first.source_partition,
            source_offset=_last_offset(offsets),
            source_offsets=None if all(offset is None for offset in offsets[:-1]) else offsets,
        )

    @classmethod
    def from_sink_records(cls, records: Iterable[SinkRecord], header_converter: HeaderConverter = RAW_HEADERS) -> list[Self]:
        """Consecutive records of one topic, partition and schemas as one batch each, in order. Each covers the offsets of its records."""
        groups = itertools.groupby(
            records,
            key=lambda r: (r.topic, r.kafka_partition, r.topic_partition, r.value_schema, r.key_schema, r.timestamp_type),
        )
        return [cls._of_sink_group(list(group), header_converter) for _, group in groups]

    @classmethod
    def _of_sink_group(cls, records: list[SinkRecord], converter: HeaderConverter) -> Self:
        first, last = records[0], records[-1]
        original = first.topic_partition
        return cls(
            **_columns_of(records, converter),
            kafka_partition=first.kafka_partition,
            first_offset=first.kafka_offset,
            next_offset=last.kafka_offset + 1,
            kafka_offset=pa.array([record.kafka_offset for record in records], type=pa.int64()),
            timestamp_type=first.timestamp_type,
            original_topic=None if original.topic == first.topic else original.topic,
            original_partition=None if original.partition == first.kafka_partition else original.partition,
        )


def _refused(name: str, wanted: str, value: object) -> ConnectException:
    column = isinstance(value, pa.Array) and value.type
    return ConnectException(f"Batch: {name} must be {wanted}, got {column or f'{type(value).__name__} {value!r:.80}'}")


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _check_position(name: str, position: object) -> None:
    """A source partition or offset is None, or a mapping whose keys are text."""
    if position is None:
        return
    if type(position) is not dict and not isinstance(position, Mapping):  # the first is faster
        raise _refused(name, "a mapping or None", position)
    for key in position:
        if not isinstance(key, str):
            raise _refused(name, "a mapping whose keys are text", position)


def _is_timestamp(type: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(type) or (types.is_timestamp(type) and type.unit == "ms") or types.is_null(type))


def _is_headers(type: pa.DataType) -> bool:
    """Whether headers of a type that is not ``headers_type`` itself can be read as such: large types, for instance."""
    types = pa.types
    if types.is_null(type):
        return True
    if not types.is_list(type) and not types.is_large_list(type):
        return False
    return bool(types.is_struct(type.value_type) and {field.name for field in type.value_type} == {"key", "value"})


def _schema_of_column(column: pa.Array) -> Schema | None:
    if pa.types.is_null(column.type) or is_json(column.type):
        return None
    return schema_of(pa.field("column", column.type, nullable=column.null_count > 0))


def _last_offset(offsets: Sequence[Mapping[str, object] | None]) -> Mapping[str, object] | None:
    return next((offset for offset in reversed(offsets) if offset is not None), None)


def _columns_of(records: Sequence[SourceRecord] | Sequence[SinkRecord], converter: HeaderConverter) -> dict[str, Any]:
    """Topic, columns and schemas of records that agree in topic and schemas."""
    first = records[0]
    values, keys = [record.value for record in records], [record.key for record in records]
    timestamps = [record.timestamp for record in records]
    has_key = first.key_schema is not None or any(key is not None for key in keys)
    return {
        "topic": first.topic,
        "value": column_of(values, first.value_schema),
        "value_schema": first.value_schema,
        "key": column_of(keys, first.key_schema) if has_key else None,
        "key_schema": first.key_schema,
        "timestamp": None if all(timestamp is None for timestamp in timestamps) else pa.array(timestamps, type=pa.int64()),
        "headers": _header_column(records, converter),
    }


def _header_column(records: Sequence[SourceRecord] | Sequence[SinkRecord], converter: HeaderConverter) -> pa.Array | None:
    if not any(len(record.headers) for record in records):
        return None
    rows = [_wire_headers(record, converter) for record in records]
    return pa.array(rows, type=headers_type())


def _wire_headers(record: SourceRecord | SinkRecord, converter: HeaderConverter) -> list[dict[str, object]]:
    wire = record.headers.wire()
    if wire is not None:
        return [{"key": key, "value": data} for key, data in wire]
    return [
        {"key": header.key, "value": converter.from_connect_header(record.topic, header.key, header.schema, header.value)}
        for header in record.headers
    ]


@functools.cache
def headers_type() -> pa.DataType:
    """The Arrow type of a batch's ``headers``."""
    return pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
