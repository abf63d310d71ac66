"""Headers of records as Kafka encodes them, in columns: a count, then for each header its key and value with their sizes as varints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.worker.delivery.native_memory import binary_at
from airflow_provider_connect.worker.delivery.raw_batch import HEADERS_TYPE

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_MOST_VARINT_BYTES = 5  # of 32 bits


def headers_of_blocks(blocks: pa.Array) -> pa.Array | None:
    """``blocks`` is binary without nulls. A record's headers are null where the key of one is not UTF-8; None: no record has any."""
    _, offsets, data = blocks.buffers()
    ends = np.frombuffer(offsets, np.int32)[blocks.offset : blocks.offset + len(blocks) + 1].astype(np.int64)
    scan = _Scan(np.frombuffer(data, np.uint8), ends[:-1].copy())
    counts = np.zeros(len(blocks), np.int64)
    present = np.flatnonzero(ends[1:] > ends[:-1])
    counts[present] = scan.varints(present)
    if not counts.any():
        return None
    keys, values = _Parts(), _Parts()
    for number in range(int(counts.max())):
        rows = np.flatnonzero(counts > number)
        keys.add(rows, *scan.part(rows))
        values.add(rows, *scan.part(rows))
    order = keys.order()
    address = int(data.address)
    key, value = keys.column(address, order), values.column(address, order)
    unreadable = _not_utf8(key)
    starts = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
    if not len(unreadable):
        return pa.ListArray.from_arrays(starts, _entries(key, value), type=HEADERS_TYPE)
    key = pc.if_else(pa.array(np.isin(np.arange(len(key)), unreadable)), pa.scalar(b""), key)
    rows = np.repeat(np.arange(len(blocks)), counts)
    mask = np.isin(np.arange(len(blocks)), rows[unreadable])
    return pa.ListArray.from_arrays(starts, _entries(key, value), type=HEADERS_TYPE, mask=pa.array(mask))


class _Scan:
    """Positions within the bytes, one for each row; each read moves them."""

    def __init__(self, data: np.ndarray[Any, np.dtype[np.uint8]], positions: _Numbers) -> None:
        self._data, self._at = data, positions

    def varints(self, rows: _Numbers) -> _Numbers:
        """The next number of each of the rows."""
        found = np.zeros(len(rows), np.int64)
        left = np.arange(len(rows))
        for number in range(_MOST_VARINT_BYTES):
            byte = self._data[self._at[rows[left]]].astype(np.int64)
            self._at[rows[left]] += 1
            found[left] |= (byte & 0x7F) << (7 * number)
            left = left[byte >= 0x80]
            if not len(left):
                break
        return (found >> 1) ^ -(found & 1)

    def part(self, rows: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Where the next key or value of each of the rows begins, and its size; -1: it is null."""
        sizes = self.varints(rows)
        begins = self._at[rows].copy()
        self._at[rows] += np.maximum(sizes, 0)
        return begins, sizes


class _Parts:
    """Keys or values of many rows, in the order in which they were found."""

    def __init__(self) -> None:
        self._rows: list[_Numbers] = []
        self._begins: list[_Numbers] = []
        self._sizes: list[_Numbers] = []

    def add(self, rows: _Numbers, begins: _Numbers, sizes: _Numbers) -> None:
        self._rows.append(rows)
        self._begins.append(begins)
        self._sizes.append(sizes)

    def order(self) -> _Numbers:
        """That of the rows, and in a row as they were found."""
        return np.argsort(np.concatenate(self._rows), kind="stable")

    def column(self, address: int, order: _Numbers) -> pa.Array:
        begins, sizes = np.concatenate(self._begins)[order], np.concatenate(self._sizes)[order]
        addresses = np.where(sizes < 0, 0, begins + address).astype(np.uint64)
        return binary_at(addresses, np.maximum(sizes, 0).astype(np.uint64))


def _entries(key: pa.Array, value: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([key.cast(pa.string()), value], fields=list(HEADERS_TYPE.value_type))


def _not_utf8(keys: pa.Array) -> _Numbers:
    """Which of the keys are not UTF-8."""
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([index for index, key in enumerate(keys.to_pylist()) if not _is_utf8(key)], np.int64)
    return np.zeros(0, np.int64)


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
