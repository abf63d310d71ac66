"""A converter of keys, values and headers alike, as most of Kafka Connect's are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Type
from airflow_provider_connect.sdk.converter import Converter, HeaderConverter, SchemaAndValue
from airflow_provider_connect.sdk.schema import Schema

CONVERTER_TYPE: Final = "converter.type"
TYPE_KEY: Final = ConfigKey(CONVERTER_TYPE, Type.STRING, importance=Importance.LOW, doc="How this converter will be used.")


class DataConverter(Converter, HeaderConverter):
    """Headers are converted one by one as a value is. ``settings`` are parsed by the class's ``config_def``."""

    config_def = ConfigDef(TYPE_KEY)
    settings: Config

    def configure(self, config: Mapping[str, str], *, is_key: bool | None = None) -> None:
        """``is_key`` None: for headers. Raises ConfigException with every error."""
        role = "header" if is_key is None else "key" if is_key else "value"
        self.is_key = bool(is_key)
        self.settings = self.config_def.parse({**config, CONVERTER_TYPE: role})

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def from_connect_header_column(self, topic: str, key: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        return self.from_connect_column(topic, schema, column)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, data)
