"""The statuses that the herder writes itself: of connectors that nobody runs at the moment, and of what is about to run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from airflow_provider_connect.herder.plugin_facts import KnownPlugins
from airflow_provider_connect.herder.snapshot import Snapshot
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.model.states import State, TargetState, connector_state_for, task_state_for
from airflow_provider_connect.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.stores.status_notes import StatusNotes

WAIT_SECONDS = 0.9
"""How long a caller waits for its statuses to be on the topic; they are tried again behind its back after that."""


class StatusKeeper:
    """Writes through one writer, under each connector's newest claim, so that a run that was fenced since cannot say otherwise.

    Nothing is written that is so already. ``worker_id`` stands in what is written.
    """

    def __init__(self, notes: StatusNotes, plugins: KnownPlugins, *, worker_id: str) -> None:
        self._notes = notes
        self._plugins = plugins
        self._worker_id = worker_id

    def reach(
        self, snapshot: Snapshot, name: str, target: TargetState, *, tasks: Iterable[int] | None = None, keep_failed: bool = False
    ) -> None:
        """The connector's status and its tasks' once ``target`` is reached. ``tasks`` are those that there were, if not the committed ones;
        ``keep_failed``: tasks that have FAILED stay so when they are paused."""
        was = snapshot.statuses.connector(name)
        self.put_connector(snapshot, name, connector_state_for(target, None if was is None else was.state))
        numbers = {*(snapshot.configs.tasks(name) if tasks is None else tasks), *snapshot.statuses.task_map(name)}
        for number in sorted(numbers):
            known = snapshot.statuses.task(name, number)
            failed = known is not None and known.state is State.FAILED
            if not (failed and keep_failed and target is TargetState.PAUSED):
                self.put_task(snapshot, name, number, task_state_for(target, None if known is None else known.state))

    def hold_up(self, snapshot: Snapshot, name: str, obstacle: str) -> None:
        """UNASSIGNED, as nothing can run them: the connector, with the reason, and its tasks. What has FAILED stays FAILED."""
        was = snapshot.statuses.connector(name)
        if was is None or was.state is not State.FAILED:
            self.put_connector(snapshot, name, State.UNASSIGNED, trace=obstacle)
        for number, task in snapshot.statuses.task_map(name).items():
            if task.state is not State.FAILED:
                self.put_task(snapshot, name, number, State.UNASSIGNED)

    def put_connector(self, snapshot: Snapshot, name: str, state: State, *, trace: str | None = None) -> None:
        """A trace that is known stays with a connector that is FAILED, or restarts because it was."""
        was = snapshot.statuses.connector(name)
        if was is not None and was.state is state and trace in (None, was.trace):
            return
        if was is not None and trace is None and state in (State.FAILED, State.RESTARTING):
            trace = was.trace
        claim = _claim(snapshot, name)
        version = self._version(snapshot, name, None if was is None else was.version)
        self._notes.put_connector(ConnectorStatus(name, state, self._worker_id, trace=trace, version=version, claim=claim))

    def put_refused(self, snapshot: Snapshot, name: str, trace: str) -> None:
        """FAILED with ``trace``, in place of any other status of the connector, a FAILED one with another trace included."""
        was = snapshot.statuses.connector(name)
        if was is None or (was.state, was.trace) != (State.FAILED, trace):
            claim = _claim(snapshot, name)
            version = self._version(snapshot, name, None if was is None else was.version)
            self._notes.put_connector(ConnectorStatus(name, State.FAILED, self._worker_id, trace=trace, version=version, claim=claim))

    def put_task(self, snapshot: Snapshot, name: str, task: int, state: State, *, trace: str | None = None) -> None:
        was = snapshot.statuses.task(name, task)
        if was is not None and was.state is state:
            return
        if was is None and state is State.DESTROYED:
            return
        if was is not None and trace is None and state in (State.FAILED, State.RESTARTING):
            trace = was.trace
        version = self._version(snapshot, name, None if was is None else was.version)
        claim = _claim(snapshot, name)
        self._notes.put_task(TaskStatus(name, task, state, self._worker_id, trace=trace, version=version, claim=claim))

    def remove(self, snapshot: Snapshot, name: str) -> None:
        """Tombstones for all that the status topic knows of the connector: its own, its tasks', its topics'."""
        claim = _claim(snapshot, name)
        for task in snapshot.statuses.task_map(name):
            self._notes.put_task(TaskStatus(name, task, State.DESTROYED, claim=claim))
        for topic in snapshot.statuses.topics_of(name):
            self._notes.delete_topic(name, topic)
        self._notes.put_connector(ConnectorStatus(name, State.DESTROYED, claim=claim))

    def forget_topics(self, name: str, topics: Iterable[str]) -> None:
        """The connector no longer uses these topics."""
        for topic in topics:
            self._notes.delete_topic(name, topic)

    def flush(self) -> bool:
        """Wait until it is written, at most ``WAIT_SECONDS``. False: it is not yet, and is tried again later."""
        return self._notes.flush(WAIT_SECONDS)

    def metrics(self) -> dict[str, float]:
        """How the writes went, by the names of group status-backing-store-metrics."""
        return self._notes.metrics()

    def close(self) -> None:
        self._notes.close()

    def _version(self, snapshot: Snapshot, name: str, known: str | None) -> str | None:
        config = snapshot.configs.connector_config(name)
        return known if config is None else self._plugins.of(config).version or known


def _claim(snapshot: Snapshot, name: str) -> Claim | None:
    return snapshot.configs.claims.get(name)


def with_claim(snapshot: Snapshot, name: str, claim: Claim) -> Snapshot:
    """The snapshot with a claim that was made after it."""
    configs = dataclasses.replace(snapshot.configs, claims={**snapshot.configs.claims, name: claim})
    return Snapshot(configs, snapshot.statuses)
