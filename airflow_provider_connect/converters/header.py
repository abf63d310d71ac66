"""SimpleHeaderConverter: headers as plain text; the type is inferred when they are read."""

from __future__ import annotations

import logging
from typing import Any

from airflow_provider_connect.sdk.converter import NULL, HeaderConverter, SchemaAndValue
from airflow_provider_connect.sdk.java_text import decode_utf8
from airflow_provider_connect.sdk.schema import BYTES_SCHEMA, Schema
from airflow_provider_connect.sdk.value_parser import parse_value
from airflow_provider_connect.sdk.value_text import values_text

log = logging.getLogger(__name__)


class SimpleHeaderConverter(HeaderConverter):
    """Connect's default: what cannot be read stays bytes."""

    class_name = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    aliases = ("SimpleHeaderConverter", "Simple")

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else values_text(schema, value).encode("utf-8", "replace")

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            return parse_value(decode_utf8(data))
        except (ValueError, ArithmeticError, RecursionError) as error:
            log.warning("Failed to deserialize value for header '%s' on topic '%s', so using byte array: %s", key, topic, error)
            return SchemaAndValue(BYTES_SCHEMA, data)
