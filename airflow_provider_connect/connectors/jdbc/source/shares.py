"""The division of tables among a run's tasks, and the text of a task's share in its config. Shares are whole tables, or ranges of a large
table's incrementing column if there are more tasks than tables.

Each range is a separate source partition. Ranges are on a fixed grid, so that each run finds the ranges of the previous run. The offset of
a range also has ``since``, which is the table's own offset when the range was started. If the table's offset has changed, through a fold or
an admin, the range is treated as not started. When all rows up to some number are read, a fold sets the table's own offset to that number.
The same transaction deletes the offsets of the table's ranges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Table, TableName
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.source.config import Mode
from airflow_provider_connect.connectors.jdbc.source.offset import (
    INCREMENTING,
    SINCE,
    SourceOffset,
    known_offset,
    number_of,
    split_partition,
)
from airflow_provider_connect.connectors.jdbc.source.row_query import RowQuery
from airflow_provider_connect.connectors.jdbc.source.row_source import RowSource
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.connector import OffsetReader

_FOLD: Final = "fold"


@dataclass(frozen=True, slots=True)
class TablePart:
    """One range of a table. It is read up to ``until``: the table's greatest number, or the end of the range. ``since`` is the table's own
    offset when its ranges were started."""

    table: TableName
    range: KeyRange
    until: int
    since: int | None

    @property
    def partition(self) -> Mapping[str, object]:
        return self.range.partition(self.table)


@dataclass(frozen=True, slots=True)
class Share:
    """One table for one task. ``is_only``: no other table has the same last part of the name. ``part`` limits the share to a range of the
    table. ``folds``: all ranges are read, so the table's own offset first replaces the offsets of the ranges."""

    table: Table
    is_only: bool
    part: TablePart | None = None
    folds: bool = False


def shares_text(shares: Sequence[Share]) -> str:
    """The shares of a task in the form of its config."""
    return json.dumps([_row(share) for share in shares], ensure_ascii=False, separators=(",", ":"))


def shares_of(text: str) -> list[Share]:
    """The inverse of ``shares_text``."""
    found = []
    for catalog, schema, name, kind, is_only, *rest in json.loads(text):
        table = Table(TableName(name, schema, catalog), kind)
        folds = rest == [_FOLD]
        part = None
        if rest and not folds:
            low, high, until, since = rest
            part = TablePart(table.name, KeyRange(low, high), until, since)
        found.append(Share(table, is_only, part, folds))
    return found


def _row(share: Share) -> list[object]:
    name, part = share.table.name, share.part
    row: list[object] = [name.catalog, name.schema, name.table, share.table.type, share.is_only]
    if part is not None:
        return [*row, part.range.low, part.range.high, part.until, part.since]
    return [*row, _FOLD] if share.folds else row


_LEAST_RANGES = 3  # two of these ranges may be whole


def planned_shares(
    database: Database,
    settings: SourceSettings,
    tables: Sequence[tuple[RowSource, Share]],
    offset: OffsetReader,
    max_tasks: int,
    *,
    notes: list[str],
) -> list[Share]:
    """The shares of ``tables``. Ranges replace large tables. A table that is another than the one that was read has no share, and its
    advice is added to ``notes``.

    If an earlier run has started ranges of a table, the table stays divided until all ranges are read, whatever the number of tasks.
    """
    if settings.mode is not Mode.INCREMENTING:
        return [share for _, share in tables]
    may_split = max_tasks > len(tables) and not settings.overlap  # offsets of ranges have no overlap
    return [
        part for source, share in tables for part in _parts(database, settings, source, share, offset, may_split=may_split, notes=notes)
    ]


def _parts(
    database: Database,
    settings: SourceSettings,
    source: RowSource,
    share: Share,
    offset: OffsetReader,
    *,
    may_split: bool,
    notes: list[str],
) -> list[Share]:
    if not source.is_stored:
        return [share]
    try:
        progress, least, greatest = read_progress(database, settings, source, share, offset)
    except ConnectException as error:
        if error.retriable:
            raise
        return [share]  # the task raises it, after it has read other tables
    if source.is_replaced(progress.table_ids):
        notes.append(source.replaced_advice(progress.position))
        return []
    return [share] if greatest is None else _divided(share, progress, least, greatest, may_split=may_split)


def _divided(share: Share, progress: Progress, least: int, greatest: int, *, may_split: bool) -> list[Share]:
    since, ranges = progress.since, progress.ranges
    if progress.begun and not progress.has_gap:
        return [Share(share.table, share.is_only, folds=True)]
    is_large = may_split and len(ranges) >= _LEAST_RANGES and greatest - (least - 1 if since is None else since) <= (MOST - 1) * SIZE
    if not progress.begun and not is_large:
        return [share]
    name = share.table.name
    return [Share(share.table, share.is_only, TablePart(name, each, min(each.high, greatest), since)) for each in ranges]


def read_progress(
    database: Database, settings: SourceSettings, source: RowSource, share: Share, offset: OffsetReader
) -> tuple[Progress, int, int | None]:
    """The progress of a table, in ranges or as a whole, and its least and greatest number. The greatest number is None for an empty
    table."""
    own = SourceOffset.of(known_offset(share.table.name, offset, is_only=share.is_only))
    least, greatest = (None if number is None else number_of(number) for number in database.rows(RowQuery.of(source, settings).extent())[0])
    ranges = [] if greatest is None else ranges_between(own.incrementing, least or 0, greatest)
    return Progress.of(share.table.name, own, ranges, offset), least or 0, greatest


SIZE: Final = 1 << 20
"""The size of a range, in numbers. Must not change, because the next run resumes an interrupted run with the same ranges."""
MOST: Final = 256
"""The maximum number of ranges. More ranges would cost more than they save. Large gaps between numbers could cause them."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Numbers greater than ``low``, up to ``high``."""

    low: int
    high: int

    def partition(self, table: TableName) -> dict[str, object]:
        return split_partition(table, self.low, self.high)

    def offset(self, reached: SourceOffset, since: int | None) -> dict[str, object]:
        """The offset of a range whose rows up to ``reached`` are read."""
        return {**reached.to_json(), SINCE: since}

    def forgotten(self) -> dict[str, object]:
        """The offset of a range that is folded."""
        return {INCREMENTING: self.low}

    def reached(self, offset: Mapping[str, object] | None, since: int | None) -> int | None:
        """The number up to which the range was read, from a committed offset. None if the range was not started at ``since``."""
        if not offset or SINCE not in offset or offset[SINCE] != since:
            return None
        number = offset[INCREMENTING]
        return number if isinstance(number, int) else None


def ranges_between(since: int | None, least: int, greatest: int) -> list[KeyRange]:
    """The ranges for numbers after ``since`` (None: from ``least`` on) up to ``greatest``, at most ``MOST`` ranges."""
    first = (least - 1 if since is None else since) // SIZE
    last = -(-greatest // SIZE)
    return [KeyRange(number * SIZE, (number + 1) * SIZE) for number in range(first, min(last, first + MOST))]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a table. ``since`` is its own offset, and ``ranges`` are those after it. All rows up to ``position`` are read.
    ``begun`` are the ranges that have offsets. ``has_gap``: there are unread rows before some of these ranges. ``table_ids`` are the
    identities in all these offsets."""

    since: int | None
    ranges: Sequence[KeyRange]
    position: int | None
    begun: Sequence[KeyRange]
    has_gap: bool
    table_ids: Sequence[str | None]

    @classmethod
    def of(cls, table: TableName, own: SourceOffset, ranges: Sequence[KeyRange], offset: OffsetReader) -> Progress:
        since = own.incrementing
        position, is_whole, has_gap = since, True, False
        begun, table_ids = list[KeyRange](), [own.table_id]
        for each in ranges:
            committed = offset(each.partition(table))
            number = each.reached(committed, since)
            if number is None:
                is_whole = False
                continue
            begun.append(each)
            table_ids.append(SourceOffset.of(committed).table_id)
            if is_whole:
                position, is_whole = number, number >= each.high
            else:
                has_gap = True
        return cls(since, ranges, position, begun, has_gap, table_ids)

    def fold(self, table: TableName) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
        """The partitions and offsets to commit in one transaction after the table's own new offset."""
        for each in self.begun:
            yield each.partition(table), each.forgotten()
