"""What a task at work reports of itself, on a clock of the test's own."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.model.batches import Stay
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.task.progress import ProgressLog, distance_of, progress_text
from airflow_provider_connect.runtime.worker.task.run_progress import RunProgress
from airflow_provider_connect.sdk.task import SourceTask


def test_a_line_comes_every_ten_seconds_and_none_in_a_short_run(caplog: pytest.LogCaptureFixture) -> None:
    clock, metrics = [100.0], TaskMetrics(is_source=False)
    progress = ProgressLog("c-0", metrics, distance=lambda: Distance(5000), now=lambda: clock[0])
    with caplog.at_level(logging.INFO):
        for seconds, records in ((0.0, 10), (9.9, 900), (10.0, 1000), (15.0, 1500), (20.0, 3000)):
            clock[0], metrics.records_out, metrics.bytes = 100.0 + seconds, records, 1000 * records
            progress.tick()
    assert caplog.messages == [
        "Task c-0: 1,000 records, 1.0 MB, 100 records/s, 5,000 records before the end, 50 s at this rate",
        "Task c-0: 3,000 records, 3.0 MB, 200 records/s, 5,000 records before the end, 25 s at this rate",
    ]


def test_an_endless_task_logs_every_ten_minutes_and_nothing_while_idle(caplog: pytest.LogCaptureFixture) -> None:
    clock, metrics, counted = [100.0], TaskMetrics(is_source=False), []
    progress = ProgressLog("c-0", metrics, count=lambda: counted.append(clock[0]), now=lambda: clock[0], endless=True)
    with caplog.at_level(logging.INFO):
        for seconds, records in ((10, 100), (590, 500), (600, 600), (1210, 600), (1800, 600), (1810, 1810), (1820, 5000)):
            clock[0], metrics.records_out, metrics.bytes = 100.0 + seconds, records, 1000 * records
            progress.tick()
    assert caplog.messages == ["Task c-0: 600 records, 600.0 kB, 1 records/s", "Task c-0: 1,810 records, 1.8 MB, 1 records/s"]
    assert len(counted) == 7  # metrics stay at most ten seconds old


def test_records_are_committed_with_the_commit_alone() -> None:
    metrics = TaskMetrics(is_source=True, in_transactions=True)
    metrics.records_out = 10
    with metrics.timed_commit():
        metrics.records_out = 12
    metrics.records_out = 20
    assert (metrics.records_committed, metrics.records_delivered) == (12, 20)
    metrics.drop()
    assert (metrics.records_committed, metrics.records_delivered) == (12, 12)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((0, 0, 0.0, None), "0 records, 0 B, 0 records/s"),
        ((7, 999, 0.7, Distance(0)), "7 records, 999 B, 1 records/s, 0 records before the end"),
        ((7, 1500, 0.0, Distance(9)), "7 records, 1.5 kB, 0 records/s, 9 records before the end"),
        ((7, 2_000_000_000, 2.0, Distance(600)), "7 records, 2.0 GB, 2 records/s, 600 records before the end, 5 min at this rate"),
        ((7, 0, 1.0, Distance(9000)), "7 records, 0 B, 1 records/s, 9,000 records before the end, 2 h 30 min at this rate"),
        ((7, 0, 1.0, Distance(9500, "bytes")), "7 records, 0 B, 1 records/s, 9.5 kB before the end"),
        ((7, 0, 1.0, Distance(9500, "numbers of id")), "7 records, 0 B, 1 records/s, 9,500 numbers of id before the end"),
    ],
)
def test_the_text(given: tuple[int, int, float, Distance | None], text: str) -> None:
    assert progress_text(*given) == text


@pytest.mark.parametrize("answer", [None, Distance(-1), "much", ZeroDivisionError("no end")], ids=str)
def test_an_authors_distance_that_is_none_stops_no_run(answer: object) -> None:
    class Task(SourceTask):
        def distance(self) -> Distance | None:
            if isinstance(answer, Exception):
                raise answer
            return answer  # type: ignore[return-value]

    assert distance_of(Task()) is None


def test_an_entry_of_the_batch_log_is_written_every_ten_seconds() -> None:
    clock, entry = [100.0], ProducerRecord("batches", 0, b"key", None)
    metrics = TaskMetrics(is_source=True, records_in=1)
    progress = RunProgress(
        metrics, batch_log_entry=lambda ranges, stay: [entry] if (ranges, stay) == ({}, None) else [], now=lambda: clock[0]
    )
    found = []
    for seconds in (0.0, 9.9, 10.0, 15.0, 20.0):
        clock[0] = 100.0 + seconds
        found.append(list(progress.batch_log_records(is_last=False)))
    assert found == [[], [], [entry], [], [entry]]
    assert list(progress.batch_log_records(is_last=True)) == [entry]


class Ends:
    """The ends of a topic: for all readers, and for readers of committed records."""

    def __init__(self) -> None:
        self.end = self.committed = 0
        self.error: Exception | None = None

    def committed_ranges(self) -> tuple[dict[str, dict[str, list[int]]], bool]:
        if self.error is not None:
            raise self.error
        return {"t": {"0": [0, self.committed]}}, self.committed == self.end

    def ranges(self) -> dict[str, dict[str, list[int]]]:
        if self.error is not None:
            raise self.error
        return {"t": {"0": [0, self.end]}}


def test_a_run_that_stays_reports_its_ranges_once_it_is_quiet() -> None:
    clock, ends, metrics = [100.0], Ends(), TaskMetrics(is_source=True)
    entries: list[tuple[Any, Stay | None]] = []
    topics: Any = ends
    progress = RunProgress(
        metrics,
        topics=topics,
        stays=True,
        batch_log_entry=lambda ranges, stay: entries.append((ranges, stay)) or [],  # type: ignore[func-returns-value]
        now=lambda: clock[0],
    )

    def reported(seconds: float, *, is_last: bool = False) -> list[tuple[Any, Stay | None]]:
        clock[0] = 100.0 + seconds
        entries.clear()
        progress.unreported_records(is_last=is_last)
        return [(ranges["t"]["0"][1], stay) for ranges, stay in entries]

    assert reported(20) == reported(20, is_last=True) == []  # there is no record
    metrics.records_in, ends.end, ends.committed = 3, 3, 3
    progress.sent([])
    assert reported(25) == []  # nothing is committed
    progress.nothing_uncommitted()
    assert reported(25.5) == []
    assert reported(26) == [(3, Stay.OPEN)]
    assert reported(40) == []
    ends.end = 5  # the marker of the next transaction is not written yet
    progress.sent([])
    progress.nothing_uncommitted()
    assert reported(41) == []
    ends.committed = 5
    assert reported(41.5) == []
    assert reported(42) == [(5, Stay.OPEN)]
    progress.sent([])
    progress.nothing_uncommitted()
    ends.error = RetriableException("no broker")
    assert reported(44) == []
    assert reported(46, is_last=True) == [(5, Stay.OVER)]
    ends.end, ends.error = 8, None
    assert reported(47, is_last=True) == [(8, Stay.OVER)]
