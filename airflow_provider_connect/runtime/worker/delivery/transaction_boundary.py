"""When an exactly-once source ends its transactions: with polls, at intervals, or at its task's request (KIP-618, contract §12.2).

Knows nothing of producers: the delivery polls the boundary and acts on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Protocol

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.batch import Batch


class Boundary(Protocol):
    """Is notified when transactions begin and end. ``is_due`` is called after each poll."""

    def begun(self) -> None: ...

    def ended(self) -> None: ...

    def is_due(self) -> bool:
        """Whether to end an open transaction now."""
        ...


class PollBoundary:
    """Ends a transaction with the first poll that comes ``linger_seconds`` or more after the transaction began. 0 is exactly Connect's
    ``poll``."""

    def __init__(self, linger_seconds: float, now: Callable[[], float]) -> None:
        self._linger = linger_seconds
        self._now = now
        self._begun = 0.0

    def begun(self) -> None:
        self._begun = self._now()

    def ended(self) -> None:
        """The time of the next transaction starts from zero."""

    def is_due(self) -> bool:
        return self._now() - self._begun >= self._linger


class IntervalBoundary:
    """Ends a transaction with the first poll that comes ``interval_seconds`` or more after the end of the previous transaction."""

    def __init__(self, interval_seconds: float, now: Callable[[], float]) -> None:
        self._interval = interval_seconds
        self._now = now
        self._last = now()

    def begun(self) -> None:
        """No effect: the interval does not depend on the begin."""

    def ended(self) -> None:
        self._last = self._now()

    def is_due(self) -> bool:
        return self._now() - self._last >= self._interval


class Ending(StrEnum):
    """How a task ends a transaction."""

    COMMIT = "commit"
    ABORT = "abort"


class RequestedBoundary:
    """The TransactionContext of a task. Requests during one ``poll`` apply to the records of that poll. This boundary is never due by
    itself."""

    def __init__(self) -> None:
        self._after: dict[Ending, set[int]] = {ending: set() for ending in Ending}
        self._last: set[Ending] = set()

    def commit_transaction(self, after: int | None = None) -> None:
        self._ask(Ending.COMMIT, after)

    def abort_transaction(self, after: int | None = None) -> None:
        self._ask(Ending.ABORT, after)

    def _ask(self, ending: Ending, after: int | None) -> None:
        if after is None:
            self._last.add(ending)
        else:
            self._after[ending].add(after)

    def begun(self) -> None:
        """No effect: the task ends the transaction."""

    def ended(self) -> None:
        """No effect, as ``begun``."""

    def is_due(self) -> bool:
        return False

    def take_last(self) -> Ending | None:
        """How the task ends the transaction after everything that it has returned. Raises ConnectException if it requested both."""
        asked, self._last = self._last, set()
        if len(asked) > 1:
            raise ConnectException("Connector requested both commit and abort of same transaction")
        return next(iter(asked), None)

    def split(self, batches: Iterable[Batch]) -> Iterator[tuple[list[Batch], Ending | None]]:
        """The batches of a poll, split after the records at which a transaction ends. The last piece may be empty, with or without an
        ending. Raises ConnectException for a record that does not exist, or that has no offset from which to continue."""
        marks = self._take_marks()
        piece: list[Batch] = []
        first = 0
        for whole in batches:
            batch, end = whole, first + whole.num_records
            while marks and marks[0][0] < end:
                mark, ending = marks.pop(0)
                if marks and marks[0][0] == mark:
                    raise ConnectException(
                        "Connector requested both commit and abort of same record against topic/partition "
                        f"{whole.topic}/{whole.kafka_partition}"
                    )
                yield [*piece, _head(batch, mark + 1 - first)], ending
                batch, first, piece = batch.slice(mark + 1 - first), mark + 1, []
            if batch is whole or batch.num_records:
                piece.append(batch)
            first = end
        if marks:
            raise ConnectException(f"The task asked to end a transaction after record {marks[0][0]} of a poll that returned {first}")
        yield piece, self.take_last()

    def _take_marks(self) -> list[tuple[int, Ending]]:
        marks = sorted((after, ending) for ending, asked in self._after.items() for after in asked)
        self._after = {ending: set() for ending in Ending}
        if marks and marks[0][0] < 0:
            raise ConnectException(f"The task asked to end a transaction after record {marks[0][0]}; the first is number 0")
        return marks


def _head(batch: Batch, count: int) -> Batch:
    """The first ``count`` records, with the offset after them."""
    if count < batch.num_records and batch.source_offset is not None and batch.source_offsets is None:
        raise ConnectException(
            f"A transaction cannot end after record {count - 1} within a batch for topic {batch.topic} that has one offset for the whole: "
            "give the batch source_offsets, or return it in two"
        )
    return batch.slice(0, count)
