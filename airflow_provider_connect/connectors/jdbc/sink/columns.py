"""Columns of records converted for a table, and for PostgreSQL's binary COPY. Errors name the first value that does not fit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TIMESTAMPS, Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.sink.array_texts import array_texts
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.connectors.jdbc.source.column_reading import first_refused
from airflow_provider_connect.connectors.jdbc.source.far_times import far_dates, far_timestamps, has_far_times, has_infinite_days
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.columns import row_numbers
from airflow_provider_connect.errors import ConnectException

_FEWEST_ROWS: Final = 64  # checked together after a bad row


def cast_column(name: str, column: pa.ChunkedArray, wanted: pa.DataType, *, safe: bool = True) -> pa.ChunkedArray:
    """``column`` with the type ``wanted``. Raises RefusedException with the row of the first value that does not fit."""
    if column.type.equals(wanted):
        return column
    try:
        return column.cast(wanted, safe=safe)
    except pa.ArrowException as error:
        row = first_refused(column, lambda some: some.cast(wanted, safe=safe))
        raise RefusedException(f"{_shown(column[row])} does not fit column {name}: {error}", row) from error


def _shown(value: pa.Scalar) -> str:
    """A value for an error message. Times after the year 9999, which Python does not have, are shown as numbers."""
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):
        return str(value.value)


def find_misfits(count: int, check: Callable[[int, int], object]) -> dict[int, str]:
    """The reasons why some of ``count`` rows cannot be written, by row index. ``check(start, length)`` checks ``length`` rows from
    ``start`` on. It raises RefusedException with the index of the first bad row, counted from ``start``. After a bad row, few rows are
    checked together, and twice as many each time after that.
    """
    found: dict[int, str] = {}
    start, length = 0, count
    while start < count:
        try:
            check(start, length)
            start, length = start + length, 2 * length
        except RefusedException as error:
            if error.row is None:
                raise
            found[start + error.row] = error.message
            start, length = start + error.row + 1, max(_FEWEST_ROWS, error.row)
    return found


def remaining_rows(count: int, left_out: Collection[int]) -> pa.Array:
    """The indices of ``count`` rows, without the indices in ``left_out``."""
    numbers = row_numbers(count)
    return numbers.filter(pc.invert(pc.is_in(numbers, pa.array(list(left_out), pa.int64())))) if left_out else numbers


def local_times(column: pa.ChunkedArray, time_zone: str) -> pa.ChunkedArray:
    """Timestamps as local times of ``time_zone``."""
    return pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, time_zone)))


def unzoned_texts(column: pa.ChunkedArray, target: Column, time_zone: str) -> pa.ChunkedArray:
    """Texts for a timestamp column. ISO 8601 times with Z or an offset become local times of ``time_zone``, or times in UTC for a column
    with a zone. Digits after microseconds are dropped. Other texts are unchanged. Raises RefusedException with the row of an impossible
    time."""
    if target.kind not in TIMESTAMPS or not pa.types.is_string(column.type):
        return column
    has_zone = pc.match_substring_regex(column, _ZONED)
    if not pc.any(has_zone).as_py():
        return column
    exact = pc.replace_substring_regex(pc.if_else(has_zone, column, None), _ZONED, r"\1T\2\3\4")
    times = cast_column(target.name, exact, pa.timestamp("us", "UTC"))
    local = local_times(times, "UTC" if target.kind is ColumnKind.TIMESTAMP_TZ else time_zone)
    return pc.coalesce(local.cast(pa.string()), column)


def midnights(column: pa.ChunkedArray, target: Column, time_zone: str) -> pa.ChunkedArray:
    """Dates as the timestamps of midnight in ``time_zone``. The timestamps are in UTC, or in local time for a column without a zone."""
    local = column.cast(pa.timestamp("us"))
    if target.kind is ColumnKind.TIMESTAMP:
        return local
    return pc.assume_timezone(local, time_zone, ambiguous="earliest", nonexistent="latest").cast(pa.timestamp("us", "UTC"))


def refuse_nulls(rows: pa.Table, table: TargetTable, keys: Collection[str]) -> None:
    """Raise RefusedException for the first null in a key column, or in another column that is NOT NULL."""
    found: list[tuple[int, str]] = []
    for name in rows.column_names:
        target = table.columns.get(name)
        if rows[name].null_count and (name in keys or (target is not None and not target.is_nullable)):
            found.append((pc.index(rows[name].is_null(), True).as_py(), name))
    if found:
        row, name = min(found)
        raise RefusedException(f"null in column {name} of table {table.name}, which is NOT NULL", row)


def refuse_wide_numbers(column: pa.ChunkedArray, target: Column) -> None:
    """Raise RefusedException for the first integer that is too wide for the column's type, because some databases would truncate it."""
    bits = _BITS.get(target.kind)
    if bits is not None and pa.types.is_integer(column.type) and column.type.bit_width > bits:
        cast_column(target.name, column, getattr(pa, f"int{bits}")())


def refuse_far_times(column: pa.ChunkedArray, target: Column) -> None:
    """Raise RefusedException for the first date or timestamp outside the years 1 to 9999, and for the first time of day that is not within
    24 hours. Drivers accept Python's values, which have these limits."""
    types, type = pa.types, column.type
    if types.is_date32(type):
        numbers, least, most = column.cast(pa.int32()), _LEAST_DAY, _MOST_DAY
    elif types.is_timestamp(type):
        numbers, per_day = column.cast(pa.int64()), _PER_DAY[type.unit]
        least, most = _LEAST_DAY * per_day, (_MOST_DAY + 1) * per_day - 1
    elif types.is_time(type):
        numbers, least, most = column.cast(pa.int32() if types.is_time32(type) else pa.int64()), 0, _PER_DAY[type.unit] - 1
    else:
        return
    bounds = pc.min_max(numbers)
    if bounds["min"].as_py() is None or (least <= bounds["min"].as_py() and bounds["max"].as_py() <= most):
        return
    is_out = pc.or_(pc.less(numbers, pa.scalar(least, numbers.type)), pc.greater(numbers, pa.scalar(most, numbers.type)))
    row = pc.index(is_out.fill_null(False), True).as_py()
    raise RefusedException(
        f"{numbers[row]} since 1970 or midnight ({type}) does not fit column {target.name}: the database has years 1 to 9999", row
    )


_LEAST_DAY, _MOST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


_BITS: Final[Mapping[ColumnKind, int]] = {ColumnKind.INT8: 8, ColumnKind.INT16: 16, ColumnKind.INT32: 32}


_ZONED: Final = (  # date, time with up to 6 digits after the point or without a point, zone
    r"^(\d{4}-\d\d-\d\d)[T ](?:(\d\d:\d\d:\d\d\.\d{1,6})\d*|(\d\d:\d\d(?::\d\d)?)) ?(Z|[+-]\d\d(?::?\d\d)?)$"
)
_TEXTS: Final = frozenset({"text", "varchar", "bpchar"})


_BINARY: Final = b"postgresql"  # in the metadata of an integer field: the type whose binary form the integers are


def wire_field(target: Column, column: pa.ChunkedArray, time_zone: str) -> tuple[pa.Field, pa.ChunkedArray, bool]:
    """The field and the column in the form that COPY writes, and whether ``target`` accepts this form. If not, the column is staged, and
    the server casts it."""
    types = pa.types
    binary = None
    if target.kind is ColumnKind.TIMESTAMP:  # the server would ignore the offset; for a column with a zone, it reads it
        column = unzoned_texts(column, target, time_zone)
    if target.kind in TIMESTAMPS and (types.is_timestamp(column.type) or types.is_date(column.type)) and has_far_times(column):
        column, is_direct, binary = far_timestamps(target, column, time_zone), True, target.type_name
    elif target.kind is ColumnKind.DATE and types.is_date(column.type) and has_infinite_days(column):
        column, is_direct, binary = far_dates(target, column), True, target.type_name
    elif types.is_list(column.type):
        column, is_direct = array_texts(column, target, time_zone), False
    else:
        column, is_direct = wire_column(target, column, time_zone)
    metadata = None if binary is None else {_BINARY: binary}
    return pa.field(target.name, column.type, metadata=metadata), column, is_direct


def wire_column(target: Column, column: pa.ChunkedArray, time_zone: str) -> tuple[pa.ChunkedArray, bool]:
    """The column, without far times, in the form that the driver writes for COPY, and whether ``target`` accepts this form."""
    given, types = column.type, pa.types
    if types.is_timestamp(given) or (types.is_date(given) and target.kind in TIMESTAMPS):
        return _timestamps(target, column, time_zone), True
    if types.is_decimal(given) and target.kind is ColumnKind.DECIMAL:
        return column, True
    if types.is_integer(given) and target.kind is ColumnKind.DECIMAL:
        return column.cast(pa.decimal128(19, 0)), True
    wire = _wire().get(target.type_name)
    if types.is_null(given):
        return column.cast(wire or pa.string()), wire is not None
    is_other = types.is_floating(given) and target.kind is ColumnKind.DECIMAL
    if wire is None or is_other or types.is_string(given) != types.is_string(wire):
        return column, False
    return cast_column(target.name, column, wire, safe=not types.is_floating(wire)), True


def _timestamps(target: Column, column: pa.ChunkedArray, time_zone: str) -> pa.ChunkedArray:
    if pa.types.is_date(column.type):
        return midnights(column, target, time_zone)
    if target.kind is ColumnKind.TIMESTAMP_TZ:
        return cast_column(target.name, column, pa.timestamp("us", "UTC"))
    timestamps = local_times(column, time_zone) if time_zone != "UTC" else column
    return cast_column(target.name, timestamps, pa.timestamp("us"))


def stage_type(field: pa.Field) -> str:
    """The PostgreSQL type whose COPY format the driver writes for a column."""
    types, type = pa.types, field.type
    if field.metadata and _BINARY in field.metadata:
        return str(field.metadata[_BINARY].decode())
    if types.is_decimal(type):
        return "numeric"
    if types.is_timestamp(type):
        return "timestamptz" if type.tz else "timestamp"
    for is_kind, name in (
        (types.is_boolean, "bool"),
        (types.is_int8, "int2"),
        (types.is_int16, "int2"),
        (types.is_int32, "int4"),
        (types.is_int64, "int8"),
        (types.is_float32, "float4"),
        (types.is_float64, "float8"),
        (types.is_binary, "bytea"),
        (types.is_date, "date"),
        (types.is_time, "time"),
        (types.is_string, "text"),
    ):
        if is_kind(type):
            return name
    raise ConnectException(f"Arrow type {type} has no type in PostgreSQL")


@functools.cache
def _wire() -> Mapping[str, pa.DataType]:
    """The Arrow type that the driver's COPY writes, by PostgreSQL type."""
    return {
        "bool": pa.bool_(),
        "int2": pa.int16(),
        "int4": pa.int32(),
        "int8": pa.int64(),
        "float4": pa.float32(),
        "float8": pa.float64(),
        "bytea": pa.binary(),
        "date": pa.date32(),
        "time": pa.time64("us"),
        **dict.fromkeys(_TEXTS, pa.string()),
    }
