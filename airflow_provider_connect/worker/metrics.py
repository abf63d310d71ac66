"""What a task counted in one run, under Kafka Connect's metric names. Knows nothing of where the figures go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter


@dataclass(slots=True)
class _Extremes:
    """Largest, sum and number of some values."""

    largest: float = 0.0
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.largest = max(self.largest, value)
        self.total += value
        self.count += 1

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class TaskMetrics:
    """Counters of one task in one run. ``figures`` gives them by Connect's names (contract §6); durations are milliseconds."""

    is_source: bool
    records_in: int = 0
    records_out: int = 0
    bytes: int = 0
    commits: int = 0
    failed_commits: int = 0
    batches: _Extremes = field(default_factory=_Extremes)
    calls: _Extremes = field(default_factory=_Extremes)
    commit_times: _Extremes = field(default_factory=_Extremes)

    @contextmanager
    def timed_call(self) -> Iterator[None]:
        """Around each ``poll`` or ``put``."""
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
        self.commit_times.add((perf_counter() - start) * 1000)

    def figures(self) -> dict[str, float]:
        read, written = (
            ("source-record-poll-total", "source-record-write-total")
            if self.is_source
            else ("sink-record-read-total", "sink-record-send-total")
        )
        call = "poll-batch" if self.is_source else "put-batch"
        tried = self.commits + self.failed_commits
        return {
            read: self.records_in,
            written: self.records_out,
            "batch-size-max": self.batches.largest,
            "batch-size-avg": self.batches.average,
            f"{call}-max-time-ms": self.calls.largest,
            f"{call}-avg-time-ms": self.calls.average,
            "offset-commit-max-time-ms": self.commit_times.largest,
            "offset-commit-avg-time-ms": self.commit_times.average,
            "offset-commit-success-percentage": self.commits / tried if tried else 0.0,
            "offset-commit-failure-percentage": self.failed_commits / tried if tried else 0.0,
        }
