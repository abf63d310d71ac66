"""MirrorCheckpoint and MirrorHeartbeat: the records that MirrorMaker 2 would write, and groups that go on in the other cluster."""

from __future__ import annotations

import dataclasses
import struct
import time

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.connectors.mirror_maker.wire import Checkpoint, OffsetSync
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.integration.mirror_maker.mirror import MirrorEnvironment, produce, records, topics
from tests.integration.worker.environment import commit_by_hand
from tests.waiting import HANG_SECONDS, wait_until


def send_numbers(mirror: MirrorEnvironment, topic: str, first: int, last: int) -> None:
    produce(mirror.origin, topic, [(0, None, b"%d" % number, [], int(time.time() * 1000)) for number in range(first, last)])


def runs_of(mirror: MirrorEnvironment, suffix: str) -> MirrorEnvironment:
    """Another connector of the same worker group."""
    return dataclasses.replace(mirror, runs=dataclasses.replace(mirror.runs, connector=f"{mirror.runs.connector}-{suffix}"))


def checkpoints(mirror: MirrorEnvironment) -> list[Checkpoint]:
    return [
        Checkpoint.of(key or b"", value or b"") for _, key, value, _, _ in records(mirror.target, f"{mirror.alias}.checkpoints.internal")
    ]


def group_offset(bootstrap: str, group: str, topic: str) -> int:
    asked = [ConsumerGroupTopicPartitions(group)]
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept until the answer is there
    found = admin.list_consumer_group_offsets(asked)[group].result(HANG_SECONDS)
    return next((int(p.offset) for p in found.topic_partitions if p.topic == topic), -1)


def read_on(bootstrap: str, group: str, topic: str, count: int) -> list[bytes]:
    """What a member of the group reads next."""
    options = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(options)
    try:
        consumer.subscribe([topic])
        found: list[bytes] = []

        def are_read() -> bool:
            found.extend(message.value() or b"" for message in consumer.consume(count - len(found), 0.2) if message.error() is None)
            return len(found) == count

        wait_until(are_read, lambda: f"{count} records, but {found}")
        return found
    finally:
        consumer.close()


@pytest.fixture
def two_legs(mirror: MirrorEnvironment) -> str:
    """Numbers 0 to 99 mirrored in one run and 100 to 149 in the next; the topic's name. Its cluster has an alias of its own."""
    mirror.alias = f"o{mirror.unique[-8:]}"
    topic = mirror.topic()
    for first, last in ((0, 100), (100, 150)):
        send_numbers(mirror, topic, first, last)
        mirror.run(mirror.config())
    return topic


@pytest.mark.soak
def test_offset_syncs_are_where_both_clusters_agree(mirror: MirrorEnvironment, two_legs: str) -> None:
    written = records(mirror.origin, "mm2-offset-syncs.here.internal")
    syncs = [OffsetSync.of(key or b"", value or b"") for _, key, value, _, _ in written]
    syncs = [sync for sync in syncs if sync.topic == two_legs]
    assert (syncs[0].upstream, syncs[0].downstream) == (0, 0)
    assert {sync.upstream for sync in syncs} == {0, 100, 150}
    for sync in syncs:  # markers lie behind each run's records
        assert sync.downstream - sync.upstream in (0, 1, 2)


def test_a_group_goes_on_in_the_target_cluster(mirror: MirrorEnvironment, two_legs: str) -> None:
    here = runs_of(mirror, "checkpoints")
    group, other = f"g-{mirror.unique}", f"h-{mirror.unique}"
    commit_by_hand(mirror.origin, group, {TopicPartition(two_legs, 0): 100})
    commit_by_hand(mirror.origin, other, {TopicPartition(two_legs, 0): 120})
    config = here.config("MirrorCheckpoint", groups=f"[gh]-{mirror.unique}", tasks_max="2", sync_group_offsets_enabled="true")
    here.run(config)
    remote = mirror.remote(two_legs)
    found = {one.group: one for one in checkpoints(mirror)}
    assert {(one.topic, one.partition, one.upstream) for one in found.values()} == {(remote, 0, 100), (remote, 0, 120)}
    assert found[group].downstream == group_offset(mirror.target, group, remote)
    assert read_on(mirror.target, group, remote, 50) == [b"%d" % number for number in range(100, 150)]
    behind_sync = read_on(mirror.target, other, remote, 30)
    assert 100 <= int(behind_sync[0]) <= 120, "nothing is skipped, and not all is read again"
    before = len(checkpoints(mirror))
    here.run(config)
    assert len(checkpoints(mirror)) == before, "what is known is not written again"


def test_offsets_of_the_target_group_never_go_back_and_members_keep_theirs(mirror: MirrorEnvironment, two_legs: str) -> None:
    here, remote = runs_of(mirror, "checkpoints"), mirror.remote(two_legs)
    ahead, busy = f"g-{mirror.unique}", f"h-{mirror.unique}"
    for group in (ahead, busy):
        commit_by_hand(mirror.origin, group, {TopicPartition(two_legs, 0): 100})
    commit_by_hand(mirror.target, ahead, {TopicPartition(remote, 0): 140})
    member = Consumer({"bootstrap.servers": mirror.target, "group.id": busy, "enable.auto.commit": False})
    member.subscribe([remote])
    try:
        while not member.assignment():
            member.poll(0.1)
        here.run(here.config("MirrorCheckpoint", groups=f"[gh]-{mirror.unique}", sync_group_offsets_enabled="true"))
    finally:
        member.close()
    assert group_offset(mirror.target, ahead, remote) == 140
    assert group_offset(mirror.target, busy, remote) == -1


def test_groups_and_topics_are_filtered(mirror: MirrorEnvironment, two_legs: str) -> None:
    here = runs_of(mirror, "checkpoints")
    for name in ("g", "console-consumer", "x"):
        commit_by_hand(mirror.origin, f"{name}-{mirror.unique}", {TopicPartition(two_legs, 0): 100})
    here.run(here.config("MirrorCheckpoint", groups=f".*-{mirror.unique}", **{"groups.exclude": "x-.*"}))
    assert {one.group for one in checkpoints(mirror)} == {f"g-{mirror.unique}", f"console-consumer-{mirror.unique}"}
    again = dataclasses.replace(here, alias=f"{mirror.alias}b")
    again.run(again.config("MirrorCheckpoint", groups=f"g-{mirror.unique}", **{"topics.exclude": ".*"}))
    assert f"{again.alias}.checkpoints.internal" in topics(mirror.target)
    assert checkpoints(again) == []


def test_a_heartbeat_a_run(mirror: MirrorEnvironment) -> None:
    mirror.alias = f"o{mirror.unique[-8:]}"
    before = time.time() * 1000
    for _ in range(2):
        mirror.run(mirror.config("MirrorHeartbeat"))
    key = b"".join(struct.pack(">h", len(alias)) + alias.encode() for alias in (mirror.alias, "here"))
    found = [record for record in records(mirror.target, "heartbeats") if record[1] == key]
    assert len(found) == 2
    version, timestamp = struct.unpack(">hq", found[0][2] or b"")
    assert (version, timestamp) == (0, found[0][4])
    assert before - 1 <= timestamp <= time.time() * 1000
    configs = TopicAdmin(mirror.runs.settings).configs(["heartbeats"])["heartbeats"]
    assert configs["cleanup.policy"] == "compact"
