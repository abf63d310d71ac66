"""Rows that move from one page to another, since others are inserted, updated or deleted while a resource is read. Knows no network."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Final

from airflow_provider_connect.sdk.http.pages import Row

log = logging.getLogger(__name__)
MOST_KEYS: Final = 200_000
"""Of one read, by which a row is recognised that comes again."""


class Continued:
    """Pages that go on behind the row which an earlier run has read last.

    Rows that were inserted, updated or deleted since then move others to another page. So the pages begin with the one that had the row.
    If it is found there or behind, no row was missed. All rows before it come again."""

    def __init__(self, last: str | None, *, is_sure: bool) -> None:
        self._last = last
        self._is_sure = is_sure

    @property
    def is_sure(self) -> bool:
        """Whether no row was missed, as far as is known yet."""
        return self._is_sure and self._last is None

    def new(self, rows: list[Row]) -> list[Row]:
        """The rows of the next page that have not been read."""
        if self._last is not None:
            for number, row in enumerate(rows, 1):
                if digest_of(row) == self._last:
                    self._last = None
                    return rows[number:]
        return rows


class Moves:
    """What the pages of one read show of rows that moved meanwhile.

    Rows of the page before that stand at the beginning of a page were moved by rows inserted before them: they are left out, and none was
    missed. A row that comes again otherwise has moved behind others, which are then on pages that were read; so they are where the total
    shrinks, or rows that two pages share by ``overlap`` are not there. ``key``: by which a row is recognised; None: all of its fields, and
    equal rows may be two."""

    def __init__(self, name: str, key: str | Sequence[str] | None, overlap: int) -> None:
        self.may_have_missed = False
        self._name = name
        self._key = [key] if isinstance(key, str) else key
        self._overlap = overlap
        self._before: list[Row] = []
        self._total: int | None = None
        self._seen: set[str] = set()
        self._repeated = self._moved = 0

    def new(self, rows: list[Row], total: int | None) -> list[Row]:
        """The rows of a page but for those that the page before had."""
        leading = self._leading(rows)
        new = rows[leading:]
        self._repeated += max(leading - self._overlap, 0)
        has_gap = bool(self._overlap and self._before and not leading)
        has_shrunk = total is not None and self._total is not None and total < self._total
        keys = (
            []
            if self._key is None or len(self._seen) > MOST_KEYS
            else [digest_of({name: row.get(name) for name in self._key}) for row in new]
        )
        self._moved += sum(key in self._seen for key in keys)
        self._seen.update(keys)
        self._before, self._total = rows or self._before, total
        if (has_gap or has_shrunk or self._moved) and not self.may_have_missed:
            self.may_have_missed = True
            why = (
                "the total shrank"
                if has_shrunk
                else "a page does not begin with the last row of the one before"
                if has_gap
                else "a row came again"
            )
            log.warning("%s: rows moved between pages while they were read, and some may have been missed: %s", self._name, why)
        return new

    def end(self) -> None:
        """Log how many rows came again."""
        if self._repeated or self._moved:
            log.warning("%s: %d rows came twice, since rows moved between pages", self._name, self._repeated + self._moved)

    def _leading(self, rows: list[Row]) -> int:
        if self._key is None and not self._overlap:
            return 0
        most = min(len(self._before), len(rows))
        return next((count for count in range(most, 0, -1) if rows[:count] == self._before[-count:]), 0)


def digest_of(row: Row) -> str:
    """A row, or a part of it, as a short text that stands for it."""
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:32]
