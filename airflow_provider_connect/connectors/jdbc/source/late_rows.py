"""Rows that become visible late: their keys are at or below the committed key, by at most a width. Knows nothing of databases.

A key is a number or time. The source offset has a key above which rows are read again. For each row above this key that is already in
Kafka, it also has a hash. So each late row is sent once, and other rows are not sent twice. The state is bounded: the width shrinks if it
contains too many rows.
"""

from __future__ import annotations

import base64
import bisect
import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from airflow_provider_connect.connectors.jdbc.source.config import TIMESTAMP_OVERLAP
from airflow_provider_connect.connectors.jdbc.source.offset import HASH_BYTES, SourceOffset
from airflow_provider_connect.data.arrow import pa

log = logging.getLogger(__name__)
MOST_ROWS: Final = 5_000
_MICROSECOND: Final = timedelta(microseconds=1)
Key = tuple[int, ...]


class KeyedRows(Protocol):
    """The part of ``row_query.RowQuery`` that is used here."""

    def keys_of(self, page: pa.RecordBatch) -> list[Key]: ...

    def offset_of(self, key: Key) -> SourceOffset: ...

    def identity(self) -> list[int]: ...


class LateRows:
    """The rows of one statement, page by page, in the order of their keys. ``committed`` is the offset at the statement's start. ``width``
    is in numbers of the incrementing column, or in nanoseconds for timestamps."""

    def __init__(self, committed: SourceOffset, width: int, rows: KeyedRows, title: str) -> None:
        self._reached = committed
        self._width = width
        self._rows = rows
        self._title = title
        self._low = committed.overlap_from if committed.key is None or committed.overlap_from is not None else committed.key[0]
        self._unseen = Counter(committed.overlap_hashes)
        self._near: list[tuple[int, bytes]] = []  # keys and hashes of rows that are in Kafka, in order
        self._is_warned = False
        self._late = 0

    def new_rows(self, page: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a page that are not in Kafka yet."""
        reached = self._reached.key
        count = 0 if reached is None else self._count(page, lambda key: key <= reached)
        is_new = []
        for first, digest in self._hashes(page.slice(0, count)):
            is_new.append(not self._unseen[digest])
            if not is_new[-1]:
                self._unseen[digest] -= 1
                self._near.append((first, digest))
        if any(is_new):
            self._late += sum(is_new)
            log.warning("%s: late rows sent now, after it was read up to %s: %d", self._title, self._reached.text, self._late)
        if count < page.num_rows:
            self._unseen.clear()  # rows without a match were deleted
        return page if all(is_new) else page.filter(pa.array([*is_new, *([True] * (page.num_rows - count))], pa.bool_()))

    def offset_after(self, page: pa.RecordBatch) -> SourceOffset:
        """The offset after these rows. The caller now sends the rows."""
        [last] = self._rows.keys_of(page.slice(page.num_rows - 1))
        if self._reached.key is None or last > self._reached.key:
            self._reached = self._rows.offset_of(last)
        low = self._lowest()
        start = max(self._count(page, lambda key: key[0] <= low), page.num_rows - MOST_ROWS - 1)
        self._near = sorted([*self._near, *self._hashes(page.slice(start))], key=_first)
        return self._offset(low)

    def offset_at_end(self) -> SourceOffset | None:
        """The offset without hashes of deleted rows, after all rows up to the committed offset were read. None if no row was deleted."""
        if not self._unseen.total():
            return None
        self._unseen.clear()
        return self._offset(self._lowest())

    def _lowest(self) -> int:
        """The lower end of the width. It never decreases, because hashes of lower rows are no longer stored."""
        assert self._reached.key is not None
        low = self._reached.key[0] - self._width
        return low if self._low is None else max(low, self._low)

    def _offset(self, low: int) -> SourceOffset:
        most = max(MOST_ROWS - self._unseen.total(), 0)
        near = _above(self._near, low)
        if len(near) > most:
            low = near[-most - 1][0]
            near = _above(near, low)
            self._warn()
        self._low, self._near = low, near
        data = b"".join([*self._unseen.elements(), *(digest for _, digest in near)])
        return replace(self._reached, overlap_from=low, overlap_rows=base64.b64encode(data).decode())

    def _warn(self) -> None:
        if not self._is_warned:
            log.warning("%s: more than %d rows are within the overlap: only the last of them are read again", self._title, MOST_ROWS)
        self._is_warned = True

    def _count(self, page: pa.RecordBatch, is_before: Callable[[Key], bool]) -> int:
        """The number of rows from the start whose keys match."""
        return bisect.bisect_left(range(page.num_rows), True, key=lambda row: not is_before(self._rows.keys_of(page.slice(row, 1))[0]))

    def _hashes(self, page: pa.RecordBatch) -> list[tuple[int, bytes]]:
        columns = [page.column(index).to_pylist() for index in self._rows.identity()]
        rows = zip(self._rows.keys_of(page), *columns, strict=True)
        return [(row[0][0], hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()) for row in rows]


def _first(near: tuple[int, bytes]) -> int:
    return near[0]


def _above(near: list[tuple[int, bytes]], low: int) -> list[tuple[int, bytes]]:
    return near[bisect.bisect_right(near, low, key=_first) :]


def warn_of_repeated_times(reached_ns: int, until_ns: int, zone: str, overlap_ns: int, title: str) -> None:
    """Warn if a zone's clocks were put back after ``reached_ns``. New rows with repeated local times are below the offset, and are never
    read."""
    try:
        local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=reached_ns // 1000)).astimezone(ZoneInfo(zone))
    except OverflowError:  # after the year 9999
        return
    first, second = (local.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    width_ns = (first - second) // _MICROSECOND * 1000
    if overlap_ns < width_ns <= until_ns - reached_ns:
        log.warning(
            "%s: it was read up to %s, and after that the clocks of %s were put back. Rows that have a time up to this one again are "
            "skipped. Times in UTC have no such hour; for local times, %s=%d reads these rows, if it is set in advance",
            title,
            local.replace(tzinfo=None),
            zone,
            TIMESTAMP_OVERLAP,
            width_ns // 1_000_000,
        )
