"""Cast: converts fields, or whole keys and values, to another type, with Java's results.

In columns, integers wrap, and floating-point numbers lose their fraction and saturate at the limits. Decimals, bytes, and strings that
Arrow and Java parse differently, are converted one by one, by the rules of ``cast_values``.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import cast_to_schema, column_of, values_of
from airflow_provider_connect.data.java_text import double_texts, in_hash_order, text_of
from airflow_provider_connect.data.schema import DATE, DECIMAL, INTEGER_BITS, TIME, TIMESTAMP, Field, Schema, SchemaType
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Type
from airflow_provider_connect.transforms.cast_values import FLOATS, OUTPUTS, cast_value, check_input, names_of
from airflow_provider_connect.transforms.one_side import REPLACE_NULL, OneSide, create_key_and_value, one_by_one
from airflow_provider_connect.transforms.requirements import require_map
from airflow_provider_connect.transforms.simple_date_format import SimpleDateFormat
from airflow_provider_connect.transforms.struct_columns import child, struct_column
from airflow_provider_connect.transforms.timestamps import DAY_MS, instants_of_column

SPEC: Final = "spec"

_PURPOSE: Final = "cast types"
_PLAIN_INTEGER: Final = "^-?[0-9]{1,18}$"
_PLAIN_NUMBER: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_DATE, _TIME = SimpleDateFormat("yyyy-MM-dd"), SimpleDateFormat("HH:mm:ss.SSS'Z'")
_TIMESTAMP: Final = SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def _parse_spec(mappings: list[str]) -> dict[str | None, SchemaType]:
    """The type for each field. The key None means the whole key or value."""
    casts: dict[str | None, SchemaType] = {}
    for mapping in mappings:
        parts = mapping.split(":")
        while len(parts) > 1 and not parts[-1]:  # Java's split drops trailing empty parts
            parts.pop()
        if len(parts) > 2:
            raise ConfigException.of("renames", text_of(mappings), f"Invalid rename mapping: {mapping}")
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
    """Casts fields, or the whole key or value. Numbers wrap and lose their fraction as in Java; a string must be a number in range."""

    config_def = ConfigDef(
        ConfigKey(
            SPEC,
            Type.LIST,
            validator=_check_spec,
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
            return self.replace_column(batch, cast_to_schema(cast, after), after)
        if schema.type is not SchemaType.STRUCT:
            raise DataException("Cannot list fields on non-struct type")
        if schema.default is not None:
            check_input(schema.type)
        after = dataclasses.replace(schema, fields=tuple(self._field_after(field) for field in schema.fields))
        columns = [self._field_column(column, field) for field in schema.fields]
        return self.replace_column(batch, struct_column(after, columns, column), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        if self._whole is not None:
            return self.replace_values(batch, one_by_one(partial(cast_value, schema=None, target=self._whole), values))
        return self.replace_values(batch, one_by_one(self._cast_map, values))

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


def _cast_schema(schema: Schema, target: SchemaType, **attributes: Any) -> Schema:  # Any: attributes of the schema
    default = cast_value(schema.default, schema, target)
    typed = Schema(target, optional=schema.optional, **attributes)
    return typed if default is None or typed.logical_name is not None else typed.with_default(default)


CastKey, CastValue = create_key_and_value(Cast)


def cast_column(column: pa.Array, schema: Schema, target: SchemaType) -> pa.Array:
    """``column`` of ``schema`` cast to ``target``; null stays null. Raises DataException for the first value that cannot be cast."""
    type = arrow_type(Schema(target))
    if column.null_count == len(column):
        return pa.nulls(len(column), type)
    check_input(schema.type)
    if schema.logical_name == DECIMAL or (schema.type is SchemaType.BYTES):
        return _one_by_one(column, schema, target)
    if schema.logical_name in (DATE, TIME, TIMESTAMP) and target is SchemaType.STRING:
        return _date_text(instants_of_column(column, schema))
    if schema.type is SchemaType.STRING:
        return _from_text(column, schema, target, type)
    return _from_float(column, schema, target, type) if schema.type in FLOATS else _from_integer(column, schema, target, type)


def _one_by_one(column: pa.Array, schema: Schema, target: SchemaType) -> pa.Array:
    cast = one_by_one(lambda value: cast_value(value, schema, target), values_of(column, schema))
    return column_of(cast, Schema(target, optional=True))


def _from_integer(column: pa.Array, schema: Schema, target: SchemaType, type: pa.DataType) -> pa.Array:
    if schema.type is SchemaType.BOOLEAN:
        return column.cast(type) if target in (SchemaType.STRING, SchemaType.BOOLEAN) else column.cast(pa.int8()).cast(type)
    if schema.logical_name is not None:
        column = column.cast(pa.int64() if schema.logical_name == TIMESTAMP else pa.int32())
    return pc.not_equal(column, 0) if target is SchemaType.BOOLEAN else column.cast(type, safe=False)


def _from_float(column: pa.Array, schema: Schema, target: SchemaType, type: pa.DataType) -> pa.Array:
    if target is SchemaType.STRING:
        return double_texts(column)
    if target in FLOATS:
        return column.cast(type, safe=False)
    if target is SchemaType.BOOLEAN:
        return pc.greater_equal(pc.abs(column), 1)
    wide, limit = (pa.int64(), 2.0**63) if target is SchemaType.INT64 else (pa.int32(), 2.0**31)
    numbers = column.cast(pa.float64())
    fits = pc.less(pc.abs(numbers), limit)  # false for NaN
    whole = pc.if_else(fits, numbers, pc.if_else(column.is_valid(), 0.0, None)).cast(wide, safe=False)
    for beyond, end in ((pc.greater_equal(numbers, limit), int(limit) - 1), (pc.less_equal(numbers, -limit), -int(limit))):
        if pc.any(beyond).as_py():
            whole = pc.if_else(beyond, pa.scalar(end, wide), whole)
    return whole.cast(type, safe=False)


def _from_text(column: pa.Array, schema: Schema, target: SchemaType, type: pa.DataType) -> pa.Array:
    if target is SchemaType.STRING:
        return column
    if target is SchemaType.BOOLEAN:
        return pc.equal(pc.ascii_lower(column), "true")
    plain = _PLAIN_INTEGER if target in INTEGER_BITS else _PLAIN_NUMBER
    if pc.all(pc.match_substring_regex(column, plain)).as_py():
        try:
            return column.cast(type)
        except pa.ArrowInvalid:  # out of range: casting one by one finds the value
            pass
    return _one_by_one(column, schema, target)


def _date_text(milliseconds: pa.Array) -> pa.Array:
    """Only the time for instants until the end of 1 January 1970, only the date at midnight, otherwise both. As in Connect, the instant
    decides, not the type."""
    midnight = pc.equal(pc.multiply(pc.divide(milliseconds, DAY_MS), DAY_MS), milliseconds)
    is_time = pc.less(milliseconds, DAY_MS)
    text = _TIMESTAMP.format_column(milliseconds)
    for is_so, format in ((midnight, _DATE), (is_time, _TIME)):
        if pc.any(is_so).as_py():
            text = pc.if_else(is_so, format.format_column(milliseconds), text)
    return text
