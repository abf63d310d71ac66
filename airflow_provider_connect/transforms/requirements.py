"""Checks of records and of name lists in configs, with Connect's messages.

The messages have Java's class names, because users search for them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.java_text import text_of
from airflow_provider_connect.data.schema import DECIMAL, Schema, SchemaType, Struct
from airflow_provider_connect.errors import ConfigException, DataException

_BY_TYPE: Final = {
    SchemaType.INT8: "java.lang.Byte",
    SchemaType.INT16: "java.lang.Short",
    SchemaType.INT32: "java.lang.Integer",
    SchemaType.INT64: "java.lang.Long",
    SchemaType.FLOAT32: "java.lang.Float",
    SchemaType.FLOAT64: "java.lang.Double",
    SchemaType.BOOLEAN: "java.lang.Boolean",
    SchemaType.STRING: "java.lang.String",
    SchemaType.BYTES: "[B",
    SchemaType.ARRAY: "java.util.ArrayList",
    SchemaType.MAP: "java.util.HashMap",
    SchemaType.STRUCT: "org.apache.kafka.connect.data.Struct",
}
_BY_PYTHON_TYPE: Final[tuple[tuple[tuple[type, ...], str], ...]] = (
    ((bool,), "java.lang.Boolean"),
    ((int,), "java.lang.Long"),
    ((float,), "java.lang.Double"),
    ((str,), "java.lang.String"),
    ((bytes, bytearray, memoryview), "[B"),
    ((Decimal,), "java.math.BigDecimal"),
    ((datetime.date, datetime.time), "java.util.Date"),
    ((list, tuple), "java.util.ArrayList"),
    ((dict,), "java.util.HashMap"),
    ((Struct,), "org.apache.kafka.connect.data.Struct"),
)


def require_map(value: Any, purpose: str) -> Mapping[str, Any]:
    """Return ``value``. Raises DataException unless it is a map, as ``Requirements.requireMap`` does."""
    if not isinstance(value, Mapping):
        raise DataException(f"Only Map objects supported in absence of schema for [{purpose}], found: {class_of_value(value)}")
    return value


def require_struct(column: pa.Array, schema: Schema, purpose: str, *, allows_null: bool = True) -> None:
    """Raise DataException for values that are not structs, as ``Requirements.requireStruct`` does."""
    if column.null_count and not allows_null:
        raise DataException(f"Only Struct objects supported for [{purpose}], found: null")
    if schema.type is not SchemaType.STRUCT and column.null_count < len(column):
        raise DataException(f"Only Struct objects supported for [{purpose}], found: {class_of_schema(schema)}")


def class_of_schema(schema: Schema) -> str:
    """The Java class of values of ``schema``."""
    logical = schema.logical_name
    if logical is not None:
        return "java.math.BigDecimal" if logical == DECIMAL else "java.util.Date"
    return _BY_TYPE[schema.type]


def class_of_value(value: Any) -> str:  # Any: a schemaless value
    """The Java class of a schemaless value; ``null`` for None."""
    if value is None:
        return "null"
    return next((name for types, name in _BY_PYTHON_TYPE if isinstance(value, types)), type(value).__name__)


@dataclass(frozen=True, slots=True)
class Names:
    """A validator of name lists. Refuses null, duplicates, empty names and, unless ``may_be_empty``, an empty list."""

    may_be_empty: bool = False

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigException(f"Configuration '{name}' values must not be null.")
        if not value and not self.may_be_empty:
            raise ConfigException(f"Configuration '{name}' must not be empty. Valid values include: any non-empty value")
        if len(set(value)) < len(value):
            raise ConfigException(f"Configuration '{name}' values must not be duplicated.")
        if "" in value:
            raise ConfigException(f"Configuration '{name}' values must not be empty.")


def check_not_empty(name: str, value: Any) -> None:
    """A validator: the list must have at least one entry."""
    if not value:
        raise ConfigException.of(name, text_of(value), "Empty list")
