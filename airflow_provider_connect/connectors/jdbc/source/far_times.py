"""Converts PostgreSQL's infinite times, and times out of the range of Arrow's microseconds, between the driver's columns and records.

Infinite timestamps have the values of PostgreSQL's JDBC driver, so that connectors of both kinds are compatible. Infinite dates have the
largest and smallest number of days. PostgreSQL counts microseconds and days from the year 2000, but the Arrow driver counts from 1970. The
driver's conversion overflows for infinity and for years after 294246.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.dialects.postgresql import INFINITY_MS, MINUS_INFINITY_MS
from airflow_provider_connect.data.arrow import np, pa, pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

INFINITY_DAY: Final = 2**31 - 1
MINUS_INFINITY_DAY: Final = -(2**31)
_DAY_MS: Final = 86_400_000
_EPOCH_MS: Final = 946_684_800_000  # the year 2000
_EPOCH_DAY: Final = 10_957
_LEAST_MS, _END_MS = -210_866_803_200_000, 9_224_318_016_000_000  # PostgreSQL's timestamps: from 4714-11-24 BC to 294277 (exclusive)
_ARROW_END_MS: Final = 9_223_372_036_854_775 - _DAY_MS  # microseconds that fit into 64 bits in all time zones
_WRAPPED_US: Final = -1_000_000_000_000_000_000  # smaller numbers are sums that have overflowed
_WRAPPED_DAY: Final = -2_147_000_000
_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)


# Reading


def has_wrapped_times(column: pa.Array) -> bool:
    """Whether a driver's column of timestamps has infinity, or a time whose sum has overflowed."""
    least = pc.min(column.cast(pa.int64())).as_py() if column.type.unit == "us" else None
    return least is not None and least < _WRAPPED_US


def unwrapped_milliseconds(column: pa.Array, zone: str) -> pa.Array:
    """A column with wrapped times as timestamp('ms', 'UTC'). ``zone`` applies to times without a zone."""
    raw = _numbers(column)
    from_2000 = (raw.view(np.uint64) - np.uint64(_EPOCH_MS * 1000)).view(np.int64)  # PostgreSQL's own number: reverses overflows
    milliseconds = from_2000 // 1000 + _EPOCH_MS
    is_finite = (from_2000 != _LARGEST) & (from_2000 != _SMALLEST)
    if column.type.tz is None and zone != "UTC":
        milliseconds[is_finite] = _assumed(milliseconds[is_finite], zone)
    milliseconds[from_2000 == _LARGEST] = INFINITY_MS
    milliseconds[from_2000 == _SMALLEST] = MINUS_INFINITY_MS
    return _masked(milliseconds, column, pa.int64()).cast(pa.timestamp("ms", "UTC"))


def unwrapped_days(column: pa.Array) -> pa.Array:
    """A driver's column of dates, with infinity in the form of records."""
    least = pc.min(column.cast(pa.int32())).as_py()
    if least is None or least >= _WRAPPED_DAY:
        return column
    days = _numbers(column.cast(pa.int32())).astype(np.int64)
    days[days == INFINITY_DAY + _EPOCH_DAY - 2**32] = INFINITY_DAY
    days[days == MINUS_INFINITY_DAY + _EPOCH_DAY] = MINUS_INFINITY_DAY
    return _masked(days, column, pa.int32()).cast(pa.date32())


# Writing


def has_far_times(column: pa.ChunkedArray) -> bool:
    """Whether a column of records (dates, or timestamps in milliseconds) must be written with ``far_timestamps``."""
    if not (pa.types.is_date(column.type) or column.type.unit == "ms"):
        return False
    bounds = pc.min_max(column.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date(column.type) else column.cast(pa.int64()))
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    scale = _DAY_MS if pa.types.is_date(column.type) else 1
    return least is not None and (least * scale < _LEAST_MS or greatest * scale > _ARROW_END_MS)


def far_timestamps(target: Column, column: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    """Dates or timestamps as PostgreSQL's binary numbers for a column of timestamps (int64). Raises RefusedException for the first value
    out of PostgreSQL's range."""
    is_date = pa.types.is_date(column.type)
    raw = _numbers(column.cast(pa.int32()) if is_date else column)
    ends = (INFINITY_DAY, MINUS_INFINITY_DAY) if is_date else (INFINITY_MS, MINUS_INFINITY_MS)
    is_infinite, is_minus_infinite = raw == ends[0], raw == ends[1]
    milliseconds = np.where(is_infinite | is_minus_infinite, 0, raw.astype(np.int64) * (_DAY_MS if is_date else 1))
    if zone != "UTC":
        if is_date and target.kind is ColumnKind.TIMESTAMP_TZ:
            milliseconds = _assumed(milliseconds, zone)
        elif not is_date and target.kind is ColumnKind.TIMESTAMP:
            milliseconds = _local(milliseconds, zone)
    _refuse_out_of_range(target, column, (milliseconds < _LEAST_MS) | (milliseconds >= _END_MS))
    numbers = (milliseconds - _EPOCH_MS) * 1000
    numbers[is_infinite], numbers[is_minus_infinite] = _LARGEST, _SMALLEST
    return pa.chunked_array([_masked(numbers, column, pa.int64())])


def has_infinite_days(column: pa.ChunkedArray) -> bool:
    """Whether a column of dates must be written with ``far_dates``."""
    bounds = pc.min_max(column.cast(pa.int32()))
    return bool(bounds["max"].as_py() == INFINITY_DAY or bounds["min"].as_py() == MINUS_INFINITY_DAY)


def far_dates(target: Column, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates as PostgreSQL's binary numbers (int32)."""
    days = _numbers(column.cast(pa.int32())).astype(np.int64)
    is_infinite, is_minus_infinite = days == INFINITY_DAY, days == MINUS_INFINITY_DAY
    days = np.where(is_infinite | is_minus_infinite, 0, days - _EPOCH_DAY)
    _refuse_out_of_range(target, column, days <= MINUS_INFINITY_DAY)
    days[is_infinite], days[is_minus_infinite] = INFINITY_DAY, MINUS_INFINITY_DAY
    return pa.chunked_array([_masked(days, column, pa.int32())])


def _refuse_out_of_range(target: Column, column: pa.ChunkedArray, is_out: NDArray[np.bool_]) -> None:
    rows = np.flatnonzero(is_out & ~_is_null(column))
    if len(rows):
        row = int(rows[0])
        unit = "days" if pa.types.is_date(column.type) else "ms"
        value = column[row].value
        raise RefusedException(f"{value} {unit} since 1970 do not fit column {target.name}: {target.type_name} out of range", row)


def _assumed(milliseconds: Numbers, zone: str) -> Numbers:
    local = pa.array(milliseconds).cast(pa.timestamp("ms"))
    return _numbers(pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest"))


def _local(milliseconds: Numbers, zone: str) -> Numbers:
    return _numbers(pc.local_timestamp(pa.array(milliseconds).cast(pa.timestamp("ms", zone))))


def _numbers(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """A copy of a column's numbers, with 0 for null."""
    numbers: Any = column if pa.types.is_integer(column.type) else column.cast(pa.int64())
    return np.array(
        numbers.fill_null(0).to_numpy(zero_copy_only=False) if isinstance(numbers, pa.Array) else numbers.fill_null(0).to_numpy()
    )


def _is_null(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    found = column.is_null()
    return np.asarray(found.to_numpy(zero_copy_only=False) if isinstance(found, pa.Array) else found.to_numpy(), dtype=bool)


def _masked(numbers: Numbers, column: pa.Array | pa.ChunkedArray, type: pa.DataType) -> pa.Array:
    """The numbers, with null where ``column`` is null."""
    return pa.array(numbers, mask=_is_null(column), type=type)
