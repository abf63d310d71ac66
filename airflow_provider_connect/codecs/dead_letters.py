"""The context headers of dead-letter records (docs/contract.md §13.2), and the offsets of replayed records.

The headers are untrusted, because any producer may write them. Knows nothing of clients.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from airflow_provider_connect.errors import ConnectException

PREFIX: Final = "__connect.errors."
"""The prefix of context headers' names."""
CONNECTOR_HEADER: Final = f"{PREFIX}connector.name"
ORIGIN_PREFIX: Final = "__connect.replay.origin."
"""The prefix of the name of the header that a dry run of a replay adds to each record; see ``origin_header``."""
REPLAY_CLASS: Final = "DeadLetterReplay"
"""The alias of the connector that replays a queue."""
MOST_RANGES: Final = 20_000
_MOST_DIGITS: Final = 18
_MOST_PARTITIONS: Final = 2**31 - 1
_RANGE: Final = re.compile(rf"([0-9]{{1,{_MOST_DIGITS}}})(?:-([0-9]{{1,{_MOST_DIGITS}}}))?")

_ORIGIN: Final = re.compile(rf"{re.escape(ORIGIN_PREFIX)}([0-9]{{1,10}})\.([0-9]{{1,{_MOST_DIGITS}}})")


@dataclass(frozen=True, slots=True)
class FailureContext:
    """A record's failure, as its context headers describe it. None means that a header is missing.

    Of headers with the same name, the last is read, because a record that failed twice has the newer headers at the end.
    """

    connector: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    exception: str | None

    @classmethod
    def of(cls, headers: Iterable[tuple[str, bytes | None]]) -> Self:
        found = {name: value for name, value in headers if name.startswith(PREFIX) and value is not None}

        def text(name: str) -> str | None:
            value = found.get(PREFIX + name)
            return None if value is None else value.decode("utf-8", "replace")

        partition = _number(text("partition"))
        return cls(
            text("connector.name"),
            text("topic"),
            None if partition is None or partition > _MOST_PARTITIONS else partition,
            _number(text("offset")),
            text("exception.class.name"),
        )


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number and text is not None else None


def strip_context(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """The headers without context headers, in order."""
    return [(name, value) for name, value in headers if not name.startswith(PREFIX)]


def origin_header(partition: int, offset: int) -> str:
    """The name of the header by which a dry run identifies a record of the queue. The header has no value, because converters change
    values."""
    return f"{ORIGIN_PREFIX}{partition}.{offset}"


def origin_of(header: str) -> tuple[int, int] | None:
    """The partition and offset in a name from ``origin_header``. None for any other name."""
    match = _ORIGIN.fullmatch(header)
    return None if match is None else (int(match[1]), int(match[2]))


class OffsetRanges:
    """Offsets of one partition as ordered ranges. ``str`` returns text such as ``0-14,17``, whose ends are inclusive."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of ``str``. Raises ConnectException for invalid text."""
        found = cls()
        for part in filter(None, (part.strip() for part in text.split(","))):
            first, last = parse_range(part)
            found.add(first, last)
        return found

    def add(self, first: int, last: int) -> None:
        """Add the offsets from ``first`` to ``last``, inclusive. Adjacent ranges are merged."""
        if last < first:
            return
        begin = bisect_right(self._firsts, first) - 1
        begin = begin if begin >= 0 and self._lasts[begin] >= first - 1 else begin + 1
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end], self._lasts[begin:end] = [first], [last]

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._firsts, offset) - 1
        return index >= 0 and offset <= self._lasts[index]

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def first(self) -> int | None:
        """The lowest offset. None if there are no offsets."""
        return self._firsts[0] if self._firsts else None

    @property
    def last(self) -> int | None:
        """The highest offset. None if there are no offsets."""
        return self._lasts[-1] if self._lasts else None

    def __str__(self) -> str:
        return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in zip(self._firsts, self._lasts, strict=True))


def parse_range(text: str) -> tuple[int, int]:
    """Parse a range such as ``5-20`` or ``7``. Raises ConnectException."""
    match = _RANGE.fullmatch(text)
    if match is None or (last := int(match[2] or match[1])) < int(match[1]):
        raise ConnectException(f"{text[:60]!r} is not a range of offsets: use one such as 5-20, or a single offset such as 7")
    return int(match[1]), last


def by_partition(entries: Sequence[str]) -> dict[int, OffsetRanges]:
    """Ranges by partition, from entries ``PARTITION:RANGE`` such as ``0:5-20`` or ``1:7``. Raises ConnectException."""
    found: dict[int, OffsetRanges] = {}
    for entry in entries:
        partition, colon, offsets = entry.strip().partition(":")
        number = _number(partition)
        if number is None or not colon:
            raise ConnectException(f"{entry[:60]!r} has no partition: use offsets such as 0:5-20")
        first, last = parse_range(offsets)
        found.setdefault(number, OffsetRanges()).add(first, last)
    return found


@dataclass(frozen=True, slots=True)
class ReplayPosition:
    """The source offset of one partition of a queue.

    ``replayed`` has the records that replays have written, and the records of other connectors. ``read`` is the next offset for the replay
    with the id ``replay``. ``records`` is the number of records that this replay has written. ``topic_id`` identifies the queue, because
    offsets are invalid after a topic is recreated.
    """

    replayed: OffsetRanges
    topic_id: str = ""
    replay: str = ""
    read: int = 0
    records: int = 0

    @classmethod
    def of(cls, offset: Mapping[str, object] | None, topic_id: str) -> Self:
        """Parse ``offset``. If ``offset`` is missing, or has another topic id, nothing was replayed. Raises ConnectException for an invalid
        offset."""
        if offset is None or str(offset.get("topic.id", "")) != topic_id:
            return cls(OffsetRanges(), topic_id)
        replayed, read, records = offset.get("replayed", ""), offset.get("read", 0), offset.get("records", 0)
        if not isinstance(replayed, str) or type(read) is not int or type(records) is not int:
            raise ConnectException("a replay's offset has 'replayed', ranges such as \"0-14,17\", and the numbers 'read' and 'records'")
        return cls(OffsetRanges.parse(replayed), topic_id, str(offset.get("replay", "")), read, records)

    def to_offset(self) -> dict[str, object]:
        return {
            "replayed": str(self.replayed),
            "topic.id": self.topic_id,
            "replay": self.replay,
            "read": self.read,
            "records": self.records,
        }


def queue_partition(topic: str, partition: int) -> dict[str, object]:
    """The source partition of a partition of a queue."""
    return {"topic": topic, "partition": partition}
