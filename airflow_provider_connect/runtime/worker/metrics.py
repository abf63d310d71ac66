"""The counters of a task in one run, under Kafka Connect's metric names. Knows nothing of where the metrics go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter

from airflow_provider_connect.runtime.model.metric_names import merge_metrics
from airflow_provider_connect.runtime.model.run import TaskResult


@dataclass(slots=True)
class _Extremes:
    """Smallest, largest, sum and number of some values."""

    smallest: float = 0.0
    largest: float = 0.0
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.smallest = min(self.smallest, value) if self.count else value
        self.largest = max(self.largest, value)
        self.total += value
        self.count += 1

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class TaskMetrics:
    """Counters of one task in one run. ``by_name`` returns them by Connect's names (contract §14). Durations are in milliseconds.

    The task's thread counts. Other threads may call ``by_name`` meanwhile.
    """

    is_source: bool
    in_transactions: bool = False
    partitions: int = 0
    retries: int = 0
    record_failures: int = 0
    record_errors: int = 0
    records_skipped: int = 0
    last_error: Callable[[], str] = str  # of the last record that was skipped; may contain secrets
    errors_logged: int = 0
    dead_letters: int = 0
    dead_letter_failures: int = 0
    last_error_ms: int | None = None
    records_in: int = 0
    records_out: int = 0
    records_dropped: int = 0
    records_refused: int = 0  # records that were put and then reported by the task
    lost_values: Callable[[], int] = int  # of a sink's records
    records_lost: int = 0
    bytes: int = 0
    commits: int = 0
    failed_commits: int = 0
    batches: _Extremes = field(default_factory=_Extremes)
    calls: _Extremes = field(default_factory=_Extremes)
    commit_times: _Extremes = field(default_factory=_Extremes)
    commit_sizes: _Extremes = field(default_factory=_Extremes)
    started: float = field(default_factory=perf_counter)
    _committed: int = 0

    @contextmanager
    def timed_call(self) -> Iterator[None]:
        """Time each ``poll`` or ``put``."""
        start = perf_counter()
        try:
            yield
        finally:
            self.calls.add((perf_counter() - start) * 1000)

    @contextmanager
    def timed_commit(self) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        except BaseException:
            self.failed_commits += 1
            raise
        self.commits += 1
        if self.records_out > self._committed:
            self.commit_sizes.add(self.records_out - self._committed)
            self._committed = self.records_out
        self.commit_times.add((perf_counter() - start) * 1000)

    @property
    def records_delivered(self) -> int:
        """The written records, without records that were dropped with their transaction or refused by the destination."""
        return self.records_out - self.records_dropped - self.records_refused

    @property
    def records_committed(self) -> int:
        """The records delivered up to the last commit."""
        return max(self._committed - self.records_dropped - self.records_refused, 0)

    def drop(self) -> None:
        """Note that the records written since the last commit were discarded."""
        self.records_dropped += self.records_out - self._committed
        self._committed = self.records_out

    def by_name(self) -> dict[str, float]:
        """Keys are the names of ``model.metric_names``."""
        tried = self.commits + self.failed_commits
        return (self._source_metrics() if self.is_source else self._sink_metrics()) | {
            "batch-size-max": self.batches.largest,
            "batch-size-avg": self.batches.average,
            "offset-commit-max-time-ms": self.commit_times.largest,
            "offset-commit-avg-time-ms": self.commit_times.average,
            "offset-commit-success-percentage": self.commits / tried if tried else 0.0,
            "offset-commit-failure-percentage": self.failed_commits / tried if tried else 0.0,
            "total-retries": self.retries,
            "records-lost-total": self.records_lost,
            **self._error_metrics(),
        }

    def note_lost(self, records: int) -> None:
        """Note records that were removed before they were read. May be called from a thread that reads ahead."""
        self.records_lost += records

    def note_failure(self) -> None:
        """Note that an operation on one record failed, whether or not it is retried."""
        self.record_failures += 1
        self.last_error_ms = int(time.time() * 1000)

    def _error_metrics(self) -> dict[str, float]:
        metrics: dict[str, float] = {
            "total-record-failures": self.record_failures,
            "total-record-errors": self.record_errors,
            "total-records-skipped": self.records_skipped,
            "total-errors-logged": self.errors_logged,
            "deadletterqueue-produce-requests": self.dead_letters,
            "deadletterqueue-produce-failures": self.dead_letter_failures,
        }
        return metrics if self.last_error_ms is None else metrics | {"last-error-timestamp": self.last_error_ms}

    def _source_metrics(self) -> dict[str, float]:
        metrics = {
            **self._counted("source-record-poll", self.records_in),
            **self._counted("source-record-write", self.records_out),
            **self._active("source-record"),
            "poll-batch-max-time-ms": self.calls.largest,
            "poll-batch-avg-time-ms": self.calls.average,
        }
        if not self.in_transactions:
            return metrics
        sizes = self.commit_sizes
        return metrics | {
            "transaction-size-min": sizes.smallest,
            "transaction-size-max": sizes.largest,
            "transaction-size-avg": sizes.average,
        }

    def _sink_metrics(self) -> dict[str, float]:
        return {
            **self._counted("sink-record-read", self.records_in),
            **self._counted("sink-record-send", self.records_out),
            **self._active("sink-record"),
            **self._counted("offset-commit-completion", self.commits),
            **self._counted("offset-commit-skip", 0),
            "offset-commit-seq-no": self.commits,
            "partition-count": self.partitions,
            "put-batch-max-time-ms": self.calls.largest,
            "put-batch-avg-time-ms": self.calls.average,
            "sink-values-lost-total": self.lost_values(),
        }

    def _counted(self, name: str, total: int) -> dict[str, float]:
        return {f"{name}-total": total, f"{name}-rate": total / max(perf_counter() - self.started, 0.001)}

    def _active(self, name: str) -> dict[str, float]:
        active = self.records_out - self._committed
        return {
            f"{name}-active-count": active,
            f"{name}-active-count-max": max(self.commit_sizes.largest, active),
            f"{name}-active-count-avg": self.commit_sizes.average,
        }


def merge_results(total: TaskResult, result: TaskResult) -> TaskResult:
    """The counts of several runs of a body. ``result`` is the result of the last run. Its state, trace and reason apply."""
    ranges = {topic: dict(partitions) for topic, partitions in total.ranges.items()}
    for topic, partitions in result.ranges.items():
        known = ranges.setdefault(topic, {})
        for partition, (start, end) in partitions.items():
            first, last = known.get(partition, (start, end))
            known[partition] = [min(first, start), max(last, end)]
    return replace(
        result,
        records=total.records + result.records,
        bytes=total.bytes + result.bytes,
        seconds=total.seconds + result.seconds,
        cpu_seconds=total.cpu_seconds + result.cpu_seconds,
        ranges=ranges,
        metrics=merge_metrics(result.metrics, total.metrics),
        topics={**total.topics, **result.topics},
        datasets=result.datasets or total.datasets,
        failed=total.failed + result.failed,
        error=result.error or total.error,
        is_logged=result.is_logged or total.is_logged,
    )
