"""The parts of an API server that act at intervals: when each is due, and what its failures do to the others."""

import logging
import threading
from collections.abc import Callable

import pytest
from sqlalchemy.exc import OperationalError

from airflow_provider_connect.api_server.ticker import Part, Ticker, error_line
from airflow_provider_connect.errors import ConnectException
from tests.waiting import HANG_SECONDS


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def ticked(part: Part, clock: Clock, seconds: list[float]) -> None:
    for clock.seconds in seconds:
        part.tick(clock)


def failing() -> None:
    raise ConnectException("no broker answers")


def test_a_part_acts_at_its_own_interval_or_when_it_asked_for() -> None:
    clock, acted = Clock(), list[float]()
    waits = iter([None, None, 0.0, 30.0, None])

    def act() -> float | None:
        acted.append(clock.seconds)
        return next(waits)

    ticked(Part("p", act, seconds=5), clock, [0, 4.9, 5, 9.9, 10, 10, 39, 40])
    assert acted == [0, 5, 10, 10, 40]


def test_failures_double_the_wait_up_to_a_limit_and_a_success_ends_that() -> None:
    clock, acted, error = Clock(), list[float](), [True]

    def act() -> None:
        acted.append(clock.seconds)
        if error[0]:
            failing()

    part = Part("p", act, seconds=1, longest_seconds=6)
    ticked(part, clock, list(range(20)))
    assert acted == [0, 2, 6, 12, 18]
    assert (part.failures, part.error) == (5, "no broker answers")
    error[0] = False
    ticked(part, clock, [24, 25, 26])
    assert acted[5:] == [24, 25, 26]
    assert (part.failures, part.error) == (0, None)


def test_a_failure_is_logged_once_until_its_reason_changes(caplog: pytest.LogCaptureFixture) -> None:
    reasons = iter(["a", "a", "b", ""])
    clock = Clock()

    def act() -> None:
        if reason := next(reasons):
            raise ConnectException(reason)

    with caplog.at_level(logging.INFO):
        ticked(Part("the part", act, seconds=1), clock, [0, 100, 200, 300])
    assert [record.getMessage() for record in caplog.records] == [
        "Part 'the part' of the API server failed and is retried: a",
        "Part 'the part' of the API server failed and is retried: b",
        "Part 'the part' of the API server works again after 3 failures",
    ]


def started(*parts: Part) -> Ticker:
    ticker = Ticker(parts)
    ticker.start()
    return ticker


def waiting_for(event: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        event.wait(HANG_SECONDS)

    return wait


def test_a_part_that_fails_or_takes_long_stops_no_other() -> None:
    acted, end, order = threading.Semaphore(0), threading.Event(), list[str]()
    slow = Part("slow", waiting_for(end), seconds=0.01, is_slow=True, close=lambda: order.append("slow"))
    quick = Part("quick", acted.release, seconds=0.01, close=lambda: order.append("quick"))
    ticker = started(Part("broken", failing, seconds=0.01), quick, slow)
    for _ in range(3):
        assert acted.acquire(timeout=HANG_SECONDS)
    (warning,) = ticker.warnings()
    assert "'broken'" in warning
    assert "failed" in warning
    assert "no broker" not in warning, "the reason may name what not every user may see"
    end.set()
    ticker.stop()
    assert order == ["slow", "quick"], "the worker, which the mirror uses, is closed last"


def test_a_failed_statement_is_named_without_its_parameters() -> None:
    error = OperationalError("INSERT INTO t VALUES (?)", {"secret": 1}, Exception("database is locked\nmore"))
    assert error_line(error) == "OperationalError: database is locked"
    assert error_line(ConnectException("no broker")) == "no broker"
