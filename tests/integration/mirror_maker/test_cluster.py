"""What a cluster answers about topics that are new, and about those that do not exist."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from airflow_provider_connect.connectors.mirror_maker.cluster import Cluster
from airflow_provider_connect.connectors.mirror_maker.settings import SOURCE
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from tests.integration.mirror_maker.mirror import MirrorEnvironment
from tests.waiting import HANG_SECONDS, wait_until

TOPICS = 5
PARTITIONS = 10


@pytest.fixture
def target(mirror: MirrorEnvironment) -> Iterator[Cluster]:
    """It waits longer for an answer than a test may take."""
    config = SOURCE.parse(mirror.config(admin_timeout_ms="3600000"))
    cluster = Cluster(config, "target", AllowedPaths())
    yield cluster
    cluster.close()


def test_offsets_of_partitions_that_were_just_created(mirror: MirrorEnvironment, target: Cluster) -> None:
    """By another process, so that they are listed before they have a leader; then by the cluster itself."""
    stranger = AdminClient({"bootstrap.servers": mirror.target})
    for number in range(TOPICS):
        theirs, ours = f"{mirror.unique}-theirs-{number}", f"{mirror.unique}-ours-{number}"
        stranger.create_topics([NewTopic(theirs, PARTITIONS, 1)])[theirs].result(HANG_SECONDS)
        wait_until(lambda topic=theirs: topic in target.topics())  # type: ignore[misc]
        assert target.ends(of(theirs)) == dict.fromkeys(of(theirs), 0)
        target.create([NewTopic(ours, PARTITIONS, 1)], "replication.factor")
        assert target.topics()[ours] == PARTITIONS
        assert target.offsets(of(ours), OffsetSpec.earliest) == dict.fromkeys(of(ours), 0)


def test_partitions_that_do_not_exist_are_left_out_at_once(mirror: MirrorEnvironment, target: Cluster) -> None:
    target.create([NewTopic(mirror.unique, 1, 1)], "replication.factor")
    known, beyond, missing = TopicPartition(mirror.unique, 0), TopicPartition(mirror.unique, 1), TopicPartition(f"{mirror.unique}-none", 0)
    for asked in ([missing], [beyond], [beyond, missing]):
        assert target.ends(asked) == {}
    assert target.ends([missing, known, beyond]) == {known: 0}


@pytest.mark.parametrize("milliseconds", [2**63 - 1, 3_600_001])
def test_a_time_out_that_no_client_takes_is_an_hour(mirror: MirrorEnvironment, milliseconds: int) -> None:
    """Kafka's setting has no limit; the task ended with an error of the client's."""
    cluster = Cluster(SOURCE.parse(mirror.config(admin_timeout_ms=str(milliseconds))), "target", AllowedPaths())
    try:
        cluster.create([NewTopic(mirror.unique, 1, 1)], "replication.factor")
        wait_until(lambda: mirror.unique in cluster.topics())
    finally:
        cluster.close()


def of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]
