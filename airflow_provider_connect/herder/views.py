"""Connectors, tasks and statuses as readers see them. An answer that has not changed is the very same object as before.

So whoever turns answers into bytes may keep the bytes beside the object: ``cached[0] is view`` says that they still hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_connect.herder.plugin_facts import KnownPlugins
from airflow_provider_connect.herder.snapshot import Snapshot
from airflow_provider_connect.model.cluster_state import ClusterConfigState
from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.model.views import ConnectorInfo, ConnectorStatusView, StateView, TaskView

OWN_PREFIX = "airflow."


@dataclass(frozen=True, slots=True)
class _KnownInfo:
    config: Mapping[str, str]
    tasks: int
    type: str
    view: ConnectorInfo


@dataclass(frozen=True, slots=True)
class _KnownStatus:
    connector: ConnectorStatus
    tasks: Mapping[int, TaskStatus]
    type: str
    view: ConnectorStatusView


class ConnectorViews:
    """Makes the views. Safe to share between threads: a view that two make at once is equal, and either may be kept."""

    def __init__(self, plugins: KnownPlugins) -> None:
        self._plugins = plugins
        self._infos: dict[str, _KnownInfo] = {}
        self._statuses: dict[str, _KnownStatus] = {}

    def info(self, state: ClusterConfigState, name: str) -> ConnectorInfo | None:
        """None: no such connector."""
        config = state.connector_configs.get(name)
        if config is None:
            self._infos.pop(name, None)
            return None
        tasks = 0 if name in state.inconsistent else state.task_counts.get(name, 0)
        kind = self._plugins.of(config).type
        known = self._infos.get(name)
        if known is None or known.config is not config or known.tasks != tasks or known.type != kind:
            ids = [ConnectorTaskId(name, task) for task in range(tasks)]
            known = _KnownInfo(config, tasks, kind, ConnectorInfo(name, shown(config), ids, kind))
            self._infos[name] = known
        return known.view

    def status(self, snapshot: Snapshot, name: str) -> ConnectorStatusView | None:
        """None: no status is known; that of a connector just deleted still is."""
        connector = snapshot.statuses.connectors.get(name)
        if connector is None:
            self._statuses.pop(name, None)
            return None
        tasks = snapshot.statuses.task_map(name)
        config = snapshot.configs.connector_configs.get(name)
        kind = self._plugins.of({} if config is None else config).type
        known = self._statuses.get(name)
        if known is None or known.connector is not connector or known.tasks is not tasks or known.type != kind:
            known = _KnownStatus(connector, tasks, kind, status_view(connector, tasks.values(), kind))
            self._statuses[name] = known
        return known.view


def shown(config: Mapping[str, str]) -> dict[str, str]:
    """A config as clients see it: without the keys that only steer the connector's DAG."""
    return {key: value for key, value in config.items() if not key.startswith(OWN_PREFIX)}


def status_view(connector: ConnectorStatus, tasks: Iterable[TaskStatus], kind: str) -> ConnectorStatusView:
    state = StateView(str(connector.state), connector.worker_id, connector.version, connector.trace or None)
    return ConnectorStatusView(connector.connector, state, [task_view(task) for task in tasks], kind)


def task_view(task: TaskStatus) -> TaskView:
    return TaskView(task.task, str(task.state), task.worker_id, task.version, task.trace or None)
