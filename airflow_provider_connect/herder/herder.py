"""Kafka Connect's verbs over the stores: configs, target states, and the statuses of connectors that nobody runs.

Knows nothing of Airflow: what it needs of whoever starts runs is the ``Launcher`` protocol. Holds no state that another process lacks.
"""

from __future__ import annotations

import dataclasses
import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from airflow_provider_connect.errors import ConflictException, NotFoundException
from airflow_provider_connect.herder.launcher import Launcher
from airflow_provider_connect.model.cluster_state import ClusterConfigState
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.model.states import State, TargetState, connector_state_for, task_state_for
from airflow_provider_connect.model.status import ConnectorStatus, StatusState, TaskStatus
from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.stores.config_store import ConfigStore
from airflow_provider_connect.stores.status_store import StatusStore, StatusWriter

DEFINED_IN = "airflow.defined.in"
_WRITE_SECONDS = 10.0
_LOOK_SECONDS = 0.1

log = logging.getLogger(__name__)


class Herder:
    """See the module. ``worker_id`` stands in the statuses that the herder writes itself."""

    def __init__(self, settings: WorkerSettings, launcher: Launcher, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._launcher = launcher
        self._sleep = sleep
        self._configs = ConfigStore(settings)
        self._statuses = StatusStore(settings)
        self._worker_id = f"{socket.gethostname()}:0"

    def config_state(self) -> ClusterConfigState:
        """What the config topic says now."""
        return self._configs.read()

    def define_connector(self, name: str, config: Mapping[str, str], defined_in: str) -> None:
        """Create the connector that a DAG file defines, or change its config; nothing is written when the topic has it.

        Raises ConflictException when another file defines it.
        """
        known = self._configs.read().connector_config(name)
        if known == dict(config):
            return
        owner = None if known is None else known.get(DEFINED_IN)
        if owner is not None and owner != defined_in:
            log.info("Connector %s moves from %s to %s", name, owner, defined_in)
        self._configs.put_connector(name, config)

    def resume(self, name: str) -> None:
        """STARTED: the next run moves records again. Statuses say RUNNING at once, but for what has FAILED."""
        self._put_target(name, TargetState.STARTED)
        self._write_statuses(name, TargetState.STARTED)

    def pause(self, name: str) -> None:
        """PAUSED. A run in progress sees it, ends after its batch and writes its statuses itself; where none is, they are written here."""
        self._put_target(name, TargetState.PAUSED)
        if not self._launcher.is_running(name):
            self._write_statuses(name, TargetState.PAUSED)

    def stop(self, name: str) -> None:
        """STOPPED: 1 target state and an empty task set 2 a claim, which fences whatever lives 3 runs ended 4 statuses.

        Waits for the runs' end up to ``task.shutdown.graceful.timeout.ms`` and some; ConflictException if they have not ended by then.
        """
        tasks = self._configs.read().tasks(name)
        self._put_target(name, TargetState.STOPPED)  # 1
        claim = self._configs.claim(name)  # 2
        self._launcher.end(name)  # 3
        if not self._ended(name):
            raise ConflictException(f"Connector {name} is stopped, but its run has not ended yet; try again to have its statuses set")
        self._write_statuses(name, TargetState.STOPPED, claim=claim, tasks=tasks)  # 4

    def close(self) -> None:
        self._configs.close()
        self._statuses.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put_target(self, name: str, target: TargetState) -> None:
        try:
            self._configs.put_target_state(name, target)
        except NotFoundException as error:
            raise NotFoundException(f"Unknown connector {name}") from error

    def _ended(self, name: str) -> bool:
        limit = self._settings.task_shutdown_graceful_timeout_ms / 1000 + _WRITE_SECONDS
        for _ in range(int(limit / _LOOK_SECONDS)):
            if not self._launcher.is_running(name):
                return True
            self._sleep(_LOOK_SECONDS)
        return not self._launcher.is_running(name)

    def _write_statuses(self, name: str, target: TargetState, *, claim: Claim | None = None, tasks: Iterable[int] | None = None) -> None:
        """The connector's status and its tasks' once ``target`` is reached, under the newest claim."""
        state, known = self._configs.read(), self._statuses.read()
        claim = claim or state.claims.get(name)
        was = known.connector(name)
        with StatusWriter(self._settings, claim=claim) as writer:
            connector = connector_state_for(target, None if was is None else was.state)
            if was is None or was.state is not connector:
                version, trace = (None, None) if was is None else (was.version, was.trace if connector is State.FAILED else None)
                writer.put_connector(ConnectorStatus(name, connector, self._worker_id, trace=trace, version=version, claim=claim))
            numbers = {*(tasks if tasks is not None else state.tasks(name)), *(status.task for status in known.tasks_of(name))}
            for number in sorted(numbers):
                status = self._task_status(name, number, known, target)
                if status is not None:
                    writer.put_task(dataclasses.replace(status, claim=claim))
            writer.flush(_WRITE_SECONDS)

    def _task_status(self, name: str, number: int, known: StatusState, target: TargetState) -> TaskStatus | None:
        """The task's status once ``target`` is reached; None where it says so already."""
        was = known.task(name, number)
        state = task_state_for(target, None if was is None else was.state)
        if was is not None and was.state is state:
            return None
        return TaskStatus(name, number, state, self._worker_id, version=None if was is None else was.version)
