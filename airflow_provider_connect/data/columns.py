"""Python values ↔ Arrow columns, by schema. Both directions are exact, including logical types.

A column without a schema is a plain Arrow array if all its values are scalars of one type, otherwise JSON text (``pa.json_()``). Bytes
cannot be JSON, so they need a column of their own, or a schema.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.expansion import check_bytes
from airflow_provider_connect.data.schema import DATE, TIMESTAMP, Schema, SchemaType, Struct
from airflow_provider_connect.errors import DataException


def row_numbers(count: int, first: int = 0) -> pa.Array:
    """``count`` consecutive numbers from ``first`` (int64)."""
    ones = pa.nulls(count, pa.int64()).fill_null(1)
    return pc.cumulative_sum(ones, start=first - 1)


def fill_nulls(column: pa.Array, schema: Schema) -> pa.Array:
    """Replace nulls with the schema's default. Raises DataException if the result would exceed the memory limit of one step."""
    default = column_of([schema.default], schema)
    check_bytes(default.nbytes * column.null_count, f"The default of {column.null_count} fields, {default.nbytes} bytes,")
    return pc.if_else(column.is_valid(), column, default[0])


def column_of(values: Iterable[Any], schema: Schema | None) -> pa.Array:
    """A column of ``values``; None is null. ``values_of`` returns equal values (but a list for a tuple).

    Raises DataException for a value that does not fit, and for a value that could not be read back. Without a schema, bytes mixed with or
    inside other values could not be read back, nor could maps with keys that are not strings. Integers are accepted as floats, and whole
    floats as integers. Other type errors are not detected: call ``validate_value`` first for untrusted values.
    """
    if schema is None:
        return _schemaless_column(list(values))
    encode = _encoder(schema)
    try:
        return pa.array([None if value is None else encode(value) for value in values], type=arrow_type(schema))
    except (pa.ArrowException, OverflowError, TypeError, AttributeError, UnicodeError) as error:
        raise DataException(f"Value does not fit schema type {schema.type.name}: {error}") from error


def values_of(column: pa.Array, schema: Schema | None) -> list[Any]:
    """The Python values of a column: the inverse of ``column_of``. Raises DataException for values that Python cannot hold."""
    if schema is None:
        if is_json(column.type):
            with as_data_exception():
                return [None if text is None else json.loads(text) for text in column.storage.to_pylist()]
        values: list[Any] = column.to_pylist()
        return values
    decode = _decoder(schema)
    try:
        plain = column.to_pylist()
    except (OverflowError, ValueError) as error:  # Python's dates end in the year 9999
        raise DataException(f"Value of schema type {schema.type.name} is out of the range of Python's dates: {error}") from error
    return plain if decode is None else [None if value is None else decode(value) for value in plain]


def json_of(value: object) -> str:
    """A value from ``values_of`` as JSON text. Structs are objects, and bytes are base64. Decimals, times and other types are strings.

    Raises DataException for a map whose keys are structs, arrays or bytes."""
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False)
    except TypeError as error:
        raise DataException(f"Value has no form in JSON: {error}") from error


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        return value.as_dict()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def cast_to_schema(column: pa.Array, schema: Schema | None) -> pa.Array:
    """``column``, which may be chunked, as one array of the Arrow type of ``schema``. Returns ``column`` itself if it already is such an
    array.

    Connect's times are in milliseconds. At any depth, finer digits of times are cut off, and timestamps are rounded down. Raises
    DataException for values that do not fit.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if schema is None:
        return column
    wanted = arrow_type(schema)
    if column.type.equals(wanted):
        return column
    try:
        return pc.cast(floor_to_ms(column), options=pc.CastOptions(wanted, allow_time_truncate=True))
    except pa.ArrowException as error:
        raise DataException(f"Column of {column.type} does not fit schema type {schema.type.name}: {error}") from error


@contextmanager
def as_data_exception() -> Iterator[None]:
    """A block that parses or prints nested values. Raises DataException for values that are nested too deeply for Python, and for numbers
    that are too long.

    Only other plugins can produce such values, because the JsonConverter's limits (``json_text``) are lower.
    """
    try:
        yield
    except (RecursionError, ValueError, OverflowError) as error:
        raise DataException(f"Value cannot be read or written: {error}") from error


def is_json(type: pa.DataType) -> bool:
    """Whether a column of this type holds schemaless data as JSON text."""
    return bool(isinstance(type, pa.BaseExtensionType) and type.extension_name == "arrow.json")


def json_column(texts: Iterable[str | None]) -> pa.Array:
    """A schemaless column of JSON text; None is null."""
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, type=pa.string()))


# Values with a schema


def _encoder(schema: Schema) -> Callable[[Any], Any]:
    """The function that converts a Python value to one that ``pa.array`` accepts."""
    if schema.type is SchemaType.STRUCT:
        return _struct_encoder(schema)
    if schema.value_schema is not None and schema.key_schema is not None:
        key, value = _nullable(_encoder(schema.key_schema)), _nullable(_encoder(schema.value_schema))
        return lambda entries: [(key(k), value(v)) for k, v in entries.items()]
    if schema.value_schema is not None:
        entry = _nullable(_encoder(schema.value_schema))
        return lambda entries: [entry(e) for e in _entries(entries)]
    if schema.logical_name is not None:
        return _day if schema.logical_name == DATE else _same
    return _ENCODERS.get(schema.type, _same)


def _entries(value: Any) -> Any:
    if isinstance(value, str | bytes | bytearray | Mapping):  # Python would iterate over their parts
        raise TypeError(f"a list was expected, got a {type(value).__name__}")
    return value


# Encoders of numbers and bytes; null stays null


def _whole(value: Any) -> Any:
    if type(value) is float and not value.is_integer():  # Arrow would cut it off
        raise TypeError(f"{value!r} is not an integer")
    return value


def _float64(value: Any) -> Any:
    if type(value) is float or value is None:
        return value
    if isinstance(value, bool | str | bytes | bytearray):
        raise TypeError(f"a number was expected, got a {type(value).__name__}")
    number = float(value)
    if isinstance(value, int) and number != value:
        raise OverflowError(f"{value} has more digits than a float")
    return number


def _float32(value: Any) -> Any:
    number = _float64(value)
    if number is not None and _MAX_FLOAT32 < abs(number) < math.inf:
        raise OverflowError(f"{number!r} is out of the range of FLOAT32")
    return number


def _bytes(value: Any) -> Any:
    return value if value is None or type(value) is bytes else bytes(memoryview(value))  # bytes(5) would be five zeros


def _day(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.time() != datetime.time():
        raise TypeError(f"{value} is not a date: its time of day is not zero")
    return value


_MAX_FLOAT32: Final = (2 - 2**-24) * 2.0**127  # smaller numbers round to a finite one
_ENCODERS: Final[Mapping[SchemaType, Callable[[Any], Any]]] = {
    **dict.fromkeys((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64), _whole),
    SchemaType.FLOAT32: _float32,
    SchemaType.FLOAT64: _float64,
    SchemaType.BYTES: _bytes,
}


def _struct_encoder(schema: Schema) -> Callable[[Any], Any]:
    names = [field.name for field in schema.fields]
    encoders = [_nullable(_encoder(field.schema)) for field in schema.fields]

    def encode(value: Any) -> dict[str, Any]:
        struct = value if isinstance(value, Struct) else Struct(schema, value)
        read = struct.get_without_default
        return {
            name: encode(struct.get(name) if read(name) is None and not field.schema.optional else read(name))
            for name, encode, field in zip(names, encoders, schema.fields, strict=True)
        }

    return encode


def _decoder(schema: Schema) -> Callable[[Any], Any] | None:
    """The function that converts a value from ``to_pylist`` to the Python value. None: no conversion is needed."""
    if schema.logical_name == TIMESTAMP:
        return lambda instant: instant.replace(tzinfo=datetime.UTC)
    if schema.type is SchemaType.STRUCT:
        return _struct_decoder(schema)
    if schema.value_schema is None:
        return None
    value = _nullable(_decoder(schema.value_schema))
    if schema.key_schema is not None:
        key = _nullable(_decoder(schema.key_schema))
        return lambda entries: {key(k): value(v) for k, v in entries}
    return lambda entries: [value(entry) for entry in entries]


def _struct_decoder(schema: Schema) -> Callable[[Any], Any]:
    decoders = [(field.name, _nullable(_decoder(field.schema))) for field in schema.fields]
    return lambda values: Struct.of_values(schema, [decode(values[name]) for name, decode in decoders])


def _nullable(function: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if function is None or function is _same:
        return _same
    if function in _ENCODERS.values():
        return function
    return lambda value: None if value is None else function(value)


def _same(value: Any) -> Any:
    return value


# Values without a schema


def _schemaless_column(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    if kinds <= _OF_BYTES:
        return pa.array([None if value is None else bytes(value) for value in values], type=pa.binary())
    if kinds & _OF_BYTES:
        others = ", ".join(sorted(kind.__name__ for kind in kinds - _OF_BYTES))
        raise DataException(f"Bytes and {others} in one column need a schema, or separate batches")
    with as_data_exception():
        try:
            if len(kinds) == 1 and kinds <= {bool, int, float, str}:
                return pa.array(values)
        except (pa.ArrowException, OverflowError):  # JSON can represent an int wider than 64 bits
            pass
        return json_column(
            None if value is None else json.dumps(_jsonable(value), ensure_ascii=False, separators=(",", ":")) for value in values
        )


_OF_BYTES: Final = {bytes, bytearray, memoryview}


def _jsonable(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise DataException(f"Maps with keys that are not strings need a schema: got the key {key!r}")
        return {key: _jsonable(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and type(value) not in _OF_BYTES:
        return [_jsonable(entry) for entry in value]
    raise DataException(f"{type(value).__name__} values need a schema: without one data is made of maps, lists, text, numbers and booleans")


# Timestamps finer than Connect's milliseconds are rounded down, at any depth of a column, as Java and Spark do.
# Arrow's own cast rounds towards zero, so an instant before 1970 would become a later one.
_PER_MS: Final = {"us": 1000, "ns": 1_000_000}


def with_children(column: pa.Array, type: pa.DataType, children: pa.Array) -> pa.Array:
    """``column`` (lists or maps) with the type ``type`` and other children, but the same nulls, lengths and slice."""
    return pa.Array.from_buffers(type, len(column), column.buffers()[:2], offset=column.offset, children=[children])


def floor_to_ms(column: pa.Array) -> pa.Array:
    """Round timestamps in microseconds or nanoseconds down to milliseconds. Returns the same object if there are no such timestamps."""
    if not _has_finer_times(column.type):
        return column
    if pa.types.is_timestamp(column.type):
        return _floored(column)
    if pa.types.is_dictionary(column.type):
        return floor_to_ms(column.dictionary_decode())
    if pa.types.is_struct(column.type):
        children = [floor_to_ms(column.field(number)) for number in range(column.type.num_fields)]
        fields = [field.with_type(child.type) for field, child in zip(column.type, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null() if column.null_count else None)
    entries = floor_to_ms(column.values)
    buffers = column.buffers()[: 1 if pa.types.is_fixed_size_list(column.type) else 2]
    return pa.Array.from_buffers(_with_entries(column.type, entries.type), len(column), buffers, offset=column.offset, children=[entries])


def _has_finer_times(type: pa.DataType) -> bool:
    if pa.types.is_timestamp(type):
        return type.unit in _PER_MS
    if pa.types.is_dictionary(type):
        return _has_finer_times(type.value_type)
    is_rebuilt = pa.types.is_struct(type) or pa.types.is_map(type) or pa.types.is_list(type)
    is_rebuilt = is_rebuilt or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)
    return is_rebuilt and any(_has_finer_times(type.field(number).type) for number in range(type.num_fields))


def _floored(column: pa.Array) -> pa.Array:
    unit, numbers = _PER_MS[column.type.unit], column.view(pa.int64())
    quotient = pc.divide(numbers, unit)
    is_above = pc.less(numbers, pc.multiply(quotient, unit))
    return pc.subtract(quotient, is_above.cast(pa.int64())).cast(pa.timestamp("ms", column.type.tz))


def _with_entries(type: pa.DataType, entry: pa.DataType) -> pa.DataType:
    """The list or map type ``type`` with another type of entries."""
    if pa.types.is_map(type):
        return pa.map_(entry.field(0), entry.field(1), keys_sorted=type.keys_sorted)
    if pa.types.is_fixed_size_list(type):
        return pa.list_(type.value_field.with_type(entry), type.list_size)
    make = pa.large_list if pa.types.is_large_list(type) else pa.list_
    return make(type.value_field.with_type(entry))
