"""Each delivery takes the steps of its guarantee, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.model.connector_settings import Guarantee
from airflow_provider_connect.runtime.worker.delivery.commit_steps import SINK_STEPS, SOURCE_STEPS, CommitStep
from airflow_provider_connect.runtime.worker.delivery.sink_delivery import CommitAfterPut, CommitBeforePut, SinkDelivery, checked_offsets
from airflow_provider_connect.runtime.worker.delivery.source_delivery import AtLeastOnce, AtMostOnce, ExactlyOnce, SourceDelivery
from airflow_provider_connect.runtime.worker.delivery.transaction_boundary import PollBoundary, RequestedBoundary
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import SinkTask
from tests.unit.worker.test_source_delivery import BATCH, OFFSET, encode, owner, writer


class Steps(list[CommitStep]):
    @contextmanager
    def around(self, step: CommitStep) -> Iterator[None]:
        yield
        self.append(step)


def source(guarantee: Guarantee, steps: Steps) -> SourceDelivery:
    producer, data = owner([]), writer([], "data")
    if guarantee is Guarantee.EXACTLY_ONCE:
        return ExactlyOnce(producer, data, encode, boundary=PollBoundary(0, lambda: 0.0), flush_seconds=1, step=steps.around)
    if guarantee is Guarantee.AT_LEAST_ONCE:
        return AtLeastOnce(producer, data, encode, interval_seconds=60, flush_seconds=1, now=lambda: 0.0, step=steps.around)
    return AtMostOnce(producer, data, encode, flush_seconds=1, step=steps.around)


@pytest.mark.parametrize("guarantee", Guarantee)
def test_source(guarantee: Guarantee) -> None:
    steps = Steps()
    delivery = source(guarantee, steps)
    delivery.deliver([BATCH], [OFFSET])
    assert delivery.commit()
    assert (*steps, CommitStep.NOTIFY_TASK)[: len(SOURCE_STEPS[guarantee])] == SOURCE_STEPS[guarantee]


def test_source_that_aborts() -> None:
    steps = Steps()
    delivery = ExactlyOnce(owner([]), writer([], "data"), encode, boundary=RequestedBoundary(), flush_seconds=1, step=steps.around)
    delivery.deliver([BATCH], [OFFSET])
    delivery.drop(with_offsets=False)
    delivery.commit()
    assert steps == [CommitStep.WRITE_RECORDS, CommitStep.ABORT_TRANSACTION, CommitStep.WRITE_OFFSETS, CommitStep.COMMIT_TRANSACTION]


class Sink(SinkTask):
    def put(self, batch: Batch) -> None:
        pass


class Group:
    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        pass


@pytest.mark.parametrize("guarantee", Guarantee)
def test_sink(guarantee: Guarantee) -> None:
    steps, group, positions = Steps(), Group(), {TopicPartition("t", 0): 3}
    unused: Any = group
    kind = CommitBeforePut if guarantee is Guarantee.AT_MOST_ONCE else CommitAfterPut
    delivery: SinkDelivery = kind(unused, steps.around)
    delivery.deliver(Sink(), Batch("t", value=pa.array(["a", "b", "c"])), positions)
    if guarantee is not Guarantee.AT_MOST_ONCE:
        assert delivery.commit(Sink(), positions) == positions
    assert tuple(steps) == SINK_STEPS[guarantee]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "pre_commit must return a mapping of TopicPartition to the next offset to read .*, got NoneType"),
        ([TopicPartition("t", 0)], "pre_commit must return a mapping .*, got list"),
        ({TopicPartition("t", 0): None}, "must return offsets that are numbers of 0 or more, got None for t-0"),
        ({TopicPartition("t", 0): "3"}, "must return offsets that are numbers of 0 or more, got '3' for t-0"),
        ({TopicPartition("t", 0): -1}, "must return offsets that are numbers of 0 or more, got -1 for t-0"),
        ({"t": 3}, "must return offsets by TopicPartition, got 't'"),
    ],
)
def test_a_sinks_answer_that_is_no_offsets_is_refused_before_anything_is_committed(returned: Any, message: str) -> None:
    class Wrong(Sink):
        def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            return returned  # type: ignore[no-any-return]

    class Untouched:
        def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
            raise AssertionError("committed")

    untouched: Any = Untouched()
    with pytest.raises(ConnectException, match=message):
        CommitAfterPut(untouched).commit(Wrong(), {TopicPartition("t", 0): 3})
    assert checked_offsets("open", {("t", 0): 3, TopicPartition("u", 1): 0}) == {("t", 0): 3, ("u", 1): 0}


def test_an_offset_beyond_what_was_read_is_not_committed_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Ahead(Sink):
        def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            return {partition: offset + 1 for partition, offset in offsets.items()}

    untouched: Any = None
    delivery, ahead = CommitAfterPut(untouched), Ahead()
    assert delivery.commit(ahead, {TopicPartition("t", 0): 3}) == {}
    assert delivery.commit(ahead, {TopicPartition("t", 0): 3}) == {}
    (line,) = caplog.messages
    assert line.startswith("pre_commit returned 4 as the next offset of t-0, where 3 is the next to read")


def test_a_sink_that_rewound_may_return_what_it_has_written_and_other_partitions_are_left_out() -> None:
    class Remembering(Sink):
        def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            return {TopicPartition("t", 0): 3, TopicPartition("t", 1): 9}

    unused: Any = Group()
    delivery, remembering = CommitAfterPut(unused), Remembering()
    assert delivery.commit(remembering, {TopicPartition("t", 0): 3}) == {TopicPartition("t", 0): 3}
    assert delivery.commit(remembering, {TopicPartition("t", 0): 2}) == {}
