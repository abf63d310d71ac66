"""Timestamps with digits finer than Connect's milliseconds, at any level of a column: rounded down, as Java and Spark do.

Arrow's own cast cuts towards zero, so an instant before 1970 would become a later one.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_connect.data.arrow import pa, pc

_PER_MS: Final = {"us": 1000, "ns": 1_000_000}


def floored_to_ms(column: pa.Array) -> pa.Array:
    """``column`` with each timestamp of microseconds or nanoseconds in milliseconds; the same object where there is none."""
    if not _has_finer_times(column.type):
        return column
    if pa.types.is_timestamp(column.type):
        return _floored(column)
    if pa.types.is_dictionary(column.type):
        return floored_to_ms(column.dictionary_decode())
    if pa.types.is_struct(column.type):
        children = [floored_to_ms(column.field(number)) for number in range(column.type.num_fields)]
        fields = [field.with_type(child.type) for field, child in zip(column.type, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null() if column.null_count else None)
    entries = floored_to_ms(column.values)
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
    """The type of lists or maps whose entries are of another type."""
    if pa.types.is_map(type):
        return pa.map_(entry.field(0), entry.field(1), keys_sorted=type.keys_sorted)
    if pa.types.is_fixed_size_list(type):
        return pa.list_(type.value_field.with_type(entry), type.list_size)
    make = pa.large_list if pa.types.is_large_list(type) else pa.list_
    return make(type.value_field.with_type(entry))
