"""A task that raises RetriableException from its calls, against a clock of its own: waits, warnings, and the end."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.errors import BackpressureException, ConnectException, RetriableException
from airflow_provider_connect.runtime.worker.errors.retries import Retries
from airflow_provider_connect.runtime.worker.errors.tolerance import STRICT, Tolerance
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.task.run_progress import RunProgress
from airflow_provider_connect.runtime.worker.task.sink_errors import SinkErrors
from airflow_provider_connect.runtime.worker.task.sink_loop import SinkLoop
from airflow_provider_connect.runtime.worker.task.source_loop import SourceLoop
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import SinkTask, SourceTask
from tests.unit.worker import test_sink_loop
from tests.unit.worker.clock import Clock

HOUR = 3600.0
AWAY = RetriableException("the API is away")


class Delivery:
    """Counts commits. A transaction is due every minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.commits: list[float] = []
        self.aborts = 0

    def deliver(self, batches: Sequence[Any], offsets: Sequence[Any]) -> None:
        """Takes everything."""

    def is_due(self) -> bool:
        return self._clock.now() - (self.commits[-1] if self.commits else 0.0) >= 60

    def commit(self, closing: Sequence[Any] = ()) -> bool:
        self.commits.append(self._clock.now())
        return False

    def abort(self) -> None:
        self.aborts += 1


class Source(SourceTask):
    """``answers`` are what ``poll`` returns or raises, the last one for ever. ``polls`` are the times at which it was called."""

    def __init__(self, clock: Clock, *answers: Any) -> None:
        self._clock = clock
        self._answers = list(answers)
        self.polls: list[float] = []

    def poll(self) -> Any:
        self.polls.append(self._clock.now())
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Run:
    """A loop of one of both kinds. ``ends`` is when the run has to end, and why."""

    clock: Clock = field(default_factory=Clock)
    timeout_ms: int = 0
    max_delay_ms: int = 60_000
    ends: tuple[float, StopReason] = (HOUR, StopReason.TIME)

    def __post_init__(self) -> None:
        self.metrics = TaskMetrics(is_source=True)
        self.delivery = Delivery(self.clock)
        self.stop: Any = SimpleNamespace(reason=self._reason)

    def _reason(self) -> StopReason | None:
        return self.ends[1] if self.clock.now() >= self.ends[0] else None

    def tolerance(self) -> Tolerance:
        return Tolerance(
            replace(STRICT, retry_timeout_ms=self.timeout_ms, retry_delay_max_ms=self.max_delay_ms),
            metrics=self.metrics,
            is_stopping=lambda: self._reason() is not None,
            now=self.clock.now,
            sleep=self.clock.sleep,
            draw=random.Random(7),
            task="orders-0",
        )

    def source(self, task: Source) -> SourceLoop:
        pipeline: Any = SimpleNamespace(errors=self.tolerance(), batches=lambda polled: polled)
        progress = RunProgress(self.metrics)
        return SourceLoop(task, pipeline, self.delivery, progress, self.stop, sleep=self.clock.sleep)

    def sink(self, task: Sink) -> SinkLoop:
        loop = test_sink_loop.loop(self.clock, [10], task)
        loop.errors = SinkErrors(self.tolerance())
        loop.stop, loop.metrics = self.stop, self.metrics
        return loop


class Sink(test_sink_loop.SlowSink):
    """The same for ``put``; ``before`` is called ahead of each answer."""

    def __init__(self, clock: Clock, *answers: Exception | None, before: Callable[[SinkTask], None] = lambda _: None) -> None:
        super().__init__(clock, put_seconds=0, commit_seconds=0)
        self._source = Source(clock, *answers)
        self._before = before

    @property
    def puts(self) -> list[float]:
        return self._source.polls

    def put(self, batch: Batch) -> None:
        self._before(self)
        self._source.poll()
        super().put(batch)


def waits(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def test_a_source_that_stays_away_is_polled_ever_more_seldom_and_fails_a_run_that_it_never_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Run()
    task = Source(run.clock, AWAY)
    with caplog.at_level(logging.INFO), pytest.raises(ConnectException) as raised:
        run.source(task).run()
    assert raised.value.retriable, "the next run retries"
    assert str(raised.value).endswith("and never succeeded before the time of the run was over: the API is away")
    first = waits(task.polls)[:7]
    for wait, longest in zip(first, (0.3, 0.6, 1.2, 2.4, 4.8, 9.6, 19.2), strict=True):
        assert 0.8 * longest - 0.01 <= wait <= longest + 0.2
    assert len(task.polls) < 300, "some a minute, where it was polled ten times a second"
    assert run.metrics.retries == len(task.polls)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == len(task.polls).bit_length(), "one at each doubling"
    assert warnings[2].startswith("Task orders-0: poll has failed 4 times in a row: RetriableException: the API is away. The next ")
    assert waits(run.delivery.commits)[0] == pytest.approx(60, abs=1), "commits that are due do not wait for a retry"


def test_tasks_that_failed_together_do_not_come_back_together() -> None:
    clock, tolerance = Clock(), Run().tolerance()
    delays = {tolerance.retries(f"call {number}").delay(AWAY) for number in range(20)}
    assert len(delays) == 20
    assert clock.now() == 0


@pytest.mark.parametrize(
    "error", [BackpressureException("slower", retry_after_ms=45_000), RetriableException("HTTP 429", retry_after_ms=45_000)]
)
def test_the_time_that_a_source_asks_for_is_waited_for(error: RetriableException) -> None:
    run = Run()
    task = Source(run.clock, error, error, None)
    assert run.source(task).run() is None
    assert waits(task.polls) == pytest.approx([45, 45], abs=0.15)


@pytest.mark.parametrize(
    "error", [BackpressureException("slower", retry_after_ms=20_000), RetriableException("429", retry_after_ms=20_000)]
)
def test_the_time_that_a_sink_asks_for_is_waited_for(error: RetriableException) -> None:
    run = Run()
    task = Sink(run.clock, error, error, None)
    assert run.sink(task).run() is None
    assert waits(task.puts) == pytest.approx([20, 20], abs=0.15)
    assert task.count == 10


def test_a_sink_asks_for_a_time_by_its_context_too() -> None:
    run = Run()
    task = Sink(run.clock, AWAY, None, before=lambda _: loop.context.timeout(7000))
    loop = run.sink(task)
    assert loop.run() is None
    assert waits(task.puts) == pytest.approx([7], abs=0.15)


def test_errors_retry_timeout_ends_the_retries_of_a_source_after_a_commit_of_what_was_read() -> None:
    run = Run(timeout_ms=30_000)
    task = Source(run.clock, [], AWAY)
    with pytest.raises(
        ConnectException, match=r"poll has failed \d+ times in a row; errors.retry.timeout \(30000 ms\) allows no"
    ) as raised:
        run.source(task).run()
    assert raised.value.retriable
    assert raised.value.__cause__ is AWAY
    assert 30 <= run.clock.now() < 31
    assert run.delivery.commits[-1] == run.clock.now()


def test_errors_retry_timeout_ends_the_retries_of_a_sink() -> None:
    run = Run(timeout_ms=30_000)
    task = Sink(run.clock, AWAY)
    with pytest.raises(ConnectException, match=r"put has failed \d+ times in a row; errors.retry.timeout") as raised:
        run.sink(task).run()
    assert raised.value.retriable
    assert 30 <= run.clock.now() < 31


def test_a_time_beyond_errors_retry_timeout_is_not_waited_for() -> None:
    run = Run(timeout_ms=30_000)
    with pytest.raises(ConnectException, match="HTTP 429") as raised:
        run.source(Source(run.clock, RetriableException("HTTP 429", retry_after_ms=31_000))).run()
    assert raised.value.retriable
    assert run.clock.now() == 0


def test_a_sink_that_never_took_a_batch_fails_a_run_whose_time_is_over() -> None:
    run = Run()
    with pytest.raises(ConnectException, match=r"put has failed .* and never succeeded before the time of the run was over") as raised:
        run.sink(Sink(run.clock, AWAY)).run()
    assert raised.value.retriable


def test_minus_one_sets_no_end_and_the_run_ends_well() -> None:
    run = Run(timeout_ms=-1)
    assert run.source(Source(run.clock, AWAY)).run() is StopReason.TIME
    run = Run(timeout_ms=-1)
    assert run.sink(Sink(run.clock, AWAY)).run() is StopReason.TIME


def test_a_run_that_got_an_answer_ends_well_when_its_time_is_over() -> None:
    run = Run()
    assert run.source(Source(run.clock, [], AWAY)).run() is StopReason.TIME


@pytest.mark.parametrize("reason", [StopReason.PAUSED, StopReason.STOPPED, StopReason.ASKED_TO_END])
def test_a_stop_ends_the_wait_at_once(reason: StopReason) -> None:
    error = BackpressureException("come back in half an hour", retry_after_ms=1_800_000)
    run = Run(ends=(100.0, reason))
    assert run.source(Source(run.clock, error)).run() is reason
    assert run.clock.now() < 100.2
    run = Run(ends=(100.0, reason))
    assert run.sink(Sink(run.clock, error)).run() is reason
    assert run.clock.now() < 100.2


def test_a_call_that_works_again_is_logged_and_begins_with_short_waits(caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    task = Source(run.clock, AWAY, AWAY, AWAY, [], AWAY, None)
    with caplog.at_level(logging.INFO):
        assert run.source(task).run() is None
    assert "Task orders-0: poll works again after 3 failed attempts in 2." in caplog.text
    assert waits(task.polls)[-1] < 0.5


def test_a_source_that_fails_every_other_time_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    assert run.source(Source(run.clock, *[AWAY, []] * 1000, None)).run() is None
    assert len(caplog.records) == 10


def test_secrets_are_hidden(caplog: pytest.LogCaptureFixture) -> None:
    tolerance = Run().tolerance()
    tolerance.mask = lambda text: text.replace("hunter2", "[hidden]")
    retries: Retries = tolerance.retries("poll")
    retries.delay(RetriableException("token hunter2 is rejected"))
    assert "token [hidden] is rejected" in caplog.text
