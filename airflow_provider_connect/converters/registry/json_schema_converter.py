"""JsonSchemaConverter: JSON text as the JsonConverter writes it, with schemas in a registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider_connect.codecs.json.connect_schemas import JsonSchemaRules, connect_schema_of_json, json_schema_text
from airflow_provider_connect.codecs.json.values import JsonRules, write_value
from airflow_provider_connect.converters.json.converter import DECIMAL_FORMAT, REPLACE_NULL, SCHEMA_CONTENT, SCHEMAS_ENABLE, JsonConverter
from airflow_provider_connect.converters.json.schemas import schema_text
from airflow_provider_connect.converters.registry.converter import HEADER_BYTES, RegistryConverter, WriterSchema
from airflow_provider_connect.converters.registry.registry import SchemaText
from airflow_provider_connect.converters.registry.settings import CACHE_SIZE, KEEPS_NULLS, KEEPS_NULLS_KEY, REGISTRY_KEYS
from airflow_provider_connect.converters.schema_cache import SchemaCache
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.schema import Schema, SchemaType
from airflow_provider_connect.sdk.config_def import ConfigKey, OneOf, Type

IS_OPEN, NON_REQUIRED = "object.additional.properties", "use.optional.for.nonrequired"
_NO_END: Final = (1 << 31) - 1


class JsonSchemaConverter(RegistryConverter[None]):
    """JSON, with the rules of Confluent's converter. Values are the JsonConverter's text without an envelope."""

    class_name = "io.confluent.connect.json.JsonSchemaConverter"
    aliases = ("JsonSchemaConverter", "JsonSchema")
    kind = "JSON"
    config_def = REGISTRY_KEYS.with_keys(
        ConfigKey(
            DECIMAL_FORMAT,
            Type.STRING,
            "BASE64",
            validator=OneOf("NUMERIC", "BASE64", case_sensitive=False),
            doc="Whether decimals are numbers or text in base64.",
        ),
        ConfigKey(IS_OPEN, Type.BOOLEAN, True, doc="Whether the schemas allow properties that they do not name."),
        ConfigKey(NON_REQUIRED, Type.BOOLEAN, False, doc="Whether a property that is not required may be null or missing."),
        KEEPS_NULLS_KEY,
    )

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        values = JsonRules(self.settings[DECIMAL_FORMAT].upper() == "NUMERIC", not self.settings[KEEPS_NULLS])
        self._rules = JsonSchemaRules(values, self.settings[IS_OPEN], self.settings[NON_REQUIRED])
        self._writes = self._texts({SCHEMAS_ENABLE: "false"})
        self._reads = SchemaCache[JsonConverter](self._new_texts, self.settings[CACHE_SIZE])

    def _texts(self, settings: Mapping[str, str]) -> JsonConverter:
        converter = JsonConverter()
        replaces = "false" if self.settings[KEEPS_NULLS] else "true"
        converter.configure({DECIMAL_FORMAT: self.settings[DECIMAL_FORMAT], REPLACE_NULL: replaces, **settings}, is_key=self.is_key)
        return converter

    def _new_texts(self, schema: Schema) -> JsonConverter:
        content = schema_text(schema, lambda inner, value: write_value(inner, value, self._rules.values))
        return self._texts({SCHEMAS_ENABLE: "true", SCHEMA_CONTENT: content})

    def parse(self, text: SchemaText, version: int | None, _part: int | str = 0) -> tuple[None, Schema]:
        return None, connect_schema_of_json(text.text, text.references, self._rules, version=version)

    def schema_text(self, schema: Schema) -> tuple[str, str]:
        is_record = schema.type is SchemaType.STRUCT and schema.name is not None
        return json_schema_text(schema, self._rules), (schema.name or "") if is_record else ""

    def decode(self, reader: WriterSchema[None], column: pa.Array) -> pa.Array:
        payloads = pc.binary_slice(column, HEADER_BYTES, _NO_END)
        runs = self._reads(reader.schema).to_connect_column("", payloads)
        return runs[0].column if len(runs) == 1 else pa.concat_arrays([run.column for run in runs])

    def encode(self, writer: WriterSchema[None], schema: Schema, column: pa.Array) -> pa.Array:
        return self._writes.from_connect_column("", schema, column)
