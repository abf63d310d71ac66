"""Headers of records as Kafka encodes them, in columns: a count, then for each header its key and value with their sizes as varints.

Any producer writes them, so a block may be anything: then the headers of its record cannot be read, and those of the others can.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.worker.delivery.native_memory import binary_at
from airflow_provider_connect.worker.delivery.raw_batch import HEADERS_TYPE

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_MOST_VARINT_BYTES = 5  # of 32 bits
_AT_ONCE = 32  # headers of all records are read side by side; what a record has beyond them, one after another


def headers_of_blocks(blocks: pa.Array) -> pa.Array | None:
    """``blocks`` is binary without nulls. A record's headers are null where its block is not whole, or the key of one is not UTF-8; None:
    no record has any."""
    _, offsets, data = blocks.buffers()
    edges = np.frombuffer(offsets, np.int32)[blocks.offset : blocks.offset + len(blocks) + 1].astype(np.int64)
    if data is None or not len(data):
        return None
    scan = _Scan(np.frombuffer(data, np.uint8), edges)
    counts = scan.counts()
    keys, values = _Parts(), _Parts()
    for number in range(min(int(counts.max(initial=0)), _AT_ONCE)):
        rows = scan.whole(np.flatnonzero(counts > number))
        keys.add(rows, *scan.parts(rows, 0))
        values.add(rows, *scan.parts(rows, -1))
    for row in scan.whole(np.flatnonzero(counts > _AT_ONCE)).tolist():
        of_keys, of_values = scan.rest(row, int(counts[row]) - _AT_ONCE)
        keys.add(np.full(len(of_keys), row), of_keys[:, 0], of_keys[:, 1])
        values.add(np.full(len(of_values), row), of_values[:, 0], of_values[:, 1])
    counts[scan.broken] = 0
    if not counts.any() and not scan.broken.any():
        return None
    key, value = (parts.column(int(data.address), scan.broken) for parts in (keys, values))
    unreadable = _not_utf8(key)
    key = pc.if_else(pa.array(unreadable), pa.scalar(b""), key)
    missing = scan.broken.copy()
    missing[np.repeat(np.arange(len(blocks)), counts)[unreadable]] = True
    starts = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
    entries = pa.StructArray.from_arrays([key.cast(pa.string()), value], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(starts, entries, type=HEADERS_TYPE, mask=pa.array(missing) if missing.any() else None)


class _Scan:
    """Positions within the bytes, one for each record; each read moves them. ``broken``: records whose block is not whole."""

    def __init__(self, data: np.ndarray[Any, np.dtype[np.uint8]], edges: _Numbers) -> None:
        self._data, self._at, self._ends = data, edges[:-1].copy(), edges[1:]
        self.broken = np.zeros(len(self._at), bool)

    def whole(self, rows: _Numbers) -> _Numbers:
        return rows[~self.broken[rows]]

    def counts(self) -> _Numbers:
        """How many headers each record has; an empty block has none."""
        sizes = self._ends - self._at
        found = np.zeros(len(sizes), np.int64)
        rows = np.flatnonzero(sizes)
        found[rows] = self._varints(rows)
        self.broken |= (found < 0) | (found * 2 > sizes)  # a header takes two bytes at least
        found[self.broken] = 0
        return found

    def parts(self, rows: _Numbers, least: int) -> tuple[_Numbers, _Numbers]:
        """Where the next key or value of each of the rows begins, and its size; -1: it is null. No size is below ``least``."""
        sizes = self._varints(rows)
        begins = self._at[rows]
        after = begins + np.maximum(sizes, 0)
        self.broken[rows] |= (sizes < least) | (after > self._ends[rows])
        self._at[rows] = after
        return begins, sizes

    def rest(self, row: int, count: int) -> tuple[_Numbers, _Numbers]:
        """Of one record: where each of its next keys begins, with their sizes, and so of its values."""
        first, at, found = int(self._at[row]), 0, []
        block = self._data[first : int(self._ends[row])].tobytes()
        for number in range(2 * count):
            size, shift = 0, 0
            while True:
                if at >= len(block) or shift >= 7 * _MOST_VARINT_BYTES:
                    self.broken[row] = True
                    return _pairs([]), _pairs([])
                byte = block[at]
                at += 1
                size |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            size = (size >> 1) ^ -(size & 1)
            found.append((first + at, size))
            at += max(size, 0)
            if size < -(number % 2) or at > len(block):
                self.broken[row] = True
                return _pairs([]), _pairs([])
        return _pairs(found[::2]), _pairs(found[1::2])

    def _varints(self, rows: _Numbers) -> _Numbers:
        """The next number of each of the rows."""
        found = np.zeros(len(rows), np.int64)
        left = np.arange(len(rows))
        last = len(self._data) - 1
        for number in range(_MOST_VARINT_BYTES):
            byte = self._data[np.minimum(self._at[rows[left]], last)].astype(np.int64)
            self._at[rows[left]] += 1
            found[left] |= (byte & 0x7F) << (7 * number)
            left = left[byte >= 0x80]
            if not len(left):
                break
        self.broken[rows[left]] = True
        self.broken[rows] |= self._at[rows] > self._ends[rows]
        return (found >> 1) ^ -(found & 1)


def _pairs(found: list[tuple[int, int]]) -> _Numbers:
    return np.array(found, np.int64).reshape(-1, 2)


class _Parts:
    """Keys or values of many records, in the order in which they were found."""

    def __init__(self) -> None:
        self._rows: list[_Numbers] = [np.zeros(0, np.int64)]
        self._begins: list[_Numbers] = [np.zeros(0, np.int64)]
        self._sizes: list[_Numbers] = [np.zeros(0, np.int64)]

    def add(self, rows: _Numbers, begins: _Numbers, sizes: _Numbers) -> None:
        self._rows.append(rows)
        self._begins.append(begins)
        self._sizes.append(sizes)

    def column(self, address: int, broken: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
        """In the order of the records, and in a record as they were found; without those of ``broken`` records."""
        rows = np.concatenate(self._rows)
        order = np.argsort(rows, kind="stable")
        order = order[~broken[rows[order]]]
        begins, sizes = np.concatenate(self._begins)[order], np.concatenate(self._sizes)[order]
        addresses = np.where(sizes < 0, 0, begins + address).astype(np.uint64)
        return binary_at(addresses, np.maximum(sizes, 0).astype(np.uint64))


def _not_utf8(keys: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each key, whether it is not UTF-8."""
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([not _is_utf8(key) for key in keys.to_pylist()], bool)
    return np.zeros(len(keys), bool)


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
