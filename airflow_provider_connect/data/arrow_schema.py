"""Schemas ↔ Arrow types and fields (docs/contract.md §11.1). Attributes that Arrow types cannot express are in the metadata of Arrow
fields."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.json_text import MAX_DEPTH
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE,
    DATE_SCHEMA,
    DECIMAL,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    MOST_DIGITS,
    PRECISION,
    SCALE,
    STRING_SCHEMA,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    Struct,
    decimal_number,
    decimal_schema,
)
from airflow_provider_connect.errors import SchemaException


def arrow_type(schema: Schema) -> pa.DataType:
    """The Arrow type of values of ``schema``. The metadata of its fields has the names, docs etc. of inner schemas."""
    logical = schema.logical_name
    if logical is not None:
        return _logical_arrow_type(logical, schema)
    if schema.value_schema is not None:
        if schema.key_schema is not None:
            return pa.map_(arrow_field("key", schema.key_schema).with_nullable(False), arrow_field("value", schema.value_schema))
        return pa.list_(arrow_field("item", schema.value_schema))
    if schema.type is SchemaType.STRUCT:
        return pa.struct([arrow_field(field.name, field.schema) for field in schema.fields])
    return pa.type_for_alias("binary" if schema.type is SchemaType.BYTES else schema.type.value)


def _logical_arrow_type(logical: str, schema: Schema) -> pa.DataType:
    if logical in (DATE, TIME):
        return pa.date32() if logical == DATE else pa.time32("ms")
    if logical == TIMESTAMP:
        return pa.timestamp("ms", "UTC")
    precision = MOST_DIGITS if abs(schema.scale) > 38 else decimal_number(schema, PRECISION, "38")
    return pa.decimal256(precision, schema.scale) if precision > 38 else pa.decimal128(38, schema.scale)


def arrow_field(name: str, schema: Schema) -> pa.Field:
    """An Arrow field with all attributes of ``schema``: ``optional`` is nullable, and the others are metadata ``connect.…``."""
    metadata = {
        "connect.name": schema.name,
        "connect.version": None if schema.version is None else str(schema.version),
        "connect.doc": schema.doc,
        "connect.parameters": None if schema.parameters is None else json.dumps(dict(schema.parameters)),
        "connect.default": None if schema.default is None else json.dumps(_default_to_json(schema, schema.default)),
    }
    given = {key: text for key, text in metadata.items() if text is not None}
    return pa.field(name, arrow_type(schema), nullable=schema.optional, metadata=given or None)


def schema_of(field: pa.Field) -> Schema:
    """The schema of an Arrow field: the exact schema for a field that ``arrow_field`` created, and the nearest schema for any other field.

    A width that Connect does not have becomes the next larger width (uint8 → INT16). Times finer than a millisecond become Time and
    Timestamp, whose unit is the millisecond. A timestamp without a zone is treated as UTC. Raises SchemaException for a type that Connect
    does not have, for two fields of the same name, and for more than ``MAX_DEPTH`` levels.
    """
    refuse_deep(field.type)
    return _schema_of(field)


def refuse_deep(type: pa.DataType) -> None:
    """Raise SchemaException for more than ``MAX_DEPTH`` levels of nested types, because Python limits recursion."""
    level = [type]
    for _ in range(MAX_DEPTH + 1):
        level = [each.field(number).type for each in level for number in range(each.num_fields)]
        if not level:
            return
    raise SchemaException(f"Values have more than {MAX_DEPTH} levels of structs and lists")


def _schema_of(field: pa.Field) -> Schema:
    metadata = {key.decode(): text.decode() for key, text in (field.metadata or {}).items() if key.startswith(b"connect.")}
    schema = dataclasses.replace(_schema_of_type(field.type, metadata), optional=field.nullable)
    changes: dict[str, Any] = {key: metadata[f"connect.{key}"] for key in ("name", "doc") if f"connect.{key}" in metadata}
    if "connect.version" in metadata:
        changes["version"] = int(metadata["connect.version"])
    elif "name" in changes:
        changes["version"] = None
    if "connect.parameters" in metadata:
        changes["parameters"] = json.loads(metadata["connect.parameters"])
    if "connect.default" in metadata:
        typed = dataclasses.replace(schema, **changes)
        changes["default"] = _default_from_json(typed, json.loads(metadata["connect.default"]))
    return dataclasses.replace(schema, **changes) if changes else schema


def _schema_of_type(type: pa.DataType, metadata: Mapping[str, str]) -> Schema:
    types = pa.types
    if types.is_dictionary(type):
        return _schema_of_type(type.value_type, metadata)
    if types.is_struct(type):
        fields = {field.name: _schema_of(field) for field in type}
        if len(fields) < type.num_fields:
            raise SchemaException(f"Two fields of {type} have the same name")
        return Schema.struct(fields)
    if types.is_map(type):
        return Schema.map(_schema_of(type.key_field), _schema_of(type.item_field))
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return Schema.array(_schema_of(type.value_field))
    if types.is_decimal(type):
        wide = {} if type.precision <= 38 else {PRECISION: str(type.precision)}
        return decimal_schema(type.scale, parameters={SCALE: str(type.scale), **wide})
    kind = _NAME.match(str(type))
    if kind is None or kind[0] not in _SCHEMA_BY_NAME:
        raise SchemaException(f"Arrow type {type} has no Connect schema")
    return _SCHEMA_BY_NAME[kind[0]]


_NAME: Final = re.compile(r"[a-z_]+[0-9]*")  # the type's name without unit, width or time zone
_SCHEMA_BY_NAME: Final = {
    **dict.fromkeys(("string", "large_string", "string_view"), STRING_SCHEMA),
    **dict.fromkeys(("binary", "large_binary", "fixed_size_binary", "binary_view"), BYTES_SCHEMA),
    **dict.fromkeys(("int64", "uint32", "uint64"), INT64_SCHEMA),
    **dict.fromkeys(("int32", "uint16"), INT32_SCHEMA),
    **dict.fromkeys(("int16", "uint8"), INT16_SCHEMA),
    **dict.fromkeys(("float", "halffloat"), FLOAT32_SCHEMA),
    **dict.fromkeys(("date32", "date64"), DATE_SCHEMA),
    **dict.fromkeys(("time32", "time64"), TIME_SCHEMA),
    "int8": INT8_SCHEMA,
    "double": FLOAT64_SCHEMA,
    "bool": BOOLEAN_SCHEMA,
    "timestamp": TIMESTAMP_SCHEMA,
}


def _default_to_json(schema: Schema, value: Any) -> Any:
    """A default as JSON, from which ``_default_from_json`` restores the same value."""
    if isinstance(value, Struct):
        value = [value.get_without_default(field.name) for field in schema.fields]
    elif isinstance(value, Mapping):
        value = list(value.items())
    return _converted(schema, value, _scalar_text, _default_to_json)


def _default_from_json(schema: Schema, value: Any) -> Any:
    value = _converted(schema, value, _FROM_TEXT.get(schema.logical_name or schema.type, str), _default_from_json)
    if value is not None and schema.type is SchemaType.STRUCT:
        return Struct.of_values(schema, value)
    return dict(value) if value is not None and schema.key_schema is not None else value


def _converted(schema: Schema, value: Any, scalar: Callable[[Any], Any], inner: Callable[[Schema, Any], Any]) -> Any:
    """``value`` with its parts converted. A struct becomes a list of its values, a map becomes a list of its pairs."""
    if value is None:
        return None
    if schema.logical_name is not None or schema.type is SchemaType.BYTES:
        return scalar(value)
    if schema.type is SchemaType.STRUCT:
        return [inner(field.schema, part) for field, part in zip(schema.fields, value, strict=True)]
    if schema.key_schema is not None and schema.value_schema is not None:
        return [(inner(schema.key_schema, key), inner(schema.value_schema, entry)) for key, entry in value]
    return value if schema.value_schema is None else [inner(schema.value_schema, entry) for entry in value]


def _scalar_text(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray | memoryview) else value.isoformat()


_FROM_TEXT: Final[Mapping[str, Callable[[str], Any]]] = {
    DECIMAL: Decimal,
    DATE: datetime.date.fromisoformat,
    TIME: datetime.time.fromisoformat,
    TIMESTAMP: datetime.datetime.fromisoformat,
    SchemaType.BYTES: base64.b64decode,
}
