"""A broker that makes no topics by itself, forbids to make some, and soon ends transactions that take too long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.herder.metrics import sink_lags
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.topic_ends import topic_ends
from airflow_provider_connect.runtime.worker.delivery import kafka_writer
from tests.conftest import CACHE, worker_properties
from tests.integration.worker.environment import PLAIN, RunEnvironment, make_topic, send, values_of
from tests.integration.worker.test_topic_creation import ONE
from tests.kafka_topics import add_rights

STRICT = {
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    with KafkaServer(tmp_path_factory.mktemp("strict"), CACHE, STRICT) as server:
        yield server


@pytest.fixture
def here(strict: KafkaServer, environment: RunEnvironment, unique: str, tmp_path: Path) -> RunEnvironment:
    """A connector on that broker; ``environment`` brings the plugins."""
    found = RunEnvironment(worker_properties(strict.bootstrap_servers, unique) | PLAIN, environment.connector, tmp_path)
    TopicAdmin(found.settings).ensure_internal_topics()
    return found


@pytest.mark.soak
def test_a_transaction_that_takes_too_long_is_reported(here: RunEnvironment, unique: str) -> None:
    make_topic(here.bootstrap, unique)
    slow = {"poll_ms": "100", "transaction_boundary": "interval", "transaction_boundary_interval_ms": "60000"}
    short = {"producer.override.transaction.timeout.ms": "1000"}
    result = here.run(here.numbers(unique, until="300", size="1", **slow, **short))
    assert (result.state, result.retriable) == (RunState.FAILED, True)
    assert "was unable to finish writing records to Kafka before its producer transaction expired" in str(result.error)
    here.put_config(here.numbers(unique, until="30", size="1", **slow))  # of its own accord it takes longer than the interval
    assert here.run().state is RunState.DONE
    assert len(values_of(here.bootstrap, unique)) == 30


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_a_topic_that_nothing_creates_is_not_passed_over(here: RunEnvironment, guarantee: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_writer, "TOPIC_SECONDS", 1.0)
    result = here.run(here.numbers("nowhere", until="100", delivery_guarantee=guarantee))
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    assert "Topic nowhere does not exist, and the broker has created none within 1 s" in str(result.error)


def test_a_topic_that_may_not_be_read_hides_the_lag_of_its_own_sinks_alone(here: RunEnvironment, unique: str) -> None:
    readable, gone, hidden = (TopicPartition(f"{unique}-{word}", 0) for word in ("readable", "gone", "hidden"))
    for topic, _ in (readable, hidden):
        make_topic(here.bootstrap, topic)
        send(here.bootstrap, topic, ["a", "b", "c"])
    rule = (AclOperation.DESCRIBE, AclPermissionType.DENY)
    add_rights(here.bootstrap, [AclBinding(ResourceType.TOPIC, hidden.topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", *rule)])
    ends = topic_ends(here.settings, [readable, gone, hidden])
    assert (ends.offsets, list(ends.unread)) == ({readable: 3}, [hidden])
    positions = {"one": {readable: 1, gone: 0}, "two": {hidden: 1}, "three": {readable: 1, hidden: 1}}
    configs = {name: {"topics.regex": f"{unique}-.*"} for name in positions}
    assert sink_lags(here.settings, positions, configs) == {"one": {"records-lag": 2.0, "records-lag-max": 2.0}}


def test_a_client_that_may_not_make_topics(here: RunEnvironment) -> None:
    """What others have made is used, and what it may make is made. Comes last: its rules stay with the broker."""
    make_topic(here.bootstrap, "denied.there")
    make_topic(here.bootstrap, "read.only")
    cluster, topics = (
        (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL),
        (ResourceType.TOPIC, "denied", ResourcePatternType.PREFIXED),
    )
    rules = [
        AclBinding(*resource, "User:ANONYMOUS", "*", operation, permission)
        for resource in (cluster, topics)
        for operation, permission in ((AclOperation.ALL, AclPermissionType.ALLOW), (AclOperation.CREATE, AclPermissionType.DENY))
    ]
    read_only = (ResourceType.TOPIC, "read.only", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
    rules += [
        AclBinding(*read_only, operation, AclPermissionType.ALLOW)
        for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    ]
    add_rights(here.bootstrap, rules)
    result = here.run(here.numbers("denied.there,allowed,denied.new", until="30", size="10", **ONE))
    assert result.state is RunState.FAILED
    assert "Task failed to create new topic (name=denied.new, numPartitions=1" in str(result.tasks[0].trace)
    assert "Ensure that the task is authorized to create topics or that the topic exists and restart the task" in str(result.error)
    here.put_config(here.numbers("denied.there,allowed", until="20", size="10", **ONE))
    assert here.run().state is RunState.DONE
    assert [len(values_of(here.bootstrap, topic)) for topic in ("denied.there", "allowed")] == [10, 10]
    by_interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "60000"}
    for guarantee in ("exactly_once", "at_least_once", "at_most_once"):
        for size in ("20", "4"):  # of several batches the first is refused before offsets, or more records, are written
            other = RunEnvironment(here.properties, f"{here.connector}-{guarantee}-{size}", here.folder)
            paced = {} if size == "20" else {"poll_ms": "100"} | by_interval
            result = other.run(other.numbers("read.only", until="20", size=size, delivery_guarantee=guarantee, **paced))
            assert (result.state, result.retriable) == (RunState.FAILED, False), (guarantee, size)
            assert "Topic authorization failed" in str(result.tasks[0].trace), (guarantee, size)
