"""Finds failing records by halving, retries and reports them, then skips them or fails the task. Knows nothing of clients or columns.

The rules are Kafka Connect's (``errors.*``, contract §13.1), with one exception. Under ``errors.tolerance=none`` a record whose retries are
exhausted fails its task like any other failed record. Connect drops such a record silently.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from airflow_provider_connect.errors import ConnectException, DataException, FencedException, RetriableException, UnavailableException
from airflow_provider_connect.runtime.model.connector_settings import ErrorSettings
from airflow_provider_connect.runtime.worker.errors.failures import ErrorStage, FailedRecord, Failure, Operation
from airflow_provider_connect.runtime.worker.errors.retries import JITTER, Retries
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics

Result = TypeVar("Result")
_NEVER_TOLERATED: Final = (FencedException, UnavailableException, MemoryError, NotImplementedError)
_OF_THE_RECORD: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Python's errors that the same record raises each time. Other errors, such as network errors, may not occur in the next run."""
_CONVERTER_KEYS: Final = {ErrorStage.KEY_CONVERTER: "key.converter", ErrorStage.VALUE_CONVERTER: "value.converter"}
STRICT: Final = ErrorSettings(0, 60_000, tolerates_all=False, log_enable=False, log_include_messages=False)


class StoppedWhileRetrying(Exception):
    """The task must end while an operation waits for its next attempt. Its records are neither delivered nor skipped."""


@dataclass(slots=True)
class Tolerance:
    """The error tolerance of ``task``. ``mask`` masks secrets in its messages. ``report`` passes a failure to the log and the dead letter
    queue, before the failure has any other effect."""

    settings: ErrorSettings = STRICT
    report: Callable[[Failure], None] = lambda _: None
    metrics: TaskMetrics = field(default_factory=lambda: TaskMetrics(is_source=False))
    is_stopping: Callable[[], bool] = lambda: False
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    draw: random.Random = field(default_factory=random.Random)
    task: str = ""
    mask: Callable[[str], str] = str
    _retries: dict[str, Retries] = field(default_factory=dict)
    _rates: defaultdict[Operation, FailureRate] = field(default_factory=lambda: defaultdict(FailureRate))

    def of_task(self, task: str) -> Tolerance:
        """This tolerance for ``task``, with attempts of its own."""
        return replace(self, task=task, _retries={})

    def parts(
        self,
        operation: Operation,
        count: int,
        act: Callable[[int, int], Result],
        record: Callable[[int], FailedRecord],
        *,
        tolerable: type[Exception] = Exception,
    ) -> list[Part[Result]]:
        """Apply ``act`` to ``count`` records together. If that fails, apply it in parts, without the records that fail alone.

        ``act(start, length)`` gets a sequence of records. After it has raised, it gets the same records again in shorter sequences.
        Exceptions that are not ``tolerable`` are raised unchanged. ``record(index)`` is called for records that failed. Raises
        RetriableException or ConnectException if ``errors.tolerance`` is ``none``, StoppedWhileRetrying when the task must end.
        """
        return self.bisect_failures(
            operation, count, act, lambda index, error: self.failed(Failure(operation, error, record(index))), tolerable=tolerable
        )

    def bisect_failures(
        self,
        operation: Operation,
        count: int,
        act: Callable[[int, int], Result],
        failed: Callable[[int, Exception], None],
        *,
        tolerable: type[Exception],
    ) -> list[Part[Result]]:
        """As ``parts``, but ``failed`` is called with each record that fails alone."""

        def attempt(start: int, length: int) -> Part[Result] | Miss:
            try:
                return Part(start, length, act(start, length))
            except _NEVER_TOLERATED:
                raise
            except tolerable as error:
                at = error.record if isinstance(error, DataException) else None
                return Miss(at, error) if at is not None and 0 <= at < length else Miss()

        def single(index: int, miss: Miss) -> Part[Result] | None:
            if miss.error is not None:
                failed(index, miss.error)
                return None
            try:
                return Part(index, 1, self._until_done(operation, lambda: act(index, 1)))
            except (StoppedWhileRetrying, *_NEVER_TOLERATED):
                raise
            except tolerable as error:
                failed(index, error)
                return None

        return list(attempt_in_parts(count, attempt, single, self._rates[operation]))

    def failed(self, failure: Failure) -> None:
        """Report a record that failed for good. Raises if ``errors.tolerance`` is ``none``."""
        self.metrics.note_failure()
        self.metrics.record_errors += 1
        self.report(failure)
        if not self.settings.tolerates_all:
            raise tolerance_exceeded(failure) from failure.error
        self.metrics.records_skipped += 1
        self.metrics.last_error = failure.summary

    def retries(self, call: str, *, jitter: float = JITTER) -> Retries:
        """The attempts of this run at a call of the task, or at an operation."""
        if call not in self._retries:
            self._retries[call] = Retries(
                call,
                self.task,
                self.settings,
                self.metrics,
                is_stopping=self.is_stopping,
                now=self.now,
                sleep=self.sleep,
                draw=self.draw,
                mask=self.mask,
                jitter=jitter,
            )
        return self._retries[call]

    def _until_done(self, operation: Operation, act: Callable[[], Result]) -> Result:
        """Apply ``act`` to one record. Repeat it after each RetriableException for as long as ``errors.retry.timeout`` allows."""
        retries = self.retries(f"{operation.stage} by {operation.class_name}", jitter=0.0)
        retries.begin()
        while True:
            try:
                result = act()
            except RetriableException as error:
                if self.settings.retry_timeout_ms == 0 or retries.is_over():
                    raise
                self.metrics.note_failure()
                if not retries.wait(error, error.retry_after_ms):
                    raise StoppedWhileRetrying from error
            else:
                retries.succeeded()
                return result


def tolerance_exceeded(failure: Failure) -> ConnectException:
    """The exception that fails the task. It contains the record's position, but no contents except those in the cause's message."""
    error, operation, record = failure.error, failure.operation, failure.record.description()
    text = f"Tolerance exceeded in error handler: {operation.stage} by {operation.class_name} failed for {record}: {error}"
    if operation.stage in _CONVERTER_KEYS:
        text += f" (setting: {_CONVERTER_KEYS[operation.stage]})"
    is_transient = error.retriable if isinstance(error, ConnectException) else not isinstance(error, _OF_THE_RECORD)
    return RetriableException(text) if is_transient else ConnectException(text)


def is_whole(parts: Sequence[Part[Result]], count: int) -> bool:
    """Whether all records succeeded at the first attempt."""
    return len(parts) == 1 and parts[0].length == count


_MEMORY_RECORDS = 100_000.0  # older records count half, a quarter …
_SHARE = 0.7  # half of all sequences with this share of the usual distance have no failing record


@dataclass(frozen=True, slots=True)
class Miss:
    """An attempt failed. ``at`` is the index of the record at fault within the attempted sequence, if known; ``error`` is then about that
    record."""

    at: int | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Part(Generic[Result]):
    """``length`` records from ``start`` on that were handled together."""

    start: int
    length: int
    result: Result


class FailureRate:
    """The recent number of records between two failures. It decides how many records are tried together."""

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


def attempt_in_parts(
    count: int, attempt: Callable[[int, int], Part[Result] | Miss], single: Callable[[int, Miss], Part[Result] | None], rate: FailureRate
) -> Iterator[Part[Result]]:
    """The results of ``count`` records, in order. The gaps between the parts are the records that failed.

    ``attempt(start, length)`` handles a sequence of records. ``single(index, miss)`` handles one record with all its retries, and returns
    None if it fails; ``miss`` is the failed attempt before. After a sequence has failed, the records before the record at fault are tried.
    If that record is not known, the first half is tried. If the half succeeds, half of the rest is tried, and so on down to one record. The
    records after it are a new sequence. Each record is handled successfully at most once. With one failure in d records, about 2 d records
    are tried per failure.
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
