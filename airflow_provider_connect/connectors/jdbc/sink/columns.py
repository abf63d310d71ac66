"""Columns of records made into columns that a table takes. A value that does not fit is found and named."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.columns import row_numbers

FEWEST_ROWS: Final = 64  # that are looked at together behind a bad one


def cast_column(name: str, column: pa.ChunkedArray, wanted: pa.DataType, *, safe: bool = True) -> pa.ChunkedArray:
    """``column`` with the type ``wanted``. Raises RefusedException with the place of the first value that does not fit."""
    if column.type.equals(wanted):
        return column
    try:
        return column.cast(wanted, safe=safe)
    except pa.ArrowException as error:
        row = _first_misfit(column, wanted, safe=safe)
        raise RefusedException(f"{_shown(column[row])} does not fit column {name}: {error}", row) from error


def _shown(value: pa.Scalar) -> str:
    """A value for an error text. Python's times end with the year 9999: those beyond are shown as their number."""
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):
        return str(value.value)


def _first_misfit(column: pa.ChunkedArray, wanted: pa.DataType, *, safe: bool) -> int:
    low, high = 0, len(column)  # all before ``low`` fits; one before ``high`` does not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column.slice(low, middle - low).cast(wanted, safe=safe)
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def misfits(count: int, check: Callable[[int, int], object]) -> dict[int, str]:
    """Why some of ``count`` rows cannot be written, by their places. ``check(start, length)`` looks at so many rows from ``start`` on, and
    raises RefusedException with the place, among these, of the first bad one. Behind a bad one few are looked at first, then twice as many.
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
            start, length = start + error.row + 1, max(FEWEST_ROWS, error.row)
    return found


def rest_of(count: int, left_out: Collection[int]) -> pa.Array:
    """The places of ``count`` rows without some."""
    places = row_numbers(count)
    return places.filter(pc.invert(pc.is_in(places, pa.array(list(left_out), pa.int64())))) if left_out else places


def local_times(column: pa.ChunkedArray, time_zone: str) -> pa.ChunkedArray:
    """Moments as what clocks in ``time_zone`` show."""
    return pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, time_zone)))


def midnights(column: pa.ChunkedArray, target: Column, time_zone: str) -> pa.ChunkedArray:
    """Days as the moments at which they begin in ``time_zone``: of UTC, or for a column without a zone as clocks there show them."""
    local = column.cast(pa.timestamp("us"))
    if target.kind is ColumnKind.TIMESTAMP:
        return local
    return pc.assume_timezone(local, time_zone, ambiguous="earliest", nonexistent="latest").cast(pa.timestamp("us", "UTC"))


def refuse_nulls(rows: pa.Table, table: TargetTable, keys: Collection[str]) -> None:
    """Raise RefusedException for the first null in the key, or in another column that takes none."""
    found: list[tuple[int, str]] = []
    for name in rows.column_names:
        target = table.columns.get(name)
        if rows[name].null_count and (name in keys or (target is not None and not target.is_nullable)):
            found.append((pc.index(rows[name].is_null(), True).as_py(), name))
    if found:
        row, name = min(found)
        raise RefusedException(f"null in column {name} of table {table.name}, which takes none", row)


def refuse_wide_numbers(column: pa.ChunkedArray, target: Column) -> None:
    """Raise RefusedException for the first integer that the column's type is too narrow for: some databases cut it off."""
    bits = _BITS.get(target.kind)
    if bits is not None and pa.types.is_integer(column.type) and column.type.bit_width > bits:
        cast_column(target.name, column, getattr(pa, f"int{bits}")())


def refuse_far_times(column: pa.ChunkedArray, target: Column) -> None:
    """Raise RefusedException for the first date or timestamp outside the years 1 to 9999, and the first time of day that is none of a
    day: drivers take Python's values, which end there."""
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


_BITS: Mapping[ColumnKind, int] = {ColumnKind.INT8: 8, ColumnKind.INT16: 16, ColumnKind.INT32: 32}
