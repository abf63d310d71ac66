"""A transactional sink behind the framework: what is put again, what is left out and reported, how an uncertain commit ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException, DataException, FencedException, RetriableException, TaskException
from airflow_provider_connect.runtime.worker.errors import sink_transaction
from airflow_provider_connect.runtime.worker.errors.sink_transaction import SinkTransaction
from airflow_provider_connect.runtime.worker.errors.tolerance import STRICT, Tolerance
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.task import Refusal, RollbackReason, RolledBackException, SinkTask
from airflow_provider_connect.sdk.testing.contexts import MemorySinkContext
from tests.unit.worker.clock import Clock

T = TopicPartition("t", 0)


class Store:
    """A destination: what is committed, and up to which offset. ``bad`` values are refused."""

    def __init__(self, bad: Collection[int] = ()) -> None:
        self.bad = set(bad)
        self.rows: list[int] = []
        self.offset = 0


class Task(SinkTask):
    """Writes at the commit, or at once where a value was refused. ``events``, the next first, is what goes wrong."""

    is_transactional = True

    def __init__(self, store: Store, events: Iterable[str] = ()) -> None:
        self.store = store
        self.events = list(events)
        self.rows: list[int] = []
        self.writes_at_once = False
        self.calls: list[str] = []

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.calls.append("open")
        return {T: self.store.offset}

    def put(self, batch: Batch) -> None:
        self.calls.append(f"put {batch.num_records}")
        self._happen("put")
        assert batch.value is not None
        values = batch.value.to_pylist()
        if self.writes_at_once and self.store.bad & set(values):
            raise DataException("refused")
        self.rows += values

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.calls.append("commit")
        self._happen("commit")
        if self.store.bad & set(self.rows):
            self.writes_at_once = True
            raise self._back(RollbackReason.REFUSED)
        self._happen("lost before")
        self.store.rows += self.rows
        self.store.offset = offsets[T]
        self.rows, self.writes_at_once = [], False
        self._happen("lost after")
        return offsets

    def _happen(self, where: str) -> None:
        if self.events and self.events[0].startswith(where):
            raise self._back(RollbackReason.CHANGED if self.events.pop(0).endswith("changed") else RollbackReason.LOST)

    def _back(self, why: RollbackReason) -> RolledBackException:
        self.rows = []
        return RolledBackException(str(why), why)


class NamingTask(Task):
    """Names what is refused."""

    def put_accepted(self, batch: Batch) -> list[Refusal] | None:
        self.calls.append("refused")
        assert batch.value is not None
        values = batch.value.to_pylist()
        self.rows += [value for value in values if value not in self.store.bad]
        return [Refusal(row, DataException("refused")) for row, value in enumerate(values) if value in self.store.bad]


class Context(MemorySinkContext):
    def take_retry_ms(self) -> int | None:
        return 0


class Behind:
    """A task behind the framework, with what was reported."""

    def __init__(
        self, task: Task, *, tolerates_all: bool = True, guarantee: str = "exactly_once", is_away: Callable[[], bool] = lambda: False
    ) -> None:
        self._is_away = is_away
        self.task = task
        self.context = Context({}, [T], guarantee=guarantee)
        self.reported: list[int] = []
        self._tolerates_all = tolerates_all
        tolerance = Tolerance(replace(STRICT, tolerates_all=tolerates_all))
        self.sink = SinkTransaction(task, self.context, tolerance, self._report)
        self.sink.open([T])
        self.next = 0

    def _report(self, failures: Iterable[tuple[Batch, Exception]]) -> None:
        if self._is_away():
            raise RetriableException("the dead letter queue is away")
        for record, error in failures:
            assert record.num_records == 1
            self.reported += record.kafka_offsets.to_pylist()
            if not self._tolerates_all:
                raise ConnectException("not tolerated") from error

    def put(self, count: int) -> None:
        """Records whose values are their offsets, as the loop puts them."""
        values = pa.array(range(self.next, self.next + count))
        batch = KafkaBatch("t", value=values, kafka_partition=0, first_offset=self.next, next_offset=self.next + count)
        while True:
            try:
                self.sink.put(batch)
                break
            except RetriableException:
                continue
        self.next += count

    def commit(self) -> None:
        assert self.sink.pre_commit({T: self.next}) == {T: self.next}


@pytest.mark.parametrize("kind", [Task, NamingTask])
@pytest.mark.parametrize("bad", [(), (0,), (99,), (3, 4, 50), range(100), range(0, 100, 7)], ids=str)
def test_records_that_are_refused_are_left_out_and_reported_once(kind: type[Task], bad: Collection[int]) -> None:
    behind = Behind(kind(Store(bad), ["commit", "put changed", "put"]))
    for _ in range(2):
        for _ in range(5):
            behind.put(10)
        behind.commit()
    assert behind.task.store.rows == [value for value in range(100) if value not in set(bad)]
    assert behind.reported == sorted(bad)


@pytest.mark.parametrize("event", ["put", "put changed", "commit", "commit changed", "lost before", "lost after"])
@pytest.mark.parametrize("kind", [Task, NamingTask])
def test_each_record_is_written_once_whatever_is_lost(kind: type[Task], event: str) -> None:
    behind = Behind(kind(Store([13]), [event] * 3))
    for _ in range(3):
        behind.put(10)
        behind.put(5)
        behind.commit()
    assert behind.task.store.rows == [value for value in range(45) if value != 13]
    assert behind.reported == [13]
    assert not behind.task.events


def test_at_least_once_an_uncertain_commit_is_repeated() -> None:
    behind = Behind(Task(Store(), ["lost after"]), guarantee="at_least_once")
    behind.put(3)
    behind.commit()
    assert behind.task.store.rows == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("event", ["put", "lost before", "lost after"])
def test_at_most_once_nothing_is_written_again(event: str) -> None:
    behind = Behind(Task(Store(), [event]), guarantee="at_most_once")
    behind.put(3)
    with pytest.raises(TaskException, match="may be lost: with at_most_once they are never written again"):
        behind.commit()
    assert behind.task.calls.count("put 3") == 1


def test_at_most_once_what_surely_went_back_is_written_again() -> None:
    behind = Behind(NamingTask(Store([1]), ["put changed"]), guarantee="at_most_once")
    behind.put(3)
    behind.commit()
    assert (behind.task.store.rows, behind.reported) == ([0, 2], [1])


@pytest.mark.parametrize("kind", [Task, NamingTask])
def test_where_nothing_is_tolerated_the_first_refusal_ends_the_task(kind: type[Task]) -> None:
    behind = Behind(kind(Store([3, 5])), tolerates_all=False)
    behind.put(10)
    with pytest.raises(ConnectException, match="not tolerated"):
        behind.commit()
    assert (behind.task.store.rows, behind.reported) == ([], [3])


def test_after_a_refusal_the_next_transaction_asks_at_once_and_a_clean_one_ends_that() -> None:
    behind = Behind(NamingTask(Store([1, 11])))
    for _ in range(4):
        behind.put(10)
        behind.commit()
    without_commits = [call for call in behind.task.calls if call not in ("commit", "open")]
    assert without_commits == ["put 10", "refused", "refused", "refused", "put 10"]


def test_what_cannot_be_repeated_comes_out() -> None:
    class Fenced(Task):
        def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            raise FencedException("a newer claim")

    behind = Behind(Fenced(Store()))
    behind.put(1)
    with pytest.raises(FencedException):
        behind.commit()


def test_much_that_is_kept_asks_for_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_transaction, "KEPT_BYTES", 64 << 10)
    behind = Behind(Task(Store()))
    behind.put((64 << 10) // 8)
    assert behind.context.commit_requests == 0
    behind.put(1)
    assert behind.context.commit_requests == 1
    behind.commit()
    behind.put(1)
    assert behind.context.commit_requests == 1


def test_closed_partitions_can_be_opened_again() -> None:
    behind = Behind(Task(Store()))
    behind.put(3)
    behind.commit()
    behind.put(2)
    behind.sink.close([T])
    behind.task.rows = []
    behind.next = (behind.sink.open([T]) or {})[T]
    behind.put(2)
    behind.commit()
    assert behind.task.store.rows == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("tolerates_all", [True, False])
@pytest.mark.parametrize("kind", [Task, NamingTask])
def test_a_report_that_cannot_be_written_ends_the_run_without_a_commit(kind: type[Task], tolerates_all: bool) -> None:
    away = iter([True])
    behind = Behind(kind(Store([3, 25])), tolerates_all=tolerates_all, is_away=lambda: next(away, False))

    def run() -> None:
        for _ in range(3):
            behind.put(10)
        behind.commit()

    with pytest.raises(ConnectException, match="the dead letter queue is away") as raised:
        run()
    assert (raised.value.retriable, isinstance(raised.value, RetriableException)) == (True, False)
    assert behind.task.store.rows == []


def test_a_batch_comes_again_after_a_retriable_exception_and_no_other_is_lost() -> None:
    class Busy(NamingTask):
        busy = 2

        def put(self, batch: Batch) -> None:
            self.busy -= 1
            if self.busy >= 0:
                raise RetriableException("busy")
            super().put(batch)

    behind = Behind(Busy(Store()))
    for _ in range(2):
        behind.put(10)
    behind.commit()
    assert behind.task.store.rows == list(range(20))


def test_parts_of_a_batch_are_put_once_each_while_the_destination_is_busy() -> None:
    class BusyInParts(Task):
        busy = 2

        def put(self, batch: Batch) -> None:
            if batch.num_records < 10 and self.rows and self.busy:
                self.busy -= 1
                raise RetriableException("busy")
            super().put(batch)

    behind = Behind(task := BusyInParts(Store([7])))
    behind.put(10)
    behind.commit()
    assert (behind.task.store.rows, behind.reported, task.busy) == ([0, 1, 2, 3, 4, 5, 6, 8, 9], [7], 0)


def test_a_data_exception_of_refused_is_not_taken_for_the_next_batch() -> None:
    class Wrong(NamingTask):
        def put_accepted(self, batch: Batch) -> list[Refusal] | None:
            raise DataException("no such table")

    behind = Behind(Wrong(Store([1])))
    behind.put(5)
    with pytest.raises(ConnectException, match="no such table") as raised:
        behind.commit()
    assert not isinstance(raised.value, DataException)
    assert behind.task.store.rows == []


def test_a_destination_that_stays_away_does_not_keep_a_task_that_is_to_end() -> None:
    class Away(Task):
        def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            raise RetriableException("away")

    clock = iter(range(1000))
    task = Away(Store())
    tolerance = Tolerance(STRICT, is_stopping=lambda: True, now=lambda: float(next(clock)), sleep=lambda _: None)
    sink = SinkTransaction(task, Context({}, [T], guarantee="at_least_once"), tolerance, lambda _: None)
    sink.open([T])
    with pytest.raises(ConnectException, match="away") as raised:
        sink.pre_commit({T: 0})
    assert raised.value.retriable


def test_a_commit_that_is_retried_waits_longer_each_time_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Away(Task):
        def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            times.append(clock.now())
            if len(times) < 5:
                raise RetriableException("away", retry_after_ms=9000 if len(times) == 4 else None)
            return offsets

    clock, times = Clock(), list[float]()
    tolerance = Tolerance(STRICT, now=clock.now, sleep=clock.sleep, task="orders-0")
    sink = SinkTransaction(Away(Store()), NoTimeout({}, [T], guarantee="at_least_once"), tolerance, lambda _: None)
    sink.open([T])
    assert sink.pre_commit({T: 0}) == {T: 0}
    seconds = [after - before for before, after in pairwise(times)]
    assert seconds == pytest.approx([0.27, 0.54, 1.08, 9], rel=0.12)
    warnings = [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]  # Airflow, if imported, logs INFO too
    assert [text.split(":")[1] for text in warnings] == [
        " pre_commit has failed once",
        " pre_commit has failed 2 times in a row",
        " pre_commit has failed 4 times in a row",
    ]


class NoTimeout(Context):
    def take_retry_ms(self) -> int | None:
        return None
