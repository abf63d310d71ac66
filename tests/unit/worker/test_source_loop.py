"""The order of a source task's loop: what it delivers, commits, aborts and drops, and when the task learns of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.converters.plain import StringConverter
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.source_delivery import SourceOffset
from airflow_provider_connect.runtime.worker.delivery.transaction_boundary import RequestedBoundary
from airflow_provider_connect.runtime.worker.errors.tolerance import STRICT
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters
from airflow_provider_connect.runtime.worker.task.run_progress import RunProgress
from airflow_provider_connect.runtime.worker.task.source_loop import SourceLoop, TransactionRequests
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import RAW_HEADERS
from airflow_provider_connect.sdk.task import SourceTask

Step = Callable[["Source"], Any]


class Source(SourceTask):
    """``poll`` returns what the next of ``steps`` does, then None. ``events`` is the diary of loop, delivery and task."""

    def __init__(self, events: list[str], *steps: Step) -> None:
        self._events, self._steps = events, iter(steps)
        self.boundary = RequestedBoundary()
        self.next = 0

    def poll(self) -> Any:
        step = next(self._steps, None)
        return None if step is None else step(self)

    def commit(self) -> None:
        self._events.append("task.commit")

    def numbers(self, count: int) -> Batch:
        first, self.next = self.next, self.next + count
        values = pa.array([str(number) for number in range(first, self.next)])
        offsets = [{"next": number + 1} for number in range(first, self.next)]
        return Batch.of("t", value=values, source_partition={"p": 1}, source_offsets=offsets)


def polled(count: int) -> Step:
    return lambda source: source.numbers(count)


class Delivery:
    """Keeps a transaction in a list. It is due after each poll, where it is asked by itself."""

    def __init__(self, events: list[str], *, is_due: bool) -> None:
        self._events, self._is_due = events, is_due
        self._open: list[str] = []
        self._offset: object = None
        self.records: list[str] = []

    def deliver(self, batches: Sequence[EncodedBatch], offsets: Sequence[SourceOffset]) -> None:
        for batch in batches:
            assert batch.value is not None
            self._open += [value.decode() for value in batch.value.to_pylist()]
        for _, offset in offsets:
            self._offset = offset["next"]
        self._events.append("deliver")

    def is_due(self) -> bool:
        return self._is_due

    def commit(self, closing: Sequence[Any] = ()) -> bool:
        if self._offset is None and not closing:
            return False
        self._events.append(f"commit {self._offset}" + " and batch log" * bool(closing))
        self.records += self._open
        self._open, self._offset = [], None
        return True

    def drop(self, *, with_offsets: bool) -> bool:
        self._events.append("drop with offsets" if with_offsets else "drop")
        self._offset = None if with_offsets else self._offset
        was_open, self._open = bool(self._open), []
        return was_open

    def abort(self) -> None:
        self._events.append("abort")


class Run:
    """A loop over ``steps``; ``reasons`` are what the stop signal returns, one for each turn, then none."""

    def __init__(
        self,
        *steps: Step,
        reasons: Sequence[StopReason | None] = (),
        requests: bool = False,
        max_records: int | None = None,
        due: bool = True,
    ) -> None:
        self.events: list[str] = []
        self.task = Source(self.events, *steps)
        self.delivery = Delivery(self.events, is_due=due and not requests)
        self.metrics = TaskMetrics(is_source=True)
        left: Iterator[StopReason | None] = iter(reasons)
        stop: Any = SimpleNamespace(reason=lambda: next(left, None))
        noted: Any = SimpleNamespace(prepare=lambda topic: None, note=lambda topics: self.events.append(f"active {sorted(topics)}"))
        converter = Picky()
        converter.configure({}, is_key=False)
        self.loop = SourceLoop(
            task=self.task,
            pipeline=SourcePipeline(Converters(converter, converter, RAW_HEADERS)),
            delivery=self.delivery,
            progress=RunProgress(
                self.metrics,
                max_records,
                topics=noted,
                active_topics=noted,
                batch_log_entry=lambda ranges, stay: [object()],  # type: ignore[list-item]
                copy_offsets=lambda: self.events.append("copy"),
            ),
            stop=stop,
            transactions=TransactionRequests(self.task.boundary, self.delivery.drop) if requests else None,
            sleep=lambda _: self.events.append("sleep"),
        )

    def end(self) -> StopReason | None:
        return self.loop.run()


def test_the_task_learns_of_a_commit_after_topics_and_copied_offsets() -> None:
    run = Run(polled(2), polled(1))
    assert run.end() is None
    one = ["copy", "task.commit"]
    assert run.events == [
        "deliver",
        "commit 2",
        "active ['t']",
        *one,
        "deliver",
        "commit 3",
        "active ['t']",
        *one,
        "commit None and batch log",
        "active []",
        *one,
    ]
    assert run.delivery.records == ["0", "1", "2"]


def test_a_run_without_records_commits_nothing() -> None:
    run = Run(lambda _: [])
    assert run.end() is None
    assert run.events == ["sleep"]


def test_a_run_reports_to_the_batch_log_in_a_commit_that_is_due_and_never_without_records() -> None:
    run, idle = Run(polled(2), polled(1)), Run(lambda _: [])
    for each in (run, idle):
        each.loop.progress.interval_seconds = 0.0
        each.end()
    commits = [event for event in run.events if event.startswith("commit")]
    assert commits == ["commit 2 and batch log", "commit 3 and batch log", "commit None and batch log"]
    assert idle.events == ["sleep"]


def test_a_fenced_loop_aborts_and_commits_nothing() -> None:
    run = Run(polled(2), polled(2), reasons=[None, StopReason.FENCED], due=False)
    assert run.end() is StopReason.FENCED
    assert run.events == ["deliver", "abort"]


def test_a_stopped_loop_commits_what_it_has_delivered() -> None:
    run = Run(polled(2), polled(2), reasons=[None, StopReason.PAUSED], due=False)
    assert run.end() is StopReason.PAUSED
    assert run.events == ["deliver", "commit 2 and batch log", "active ['t']", "copy", "task.commit"]


def fails(error: Exception) -> Step:
    def fail(_: Source) -> Any:
        raise error

    return fail


def unfit(source: Source) -> Any:
    """Records of which one fails, behind another batch: a poll is delivered whole or not at all, as its offsets may belong together."""
    return [source.numbers(2), source.numbers(1).replace(value=pa.array(["unfit"]))]


class Picky(StringConverter):
    """Refuses a text."""

    def from_connect_column(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array:
        if "unfit" in values.to_pylist():
            raise DataException("unfit")
        return super().from_connect_column(topic, schema, values)


@pytest.mark.parametrize("error", [OSError("the disk is gone"), DataException("not JSON"), RetriableException("away")])
def test_a_poll_that_fails_costs_none_of_the_polls_before_it(error: Exception) -> None:
    run = Run(polled(2), fails(error), polled(2), due=False)
    run.loop.pipeline.errors.settings = dataclasses.replace(STRICT, retry_timeout_ms=1)
    run.loop.pipeline.errors.now = iter(range(9)).__next__
    with pytest.raises((OSError, ConnectException), match=str(error)):
        run.end()
    assert run.delivery.records == ["0", "1"]
    assert run.events == ["deliver", "commit 2 and batch log", "active ['t']", "copy", "task.commit", "abort"]
    assert (run.metrics.records_in, run.metrics.records_out) == (2, 2)


def test_records_that_cannot_be_encoded_cost_none_of_the_polls_before_them() -> None:
    run = Run(polled(2), unfit, polled(2), due=False)
    with pytest.raises(ConnectException, match="VALUE_CONVERTER"):
        run.end()
    assert run.delivery.records == ["0", "1"]
    assert (run.metrics.records_in, run.metrics.records_out) == (2, 2)


def test_a_first_poll_that_fails_commits_nothing() -> None:
    run = Run(fails(DataException("not JSON")), due=False)
    with pytest.raises(ConnectException, match="not JSON"):
        run.end()
    assert run.events == ["abort"]


def test_a_delivery_that_fails_aborts() -> None:
    run = Run(polled(2), polled(2), due=False)
    deliver = run.delivery.deliver

    def deliver_once(batches: Sequence[EncodedBatch], offsets: Sequence[SourceOffset]) -> None:
        if run.events:
            raise RetriableException("the broker is away")
        deliver(batches, offsets)

    run.delivery.deliver = deliver_once  # type: ignore[method-assign]
    with pytest.raises(RetriableException, match="the broker is away"):
        run.end()
    assert run.events == ["deliver", "abort"]


def test_what_the_tasks_commit_raises_is_logged_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(polled(1), polled(1))
    run.task.commit = lambda: 1 / 0  # type: ignore[method-assign,assignment]
    assert run.end() is None
    assert run.delivery.records == ["0", "1"]
    assert "its offsets are committed all the same" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_loop_ends_with_the_poll_that_reaches_its_records() -> None:
    run = Run(polled(2), polled(2), polled(2), max_records=3)
    assert run.end() is None
    assert run.delivery.records == ["0", "1", "2", "3"]


def asked(count: int, **after: int | None) -> Step:
    """Poll ``count`` records, and ask to ``commit`` or ``abort`` after one of them, or after the last (None)."""

    def step(source: Source) -> Batch:
        for ending, record in after.items():
            (source.boundary.commit_transaction if ending == "commit" else source.boundary.abort_transaction)(record)
        return source.numbers(count)

    return step


def test_records_limits_do_not_end_a_transaction_that_the_task_has_not_ended() -> None:
    run = Run(polled(2), polled(2), asked(2, commit=None), polled(2), requests=True, max_records=2)
    assert run.end() is None
    assert run.delivery.records == ["0", "1", "2", "3", "4", "5"]


def test_at_the_end_what_the_task_did_not_ask_to_commit_is_dropped_with_its_offsets() -> None:
    run = Run(asked(3, commit=1), polled(1), requests=True)
    assert run.end() is None
    assert run.delivery.records == ["0", "1"]
    assert [event for event in run.events if event.startswith(("commit", "drop"))] == [
        "commit 2",
        "drop with offsets",
        "commit None and batch log",
    ]


def test_an_aborted_transaction_loses_its_records_and_keeps_its_offsets() -> None:
    run = Run(polled(2), asked(1, abort=None), asked(1, commit=None), requests=True)
    assert run.end() is None
    assert run.delivery.records == ["3"]
    assert [event for event in run.events if event.startswith(("commit", "drop"))][:3] == ["drop", "commit 3", "commit 4"]


def test_a_task_whose_polls_stay_empty_ends_a_run_with_an_idle_timeout() -> None:
    seconds = iter(range(1000))
    run = Run(*[lambda _: []] * 3, polled(2), *[lambda _: []] * 100)
    run.loop.idle_seconds, run.loop.now = 5.0, lambda: float(next(seconds))
    assert run.end() is StopReason.IDLE
    assert (run.delivery.records, run.events.count("sleep")) == (["0", "1"], 3 + 4)


def test_a_requested_call_is_made_after_the_commit_of_its_poll() -> None:
    run = Run(polled(2), polled(1), due=False)
    poll = run.task.poll

    def requesting() -> object:
        run.loop.after_commit.add(lambda: run.events.append("call"))
        return poll()

    run.task.poll = requesting  # type: ignore[method-assign]
    assert run.end() is None
    kinds = [event.partition(" ")[0] for event in run.events]
    assert kinds.index("call") > kinds.index("commit")
    assert kinds.count("call") == 3, "of two polls with records, and of the last"


def test_a_call_of_a_failed_poll_is_dropped() -> None:
    run = Run(polled(2), due=False)
    poll = run.task.poll

    def failing() -> object:
        run.loop.after_commit.add(lambda: run.events.append("call"))
        if any(event.startswith("commit") for event in run.events):
            raise ValueError("broken")
        return poll()

    run.task.poll = failing  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="broken"):
        run.end()
    assert [event for event in run.events if event == "call"] == ["call"]
