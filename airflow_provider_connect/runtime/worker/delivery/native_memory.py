"""This process's own memory, at addresses that librdkafka returned: as words, and as columns that Arrow copies.

The caller vouches for the addresses: any other ends the process.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

_WINDOW_BITS = 30  # of an address within one of Arrow's buffers, whose offsets have 31
_INLINE = 12  # bytes that stand in a view itself
_FIRST_WORD, _FIRST_BYTE = 8, 1  # where the arrays of all memory begin: an address of zero would be no array
_ADDRESS_BITS = 48
Words = np.ndarray[Any, np.dtype[np.uint64]]


def words_at(addresses: Words, count: int) -> Words:
    """``count`` 64-bit words at each address, which is a multiple of 8: (addresses, words)."""
    first = ((addresses - np.uint64(_FIRST_WORD)) >> np.uint64(3)).astype(np.int64)
    found: Words = _all_words()[first[:, None] + np.arange(count)]
    return found


def binary_at(addresses: Words, sizes: Words) -> pa.Array:
    """A binary column with the bytes at each address, a null for an address of zero. ``sizes`` are below 1 GiB."""
    is_null = addresses == 0
    views = np.zeros((len(addresses), 4), np.int32)  # Arrow's binary views: size, prefix or bytes, buffer or bytes, offset or bytes
    windows = addresses >> np.uint64(_WINDOW_BITS)
    used = windows[:1]
    if (windows != used).any():  # seldom: to sort them costs half as much as all else
        used, views[:, 2] = np.unique(windows, return_inverse=True)
    views[:, 3] = addresses & np.uint64((1 << _WINDOW_BITS) - 1)
    short = np.flatnonzero(sizes <= _INLINE)
    if len(short):
        views[short, 1:] = _short_bytes(addresses[short], sizes[short])
    views[:, 0] = sizes
    buffers = [pa.foreign_buffer(window << _WINDOW_BITS, (2 << _WINDOW_BITS) - 1) for window in used.tolist()]
    validity = pa.array(~is_null).buffers()[1] if is_null.any() else None
    return pa.Array.from_buffers(pa.binary_view(), len(addresses), [validity, pa.py_buffer(views), *buffers]).cast(pa.binary())


def _short_bytes(addresses: Words, sizes: Words) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The bytes, zeros behind them. None is read that is not of a record: its memory may end there."""
    columns = np.arange(_INLINE)
    found = np.zeros((len(addresses), _INLINE), np.uint8)
    wanted = columns < sizes.astype(np.int64)[:, None]
    positions = (addresses.astype(np.int64) - _FIRST_BYTE)[:, None] + columns
    found[wanted] = _all_bytes()[positions[wanted]]
    return found.view(np.int32)


@cache
def _all_words() -> Words:
    return np.ctypeslib.as_array((ctypes.c_uint64 * (1 << (_ADDRESS_BITS - 3))).from_address(_FIRST_WORD))


@cache
def _all_bytes() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * (1 << _ADDRESS_BITS)).from_address(_FIRST_BYTE))
