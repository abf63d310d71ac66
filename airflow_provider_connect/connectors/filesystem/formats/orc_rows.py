"""The number of rows of an ORC file to read at a time. The expanded size of stripes is computed before they are read.

A run (a repeated value) of a few bytes may expand to a million rows, each with a long text from a dictionary. The library does not check
sizes in advance, so the lengths of texts and lists are read from the file here. Only small files are measured, because a large file cannot
expand as much.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from typing import Any, Final

from airflow_provider_connect.connectors.filesystem.formats.contract import BROKEN, CHUNK_BYTES, NonClosingFile
from airflow_provider_connect.connectors.filesystem.formats.orc_runs import all_runs, varint
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.expansion import MOST_BYTES, MOST_LEVELS, check_fields
from airflow_provider_connect.errors import DataException

_MEASURED_BYTES: Final = 4 << 20
_MADE_BYTES: Final = 2 * CHUNK_BYTES
_UNPACKED_BYTES: Final = 8 << 20
_CODECS: Final = ("", "zlib", "snappy", "lzo", "lz4_raw", "zstd")
_UNKNOWN: Final = "lzo"  # which Arrow decompresses only in ORC files
_TEXTS: Final = (7, 8, 16, 17)  # kinds of types: string, binary, varchar, char
_LISTS: Final = (10, 11)  # list, map
_WIDTHS: Final = {0: 1, 1: 1, 2: 2, 3: 4, 5: 4, 7: 4, 8: 4, 14: 16, 15: 4, 16: 4, 17: 4}
_LENGTHS: Final = 2  # a kind of stream
_DICTIONARIES: Final = (1, 3)  # encodings of columns: the first two have runs of version 1
_FIRST_VERSION: Final = 2
_ROWS: Final = 5  # the field of a stripe


@dataclass(frozen=True, slots=True)
class StripeRows:
    """A stripe with its rows in one or more pieces. The iterator raises the library's exception for an unreadable stripe."""

    number: int
    is_whole: bool
    pieces: Iterator[Any]  # Any: pyarrow has no types


def stripe_rows(source: Any, file: NonClosingFile, tail: Tail, stripes: range) -> Iterator[StripeRows]:
    """The rows of each stripe. A stripe that may exceed ``MOST_BYTES`` is read some rows at a time. Raises DataException if a single row
    may exceed it, because that row may contain all lists."""
    measures = _measures(tail, stripes)
    large = [measure for measure in measures.values() if measure.bytes > MOST_BYTES]
    scanned = _Scanner(file, min((max(1, int(_MADE_BYTES * each.rows / each.bytes)) for each in large), default=1))
    for number in stripes:
        measure = measures.get(number)
        if measure is None or measure.bytes <= MOST_BYTES:
            yield StripeRows(number, True, _whole(source, number))
        else:
            yield StripeRows(number, False, _in_pieces(scanned, measure))


def _whole(source: Any, stripe: int) -> Iterator[Any]:
    yield source.read_stripe(stripe)


def _in_pieces(scanned: _Scanner, measure: _Measure) -> Iterator[Any]:
    if measure.error:
        raise DataException(f"its lengths are invalid: {measure.error}") from measure.error
    if measure.listed > MOST_BYTES:
        raise DataException(f"its lists may need {measure.listed} bytes in memory, and a row may have at most {MOST_BYTES}")
    yield from scanned.rows(measure.first, measure.rows)


def _measures(tail: Tail, stripes: range) -> dict[int, _Measure]:
    """The measures of stripes. Empty for a large file."""
    if tail.size > _MEASURED_BYTES or not tail.is_known:
        return {}
    firsts = [*accumulate((stripe.get(_ROWS, 0) for stripe in tail.stripes), initial=0)]
    return {number: _measure(tail, tail.stripes[number], firsts[number]) for number in stripes}


def _measure(tail: Tail, stripe: dict[int, int], first: int) -> _Measure:
    try:
        return tail.measure(stripe, first)
    except (pa.ArrowException, zlib.error, *BROKEN) as error:
        return _Measure(first, stripe.get(_ROWS, 0), MOST_BYTES + 1, 0, error)


@dataclass(frozen=True, slots=True)
class _Measure:
    """The number of rows of a stripe, and two upper bounds: the bytes of the rows in memory, and the bytes in lists (``listed``). If the
    bounds are unknown, the reason."""

    first: int
    rows: int
    bytes: int
    listed: int
    error: Exception | None = None


class _Scanner:
    """Reads the rows of a file from the first row, some at a time. The library cannot read parts of stripes in another way."""

    def __init__(self, file: NonClosingFile, rows: int) -> None:
        self._file = file
        self._size = rows
        self._batches: Iterator[Any] | None = None
        self._next = 0

    def rows(self, first: int, count: int) -> Iterator[Any]:
        if self._batches is None:
            dataset = import_module("pyarrow.dataset")
            fragment = dataset.OrcFileFormat().make_fragment(self._file)
            self._batches = fragment.scanner(batch_size=self._size, batch_readahead=0, fragment_readahead=0, use_threads=False).to_batches()
        while self._next < first + count:
            batch = next(self._batches, None)
            if batch is None:
                raise DataException("it has fewer rows than its end describes")
            self._next += batch.num_rows
            if self._next > first:
                yield batch


class Tail:
    """The tail of a file: its types and stripes. Raises DataException for an invalid tail, and for a tail that exceeds the limits, because
    the library would create all its types, recursively."""

    def __init__(self, file: NonClosingFile) -> None:
        self._file = file
        self.size = file.seek(0, 2)
        self.stripes: list[dict[int, int]] = []
        self.is_known = True
        self._kinds: list[int] = []
        self._parents: dict[int, int] = {}
        self._levels: list[int] = []
        try:
            self._read()
        except (LookupError, ValueError, zlib.error, pa.ArrowException) as error:
            raise DataException("it does not end like an ORC file") from error

    def _read(self) -> None:
        script = self.size - 1
        self._file.seek(script)
        script -= self._file.read(1)[0]
        self._file.seek(script)
        described = _numbers(self._file.read(self.size - 1 - script))
        self._codec, self._block = _CODECS[described.get(2, 0)], described.get(3, 0)
        self.is_known = self._codec != _UNKNOWN
        footer = described.get(1, 0) * self.is_known
        for field, value in _fields(self._decompress(script - footer, footer)):
            if field == 3:
                self.stripes.append(_numbers(value))
            elif field == 4:
                self._add_type(value)
            if len(self.stripes) > self.size:
                raise DataException("its end describes more stripes than it has bytes")

    def _add_type(self, message: bytes | int) -> None:
        number = check_fields(len(self._kinds), "its end")
        self._kinds.append(_numbers(message).get(1, 0))
        for field, value in _fields(message):
            if field == 2:
                packed, at = [value] if isinstance(value, int) else [], 0
                while isinstance(value, bytes) and at < len(value):
                    child, at = varint(value, at)
                    packed.append(child)
                self._parents |= dict.fromkeys(packed, number)
        parent = self._parents.get(number)
        self._levels.append(0 if parent is None else self._levels[parent] + 1)
        if self._levels[number] > MOST_LEVELS:
            raise DataException(f"its types have more than {MOST_LEVELS} levels")

    def measure(self, stripe: dict[int, int], first: int) -> _Measure:
        """The measure of a stripe. Damaged parts are not counted, because the library rejects them."""
        begin, rows = stripe.get(1, 0), stripe.get(_ROWS, 0)
        end = begin + stripe.get(2, 0) + stripe.get(3, 0)
        streams: list[dict[int, int]] = []
        encodings: list[dict[int, int]] = []
        for field, value in _fields(self._decompress(end, stripe.get(4, 0))):
            if field in (1, 2):
                (streams if field == 1 else encodings).append(_numbers(value))
        starts = accumulate((stream.get(3, 0) for stream in streams), initial=begin)
        lengths = {
            stream.get(2, 0): (start, stream.get(3, 0)) for start, stream in zip(starts, streams, strict=False) if stream.get(1) == _LENGTHS
        }
        inner: list[int] = []  # the number of values of each column's children
        total = listed = 0
        is_listed = [False] * len(self._kinds)
        for number, kind in enumerate(self._kinds):
            encoding = encodings[number].get(1, 0)
            parent = self._parents.get(number)
            values = rows if parent is None else inner[parent]
            is_listed[number] = parent is not None and (is_listed[parent] or self._kinds[parent] in _LISTS)
            packed = self._decompress(*lengths[number]) if number in lengths else b""
            runs = all_runs(packed, is_first_version=encoding < _FIRST_VERSION)
            inner.append(runs.total if kind in _LISTS else values)
            made = values * _WIDTHS.get(kind, 8)
            if kind in _TEXTS:
                made += values * runs.largest if encoding in _DICTIONARIES else runs.total
            total += made
            listed += made if is_listed[number] else 0
        return _Measure(first, rows, total, listed)

    def _decompress(self, start: int, size: int) -> bytes:
        """Decompress a stream of chunks. Each has a header of three bytes: the size, and a bit that is set if the chunk is not
        compressed."""
        self._file.seek(start)
        data = self._file.read(size)
        if not self._codec:
            return data
        found, at = bytearray(), 0
        while at + 3 <= len(data):
            head = int.from_bytes(data[at : at + 3], "little")
            chunk = data[at + 3 : at + 3 + (head >> 1)]
            found += chunk if head & 1 else _chunk(self._codec, chunk, min(self._block, _UNPACKED_BYTES))
            at += 3 + (head >> 1)
            if len(found) > max(_UNPACKED_BYTES, self.size):
                raise DataException(f"{size} bytes of its lengths or types expand to more than {_UNPACKED_BYTES}")
        return bytes(found)


def _chunk(codec: str, data: bytes, most: int) -> bytes:
    if codec == "zlib":
        return zlib.decompressobj(-15).decompress(data, most)
    if codec == "zstd":
        return bytes(pa.CompressedInputStream(pa.BufferReader(data), codec).read(most))
    if codec == "snappy":
        size, _ = varint(data, 0)
    else:  # no size is stored: find the smallest sufficient size
        size = bisect_left(range(most), True, key=lambda size: _fits(codec, data, size))
    return bytes(pa.decompress(data, min(size, most), codec, asbytes=True))


def _fits(codec: str, data: bytes, size: int) -> bool:
    try:
        pa.decompress(data, size, codec)
    except (OSError, pa.ArrowException):
        return False
    return True


def _numbers(message: bytes | int) -> dict[int, int]:
    """The integer fields of a Protocol Buffers message."""
    return {field: value for field, value in _fields(message) if isinstance(value, int)}


def _fields(message: bytes | int) -> Iterator[tuple[int, bytes | int]]:
    if isinstance(message, int):
        raise DataException("a message of its end is a number")
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            number, at = varint(message, at)
            yield key >> 3, number
        else:
            size, at = varint(message, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            yield key >> 3, message[at : at + size]
            at += size
