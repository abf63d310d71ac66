"""One value cast to another type as Java does it: the rules, and the way for values that columns cannot be cast by."""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.java_numbers import as_single, wrapped
from airflow_provider_connect.sdk.java_text import single_text, text_of
from airflow_provider_connect.sdk.schema import DATE, INTEGER_BITS, TIME, TIMESTAMP, Schema, SchemaType
from airflow_provider_connect.sdk.value_text import values_text
from airflow_provider_connect.transforms.requirements import class_of_schema, class_of_value

FLOATS: Final = frozenset({SchemaType.FLOAT32, SchemaType.FLOAT64})
OUTPUTS: Final = (*INTEGER_BITS, SchemaType.FLOAT32, SchemaType.FLOAT64, SchemaType.BOOLEAN, SchemaType.STRING)
INPUTS: Final = (*OUTPUTS, SchemaType.BYTES)

_INTEGER: Final = re.compile(r"[+-]?\d+")
_FLOAT: Final = re.compile(r"([+-]?)(NaN|Infinity|(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?)[fFdD]?", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"([+-]?0[xX]([0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_LONGEST_INTEGER: Final = 4000  # Python reads no text of more than 4,300 digits
_BLANKS: Final = "".join(map(chr, range(33)))  # what Java's trim takes off
_DAY_ZERO: Final = datetime.date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def check_input(type: SchemaType) -> None:
    """Raise DataException for a type that nothing is cast from."""
    if type not in INPUTS:
        raise DataException(f"Cast transformation does not support casting from {type.name}; supported types are {names_of(INPUTS)}")


def names_of(types: tuple[SchemaType, ...]) -> str:
    """The types as Java prints a set of them."""
    return f"[{', '.join(type.name for type in types)}]"


def cast_value(value: Any, schema: Schema | None, target: SchemaType) -> Any:  # Any: a value of ``schema``, and one of ``target``
    """``value`` as one of ``target``; None stays None. Raises DataException where that cannot be."""
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
    return single if schema is not None else float(single_text(single))  # without a schema: what its digits say


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
    """The number that a date, time or moment is stored as; anything else as it is."""
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
        return values_text(schema, value)
    return text_of(value, schema)


def _as_boolean(value: Any, schema: Schema | None) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.lower() == "true"
    return _as_integer(value, 64, schema) != 0


def _as_integer(value: Any, bits: int, schema: Schema | None) -> int:
    if isinstance(value, int):  # a boolean too
        return wrapped(int(value), bits)
    if isinstance(value, float):
        return wrapped(_truncated(value, max(bits, 32)), bits)
    if isinstance(value, Decimal):
        return wrapped(int(value), bits)
    if isinstance(value, str):
        number = int(value) if len(value) <= _LONGEST_INTEGER and _INTEGER.fullmatch(value) else None
        if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise _out_of_range(value)
        return number
    raise _unexpected(value, schema)


def _as_double(value: Any, schema: Schema | None) -> float:
    if isinstance(value, int):  # without a schema it may be wider than 64 bits
        return float(wrapped(value, 64))
    if isinstance(value, float | Decimal):
        return float(value)
    if isinstance(value, str):
        text = value.strip(_BLANKS)
        if match := _FLOAT.fullmatch(text):
            return float(f"{match[1]}{match[2]}")
        if match := _HEXADECIMAL.fullmatch(text):
            return _hexadecimal(match[1])
        raise _out_of_range(value)
    raise _unexpected(value, schema)


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _truncated(value: float, bits: int) -> int:
    """Without its fraction; the last of its kind where it is too large, 0 for what is no number."""
    if math.isnan(value):
        return 0
    limit = 1 << (bits - 1)
    if abs(value) < limit:
        return int(value)
    return limit - 1 if value > 0 else -limit


def _out_of_range(value: str) -> DataException:
    return DataException(f"Value ({value}) was out of range for requested data type")


def _unexpected(value: Any, schema: Schema | None) -> DataException:
    name = class_of_value(value) if schema is None else class_of_schema(schema)
    return DataException(f"Unexpected type in Cast transformation: class {name}")
