"""SetSchemaMetadata: another name or version for the schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.columns import conform
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Type
from airflow_provider_connect.sdk.schema import Schema, SchemaType, Struct
from airflow_provider_connect.transforms.one_side import PACKAGE, REPLACE_NULL, OneSide
from airflow_provider_connect.transforms.struct_columns import children, struct_column

NAME, VERSION = "schema.name", "schema.version"


class SetSchemaMetadata(OneSide):
    """Data must have a schema, unless it is null."""

    passes_null = False
    config_def = ConfigDef(
        ConfigKey(NAME, default=None, importance=Importance.HIGH, doc="Schema name to set."),
        ConfigKey(VERSION, Type.INT, None, importance=Importance.HIGH, doc="Schema version to set."),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        given = {"name": config[NAME], "version": config[VERSION]}
        self._changes = {attribute: value for attribute, value in given.items() if value is not None}
        if not self._changes:
            raise ConfigException("Neither schema name nor version configured")

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        after = _renamed(schema, self._changes)
        if schema.type is SchemaType.STRUCT:
            column = struct_column(after, children(column, schema, fill=self.fills_null), column)
        return self.replaced(batch, conform(column, after), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        if any(value is not None for value in values):
            raise DataException("Schema required for [updating schema metadata]")
        return batch


def _renamed(schema: Schema, changes: Mapping[str, Any]) -> Schema:
    """The schema with other attributes; a default that is a struct is one of the new schema."""
    default = schema.default
    if not isinstance(default, Struct):
        return dataclasses.replace(schema, **changes)
    after = dataclasses.replace(schema, default=None, **changes)
    values = [default.get_without_default(field.name) for field in schema.fields]
    return after.with_default(Struct.of_values(after, values))


class SetSchemaMetadataKey(SetSchemaMetadata):
    """Of keys."""

    class_name = f"{PACKAGE}.SetSchemaMetadata$Key"
    side = "key"


class SetSchemaMetadataValue(SetSchemaMetadata):
    """Of values."""

    class_name = f"{PACKAGE}.SetSchemaMetadata$Value"
    side = "value"
