"""Offsets of a Java sink over the herder: the connector's own ``alterOffsets`` is asked before its group changes (KIP-875)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.integration.herder.conftest import RunsByHand, shown, views
from tests.integration.worker.environment import commit_by_hand
from tests.java_plugins import compiled_plugin
from tests.kafka_topics import create_topic

SINK = "org.example.KeepingSinkConnector"
SLOW_MACHINE_MS = "300000"


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a Java sink of the test's own."""
    return compiled_plugin(tmp_path_factory.mktemp("compiled"), SINK, "sink.SinkConnector")


class GroupSeenProbe(PluginProbe):
    """Notes the group's offsets whenever it asks a connector about some."""

    def __init__(self, settings: WorkerSettings, committed: Callable[[], dict[int, int]]) -> None:
        super().__init__(settings)
        self.committed = committed
        self.seen: list[dict[int, int]] = []

    def alter_offsets(self, connector: str, config: Mapping[str, str], offsets: Sequence[Any] | None) -> bool:
        self.seen.append(self.committed())
        return super().alter_offsets(connector, config, offsets)


@pytest.fixture
def sink(plugin_path: Path, worker_settings: Callable[..., dict[str, str]], unique: str) -> Iterator[tuple[Herder, GroupSeenProbe]]:
    """A stopped sink called as its topic of two partitions, whose group has committed 5 and 7."""
    allowed = {"plugin.path": str(plugin_path), "java.allowed.locations": str(plugin_path), "plugin.probe.timeout.ms": SLOW_MACHINE_MS}
    settings = WorkerSettings.of({**worker_settings(), **allowed})
    TopicAdmin(settings).ensure_internal_topics()
    create_topic(settings.bootstrap_servers, unique, 2)
    commit_by_hand(settings.bootstrap_servers, f"connect-{unique}", {TopicPartition(unique, 0): 5, TopicPartition(unique, 1): 7})
    connection = AdminConnection.of(settings)
    groups = GroupOffsets(settings, connection=connection)

    def committed() -> dict[int, int]:
        return {partition.partition: known.offset for partition, known in groups.committed(f"connect-{unique}").items()}

    with GroupSeenProbe(settings, committed) as probe, Herder(settings, RunsByHand(), probe=probe) as herder:
        yield herder, probe
    connection.close()


def test_a_java_sink_is_asked_before_its_group_changes(sink: tuple[Herder, GroupSeenProbe], unique: str, tmp_path: Path) -> None:
    herder, probe = sink
    noted = tmp_path / "noted"
    herder.create_connector(unique, {"connector.class": SINK, "topics": unique, "file": str(noted)}, TargetState.STOPPED)

    def change(first: int | None, second: int | None) -> str:
        offsets = [None if offset is None else {"kafka_offset": offset} for offset in (first, second)]
        return herder.alter_offsets(
            unique, views(*(({"kafka_topic": unique, "kafka_partition": number}, offset) for number, offset in enumerate(offsets)))
        )

    assert change(3, 100).endswith("altered successfully")
    with pytest.raises(BadRequestException, match=f"offset 101 of {unique}-1 is beyond 100"):
        change(1, 101)
    assert probe.committed() == {0: 3, 1: 100}
    assert change(None, 9).endswith("altered successfully")
    assert shown(herder.offsets(unique)) == [({"kafka_topic": unique, "kafka_partition": 1}, {"kafka_offset": 9})]
    assert herder.reset_offsets(unique).endswith("reset successfully")
    assert probe.committed() == {}
    assert probe.seen == [{0: 5, 1: 7}, {0: 3, 1: 100}, {0: 3, 1: 100}, {1: 9}]
    assert noted.read_text().splitlines() == [
        f"{{{unique}-0=3, {unique}-1=100}}",
        f"{{{unique}-0=null, {unique}-1=9}}",
        f"{{{unique}-1=null}}",
    ]
