"""The cases of Apache's connect/mirror and mirror-client tests: which topics are whose, where groups go on, offsets that users alter."""

from typing import Any

import pytest

from airflow_provider_connect.connectors.mirror_maker.checkpoint_task import OffsetTranslation
from airflow_provider_connect.connectors.mirror_maker.names import ReplicationPolicy
from airflow_provider_connect.connectors.mirror_maker.offsets import check_constant_offset, check_offset
from airflow_provider_connect.connectors.mirror_maker.wire import OffsetSync
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException

DEFAULT = ReplicationPolicy("source", "target", ".", ".", is_identity=False)
IDENTITY = ReplicationPolicy("source", "target", ".", ".", is_identity=True)


@pytest.mark.parametrize(
    ("topic", "is_heartbeats"),
    [
        ("heartbeats", True),
        ("source1.heartbeats", True),
        ("source2.source1.heartbeats", True),
        ("heartbeats!", False),
        ("!heartbeats", False),
        ("source1heartbeats", False),
        ("source1-heartbeats", False),
    ],
)
def test_heartbeats_have_their_name_behind_aliases(topic: str, is_heartbeats: bool) -> None:
    assert DEFAULT.is_heartbeats(topic) is is_heartbeats
    assert not ReplicationPolicy("source", "target", "_", ".", is_identity=False).is_heartbeats("us-west.heartbeats")


@pytest.mark.parametrize(
    ("topic", "is_cycle", "is_cycle_of_heartbeats"),
    [
        ("target.{}", True, True),
        ("target.source.{}", True, True),
        ("source.target.{}", True, True),
        ("target.source.target.{}", True, True),
        ("source.target.source.{}", True, True),
        ("{}", False, False),
        ("othersource.{}", False, False),
        ("source.{}", True, False),
        ("othersource.source.{}", True, False),
    ],
)
def test_what_comes_from_the_target_does_not_go_back_nor_does_what_was_in_the_source_before(
    topic: str, is_cycle: bool, is_cycle_of_heartbeats: bool
) -> None:
    assert DEFAULT.is_cycle(topic.format("topic1")) is is_cycle
    assert IDENTITY.is_cycle(topic.format("topic1")) is False
    assert IDENTITY.is_cycle(topic.format("heartbeats")) is is_cycle_of_heartbeats


@pytest.mark.parametrize(
    ("topic", "is_internal"), [("__consumer_offsets", True), (".hiddentopic", True), ("mm2-offsets_CLUSTER_internal", False)]
)
def test_internal_topics_are_known_by_their_names(topic: str, is_internal: bool) -> None:
    assert DEFAULT.is_internal(topic) is is_internal


@pytest.mark.parametrize(
    ("separator", "internal", "syncs", "checkpoints"),
    [
        ("__", ".", "mm2-offset-syncs.CLUSTER.internal", "CLUSTER.checkpoints.internal"),
        ("__", "__", "mm2-offset-syncs__CLUSTER__internal", "CLUSTER__checkpoints__internal"),
    ],
)
def test_internal_topics_have_their_own_separator(separator: str, internal: str, syncs: str, checkpoints: str) -> None:
    policy = ReplicationPolicy("CLUSTER", "b", separator, internal, is_identity=False)
    assert (policy.offset_syncs_topic("CLUSTER"), policy.checkpoints_topic()) == (syncs, checkpoints)
    assert policy.is_internal(syncs)
    assert policy.is_internal(checkpoints)


def test_offsets_are_translated_and_never_skip() -> None:
    translation, partition = OffsetTranslation(), TopicPartition("topic1", 2)
    assert translation.downstream(partition, 0) is None

    def after(upstream: int, downstream: int, *asked: int) -> list[int | None]:
        translation.add(OffsetSync("topic1", 2, upstream, downstream))
        return [translation.downstream(partition, offset) for offset in asked]

    assert after(100, 200, 0, 100, 150, 200) == [None, 200, 201, 201]
    assert after(150, 251, 150, 5) == [251, None]
    assert after(200, 10, 200) == [10]  # the target's topic began anew
    assert after(20, 20, 20) == [20]  # the source's did
    for offset in range(1000, 10_001, 10):
        after(offset, offset)
    assert after(1500, 11_000, 1499, 1500, 2000)[1:] == [11_000, 11_001]


@pytest.mark.parametrize("offset", ["nan", None, {}, 3.14, -420, "-420", "10", True])
def test_an_altered_offset_is_a_whole_number(offset: Any) -> None:
    with pytest.raises(ConnectException):
        check_offset({"cluster": "a", "topic": "t", "partition": 0}, {"offset": offset})
    with pytest.raises(ConnectException):
        check_constant_offset({"group": "g", "topic": "t", "partition": 0}, {"offset": offset}, ("group", "topic"))


@pytest.mark.parametrize("offset", [10, 2**31])
def test_an_offset_of_a_checkpoint_is_zero(offset: int) -> None:
    check_offset({"cluster": "a", "topic": "t", "partition": 0}, {"offset": offset})
    with pytest.raises(ConnectException):
        check_constant_offset({"group": "g", "topic": "t"}, {"offset": offset}, ("group", "topic"))
    check_constant_offset({"group": "g", "topic": "t"}, {"offset": 0}, ("group", "topic"))
    check_constant_offset({"group": "g", "topic": "t"}, None, ("group", "topic"))


@pytest.mark.parametrize(
    "partition",
    [
        {"topic": "t", "partition": 0},
        {"cluster": "a", "partition": 0},
        {"cluster": "a", "topic": "t"},
        {"cluster": 1, "topic": "t", "partition": 0},
        {"cluster": "a", "topic": "t", "partition": "x"},
        {"cluster": "a", "topic": "t", "partition": -2},
    ],
)
def test_an_altered_partition_has_its_keys(partition: dict[str, Any]) -> None:
    with pytest.raises(ConnectException):
        check_offset(partition, {"offset": 1})
