"""What users of Kafka Connect have reported as faults of its runtime, tried here (Apache's issue numbers are KAFKA-…)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.sdk import Batch
from tests.integration.worker import plugins
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send, values_of
from tests.waiting import HANG_SECONDS, wait_until


@pytest.fixture
def source(environment: RunEnvironment, unique: str) -> dict[str, str]:
    """A source of two lines."""
    config = environment.file_source(unique)
    Path(config["file"]).write_text("one\ntwo\n")
    return config


def routed(to: str) -> dict[str, str]:
    keys = {"type": "RegexRouter", "regex": ".*", "replacement": to}
    return {"transforms": "route", **{f"transforms.route.{key}": value for key, value in keys.items()}}


def test_records_that_are_all_dropped_are_read_once(environment: RunEnvironment, source: dict[str, str]) -> None:
    """Offsets of records that a transformation drops were committed with later records alone"""
    result = environment.run(source | {"transforms": "drop", "transforms.drop.type": "Filter"})
    assert (result.state, environment.offsets().get({"filename": source["file"]})) == (RunState.DONE, {"position": 8})
    assert environment.readiness().state == "no-work"


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("my topic!", "to topic my topic!. Topic name is invalid: "),
        ("", "topic must be a non-empty string"),
        ("..", "to topic ... Topic name is invalid: "),
    ],
)
def test_a_route_to_what_is_no_topic_fails_by_name(environment: RunEnvironment, source: dict[str, str], topic: str, text: str) -> None:
    """A producer waits a minute for metadata, and then names a time-out"""
    result = environment.run(source | routed(topic))
    assert result.state is RunState.FAILED
    assert text in str(result.tasks[0].trace)


@pytest.mark.parametrize("more", [{}, {"errors_tolerance": "all"}, {"delivery_guarantee": "at_least_once"}])
def test_a_partition_that_a_topic_does_not_have_fails_by_name(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    """KAFKA-3450: a minute for each record"""
    left = [Batch.of(unique, value=pa.array(["x"]), kafka_partition=7, source_partition={"p": 0}, source_offset={"next": 1})]

    def poll(task: Any) -> Batch | None:
        return left.pop() if left else None

    monkeypatch.setattr(plugins.NumbersTask, "poll", poll)
    make_topic(environment.bootstrap, unique)
    result = environment.run(environment.numbers(unique, **more))
    assert result.state is RunState.FAILED
    assert f"7 is not in the range [0...1) of topic {unique}" in str(result.tasks[0].trace)


def test_records_that_expired_before_they_were_delivered_are_named(
    environment: RunEnvironment, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An offset out of range, which a consumer resets without a word of the connector's"""
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, map(str, range(10)))
    environment.run(environment.file_sink(unique))
    send(environment.bootstrap, unique, map(str, range(10, 30)))
    admin = AdminClient({"bootstrap.servers": environment.bootstrap})  # kept until the answer is there
    for future in admin.delete_records([ClientPartition(unique, 0, 20)]).values():
        future.result(HANG_SECONDS)
    result = environment.run()
    assert result.state is RunState.DONE
    assert environment.lines() == [str(number) for number in (*range(10), *range(20, 30))]
    assert f"10 offsets of {unique}-0, 10 to 19, are gone, and were not delivered" in caplog.text
    assert result.tasks[0].metrics["records-lost-total"] == 10


def test_a_topic_that_is_deleted_stops_no_other(environment: RunEnvironment, unique: str) -> None:
    """KAFKA-14750"""
    names = [make_topic(environment.bootstrap, name) for name in (unique, f"{unique}-2")]
    for name in names:
        send(environment.bootstrap, name, [name])
    environment.run(environment.file_sink(",".join(names)))
    admin = AdminClient({"bootstrap.servers": environment.bootstrap})  # kept until the answer is there
    admin.delete_topics(names[1:])[names[1]].result(HANG_SECONDS)
    wait_until(lambda: names[1] not in admin.list_topics(timeout=HANG_SECONDS).topics)
    send(environment.bootstrap, unique, ["more"])
    assert environment.run().state is RunState.DONE
    assert sorted(environment.lines()) == sorted([*names, "more"])


def test_a_pattern_matches_no_topic_of_the_brokers(environment: RunEnvironment, unique: str) -> None:
    """KAFKA-3073: ``.*`` and the topics of groups and transactions"""
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["one"])
    assert environment.run(environment.file_sink(unique)).state is RunState.DONE  # by now there are such topics
    config = {key: value for key, value in environment.file_sink("").items() if key != "topics"}
    environment.put_config(config | {"topics.regex": f"__[ct].*|{unique}"})
    send(environment.bootstrap, unique, ["two"])
    assert environment.run().state is RunState.DONE
    assert environment.lines() == ["one", "two"]
    assert {partition.topic for partition in environment.group_offsets()} == {unique}


def test_records_of_every_codec_are_read(environment: RunEnvironment, unique: str) -> None:
    """KAFKA-9203: producers of one topic that compress each in its own way"""
    make_topic(environment.bootstrap, unique)
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        producer = Producer({"bootstrap.servers": environment.bootstrap, "compression.type": codec, "linger.ms": 50})
        for number in range(100):
            producer.produce(unique, f"{codec} {number} {'x' * 100}")
        assert producer.flush(HANG_SECONDS) == 0
    assert environment.run(environment.file_sink(unique)).state is RunState.DONE
    assert [line.split()[:2] for line in environment.lines()] == [[codec, str(number)] for codec in codecs for number in range(100)]


def test_empty_keys_and_values_are_not_null(environment: RunEnvironment, unique: str) -> None:
    to = f"{unique}-to"
    for topic in (unique, to):
        make_topic(environment.bootstrap, topic)
    records = [(b"", b""), (None, b""), (b"", None), (None, None), (b"k", b"v")]
    producer = Producer({"bootstrap.servers": environment.bootstrap})
    for key, value in records:
        producer.produce(unique, value, key, 0)
    assert producer.flush(HANG_SECONDS) == 0
    assert environment.run(environment.copy_source(unique, to, len(records))).state is RunState.DONE
    assert [(record.key, record.value) for record in read_topic(environment.bootstrap, to)] == records


def test_one_poll_may_go_to_many_topics(environment: RunEnvironment, source: dict[str, str], unique: str) -> None:
    """KAFKA-10340: a task that writes to a topic that does not exist waited without end"""
    Path(source["file"]).write_text("".join(f"line {number}\n" for number in range(20)))
    to = {f"topic.creation.default.{key}": "1" for key in ("partitions", "replication.factor")}
    assert environment.run(source | routed(f"{unique}-new") | to).state is RunState.DONE
    assert len(values_of(environment.bootstrap, f"{unique}-new")) == 20
