"""The environments in which faults happen: a file into a topic, a topic into a file, and a topic into its mirror, in many small commits."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import Producer

from tests.e2e.faults.oracle import Verdict, file_records, judge, topic_records
from tests.e2e.faults.runs import Runs
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS

STRING = "org.apache.kafka.connect.storage.StringConverter"
PLAIN = {"key.converter": STRING, "value.converter": STRING, "header.converter": STRING}
RECORDS = 3_000


def lines(count: int = RECORDS) -> list[bytes]:
    """Records that no other environment has, each different."""
    mark = uuid.uuid4().hex[:8].encode()
    return [b"%b %06d %b" % (mark, number, b"x" * 60) for number in range(count)]


@dataclass(slots=True)
class SourceEnvironment:
    """``FileStreamSource`` under one guarantee, in polls of 500 lines."""

    bootstrap: str
    topic: str
    file: Path
    runs: Runs
    sent: list[bytes]

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], guarantee: str, *, master: str = "local[2]") -> Self:
        name = f"source-{uuid.uuid4().hex[:8]}"
        bootstrap, topic, file = settings["bootstrap.servers"], f"topic-{name}", folder / f"{name}.txt"
        make_topic(bootstrap, topic)
        config = {"name": name, "connector.class": "FileStreamSource", "file": str(file), "topic": topic, "batch.size": "500"}
        quick = {"transaction.boundary.poll.linger.ms": "0", "offset.flush.interval.ms": "0"}
        runs = Runs(folder, name, {**settings, **PLAIN, **quick}, config | {"delivery.guarantee": guarantee}, master)
        environment = cls(bootstrap, topic, file, runs, [])
        environment.add()
        return environment

    def add(self, count: int = RECORDS) -> None:
        """More lines at the end of the file."""
        new = lines(count)
        with self.file.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in new))
        self.sent += new

    def arrived(self) -> list[bytes]:
        return topic_records(self.bootstrap, self.topic)

    def verdict(self) -> Verdict:
        return judge(self.sent, self.arrived())


@dataclass(slots=True)
class SinkEnvironment:
    """``FileStreamSink`` under one guarantee; ``commit`` after every put."""

    bootstrap: str
    topic: str
    file: Path
    runs: Runs
    sent: list[bytes]

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], guarantee: str, *, master: str = "local[2]") -> Self:
        name = f"sink-{uuid.uuid4().hex[:8]}"
        bootstrap, topic, file = settings["bootstrap.servers"], f"topic-{name}", folder / f"{name}.txt"
        make_topic(bootstrap, topic, partitions=3)
        config = {"name": name, "connector.class": "FileStreamSink", "file": str(file), "topics": topic}
        quick = {"offset.flush.interval.ms": "0"}
        runs = Runs(folder, name, {**settings, **PLAIN, **quick}, config | {"delivery.guarantee": guarantee}, master)
        environment = cls(bootstrap, topic, file, runs, [])
        environment.add()
        return environment

    def add(self, count: int = RECORDS) -> None:
        """More records on the topic."""
        new = lines(count)
        send(self.bootstrap, self.topic, new)
        self.sent += new

    def arrived(self) -> list[bytes]:
        return file_records(self.file)

    def verdict(self) -> Verdict:
        return judge(self.sent, self.arrived())


@dataclass(slots=True)
class MirrorEnvironment:
    """``MirrorSource`` exactly once, from and into the same broker; a poll takes some 10,000 records."""

    bootstrap: str
    topic: str
    alias: str
    runs: Runs
    sent: list[bytes]

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], *, master: str = "local[2]") -> Self:
        name = f"mirror-{uuid.uuid4().hex[:8]}"
        bootstrap, topic = settings["bootstrap.servers"], f"topic-{name}"
        make_topic(bootstrap, topic, partitions=3)
        config = {
            "name": name,
            "connector.class": "MirrorSource",
            "source.cluster.alias": name,
            "source.cluster.bootstrap.servers": bootstrap,
            "target.cluster.bootstrap.servers": bootstrap,
            "topics": topic,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "exactly.once.support": "required",
        }
        runs = Runs(folder, name, {**settings, "transaction.boundary.poll.linger.ms": "0"}, config, master)
        environment = cls(bootstrap, topic, name, runs, [])
        environment.add()
        return environment

    def add(self, count: int = RECORDS) -> None:
        """More records at the source, enough for some polls."""
        new = lines(10 * count)
        send(self.bootstrap, self.topic, new)
        self.sent += new

    def verdict(self) -> Verdict:
        return judge(self.sent, topic_records(self.bootstrap, f"{self.alias}.{self.topic}"))


def send(bootstrap: str, topic: str, records: Sequence[bytes]) -> None:
    """Write records to a topic of three partitions, in turn."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})  # in order, and once
    for number, record in enumerate(records):
        producer.produce(topic, record, partition=number % 3)
    assert producer.flush(HANG_SECONDS) == 0


def make_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Make a topic and wait until it is there."""
    create_topic(bootstrap, topic, partitions)
