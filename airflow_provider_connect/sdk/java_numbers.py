"""Numbers as Java's casts leave them, whole ones of so many bits and floating-point ones of 32, and as it prints them."""

from __future__ import annotations

import math
import struct
from typing import Final

_LEAST_NORMAL: Final = 2.2250738585072014e-308


def wrapped(number: int, bits: int) -> int:
    """The lowest bits as a signed number: what a cast leaves of a larger one."""
    limit = 1 << (bits - 1)
    return (number + limit) % (limit << 1) - limit


def as_single(number: float) -> float:
    """The nearest number of 32 bits; an infinity beyond the largest."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def double_text(value: float) -> str:
    """``Double.toString``, of JDK 19 and later: the shortest digits that no other number reads back from, but at least two; plain between
    1e-3 and 1e7, else one digit, a point and an exponent.

    Where one digit would do, of the texts of two digits the nearest is taken: ``4.9E-324``. JDK 17 prints the same but for two numbers in a
    thousand, for which it prints a digit more than is needed, or not the nearest (JDK-4511638).
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    shortest = repr(abs(value))
    if abs(value) < _LEAST_NORMAL and float(two := f"{abs(value):.1e}") == abs(value):
        shortest = two
    mantissa, _, exponent = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + len(whole) - (len(whole + fraction) - len(digits))  # value = 0.«digits» × 10^point
    digits = digits.rstrip("0") or "0"
    if 1e-3 <= abs(value) < 1e7:
        padded = digits.ljust(point, "0") if point > 0 else "0" * (1 - point) + digits
        cut = max(point, 1)
        return f"{sign}{padded[:cut]}.{padded[cut:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
