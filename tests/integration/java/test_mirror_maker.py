"""MirrorMaker's three Java connectors between two brokers, each unchanged from Apache Kafka's jar, in runs that end."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from airflow_provider_connect import Connect
from airflow_provider_connect.dev.kafka_server import KafkaServer
from tests.conftest import CACHE
from tests.integration.java.conftest import JavaRuns
from tests.integration.java.processes import jvm_of
from tests.java_plugins import copied_mirror
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS, wait_until

PACKAGE = "org.apache.kafka.connect.mirror"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
RECORDS = 120_000
"""A run that does not end by itself takes an hour."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of the source cluster."""
    with KafkaServer(tmp_path_factory.mktemp("origin"), CACHE) as server:
        yield server.bootstrap_servers


class Mirror:
    """Three connectors from cluster ``there`` to that of the worker group; ``topic`` is mirrored, and group ``readers``."""

    def __init__(self, runs: JavaRuns, origin: str, unique: str) -> None:
        self.runs, self.origin, self.name = runs, origin, unique
        self.topic, self.copy, self.group = unique, f"there.{unique}", f"readers-{unique}"

    def config(self, kind: str, **more: str) -> Path:
        keys = {
            "connector.plugin.location": "mirror",
            "source.cluster.alias": "there",
            "target.cluster.alias": f"here-{self.name}",
            "source.cluster.bootstrap.servers": self.origin,
            "target.cluster.bootstrap.servers": self.runs.settings.bootstrap_servers,
            "topics": self.topic,
            "groups": self.group,
            "key.converter": BYTES,
            "value.converter": BYTES,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "sync.topic.acls.enabled": "false",
        }
        given = keys | {key.replace("_", "."): value for key, value in more.items()}
        return self.runs.config(f"{kind.lower()}-{self.name}", f"{PACKAGE}.Mirror{kind}Connector", **given)

    def run(self, config: Path) -> str:
        """The output of a run, which has to end by itself."""
        process = self.runs.start(config)
        process.wait(HANG_SECONDS)
        code, output = self.runs.ended(process)
        assert code == 0, output
        return output

    def write(self, first: int, last: int, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.origin, "enable.idempotence": True, "queue.buffering.max.messages": RECORDS + 1})
        for number in range(first, last):
            producer.produce(self.topic, str(number).encode(), partition=partition)
            producer.poll(0)
        assert producer.flush(HANG_SECONDS) == 0

    def copied(self) -> list[int]:
        """What lies in the first partition of the copy."""
        return [int(value) for value in self.runs.records(self.copy)]


@pytest.fixture(scope="module")
def mirror_plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugins")
    copied_mirror(CACHE, path)
    return path


@pytest.fixture
def mirror(java_runs: JavaRuns, mirror_plugins: Path, origin: str, unique: str) -> Mirror:
    java_runs.use(mirror_plugins, memory="256m")
    create_topic(origin, unique, 2)
    return Mirror(java_runs, origin, unique)


def test_a_run_copies_what_is_there_and_the_next_one_what_is_new(mirror: Mirror) -> None:
    """The second partition is empty."""
    source = mirror.config("Source")
    mirror.write(0, 1000)
    assert "task 0: 1000 records" in mirror.run(source)
    mirror.write(1000, 1010)
    assert "task 0: 10 records" in mirror.run(source)
    assert "task 0: 0 records" in mirror.run(source)
    assert mirror.copied() == [*range(1010)]


@pytest.mark.soak
def test_a_source_cluster_that_answers_late_ends_no_run_without_records(mirror: Mirror) -> None:
    """Each answer comes later than the consumer's poll waits, so the first polls are empty."""
    source = mirror.config("Source", consumer_poll_timeout_ms="1", source_consumer_fetch_min_bytes="1000000")
    mirror.write(0, 100)
    assert "task 0: 100 records" in mirror.run(source)
    assert mirror.copied() == [*range(100)]


@pytest.mark.soak
def test_a_run_that_mirrors_a_topic_whose_records_never_end_does(mirror: Mirror) -> None:
    source = mirror.config("Source")
    mirror.write(0, 1000)
    process = mirror.runs.start(source)
    written, ends = 1000, time.monotonic() + HANG_SECONDS
    while process.poll() is None and time.monotonic() < ends:
        mirror.write(written, written + 10)
        written += 10
    code, output = mirror.runs.ended(process)
    assert code == 0, output
    mirror.run(source)
    assert mirror.copied() == [*range(written)]


@pytest.mark.soak
def test_what_a_killed_run_has_left_comes_once(mirror: Mirror) -> None:
    source = mirror.config("Source")
    mirror.write(0, RECORDS)
    for victim in ("process", "jvm", "process"):
        process = mirror.runs.start(source)
        before = mirror.runs.end_of(mirror.copy) if victim != "process" else 0
        wait_until(lambda: process.poll() is not None or _end(mirror) > before)  # noqa: B023
        target = process if victim == "process" else jvm_of(process)
        if target is not None:
            target.kill()
        mirror.runs.ended(process)
    mirror.run(source)
    assert mirror.copied() == [*range(RECORDS)]


def _end(mirror: Mirror) -> int:
    """That of the copy; 0 where it does not exist yet."""
    try:
        return mirror.runs.end_of(mirror.copy)
    except Exception:
        return 0


@pytest.mark.soak
def test_a_run_of_heartbeats_ends_with_its_first(mirror: Mirror) -> None:
    """At the end of its poll, which waits for the interval, the task is paused: the next poll brings one more at the most."""
    heartbeats = mirror.config("Heartbeat", heartbeats_topic_name=f"beats-{mirror.name}")
    for _ in range(2):
        output = mirror.run(heartbeats)
    assert "task 0: 0 records" not in output


@pytest.mark.soak
def test_checkpoints_come_in_one_run_and_groups_are_written_at_the_target(mirror: Mirror) -> None:
    mirror.write(0, 1000)
    mirror.run(mirror.config("Source"))
    _commit(mirror, mirror.origin, 1000)
    checkpoints = mirror.config("Checkpoint", sync_group_offsets_enabled="true")
    assert "task 0: 1 records" in mirror.run(checkpoints)
    assert 1000 <= _committed(mirror) <= mirror.runs.end_of(mirror.copy), "behind the last record, by the markers of transactions"
    assert "task 0: 0 records" in mirror.run(checkpoints)


def test_a_mirror_that_stays_copies_topics_that_appear_later(mirror: Mirror) -> None:
    config = mirror.config("Source", topics=f"{mirror.topic}.*", tasks_max="3", refresh_topics_interval_seconds="1")
    mirror.write(0, 10)
    with Connect(mirror.name, mirror.runs.worker) as connect:
        connect.add_connector(dict(line.split("=", 1) for line in config.read_text().splitlines()))
        wait_until(lambda: _end(mirror) >= 10)
        create_topic(mirror.origin, later := f"{mirror.topic}.later", 1)
        producer = Producer({"bootstrap.servers": mirror.origin})
        producer.produce(later, b"0")
        assert producer.flush(HANG_SECONDS) == 0
        copy = f"there.{later}"
        wait_until(lambda: copy in mirror.runs.topics_of(f"source-{mirror.name}"))
        assert mirror.runs.records(copy) == ["0"]
    assert mirror.copied() == [*range(10)]


def _commit(mirror: Mirror, bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": mirror.group})
    consumer.commit(offsets=[TopicPartition(mirror.topic, 0, offset)], asynchronous=False)
    consumer.close()


def _committed(mirror: Mirror) -> int:
    """The group's offset in the copy."""
    consumer = Consumer({"bootstrap.servers": mirror.runs.settings.bootstrap_servers, "group.id": mirror.group})
    [found] = consumer.committed([TopicPartition(mirror.copy, 0)], timeout=HANG_SECONDS)
    consumer.close()
    return int(found.offset)
