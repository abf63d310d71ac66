from collections.abc import Callable

import pytest

from airflow_provider_connect.errors import ConflictException
from airflow_provider_connect.model.batches import BatchRecord, ConnectorType
from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.model.states import State
from airflow_provider_connect.model.status import ConnectorStatus, TaskStatus, TopicStatus
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.stores.log_consumer import CommittedOffset
from airflow_provider_connect.stores.memory import MemoryBatchLog, MemoryGroupOffsets, MemoryOffsetStore, MemoryStatusStore


def test_source_offsets_are_found_by_the_bytes_of_their_key() -> None:
    store = MemoryOffsetStore()
    store.put("c", [({"b": "2", "a": "1"}, {"position": 3}), ({"a": "9"}, {"position": 1})])
    store.put("c", [({"a": "9"}, None)])
    store.put("other", [({"a": "9"}, {"position": 7})])
    offsets = store.read("c")
    assert offsets.get({"b": "2", "a": "1"}) == {"position": 3}
    assert offsets.get({"a": "1", "b": "2"}) is None
    assert offsets.get({"a": "9"}) is None
    assert offsets.partitions() == [{"b": "2", "a": "1"}]
    assert offsets.spelled({"a": "1", "b": "2"}) == [{"b": "2", "a": "1"}]


def test_source_offsets_that_were_altered_over_rest_are_found_in_any_order() -> None:
    """They are kept in Java's order, whatever order their connector gives."""
    store = MemoryOffsetStore()
    store.put("c", [({"a": "1", "b": "2"}, {"position": 3})])
    assert store.read("c").get({"b": "2", "a": "1"}) == {"position": 3}


def test_offsets_of_the_connectors_own_topic_go_first() -> None:
    own, worker = MemoryOffsetStore(), MemoryOffsetStore()
    own.put("c", [({"a": "1"}, {"n": 5})])
    worker.put("c", [({"a": "1"}, {"n": 1}), ({"a": "2"}, {"n": 2})])
    both = own.read("c").over(worker.read("c"))
    assert [both.get({"a": name}) for name in "12"] == [{"n": 5}, {"n": 2}]


def test_statuses_can_be_read_at_once() -> None:
    store = MemoryStatusStore()
    store.put_connector(ConnectorStatus("c", State.RUNNING, "w:1"))
    store.put_task(TaskStatus("c", 0, State.FAILED, "w:1", trace="boom"))
    store.put_topic(TopicStatus("t", "c", 0, 1))
    state = store.read()
    assert state.connector("c") == ConnectorStatus("c", State.RUNNING, "w:1")
    task = state.task("c", 0)
    assert task is not None
    assert task.trace == "boom"
    assert state.topics_of("c") == ["t"]
    store.delete_topic("c", "t")
    store.delete_task("c", 0)
    store.delete_connector("c")
    state = store.read()
    assert (state.connector("c"), state.tasks_of("c"), state.topics_of("c")) == (None, [], [])


def test_group_with_members_is_left_alone() -> None:
    groups, at = MemoryGroupOffsets(), TopicPartition("t", 0)
    groups.alter("g", {at: 5}, "claim=7")
    groups.joined["g"] = ["somebody"]
    refused: tuple[Callable[[], object], ...] = (
        lambda: groups.alter("g", {at: 6}),
        lambda: groups.delete("g"),
        lambda: groups.delete_partitions("g", [at]),
    )
    for change in refused:
        with pytest.raises(ConflictException):
            change()
    assert groups.committed("g") == {at: CommittedOffset(5, "claim=7")}
    groups.joined.clear()
    groups.delete_partitions("g", [at])
    assert groups.committed("g", [at]) == {}


def test_batch_log_knows_a_moved_partition_by_its_newest_claim() -> None:
    store = MemoryBatchLog()

    def entry(task: int, claim: int, positions: dict[int, int]) -> BatchRecord:
        return BatchRecord(ConnectorTaskId("c", task), "run", Claim(claim, "t"), ConnectorType.SINK, next={"t": positions})

    store.put(entry(0, 3, {0: 100, 1: 50}))
    store.put(entry(1, 8, {1: 20, 2: 7}))  # offsets were set back before claim 8
    assert store.last("c") == {TopicPartition("t", 0): 100, TopicPartition("t", 1): 20, TopicPartition("t", 2): 7}
    store.reset("c", 1)
    assert store.last("c")[TopicPartition("t", 1)] == 50


def test_offsets_that_cannot_have_expired_were_deleted() -> None:
    """And begin anew; those that were being altered over REST were to be written again."""
    hour, now = 3600.0, 10_000_000.0
    store = MemoryBatchLog()
    store.put(entry(0, "run-1", {"t": {0: 5}}, timestamp=int((now - 2 * hour) * 1000)))
    store.put(entry(1, "run-2", {"t": {1: 6}}, timestamp=int((now - hour / 2) * 1000)))
    store.put(entry(3, "altered", {"t": {3: 8}}, timestamp=int(now * 1000)))
    store.put(entry(2, "", {"t": {2: 7}}, timestamp=int(now * 1000)))
    one, two, three, four = (TopicPartition("t", number) for number in range(4))
    assert store.lost("c", hour, now) == {one: 5, three: 7}
    assert store.lost("c", None, now) == {one: 5, two: 6, three: 7, four: 8}
    assert store.unfinished("c") == {three}


def entry(task: int, run: str, positions: dict[str, dict[int, int]], *, timestamp: int) -> BatchRecord:
    return BatchRecord(ConnectorTaskId("c", task), run, Claim(1, "t"), ConnectorType.SINK, next=positions, timestamp=timestamp)
