"""Rows that move between pages because other rows are inserted, updated or deleted while a resource is read. Knows no network."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Final

from airflow_provider_connect.sdk.http.pages import Row

log = logging.getLogger(__name__)
MOST_KEYS: Final = 200_000
"""Keys of one read that are kept to recognise repeated rows."""


class ResumedPages:
    """Pages that continue after the last row of an earlier run.

    Changes since then may have moved rows to other pages, so reading starts with the page that had the last row. If that row is found on
    this page or a later one, no row was missed. The rows before it are read again."""

    def __init__(self, last: str | None, *, is_sure: bool) -> None:
        self._last = last
        self._is_sure = is_sure

    @property
    def is_sure(self) -> bool:
        """Whether it is still certain that no row was missed."""
        return self._is_sure and self._last is None

    def new(self, rows: list[Row]) -> list[Row]:
        """The rows of the next page that were not read before."""
        if self._last is not None:
            for number, row in enumerate(rows, 1):
                if digest_of(row) == self._last:
                    self._last = None
                    return rows[number:]
        return rows


class RowMoves:
    """Detects rows that move between the pages of one read.

    If a page starts with rows of the previous page, rows were inserted before them. The repeated rows are then skipped, and no row was
    missed. In three other cases rows may have moved to pages that were already read, and may be missed. These cases are: a row is repeated
    elsewhere, the total shrinks, or rows that two pages should share (``overlap``) are missing. ``key`` identifies a row; if it is None,
    all fields do, so two rows may be equal."""

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
        """The rows of a page without those of the previous page."""
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
            log.warning("%s: rows moved between pages during the read, and some may have been missed: %s", self._name, why)
        return new

    def end(self) -> None:
        """Log how many rows were repeated."""
        if self._repeated or self._moved:
            log.warning("%s: %d rows were read twice, because rows moved between pages", self._name, self._repeated + self._moved)

    def _leading(self, rows: list[Row]) -> int:
        if self._key is None and not self._overlap:
            return 0
        most = min(len(self._before), len(rows))
        return next((count for count in range(most, 0, -1) if rows[:count] == self._before[-count:]), 0)


def digest_of(row: Row) -> str:
    """A hash of a row, or of a part of it, as text."""
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:32]
