"""The contract of a sink connector."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import STRING_SCHEMA, Schema
from airflow_provider_connect.errors import ConnectException, FencedException
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.connector import SinkConnector
from airflow_provider_connect.sdk.task import CommitStep, SinkTask
from airflow_provider_connect.sdk.testing.calls import Fault, Killed, SinkCalls, start_task
from airflow_provider_connect.sdk.testing.contexts import FakeReporter, MemorySinkContext
from airflow_provider_connect.sdk.testing.losses import LossTests
from airflow_provider_connect.sdk.testing.objects import ObjectTests
from airflow_provider_connect.sdk.testing.sources import ConnectorSuite


class SinkConnectorSuite(ObjectTests, LossTests, ConnectorSuite):
    """The contract of a sink connector. Define ``connector_class``, ``config`` and ``delivered``.

    The destination must be empty when a test begins. Tasks are called as the framework calls them (``SinkCalls``).
    """

    connector_class: ClassVar[type[SinkConnector]]
    exactly_once: ClassVar[bool] = False
    """Whether the destination commits data, offsets and claim together."""
    overwrites: ClassVar[bool] = False
    """Whether a record that is written again replaces itself, as with ``KeyedSink``, so that a kill causes no duplicates."""
    value_schema: ClassVar[Schema | None] = STRING_SCHEMA
    """The schema of ``values``."""
    partition: ClassVar[TopicPartition] = TopicPartition("suite", 0)
    """The partition of the records. Tests of several partitions also use the following partitions."""
    most_tasks: ClassVar[int] = 3
    """The number of tasks in tests with several tasks."""
    lines_between_kills: ClassVar[int] = 1
    """A task is killed before each n-th line of its code. Increase n for tasks with hundreds of lines."""
    refused_values: ClassVar[Sequence[Any]] = ()
    """Values of ``value_schema``, each of which the destination refuses. If there are none, the test of refused records is skipped."""

    def values(self, first: int, count: int) -> list[Any]:
        """``count`` values of ``value_schema``, for the offsets from ``first``. A dict may represent a Struct."""
        return [f"record {number}" for number in range(first, first + count)]

    def delivered(self) -> list[Any]:
        """The values in the destination, as ``values`` returns them, in the order in which they were put."""
        raise NotImplementedError

    def task(
        self, claim_epoch: int = 1, partitions: Collection[TopicPartition] | None = None, reporter: FakeReporter | None = None
    ) -> SinkTask:
        """The connector's only task, started."""
        [config] = self.task_configs()
        return self._started(config, claim_epoch, [self.partition] if partitions is None else partitions, reporter)

    def _started(
        self, config: Mapping[str, str], claim_epoch: int, partitions: Collection[TopicPartition], reporter: FakeReporter | None = None
    ) -> SinkTask:
        context = MemorySinkContext(
            config, partitions, claim_epoch=claim_epoch, exactly_once=self.exactly_once, errant_record_reporter=reporter
        )
        task: SinkTask = start_task(self.connector(), config, context, self.allowed_paths)
        return task

    def batch(self, first: int, count: int, partition: TopicPartition | None = None) -> Batch:
        """The ``count`` records from offset ``first``."""
        return self.batch_of(self.values(first, count), range(first, first + count), first + count, partition)

    def batch_of(self, values: Sequence[Any], offsets: Sequence[int], next_offset: int, partition: TopicPartition | None = None) -> Batch:
        """Records at ``offsets``, which may have gaps."""
        partition = partition or self.partition
        is_whole = list(offsets) == list(range(next_offset - len(values), next_offset))
        return KafkaBatch(
            partition.topic,
            value=column_of(values, self.value_schema),
            value_schema=self.value_schema,
            kafka_partition=partition.partition,
            first_offset=offsets[0] if len(offsets) else next_offset,
            next_offset=next_offset,
            kafka_offset=None if is_whole else pa.array(offsets, type=pa.int64()),
        )

    def deliver(self, task: SinkTask, first: int, count: int) -> Mapping[TopicPartition, int]:
        """Put ``count`` records and commit them, with retries after RetriableExceptions. Returns the offsets of ``pre_commit``."""
        calls = SinkCalls(task, [self.partition])
        calls.put(self.batch(first, count))
        return calls.commit()

    def end(self, task: SinkTask) -> None:
        """Close and stop a task as the framework does."""
        task.close(task.context.assignment)
        task.stop()

    def is_delivered(self, values: Sequence[Any]) -> bool:
        """Whether the destination has exactly these values, in any order."""
        return sorted(map(repr, self.delivered())) == sorted(map(repr, values))

    def test_records_arrive_in_order(self) -> None:
        calls = self._opened()
        calls.put(self.batch(0, 4))
        calls.put(self.batch(4, 3))
        assert calls.commit() == {self.partition: 7}, "pre_commit returns the offsets up to which records are delivered"
        assert self.delivered() == self.values(0, 7)
        self.end(calls.task)
        assert self.delivered() == self.values(0, 7)

    def test_slices_of_batches_arrive_like_whole_batches(self) -> None:
        """A batch may be a slice of a larger one, with an offset into Arrow's buffers."""
        calls = self._opened()
        whole = self.batch(0, 9)
        for piece in (whole.slice(0, 2), whole.slice(2, 4), whole.slice(6)):
            calls.put(piece)
        assert calls.commit() == {self.partition: 9}
        assert self.delivered() == self.values(0, 9)
        self.end(calls.task)

    def test_offsets_may_have_gaps(self) -> None:
        """Compaction and transactions leave offsets without a record, so a task must not count records to get the next offset."""
        offsets, next_offset = [0, 1, 5, 6, 9], 12
        values = [value for offset in offsets for value in self.values(offset, 1)]
        calls = self._opened()
        calls.put(self.batch_of(values, offsets, next_offset))
        assert calls.commit() == {self.partition: next_offset}, "the next offset is the batch's, not a count of records"
        self.end(calls.task)
        calls = self._opened(2)
        if self.exactly_once:
            assert calls.start == {self.partition: next_offset}
        calls.put(self.batch(next_offset, 2))
        calls.commit()
        self.end(calls.task)
        assert self.delivered() == [*values, *self.values(next_offset, 2)]

    def test_partitions_are_independent(self) -> None:
        """A task may read several partitions, each with its own offset."""
        one, other = self._partitions(2)
        calls = self._opened(1, [one, other])
        calls.put(self.batch(0, 3, one))
        calls.put(self.batch(100, 5, other))
        assert calls.commit() == {one: 3, other: 105}
        calls.put(self.batch(3, 2, one))
        assert calls.commit()[one] == 5
        self.end(calls.task)
        assert self.is_delivered([*self.values(0, 5), *self.values(100, 5)])
        if self.exactly_once:
            calls = self._opened(2, [one, other])
            assert calls.start == {one: 5, other: 105}
            self.end(calls.task)

    def test_several_tasks_write_in_parallel(self) -> None:
        """Each task has its own partitions and commits independently."""
        partitions = self._partitions(self.most_tasks)
        configs = self.task_configs(self.most_tasks)
        shares = [(config, share) for n, config in enumerate(configs) if (share := partitions[n :: len(configs)])]
        calls = []
        for config, share in shares:
            calls.append(SinkCalls(self._started(config, 1, share), share))
            calls[-1].open()
        for first in (0, 2):
            for each in calls:
                for partition in each.partitions:
                    each.put(self.batch(100 * partition.partition + first, 2, partition))
                each.commit()
        for each in calls:
            self.end(each.task)
        numbers = [100 * partition.partition for partition in partitions]
        assert self.is_delivered([value for number in numbers for value in self.values(number, 4)])
        if self.exactly_once:
            for config, share in shares:
                task = self._started(config, 2, share)
                assert task.open(share) == {partition: 100 * partition.partition + 4 for partition in share}
                self.end(task)

    def test_null_is_written_or_refused(self) -> None:
        """A null value is a tombstone. A task that cannot write it raises DataException or another ConnectException."""
        calls = self._opened()
        try:
            calls.put(self.batch_of([None, None], range(2), 2).replace(value_schema=self.value_schema and self.value_schema.as_optional()))
            calls.commit()
        except ConnectException:
            pass
        self.end(calls.task)

    def test_refused_records_are_reported_and_the_others_written(self) -> None:
        """With ``errors.tolerance=all``, each refused record is reported once, by the task or after its DataException."""
        if not self.refused_values:
            pytest.skip("the suite has no refused_values")
        count, reporter = len(self.refused_values), FakeReporter()
        task = self.task(reporter=reporter)
        calls = SinkCalls(task, [self.partition], reporter=reporter)
        calls.open()
        calls.put(self.batch_of([*self.values(0, 2), *self.refused_values, *self.values(2 + count, 2)], range(4 + count), 4 + count))
        calls.commit()
        self.end(task)
        assert reporter.offsets == list(range(2, 2 + count))
        assert self.delivered() == [*self.values(0, 2), *self.values(2 + count, 2)]

    def test_commit_returns_no_offset_beyond_what_was_put(self) -> None:
        task = self._opened().task
        agreed = self.deliver(task, 0, 5)
        assert agreed in [{}, *({self.partition: offset} for offset in range(6))]
        self.end(task)

    def test_empty_batch_and_commit_of_nothing_are_harmless(self) -> None:
        calls = self._opened()
        for first, count in ((0, 0), (0, 2), (2, 0)):
            calls.put(self.batch(first, count))
            calls.commit()
        assert self.delivered() == self.values(0, 2)
        self.end(calls.task)

    def test_partitions_can_be_reopened(self) -> None:
        """Uncommitted records are put again."""
        calls = self._opened()
        calls.put(self.batch(0, 3))
        calls.commit()
        calls.put(self.batch(3, 1))
        calls.task.close([self.partition])
        calls = SinkCalls(calls.task, [self.partition])
        calls.open()
        calls.put(self.batch(3, 3))
        calls.commit()
        self.end(calls.task)
        self._need_delivered(6)

    def test_next_run_appends(self) -> None:
        for claim, first in ((1, 0), (2, 3)):
            task = self._opened(claim).task
            self.deliver(task, first, 3)
            self.end(task)
        assert self.delivered() == self.values(0, 6)

    def test_uncommitted_records_can_be_put_again(self) -> None:
        """A task is closed without a commit if another task took over or a call failed."""
        calls = self._opened()
        calls.put(self.batch(0, 3))
        calls.commit()
        calls.put(self.batch(3, 2))
        self.end(calls.task)
        calls = self._opened(2)
        calls.put(self.batch(3, 2))
        calls.commit()
        self.end(calls.task)
        self._need_delivered(5)

    def test_stop_may_be_called_twice_and_from_another_thread(self) -> None:
        task = self._opened().task
        stopper = threading.Thread(target=task.stop)
        stopper.start()
        stopper.join(30)
        assert not stopper.is_alive()
        task.stop()

    def test_destination_knows_the_next_offset(self) -> None:
        self._need_exactly_once()
        task = self.task(1)
        assert not (task.open([self.partition]) or {}).get(self.partition)
        self.deliver(task, 0, 10)
        self.end(task)
        assert self.task(2).open([self.partition]) == {self.partition: 10}

    def test_uncommitted_records_are_absent_and_then_delivered_once(self) -> None:
        self._need_exactly_once()
        dying = self._opened()
        dying.put(self.batch(0, 10))
        dying.commit()
        dying.put(self.batch(10, 5))  # then the task is killed
        task = self.task(2)
        assert task.open([self.partition]) == {self.partition: 10}
        self.deliver(task, 10, 5)
        self.end(task)
        assert self.delivered() == self.values(0, 15)

    def test_next_task_resumes_after_any_last_call(self) -> None:
        """Each task except the last is killed after one more call than the previous task."""
        self._need_exactly_once()
        reached = 0
        for last in range(6):
            dying = self._opened(last + 1)
            assert dying.start.get(self.partition, 0) == reached
            calls: list[Callable[[], object]] = [
                partial(dying.put, self.batch(reached, 3)),
                partial(dying.put, self.batch(reached + 3, 2)),
                dying.commit,
                partial(dying.put, self.batch(reached + 5, 4)),
                dying.commit,
            ]
            for call in calls[:last]:
                call()
            dying.task.stop()  # a dead process no longer holds its files
            reached += 9 if last == 5 else 5 if last >= 3 else 0
        task = self.task(7)
        assert task.open([self.partition]) == {self.partition: reached}
        self.deliver(task, reached, 2)
        self.end(task)
        assert self.delivered() == self.values(0, reached + 2)

    def test_kill_at_any_line_neither_loses_nor_duplicates_records(self) -> None:
        """Each of many tasks is killed before a different line of ``put`` or ``pre_commit``, in files of its class's directory."""
        self._need_exactly_once()
        claims, reached = itertools.count(1), 0
        for step in (CommitStep.PUT, CommitStep.PRE_COMMIT):
            for line in itertools.count(0, self.lines_between_kills):
                calls = self._opened(next(claims), fault=Fault(step, line=line))
                killed = self._killed(calls, reached)
                self.end(calls.task)
                after = self._opened(next(claims))
                self.end(after.task)
                found = after.start.get(self.partition, 0)
                assert found in (reached, reached + 3), f"killed {killed}: the destination has a wrong offset"
                assert self.delivered() == self.values(0, found), f"killed {killed}: the records do not match the offset {found}"
                reached = found
                if killed is None:
                    break

    def test_redelivered_records_overwrite_themselves_after_a_kill(self) -> None:
        """The records are put again in other batches. The last kill is between the commits of the destination and of the consumer group."""
        if not self.overwrites:
            pytest.skip("the suite does not declare that the connector overwrites")
        for first, step in ((0, CommitStep.PUT), (3, CommitStep.PRE_COMMIT), (6, CommitStep.COMMIT_GROUP)):
            calls = self._opened(first, fault=Fault(step, "before"))
            assert self._killed(calls, first)
            self.end(calls.task)
            after = self._opened(first + 1)
            after.put(self.batch(first, 1))
            after.put(self.batch(first + 1, 2))
            after.commit()
            self.end(after.task)
            assert self.delivered() == self.values(0, first + 3), f"killed before {step}, then the same records were put again"

    def _killed(self, calls: SinkCalls, first: int) -> Killed | None:
        """Deliver three records. Returns the fault that ended the task, or None."""
        try:
            calls.put(self.batch(first, 2))
            calls.put(self.batch(first + 2, 1))
            calls.commit()
        except Killed as killed:
            return killed
        return None

    def test_older_claim_is_refused(self) -> None:
        self._need_exactly_once()
        zombie, task = self.task(1), self.task(2)
        zombie.open([self.partition])
        self.deliver(zombie, 0, 2)
        assert task.open([self.partition]) == {self.partition: 2}
        with pytest.raises(FencedException):
            self.deliver(zombie, 2, 3)
        self.deliver(task, 2, 4)
        with pytest.raises(FencedException):
            self.deliver(zombie, 2, 3)
        assert self.delivered() == self.values(0, 6)
        assert self.task(3).open([self.partition]) == {self.partition: 6}

    def test_older_claim_cannot_open(self) -> None:
        self._need_exactly_once()
        self.task(2).open([self.partition])
        with pytest.raises(FencedException):
            self.deliver(self._opened(1).task, 0, 1)
        assert self.delivered() == []

    def test_offsets_in_the_destination_can_be_altered(self) -> None:
        self._need_exactly_once()
        one, other = partitions = self._partitions(2)
        calls = self._opened(1, partitions)
        calls.put(self.batch(0, 10, one))
        calls.put(self.batch(100, 2, other))
        calls.commit()
        self.end(calls.task)
        for claim, altered in ((2, 3), (3, None)):
            assert self.connector().alter_offsets(self.config(), {one: altered})
            calls = self._opened(claim, partitions)
            self.end(calls.task)
            assert (calls.start.get(one) or None, calls.start.get(other)) == (altered, 102)

    def _partitions(self, count: int) -> list[TopicPartition]:
        topic, first = self.partition
        return [TopicPartition(topic, first + number) for number in range(count)]

    def _opened(self, claim_epoch: int = 1, partitions: Collection[TopicPartition] | None = None, fault: Fault | None = None) -> SinkCalls:
        """Calls to a new task whose partitions are open."""
        partitions = [self.partition] if partitions is None else partitions
        calls = SinkCalls(self.task(claim_epoch, partitions), partitions, fault=fault)
        calls.open()
        return calls

    def _need_delivered(self, count: int) -> None:
        """Assert that the destination has ``count`` records: each exactly once, or at least once, as the suite declares."""
        if self.exactly_once or self.overwrites:
            assert self.delivered() == self.values(0, count)
        assert set(map(repr, self.delivered())) == set(map(repr, self.values(0, count)))

    def _need_exactly_once(self) -> None:
        if not self.exactly_once:
            pytest.skip("the connector is not an exactly-once sink")
