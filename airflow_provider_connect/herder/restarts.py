"""Restarts (KIP-745): what a request restarts is planned from the statuses, told, and carried out by a run."""

from __future__ import annotations

from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.herder.launcher import Launcher
from airflow_provider_connect.herder.lifecycle import Lifecycle
from airflow_provider_connect.herder.plugin_facts import KnownPlugins
from airflow_provider_connect.herder.snapshot import Snapshot, Topics
from airflow_provider_connect.herder.statuses import StatusKeeper
from airflow_provider_connect.herder.views import status_view
from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.restart import RestartPlan, RestartRequest, restart_plan
from airflow_provider_connect.model.states import State, TargetState, connector_state_for, task_state_for
from airflow_provider_connect.model.views import ConnectorStatusView


class Restarts:
    """See the module. A run in progress is fenced first: it ends after its batch, and the new one starts behind it."""

    def __init__(self, topics: Topics, statuses: StatusKeeper, lifecycle: Lifecycle, launcher: Launcher, plugins: KnownPlugins) -> None:
        self._configs, self._reader = topics
        self._statuses = statuses
        self._lifecycle = lifecycle
        self._launcher = launcher
        self._plugins = plugins

    def connector(self, request: RestartRequest) -> ConnectorStatusView:
        """Returns the statuses with RESTARTING for all that restarts. Raises NotFoundException."""
        name = request.connector
        snapshot = self._snapshot(name)
        if snapshot.statuses.connector(name) is None and not request.has_flags:
            self._lifecycle.created(name)
            snapshot = self._reader.read()
        plan = restart_plan(request, snapshot.statuses.connector(name), snapshot.statuses.task_map(name).values())
        if request.has_flags:
            self._configs.put_restart(request.record)
        self._carry_out(name, plan, snapshot.configs.target_state(name))
        config = snapshot.configs.connector_configs[name]
        return status_view(plan.connector, plan.tasks, self._plugins.of(config).type)

    def task(self, name: str, task: int) -> None:
        """Raises NotFoundException."""
        snapshot = self._snapshot(name)
        if task not in snapshot.configs.tasks(name):
            raise NotFoundException(f"Unknown task: {ConnectorTaskId(name, task)}")
        if snapshot.configs.target_state(name) is TargetState.STARTED:
            self._restart(name, tasks=[task], with_connector=False)

    def _snapshot(self, name: str) -> Snapshot:
        snapshot = self._reader.read()
        if name not in snapshot.configs:
            raise NotFoundException(f"Unknown connector: {name}")
        return snapshot

    def _carry_out(self, name: str, plan: RestartPlan, target: TargetState | None) -> None:
        if plan.is_empty or target is None:
            return
        if target is TargetState.STARTED:
            self._restart(name, tasks=plan.task_ids, with_connector=plan.restarts_connector)
        else:
            self._settle(name, plan, target)

    def _restart(self, name: str, *, tasks: list[int], with_connector: bool) -> None:
        """1 fence what lives 2 statuses 3 a run. ``tasks`` run even if nothing is new; without any, the run looks for work.

        A connector alone says RESTARTING only if it had FAILED: between runs there is nothing of it to restart.
        """
        self._lifecycle.interrupt(name)  # 1
        snapshot = self._reader.read()
        was = snapshot.statuses.connector(name)
        if with_connector and was is not None and (tasks or was.state is State.FAILED):  # 2
            self._statuses.put_connector(snapshot, name, State.RESTARTING)
        for task in tasks:
            self._statuses.put_task(snapshot, name, task, State.RESTARTING)
        self._statuses.flush()
        self._launcher.trigger(name, tasks or None)  # 3

    def _settle(self, name: str, plan: RestartPlan, target: TargetState) -> None:
        """What is restarted while paused or stopped is so again at once, and no longer FAILED."""
        snapshot = self._reader.read()
        if plan.restarts_connector:
            self._statuses.put_connector(snapshot, name, connector_state_for(target))
        for task in plan.task_ids:
            self._statuses.put_task(snapshot, name, task, task_state_for(target))
        self._statuses.flush()
