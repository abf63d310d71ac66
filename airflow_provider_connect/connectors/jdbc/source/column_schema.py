"""The Connect schema of a column: the numeric mapping, logical types, nullability, defaults. Knows nothing of rows and SQL."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import UNLIMITED_SCALE, Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.source.config import AS_TEXT, NumericMapping
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    PRECISION,
    SCALE,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException

_WIDEST_INTEGER: Final = 18
_WIDEST_DECIMAL: Final = 38

_SCHEMAS: Final = {
    ColumnKind.BOOLEAN: BOOLEAN_SCHEMA,
    ColumnKind.INT8: INT8_SCHEMA,
    ColumnKind.INT16: INT16_SCHEMA,
    ColumnKind.INT32: INT32_SCHEMA,
    ColumnKind.INT64: INT64_SCHEMA,
    ColumnKind.FLOAT32: FLOAT32_SCHEMA,
    ColumnKind.FLOAT64: FLOAT64_SCHEMA,
    ColumnKind.STRING: STRING_SCHEMA,
    ColumnKind.OTHER: STRING_SCHEMA,
    ColumnKind.BYTES: BYTES_SCHEMA,
    ColumnKind.DATE: DATE_SCHEMA,
    ColumnKind.TIME: TIME_SCHEMA,
    ColumnKind.TIMESTAMP: TIMESTAMP_SCHEMA,
    ColumnKind.TIMESTAMP_TZ: TIMESTAMP_SCHEMA,
}


def schema_of_column(column: Column, mapping: NumericMapping) -> Schema:
    """The schema of a column's values. Only columns that are never null have a default, because for other columns a converter would write
    the default instead of null."""
    schema = _decimal(column, mapping) if column.kind is ColumnKind.DECIMAL else _SCHEMAS[column.kind]
    if column.is_nullable:
        return schema.as_optional()
    default = _default(column.default, schema)
    return schema if default is None else schema.with_default(default)


def _decimal(column: Column, mapping: NumericMapping) -> Schema:
    if column.precision is not None:
        scale = column.scale or 0
        if scale > 2 * _WIDEST_DECIMAL:
            most = 2 * _WIDEST_DECIMAL
            reason = f"Column {column.name} has {scale} digits after the point, more than a Decimal's {most}. Name the column in {AS_TEXT}."
            raise ConfigException.of(AS_TEXT, "", reason)
        if mapping is not NumericMapping.NONE and scale == 0 and column.precision <= _WIDEST_INTEGER:
            return _integer(column.precision)
        is_double = mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE
        is_double = is_double or (mapping is NumericMapping.BEST_FIT and column.precision <= _WIDEST_INTEGER)
        if is_double and scale > 0:
            return FLOAT64_SCHEMA
        return _exact(column.precision, scale)
    if mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE:
        return FLOAT64_SCHEMA
    return _exact(2 * _WIDEST_DECIMAL, UNLIMITED_SCALE)


def _integer(precision: int) -> Schema:
    for digits, schema in ((2, INT8_SCHEMA), (4, INT16_SCHEMA), (9, INT32_SCHEMA)):
        if precision <= digits:
            return schema
    return INT64_SCHEMA


def _exact(precision: int, scale: int) -> Schema:
    if precision <= _WIDEST_DECIMAL:
        return decimal_schema(scale)
    return decimal_schema(scale, parameters={SCALE: str(scale), PRECISION: str(min(precision, 2 * _WIDEST_DECIMAL))})


_TEXT: Final = re.compile(r"(?:[NE])?'((?:[^']|'')*)'(?:::[\w\s\"().,]+)?", re.DOTALL)
_NUMBER: Final = re.compile(r"\(?([+-]?\d+(?:\.\d+)?)\)?(?:::[\w\s\"().,]+)?")


def _default(expression: str | None, schema: Schema) -> Any:
    """The value of a default that is a plain literal. None for a computed default, and for a literal that does not fit."""
    literal = _literal(expression.strip()) if expression else None
    if literal is None:
        return None
    try:
        return _typed(literal, schema)
    except (ValueError, InvalidOperation):
        return None


def _literal(expression: str) -> str | None:
    text = _TEXT.fullmatch(expression)
    if text is not None:
        return text[1].replace("''", "'")
    number = _NUMBER.fullmatch(expression)
    if number is not None:
        return number[1]
    return expression.lower() if expression.lower() in ("true", "false") else None


def _typed(literal: str, schema: Schema) -> Any:
    if schema.logical_name is not None:
        if schema.type is not SchemaType.BYTES:
            return None
        value = Decimal(literal)
        return value.quantize(Decimal(1).scaleb(-schema.scale)) if value.is_finite() else None
    if schema.type is SchemaType.STRING:
        return literal
    if schema.type is SchemaType.BOOLEAN:
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(literal)
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return float(literal)
    return None if schema.type is SchemaType.BYTES else int(literal)
