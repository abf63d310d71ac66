"""SimpleHeaderConverter: headers as plain text; the type is inferred when they are read."""

from __future__ import annotations

import logging
from typing import Any, Final

from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.converter import NULL, HeaderConverter, SchemaAndValue
from airflow_provider_connect.sdk.java_text import decode_utf8
from airflow_provider_connect.sdk.schema import BYTES_SCHEMA, Schema, SchemaType
from airflow_provider_connect.sdk.value_text import parse_value, values_text

_PRINTED_BY_ARROW: Final = frozenset(
    {SchemaType.STRING, SchemaType.BOOLEAN, SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64}
)

log = logging.getLogger(__name__)


class SimpleHeaderConverter(HeaderConverter):
    """Connect's default: what cannot be read stays bytes."""

    class_name = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    aliases = ("SimpleHeaderConverter", "Simple")

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else values_text(schema, value).encode("utf-8", "replace")

    def from_connect_header_column(self, topic: str, key: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        if schema is None or schema.logical_name is not None or schema.type not in _PRINTED_BY_ARROW:
            return super().from_connect_header_column(topic, key, schema, column)
        return column.cast(pa.string()).cast(pa.binary())

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            return parse_value(decode_utf8(data))
        except (ValueError, ArithmeticError, RecursionError) as error:
            log.warning("Failed to deserialize value for header '%s' on topic '%s', so using byte array: %s", key, topic, error)
            return SchemaAndValue(BYTES_SCHEMA, data)
