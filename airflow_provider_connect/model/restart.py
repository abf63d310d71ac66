"""Restarts (KIP-745): which instances a request concerns, and which of several requests for a connector is carried out."""

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

    @classmethod
    def of_query(cls, connector: str, *, only_failed: str = "false", include_tasks: str = "false") -> "RestartRequest":
        """The request of a REST query, where anything but ``true``, in any case, is false."""
        return cls(connector, only_failed.lower() == "true", include_tasks.lower() == "true")

    @classmethod
    def of_record(cls, record: RestartRecord) -> "RestartRequest":
        return cls(record.connector, record.only_failed, record.include_tasks)

    @property
    def record(self) -> RestartRecord:
        return RestartRecord(self.connector, self.include_tasks, self.only_failed)

    @property
    def has_flags(self) -> bool:
        """With a flag the answer comes at once and tells what will restart; without one it comes after the restart."""
        return self.only_failed or self.include_tasks

    @property
    def impact(self) -> int:
        """How much it restarts, 0 to 3."""
        return 2 * (not self.only_failed) + self.include_tasks

    def concerns(self, status: ConnectorStatus | TaskStatus) -> bool:
        """Whether the instance of this status restarts."""
        if isinstance(status, TaskStatus) and not self.include_tasks:
            return False
        return not self.only_failed or status.state is State.FAILED


def most_far_reaching(requests: Iterable[RestartRequest]) -> list[RestartRequest]:
    """One request a connector: that of the highest impact, the earliest of equals."""
    chosen: dict[str, RestartRequest] = {}
    for request in requests:
        known = chosen.get(request.connector)
        if known is None or request.impact > known.impact:
            chosen[request.connector] = request
    return list(chosen.values())


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What a request comes to. ``connector`` and ``tasks`` are the statuses to answer with: RESTARTING, with the old trace, for what
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
    """What ``request`` restarts, given the statuses. Raises NotFoundException for a connector that has none yet."""
    if connector is None:
        raise NotFoundException(f"Status for connector {request.connector} not found")
    if request.concerns(connector):
        connector = dataclasses.replace(connector, state=State.RESTARTING)
    planned = [dataclasses.replace(task, state=State.RESTARTING) if request.concerns(task) else task for task in tasks]
    return RestartPlan(request, connector, planned)
