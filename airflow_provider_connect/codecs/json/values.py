"""One value ↔ JSON, exactly as in Connect's JsonConverter. For rare cases, and for values that cannot be converted as columns."""

from __future__ import annotations

import base64
import binascii
import datetime
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from airflow_provider_connect.data.java_text import as_single, double_text, in_hash_order, single_text, wrapped
from airflow_provider_connect.data.json_text import has_half_pair, quoted
from airflow_provider_connect.data.schema import DATE, DECIMAL, INTEGER_BITS, TIME, TIMESTAMP, Schema, SchemaType, Struct, validate_value
from airflow_provider_connect.errors import DataException

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
DAY_MS: Final = 86_400_000
_MOST_DIGITS: Final = 4000  # Python refuses to convert integers of more than 4,300 digits
_MOST_BYTES: Final = _MOST_DIGITS * 4 // 10
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class JsonRules:
    """How values are written and read. ``is_numeric``: decimals are numbers instead of base64. ``fills_defaults``: null in a field with a
    default becomes the default. ``takes_far_times``: a date or time that Python cannot represent becomes a ``FarTime``. This is for callers
    that only put values into columns."""

    is_numeric: bool = False
    fills_defaults: bool = True
    takes_far_times: bool = False


class FarTime(int):
    """The number of a Date, Time or Timestamp that Python cannot represent: outside the years 1 to 9999, or the end of a day."""


# Writing


def write_value(schema: Schema | None, value: Any, rules: JsonRules) -> str:  # Any: a value of any schema
    """The JSON text of ``value``. Raises DataException if it does not fit ``schema``."""
    if value is None:
        return _write_null(schema, rules)
    if schema is None:
        return _write_schemaless(value, rules)
    try:
        logical = schema.logical_name
        write = _WRITERS[logical or schema.type]
        return write(schema, value, rules)
    except (TypeError, AttributeError, ValueError, struct.error, OverflowError) as error:
        raise DataException(f"Invalid type for {schema.type.name}: {type(value).__name__}") from error


def _write_null(schema: Schema | None, rules: JsonRules) -> str:
    if schema is not None:
        if schema.default is not None and rules.fills_defaults:
            return write_value(schema, schema.default, rules)
        if not schema.optional:
            raise DataException("Conversion error: null value for field that is required and has no default value")
    return "null"


def _write_schemaless(value: Any, rules: JsonRules) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int):  # includes booleans
        return str(value).lower()
    if isinstance(value, float):
        return number_text(double_text(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return _write_bytes(None, value, rules)
    return _write_collection(value, rules)


def _write_collection(value: Any, rules: JsonRules) -> str:
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return f"{{{','.join([f'{quoted(k)}:{_write_schemaless(v, rules)}' for k, v in value.items()])}}}"
        return f"[{','.join([f'[{_write_schemaless(k, rules)},{_write_schemaless(v, rules)}]' for k, v in value.items()])}]"
    if isinstance(value, list | tuple):
        return f"[{','.join([_write_schemaless(entry, rules) for entry in value])}]"
    raise DataException(f"{type(value).__name__} does not have corresponding schema type.")


_NO_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def number_text(text: str) -> str:
    """The JSON of a float. NaN and the infinities are strings."""
    return text if text[-1].isdigit() else f'"{text}"'


def _write_integer(schema: Schema, value: Any, _rules: JsonRules) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return str(value)


def _write_boolean(_schema: Schema, value: Any, _rules: JsonRules) -> str:
    if not isinstance(value, bool):
        raise TypeError
    return "true" if value else "false"


def _write_string(_schema: Schema, value: Any, _rules: JsonRules) -> str:
    if not isinstance(value, str):
        raise TypeError
    return quoted(value)


def _write_bytes(_schema: Schema | None, value: Any, _rules: JsonRules) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _write_decimal(schema: Schema, value: Any, rules: JsonRules) -> str:
    if not isinstance(value, Decimal):
        raise DataException(f"Invalid type for Decimal, expected BigDecimal but was {type(value).__name__}")
    return str(value) if rules.is_numeric else f'"{decimal_base64(unscaled(value, schema.scale))}"'


def unscaled(value: Decimal, scale: int) -> int:
    """``value`` times ten to the ``scale``. Raises DataException if the value has more than ``scale`` digits after the point."""
    sign, digits, exponent = value.as_tuple()
    if -int(exponent) > scale:
        raise DataException(
            f"Decimal value has mismatching scale for given Decimal schema. Schema has scale {scale}, value has scale {-int(exponent)}."
        )
    if len(digits) + int(exponent) + scale > _MOST_DIGITS:
        raise DataException(f"Decimal value has more than {_MOST_DIGITS} digits")
    number: int = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
    return -number if sign else number


def decimal_base64(number: int) -> str:
    """``integer_bytes`` in base64."""
    return base64.b64encode(integer_bytes(number)).decode()


def integer_bytes(number: int) -> bytes:
    """``BigInteger.toByteArray``: the fewest bytes of two's complement."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def _write_date(_schema: Schema, value: Any, _rules: JsonRules) -> str:
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        raise DataException(f"Invalid type for Date, expected Date but was {type(value).__name__}")
    return str(value.toordinal() - EPOCH.toordinal())


def _write_time(_schema: Schema, value: Any, _rules: JsonRules) -> str:
    if not isinstance(value, datetime.time):
        raise DataException(f"Invalid type for Time, expected Date but was {type(value).__name__}")
    return str((value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000)


def _write_timestamp(_schema: Schema, value: Any, _rules: JsonRules) -> str:
    if not isinstance(value, datetime.datetime):
        raise DataException(f"Invalid type for Timestamp, expected Date but was {type(value).__name__}")
    return str((value - EPOCH) // _MILLISECOND)


def _write_array(schema: Schema, value: Any, rules: JsonRules) -> str:
    if not isinstance(value, list | tuple):
        raise TypeError
    return f"[{','.join(write_value(schema.value_schema, entry, rules) for entry in value)}]"


def _write_map(schema: Schema, value: Any, rules: JsonRules) -> str:
    keys, values = schema.key_schema, schema.value_schema
    if keys is not None and keys.type is SchemaType.STRING:
        return f"{{{','.join(f'{write_value(keys, k, rules)}:{write_value(values, v, rules)}' for k, v in value.items())}}}"
    return f"[{','.join(f'[{write_value(keys, k, rules)},{write_value(values, v, rules)}]' for k, v in value.items())}]"


def _write_struct(schema: Schema, value: Any, rules: JsonRules) -> str:
    if not isinstance(value, Struct):
        value = Struct(schema, value)
    if value.schema is not schema and value.schema != schema:
        raise DataException("Mismatching schema.")
    fields = schema.fields
    return f"{{{','.join(f'{quoted(f.name)}:{write_value(f.schema, value.get_without_default(f.name), rules)}' for f in fields)}}}"


_Writer = Callable[[Schema, Any, JsonRules], str]
_WRITERS: Final[Mapping[str, _Writer]] = {
    **dict.fromkeys(INTEGER_BITS, _write_integer),
    SchemaType.FLOAT32: lambda _schema, value, _rules: number_text(single_text(float(value))),
    SchemaType.FLOAT64: lambda _schema, value, _rules: number_text(double_text(float(value))),
    SchemaType.BOOLEAN: _write_boolean,
    SchemaType.STRING: _write_string,
    SchemaType.BYTES: _write_bytes,
    SchemaType.ARRAY: _write_array,
    SchemaType.MAP: _write_map,
    SchemaType.STRUCT: _write_struct,
    DECIMAL: _write_decimal,
    DATE: _write_date,
    TIME: _write_time,
    TIMESTAMP: _write_timestamp,
}


def refuse_half_pairs(value: Any, location: str = "the value") -> None:
    """Raise DataException for a string or key with half of a surrogate pair, because ``read_value`` gets no such strings."""
    if isinstance(value, str):
        if has_half_pair(value):
            raise DataException(f"Cannot write {location}, {value!r:.100}: it has half of a surrogate pair, which is not valid Unicode")
    elif isinstance(value, list | tuple):
        for entry in value:
            refuse_half_pairs(entry, f"an entry of {location}")
    elif isinstance(value, Mapping | Struct):
        for key in value:
            refuse_half_pairs(key, f"a key of {location}")
            inner = value.get_without_default(key) if isinstance(value, Struct) else value[key]
            refuse_half_pairs(inner, f"field {key} of {location}")


# Reading


def read_value(schema: Schema | None, node: Any, rules: JsonRules) -> Any:  # Any: JSON in, a value of any schema out
    """The value of a JSON node. As in Connect, a node of another kind does not fail, but becomes the type's empty value (0, false, null).

    There are two differences from Connect. The strings ``NaN``, ``Infinity`` and ``-Infinity``, which are written for such floats, are read
    as floats. -0.0 keeps its sign."""
    if schema is None:
        return _read_schemaless(node)
    if node is None:
        if schema.default is not None and rules.fills_defaults:
            return schema.default
        if schema.optional:
            return None
        raise DataException(f"Invalid null value for required {schema.type.name} field")
    return _READERS[schema.logical_name or schema.type](schema, node, rules)


def _read_schemaless(node: Any) -> Any:
    if isinstance(node, bool):
        return node
    if isinstance(node, int):
        return wrapped(node, 64)
    if isinstance(node, Decimal):
        return float(node)
    if isinstance(node, list):
        return [_read_schemaless(entry) for entry in node]
    if isinstance(node, dict):
        return in_hash_order((key, _read_schemaless(value)) for key, value in node.items())
    return node


def _read_integer(schema: Schema, node: Any, _rules: JsonRules) -> int:
    if isinstance(node, Decimal):
        node = _lowest_bits(node)
    return wrapped(node, INTEGER_BITS[schema.type]) if isinstance(node, int) and not isinstance(node, bool) else 0


def _lowest_bits(number: Decimal) -> int:
    """The whole part of a number. If its lowest 64 bits are 0, as for multiples of 10^64, the result is 0, because a number with a large
    exponent could fill the memory."""
    return 0 if number.adjusted() < 0 or int(number.as_tuple().exponent) >= 64 else int(number)


def _read_double(_schema: Schema, node: Any, _rules: JsonRules) -> float:
    if isinstance(node, bool) or not isinstance(node, int | Decimal):
        return _NO_NUMBERS.get(node, 0.0) if isinstance(node, str) else 0.0
    try:
        return float(node)
    except OverflowError:  # a whole number of 310 or more digits
        return math.inf if node > 0 else -math.inf


def _read_single(schema: Schema, node: Any, rules: JsonRules) -> float:
    return as_single(_read_double(schema, node, rules))


def _read_bytes(_schema: Schema, node: Any, _rules: JsonRules) -> bytes | None:
    try:
        return from_base64(node) if isinstance(node, str) else None
    except ValueError as error:
        raise DataException("Invalid bytes field") from error


def from_base64(text: str) -> bytes:
    """The bytes of base64 text. Raises ValueError for anything else."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _read_decimal(schema: Schema, node: Any, _rules: JsonRules) -> Decimal:
    if isinstance(node, int | Decimal) and not isinstance(node, bool):
        return Decimal(node)
    if not isinstance(node, str):
        raise DataException(f"Invalid type for Decimal, underlying representation should be numeric or bytes but was {_kind(node)}")
    try:
        data = from_base64(node)
        if not data:
            raise ValueError("Zero length BigInteger")
        if len(data) > _MOST_BYTES:
            raise ValueError(f"BigInteger of {len(data)} bytes")
    except ValueError as error:
        raise DataException("Invalid bytes for Decimal field") from error
    return scaled(int.from_bytes(data, "big", signed=True), schema.scale)


def scaled(number: int, scale: int) -> Decimal:
    """The decimal of an unscaled number, with all its digits."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _is_int(node: Any, bits: int) -> bool:
    return isinstance(node, int) and not isinstance(node, bool) and wrapped(node, bits) == node


def _read_date(_schema: Schema, node: Any, rules: JsonRules) -> datetime.date | FarTime:
    if not _is_int(node, 32):
        raise DataException(f"Invalid type for Date, underlying representation should be integer but was {_kind(node)}")
    try:
        return datetime.date.fromordinal(EPOCH.toordinal() + node)
    except (ValueError, OverflowError) as error:
        return _far(node, rules, f"Date {node} days from 1970 lies outside the years 1 to 9999", error)


def _far(node: int, rules: JsonRules, text: str, error: Exception | None = None) -> FarTime:
    if not rules.takes_far_times:
        raise DataException(text) from error
    return FarTime(node)


def _read_time(_schema: Schema, node: Any, rules: JsonRules) -> datetime.time | FarTime:
    if not _is_int(node, 32):
        raise DataException(f"Invalid type for Time, underlying representation should be integer but was {_kind(node)}")
    if not 0 <= node <= DAY_MS:  # Connect also allows the end of the day
        raise DataException("Time values must use number of milliseconds greater than 0 and less than 86400000")
    if node == DAY_MS:
        return _far(node, rules, f"Time {node} ms is the end of the day, 24:00:00, which has no value here")
    instant = EPOCH + datetime.timedelta(milliseconds=node)
    return instant.time()


def _read_timestamp(_schema: Schema, node: Any, rules: JsonRules) -> datetime.datetime | FarTime:
    if not isinstance(node, int) or isinstance(node, bool):
        raise DataException(f"Invalid type for Timestamp, underlying representation should be integral but was {_kind(node)}")
    try:
        return EPOCH + node * _MILLISECOND
    except OverflowError as error:
        return _far(node, rules, f"Timestamp {node} ms from 1970 lies outside the years 1 to 9999", error)


def _read_array(schema: Schema, node: Any, rules: JsonRules) -> list[Any]:
    entries = node if isinstance(node, list) else node.values() if isinstance(node, dict) else ()
    return [read_value(schema.value_schema, entry, rules) for entry in entries]


def _read_map(schema: Schema, node: Any, rules: JsonRules) -> dict[Any, Any]:
    keys, values = schema.key_schema, schema.value_schema
    if keys is not None and keys.type is SchemaType.STRING:
        if not isinstance(node, dict):
            raise DataException(f"Maps with string fields should be encoded as JSON objects, but found {_kind(node)}")
        return in_hash_order((key, read_value(values, value, rules)) for key, value in node.items())
    if not isinstance(node, list):
        raise DataException(f"Maps with non-string fields should be encoded as JSON array of tuples, but found {_kind(node)}")
    for entry in node:
        if not isinstance(entry, list):
            raise DataException(f"Found invalid map entry instead of array tuple: {_kind(entry)}")
        if len(entry) != 2:
            raise DataException(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
    return {read_value(keys, key, rules): read_value(values, value, rules) for key, value in node}


def _read_struct(schema: Schema, node: Any, rules: JsonRules) -> Struct:
    if not isinstance(node, dict):
        raise DataException(f"Structs should be encoded as JSON objects, but found {_kind(node)}")
    values = [read_value(field.schema, node.get(field.name), rules) for field in schema.fields]
    for field, value in zip(schema.fields, values, strict=True):
        if type(value) is not FarTime:
            validate_value(field.schema, value, f'field: "{field.name}"')
    return Struct.of_values(schema, values)


def _kind(node: Any) -> str:
    """Jackson's name for a node of this kind."""
    if isinstance(node, bool):
        return "BOOLEAN"
    kinds = ((int | Decimal, "NUMBER"), (str, "STRING"), (list, "ARRAY"), (dict, "OBJECT"))
    return next((name for kind, name in kinds if isinstance(node, kind)), "NULL")


_Reader = Callable[[Schema, Any, JsonRules], Any]
_READERS: Final[Mapping[str, _Reader]] = {
    **dict.fromkeys(INTEGER_BITS, _read_integer),
    SchemaType.FLOAT32: _read_single,
    SchemaType.FLOAT64: _read_double,
    SchemaType.BOOLEAN: lambda _schema, node, _rules: node is True,
    SchemaType.STRING: lambda _schema, node, _rules: node if isinstance(node, str) else None,
    SchemaType.BYTES: _read_bytes,
    SchemaType.ARRAY: _read_array,
    SchemaType.MAP: _read_map,
    SchemaType.STRUCT: _read_struct,
    DECIMAL: _read_decimal,
    DATE: _read_date,
    TIME: _read_time,
    TIMESTAMP: _read_timestamp,
}
