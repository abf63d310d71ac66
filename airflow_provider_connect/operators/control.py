"""Operators that pause, resume, stop, restart and delete a connector in any Connect cluster, and change its offsets."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.client.conditions import Condition, ConnectorReaches, IsGone
from airflow_provider_connect.errors import BadRequestException, NotFoundException
from airflow_provider_connect.operators.verb import ConnectVerbOperator
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.views import ConnectorStatusView, OffsetView

if TYPE_CHECKING:
    from airflow_provider_connect.hooks.connect import ConnectHook

_OFFSETS_SHAPE = 'a list of {"partition": {...}, "offset": {...} or None}'


class PauseConnectorOperator(ConnectVerbOperator):
    """Pauses the connector. Its tasks remain, but deliver nothing. A FAILED connector stays FAILED, and the operator fails."""

    def act(self, hook: "ConnectHook") -> None:
        hook.pause(self.connector)

    def after(self, result: object) -> Condition:
        return ConnectorReaches(self.connector, [State.PAUSED])


class ResumeConnectorOperator(ConnectVerbOperator):
    """Resumes a PAUSED or STOPPED connector. A FAILED connector or task needs a restart instead."""

    def act(self, hook: "ConnectHook") -> None:
        hook.resume(self.connector)

    def after(self, result: object) -> Condition:
        return ConnectorReaches(self.connector, [State.RUNNING])


class StopConnectorOperator(ConnectVerbOperator):
    """Stops the connector, which then has no tasks. Its offsets can then be changed. Requires Kafka Connect 3.5 or later."""

    def act(self, hook: "ConnectHook") -> None:
        hook.stop(self.connector)

    def after(self, result: object) -> Condition:
        return ConnectorReaches(self.connector, [State.STOPPED])


class RestartConnectorOperator(ConnectVerbOperator):
    """Restarts the connector and, by default, its tasks. With ``only_failed``, restarts only what is FAILED.

    The operator waits until all of them are RUNNING. It is not an error if there is nothing to restart. Returns what was restarted:
    ``{"connector": bool, "tasks": [numbers]}``.
    """

    def __init__(self, *, include_tasks: bool = True, only_failed: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.include_tasks, self.only_failed = include_tasks, only_failed

    def act(self, hook: "ConnectHook") -> dict[str, Any]:
        plan = hook.restart_connector(self.connector, include_tasks=self.include_tasks, only_failed=self.only_failed)
        return {"connector": True, "tasks": []} if plan is None else _restart_result(plan)

    def after(self, result: object) -> Condition:
        return ConnectorReaches(self.connector, [State.RUNNING], with_tasks=self.include_tasks)


class DeleteConnectorOperator(ConnectVerbOperator):
    """Deletes the connector. Returns whether it existed.

    Its offsets remain, and a new connector with the same name continues from them.
    """

    def act(self, hook: "ConnectHook") -> bool:
        try:
            hook.delete_connector(self.connector)
        except NotFoundException:
            self.log.info("Connector %s is gone already", self.connector)
            return False
        return True

    def after(self, result: object) -> Condition:
        return IsGone(self.connector)


class _OffsetsOperator(ConnectVerbOperator):
    """Changes offsets. The connector must be STOPPED. With ``stop``, the operator stops it first, and it stays STOPPED."""

    def __init__(self, *, stop: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stop = stop

    def before(self, hook: "ConnectHook") -> Condition | None:
        if not self.stop:
            return None
        hook.stop(self.connector)
        return ConnectorReaches(self.connector, [State.STOPPED])


class AlterOffsetsOperator(_OffsetsOperator):
    """Sets the offsets of the partitions in ``offsets``, each ``{"partition": {...}, "offset": {...}}``. The offset None removes an offset.

    The offsets of other partitions do not change. Returns the server's message. Requires Kafka Connect 3.6 or later.
    """

    template_fields: ClassVar[Sequence[str]] = (*ConnectVerbOperator.template_fields, "offsets")
    template_fields_renderers: ClassVar[dict[str, str]] = {"offsets": "json"}

    def __init__(self, *, offsets: Sequence[Mapping[str, Any]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.offsets = offsets

    def act(self, hook: "ConnectHook") -> str:
        return hook.alter_offsets(self.connector, offset_views(self.offsets))


class ResetOffsetsOperator(_OffsetsOperator):
    """Removes all offsets. A source then starts at its beginning. A sink follows its consumer's ``auto.offset.reset``.

    Returns the server's message. Requires Kafka Connect 3.6 or later.
    """

    def act(self, hook: "ConnectHook") -> str:
        return hook.reset_offsets(self.connector)


def offset_views(offsets: object) -> list[OffsetView]:
    """Parse offsets as users write them. Raises BadRequestException, which names the invalid entry."""
    if not isinstance(offsets, list | tuple):
        raise BadRequestException(f"offsets must be {_OFFSETS_SHAPE}, not {type(offsets).__name__}")
    return [_offset_view(number, entry) for number, entry in enumerate(offsets)]


def _offset_view(number: int, entry: object) -> OffsetView:
    if not isinstance(entry, Mapping) or set(entry) != {"partition", "offset"} or not isinstance(entry["partition"], Mapping):
        raise BadRequestException(f"offsets must be {_OFFSETS_SHAPE}, but entry {number} is {entry!r}")
    offset = entry["offset"]
    if offset is not None and not isinstance(offset, Mapping):
        raise BadRequestException(f"offsets must be {_OFFSETS_SHAPE}, but the offset of entry {number} is {offset!r}")
    return OffsetView(entry["partition"], offset)


def _restart_result(plan: ConnectorStatusView) -> dict[str, Any]:
    return {
        "connector": plan.connector.state == State.RESTARTING,
        "tasks": [task.id for task in plan.tasks if task.state == State.RESTARTING],
    }
