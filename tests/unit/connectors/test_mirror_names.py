"""Names across clusters, the bytes of MirrorMaker's own records, and the translation of offsets."""

from __future__ import annotations

import pytest

from airflow_provider_connect.connectors.mirror_maker.checkpoint_task import OffsetTranslation
from airflow_provider_connect.connectors.mirror_maker.names import ReplicationPolicy
from airflow_provider_connect.connectors.mirror_maker.offsets import check_offset, is_from_other_topic, next_offset, source_offset
from airflow_provider_connect.connectors.mirror_maker.wire import Checkpoint, Heartbeat, OffsetSync
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import DataException

DEFAULT = ReplicationPolicy("a", "b", ".", ".", is_identity=False)
UNCHANGED = ReplicationPolicy("a", "b", ".", ".", is_identity=True)


@pytest.mark.parametrize(
    ("policy", "topic", "remote", "source", "original"),
    [
        (DEFAULT, "t", "a.t", None, "t"),
        (DEFAULT, "x.t", "a.x.t", "x", "t"),
        (DEFAULT, "x.", "a.x.", None, "x."),
        (DEFAULT, "x.y.t", "a.x.y.t", "x", "t"),
        (UNCHANGED, "t", "t", "a", "t"),
        (UNCHANGED, "x.t", "x.t", "a", "x.t"),
        (UNCHANGED, "heartbeats", "a.heartbeats", None, "heartbeats"),
        (UNCHANGED, "x.heartbeats", "a.x.heartbeats", "x", "heartbeats"),
        (ReplicationPolicy("a", "b", "__", ".", is_identity=False), "x__t", "a__x__t", "x", "t"),
    ],
)
def test_names(policy: ReplicationPolicy, topic: str, remote: str, source: str | None, original: str) -> None:
    assert (policy.remote_topic(topic), policy.source_of(topic), policy.original_topic(topic)) == (remote, source, original)


@pytest.mark.parametrize(
    ("topic", "is_internal"),
    [
        ("__consumer_offsets", True),
        (".x", True),
        ("mm2-offset-syncs.b.internal", True),
        ("a.checkpoints.internal", True),
        ("orders.internal", False),
        ("mm2-orders", False),
    ],
)
def test_internal_topics(topic: str, is_internal: bool) -> None:
    assert DEFAULT.is_internal(topic) is is_internal


@pytest.mark.parametrize(("topic", "is_cycle"), [("t", False), ("b.t", True), ("x.b.t", True), ("x.t", False), ("b", False)])
def test_cycles(topic: str, is_cycle: bool) -> None:
    assert DEFAULT.is_cycle(topic) is is_cycle
    assert not UNCHANGED.is_cycle(topic)


def test_topics_of_its_own_take_their_separator() -> None:
    assert (DEFAULT.offset_syncs_topic("b"), DEFAULT.checkpoints_topic()) == ("mm2-offset-syncs.b.internal", "a.checkpoints.internal")
    other = ReplicationPolicy("a", "b", "-", "-", is_identity=False)
    assert (other.offset_syncs_topic("b"), other.checkpoints_topic()) == ("mm2-offset-syncs-b-internal", "a-checkpoints-internal")


def test_a_checkpoint_of_what_came_from_the_target_has_its_name_there() -> None:
    assert (DEFAULT.remote_checkpoint_topic("t"), DEFAULT.remote_checkpoint_topic("b.t")) == ("a.t", "t")


def test_bytes() -> None:
    sync = OffsetSync("té", 3, 7, 9)
    assert sync.key() == b"\0\3t\xc3\xa9\0\0\0\3"
    assert sync.value() == b"\0\0\0\0\0\0\0\7" + b"\0\0\0\0\0\0\0\x09"
    assert OffsetSync.of(sync.key(), sync.value()) == sync
    checkpoint = Checkpoint("g", "a.t", 1, 5, 6, "m")
    assert checkpoint.key() == b"\0\1g\0\3a.t\0\0\0\1"
    assert checkpoint.value() == b"\0\0" + b"\0\0\0\0\0\0\0\5" + b"\0\0\0\0\0\0\0\6" + b"\0\1m"
    assert Checkpoint.of(checkpoint.key(), checkpoint.value()) == checkpoint
    heartbeat = Heartbeat("a", "b", 2**40)
    assert (heartbeat.key(), heartbeat.value()) == (b"\0\1a\0\1b", b"\0\0" + b"\0\0\1\0\0\0\0\0")


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\5a", b"\xff\xff", b"\0\1\xff\0\0\0\0", b"\0\1a\0\0"])
def test_other_bytes_are_refused(key: bytes) -> None:
    for kind in (OffsetSync, Checkpoint):
        with pytest.raises(DataException):
            kind.of(key, b"\0" * 40)
    with pytest.raises(DataException, match="version 1"):
        Checkpoint.of(b"\0\1g\0\1t\0\0\0\0", b"\0\1" + b"\0" * 18)


def test_translation_never_skips_a_record() -> None:
    translation = OffsetTranslation()
    for upstream, downstream in ((10, 0), (100, 90), (200, 191)):
        translation.add(OffsetSync("t", 0, upstream, downstream))
    partition = TopicPartition("t", 0)
    found = {offset: translation.downstream(partition, offset) for offset in (9, 10, 11, 99, 100, 150, 200, 500)}
    assert found == {9: None, 10: 0, 11: 1, 99: 1, 100: 90, 150: 91, 200: 191, 500: 192}
    assert translation.downstream(TopicPartition("t", 1), 10) is None
    translation.add(OffsetSync("t", 0, 50, 200))  # the topic was created anew, or mirrored from further back
    assert [translation.downstream(partition, offset) for offset in (20, 50, 300)] == [1, 200, 201]


def test_an_offset_is_of_another_topic_where_both_ids_are_known_and_differ() -> None:
    assert source_offset(9, "new") == {"offset": 9, "topicId": "new"}
    assert source_offset(9, None) == {"offset": 9}
    assert is_from_other_topic(source_offset(9, "old"), "new")
    for offset in (source_offset(9, "new"), source_offset(9, None), None):
        assert not is_from_other_topic(offset, "new")
    assert not is_from_other_topic(source_offset(9, "old"), None)
    assert next_offset(source_offset(9, "new")) == 10
    check_offset({"cluster": "a", "topic": "t", "partition": 0}, source_offset(9, "old"))
