"""AvroConverter: Avro's binary encoding, with schemas in a registry."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_connect.codecs.avro.avro_type import AvroType, parse_avro
from airflow_provider_connect.codecs.avro.connect_schemas import AvroRules, avro_schema_text, connect_schema
from airflow_provider_connect.codecs.avro.decoder import decode_records
from airflow_provider_connect.codecs.avro.encoder import AvroWriting, encode_records
from airflow_provider_connect.converters.registry.converter import HEADER_BYTES, RegistryConverter, WriterSchema
from airflow_provider_connect.converters.registry.registry import SchemaText
from airflow_provider_connect.converters.registry.settings import KEEPS_NULLS, KEEPS_NULLS_KEY, REGISTRY_KEYS
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.sdk.config_def import ConfigKey, Type

ENHANCED, META_DATA, SCRUB = "enhanced.avro.schema.support", "connect.meta.data", "scrub.invalid.names"


class AvroConverter(RegistryConverter[AvroType]):
    """Avro, with the rules of Confluent's converter for schemas, names, logical types, unions and enums."""

    class_name = "io.confluent.connect.avro.AvroConverter"
    aliases = ("AvroConverter", "Avro")
    kind = "AVRO"
    config_def = REGISTRY_KEYS.with_keys(
        ConfigKey(
            ENHANCED,
            Type.BOOLEAN,
            False,
            doc="Whether enums are written as enums, and branches of unions have names with their namespace.",
        ),
        ConfigKey(META_DATA, Type.BOOLEAN, True, doc="Whether schemas keep Connect's names, versions, docs, defaults and parameters."),
        ConfigKey(SCRUB, Type.BOOLEAN, False, doc="Whether characters that Avro's names cannot have are replaced by underscores."),
        KEEPS_NULLS_KEY,
    )

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        settings = self.settings
        self._rules = AvroRules(keeps_enums=settings[ENHANCED], has_metadata=settings[META_DATA], scrubs_names=settings[SCRUB])
        self._writing = AvroWriting(self._rules, keeps_nulls=settings[KEEPS_NULLS])

    def parse(self, text: SchemaText, version: int | None, _part: int | str = 0) -> tuple[AvroType, Schema]:
        type = parse_avro(text.text, text.references.values())
        return type, connect_schema(type, self._rules, version=version)

    def schema_text(self, schema: Schema) -> tuple[str, str]:
        text = avro_schema_text(schema, self._rules)
        type = parse_avro(text)
        records = [each for each in (type, *type.branches) if each.kind == "record"]
        return text, (records[0].name or "") if len(records) == 1 else ""

    def decode(self, reader: WriterSchema[AvroType], column: pa.Array) -> pa.Array:
        return decode_records(reader.parsed, reader.schema, column, HEADER_BYTES)

    def encode(self, writer: WriterSchema[AvroType], schema: Schema, column: pa.Array) -> pa.Array:
        return encode_records(writer.parsed, schema, column, self._writing)
