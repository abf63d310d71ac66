"""What becomes of records that fail: retries, tolerance, reports and counts."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import InvalidOperation

import pytest

from airflow_provider_connect.errors import ConnectException, DataException, FencedException, RetriableException, trace_of
from airflow_provider_connect.runtime.model.connector_settings import ErrorSettings
from airflow_provider_connect.runtime.worker.errors.failures import ConsumedRecord, ErrorStage, Failure, Operation
from airflow_provider_connect.runtime.worker.errors.retries import retry_delay_ms
from airflow_provider_connect.runtime.worker.errors.tolerance import StoppedWhileRetrying, Tolerance
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from tests.unit.worker.clock import Clock

OPERATION = Operation(ErrorStage.TRANSFORMATION, "org.example.Strange")


def tolerance(
    clock: Clock | None = None, *, everything: bool = True, timeout_ms: int = 0, is_stopping: Callable[[], bool] = lambda: False
) -> tuple[Tolerance, list[Failure]]:
    reported: list[Failure] = []
    settings = ErrorSettings(timeout_ms, 60_000, tolerates_all=everything, log_enable=False, log_include_messages=False)
    clock = clock or Clock()
    metrics, draw = TaskMetrics(is_source=False), random.Random(1)
    made = Tolerance(settings, reported.append, metrics, is_stopping, now=clock.now, sleep=clock.sleep, draw=draw)
    return made, reported


def record(index: int) -> ConsumedRecord:
    return ConsumedRecord("t", 0, 100 + index)


def failing(bad: set[int], error: Exception) -> Callable[[int, int], list[int]]:
    def act(start: int, length: int) -> list[int]:
        run = list(range(start, start + length))
        if bad & set(run):
            raise error
        return run

    return act


@pytest.mark.parametrize(
    ("attempt", "max_ms", "left_ms", "least", "most"),
    [
        (1, 60_000, 1e9, 300, 300),
        (2, 60_000, 1e9, 600, 600),
        (8, 60_000, 1e9, 38_400, 38_400),
        (9, 60_000, 1e9, 0, 60_000),  # 76,800 is beyond the limit: a random time below it
        (100, 60_000, 1e9, 0, 60_000),
        (3, 60_000, 50.0, 50, 50),  # never past the deadline
        (1, 200, 1e9, 0, 200),
        (5, 0, 1e9, 0, 0),
    ],
)
def test_delays_are_connects(attempt: int, max_ms: int, left_ms: float, least: float, most: float) -> None:
    assert least <= retry_delay_ms(attempt, max_ms, left_ms, random.Random(3)) <= most


def test_failing_records_are_skipped_reported_and_counted() -> None:
    errors, reported = tolerance()
    parts = errors.parts(OPERATION, 10, failing({2, 7}, DataException("no")), record)
    assert [index for part in parts for index in part.result] == [0, 1, 3, 4, 5, 6, 8, 9]
    assert [str(failure.record) for failure in reported] == [str(record(2)), str(record(7))]
    measured = errors.metrics.by_name()
    assert {name: measured[f"total-record{name}"] for name in ("-failures", "-errors", "s-skipped")} == dict.fromkeys(
        ("-failures", "-errors", "s-skipped"), 2
    )
    assert measured["last-error-timestamp"] > 0


def test_without_tolerance_the_first_failing_record_is_reported_and_named() -> None:
    errors, reported = tolerance(everything=False)
    with pytest.raises(ConnectException, match=r"TRANSFORMATION by org.example.Strange failed for offset 102 of t-0: no$") as raised:
        errors.parts(OPERATION, 10, failing({2, 7}, DataException("no")), record)
    assert type(raised.value) is ConnectException
    assert trace_of(raised.value).startswith("airflow_provider_connect.errors.ConnectException: Tolerance exceeded in error handler")
    assert isinstance(raised.value.__cause__, DataException)
    assert len(reported) == 1
    assert (errors.metrics.record_failures, errors.metrics.record_errors, errors.metrics.records_skipped) == (1, 1, 0)


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [(RetriableException("busy"), True), (ConnectionError("away"), True), (Exception("x"), True), (ConnectException("no"), False)]
    + [(kind("no"), False) for kind in (DataException, ValueError, KeyError, TypeError, RecursionError, OverflowError, InvalidOperation)],
)
def test_whether_airflow_tries_again_is_up_to_the_cause(error: Exception, is_transient: bool) -> None:
    errors, _ = tolerance(everything=False)
    with pytest.raises(ConnectException) as raised:
        errors.parts(OPERATION, 1, failing({0}, error), record)
    assert raised.value.retriable is is_transient


def test_retriable_failure_is_tried_again_until_it_passes() -> None:
    clock = Clock()
    errors, reported = tolerance(clock, everything=False, timeout_ms=10_000)

    def act(start: int, length: int) -> list[int]:
        if clock.now() < 2.0:
            raise RetriableException("away")
        return list(range(start, start + length))

    parts = errors.parts(OPERATION, 4, act, record)
    assert [part.result for part in parts] == [[0], [1, 2, 3]]
    assert not reported
    assert errors.metrics.retries == errors.metrics.record_failures == 3  # after 300, 600 and 1,200 ms
    assert clock.now() == pytest.approx(2.1)


def test_used_up_retries_fail_the_task_where_nothing_is_tolerated() -> None:
    clock = Clock()
    errors, reported = tolerance(clock, everything=False, timeout_ms=1000)
    with pytest.raises(RetriableException, match="away"):
        errors.parts(OPERATION, 4, failing({1}, RetriableException("away")), record)
    assert len(reported) == 1
    assert clock.now() == pytest.approx(1.0)


def test_used_up_retries_skip_the_record_where_errors_are_tolerated() -> None:
    errors, reported = tolerance(timeout_ms=1000)
    parts = errors.parts(OPERATION, 4, failing({1}, RetriableException("away")), record)
    assert [index for part in parts for index in part.result] == [0, 2, 3]
    assert [failure.error.args for failure in reported] == [("away",)]
    assert (errors.metrics.retries, errors.metrics.record_failures, errors.metrics.records_skipped) == (3, 4, 1)


def test_wait_ends_when_the_task_is_to_end_and_nothing_becomes_of_the_record() -> None:
    clock = Clock()
    errors, reported = tolerance(clock, timeout_ms=-1, is_stopping=lambda: clock.now() >= 1.0)
    with pytest.raises(StoppedWhileRetrying):
        errors.parts(OPERATION, 4, failing({1}, RetriableException("away")), record)
    assert not reported
    assert clock.now() < 1.3


@pytest.mark.parametrize("error", [FencedException("late"), MemoryError(), NotImplementedError()])
def test_some_exceptions_are_never_tolerated(error: Exception) -> None:
    errors, reported = tolerance()
    with pytest.raises(type(error)):
        errors.parts(OPERATION, 4, failing({1}, error), record)
    assert not reported


def test_other_exceptions_than_the_tolerable_come_out_as_they_are() -> None:
    errors, _ = tolerance()
    with pytest.raises(ConnectException, match="destination is full"):
        errors.parts(OPERATION, 4, failing({1}, ConnectException("destination is full")), record, tolerable=DataException)
