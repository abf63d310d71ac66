"""Restarts (KIP-745): plans a restart from the statuses, returns the plan, and starts a run that executes it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_provider_connect.errors import ConnectException, NotFoundException, first_line
from airflow_provider_connect.runtime.herder.lifecycle import Lifecycle, wait_until
from airflow_provider_connect.runtime.herder.plugin_facts import KnownPlugins
from airflow_provider_connect.runtime.herder.ports import Launcher
from airflow_provider_connect.runtime.herder.snapshot import Snapshot, Topics
from airflow_provider_connect.runtime.herder.statuses import StatusKeeper
from airflow_provider_connect.runtime.herder.views import status_view
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import RestartRecord
from airflow_provider_connect.runtime.model.states import State, TargetState, connector_state_for, task_state_for
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.runtime.model.views import ConnectorStatusView

_START_SECONDS = 80.0  # REST ends a request after 90 s


class Restarts:
    """See the module. A run in progress is fenced first. It ends after its batch, then the new run starts."""

    def __init__(
        self,
        topics: Topics,
        statuses: StatusKeeper,
        lifecycle: Lifecycle,
        launcher: Launcher,
        plugins: KnownPlugins,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._configs, self._reader = topics
        self._statuses = statuses
        self._lifecycle = lifecycle
        self._launcher = launcher
        self._plugins = plugins
        self._sleep = sleep

    def connector(self, request: RestartRequest) -> ConnectorStatusView:
        """Returns the statuses, with RESTARTING for each instance that restarts. Without ``include_tasks`` and ``only_failed``, it waits
        until a FAILED connector has been started again.

        Raises NotFoundException, and ConnectException with the cause if that start has failed.
        """
        name = request.connector
        snapshot = self._snapshot(name)
        if snapshot.statuses.connector(name) is None and not request.has_flags:
            self._lifecycle.created(name)
            snapshot = self._reader.read()
        plan = restart_plan(request, snapshot.statuses.connector(name), snapshot.statuses.task_map(name).values())
        if request.has_flags:
            self._configs.put_restart(request.record)
        starts = self._carry_out(plan, snapshot.configs.target_state(name))
        if starts and not request.has_flags:
            self._wait_for_start(name)
        config = snapshot.configs.connector_configs[name]
        return status_view(plan.connector, plan.tasks, self._plugins.of(config).type)

    def task(self, name: str, task: int, author: str | None = None) -> None:
        """Restart one task for ``author``. Raises NotFoundException."""
        snapshot = self._snapshot(name)
        if task not in snapshot.configs.tasks(name):
            raise NotFoundException(f"Unknown task: {ConnectorTaskId(name, task)}")
        if snapshot.configs.target_state(name) is TargetState.STARTED:
            self._restart(name, tasks=[task], with_connector=False, author=author)

    def _snapshot(self, name: str) -> Snapshot:
        snapshot = self._reader.read()
        if name not in snapshot.configs:
            raise NotFoundException(f"Unknown connector: {name}")
        return snapshot

    def _carry_out(self, plan: RestartPlan, target: TargetState | None) -> bool:
        """Carry out the plan. Returns whether a run starts."""
        name, author = plan.request.connector, plan.request.author
        if plan.is_empty or target is None:
            return False
        if target is TargetState.STARTED:
            return self._restart(name, tasks=plan.task_ids, with_connector=plan.restarts_connector, author=author)
        self._reach_target(plan, target)
        return False

    def _restart(self, name: str, *, tasks: list[int], with_connector: bool, author: str | None) -> bool:
        """Steps: 1 fence living runs; 2 write the statuses; 3 start a run. ``tasks`` run even if nothing is new. Without ``tasks``, the run
        checks for work. False: no run can start.

        Without tasks, a connector becomes RESTARTING only if it has FAILED, because between runs nothing else of it could restart.
        """
        self._lifecycle.interrupt(name)  # 1
        if self._lifecycle.report_obstacle(name):
            return False
        snapshot = self._reader.read()
        was = snapshot.statuses.connector(name)
        if with_connector and was is not None and (tasks or was.state is State.FAILED):  # 2
            self._statuses.put_connector(snapshot, name, State.RESTARTING, author=author)
        for task in tasks:
            self._statuses.put_task(snapshot, name, task, State.RESTARTING, author=author)
        self._statuses.flush()
        self._launcher.trigger(name, tasks or None)  # 3
        return True

    def _wait_for_start(self, name: str) -> None:
        """Wait until the connector is no longer RESTARTING: a run has started it, or has found nothing to start."""
        seen: list[ConnectorStatus | None] = []

        def has_started() -> bool:
            seen[:] = [self._reader.read().statuses.connector(name)]
            return seen[0] is None or seen[0].state is not State.RESTARTING

        if not wait_until(has_started, _START_SECONDS, self._sleep):
            raise ConnectException("Request timed out. The run that starts the connector has not done so yet")
        if (status := seen[0]) is not None and status.state is State.FAILED:
            cause = first_line(status.trace or "")
            raise ConnectException(": ".join(filter(None, [f"Failed to start connector: {name}", cause])))

    def _reach_target(self, plan: RestartPlan, target: TargetState) -> None:
        """A restarted instance of a paused or stopped connector gets that state again immediately, and is no longer FAILED."""
        name, author, snapshot = plan.request.connector, plan.request.author, self._reader.read()
        if plan.restarts_connector:
            self._statuses.put_connector(snapshot, name, connector_state_for(target), author=author)
        for task in plan.task_ids:
            self._statuses.put_task(snapshot, name, task, task_state_for(target), author=author)
        self._statuses.flush()


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A restart that ``author`` requests. By default, only the connector restarts, in any state."""

    connector: str
    only_failed: bool = False
    include_tasks: bool = False
    author: str | None = None

    @property
    def record(self) -> RestartRecord:
        return RestartRecord(self.connector, self.include_tasks, self.only_failed, author=self.author)

    @property
    def has_flags(self) -> bool:
        """If a flag is set, the response comes immediately and lists what will restart. Otherwise the response comes after the restart."""
        return self.only_failed or self.include_tasks

    def concerns(self, status: ConnectorStatus | TaskStatus) -> bool:
        """Whether the instance of this status restarts."""
        if isinstance(status, TaskStatus) and not self.include_tasks:
            return False
        return not self.only_failed or status.state is State.FAILED


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """The effect of a request. ``connector`` and ``tasks`` are the statuses of the response: RESTARTING, with the old trace, for instances
    that restart, and unchanged for the others."""

    request: RestartRequest
    connector: ConnectorStatus
    tasks: list[TaskStatus]

    @property
    def restarts_connector(self) -> bool:
        return self.connector.state is State.RESTARTING

    @property
    def task_ids(self) -> list[int]:
        """The tasks that restart."""
        return [task.task for task in self.tasks if task.state is State.RESTARTING]

    @property
    def is_empty(self) -> bool:
        return not self.restarts_connector and not self.task_ids


def restart_plan(request: RestartRequest, connector: ConnectorStatus | None, tasks: Iterable[TaskStatus]) -> RestartPlan:
    """The plan for ``request``, given the statuses. Raises NotFoundException for a connector without a status."""
    if connector is None:
        raise NotFoundException(f"Status for connector {request.connector} not found")
    if request.concerns(connector):
        connector = dataclasses.replace(connector, state=State.RESTARTING)
    planned = [dataclasses.replace(task, state=State.RESTARTING) if request.concerns(task) else task for task in tasks]
    return RestartPlan(request, connector, planned)
