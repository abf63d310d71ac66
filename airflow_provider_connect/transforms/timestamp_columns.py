"""Moments (int64 milliseconds since 1970) as what a timestamp may be written as: seconds and their parts, dates, times of day."""

from __future__ import annotations

from typing import Final

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.transforms.java_calendar import DAY_MS, floored

PRECISIONS: Final = ("nanoseconds", "microseconds", "milliseconds", "seconds")
_LARGEST, _SMALLEST = (1 << 63) - 1, -(1 << 63)
_PER_MS: Final = {"microseconds": 1000, "nanoseconds": 1_000_000}


def moments_of_unix(numbers: pa.Array, precision: str) -> pa.Array:
    """Moments from numbers of that precision: fractions of a millisecond are cut off, what is too large stops at the limit."""
    if precision in _PER_MS:
        return pc.divide(numbers, _PER_MS[precision])
    return _times(numbers, 1000) if precision == "seconds" else numbers


def unix_of_moments(moments: pa.Array, precision: str) -> pa.Array:
    """The inverse."""
    if precision in _PER_MS:
        return _times(moments, _PER_MS[precision])
    return pc.divide(moments, 1000) if precision == "seconds" else moments


def dates_of_moments(moments: pa.Array) -> pa.Array:
    """The day that each lies in."""
    try:
        return floored(moments, DAY_MS).cast(pa.int32()).cast(pa.date32())
    except pa.ArrowInvalid as error:
        raise DataException(f"A timestamp is beyond the dates that there are: {error}") from error


def times_of_moments(moments: pa.Array) -> pa.Array:
    """The time of day of each."""
    return pc.subtract(moments, pc.multiply(floored(moments, DAY_MS), DAY_MS)).cast(pa.int32()).cast(pa.time32("ms"))


def timestamps_of_moments(moments: pa.Array) -> pa.Array:
    """The same moments as timestamps."""
    return moments.cast(pa.timestamp("ms", "UTC"))


def _times(numbers: pa.Array, factor: int) -> pa.Array:
    ends = pc.min_max(numbers).as_py()
    limit = _LARGEST // factor
    if ends["min"] is None or (ends["max"] <= limit and ends["min"] >= -limit):
        return pc.multiply(numbers, factor)
    product = pc.multiply(pc.max_element_wise(pc.min_element_wise(numbers, limit, skip_nulls=False), -limit, skip_nulls=False), factor)
    product = pc.if_else(pc.greater(numbers, limit), pa.scalar(_LARGEST, pa.int64()), product)
    return pc.if_else(pc.less(numbers, -limit), pa.scalar(_SMALLEST, pa.int64()), product)
