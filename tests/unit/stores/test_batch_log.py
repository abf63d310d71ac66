from dataclasses import replace

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.batches import BatchRecord, ConnectorType
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.batch_log import (
    lost_positions,
    newest_positions,
    partitions_committed_by,
    unfinished_partitions,
)
from airflow_provider_connect.runtime.wire import batch_topic


def test_batch_log_knows_a_moved_partition_by_its_newest_claim() -> None:
    def entry(task: int, claim: int, positions: dict[int, int]) -> BatchRecord:
        return BatchRecord(ConnectorTaskId("c", task), "run", Claim(claim, "t"), ConnectorType.SINK, next={"t": positions})

    first, second = entry(0, 3, {0: 100, 1: 50}), entry(1, 8, {1: 20, 2: 7})  # offsets were set back before claim 8
    zero, one, two = (TopicPartition("t", number) for number in range(3))
    assert newest_positions([first, second]) == {zero: 100, one: 20, two: 7}
    assert newest_positions([first])[one] == 50


def test_offsets_that_cannot_have_expired_were_deleted() -> None:
    """Deleted offsets start from the beginning; those of an unfinished change over REST are written again."""
    hour, now = 3600.0, 10_000_000.0
    entries = [
        entry(0, "run-1", {"t": {0: 5}}, timestamp=int((now - 2 * hour) * 1000)),
        entry(1, "run-2", {"t": {1: 6}}, timestamp=int((now - hour / 2) * 1000)),
        entry(3, "altered", {"t": {3: 8}}, timestamp=int(now * 1000)),
        entry(2, "", {"t": {2: 7}}, timestamp=int(now * 1000)),
    ]
    one, two, three, four = (TopicPartition("t", number) for number in range(4))
    assert lost_positions(entries, hour, now) == {one: 5, three: 7}
    assert lost_positions(entries, None, now) == {one: 5, two: 6, three: 7, four: 8}
    assert unfinished_partitions(entries) == {three}


def test_positions_of_a_recreated_topic_are_left_out() -> None:
    known = replace(entry(0, "run-1", {"t": {0: 5}}, timestamp=1), topic_ids={"t": "first"})
    decoded = batch_topic.decode(*batch_topic.encode(known)[:2])
    assert isinstance(decoded, BatchRecord)
    zero = TopicPartition("t", 0)
    for ids, positions in (({"t": "first"}, {zero: 5}), ({"t": "second"}, {}), ({}, {zero: 5})):
        assert newest_positions([decoded], ids) == lost_positions([decoded], None, 10.0, ids) == positions
    assert newest_positions([entry(0, "run-1", {"t": {0: 5}}, timestamp=1)], {"t": "second"}) == {zero: 5}  # an entry that knows no id


def test_whose_destination_a_position_is() -> None:
    older = replace(entry(0, "run-1", {"t": {0: 5, 1: 5}}, timestamp=1), destination="a")
    newer = replace(entry(1, "run-2", {"t": {1: 7, 2: 7}}, timestamp=2), destination="b", claim=Claim(2, "t"))
    entries = [older, newer, entry(2, "run-1", {"t": {3: 5}}, timestamp=1)]
    entries = [each for each in (batch_topic.decode(*batch_topic.encode(each)[:2]) for each in entries) if isinstance(each, BatchRecord)]
    assert partitions_committed_by(entries, "a") == {TopicPartition("t", 0)}
    assert partitions_committed_by(entries, "b") == {TopicPartition("t", 1), TopicPartition("t", 2)}


def entry(task: int, run: str, positions: dict[str, dict[int, int]], *, timestamp: int) -> BatchRecord:
    return BatchRecord(ConnectorTaskId("c", task), run, Claim(1, "t"), ConnectorType.SINK, next=positions, timestamp=timestamp)
