"""The loop of a sink task against a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.converters.plain import StringConverter
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import DataException, RetriableException
from airflow_provider_connect.runtime.model.connector_settings import Guarantee
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.runtime.worker.errors.failures import Failure
from airflow_provider_connect.runtime.worker.errors.tolerance import STRICT, Tolerance
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters
from airflow_provider_connect.runtime.worker.task.contexts import TaskSinkContext
from airflow_provider_connect.runtime.worker.task.sink_errors import SinkErrors
from airflow_provider_connect.runtime.worker.task.sink_loop import READ_SECONDS, SinkLoop
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import RAW_HEADERS
from airflow_provider_connect.sdk.task import Refusal, SinkTask
from tests.unit.worker.clock import Clock

PARTITION = TopicPartition("t", 0)


class Reader:
    """Hands out ``script``: a batch of that many records, or for 0 nothing after half a second."""

    def __init__(self, clock: Clock, script: list[int]) -> None:
        self._clock, self._script = clock, script
        self.positions = {PARTITION: 0}

    @property
    def exhausted(self) -> bool:
        return not self._script

    def read(self, timeout_seconds: float) -> list[RawBatch]:
        count = self._script.pop(0)
        if not count:
            self._clock.sleep(timeout_seconds)
            return []
        first = self.positions[PARTITION]
        self.positions[PARTITION] += count
        return [RawBatch(PARTITION, first, first + count, pa.array([b"x"] * count, pa.binary()))]

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        assert not partitions


class SlowSink(SinkTask):
    def __init__(self, clock: Clock, *, put_seconds: float, commit_seconds: float) -> None:
        self._clock, self._put, self._commit = clock, put_seconds, commit_seconds
        self.count = 0

    def put(self, batch: Batch) -> None:
        self._clock.sleep(self._put)
        self.count += batch.num_records

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._clock.sleep(self._commit)


class Delivery:
    def deliver(self, task: SinkTask, batch: Batch, positions: Mapping[TopicPartition, int]) -> None:
        task.put(batch)

    def __init__(self) -> None:
        self.of_group: list[bool] = []  # for each commit, whether it includes the group's offsets

    def commit(self, task: SinkTask, positions: Mapping[TopicPartition, int], *, with_group: bool = True) -> Mapping[TopicPartition, int]:
        task.flush(dict(positions))
        self.of_group.append(with_group)
        return positions


def loop(clock: Clock, script: list[int], task: SlowSink) -> SinkLoop:
    converter = StringConverter()
    converter.configure({}, is_key=False)
    never: Any = SimpleNamespace(reason=lambda: None, note=lambda _: None)  # a stop signal and active topics
    return SinkLoop(
        task=task,
        context=TaskSinkContext({}, Claim(1, "id"), guarantee=Guarantee.AT_LEAST_ONCE),
        reader=Reader(clock, script),  # type: ignore[arg-type]
        pipeline=SinkPipeline(Converters(converter, converter, RAW_HEADERS)),
        delivery=Delivery(),
        stop=never,
        metrics=TaskMetrics(False),
        topics=never,
        interval_seconds=60,
        silence_seconds=60,
        max_records=None,
        now=clock.now,
    )


@pytest.mark.parametrize(("put", "commit"), [(70.0, 0.0), (0.5, 3600.0), (3600.0, 3600.0)])
def test_a_put_or_a_commit_may_take_longer_than_the_broker_may_be_silent(put: float, commit: float) -> None:
    clock = Clock()
    task = SlowSink(clock, put_seconds=put, commit_seconds=commit)
    assert loop(clock, [10, 0, 10, 0, 0, 10], task).run() is None
    assert task.count == 30


def test_a_broker_that_is_silent_for_longer_is_reported() -> None:
    clock = Clock()
    with pytest.raises(RetriableException, match="The broker sent no record for 60 s though there are some"):
        loop(clock, [10, *[0] * 200], SlowSink(clock, put_seconds=1, commit_seconds=0)).run()
    assert 60 < clock.seconds < 63


class NamingSink(SlowSink):
    """Refuses the bad records of a batch, and names them."""

    def __init__(self, bad: set[int]) -> None:
        super().__init__(Clock(), put_seconds=0, commit_seconds=0)
        self._bad = bad
        self.puts: list[int] = []

    def put(self, batch: Batch) -> None:
        self.puts.append(batch.num_records)
        if self._bad & set(batch.kafka_offsets.to_pylist()):
            raise DataException("refused")
        self.count += batch.num_records

    def put_accepted(self, batch: Batch) -> list[Refusal] | None:
        offsets = batch.kafka_offsets.to_pylist()
        found = [Refusal(row, DataException(f"{offset} is bad")) for row, offset in enumerate(offsets) if offset in self._bad]
        self.count += len(offsets) - len(found)
        return found


def test_a_sink_that_cannot_name_what_it_refuses_yet_is_asked_again() -> None:
    class Away(NamingSink):
        away = 2

        def put_accepted(self, batch: Batch) -> list[Refusal] | None:
            if self.away:
                self.away -= 1
                raise RetriableException("the database restarts")
            return super().put_accepted(batch)

    clock, task, reported = Clock(), Away({3}), list[Failure]()
    tested = loop(clock, [10], task)
    tested.errors = SinkErrors(Tolerance(replace(STRICT, tolerates_all=True), reported.append, now=clock.now, sleep=clock.sleep))
    assert tested.run() is None
    assert (task.count, task.puts, len(reported)) == (9, [10, 0], 1)
    assert clock.seconds > 0.5


def test_a_sink_that_names_what_it_refuses_is_asked_once_for_each_batch() -> None:
    task = NamingSink({3, 12, 15})
    reported: list[Failure] = []
    tolerance = Tolerance(replace(STRICT, tolerates_all=True), reported.append)
    tested = loop(Clock(), [10, 10, 10], task)
    tested.errors = SinkErrors(tolerance)
    assert tested.run() is None
    assert (task.count, task.puts) == (27, [10, 0, 10, 0, 10])
    assert [(failure.record.description(), str(failure.error)) for failure in reported] == [
        (f"offset {offset} of {PARTITION}", f"{offset} is bad") for offset in (3, 12, 15)
    ]
    assert tested.metrics.records_out == 27
    assert tested._delivered == {PARTITION: 30}


class Seekable(Reader):
    """Goes back where it is asked to; ``held`` are the partitions paused in each turn."""

    def __init__(self, clock: Clock, script: list[int]) -> None:
        super().__init__(clock, script)
        self.held: list[set[TopicPartition]] = []

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        self.held.append(set(partitions))


class Asking(SlowSink):
    """Makes one request of its context in each ``put``; ``commits`` are the offsets that were flushed."""

    def __init__(self, *requests: Callable[[Any], None]) -> None:
        super().__init__(Clock(), put_seconds=0, commit_seconds=0)
        self._requests = list(requests)
        self.commits: list[int] = []

    def put(self, batch: Batch) -> None:
        super().put(batch)
        if self._requests:
            self._requests.pop(0)(self.context)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.commits.append(offsets[PARTITION])


def asking_loop(script: list[int], task: Asking, *reasons: StopReason | None) -> SinkLoop:
    """A loop that gets one of ``reasons`` to stop in each turn, then none."""
    clock = Clock()
    tested = loop(clock, script, task)
    tested.reader = Seekable(clock, script)  # type: ignore[assignment]
    task.initialize(tested.context)
    left = iter(reasons)
    tested.stop = SimpleNamespace(reason=lambda: next(left, None))  # type: ignore[assignment]
    return tested


def test_a_task_reads_again_from_the_offset_that_it_asked_for() -> None:
    task = Asking(lambda context: context.offset(PARTITION, 4))
    assert asking_loop([10, 10], task).run() is None
    assert (task.count, task.commits) == (20, [14])


def test_a_task_reads_nothing_of_the_partitions_that_it_paused_until_it_resumes() -> None:
    task = Asking(lambda context: context.pause([PARTITION]), lambda context: context.resume([PARTITION]))
    tested = asking_loop([1, 1, 1], task)
    tested.run()
    assert tested.reader.held == [{PARTITION}, set(), set()]  # type: ignore[attr-defined]


def test_a_commit_that_the_task_asks_for_comes_after_its_put() -> None:
    task = Asking(lambda _: None, lambda context: context.request_commit())
    asking_loop([1, 1, 1], task).run()
    assert task.commits == [2, 3]


def test_a_fenced_loop_commits_nothing() -> None:
    task = Asking()
    assert asking_loop([5, 5], task, None, StopReason.FENCED).run() is StopReason.FENCED
    assert (task.count, task.commits) == (5, [])


def test_a_paused_loop_commits_what_was_put() -> None:
    task = Asking()
    assert asking_loop([5, 5], task, None, StopReason.PAUSED).run() is StopReason.PAUSED
    assert (task.count, task.commits) == (5, [5])


def test_a_loop_ends_with_the_batch_that_reaches_its_records() -> None:
    task = Asking()
    tested = asking_loop([5, 5, 5], task)
    tested.max_records = 6
    assert tested.run() is None
    assert (task.count, task.commits) == (10, [10])


class Ends:
    """A StopSignal that gives its reason once the reader is exhausted, and ``more`` further times were asked."""

    def __init__(self, reader: Any, more: int = 0) -> None:
        self.reader, self.more = reader, more

    def reason(self) -> StopReason | None:
        self.more -= self.reader.exhausted
        return StopReason.PAUSED if self.more < 0 else None


def test_an_endless_loop_commits_as_soon_as_there_is_nothing_to_read() -> None:
    task = Asking()
    tested = asking_loop([5, 0, 0, 5, 0], task)
    tested.endless, tested.stop = True, Ends(tested.reader)  # type: ignore[assignment]
    assert tested.run() is StopReason.PAUSED
    assert task.commits == [5, 10, 10]


class CatchingUp(Seekable):
    """Needs 0.4 s for each batch. No record waits after the second batch, and from then on."""

    def read(self, timeout_seconds: float) -> list[RawBatch]:
        self._clock.sleep(0.4)
        return super().read(timeout_seconds)

    @property
    def is_caught_up(self) -> bool:
        return self.positions[PARTITION] >= 10


def test_an_endless_loop_commits_to_the_destination_when_no_record_waits_and_the_group_follows() -> None:
    task, clock = Asking(), Clock()
    tested = asking_loop([5, 5, 5, 5, 0, 0], task)
    tested.endless = tested.commits_when_caught_up = True
    tested.reader = CatchingUp(clock, [5, 5, 5, 5, 0, 0])  # type: ignore[assignment]
    tested.now, tested.delivery = clock.now, (delivery := Delivery())
    tested.stop = Ends(tested.reader)  # type: ignore[assignment]
    assert tested.run() is StopReason.PAUSED
    assert (task.commits, delivery.of_group) == ([10, 15, 20, 20, 20], [False, True, False, True, True])


class Marked(Seekable):
    """Passes a transaction marker after each batch, in the read after it."""

    def read(self, timeout_seconds: float) -> list[RawBatch]:
        raws = super().read(timeout_seconds)
        if not raws and self.positions[PARTITION] % 10 == 5:
            self.positions = {PARTITION: self.positions[PARTITION] + 5}
        return raws

    @property
    def is_caught_up(self) -> bool:
        return True


def marked_loop(script: list[int], task: Asking) -> SinkLoop:
    tested, clock = asking_loop([], task), Clock()
    tested.reader, tested.now, tested.endless = Marked(clock, script), clock.now, True  # type: ignore[assignment]
    tested.stop = Ends(tested.reader)  # type: ignore[assignment]
    return tested


def test_offsets_after_transaction_markers_are_committed_with_the_records_before_them() -> None:
    task = Asking()
    tested = marked_loop([5, 0, 0, 0, 5, 0], task)
    assert tested.run() is StopReason.PAUSED
    assert task.commits == [10, 20, 20]


def test_offsets_after_transaction_markers_alone_are_committed_once_per_interval() -> None:
    task = Asking()
    tested = marked_loop([0] * 300, task)
    tested.reader.positions = {PARTITION: 5}  # type: ignore[misc]
    tested.run()
    assert task.commits == [10, 10, 10], "after 60 s, after 120 s, and at the end"


def test_a_sink_with_cheap_commits_commits_the_offsets_after_markers_when_it_is_at_rest() -> None:
    task = Asking()
    tested = marked_loop([5, *[0] * 30, 5, 0], task)
    tested.commits_when_caught_up, tested.delivery = True, (delivery := Delivery())
    tested.run()
    assert (task.commits, delivery.of_group) == ([5, 10, 15, 20], [False, True, True, True])


def test_an_endless_loop_without_partitions_waits() -> None:
    waits: list[float] = []
    tested = asking_loop([], Asking())
    tested.endless, tested.stop, tested.sleep = True, Ends(tested.reader, more=3), waits.append  # type: ignore[assignment]
    assert tested.run() is StopReason.PAUSED
    assert waits == [READ_SECONDS] * 3


def test_an_endless_loop_ends_when_it_has_other_partitions() -> None:
    task, asked = Asking(), [False, True]
    tested = asking_loop([5] + [0] * 2000, task)
    tested.endless, tested.is_outdated = True, lambda: asked.pop(0)
    assert tested.run() is StopReason.OUTDATED
    assert asked == []
    assert set(task.commits) == {5}


def test_an_endless_loop_with_an_idle_timeout_ends_after_that_time_without_a_record() -> None:
    task, clock = Asking(), Clock()
    tested = asking_loop([], task)
    tested.reader = Seekable(clock, [5, *[0] * 8, 5, *[0] * 2000])  # type: ignore[assignment]
    tested.endless, tested.idle_seconds, tested.now = True, 5.0, clock.now
    assert tested.run() is None
    assert set(task.commits) == {5, 10}
    assert clock.seconds == pytest.approx(4 + 5)
