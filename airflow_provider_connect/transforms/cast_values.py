"""Casts single values as Java does. Cast also uses these rules for values that it cannot cast as columns."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeVar

from airflow_provider_connect.codecs.values import convert_to_string
from airflow_provider_connect.data.java_text import as_single, parse_double, parse_integer, single_text, text_of, wrapped
from airflow_provider_connect.data.schema import DATE, INTEGER_BITS, TIME, TIMESTAMP, Schema, SchemaType
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.transforms.requirements import class_of_schema, class_of_value

FLOATS: Final = frozenset({SchemaType.FLOAT32, SchemaType.FLOAT64})
OUTPUTS: Final = (*INTEGER_BITS, SchemaType.FLOAT32, SchemaType.FLOAT64, SchemaType.BOOLEAN, SchemaType.STRING)
INPUTS: Final = (*OUTPUTS, SchemaType.BYTES)

_Number = TypeVar("_Number", int, float)
_DAY_ZERO: Final = datetime.date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def check_input(type: SchemaType) -> None:
    """Raise DataException for a type that cannot be cast."""
    if type not in INPUTS:
        raise DataException(f"Cast transformation does not support casting from {type.name}; supported types are {names_of(INPUTS)}")


def names_of(types: tuple[SchemaType, ...]) -> str:
    """The types as Java prints a set."""
    return f"[{', '.join(type.name for type in types)}]"


def cast_value(value: Any, schema: Schema | None, target: SchemaType) -> Any:  # Any: a value of ``schema``, a value of ``target``
    """``value`` cast to ``target``. None stays None. Raises DataException if ``value`` cannot be cast."""
    if value is None:
        return None
    check_input(_type_of(value) if schema is None else schema.type)
    if target is SchemaType.STRING:
        return _as_text(value, schema)
    number = _beneath(value, schema)
    if target is SchemaType.BOOLEAN:
        return _as_boolean(number, schema)
    if target in INTEGER_BITS:
        return _as_integer(number, INTEGER_BITS[target], schema)
    double = _as_double(number, schema)
    if target is SchemaType.FLOAT64:
        return double
    single = as_single(double)
    return single if schema is not None else float(single_text(single))  # a float without a schema: the double with the same digits


def _type_of(value: Any) -> SchemaType:
    for python, type in _TYPES.items():
        if isinstance(value, python):
            return type
    raise DataException(
        f"Cast transformation was passed a value of type class {class_of_value(value)} which is not supported by Connect's data API"
    )


_TYPES: Final[Mapping[type, SchemaType]] = {
    bool: SchemaType.BOOLEAN,
    int: SchemaType.INT64,
    float: SchemaType.FLOAT64,
    str: SchemaType.STRING,
    bytes: SchemaType.BYTES,
    list: SchemaType.ARRAY,
    dict: SchemaType.MAP,
}


def _beneath(value: Any, schema: Schema | None) -> Any:
    """The number that represents a date, time or timestamp. Other values are unchanged."""
    logical = None if schema is None else schema.logical_name
    if logical == DATE:
        return value.toordinal() - _DAY_ZERO
    if logical == TIME:
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    if logical == TIMESTAMP:
        return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
    return value


def _as_text(value: Any, schema: Schema | None) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return convert_to_string(schema, value)
    return text_of(value, schema)


def _as_boolean(value: Any, schema: Schema | None) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.lower() == "true"
    return _as_integer(value, 64, schema) != 0


def _as_integer(value: Any, bits: int, schema: Schema | None) -> int:
    if isinstance(value, int):  # includes booleans
        return wrapped(int(value), bits)
    if isinstance(value, float):
        return wrapped(_truncated(value, max(bits, 32)), bits)
    if isinstance(value, Decimal):
        return wrapped(int(value), bits)
    if isinstance(value, str):
        return _in_range(parse_integer(value, bits), value)
    raise _unexpected(value, schema)


def _as_double(value: Any, schema: Schema | None) -> float:
    if isinstance(value, int):  # may be wider than 64 bits without a schema
        return float(wrapped(value, 64))
    if isinstance(value, float | Decimal):
        return float(value)
    if isinstance(value, str):
        return _in_range(parse_double(value), value)
    raise _unexpected(value, schema)


def _truncated(value: float, bits: int) -> int:
    """``value`` without its fraction, saturated at the limits of ``bits`` bits; 0 for NaN."""
    if math.isnan(value):
        return 0
    limit = 1 << (bits - 1)
    if abs(value) < limit:
        return int(value)
    return limit - 1 if value > 0 else -limit


def _in_range(number: _Number | None, text: str) -> _Number:
    if number is None:
        raise DataException(f"Value ({text}) was out of range for requested data type")
    return number


def _unexpected(value: Any, schema: Schema | None) -> DataException:
    name = class_of_value(value) if schema is None else class_of_schema(schema)
    return DataException(f"Unexpected type in Cast transformation: class {name}")
