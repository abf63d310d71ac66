"""Conversions to a table's types that Arrow's casts lack, or that have another meaning in Kafka Connect.

Numbers for times are milliseconds, as in Connect, while Arrow assumes the column's unit. Debezium's schemas name other units. Texts may be
times of day, UUIDs or, in Iceberg tables, bytes in base64. Nested values become JSON in string columns. These rules are from Apache
Iceberg's sink, except that numbers are rejected instead of rounded or truncated.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_connect.codecs.json.values import JsonRules
from airflow_provider_connect.codecs.json.writer import column_text
from airflow_provider_connect.data.arrow import pa, pc, pl
from airflow_provider_connect.data.arrow_schema import schema_of
from airflow_provider_connect.data.columns import cast_to_schema, with_children
from airflow_provider_connect.errors import DataException

_DAY: Final = 86_400
_TIMESTAMPS: Final = {"io.debezium.time.MicroTimestamp": "us", "io.debezium.time.NanoTimestamp": "ns", "io.debezium.time.Timestamp": "ms"}
_TIMES: Final = {"io.debezium.time.MicroTime": ("us", 1_000_000), "io.debezium.time.NanoTime": ("ns", 1_000_000_000)}
_ZONE: Final = r"(:\d\d(?:\.\d+)?) ?(?:[Zz]|[+-]\d\d(?::?\d\d)?)$"
_FINER: Final = r"(\.\d{6})\d{1,3}"  # digits finer than microseconds
_UUID_BYTES: Final = 16


def convert(array: pa.Array, field: pa.Field, type: pa.DataType, *, decodes_base64: bool) -> pa.Array:
    """``array``, the values of ``field``, in a form that Arrow casts correctly to ``type``. Unchanged if it already has such a form. Raises
    DataException and Arrow's exceptions for values that do not fit."""
    given, types = array.type, pa.types
    if given.equals(type):
        return array
    if types.is_struct(given) and types.is_struct(type):
        return _convert_struct(array, type, decodes_base64)
    if types.is_map(given) and types.is_map(type):
        before = [array.keys, array.items]
        keys = convert(before[0], given.key_field, type.key_type, decodes_base64=decodes_base64)
        items = convert(before[1], given.item_field, type.item_type, decodes_base64=decodes_base64)
        if keys is before[0] and items is before[1]:
            return array
        fields = [given.key_field.with_type(keys.type), given.item_field.with_type(items.type)]
        return with_children(array, pa.map_(*fields), pa.StructArray.from_arrays([keys, items], fields=fields))
    if types.is_list(given) and (types.is_list(type) or types.is_large_list(type)):
        elements = array.values
        values = convert(elements, given.value_field, type.value_type, decodes_base64=decodes_base64)
        return array if values is elements else with_children(array, pa.list_(given.value_field.with_type(values.type)), values)
    return _convert_plain(array, field, type, decodes_base64)


def _convert_struct(array: pa.Array, type: pa.DataType, decodes_base64: bool) -> pa.Array:
    wanted = {field.name: field.type for field in type}
    before = [array.field(index) for index in range(array.type.num_fields)]
    fields = list(array.type)
    after = [
        convert(each, field, wanted.get(field.name, field.type), decodes_base64=decodes_base64)
        for field, each in zip(fields, before, strict=True)
    ]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return array
    fields = [field.with_type(each.type) for field, each in zip(fields, after, strict=True)]
    return pa.StructArray.from_arrays(after, fields=fields, mask=array.is_null())


def _convert_plain(array: pa.Array, field: pa.Field, type: pa.DataType, decodes_base64: bool) -> pa.Array:
    types, given = pa.types, array.type
    if types.is_integer(given):
        return _convert_number(array, type, (field.metadata or {}).get(b"connect.name", b"").decode())
    if types.is_integer(type) and (types.is_date32(given) or types.is_time32(given)):
        return array.cast(pa.int32())
    if types.is_nested(given) and (types.is_string(type) or types.is_large_string(type)):
        return _json(array)
    return _convert_text(array, type, decodes_base64) if types.is_string(given) else array


def _convert_text(array: pa.Array, type: pa.DataType, decodes_base64: bool) -> pa.Array:
    types = pa.types
    if types.is_timestamp(type):
        return _time_text(array, type)
    if types.is_time(type):
        return pc.binary_join_element_wise("1970-01-01T", _microseconds(array), "").cast(pa.timestamp("us"))
    if isinstance(type, pa.UuidType):
        return _decode(pc.replace_substring(array, "-", ""), "hex").cast(pa.binary(_UUID_BYTES))
    is_binary = types.is_binary(type) or types.is_large_binary(type) or types.is_fixed_size_binary(type)
    return _decode(array, "base64") if decodes_base64 and is_binary else array


def _convert_number(array: pa.Array, type: pa.DataType, name: str) -> pa.Array:
    """``name`` is the name of the numbers' schema."""
    types = pa.types
    if types.is_timestamp(type) or (types.is_date(type) and name in _TIMESTAMPS):
        return array.cast(pa.int64()).cast(pa.timestamp(_TIMESTAMPS.get(name, "ms"), getattr(type, "tz", None)))
    if types.is_date(type):
        return array.cast(pa.int32())
    if not types.is_time(type):
        return array
    unit, per_second = _TIMES.get(name, ("ms", 1000))
    if pc.any(pc.or_(pc.less(array, 0), pc.greater_equal(array.cast(pa.int64()), _DAY * per_second))).as_py():
        raise DataException("a time of day must be at least 0 and less than a day")
    return array.cast(pa.int32()).cast(pa.time32("ms")) if unit == "ms" else array.cast(pa.time64(unit))


def _time_text(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Parse times. A text without a zone is in UTC. A column without a zone gets the date and time as they are written in the text."""
    texts = _microseconds(array)
    if type.tz is None:
        return pc.replace_substring_regex(texts, _ZONE, r"\1")
    has_zone = pc.match_substring_regex(texts, _ZONE)
    return pc.if_else(has_zone, texts, pc.binary_join_element_wise(texts, "Z", ""))


def _microseconds(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, _FINER, r"\1")


def _decode(texts: pa.Array, encoding: str) -> pa.Array:
    column: Any = pl.from_arrow(texts)
    try:
        return column.str.decode(encoding).to_arrow()
    except pl.exceptions.ComputeError as error:
        raise DataException(f"not valid {encoding}") from error


def _json(array: pa.Array) -> pa.Array:
    schema = schema_of(pa.field("value", array.type))
    texts = column_text(schema, cast_to_schema(array, schema), JsonRules())
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, texts.type))
