"""What users of MirrorMaker 2 have reported as faults of it, tried here (Apache's issue numbers are KAFKA-…)."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.integration.mirror_maker.mirror import MirrorEnvironment, produce, records, topics
from tests.integration.mirror_maker.test_checkpoints import checkpoints, group_offset, read_on, runs_of, send_numbers
from tests.integration.worker.environment import commit_by_hand, make_topic
from tests.waiting import HANG_SECONDS, wait_until

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    return [value for _, _, value, _, _ in records(bootstrap, topic)]


def remove_before(bootstrap: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept until the answer is there
    for future in admin.delete_records([ClientPartition(topic, 0, offset)]).values():
        future.result(HANG_SECONDS)


def test_excluded_settings_are_not_those_of_a_new_topic_either(mirror: MirrorEnvironment) -> None:
    """KAFKA-13255"""
    topic = mirror.topic(retention_ms="90000000", max_message_bytes="2000000")
    mirror.run(mirror.config(config_properties_exclude="retention.*"))
    found = TopicAdmin(mirror.runs.settings).configs([mirror.remote(topic)])[mirror.remote(topic)]
    assert (found["retention.ms"], found["max.message.bytes"]) == ("604800000", "2000000")


def test_groups_that_lag_or_wait_skip_nothing(mirror: MirrorEnvironment) -> None:
    """KAFKA-10048 (a group at 0), KAFKA-12635 (partitions without records), KAFKA-16622 (a group that never catches up)"""
    mirror.alias = f"o{mirror.unique[-8:]}"
    topic, foreign = mirror.topic(partitions=2), mirror.topic("b")
    send_numbers(mirror, topic, 0, 1000)
    mirror.run(mirror.config(topics=topic))
    here, remote = runs_of(mirror, "checkpoints"), mirror.remote(topic)
    groups = {name: f"{name}-{mirror.unique}" for name in ("start", "half", "end", "waits", "foreign")}
    for name, offset in (("start", 0), ("half", 500), ("end", 1000)):
        commit_by_hand(mirror.origin, groups[name], {TopicPartition(topic, 0): offset})
    commit_by_hand(mirror.origin, groups["waits"], {TopicPartition(topic, 1): 0})
    commit_by_hand(mirror.origin, groups["foreign"], {TopicPartition(foreign, 0): 0})
    config = here.config("MirrorCheckpoint", groups=f".*-{mirror.unique}", sync_group_offsets_enabled="true")

    def synced() -> list[int]:
        here.run(config)
        return [group_offset(mirror.target, group, remote) for group in groups.values()]

    start, half, *others = synced()
    assert (start, others) in ((0, [end, -1, -1]) for end in (1000, 1001))
    assert 0 <= half <= 500, "between two syncs it reads again"
    send_numbers(mirror, topic, 1000, 1100)
    mirror.run(mirror.config(topics=topic))
    commit_by_hand(mirror.origin, groups["half"], {TopicPartition(topic, 0): 1000})
    assert synced()[0] == 0
    assert read_on(mirror.target, groups["half"], remote, 100) == [b"%d" % number for number in range(1000, 1100)]
    assert {one.group for one in checkpoints(mirror)} == {groups[name] for name in ("start", "half", "end")}


@pytest.mark.parametrize("location", ["source", "target"])
def test_a_group_of_a_topic_that_keeps_its_name_goes_on(mirror: MirrorEnvironment, location: str) -> None:
    """strimzi-kafka-operator 9609; KIP-716: offset syncs in either cluster; blanks around the names of topics"""
    mirror.alias = f"o{mirror.unique[-8:]}"
    topic, group = mirror.topic(), f"g-{mirror.unique}"
    send_numbers(mirror, topic, 0, 100)
    same = {"replication_policy_class": IDENTITY, "offset__syncs_topic_location": location}
    mirror.run(mirror.config(topics=f" {topic} , none", **same))
    here = runs_of(mirror, "checkpoints")
    commit_by_hand(mirror.origin, group, {TopicPartition(topic, 0): 100})
    here.run(here.config("MirrorCheckpoint", groups=group, sync_group_offsets_enabled="true", **same))
    assert group_offset(mirror.target, group, topic) in (100, 101)  # a transaction's marker may lie between
    assert len(values(mirror.target, topic)) == 100
    syncs = f"mm2-offset-syncs.{mirror.alias}.internal"
    assert (syncs in topics(mirror.target)) is (location == "target")


def test_what_is_not_to_be_emitted_has_no_topic(mirror: MirrorEnvironment) -> None:
    """KAFKA-9360"""
    mirror.alias = f"o{mirror.unique[-8:]}"
    topic, group = mirror.topic(), f"g-{mirror.unique}"
    send_numbers(mirror, topic, 0, 10)
    mirror.run(mirror.config(heartbeats_replication_enabled="false"))
    commit_by_hand(mirror.origin, group, {TopicPartition(topic, 0): 10})
    for kind, setting in (("MirrorCheckpoint", "emit_checkpoints_enabled"), ("MirrorHeartbeat", "emit_heartbeats_enabled")):
        here = runs_of(mirror, kind)
        here.run(here.config(kind, **{setting: "false"}, **({"groups": group} if kind == "MirrorCheckpoint" else {})))
    assert [name for name in topics(mirror.target) if mirror.alias in name] == [mirror.remote(topic)]


def test_heartbeats_are_mirrored_whatever_the_topics(mirror: MirrorEnvironment) -> None:
    """Clients follow heartbeats through chains of clusters, which a list of topics would break"""
    mirror.alias = f"o{mirror.unique[-8:]}"
    if "heartbeats" not in topics(mirror.origin):
        make_topic(mirror.origin, "heartbeats")
    produce(mirror.origin, "heartbeats", [(0, b"k", mirror.unique.encode(), [], int(time.time() * 1000))])
    mirror.run(mirror.config(topics=mirror.topic()))
    assert mirror.unique.encode() in values(mirror.target, f"{mirror.alias}.heartbeats")


def test_records_that_expired_before_they_were_mirrored_are_named(mirror: MirrorEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    """An offset out of range, after which a consumer may begin anywhere"""
    topic = mirror.topic()
    send_numbers(mirror, topic, 0, 10)
    mirror.run(mirror.config())
    send_numbers(mirror, topic, 10, 30)
    remove_before(mirror.origin, topic, 20)
    result = mirror.run(mirror.config())
    assert values(mirror.target, mirror.remote(topic)) == [b"%d" % number for number in (*range(10), *range(20, 30))]
    assert f"10 offsets of {topic}-0, 10 to 19, are gone, and were not delivered" in caplog.text
    assert "auto.offset.reset decides: the mirror goes on at 20" in caplog.text
    assert result.tasks[0].metrics["records-lost-total"] == 10


def test_a_target_that_was_created_anew_is_named(mirror: MirrorEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    """A topic deleted in the target cluster: what it had does not come back by itself"""
    topic = mirror.topic()
    send_numbers(mirror, topic, 0, 10)
    mirror.run(mirror.config())
    admin = AdminClient({"bootstrap.servers": mirror.target})  # kept until the answer is there
    admin.delete_topics([mirror.remote(topic)])[mirror.remote(topic)].result(HANG_SECONDS)
    wait_until(lambda: mirror.remote(topic) not in topics(mirror.target))
    send_numbers(mirror, topic, 10, 12)
    mirror.run(mirror.config())
    assert values(mirror.target, mirror.remote(topic)) == [b"10", b"11"]
    assert f"Partition 0 of topic {mirror.remote(topic)} is empty, although {topic} was mirrored up to offset 10" in caplog.text
    caplog.clear()
    send_numbers(mirror, topic, 12, 13)
    mirror.run(mirror.config())
    assert "is empty" not in caplog.text
