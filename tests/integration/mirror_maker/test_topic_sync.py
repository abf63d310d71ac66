"""What is synced besides records: topics, partitions, settings, rights; and what the target cluster keeps for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.application.readiness import NO_WORK
from tests.conftest import CACHE
from tests.integration.mirror_maker.conftest import AUTHORIZED
from tests.integration.mirror_maker.mirror import MirrorEnvironment, produce, records, topics
from tests.integration.worker.environment import make_topic
from tests.kafka_topics import add_partitions, add_rights, alter_topic
from tests.waiting import HANG_SECONDS, wait_until


def test_settings_and_partitions_follow_their_origin(mirror: MirrorEnvironment) -> None:
    topic = mirror.topic(retention_ms="90000000", min_insync_replicas="1", max_message_bytes="2000000")
    remote = mirror.remote(topic)

    def found() -> tuple[str | None, str | None, int]:
        configs = TopicAdmin(mirror.runs.settings).configs([remote])[remote]
        return configs["retention.ms"], configs["max.message.bytes"], topics(mirror.target)[remote]

    mirror.run(mirror.config())
    wait_until(lambda: found() == ("90000000", "2000000", 1))
    alter_topic(mirror.origin, topic, retention_ms="80000000", max_message_bytes=None)
    alter_topic(mirror.target, remote, min_insync_replicas="1")
    add_partitions(mirror.origin, topic, 3)
    produce(mirror.origin, topic, [(2, None, b"in a new partition", [], 0)])
    mirror.run(mirror.config())
    wait_until(lambda: found() == ("80000000", "1048588", 3))
    assert [(partition, value) for partition, _, value, _, _ in records(mirror.target, remote)] == [(2, b"in a new partition")]
    alter_topic(mirror.origin, topic, retention_ms="70000000")
    mirror.run(mirror.config(config_properties_exclude="retention.*"))
    assert found()[0] == "80000000", "excluded"


@pytest.fixture
def guarded(mirror: MirrorEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of a target cluster with an authorizer, in which the worker group lies too."""
    with KafkaServer(tmp_path_factory.mktemp("guarded"), CACHE, AUTHORIZED) as server:
        mirror.runs.properties["bootstrap.servers"] = server.bootstrap_servers
        TopicAdmin(mirror.runs.settings).ensure_internal_topics()
        yield server.bootstrap_servers


def test_who_may_read_a_topic_may_read_its_counterpart(mirror: MirrorEnvironment, guarded: str) -> None:
    topic = mirror.topic()
    literal, allow, deny = ResourcePatternType.LITERAL, AclPermissionType.ALLOW, AclPermissionType.DENY

    def right(name: str, who: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
        return AclBinding(ResourceType.TOPIC, name, literal, f"User:{who}", "*", operation, permission)

    given = [
        right(topic, "reader", AclOperation.READ, allow),
        right(topic, "owner", AclOperation.ALL, allow),
        right(topic, "writer", AclOperation.WRITE, allow),
        right(topic, "foe", AclOperation.WRITE, deny),
        right("*", "everywhere", AclOperation.READ, allow),
        right("another", "elsewhere", AclOperation.READ, allow),
    ]
    add_rights(mirror.origin, given)
    mirror.run(mirror.config())
    target = AdminClient({"bootstrap.servers": guarded})
    anything = AclBindingFilter(ResourceType.TOPIC, None, literal, None, None, AclOperation.ANY, AclPermissionType.ANY)  # type: ignore[arg-type]
    remote = mirror.remote(topic)
    expected = {
        (remote, "User:reader", AclOperation.READ, allow),
        (remote, "User:owner", AclOperation.READ, allow),
        (remote, "User:foe", AclOperation.WRITE, deny),
    }

    def found() -> set[tuple[str, str, AclOperation, AclPermissionType]]:
        return {
            (acl.name, acl.principal, acl.operation, acl.permission_type) for acl in target.describe_acls(anything).result(HANG_SECONDS)
        }

    wait_until(lambda: found() >= expected)
    assert found() == expected


ROUTED: Final = {"transforms": "r", "transforms_r_type": "RegexRouter", "transforms_r_regex": "none", "transforms_r_replacement": "some"}


def test_a_topic_whose_name_would_be_invalid_is_noted_and_stops_no_other(
    mirror: MirrorEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    """The names of topics have at most 249 characters."""
    long, plain = mirror.topic("x" * (247 - len(mirror.unique))), mirror.topic("plain")
    for topic in (long, plain):
        produce(mirror.origin, topic, [(0, None, b"x", [], 0)])
    mirror.run(mirror.config(heartbeats_replication_enabled="false"))
    assert [value for _, _, value, _, _ in records(mirror.target, mirror.remote(plain))] == [b"x"]
    noted = f"1 of 2 topics cannot be mirrored: {long} (Topic name is invalid: its length of 255 "
    assert any(f"waits: {noted}" in each.getMessage() for each in caplog.records)
    assert mirror.runs.readiness().state == "no-work", "what is left out is no work"
    [shown] = mirror.runs.configs().notes.values()
    assert shown.startswith(noted)
    assert shown.endswith("Name them in topics.exclude. All others are mirrored")
    mirror.runs.put_config(config := mirror.config(topics=long))
    failed = mirror.runs.run(config)
    assert failed.state is RunState.FAILED
    assert "for configuration topics: 1 of " in str(failed.error)


def test_a_topic_that_cannot_be_created_is_named_and_stops_no_other(mirror: MirrorEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    """The names of topics have at most 249 characters; those of a config whose transformations may change them are left to the cluster."""
    long, plain = mirror.topic("x" * (247 - len(mirror.unique))), mirror.topic("plain")
    for topic in (long, plain):
        produce(mirror.origin, topic, [(0, None, b"x", [], 0)])
    mirror.run(mirror.config(**ROUTED))
    assert [value for _, _, value, _, _ in records(mirror.target, mirror.remote(plain))] == [b"x"]
    [line] = [each.getMessage() for each in caplog.records if "is not mirrored" in each.getMessage()]
    assert f"Topic {long} is not mirrored: the target cluster here refused creating topic {mirror.remote(long)}" in line
    alter_topic(mirror.origin, plain, retention_ms="80000000")
    mirror.run(mirror.config(**ROUTED))
    wait_until(lambda: TopicAdmin(mirror.runs.settings).configs([mirror.remote(plain)])[mirror.remote(plain)]["retention.ms"] == "80000000")
    if "heartbeats" not in topics(mirror.origin):
        make_topic(mirror.origin, "heartbeats")  # which are mirrored whatever the setting says
    mirror.runs.put_config(config := mirror.config(topics=long, **ROUTED))
    failed = mirror.runs.run(config)
    assert failed.state is RunState.FAILED
    assert f"refused creating topic {mirror.remote(long)}" in str(failed.error)


@pytest.mark.soak
def test_partitions_that_cannot_be_added_are_named_and_the_others_are_mirrored(
    mirror: MirrorEnvironment, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    topic = mirror.topic(partitions=2)
    produce(mirror.origin, topic, [(0, None, b"first", [], 0), (1, None, b"second", [], 0)])
    remote, literal = mirror.remote(topic), ResourcePatternType.LITERAL
    rights = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
    with KafkaServer(tmp_path_factory.mktemp("strict"), CACHE, AUTHORIZED | rights) as server:
        mirror.runs.properties["bootstrap.servers"] = server.bootstrap_servers
        TopicAdmin(mirror.runs.settings).ensure_internal_topics()
        make_topic(mirror.target, remote)
        add_rights(
            mirror.target,
            [
                AclBinding(ResourceType.TOPIC, remote, literal, "User:ANONYMOUS", "*", operation, permission)
                for operation, permission in (
                    (AclOperation.ALL, AclPermissionType.ALLOW),
                    (AclOperation.ALTER, AclPermissionType.DENY),
                )
            ],
        )
        mirror.run(mirror.config())
        assert [value for _, _, value, _, _ in records(mirror.target, remote)] == [b"first"]
    assert f"Of topic {topic} only the first 1 partitions are mirrored" in caplog.text


def test_the_worker_s_own_topics_are_neither_read_nor_written(mirror: MirrorEnvironment) -> None:
    """Under unchanged names a topic of the source cluster, whose name its owner chooses, would be the worker's config topic here."""
    internal = mirror.runs.settings.config_topic
    make_topic(mirror.origin, internal, retention_ms="1000")
    produce(mirror.origin, internal, [(0, b"connector-evil", b"{}", [], 0)])
    plain = mirror.topic("plain")
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    config = mirror.config(topics=f".*{mirror.unique}.*", replication_policy_class=identity)
    before = TopicAdmin(mirror.runs.settings).configs([internal])[internal]
    mirror.run(config)
    assert plain in topics(mirror.target)
    assert "evil" not in str(mirror.runs.config_log())
    assert TopicAdmin(mirror.runs.settings).configs([internal])[internal] == before
    assert mirror.runs.readiness().state == NO_WORK


def test_what_came_from_the_target_cluster_does_not_go_back(mirror: MirrorEnvironment) -> None:
    mine = mirror.topic()
    for name in (f"here.{mirror.unique}", f"far.here.{mirror.unique}", f"far.{mirror.unique}"):
        make_topic(mirror.origin, name)
    mirror.run(mirror.config(topics=f".*{mirror.unique}.*"))
    mirrored = {name for name in topics(mirror.target) if name.startswith("origin.") and mirror.unique in name}
    assert mirrored == {mirror.remote(mine), mirror.remote(f"far.{mirror.unique}")}
