"""When a Java task's run is over, and how often its JVM is asked meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.java.bounded.runs import (
    LONG_POLL_SECONDS,
    LONGEST_IDLE_SECONDS,
    JavaRun,
    Progress,
    slower_heartbeats,
)
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker, JavaStatus, JavaTask

SOURCE = JavaTask("orders", 0, is_source=True)


@dataclass
class Task:
    """A task by a clock of its own: it polls ``records`` records until ``busy_seconds``. ``asked`` counts the calls into its JVM."""

    records: int = 0
    busy_seconds: float = 0.0
    now: float = 0.0
    is_paused: bool = False
    has_ended: bool = False
    poll_ends: float = 0.0  # the poll under way at the pause
    reason: Callable[[], str | None] = lambda: None
    asked: Counter[str] = field(default_factory=Counter)

    def counter(self, task: JavaTask, name: str) -> Callable[[], int]:
        return self.polled

    def polled(self) -> int:
        self.asked["count"] += 1
        return int(self.records * min(1.0, self.now / self.busy_seconds)) if self.busy_seconds else self.records

    def status(self, task: JavaTask) -> JavaStatus:
        self.asked["status"] += 1
        if self.has_ended:
            return JavaStatus("UNASSIGNED")
        return JavaStatus("PAUSED" if self.is_paused and self.now >= self.poll_ends else "RUNNING")

    def pause(self, connector: str, *, paused: bool = True) -> None:
        self.is_paused = paused

    def is_polling(self, task: JavaTask) -> bool:
        return True

    def metrics(self, task: JavaTask) -> dict[str, float]:
        return {}

    def sizes(self, task: JavaTask) -> dict[str, int]:
        return {}

    def stop_task(self, task: JavaTask) -> None:
        self.asked["stop"] += 1

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, **how: Any) -> JavaRun[str]:
        worker = cast(ConnectWorker, self)
        run = JavaRun[str](worker, SOURCE, self.reason, lambda: False, lambda: True, None, now=lambda: self.now, sleep=self.sleep, **how)
        assert run.run() == self.reason()
        return run


class Behind:
    """A goal that is received after ten seconds."""

    moves_offsets = False

    def __init__(self, task: Task) -> None:
        self._task = task

    def progress(self, worker: ConnectWorker, polled: int) -> Progress:
        return Progress.BEHIND if self._task.now < 10 else Progress.RECEIVED

    def offsets_after(self, offsets: object) -> list[tuple[dict[str, object], dict[str, object]]]:
        return []

    def close(self) -> None:
        pass


def test_a_run_ends_by_an_empty_poll_behind_the_last_record() -> None:
    task = Task(records=1000, busy_seconds=3.0, now=0.1)
    assert task.run().records == 1000
    assert 3.0 < task.now < 4.0
    assert task.asked["stop"] == 1


def test_a_jvm_that_waits_is_asked_seldom() -> None:
    """Ten polls a second, and five reads of the status."""
    task = Task()
    assert task.run(goal=Behind(task)).is_at_goal
    assert 10 <= task.now < 10.5
    assert task.asked["count"] < 120
    assert task.asked["status"] < 70


@pytest.mark.parametrize("endless", [False, True])
def test_a_task_that_has_ended_without_being_stopped_is_not_waited_for(*, endless: bool) -> None:
    with pytest.raises(RetriableException, match="Task orders-0 was not stopped, but has ended"):
        Task(has_ended=True).run(endless=endless)


def test_a_run_ticks_while_its_task_is_at_work() -> None:
    task, ticks = Task(records=1000, busy_seconds=3.0, now=0.1), list[float]()
    task.run(tick=lambda: ticks.append(task.now))
    assert len(ticks) > 20
    assert ticks[-1] > 2.9


def test_a_poll_that_waits_is_left_after_its_time_and_its_task_is_not_stopped() -> None:
    """The stop of the task would wait for the poll."""
    task = Task(records=100, busy_seconds=1.0, now=0.1, poll_ends=1000.0)
    run = task.run(poll_seconds=5.0)
    assert (run.has_left_poll, run.records, task.asked["stop"]) == (True, 100, 0)
    assert 6.0 < task.now < 7.0


def test_a_run_that_has_left_a_poll_is_not_at_its_goal() -> None:
    """What the poll has taken from the source is not delivered: an offset that was moved behind it would skip it."""
    task = Task(poll_ends=1000.0, now=20.0)
    run = task.run(goal=Behind(task), poll_seconds=0.1)
    assert (run.has_left_poll, run.is_at_goal) == (True, False)


def test_a_poll_that_returns_in_its_time_is_not_left() -> None:
    task = Task(records=100, poll_ends=3.0)
    assert not task.run(poll_seconds=5.0).has_left_poll
    assert (task.asked["stop"], task.now < 4.0) == (1, True)


def test_a_long_poll_is_reported_once_and_waited_for() -> None:
    task, noted = Task(poll_ends=5 * LONG_POLL_SECONDS), list[float]()
    assert not task.run(note_long_poll=noted.append).has_left_poll
    assert len(noted) == 1
    assert LONG_POLL_SECONDS <= noted[0] < LONG_POLL_SECONDS + 1
    assert task.now >= 5 * LONG_POLL_SECONDS


def test_an_endless_run_ends_by_its_reason_alone() -> None:
    """Though no record comes for an hour."""
    task = Task(records=10)
    task.reason = lambda: "stopped" if task.now > 3600 else None
    run = task.run(endless=True)
    assert (run.records, task.asked["stop"], task.is_paused) == (10, 1, False)


def test_an_endless_run_with_an_idle_timeout_ends_after_that_time_without_a_record() -> None:
    task = Task(records=10)
    run = task.run(endless=True, idle_seconds=30.0)
    assert (run.records, task.asked["stop"]) == (10, 1)
    assert 30 <= task.now < 90


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (None, None),
        ("0", None),
        ("100", "5000"),
        (" 999 ", "5000"),
        ("5000", None),
        ("60000", None),
        ("", None),
        ("soon", None),
        ("-1", None),
    ],
)
def test_heartbeats_that_would_leave_no_poll_empty_come_less_often(given: str | None, used: str | None) -> None:
    config = {} if given is None else {"heartbeat.interval.ms": given}
    assert slower_heartbeats(config) == ({} if used is None else {"heartbeat.interval.ms": used})
    assert used is None or int(used) > 2000 * LONGEST_IDLE_SECONDS
