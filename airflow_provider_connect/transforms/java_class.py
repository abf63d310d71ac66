"""What Java calls the class of a value: Connect's messages name it, and people search for these messages."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Final

from airflow_provider_connect.sdk.schema import DECIMAL, Schema, SchemaType, Struct

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


def class_of_schema(schema: Schema) -> str:
    """The class of the values of ``schema``."""
    logical = schema.logical_name
    if logical is not None:
        return "java.math.BigDecimal" if logical == DECIMAL else "java.util.Date"
    return _BY_TYPE[schema.type]


def class_of_value(value: Any) -> str:  # Any: a schemaless value
    """The class of a value without a schema; ``null`` has none."""
    if value is None:
        return "null"
    return next((name for types, name in _BY_PYTHON_TYPE if isinstance(value, types)), type(value).__name__)
