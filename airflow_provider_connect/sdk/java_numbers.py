"""Numbers as Java's casts leave them: whole ones of so many bits, floating-point ones of 32."""

from __future__ import annotations

import math
import struct


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
