"""Default values ↔ their JSON in an Avro schema: bytes are text of one character a byte, dates and times are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_provider_connect.codecs.json.values import JsonRules, integer_bytes, read_value, scaled, unscaled, write_value
from airflow_provider_connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, Struct

_RULES: Final = JsonRules()
_TIMES: Final = (DATE, TIME, TIMESTAMP)
_FLOATS: Final = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_Scalar = Callable[[Schema, Any], Any]  # Any: a value of any schema, or JSON


def is_avro_map(schema: Schema) -> bool:
    """Whether a map has the keys that Avro's maps have; others are arrays of records."""
    return schema.key_schema is not None and schema.key_schema.type is SchemaType.STRING and not schema.key_schema.optional


def default_to_json(schema: Schema, value: Any, name: Callable[[str], str]) -> Any:
    """The JSON of a default. ``name`` returns the name that a struct's field has in Avro."""
    if value is None:
        return None
    scalar = _TO_JSON.get(schema.logical_name or schema.type)
    if scalar is not None:
        return scalar(schema, value)
    if isinstance(value, Struct):
        return {name(each.name): default_to_json(each.schema, value.get(each.name), name) for each in schema.fields}
    if schema.key_schema is not None and schema.value_schema is not None:
        keys, values = schema.key_schema, schema.value_schema
        entries = [[default_to_json(keys, key, name), default_to_json(values, entry, name)] for key, entry in value.items()]
        return dict(entries) if is_avro_map(schema) else entries
    return value if schema.value_schema is None else [default_to_json(schema.value_schema, entry, name) for entry in value]


def default_from_json(schema: Schema, value: Any) -> Any:
    """The inverse. Raises DataException or an error of Python's for what does not fit."""
    if value is None:
        return None
    scalar = _FROM_JSON.get(schema.logical_name or schema.type)
    if scalar is not None:
        return scalar(schema, value)
    if schema.type is SchemaType.STRUCT:
        return Struct(schema, {each.name: default_from_json(each.schema, value.get(each.name)) for each in schema.fields})
    if schema.key_schema is not None and schema.value_schema is not None:
        keys, values = schema.key_schema, schema.value_schema
        entries = value.items() if isinstance(value, Mapping) else value
        return {default_from_json(keys, key): default_from_json(values, entry) for key, entry in entries}
    return value if schema.value_schema is None else [default_from_json(schema.value_schema, entry) for entry in value]


_TO_JSON: Final[Mapping[str, _Scalar]] = {
    DECIMAL: lambda schema, value: integer_bytes(unscaled(value, schema.scale)).decode("latin-1"),
    **dict.fromkeys(_TIMES, lambda schema, value: int(write_value(schema, value, _RULES))),
    SchemaType.BYTES: lambda _, value: bytes(value).decode("latin-1"),
}
_FROM_JSON: Final[Mapping[str, _Scalar]] = {
    DECIMAL: lambda schema, value: scaled(int.from_bytes(value.encode("latin-1"), "big", signed=True), schema.scale),
    **dict.fromkeys(_TIMES, lambda schema, value: read_value(schema, value, _RULES)),
    SchemaType.BYTES: lambda _, value: value.encode("latin-1"),
    **dict.fromkeys(_FLOATS, lambda _, value: float(value)),
}
