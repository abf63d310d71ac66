"""A column cast to another type with Java's results: integers wrap, floating-point numbers lose their fraction and stop at the limits.

Text that Arrow reads otherwise than Java, decimals and bytes go value by value, by the rules of ``cast_values``.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.columns import column_of, values_of
from airflow_provider_connect.sdk.java_numbers import double_text
from airflow_provider_connect.sdk.java_text import single_text
from airflow_provider_connect.sdk.schema import DATE, DECIMAL, INTEGER_BITS, TIME, TIMESTAMP, Schema, SchemaType, arrow_type
from airflow_provider_connect.transforms.cast_values import FLOATS, cast_value, check_input
from airflow_provider_connect.transforms.one_by_one import one_by_one
from airflow_provider_connect.transforms.simple_date_format import SimpleDateFormat

_PLAIN_INTEGER: Final = "^-?[0-9]{1,18}$"
_PLAIN_NUMBER: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_DAY_MS: Final = 86_400_000
_DATE, _TIME = SimpleDateFormat("yyyy-MM-dd"), SimpleDateFormat("HH:mm:ss.SSS'Z'")
_TIMESTAMP: Final = SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_LEAST_PLAIN, _LEAST_WITH_EXPONENT = 1e-3, 1e7


def cast_column(column: pa.Array, schema: Schema, target: SchemaType) -> pa.Array:
    """``column`` of ``schema`` as values of ``target``; null stays null. Raises DataException for the first value that cannot be cast."""
    type = arrow_type(Schema(target))
    if column.null_count == len(column):
        return pa.nulls(len(column), type)
    check_input(schema.type)
    if schema.logical_name == DECIMAL or (schema.type is SchemaType.BYTES):
        return _one_by_one(column, schema, target)
    if schema.logical_name in (DATE, TIME, TIMESTAMP) and target is SchemaType.STRING:
        return _date_text(moments(column, schema))
    if schema.type is SchemaType.STRING:
        return _from_text(column, schema, target, type)
    return _from_float(column, schema, target, type) if schema.type in FLOATS else _from_integer(column, schema, target, type)


def moments(column: pa.Array, schema: Schema) -> pa.Array:
    """Dates, times and timestamps as int64 milliseconds since 1970."""
    if schema.logical_name == DATE:
        return pc.multiply(column.cast(pa.int32()).cast(pa.int64()), _DAY_MS)
    return column.cast(pa.int32()).cast(pa.int64()) if schema.logical_name == TIME else column.cast(pa.int64())


def _one_by_one(column: pa.Array, schema: Schema, target: SchemaType) -> pa.Array:
    cast = one_by_one(lambda value: cast_value(value, schema, target), values_of(column, schema))
    return column_of(cast, Schema(target, optional=True))


def _from_integer(column: pa.Array, schema: Schema, target: SchemaType, type: pa.DataType) -> pa.Array:
    if schema.type is SchemaType.BOOLEAN:
        return column.cast(type) if target in (SchemaType.STRING, SchemaType.BOOLEAN) else column.cast(pa.int8()).cast(type)
    if schema.logical_name is not None:
        column = column.cast(pa.int64() if schema.logical_name == TIMESTAMP else pa.int32())
    return pc.not_equal(column, 0) if target is SchemaType.BOOLEAN else column.cast(type, safe=False)


def _from_float(column: pa.Array, schema: Schema, target: SchemaType, type: pa.DataType) -> pa.Array:
    if target is SchemaType.STRING:
        return _float_text(column, schema)
    if target in FLOATS:
        return column.cast(type, safe=False)
    if target is SchemaType.BOOLEAN:
        return pc.greater_equal(pc.abs(column), 1)
    wide, limit = (pa.int64(), 2.0**63) if target is SchemaType.INT64 else (pa.int32(), 2.0**31)
    numbers = column.cast(pa.float64())
    fits = pc.less(pc.abs(numbers), limit)  # not of NaN
    whole = pc.if_else(fits, numbers, pc.if_else(column.is_valid(), 0.0, None)).cast(wide, safe=False)
    for beyond, end in ((pc.greater_equal(numbers, limit), int(limit) - 1), (pc.less_equal(numbers, -limit), -int(limit))):
        if pc.any(beyond).as_py():
            whole = pc.if_else(beyond, pa.scalar(end, wide), whole)
    return whole.cast(type, safe=False)


def _from_text(column: pa.Array, schema: Schema, target: SchemaType, type: pa.DataType) -> pa.Array:
    if target is SchemaType.STRING:
        return column
    if target is SchemaType.BOOLEAN:
        return pc.equal(pc.ascii_lower(column), "true")
    plain = _PLAIN_INTEGER if target in INTEGER_BITS else _PLAIN_NUMBER
    if pc.all(pc.match_substring_regex(column, plain)).as_py():
        try:
            return column.cast(type)
        except pa.ArrowInvalid:  # out of range: the rules say which
            pass
    return _one_by_one(column, schema, target)


def _float_text(column: pa.Array, schema: Schema) -> pa.Array:
    """Between 0.001 and ten million Arrow's digits are Java's, but for the ``.0`` of whole numbers; the rest goes one by one."""
    size = pc.abs(column)
    is_plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, _LEAST_PLAIN), pc.less(size, _LEAST_WITH_EXPONENT)))
    text = column.cast(pa.string())
    whole = pc.and_(is_plain, pc.equal(pc.floor(column), column))
    if pc.any(whole).as_py():
        text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    odd = pc.and_not(column.is_valid(), is_plain.fill_null(False))
    if not pc.any(odd).as_py():
        return text
    write = single_text if schema.type is SchemaType.FLOAT32 else double_text
    return pc.replace_with_mask(text, odd, pa.array([write(value) for value in column.filter(odd).to_pylist()], pa.string()))


def _date_text(milliseconds: pa.Array) -> pa.Array:
    """A time for the first day of 1970 and all before it, a date at midnight, else both: Connect looks at the moment alone."""
    midnight = pc.equal(pc.multiply(pc.divide(milliseconds, _DAY_MS), _DAY_MS), milliseconds)
    is_time = pc.less(milliseconds, _DAY_MS)
    text = _TIMESTAMP.format_column(milliseconds)
    for is_so, format in ((midnight, _DATE), (is_time, _TIME)):
        if pc.any(is_so).as_py():
            text = pc.if_else(is_so, format.format_column(milliseconds), text)
    return text
