"""Which records of a run fail: found by halving, the others handled in long runs. Knows nothing of what is done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Result = TypeVar("Result")
_MEMORY_RECORDS = 100_000.0  # what lies further back counts half, a quarter …
_SHARE = 0.7  # a run of this share of the usual distance holds no failing record every other time


@dataclass(frozen=True, slots=True)
class Miss:
    """A run failed; ``at`` is the record at fault, counted from the run's first, where somebody knows it: ``error`` is about that one."""

    at: int | None = None
    error: Exception | None = None


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
    count: int, attempt: Callable[[int, int], Part[Result] | Miss], single: Callable[[int, Miss], Part[Result] | None], rate: FailureRate
) -> Iterator[Part[Result]]:
    """What became of ``count`` records, in their order; the gaps between the parts are the records that failed.

    ``attempt(start, length)`` handles a run, ``single(index, miss)`` one record with all the patience that it deserves, or None if it
    fails; ``miss`` is how it failed in a run. Of a run that failed what lies before the record at fault is tried, or where that is not
    known the first half, then, where that passes, half of the rest, and so on to one record; what lies behind it starts anew. Each record
    is handled with success at most once. With one failure in d records about 2 d are tried for it.
    """
    start = 0
    while start < count:
        length = rate.run_length(count - start)
        outcome = attempt(start, length)
        while isinstance(outcome, Miss) and length > 1 and outcome.at != 0:
            at = length // 2 if outcome.at is None else outcome.at
            behind = Miss() if outcome.at is None else Miss(0, outcome.error)
            outcome = attempt(start, at)
            if isinstance(outcome, Miss):
                length = at
                continue
            rate.passed(at)
            yield outcome
            start, length, outcome = start + at, length - at, behind
        part = single(start, outcome) if isinstance(outcome, Miss) else outcome
        if part is None:
            rate.failed()
            start += 1
            continue
        rate.passed(part.length)
        yield part
        start += part.length
