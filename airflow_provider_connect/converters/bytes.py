"""ByteArrayConverter: bytes go through as they are."""

from __future__ import annotations

from typing import Any

from airflow_provider_connect.converters.data_converter import DataConverter
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.converter import ColumnRun, SchemaAndValue
from airflow_provider_connect.sdk.schema import OPTIONAL_BYTES_SCHEMA, Schema, SchemaType


class ByteArrayConverter(DataConverter):
    """Takes BYTES or schemaless bytes and nothing else; reads optional bytes. Copies nothing."""

    class_name = "org.apache.kafka.connect.converters.ByteArrayConverter"
    aliases = ("ByteArrayConverter", "ByteArray")

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        _refuse_other_schema(schema)
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise DataException(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")
        return None if value is None else bytes(value)

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(OPTIONAL_BYTES_SCHEMA, data)

    def from_connect_column(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        _refuse_other_schema(schema)
        if not pa.types.is_binary(column.type) and not pa.types.is_null(column.type):
            raise DataException(f"ByteArrayConverter is not compatible with objects of type {column.type}")
        return column.cast(pa.binary())

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        return [ColumnRun(len(column), OPTIONAL_BYTES_SCHEMA, column)] if len(column) else []


def _refuse_other_schema(schema: Schema | None) -> None:
    if schema is not None and schema.type is not SchemaType.BYTES:
        raise DataException(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
