"""The content of a CSV file without rows that are too long for its reader, each of which is reported. Knows quotes and line ends alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider_connect.connectors.filesystem.formats.content import Content

_START, _TEXT, _QUOTED, _QUOTE = range(4)  # of a field; within one without quotes; within quotes; behind a quote within them
_MARK: Final = ord('"')


class ShortRows:
    """Reads as ``content`` does. ``report`` gets the first byte and the length of each row of more than ``most`` bytes."""

    def __init__(self, content: Content, delimiter: str, most: int, report: Callable[[int, int], None]) -> None:
        self._content, self._delimiter, self._most, self._report = content, delimiter.encode(), most, report
        self._state = _START
        self._parts: list[bytes] = []  # of the row at hand, whose end is still to come; none of one that is too long
        self._begin = self._length = 0

    @property
    def fault(self) -> Exception | None:
        return self._content.fault

    def read(self, size: int) -> bytes:
        """Whole rows, about so many bytes; none at the end."""
        while data := self._content.read(min(size, self._most)):
            if found := self._rows(data):
                return found
        rest, self._parts = b"".join(self._parts), []
        if self._length > self._most:
            self._report(self._begin, self._length)
        self._length = 0
        return rest

    def _rows(self, data: bytes) -> bytes:
        first = last = self._row_end(data, 0)
        if first < 0:
            self._add(data)
            return b""
        while (end := self._row_end(data, last)) >= 0:
            last = end
        self._add(data[:first])
        if self._length > self._most:
            self._report(self._begin, self._length)
        found = b"".join((*self._parts, data[first:last]))
        self._begin += self._length + last - first
        self._parts, self._length = [], 0
        self._add(data[last:])
        return found

    def _add(self, data: bytes) -> None:
        self._length += len(data)
        self._parts = [*self._parts, data] if self._length <= self._most else []

    def _row_end(self, data: bytes, at: int) -> int:
        """Behind the next line end that is not within quotes; -1: it is still to come."""
        feed = turn = -1
        while at < len(data):
            if self._state == _QUOTED:
                at = data.find(b'"', at) + 1
                if not at:
                    return -1
                self._state = _QUOTE
            elif self._state == _QUOTE or (self._state == _START and data[at] == _MARK):
                self._state = _QUOTED if data[at] == _MARK else _TEXT
                at += data[at] == _MARK
            else:
                feed = _found(data, b"\n", at) if feed < at else feed
                turn = _found(data, b"\r", at, feed) if turn < at else turn
                end = min(feed, turn)
                quoted = data.find(self._delimiter + b'"', at, end)
                if quoted >= 0:
                    at, self._state = quoted + 2, _QUOTED
                    continue
                if end < len(data):
                    self._state = _START
                    return end + (2 if data[end : end + 2] == b"\r\n" else 1)
                self._state = _START if data.endswith(self._delimiter) else _TEXT
                return -1
        return -1


def _found(data: bytes, part: bytes, begin: int, end: int | None = None) -> int:
    """Where ``part`` is; the end of the data where it is not."""
    at = data.find(part, begin, end)
    return len(data) if at < 0 else at
