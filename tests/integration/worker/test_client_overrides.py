"""Client settings of worker and connector reach the very clients, unless the worker's policy or the client itself refuses them."""

from __future__ import annotations

import logging
import random

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.run import RunState
from tests.integration.worker.environment import RunEnvironment, make_topic, send, values_of
from tests.kafka_topics import settle
from tests.waiting import HANG_SECONDS

SMALL = {"max.request.size": "1000"}  # bytes; a line of the test's file is longer


@pytest.mark.parametrize(("whose", "guarantee"), [("worker", "exactly_once"), ("connector", "at_least_once")])
def test_producer_settings_reach_the_producer_of_records(environment: RunEnvironment, unique: str, guarantee: str, whose: str) -> None:
    """A limit that the record exceeds; the connector's own goes before the worker's."""
    make_topic(environment.bootstrap, unique)
    environment.file.write_text("x" * 3000 + "\n")
    prefix = "producer." if whose == "worker" else "producer.override."
    limits = {f"{prefix}{name}": value for name, value in SMALL.items()}
    if whose == "worker":
        environment.properties |= limits
    result = environment.run(environment.file_source(unique, delivery_guarantee=guarantee, **(limits if whose == "connector" else {})))
    assert result.state is RunState.FAILED
    trace = str(result.tasks[0].trace)
    assert "it has 3036 bytes with its overhead, and the producer takes 1000. Raise producer.override.max.request.size" in trace
    wider = {"producer.override.max.request.size": "1000000"}
    environment.put_config(environment.file_source(unique, delivery_guarantee=guarantee, **wider))
    assert environment.run().state is RunState.DONE
    assert values_of(environment.bootstrap, unique) == ["x" * 3000]


def test_a_record_that_the_topic_does_not_take_names_the_setting_of_the_topic(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 1, **{"max.message.bytes": "1000"})
    environment.file.write_text(random.Random(7).randbytes(1500).hex() + "\n")
    result = environment.run(environment.file_source(unique, delivery_guarantee="at_least_once"))
    assert result.state is RunState.FAILED
    assert "Raise max.message.bytes of the topic" in str(result.tasks[0].trace)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_records_of_up_to_a_mebibyte_arrive_by_default(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    """Those between librdkafka's 1,000,000 bytes and Java's max.request.size, which counts some overhead; nothing to be compressed."""
    make_topic(environment.bootstrap, unique)
    lines = [random.Random(size).randbytes(size // 2).hex() for size in (999_000, 1_000_000, 1_000_002, 1_048_000, 1_048_400)]
    environment.file.write_text("\n".join(lines) + "\n")
    result = environment.run(environment.file_source(unique, delivery_guarantee=guarantee))
    assert (result.state, result.error) == (RunState.DONE, None)
    assert [hash(value) for value in values_of(environment.bootstrap, unique)] == [hash(line) for line in lines]


@pytest.mark.parametrize(
    ("guarantee", "overrides"),
    [
        ("at_least_once", {"acks": "1"}),
        ("at_least_once", {"enable.idempotence": "false"}),
        ("at_least_once", {"transactional.id": "mine", "buffer.memory": "1024", "queue.buffering.max.messages": "10"}),
        ("exactly_once", {"acks": "1", "enable.idempotence": "false", "transactional.id": "mine", "transaction.timeout.ms": "30000"}),
        ("exactly_once", {"partitioner.ignore.keys": "true", "compression.type": "gzip", "max.block.ms": "1000", "linger.ms": "0"}),
    ],
    ids=str,
)
def test_settings_that_contradict_a_guarantee_do_not_stop_it(
    environment: RunEnvironment, unique: str, guarantee: str, overrides: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(environment.bootstrap, unique)
    more = {f"producer.override.{name}": value for name, value in overrides.items()}
    with caplog.at_level(logging.WARNING):
        result = environment.run(environment.numbers(unique, until="200", delivery_guarantee=guarantee, **more))
    assert (result.state, result.error) == (RunState.DONE, None)
    assert len(values_of(environment.bootstrap, unique)) == 200
    assert ("producer.override.max.block.ms: librdkafka has nothing like it" in caplog.text) is ("max.block.ms" in overrides)


@pytest.mark.parametrize("size", ["0", "60000"])
def test_records_larger_than_a_fetch_arrive(environment: RunEnvironment, unique: str, size: str) -> None:
    """As in Kafka's consumer: a fetch has one record at least."""
    make_topic(environment.bootstrap, unique)
    values = [letter * 200_000 for letter in "abc"]
    send(environment.bootstrap, unique, values)
    sizes = {f"consumer.override.{name}": size for name in ("fetch.max.bytes", "max.partition.fetch.bytes")}
    assert environment.run(environment.file_sink(unique, **sizes)).state is RunState.DONE
    assert environment.lines() == values


@pytest.mark.parametrize("whose", ["worker", "connector"])
def test_isolation_level_of_worker_or_connector_reaches_the_consumer(environment: RunEnvironment, unique: str, whose: str) -> None:
    make_topic(environment.bootstrap, unique)
    producer = Producer({"bootstrap.servers": environment.bootstrap, "transactional.id": unique})
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    producer.produce(unique, b"aborted")
    producer.flush(HANG_SECONDS)
    producer.abort_transaction(HANG_SECONDS)
    settle(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["sent"])
    key = "consumer.isolation.level" if whose == "worker" else "consumer.override.isolation.level"
    if whose == "worker":
        environment.properties[key] = "read_uncommitted"
    config = environment.file_sink(unique, **({} if whose == "worker" else {key: "read_uncommitted"}))
    assert environment.run(config).state is RunState.DONE
    assert environment.lines() == ["aborted", "sent"]
    assert environment.readiness(config).state == "no-work"


@pytest.mark.parametrize(
    ("policy", "override", "text"),
    [
        (
            "None",
            "producer.override.linger.ms",
            "The 'None' policy does not allow 'linger.ms' to be overridden in the connector configuration.",
        ),
        ("Principal", "admin.override.retries", "The 'Principal' policy does not allow 'retries' to be overridden"),
        ("Allowlist", "consumer.override.max.poll.records", "The 'Allowlist' policy does not allow 'max.poll.records' to be overridden"),
        ("All", "producer.override.interceptor.classes", "Invalid value 1 for configuration interceptor.classes: this client has no Java"),
    ],
)
def test_what_the_policy_or_the_client_refuses_stops_the_run(
    environment: RunEnvironment, unique: str, policy: str, override: str, text: str
) -> None:
    environment.properties["connector.client.config.override.policy"] = policy
    environment.properties["connector.client.config.override.allowlist"] = "linger.ms"
    config = environment.numbers(unique, **{override: "1"})
    with pytest.raises(ConfigException, match=text):
        environment.readiness(config)
    result = environment.run(config)
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    assert f"{override}: {text}" in str(result.error)


def test_policies_let_through_what_they_allow(environment: RunEnvironment, unique: str) -> None:
    environment.properties["connector.client.config.override.policy"] = "Allowlist"
    environment.properties["connector.client.config.override.allowlist"] = "linger.ms, acks"
    assert environment.run(environment.numbers(unique, until="10", **{"producer.override.linger.ms": "1"})).state is RunState.DONE
    environment.properties["connector.client.config.override.policy"] = "None"
    send(environment.bootstrap, make_topic(environment.bootstrap, f"{unique}-sink"), ["a"])
    sink = RunEnvironment(environment.properties, f"sink-{unique}", environment.folder)
    with pytest.raises(ConfigException, match=r"The 'None' policy does not allow 'linger\.ms' to be overridden"):
        sink.readiness(sink.file_sink(f"{unique}-sink", **{"producer.override.linger.ms": "1"}))  # it commits with a producer
    sink.properties["connector.client.config.override.policy"] = "SameCluster"
    assert sink.run(sink.file_sink(f"{unique}-sink", **{"producer.override.linger.ms": "1"})).state is RunState.DONE
    assert sink.lines() == ["a"]
