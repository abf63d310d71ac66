"""A herder on a worker group of its own, whose runs are made in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.views import ConfigKeyView, OffsetView, PluginView, Validation
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector
from tests.conftest import WorkerSettings as MakeProperties
from tests.integration.worker import plugins
from tests.integration.worker.environment import PLAIN, RunEnvironment

Pair = tuple[Mapping[str, object] | None, Mapping[str, object] | None]
Shown = tuple[Mapping[str, object], Mapping[str, object] | None]


class RunsByHand:
    """A launcher whose runs are the test's affair: it records what was asked of it, and reports that those in ``alive`` live."""

    def __init__(self) -> None:
        self.alive: set[str] = set()
        self.triggered: list[str] = []
        self.on_poll: Callable[[], None] = lambda: None

    def is_running(self, connector: str) -> bool:
        self.on_poll()
        return connector in self.alive

    def running(self) -> dict[str, Sequence[str]]:
        return dict.fromkeys(sorted(self.alive), ())

    def end(self, connector: str, *_: object, **__: object) -> None:
        self.alive.discard(connector)

    def trigger(self, connector: str, tasks: Sequence[int] | None = None) -> None:
        self.triggered.append(connector)

    def obstacle(self, connector: str | None = None) -> str | None:
        return None

    def forget(self, connector: str) -> None:
        self.alive.discard(connector)


class AskedHere:
    """A probe that asks the connector's own code in this process; ``asked`` notes what it was asked."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self.asked: list[Sequence[Pair]] = []
        self.before: Callable[[], None] = lambda: None

    def alter_offsets(self, connector: str, config: Mapping[str, str], offsets: Sequence[Pair]) -> bool:
        self.asked.append(offsets)
        self.before()
        checked = check_connector(connector, config, self._settings, {})
        if checked.is_source:
            return checked.connector.alter_offsets(config, offsets)
        positions = {
            TopicPartition(str((partition or {})["kafka_topic"]), int(str((partition or {})["kafka_partition"]))): offset
            and int(str(offset["kafka_offset"]))
            for partition, offset in offsets
        }
        return checked.connector.alter_offsets(config, positions)

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        return Validation.counted(plugin, [])

    def config_keys(self, plugin: str, version: str | None = None, location: str | None = None) -> Sequence[ConfigKeyView]:
        return []

    def plugins(self, connectors_only: bool = True) -> Sequence[PluginView]:
        return []


@pytest.fixture
def environment(tmp_path: Path, worker_settings: MakeProperties, unique: str, monkeypatch: pytest.MonkeyPatch) -> RunEnvironment:
    """A worker group with text converters, the test plugins installed, its topics made."""
    plugins.install(tmp_path / "plugins")
    monkeypatch.syspath_prepend(str(tmp_path / "plugins"))
    environment = RunEnvironment(worker_settings() | PLAIN, f"c-{unique}", tmp_path)
    TopicAdmin(environment.settings).ensure_internal_topics()
    return environment


@pytest.fixture
def launcher() -> RunsByHand:
    return RunsByHand()


@pytest.fixture
def probe(environment: RunEnvironment) -> AskedHere:
    return AskedHere(environment.settings)


@pytest.fixture
def herder(environment: RunEnvironment, launcher: RunsByHand, probe: AskedHere) -> Iterator[Herder]:
    herder = Herder(environment.settings, launcher, probe=probe)
    yield herder
    herder.close()


def views(*pairs: Pair) -> list[OffsetView]:
    return [OffsetView(partition, offset) for partition, offset in pairs]


def shown(offsets: Sequence[OffsetView]) -> list[Shown]:
    """As JSON has them, in an order of their own."""
    found: list[Shown] = [(dict(view.partition or {}), None if view.offset is None else dict(view.offset)) for view in offsets]
    return ordered(found)


def ordered(pairs: Sequence[Shown]) -> list[Shown]:
    return sorted(pairs, key=lambda pair: json.dumps(pair, sort_keys=True))
