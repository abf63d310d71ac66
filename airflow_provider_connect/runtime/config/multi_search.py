"""Searches a text for many texts in a single pass. The time hardly depends on their number.

A config of one megabyte may have a hundred thousand spellings of secrets. A separate search for each in each text of a response would take
minutes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

LONG: Final = 256
"""Characters. If this many characters at the beginning of a text match, the whole text counts as matched. This avoids repeated long
comparisons."""


class MultiSearch:
    """A search for ``texts``, which are not shorter than ``shortest``. Safe to share between threads."""

    def __init__(self, texts: Iterable[str], shortest: int) -> None:
        self._sorted = sorted(set(texts))
        self._shortest = shortest
        self._begins = frozenset(text[:shortest] for text in self._sorted)
        self._within = self._longest_within()

    def replaced(self, text: str, by: str) -> str:
        """``text`` with each match replaced by ``by``. Overlapping matches are merged and replaced as one match."""
        parts: list[str] = []
        done = 0
        for begin, end in self._spans(text):
            parts += (text[done:begin], by)
            done = end
        return "".join([*parts, text[done:]]) if parts else text

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """The spans of the matches, in order. Overlapping matches form one span."""
        begin = end = at = 0
        while at <= len(text) - self._shortest:
            length = self._length_at(text, at) if text[at : at + self._shortest] in self._begins else 0
            if length and at >= end:
                if end:
                    yield begin, end
                begin = at
            if length:
                end = max(end, at + length)
            at = max(at + 1, end - LONG) if length >= LONG else at + 1
        if end:
            yield begin, end

    def _length_at(self, text: str, at: int) -> int:
        """The length of the longest match at ``at``. 0: no match."""
        given = text[at : at + LONG]
        if len(given) == LONG and self._is_begun(given):
            return self._long_length_at(text, at)
        found = bisect_right(self._sorted, given) - 1
        while found >= 0 and not given.startswith(self._sorted[found]):
            found = self._within[found]
        return len(self._sorted[found]) if found >= 0 else 0

    def _long_length_at(self, text: str, at: int) -> int:
        """The length of the longest beginning of a text that matches at ``at``, found by doubling, then by bisection."""
        known, tried = LONG, 2 * LONG
        while at + tried <= len(text) and self._is_begun(text[at : at + tried]):
            known, tried = tried, 2 * tried
        tried = min(tried, len(text) - at + 1)
        while tried - known > 1:
            middle = (known + tried) // 2
            known, tried = (middle, tried) if self._is_begun(text[at : at + middle]) else (known, middle)
        return known

    def _is_begun(self, given: str) -> bool:
        """Whether one of the texts begins with ``given``."""
        found = bisect_left(self._sorted, given)
        return found < len(self._sorted) and self._sorted[found].startswith(given)

    def _longest_within(self) -> list[int]:
        """For each text, the longest other text with which it begins. -1: there is no such text."""
        within: list[int] = []
        open_: list[int] = []
        for index, text in enumerate(self._sorted):
            while open_ and not text.startswith(self._sorted[open_[-1]]):
                open_.pop()
            within.append(open_[-1] if open_ else -1)
            open_.append(index)
        return within
