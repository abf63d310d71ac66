"""Flatten: the fields of inner structs and maps moved to the top, under names joined by a delimiter."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey
from airflow_provider_connect.sdk.schema import Schema, SchemaType, Struct
from airflow_provider_connect.transforms.one_by_one import one_by_one
from airflow_provider_connect.transforms.one_side import PACKAGE, OneSide, require_map
from airflow_provider_connect.transforms.struct_columns import child, require_struct, schema_like, struct_column

DELIMITER = "delimiter"

_PURPOSE: Final = "flattening"


class Flatten(OneSide):
    """Lists stay as they are. A field is optional where a struct around it is, and takes its default from there."""

    config_def = ConfigDef(
        ConfigKey(
            DELIMITER,
            default=".",
            doc="Delimiter to insert between field names from the input record when generating field names for the output record",
        )
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._delimiter: str = config[DELIMITER]

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _PURPOSE)
        fields = list(self._schemas(schema, "", is_optional=schema.optional, default=schema.default))
        after = schema_like(schema, fields)
        return self.replaced(batch, struct_column(after, list(self._columns(column, schema)), column), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replaced_values(batch, one_by_one(self._flat, values))

    def _schemas(self, schema: Schema, prefix: str, *, is_optional: bool, default: Struct | None) -> Iterator[tuple[str, Schema]]:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            of_field, optional = field.schema, is_optional or field.schema.optional
            given = None if default is None else default.get(field.name)
            field_default = given if of_field.default is None else of_field.default
            if of_field.type is SchemaType.STRUCT:
                yield from self._schemas(of_field, name, is_optional=optional, default=field_default)
            elif of_field.type is SchemaType.MAP:
                raise DataException(f"Flatten transformation does not support MAP for record with schemas (for field {name}).")
            else:
                yield name, dataclasses.replace(of_field, optional=optional, default=field_default)

    def _columns(self, column: pa.Array, schema: Schema) -> Iterator[pa.Array]:
        for field in schema.fields:
            if field.schema.type is SchemaType.STRUCT:
                yield from self._columns(child(column, field, fill=False), field.schema)
            else:
                yield child(column, field, fill=True)

    def _flat(self, value: Any) -> dict[str, Any]:
        return dict(self._entries(require_map(value, _PURPOSE), ""))

    def _entries(self, value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, entry in value.items():
            name = self._name(prefix, key)
            if isinstance(entry, Mapping):
                yield from self._entries(entry, name)
            else:
                yield name, entry

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name


class FlattenKey(Flatten):
    """Of keys."""

    class_name = f"{PACKAGE}.Flatten$Key"
    side = "key"


class FlattenValue(Flatten):
    """Of values."""

    class_name = f"{PACKAGE}.Flatten$Value"
    side = "value"
