"""Records above the default limits of producers and topics (1 MiB) between two clusters."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.runtime.model.run import RunState
from tests.integration.mirror_maker.mirror import MirrorEnvironment, records
from tests.integration.worker.environment import make_topic
from tests.waiting import HANG_SECONDS

LARGE = random.Random(1).randbytes(2_500_000)
PRODUCER = "producer_override_max_request_size"


def send(mirror: MirrorEnvironment, topic: str) -> None:
    producer = Producer({"bootstrap.servers": mirror.origin, "message.max.bytes": 5_000_000})
    for value in (b"before", LARGE, b"after"):
        producer.produce(topic, value, b"k", partition=0)
    assert producer.flush(HANG_SECONDS) == 0


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_large_record_arrives_where_producer_and_topics_take_it(mirror: MirrorEnvironment, guarantee: str) -> None:
    """The remote topic has the source topic's max.message.bytes."""
    topic = mirror.topic(max_message_bytes="3000000")
    send(mirror, topic)
    mirror.run(mirror.config(delivery_guarantee=guarantee, **{PRODUCER: "3000000"}))
    assert [value for _, _, value, _, _ in records(mirror.target, mirror.remote(topic))] == [b"before", LARGE, b"after"]


@pytest.mark.parametrize(
    ("producer", "setting"),
    [({}, "Raise producer.override.max.request.size"), ({PRODUCER: "3000000"}, "Raise max.message.bytes of the topic")],
)
def test_a_large_record_goes_by_the_error_rules_and_names_the_setting(
    mirror: MirrorEnvironment, producer: dict[str, str], setting: str
) -> None:
    topic = mirror.topic(max_message_bytes="3000000")
    remote = make_topic(mirror.target, mirror.remote(topic), 1, **({"max.message.bytes": "1000000"} if producer else {}))
    send(mirror, topic)
    config = mirror.config(sync_topic_configs_enabled="false", **producer)
    mirror.runs.put_config(config)
    result = mirror.runs.run(config)
    assert result.state is RunState.FAILED
    trace = str(result.tasks[0].trace)
    for part in (remote, "SHA-256", "2500", setting):
        assert part in trace
    mirror.run({**config, "errors.tolerance": "all"})
    assert [value for _, _, value, _, _ in records(mirror.target, remote)] == [b"before", b"after"]
