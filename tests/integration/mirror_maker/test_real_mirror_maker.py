"""Mirroring goes from a real MirrorMaker 2 to us and back, on the same topics; each goes on exactly where the other ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_connect.connectors.mirror_maker.wire import Checkpoint
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.benchmark.connect_peer import ConnectWorker, mirror_plugins
from tests.conftest import CACHE
from tests.e2e.test_handover import QUICK, our_properties
from tests.integration.mirror_maker.mirror import MirrorEnvironment, Sent, produce, records, topics
from tests.integration.worker.environment import RunEnvironment, commit_by_hand
from tests.waiting import wait_until

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
REAL = {
    "key_converter": BYTES,
    "value_converter": BYTES,
    "header_converter": BYTES,
    "refresh_topics_interval_seconds": "1",
    "refresh_groups_interval_seconds": "1",
    "emit_checkpoints_interval_seconds": "1",
    "consumer_isolation_level": "read_committed",
}


class Journey:
    """A mirrored topic, one group that stands at its end after each leg, and both sides' connectors."""

    def __init__(self, folder: Path, bootstrap: str, origin: str, unique: str) -> None:
        group = f"mm-{unique}"
        properties = our_properties(bootstrap, group, exactly_once=True)
        self.source, self.checkpoint = (
            MirrorEnvironment(RunEnvironment(properties, f"{kind}-{unique}", folder), origin, unique, f"o{unique[-6:]}") for kind in "sc"
        )
        java = find_java(cache=CACHE)
        more = {**QUICK, "plugin.path": str(mirror_plugins(CACHE, java)), "plugin.discovery": "service_load"}  # a scan opens eighty jars
        self.worker = ConnectWorker(folder / group, CACHE, java, bootstrap, exactly_once=False, more=more)
        self.topic, self.sent = self.source.topic(partitions=2), list[Sent]()
        self.group = f"readers-{unique}"

    def write(self, count: int) -> None:
        """More records at the source; the group has read all of them."""
        new: list[Sent] = [
            (number % 2, b"k%d" % number, b"v%d" % number, [("h", b"\xff"), ("n", None)], int(time.time() * 1000))
            for number in range(len(self.sent), len(self.sent) + count)
        ]
        produce(self.source.origin, self.topic, new)
        self.sent += new
        commit_by_hand(self.source.origin, self.group, {TopicPartition(self.topic, number): len(self.sent) // 2 for number in (0, 1)})

    def configs(self) -> list[tuple[MirrorEnvironment, dict[str, str]]]:
        chosen = {"groups": self.group, "topics": f"{self.source.unique}.*", "sync_group_offsets_enabled": "true"}
        return [(self.source, self.source.config(**REAL)), (self.checkpoint, self.checkpoint.config("MirrorCheckpoint", **REAL, **chosen))]

    def here(self) -> None:
        TopicAdmin(self.source.runs.settings).ensure_internal_topics()
        for environment, config in self.configs():
            environment.run(config)

    @contextmanager
    def with_mirror_maker(self) -> Iterator[None]:
        with self.worker.started() as worker:
            for environment, config in self.configs():
                worker.request("PUT", f"/connectors/{environment.runs.connector}/config", config)
            yield

    def arrived(self) -> list[Sent]:
        remote = self.source.remote(self.topic)
        return records(self.source.target, remote) if remote in topics(self.source.target) else []

    def last_upstream(self) -> dict[int, int]:
        """Of each partition, the group's last checkpoint."""
        name = f"{self.source.alias}.checkpoints.internal"
        found = records(self.source.target, name) if name in topics(self.source.target) else []
        checkpoints = [Checkpoint.of(key or b"", value or b"") for _, key, value, _, _ in found]
        return {one.partition: one.upstream for one in checkpoints}

    def is_whole(self) -> bool:
        half = len(self.sent) // 2
        return len(self.arrived()) >= len(self.sent) and self.last_upstream() == {0: half, 1: half}

    def check(self) -> None:
        assert self.arrived() == sorted(self.sent, key=lambda record: record[0])
        assert self.last_upstream() == dict.fromkeys((0, 1), len(self.sent) // 2)


@pytest.mark.soak
def test_there_and_back(tmp_path: Path, bootstrap: str, origin: str, unique: str) -> None:
    journey = Journey(tmp_path, bootstrap, origin, unique)
    for count in (20, 40):
        journey.write(count)
        with journey.with_mirror_maker():
            wait_until(journey.is_whole)
        journey.check()
        if count == 20:
            journey.write(10)
            journey.here()
            journey.check()
