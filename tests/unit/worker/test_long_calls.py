"""What the log reports of a call that does not come back."""

import logging
import math
import threading
import time
from collections.abc import Iterator
from queue import Queue

import pytest

from airflow_provider_connect.runtime.worker.task import long_calls
from airflow_provider_connect.runtime.worker.task.long_calls import LongCalls
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopSignal
from airflow_provider_connect.sdk.functions.signature import call_with
from tests.waiting import HANG_SECONDS


class Nothing:
    def poll(self, timeout_seconds: float = 0.0) -> StopReason | None:
        return None


class Warnings(logging.Handler):
    """The lines of its log, as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Queue[str] = Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.put(record.getMessage())


@pytest.fixture
def warnings() -> Iterator[Warnings]:
    handler = Warnings()
    long_calls.log.addHandler(handler)
    yield handler
    long_calls.log.removeHandler(handler)


def stop_signal() -> StopSignal:
    return StopSignal(Nothing(), None, now=time.monotonic, deadline=math.inf)


def unexpected(note: str | None, _replaced: str | None) -> None:
    raise AssertionError(note)


def fetch_for_ever(warnings: Warnings, lines: list[str]) -> None:
    while len(lines) < 2:
        lines.append(warnings.lines.get(timeout=HANG_SECONDS))


def test_a_call_that_stays_is_named_with_its_line_again_and_again(warnings: Warnings) -> None:
    lines: list[str] = []
    notes: list[tuple[str | None, str | None]] = []
    with LongCalls(stop_signal(), "task 0", note=lambda *note: notes.append(note), first_seconds=0.1):
        call_with(fetch_for_ever, {"warnings": warnings, "lines": lines})
    first, second = lines
    assert notes[:2] == [(first, None), (second, None)]
    assert notes[-1] == (None, notes[-2][0])  # the thread has left
    assert first.startswith("task 0: no batch has ended for 0 s; its thread is at ")
    for line in (first, second):
        assert "test_long_calls.py" in line
        assert "in fetch_for_ever, and in it at threading.py:" in line


def test_a_loop_that_asks_is_quiet(warnings: Warnings) -> None:
    polled = Queue[None]()

    class JustAsked(StopSignal):
        @property
        def polled_at(self) -> float:
            polled.put(None)
            return time.monotonic()

    with LongCalls(JustAsked(Nothing(), None, now=time.monotonic, deadline=math.inf), "task 0", note=unexpected, first_seconds=0.01):
        for _ in range(20):
            polled.get(timeout=HANG_SECONDS)
    assert warnings.lines.empty()


def test_the_note_goes_when_the_call_returns() -> None:
    polled_at: list[float] = []
    notes = Queue[tuple[str | None, str | None]]()

    class Returns(StopSignal):
        @property
        def polled_at(self) -> float | None:
            return polled_at[0] if polled_at else None

    with LongCalls(
        Returns(Nothing(), None, now=time.monotonic, deadline=math.inf), "task 0", note=lambda *note: notes.put(note), first_seconds=0.1
    ):
        text, replaced = notes.get(timeout=HANG_SECONDS)
        assert text is not None
        assert replaced is None
        polled_at.append(time.monotonic() + HANG_SECONDS)
        while text is not None:
            text, replaced = notes.get(timeout=HANG_SECONDS)
    assert replaced is not None
    assert replaced.startswith("task 0: no batch has ended for ")


def test_its_thread_ends_with_the_task() -> None:
    with LongCalls(stop_signal(), "task 7", note=unexpected):
        assert [thread for thread in threading.enumerate() if thread.name == "long-calls-task 7"]
    assert not [thread for thread in threading.enumerate() if thread.name == "long-calls-task 7"]


def test_the_tasks_end_does_not_wait_for_a_note_that_kafka_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_calls, "END_SECONDS", 0.1)
    noted, is_over, written = threading.Event(), threading.Event(), Queue[str | None]()

    def put(note: str | None, _replaced: str | None) -> None:
        noted.set()
        is_over.wait(HANG_SECONDS)
        written.put(note)

    with LongCalls(stop_signal(), "task 0", note=put, first_seconds=0.1):
        assert noted.wait(HANG_SECONDS)
    assert written.empty()
    is_over.set()
    assert written.get(timeout=HANG_SECONDS) is not None
    assert written.get(timeout=HANG_SECONDS) is None  # the note goes all the same
