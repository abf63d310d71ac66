"""Connectors, tasks, statuses and workers as clients see them.

A view that has not changed is the same object as before, so its bytes may be cached. The bytes are valid while ``cached[0] is view``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from airflow_provider_connect.runtime.config.dag_settings import PREFIX
from airflow_provider_connect.runtime.herder.plugin_facts import KnownPlugins
from airflow_provider_connect.runtime.herder.snapshot import Snapshot
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.health import trouble_in_states
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusState, TaskStatus
from airflow_provider_connect.runtime.model.views import (
    ConnectorInfo,
    ConnectorStatusView,
    Health,
    HealthWord,
    RetainedWalView,
    StateView,
    TaskView,
    WorkerView,
)


class RetainedWal:
    """The WAL that databases retain for connectors, as of the last check. Safe to share between threads."""

    def __init__(self) -> None:
        self._views: Mapping[str, RetainedWalView] = {}

    def replace(self, views: Mapping[str, RetainedWalView]) -> None:
        """Replace all views by ``views``, which maps connectors to their views."""
        self._views = views

    def note(self, connector: str) -> str | None:
        """The warning for users of the connector. None: there is no warning."""
        view = self._views.get(connector)
        return None if view is None else view.note

    def retained_bytes(self) -> dict[str, int]:
        """By connector. Connectors whose slot has lost its WAL are left out."""
        return {name: view.held_bytes for name, view in self._views.items() if view.held_bytes is not None}


class ConnectorViews:
    """Creates the views. Safe to share between threads: concurrent views are equal, and either may be kept. ``warnings`` returns, by
    connector, what is wrong although the last run has succeeded."""

    def __init__(self, plugins: KnownPlugins, retained_wal: RetainedWal, warnings: Callable[[], Mapping[str, str]]) -> None:
        self._plugins = plugins
        self._warnings = warnings
        self._retained_wal = retained_wal
        self._infos: dict[str, tuple[Mapping[str, str], ConnectorInfo]] = {}
        self._statuses: dict[str, tuple[ConnectorStatus, Mapping[int, TaskStatus], ConnectorStatusView, Health | None]] = {}

    def info(self, state: ClusterConfigState, name: str) -> ConnectorInfo | None:
        """None: there is no such connector."""
        config = state.connector_configs.get(name)
        if config is None:
            self._infos.pop(name, None)
            return None
        tasks = 0 if name in state.inconsistent else state.task_counts.get(name, 0)
        kind = self._plugins.of(config).type
        known = self._infos.get(name)
        if known is None or known[0] is not config or len(known[1].tasks) != tasks or known[1].type != kind:
            ids = [ConnectorTaskId(name, task) for task in range(tasks)]
            known = self._infos[name] = (config, ConnectorInfo(name, visible_config(config), ids, kind))
        return known[1]

    def listed(self, snapshot: Snapshot) -> Iterator[tuple[ConnectorInfo, ConnectorStatusView | None]]:
        """Every connector with its status, if it has one."""
        infos = (self.info(snapshot.configs, name) for name in snapshot.configs.connector_configs)
        return ((info, self.status(snapshot, info.name)) for info in infos if info is not None)

    def attention(self, snapshot: Snapshot) -> Iterator[str]:
        """One sentence each for the connectors that have FAILED, that wait, and that deliver nothing. Names are left out, because not every
        user may read all connectors."""
        configs, statuses, warnings = snapshot.configs, snapshot.statuses, self._warnings()
        started = [name for name in configs.connector_configs if configs.target_state(name) is TargetState.STARTED]
        for count, what in (
            (sum(_has_failed(statuses, name) for name in started), "connectors have FAILED, or a task of theirs"),
            (
                sum(name in configs.notes or name in configs.long_calls for name in started),
                "running connectors need attention: what they use is not there, cannot be read, or does not answer",
            ),
            (sum(name in warnings for name in started), "running connectors need attention: their last run left out records that failed"),
        ):
            if count:
                yield f"{count} {what} (airflow connect top)."

    def status(self, snapshot: Snapshot, name: str) -> ConnectorStatusView | None:
        """None: no status is known. The status of a connector that was just deleted may still be known."""
        connector = snapshot.statuses.connectors.get(name)
        if connector is None:
            self._statuses.pop(name, None)
            return None
        tasks = snapshot.statuses.task_map(name)
        kind = self._plugins.of(snapshot.configs.connector_configs.get(name, {})).type
        noted = self._noted_trouble(snapshot, name)
        known = self._statuses.get(name)
        if known is None or known[0] is not connector or known[1] is not tasks or (known[2].type, known[3]) != (kind, noted):
            view = status_view(connector, tasks.values(), kind)
            view = replace(view, trouble=trouble_in_states(view.connector, view.tasks) or noted)
            known = self._statuses[name] = (connector, tasks, view, noted)
        return known[2]

    def _noted_trouble(self, snapshot: Snapshot, name: str) -> Health | None:
        for word, reason in (
            (HealthWord.STUCK, snapshot.configs.long_calls.get(name)),
            (HealthWord.MISSING, snapshot.configs.notes.get(name)),
            (HealthWord.REFUSING, self._warnings().get(name)),
            (HealthWord.BEHIND, self._retained_wal.note(name)),
        ):
            if reason is not None:
                return Health(word, reason)
        return None

    def forget_others(self, names: Collection[str]) -> None:
        """Drop the views of connectors that are not in ``names``, the existing connectors, because their configs may be large."""
        if len(self._infos) > len(names):
            self._infos = {name: known for name, known in list(self._infos.items()) if name in names}
        if len(self._statuses) > len(names):
            self._statuses = {name: status for name, status in list(self._statuses.items()) if name in names}


def visible_config(config: Mapping[str, str]) -> dict[str, str]:
    """A config as clients see it: without ``airflow.*`` keys, which configure the connector's DAG."""
    return {key: value for key, value in config.items() if not key.startswith(PREFIX)}


def status_view(connector: ConnectorStatus, tasks: Iterable[TaskStatus], kind: str) -> ConnectorStatusView:
    state = StateView(str(connector.state), connector.worker_id, connector.version, connector.trace or None)
    return ConnectorStatusView(connector.connector, state, [task_view(task) for task in tasks], kind)


def _has_failed(statuses: StatusState, name: str) -> bool:
    connector, tasks = statuses.connector(name), statuses.task_map(name).values()
    return (connector is not None and connector.state is State.FAILED) or any(task.state is State.FAILED for task in tasks)


def task_view(task: TaskStatus) -> TaskView:
    return TaskView(task.task, str(task.state), task.worker_id, task.version, task.trace or None)


def workers_of(snapshot: Snapshot, running: Iterable[str]) -> list[WorkerView]:
    """One view for each application of the connectors in ``running`` that has the newest claim and has reported a task.

    An application that is still starting is left out.
    """
    workers = []
    for name in sorted(running):
        claim = snapshot.configs.claims.get(name)
        hosted: dict[str, list[int]] = {}
        for status in snapshot.statuses.task_map(name).values():
            if claim is not None and status.claim == claim and status.state is State.RUNNING:
                hosted.setdefault(status.worker_id, []).append(status.task)
        workers += [WorkerView(worker, name, str(claim), tasks) for worker, tasks in sorted(hosted.items())]
    return workers
