"""Restarts (KIP-745): which instances a request concerns."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.model.records import RestartRecord
from airflow_provider_connect.model.states import State
from airflow_provider_connect.model.status import ConnectorStatus, TaskStatus


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """What a user asks for. Without a flag: the connector alone, whatever its state."""

    connector: str
    only_failed: bool = False
    include_tasks: bool = False

    @property
    def record(self) -> RestartRecord:
        return RestartRecord(self.connector, self.include_tasks, self.only_failed)

    @property
    def has_flags(self) -> bool:
        """With a flag the answer comes at once and lists what will restart; without one it comes after the restart."""
        return self.only_failed or self.include_tasks

    def concerns(self, status: ConnectorStatus | TaskStatus) -> bool:
        """Whether the instance of this status restarts."""
        if isinstance(status, TaskStatus) and not self.include_tasks:
            return False
        return not self.only_failed or status.state is State.FAILED


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """The effect of a request. ``connector`` and ``tasks`` are the statuses to answer with: RESTARTING, with the old trace, for what
    restarts, the others as they are."""

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
    """What ``request`` restarts, given the statuses. Raises NotFoundException for a connector without a status."""
    if connector is None:
        raise NotFoundException(f"Status for connector {request.connector} not found")
    if request.concerns(connector):
        connector = dataclasses.replace(connector, state=State.RESTARTING)
    planned = [dataclasses.replace(task, state=State.RESTARTING) if request.concerns(task) else task for task in tasks]
    return RestartPlan(request, connector, planned)
