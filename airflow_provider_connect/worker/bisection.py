"""Which records of a run fail: found by halving, the others handled in long runs. Knows nothing of what is done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Result = TypeVar("Result")
_MEMORY_RECORDS = 100_000.0  # what lies further back counts half, a quarter …
_SHARE = 0.7  # a run of this share of the usual distance holds no failing record every other time


@dataclass(frozen=True, slots=True)
class Part(Generic[Result]):
    """``length`` records from ``start`` on that were handled together."""

    start: int
    length: int
    result: Result


class FailureRate:
    """How many records pass between two that fail, lately: what tells how long a run is worth trying."""

    def __init__(self) -> None:
        self._passed = self._failed = 0.0

    def passed(self, count: int) -> None:
        self._passed += count
        if self._passed > _MEMORY_RECORDS:
            self._passed /= 2
            self._failed /= 2

    def failed(self) -> None:
        self._failed += 1

    def run_length(self, count: int) -> int:
        """How many of the next ``count`` records to try together."""
        if not self._failed:
            return count
        return min(count, max(1, int(_SHARE * self._passed / self._failed)))


def sifted(
    count: int, attempt: Callable[[int, int], Part[Result] | None], single: Callable[[int], Part[Result] | None], rate: FailureRate
) -> Iterator[Part[Result]]:
    """What became of ``count`` records, in their order; the gaps between the parts are the records that failed.

    ``attempt(start, length)`` handles a run, ``single(index)`` one record with all the patience that it deserves; both return None for a
    failure. Of a run that failed the first half is tried, then, where that passes, half of the rest, and so on to one record at fault; what
    lies behind it starts anew. Each record is handled with success at most once. With one failure in d records about 2 d are tried for it.
    """
    start = 0
    while start < count:
        length = rate.run_length(count - start)
        part = attempt(start, length)
        while part is None and length > 1:  # one of these fails
            half = length // 2
            part = attempt(start, half)
            if part is None:
                length = half
                continue
            rate.passed(half)
            yield part
            start, length, part = start + half, length - half, None
        if part is None:
            part = single(start)
        if part is None:
            rate.failed()
            start += 1
            continue
        rate.passed(part.length)
        yield part
        start += part.length
