"""The mirror connectors as the framework relies on them, and the example DAGs of the documentation."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.connectors.mirror_maker.checkpoint import MirrorCheckpointConnector
from airflow_provider_connect.connectors.mirror_maker.heartbeat import MirrorHeartbeatConnector
from airflow_provider_connect.connectors.mirror_maker.source import MirrorSourceConnector
from airflow_provider_connect.connectors.mirror_maker.wire import Checkpoint
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.worker.delivery.kafka_ranges import KafkaRanges
from airflow_provider_connect.runtime.worker.delivery.librdkafka import load_librdkafka
from airflow_provider_connect.sdk.task import RangeReader, SourceTask
from airflow_provider_connect.sdk.testing import MemorySourceContext, SourceConnectorSuite
from airflow_provider_connect.sdk.testing.calls import start_task
from airflow_provider_connect.sdk.testing.contexts import MemoryConnectorContext, Offsets
from airflow_provider_connect.sdk.testing.sources import ConnectorSuite
from tests.example_dags import configs_of
from tests.integration.mirror_maker.mirror import MirrorEnvironment, produce, records, topics
from tests.integration.worker.environment import commit_by_hand, make_topic
from tests.waiting import HANG_SECONDS


class ReadingContext(MemorySourceContext):
    """With the worker's reader."""

    def read_ranges(self, client_config: Mapping[str, Any] | None, ranges: Mapping[TopicPartition, tuple[int, int]]) -> RangeReader:
        assert client_config is not None
        return KafkaRanges(client_config, ranges, library=load_librdkafka(), on_lost=self.note_lost)


class TestMirrorSource(SourceConnectorSuite):
    connector_class = MirrorSourceConnector

    @pytest.fixture(autouse=True)
    def topic(self, mirror: MirrorEnvironment) -> None:
        self.mirror, self.written = mirror, 0
        self.name = mirror.topic(partitions=2)

    def config(self) -> dict[str, str]:
        return self.mirror.config()

    def tasks(self, offsets: Offsets | None = None, max_tasks: int = 1) -> list[SourceTask]:
        connector = self.connector()
        return [
            start_task(connector, config, ReadingContext(config, offsets), self.allowed_paths) for config in self.task_configs(max_tasks)
        ]

    def write_to_source(self, count: int) -> None:
        numbers = range(self.written, self.written + count)
        produce(self.mirror.origin, self.name, [(n % 2, b"%d" % n, b"value %d" % n, [], int(time.time() * 1000)) for n in numbers])
        self.written += count


class TestMirrorCheckpoint(ConnectorSuite):
    connector_class = MirrorCheckpointConnector

    @pytest.fixture(autouse=True)
    def group(self, mirror: MirrorEnvironment) -> None:
        self.mirror = mirror
        for number in range(3):
            commit_by_hand(mirror.origin, f"{mirror.unique}-{number}", {TopicPartition(mirror.topic(f"{number}"), 0): 0})

    def config(self) -> dict[str, str]:
        return self.mirror.config("MirrorCheckpoint", groups=f"{self.mirror.unique}.*")

    def test_groups_are_dealt_out_to_the_tasks(self) -> None:
        assert [config["task.assigned.groups"].count(self.mirror.unique) for config in self.task_configs(2)] == [2, 1]


class TestMirrorHeartbeat(ConnectorSuite):
    connector_class = MirrorHeartbeatConnector

    @pytest.fixture(autouse=True)
    def clusters(self, mirror: MirrorEnvironment) -> None:
        self.mirror = mirror

    def config(self) -> dict[str, str]:
        return self.mirror.config("MirrorHeartbeat")


def test_the_examples_mirror_a_topic_and_its_groups(mirror: MirrorEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_EXAMPLE_SOURCE_BOOTSTRAP", mirror.origin)
    monkeypatch.setenv("CONNECT_EXAMPLE_TARGET_BOOTSTRAP", mirror.target)
    configs = configs_of(monkeypatch, "example_mirror_source.py")
    if "example-orders" not in AdminClient({"bootstrap.servers": mirror.origin}).list_topics(timeout=HANG_SECONDS).topics:
        make_topic(mirror.origin, "example-orders")
    produce(mirror.origin, "example-orders", [(0, b"k", b"order", [("h", b"1")], int(time.time() * 1000))])
    group = f"example-{mirror.unique}"
    commit_by_hand(mirror.origin, group, {TopicPartition("example-orders", 0): 1})
    assert list(configs) == ["example-mirror-source", "example-mirror-checkpoint", "example-mirror-heartbeat"]
    for name, config in configs.items():
        dataclasses.replace(mirror, runs=dataclasses.replace(mirror.runs, connector=name)).run(config)
    assert records(mirror.target, "shop.example-orders") == records(mirror.origin, "example-orders")
    checkpoints = [Checkpoint.of(key or b"", value or b"") for _, key, value, _, _ in records(mirror.target, "shop.checkpoints.internal")]
    assert group in [checkpoint.group for checkpoint in checkpoints]
    assert len(records(mirror.target, "heartbeats")) > 0


def test_a_preview_changes_nothing(mirror: MirrorEnvironment) -> None:
    """Tasks are planned and started, and neither topics nor offset syncs are written."""
    topic = mirror.topic()
    produce(mirror.origin, topic, [(0, None, b"one", [], int(time.time() * 1000))])
    connector = MirrorSourceConnector()
    context = MemoryConnectorContext("preview")
    context.is_preview = True
    connector.initialize(context)
    connector.start(connector.config_def.parse(mirror.config()))
    [config] = connector.task_configs(1)
    assert config["task.assigned.partitions"] == f"{topic}-0"
    assert mirror.remote(topic) not in topics(mirror.target)
