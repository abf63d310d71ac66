"""Cast: fields, or whole keys and values, as another type."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.columns import conform
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Lambda, Type, java_text
from airflow_provider_connect.sdk.java_text import in_hash_order
from airflow_provider_connect.sdk.schema import Field, Schema, SchemaType
from airflow_provider_connect.transforms.cast_columns import cast_column
from airflow_provider_connect.transforms.cast_values import OUTPUTS, cast_value, check_input, names_of
from airflow_provider_connect.transforms.one_by_one import one_by_one
from airflow_provider_connect.transforms.one_side import PACKAGE, REPLACE_NULL, OneSide, require_map
from airflow_provider_connect.transforms.struct_columns import child, struct_column

SPEC: Final = "spec"

_PURPOSE: Final = "cast types"


def _parse_spec(mappings: list[str]) -> dict[str | None, SchemaType]:
    """The type that each field is cast to; None stands for the whole."""
    casts: dict[str | None, SchemaType] = {}
    for mapping in mappings:
        parts = mapping.split(":")
        while len(parts) > 1 and not parts[-1]:  # what Java's split leaves out
            parts.pop()
        if len(parts) > 2:
            raise ConfigException.of("renames", java_text(mappings), f"Invalid rename mapping: {mapping}")
        casts[parts[0].strip() if len(parts) == 2 else None] = _parse_type(parts[-1].strip())
    if None in casts and len(mappings) > 1:
        raise ConfigException(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in their spec"
        )
    return casts


def _parse_type(word: str) -> SchemaType:
    try:
        type = SchemaType[word.upper()]
    except KeyError as error:
        cause = f"java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type.{word.upper()}"
        raise ConfigException(f"Invalid value {cause} for configuration Invalid type found in casting spec: {word}") from error
    if type not in OUTPUTS:
        raise ConfigException(f"Cast transformation does not support casting to {type.name}; supported types are {names_of(OUTPUTS)}")
    return type


def _check_spec(_name: str, value: Any) -> None:
    if not value:
        raise ConfigException("Must specify at least one field to cast.")
    _parse_spec(value)


class Cast(OneSide):
    """Numbers wrap and lose their fraction as in Java; text must be a number in range."""

    config_def = ConfigDef(
        ConfigKey(
            SPEC,
            Type.LIST,
            validator=Lambda(_check_spec, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"),
            importance=Importance.HIGH,
            doc="List of fields and the type to cast them to of the form field1:type,field2:type to cast fields of Maps or Structs. "
            "A single type to cast the entire value. Valid types are int8, int16, int32, int64, float32, float64, boolean, and string. "
            "Note that binary fields can only be cast to string.",
        ),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._casts = _parse_spec(config[SPEC])
        self._whole = self._casts.get(None)

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        if self._whole is not None:
            cast = cast_column(column, schema, self._whole)
            kept = {"name": schema.name, "version": schema.version, "doc": schema.doc, "parameters": schema.parameters}
            after = _cast_schema(schema, self._whole, **kept)
            return self.replaced(batch, conform(cast, after), after)
        if schema.type is not SchemaType.STRUCT:
            raise DataException("Cannot list fields on non-struct type")
        if schema.default is not None:
            check_input(schema.type)
        after = dataclasses.replace(schema, fields=tuple(self._field_after(field) for field in schema.fields))
        columns = [self._field_column(column, field) for field in schema.fields]
        return self.replaced(batch, struct_column(after, columns, column), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        if self._whole is not None:
            return self.replaced_values(batch, one_by_one(partial(cast_value, schema=None, target=self._whole), values))
        return self.replaced_values(batch, one_by_one(self._cast_map, values))

    def _field_after(self, field: Field) -> Field:
        target = self._casts.get(field.name)
        return field if target is None else dataclasses.replace(field, schema=_cast_schema(field.schema, target))

    def _field_column(self, column: pa.Array, field: Field) -> pa.Array:
        values, target = child(column, field, fill=self.fills_null), self._casts.get(field.name)
        return values if target is None else cast_column(values, field.schema, target)

    def _cast_map(self, value: Any) -> dict[str, Any]:
        given = require_map(value, _PURPOSE)
        cast = ((name, cast_value(given.get(name), None, target)) for name, target in self._casts.items() if name is not None)
        return in_hash_order([*given.items(), *cast])


def _cast_schema(schema: Schema, target: SchemaType, **attributes: Any) -> Schema:  # Any: what else the schema keeps
    default = cast_value(schema.default, schema, target)
    typed = Schema(target, optional=schema.optional, **attributes)
    return typed if default is None or typed.logical_name is not None else typed.with_default(default)


class CastKey(Cast):
    """Of keys."""

    class_name = f"{PACKAGE}.Cast$Key"
    side = "key"


class CastValue(Cast):
    """Of values."""

    class_name = f"{PACKAGE}.Cast$Value"
    side = "value"
