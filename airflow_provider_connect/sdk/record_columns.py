"""Converts single records to columns of a batch, and back: values, keys, timestamps and headers. Headers stay bytes until they are read."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.records import Header, Headers, SinkRecord, SourceRecord
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.sdk.converter import HeaderConverter

Row = tuple[Any, Any, int | None, Headers]
"""Value, key, timestamp and headers of one record. Any: values of their schemas."""


@functools.cache
def headers_type() -> pa.DataType:
    """The Arrow type of a batch's ``headers``: list<struct<key: string not null, value: binary>>."""
    return pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))


def is_timestamp(type: pa.DataType) -> bool:
    """Whether a batch's ``timestamp`` may have this type."""
    types = pa.types
    return bool(types.is_integer(type) or (types.is_timestamp(type) and type.unit == "ms") or types.is_null(type))


def is_headers(type: pa.DataType) -> bool:
    """Whether headers of this type can be read as ``headers_type``. For example, this is true for Arrow's large types."""
    types = pa.types
    if type == headers_type() or types.is_null(type):
        return True
    if not types.is_list(type) and not types.is_large_list(type):
        return False
    return bool(types.is_struct(type.value_type) and {field.name for field in type.value_type} == {"key", "value"})


def rows_of(
    count: int,
    topic: str,
    *,
    value: tuple[pa.Array | None, Schema | None],
    key: tuple[pa.Array | None, Schema | None],
    timestamp: pa.Array | None,
    headers: pa.Array | None,
    converter: HeaderConverter,
) -> Iterator[Row]:
    """The records in these columns. A column may be None. A record's headers are decoded at their first use."""
    values, keys = ([None] * count if column is None else values_of(column, schema) for column, schema in (value, key))
    timestamps = [None] * count if timestamp is None else timestamp.cast(pa.int64()).to_pylist()
    return zip(values, keys, timestamps, _headers_of(count, topic, headers, converter), strict=True)


def _headers_of(count: int, topic: str, headers: pa.Array | None, converter: HeaderConverter) -> list[Headers]:
    if headers is None:
        return [Headers() for _ in range(count)]

    def decode(key: str, data: bytes | None) -> Header:
        schema, value = converter.to_connect_header(topic, key, data)
        return Header(key, value, schema)

    return [Headers.of_wire([(entry["key"], entry["value"]) for entry in row or ()], decode) for row in headers.to_pylist()]


def columns_of(records: Sequence[SourceRecord] | Sequence[SinkRecord], converter: HeaderConverter) -> dict[str, Any]:
    """The attributes of a batch of ``records``. All records have the same topic, partition and schemas."""
    first = records[0]
    values, keys = [record.value for record in records], [record.key for record in records]
    timestamps = [record.timestamp for record in records]
    has_key = first.key_schema is not None or any(key is not None for key in keys)
    return {
        "topic": first.topic,
        "kafka_partition": first.kafka_partition,
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
    return pa.array([_wire_headers(record, converter) for record in records], type=headers_type())


def _wire_headers(record: SourceRecord | SinkRecord, converter: HeaderConverter) -> list[Mapping[str, object]]:
    wire = record.headers.wire()
    if wire is not None:
        return [{"key": key, "value": data} for key, data in wire]
    return [
        {"key": header.key, "value": converter.from_connect_header(record.topic, header.key, header.schema, header.value)}
        for header in record.headers
    ]
