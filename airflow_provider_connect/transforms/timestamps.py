"""Instants, int64 milliseconds since 1970 in UTC: conversions to other forms of timestamps, and Java's calendar.

The calendar is Gregorian from 15 October 1582, and Julian before that date. Days are counted from 1970, as numbers or columns. A part of a
date that exceeds its range is carried over: the 32nd of a month is a day of the next month.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.schema import DATE, TIME, Schema
from airflow_provider_connect.errors import DataException

DAY_MS: Final = 86_400_000
CUTOVER_DAY: Final = -141_427  # 1582-10-15
_CUTOVER_MS: Final = CUTOVER_DAY * DAY_MS
PRECISIONS: Final = ("nanoseconds", "microseconds", "milliseconds", "seconds")
_LARGEST, _SMALLEST = (1 << 63) - 1, -(1 << 63)
_PER_MS: Final = {"microseconds": 1000, "nanoseconds": 1_000_000}


def instants_of_column(column: pa.Array, schema: Schema) -> pa.Array:
    """The instants of a column of dates, times or timestamps."""
    if schema.logical_name == DATE:
        return pc.multiply(column.cast(pa.int32()).cast(pa.int64()), DAY_MS)
    return column.cast(pa.int32()).cast(pa.int64()) if schema.logical_name == TIME else column.cast(pa.int64())


def instants_of_unix(numbers: pa.Array, precision: str) -> pa.Array:
    """The instants of Unix times of ``precision``. Fractions of a millisecond are cut off. Values beyond the limits become the limits."""
    if precision in _PER_MS:
        return pc.divide(numbers, _PER_MS[precision])
    return _times(numbers, 1000) if precision == "seconds" else numbers


def unix_of_instants(instants: pa.Array, precision: str) -> pa.Array:
    """The Unix times of instants in ``precision``: the inverse of ``instants_of_unix``."""
    if precision in _PER_MS:
        return _times(instants, _PER_MS[precision])
    return pc.divide(instants, 1000) if precision == "seconds" else instants


def dates_of_instants(instants: pa.Array) -> pa.Array:
    """The date of each instant. Raises DataException if a date is out of range."""
    try:
        return floored(instants, DAY_MS).cast(pa.int32()).cast(pa.date32())
    except pa.ArrowInvalid as error:
        raise DataException(f"A timestamp is out of the range of dates: {error}") from error


def times_of_instants(instants: pa.Array) -> pa.Array:
    """The time of day of each instant."""
    return pc.subtract(instants, pc.multiply(floored(instants, DAY_MS), DAY_MS)).cast(pa.int32()).cast(pa.time32("ms"))


def timestamps_of_instants(instants: pa.Array) -> pa.Array:
    """The instants as timestamps in UTC."""
    return instants.cast(pa.timestamp("ms", "UTC"))


def _times(numbers: pa.Array, factor: int) -> pa.Array:
    ends = pc.min_max(numbers).as_py()
    limit = _LARGEST // factor
    if ends["min"] is None or (ends["max"] <= limit and ends["min"] >= -limit):
        return pc.multiply(numbers, factor)
    product = pc.multiply(pc.max_element_wise(pc.min_element_wise(numbers, limit, skip_nulls=False), -limit, skip_nulls=False), factor)
    product = pc.if_else(pc.greater(numbers, limit), pa.scalar(_LARGEST, pa.int64()), product)
    return pc.if_else(pc.less(numbers, -limit), pa.scalar(_SMALLEST, pa.int64()), product)


class Day(NamedTuple):
    """A date by its parts. ``year`` 0 is 1 BC, -1 is 2 BC."""

    year: int
    month: int
    day: int


def days_of(year: int, month: int, day: int) -> int:
    """The number of days from 1970 to a date."""
    gregorian = _month_start(year, month, is_julian=False) + day - 1
    return gregorian if gregorian >= CUTOVER_DAY else _month_start(year, month, is_julian=True) + day - 1


def date_of(days: int) -> Day:
    """The date of a day number, in the calendar that applied on that day."""
    is_julian = days < CUTOVER_DAY
    shifted = days + (719_470 if is_julian else 719_468)
    if is_julian:
        years_of_era, rest = 0, shifted
        years, rest = divmod(rest * 4 + 3, 1461)
        rest //= 4
    else:
        era, rest = divmod(shifted, 146_097)
        years_of_era = era * 400
        years = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
        rest -= 365 * years + years // 4 - years // 100
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5 + 1
    return Day(years_of_era + years + (month >= 10), month + 3 if month < 10 else month - 9, day)


def days_column(year: pa.Array, month: pa.Array, day: pa.Array) -> pa.Array:
    """The day numbers of dates, whose parts are int64 columns. Only for the Gregorian calendar and years of at least 1."""
    months = pc.add(pc.multiply(year, 12), pc.subtract(month, 3))  # a year that starts in March ends with its leap day
    years = pc.divide(months, 12)
    rest = pc.subtract(months, pc.multiply(years, 12))
    leap_days = pc.add(pc.subtract(pc.divide(years, 4), pc.divide(years, 100)), pc.divide(years, 400))
    of_year = pc.divide(pc.add(pc.multiply(rest, 153), 2), 5)
    return pc.add(pc.add(pc.multiply(years, 365), leap_days), pc.add(of_year, pc.subtract(day, 719_469)))


def is_gregorian(milliseconds: pa.Array) -> bool:
    """Whether all instants are in the Gregorian calendar, in years of at most four digits. False if all are null."""
    ends = pc.min_max(milliseconds).as_py()
    return bool(ends["min"] is not None and ends["min"] >= _CUTOVER_MS and ends["max"] < 253_402_300_800_000)


def floored(numbers: pa.Array, unit: int) -> pa.Array:
    """Each int64 divided by ``unit``, rounded down."""
    quotient = pc.divide(numbers, unit)
    below = pc.and_(pc.less(numbers, 0), pc.not_equal(pc.multiply(quotient, unit), numbers))
    return pc.subtract(quotient, below.cast(pa.int64()))


def _month_start(year: int, month: int, *, is_julian: bool) -> int:
    years, month = divmod(month - 3, 12)
    year += years
    leap_days = year // 4 if is_julian else year // 4 - year // 100 + year // 400
    return 365 * year + leap_days + (153 * month + 2) // 5 - (719_470 if is_julian else 719_468)
