"""One large table read by several tasks: ranges of its incrementing column, each a source partition of its own. Arithmetic alone.

Ranges lie on a fixed grid, so that each run finds those of the last one. The offset of a range also holds the table's offset from which
it was begun (``since``): where the table has another by now, by a fold or by hand, the range counts as never begun. When all rows up to
some number are read, the table's own offset moves there and its ranges forget theirs, in one transaction: that is a fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.dialect import TableName
from airflow_provider_connect.connectors.jdbc.source.offset import INCREMENTING, SINCE, split_partition
from airflow_provider_connect.sdk.connector import OffsetOf

SIZE: Final = 1 << 20
"""Numbers in a range. Not to be changed: a run that was interrupted is gone on with by the same ranges."""
MOST: Final = 256
"""More ranges than this, as where numbers have large gaps, are not worth their bookkeeping."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The numbers greater than ``low``, up to ``high``."""

    low: int
    high: int

    def partition(self, table: TableName) -> dict[str, object]:
        return split_partition(table, self.low, self.high)

    def offset(self, number: int, since: int | None) -> dict[str, object]:
        """The offset of a range whose rows up to ``number`` are read."""
        return {INCREMENTING: number, SINCE: since}

    def forgotten(self) -> dict[str, object]:
        """The offset of a range that is folded."""
        return {INCREMENTING: self.low}

    def reached(self, offset: Mapping[str, object] | None, since: int | None) -> int | None:
        """How far the range was read, by a committed offset; None: it was not begun from ``since``."""
        if not offset or SINCE not in offset or offset[SINCE] != since:
            return None
        number = offset[INCREMENTING]
        return number if isinstance(number, int) else None


def ranges_between(since: int | None, least: int, greatest: int) -> list[KeyRange]:
    """The ranges that hold what is behind ``since`` (None: from ``least`` on) up to ``greatest``, at most ``MOST`` of them."""
    first = (least - 1 if since is None else since) // SIZE
    last = -(-greatest // SIZE)
    return [KeyRange(number * SIZE, (number + 1) * SIZE) for number in range(first, min(last, first + MOST))]


@dataclass(frozen=True, slots=True)
class Progress:
    """All rows of the table up to ``position`` are read. ``begun`` are the ranges that have offsets; ``has_gap``: some of them lie behind
    rows that are not read."""

    position: int | None
    begun: Sequence[KeyRange]
    has_gap: bool

    @classmethod
    def of(cls, table: TableName, since: int | None, ranges: Sequence[KeyRange], offset: OffsetOf) -> Progress:
        position, is_whole, has_gap = since, True, False
        begun = []
        for each in ranges:
            number = each.reached(offset(each.partition(table)), since)
            if number is None:
                is_whole = False
                continue
            begun.append(each)
            if is_whole:
                position, is_whole = number, number >= each.high
            else:
                has_gap = True
        return cls(position, begun, has_gap)

    def fold(self, table: TableName) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
        """What is to be committed at once, behind the table's own new offset: partitions and their offsets."""
        for each in self.begun:
            yield each.partition(table), each.forgotten()
