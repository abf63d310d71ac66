"""What the framework relies on in a sink."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.errors import FencedException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.columns import column_of
from airflow_provider_connect.sdk.connector import SinkConnector
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.schema import STRING_SCHEMA, Schema
from airflow_provider_connect.sdk.task import RolledBackException, SinkTask, WentBack
from airflow_provider_connect.sdk.testing_contexts import MemorySinkContext
from airflow_provider_connect.sdk.testing_sources import ConnectorSuite

_MOST_ATTEMPTS = 5  # of a batch whose task goes back to its last commit


class SinkConnectorSuite(ConnectorSuite):
    """For sink connectors. The destination is empty when a test begins."""

    connector_class: ClassVar[type[SinkConnector]]
    exactly_once: ClassVar[bool] = False
    """Whether the destination commits data, offsets and claim together."""
    value_schema: ClassVar[Schema | None] = STRING_SCHEMA
    partition: ClassVar[TopicPartition] = TopicPartition("suite", 0)

    def values(self, first: int, count: int) -> list[Any]:
        """The values of the records at offsets ``first`` and up, of ``value_schema``."""
        return [f"record {number}" for number in range(first, first + count)]

    def delivered(self) -> list[Any]:
        """What lies in the destination now, in the order put: what ``values`` gave."""
        raise NotImplementedError

    def task(self, claim_order: int = 1) -> SinkTask:
        """A started task."""
        [config] = self.planned()
        task = self.connector_class.task_class()
        task.allowed_paths = self.allowed_paths
        task.initialize(MemorySinkContext(config, [self.partition], claim_order=claim_order, exactly_once=self.exactly_once))
        task.start(self.connector_class.task_config(config))
        return task

    def batch(self, first: int, count: int) -> Batch:
        return Batch(
            self.partition.topic,
            value=column_of(self.values(first, count), self.value_schema),
            value_schema=self.value_schema,
            kafka_partition=self.partition.partition,
            first_offset=first,
            next_offset=first + count,
        )

    def deliver(self, task: SinkTask, first: int, count: int) -> Mapping[TopicPartition, int]:
        """Put ``count`` records and commit them; again where a transactional task asks for it."""
        for attempt in range(_MOST_ATTEMPTS):
            try:
                task.put(self.batch(first, count))
                return task.pre_commit({self.partition: first + count})
            except RolledBackException as error:
                if attempt + 1 == _MOST_ATTEMPTS:
                    raise
                if error.why is WentBack.LOST:
                    task.open([self.partition])
        raise AssertionError

    def end(self, task: SinkTask) -> None:
        task.close([self.partition])
        task.stop()

    def test_records_arrive_in_order(self) -> None:
        task = self.task()
        task.open([self.partition])
        task.put(self.batch(0, 4))
        task.put(self.batch(4, 3))
        assert task.pre_commit({self.partition: 7}) == {self.partition: 7}
        assert self.delivered() == self.values(0, 7)
        self.end(task)
        assert self.delivered() == self.values(0, 7)

    def test_commit_promises_no_more_than_was_put(self) -> None:
        task = self.task()
        task.open([self.partition])
        for partition, offset in self.deliver(task, 0, 5).items():
            assert partition == self.partition
            assert offset <= 5
        self.end(task)

    def test_empty_batch_and_commit_of_nothing_are_harmless(self) -> None:
        task = self.task()
        task.open([self.partition])
        task.put(self.batch(0, 0))
        task.pre_commit({self.partition: 0})
        self.deliver(task, 0, 2)
        task.put(self.batch(2, 0))
        task.pre_commit({self.partition: 2})
        assert self.delivered() == self.values(0, 2)
        self.end(task)

    def test_partitions_can_be_closed_and_opened_again(self) -> None:
        task = self.task()
        task.open([self.partition])
        self.deliver(task, 0, 3)
        task.close([self.partition])
        task.open([self.partition])
        self.deliver(task, 3, 3)
        self.end(task)
        assert self.delivered() == self.values(0, 6)

    def test_next_run_adds_to_what_is_there(self) -> None:
        for claim, first in ((1, 0), (2, 3)):
            task = self.task(claim)
            task.open([self.partition])
            self.deliver(task, first, 3)
            self.end(task)
        assert self.delivered() == self.values(0, 6)

    def test_stop_may_come_twice_and_from_another_thread(self) -> None:
        task = self.task()
        task.open([self.partition])
        stopper = threading.Thread(target=task.stop)
        stopper.start()
        stopper.join(5)
        assert not stopper.is_alive()
        task.stop()

    def test_destination_knows_the_next_offset(self) -> None:
        self._need_exactly_once()
        task = self.task(1)
        assert not (task.open([self.partition]) or {}).get(self.partition)
        self.deliver(task, 0, 10)
        self.end(task)
        assert self.task(2).open([self.partition]) == {self.partition: 10}

    def test_what_was_not_committed_is_not_there_and_comes_once(self) -> None:
        self._need_exactly_once()
        dying = self.task(1)
        dying.open([self.partition])
        self.deliver(dying, 0, 10)
        dying.put(self.batch(10, 5))  # and then it is killed
        task = self.task(2)
        assert task.open([self.partition]) == {self.partition: 10}
        self.deliver(task, 10, 5)
        self.end(task)
        assert self.delivered() == self.values(0, 15)

    def test_the_next_task_goes_on_whichever_call_was_the_last(self) -> None:
        """Each task but the last is killed behind one call more than the one before it."""
        self._need_exactly_once()
        reached = 0
        for last in range(6):
            task = self.task(last + 1)
            assert (task.open([self.partition]) or {}).get(self.partition, 0) == reached
            calls: list[Callable[[], object]] = [
                partial(task.put, self.batch(reached, 3)),
                partial(task.put, self.batch(reached + 3, 2)),
                partial(task.pre_commit, {self.partition: reached + 5}),
                partial(task.put, self.batch(reached + 5, 4)),
                partial(task.pre_commit, {self.partition: reached + 9}),
            ]
            for call in calls[:last]:
                call()
            task.stop()  # a process that dies lets go of its files
            reached += 9 if last == 5 else 5 if last >= 3 else 0
        task = self.task(7)
        assert task.open([self.partition]) == {self.partition: reached}
        self.deliver(task, reached, 2)
        self.end(task)
        assert self.delivered() == self.values(0, reached + 2)

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
            self._open_and_deliver(self.task(1))
        assert self.delivered() == []

    def test_offsets_in_the_destination_can_be_altered(self) -> None:
        self._need_exactly_once()
        task = self.task(1)
        task.open([self.partition])
        self.deliver(task, 0, 10)
        self.end(task)
        assert self.connector().alter_offsets(self.config(), {self.partition: 3})
        assert self.task(2).open([self.partition]) == {self.partition: 3}
        assert self.connector().alter_offsets(self.config(), {self.partition: None})
        assert not (self.task(3).open([self.partition]) or {}).get(self.partition)

    def _open_and_deliver(self, task: SinkTask) -> None:
        task.open([self.partition])
        self.deliver(task, 0, 1)

    def _need_exactly_once(self) -> None:
        if not self.exactly_once:
            pytest.skip("the connector is not an exactly-once sink")
