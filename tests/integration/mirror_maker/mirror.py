"""Mirror connectors between two real clusters: their configs, runs, and what lies on the topics of either side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.runtime.model.run import RunResult, RunState
from tests.integration.worker.environment import RunEnvironment, make_topic
from tests.kafka_topics import settle
from tests.waiting import HANG_SECONDS

Sent = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]
"""Partition, key, value, headers, timestamp in milliseconds."""
FACTORS = {f"{name}replication.factor": "1" for name in ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.")}


@dataclass(slots=True)
class MirrorEnvironment:
    """``runs`` is the worker group on the target cluster, ``origin`` the address of the source cluster."""

    runs: RunEnvironment
    origin: str
    unique: str
    alias: str = "origin"

    @property
    def target(self) -> str:
        return self.runs.bootstrap

    def config(self, kind: str = "MirrorSource", **more: str) -> dict[str, str]:
        """``_`` stands for ``.`` in the names of ``more``, ``__`` for ``-``."""
        both = {f"{side}.cluster.bootstrap.servers": at for side, at in (("source", self.origin), ("target", self.target))}
        aliases = {"source.cluster.alias": self.alias, "target.cluster.alias": "here"}
        chosen = {"topics": f"{self.unique}.*"} if kind == "MirrorSource" else {}
        given = {name.replace("__", "-").replace("_", "."): text for name, text in more.items()}
        return {"name": self.runs.connector, "connector.class": kind, **both, **aliases, **chosen, **FACTORS, **given}

    def topic(self, name: str = "a", partitions: int = 1, **configs: str) -> str:
        """A topic of the source cluster."""
        return make_topic(self.origin, f"{self.unique}-{name}", partitions, **configs)

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def run(self, config: dict[str, str]) -> RunResult:
        self.runs.put_config(config)
        result = self.runs.run(config)
        assert (result.state, result.error) == (RunState.DONE, None), result
        return result


def produce(bootstrap: str, topic: str, records: Iterable[Sent]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
    errors: list[KafkaError] = []
    for partition, key, value, headers, timestamp in records:
        report = {"on_delivery": lambda error, _: errors.append(error) if error else None}
        producer.produce(topic, value, key, partition, headers=list(headers), timestamp=timestamp, **report)
    assert (producer.flush(HANG_SECONDS), errors) == (0, [])


def in_transaction(bootstrap: str, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
    """Records of one transaction in partition 0."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"writer-{topic}"})
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(HANG_SECONDS)
    (producer.commit_transaction if commit else producer.abort_transaction)(120)
    settle(bootstrap, topic)


def records(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[Sent]:
    """All records of a topic by partition and offset; none where there is no such topic."""
    options = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer(options | {"isolation.level": isolation})
    try:
        left = set(consumer.list_topics(topic, timeout=HANG_SECONDS).topics[topic].partitions)
        if left and isolation == "read_committed":
            settle(bootstrap, topic, len(left))
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        found: list[Sent] = []
        while left:
            message = consumer.poll(HANG_SECONDS)
            assert message is not None, f"partitions {left} of {topic} never end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(message.partition() or 0)
            else:
                headers: Any = message.headers() or []  # the client's types allow other forms
                found.append((message.partition() or 0, message.key(), message.value(), headers, message.timestamp()[1]))
        return sorted(found, key=lambda record: record[0])
    finally:
        consumer.close()


def topics(bootstrap: str) -> dict[str, int]:
    """How many partitions each topic has."""
    return {
        name: len(topic.partitions)
        for name, topic in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=HANG_SECONDS).topics.items()
    }
