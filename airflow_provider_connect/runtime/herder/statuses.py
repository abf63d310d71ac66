"""The statuses that the herder writes: of connectors without a run, and of runs that will start soon."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from airflow_provider_connect.runtime.herder.plugin_facts import KnownPlugins
from airflow_provider_connect.runtime.herder.snapshot import Snapshot
from airflow_provider_connect.runtime.model.states import State, TargetState, connector_state_for, task_state_for
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.runtime.stores.status_notes import StatusNotes

WAIT_SECONDS = 0.9
"""How long a caller waits until its statuses are written. After that, they are retried in the background."""

_log = logging.getLogger(__name__)


class StatusKeeper:
    """Writes each status under the connector's newest claim, so that a fenced run cannot overwrite it. Each status contains
    ``worker_id``."""

    def __init__(self, notes: StatusNotes, plugins: KnownPlugins, *, worker_id: str) -> None:
        self._notes = notes
        self._plugins = plugins
        self._worker_id = worker_id

    def reach(
        self, snapshot: Snapshot, name: str, target: TargetState, *, tasks: Iterable[int] | None = None, keep_failed: bool = False
    ) -> None:
        """Write the statuses that the connector and its tasks have once ``target`` is reached. ``tasks`` None: the committed ones.
        ``keep_failed``: FAILED tasks stay FAILED when they are paused."""
        was = snapshot.statuses.connector(name)
        self.put_connector(snapshot, name, connector_state_for(target, None if was is None else was.state))
        numbers = {*(snapshot.configs.tasks(name) if tasks is None else tasks), *snapshot.statuses.task_map(name)}
        for number in sorted(numbers):
            known = snapshot.statuses.task(name, number)
            failed = known is not None and known.state is State.FAILED
            if not (failed and keep_failed and target is TargetState.PAUSED):
                self.put_task(snapshot, name, number, task_state_for(target, None if known is None else known.state))

    def put_obstacle(self, snapshot: Snapshot, name: str, obstacle: str) -> None:
        """Write UNASSIGNED, with the reason, for the connector and for its tasks: nothing runs them. FAILED statuses stay FAILED."""
        was = snapshot.statuses.connector(name)
        if was is None or was.state is not State.FAILED:
            if was is None or was.trace != obstacle:
                _log.warning("Connector %s is UNASSIGNED: %s", name, obstacle)
            self.put_connector(snapshot, name, State.UNASSIGNED, trace=obstacle)
        for number, task in snapshot.statuses.task_map(name).items():
            if task.state is not State.FAILED:
                self.put_task(snapshot, name, number, State.UNASSIGNED)
        self.flush()

    def put_connector(self, snapshot: Snapshot, name: str, state: State, *, trace: str | None = None, author: str | None = None) -> None:
        """Write a status, unless the connector already has this state and, if given, this ``trace``. ``author``: the user."""
        was = snapshot.statuses.connector(name)
        if was is None or was.state is not state or trace not in (None, was.trace):
            self._notes.put_connector(ConnectorStatus(name, state, **self._facts(snapshot, name, state, trace, was), author=author))

    def put_task(
        self, snapshot: Snapshot, name: str, task: int, state: State, *, trace: str | None = None, author: str | None = None
    ) -> None:
        """Write a status, unless the task already has this state. An unknown task counts as DESTROYED. ``author``: the user."""
        was = snapshot.statuses.task(name, task)
        if state is not (State.DESTROYED if was is None else was.state):
            self._notes.put_task(TaskStatus(name, task, state, **self._facts(snapshot, name, state, trace, was), author=author))

    def _facts(
        self, snapshot: Snapshot, name: str, state: State, trace: str | None, was: ConnectorStatus | TaskStatus | None
    ) -> dict[str, Any]:
        """The other fields of a status. FAILED and RESTARTING instances keep their trace."""
        if trace is None and was is not None and state in (State.FAILED, State.RESTARTING):
            trace = was.trace
        config, version = snapshot.configs.connector_config(name), None if was is None else was.version
        if config is not None:
            version = self._plugins.of(config).version or version
        return {"worker_id": self._worker_id, "trace": trace, "version": version, "claim": snapshot.configs.claims.get(name)}

    def remove(self, snapshot: Snapshot, name: str) -> None:
        """Write tombstones for all statuses of the connector, its tasks and its topics."""
        claim = snapshot.configs.claims.get(name)
        for task in snapshot.statuses.task_map(name):
            self._notes.put_task(TaskStatus(name, task, State.DESTROYED, claim=claim))
        for topic in snapshot.statuses.topics_of(name):
            self._notes.delete_topic(name, topic)
        self._notes.put_connector(ConnectorStatus(name, State.DESTROYED, claim=claim))

    def forget_topics(self, name: str, topics: Iterable[str], author: str | None = None) -> None:
        """Record that the connector no longer uses these topics. ``author``: the user who requested it, if any."""
        for topic in topics:
            self._notes.delete_topic(name, topic, author)

    def flush(self) -> bool:
        """Wait until the statuses are written, for at most ``WAIT_SECONDS``. False: not yet. They are retried later."""
        return self._notes.flush(WAIT_SECONDS)

    def metrics(self) -> dict[str, float]:
        """Metrics of the writes, by the names of group status-backing-store-metrics."""
        return self._notes.metrics()

    def close(self) -> None:
        self._notes.close()
