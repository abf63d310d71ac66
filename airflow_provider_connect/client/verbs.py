"""The verbs of Kafka Connect's REST API as typed methods, defined once for blocking and for asynchronous clients and hooks."""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from airflow_provider_connect.client.calls import Answer, Call, call
from airflow_provider_connect.runtime.model.backfill_request import Backfill, BackfillRequest
from airflow_provider_connect.runtime.model.cost import DEFAULT_DAYS, ConnectorCosts, Costs
from airflow_provider_connect.runtime.model.history import ConfigHistory, OffsetHistory, OffsetUndo
from airflow_provider_connect.runtime.model.preview_comparison import Comparison
from airflow_provider_connect.runtime.model.previews import Preview
from airflow_provider_connect.runtime.model.replays import Replay, ReplayRequest
from airflow_provider_connect.runtime.model.states import INITIAL_STATES, TargetState
from airflow_provider_connect.runtime.model.upgrades import Upgrade
from airflow_provider_connect.runtime.model.verbs import WARNINGS_HEADER
from airflow_provider_connect.runtime.model.view_json import of_json, to_json
from airflow_provider_connect.runtime.model.views import (
    ConfigKeyView,
    ConnectorInfo,
    ConnectorOffsets,
    ConnectorStatusView,
    HealthView,
    LoggerView,
    OffsetView,
    PluginView,
    ServerView,
    TaskDetail,
    TaskInfo,
    TaskView,
    Validation,
    WorkerView,
)

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Views = dict[str, ConnectorInfo | ConnectorStatusView]

_CREATED = 201
_INITIAL = {state: word for word, state in INITIAL_STATES.items()}
_PARTS = {"info": ConnectorInfo, "status": ConnectorStatusView}


class VerbMethod(Generic[P, T_co]):
    """The type of a method that ``verb`` returns. At run time it is a function; its ``call`` creates the request without a client."""

    call: Callable[P, Call[T_co]]

    @overload
    def __get__(self, instance: ConnectVerbs, owner: type) -> Callable[P, T_co]: ...
    @overload
    def __get__(self, instance: AsyncConnectVerbs, owner: type) -> Callable[P, Awaitable[T_co]]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    def __get__(self, instance: object, owner: type) -> object:
        raise NotImplementedError


def verb(build: Callable[Concatenate[Any, P], Call[T]]) -> VerbMethod[P, T]:
    """A method that carries out the call that ``build`` returns."""

    @functools.wraps(build)
    def method(self: Any, *arguments: P.args, **named: P.kwargs) -> Any:
        return self.carry_out(build(self, *arguments, **named))

    method.call = functools.partial(build, None)  # type: ignore[attr-defined]
    return cast(VerbMethod[P, T], method)


class _Verbs:
    """Each verb raises the exceptions of ``errors``, with the server's own message."""

    @verb
    def server_info(self) -> Call[ServerView]:
        """The server's version and its Kafka cluster."""
        return call("server_info")

    @verb
    def health(self) -> Call[HealthView]:
        """Whether the worker can serve (KIP-1017: Kafka Connect 3.9 and later)."""
        return call("health")

    @verb
    def connectors(self) -> Call[list[str]]:
        """The names of all connectors."""
        return call("connectors", read=lambda answer: of_json(list[str], answer.body))

    @verb
    def expanded(self, info: bool = True, status: bool = True) -> Call[dict[str, Views]]:
        """All connectors with their ``info``, ``status`` or both, in one request. A connector that is being deleted has no info."""
        wanted = [name for name, is_wanted in (("info", info), ("status", status)) if is_wanted]
        return call("connectors", expand=wanted, read=_expanded)

    @verb
    def statuses(self) -> Call[dict[str, ConnectorStatusView]]:
        """The states of all connectors and their tasks, in one request. A connector without a status is left out."""
        return call(
            "connectors",
            expand="status",
            read=lambda answer: {name: views["status"] for name, views in _expanded(answer).items() if "status" in views},
        )

    @verb
    def connector_info(self, name: str) -> Call[ConnectorInfo]:
        """Config, tasks and type. Raises NotFoundException if the connector does not exist, as all verbs below do."""
        return call("connector_info", name)

    @verb
    def connector_config(self, name: str) -> Call[dict[str, str]]:
        """The config as it was written, with unresolved variables."""
        return call("connector_config", name)

    @verb
    def connector_status(self, name: str) -> Call[ConnectorStatusView]:
        """The states of the connector and its tasks. Raises NotFoundException for a new connector without a status."""
        return call("connector_status", name)

    @verb
    def create_connector(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None = None
    ) -> Call[ConnectorInfo]:
        """Create a connector. Raises AlreadyExistsException if it exists. ``initial_state`` needs Kafka Connect 3.7 or later (KIP-980)."""
        state = {} if initial_state is None else {"initial_state": _INITIAL[initial_state]}
        return call("create_connector", body={"name": name, "config": dict(config), **state}, read=_written)

    @verb
    def put_connector_config(self, name: str, config: Mapping[str, str | None]) -> Call[tuple[ConnectorInfo, bool]]:
        """Replace the config, or create the connector. The second value is whether the connector was created."""
        return call(
            "put_connector_config",
            name,
            body=dict(config),
            read=lambda answer: (_written(answer), answer.status == _CREATED),
        )

    @verb
    def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> Call[ConnectorInfo]:
        """Change keys of the config; None removes a key (KIP-477: Kafka Connect 3.9 and later)."""
        return call("patch_connector_config", name, body=dict(patch), read=_written)

    @verb
    def config_history(self, name: str, *, limit: int = 50, before: int | None = None) -> Call[ConfigHistory]:
        """The configs that the connector had, with hidden secrets, newest first. ``before`` limits the result to revisions below this
        number. A real Kafka Connect has no history: this verb and the three verbs of history below raise NotFoundException."""
        return call("config_history", name, limit=limit, before=before)

    @verb
    def rollback_config(self, name: str, revision: int) -> Call[ConnectorInfo]:
        """Restore the config of this revision. Hidden values keep their current value."""
        return call("rollback_config", name, body={"revision": revision}, read=_written)

    @verb
    def delete_connector(self, name: str) -> Call[None]:
        """Delete the connector. Its offsets are kept."""
        return call("delete_connector", name)

    @verb
    def pause(self, name: str) -> Call[None]:
        """Request PAUSED. Returns before the connector is paused."""
        return call("pause", name)

    @verb
    def resume(self, name: str) -> Call[None]:
        """Request STARTED. Returns before the connector is started."""
        return call("resume", name)

    @verb
    def stop(self, name: str) -> Call[None]:
        """Request STOPPED. Returns before the connector is stopped. Offsets can then be changed (KIP-875: Kafka Connect 3.5 and later)."""
        return call("stop", name)

    @verb
    def restart_connector(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> Call[ConnectorStatusView | None]:
        """Restart the connector (KIP-745).

        With ``include_tasks`` or ``only_failed``, returns immediately, with the connector and tasks that will restart. Otherwise returns
        None after the restart."""
        return call(
            "restart_connector",
            name,
            include_tasks=include_tasks,
            only_failed=only_failed,
            read=lambda answer: of_json(ConnectorStatusView | None, answer.body),
        )

    @verb
    def task_infos(self, name: str) -> Call[list[TaskInfo]]:
        """The tasks with their configs."""
        return call("task_infos", name)

    @verb
    def task(self, name: str, task: int) -> Call[TaskDetail]:
        """One task with its config and state (KIP-26). Kafka Connect 4.3 has no such route, so this raises NotFoundException."""
        return call("task", name, task)

    @verb
    def task_status(self, name: str, task: int) -> Call[TaskView]:
        """The state of one task."""
        return call("task_status", name, task)

    @verb
    def restart_task(self, name: str, task: int) -> Call[None]:
        """Restart one task."""
        return call("restart_task", name, task)

    @verb
    def active_topics(self, name: str) -> Call[list[str]]:
        """The topics that the connector has used, sorted (KIP-558). Empty if the connector does not exist."""
        return call("active_topics", name, read=lambda answer: sorted(answer.body[name]["topics"]))

    @verb
    def reset_active_topics(self, name: str) -> Call[None]:
        """Forget the topics that the connector has used."""
        return call("reset_active_topics", name)

    @verb
    def offsets(self, name: str) -> Call[list[OffsetView]]:
        """The connector's committed offsets by partition. None: the offset was removed (KIP-875: Kafka Connect 3.5 and later)."""
        return call("offsets", name, read=lambda answer: of_json(list[OffsetView], answer.body["offsets"]))

    @verb
    def alter_offsets(self, name: str, changes: Sequence[OffsetView]) -> Call[str]:
        """Set offsets of a STOPPED connector; None removes an offset. Returns the server's message (3.6 and later)."""
        return call("alter_offsets", name, body=to_json(ConnectorOffsets(changes)), read=_message)

    @verb
    def reset_offsets(self, name: str) -> Call[str]:
        """Remove all offsets of a STOPPED connector. Returns the server's message (3.6 and later)."""
        return call("reset_offsets", name, read=_message)

    @verb
    def offsets_history(self, name: str, *, limit: int = 50, before: int | None = None) -> Call[OffsetHistory]:
        """The changes of the connector's offsets, newest first. ``limit`` is the number of changed partitions."""
        return call("offsets_history", name, limit=limit, before=before)

    @verb
    def undo_offsets(self, name: str, *, to: str | int | None = None, entry: int | None = None, dry_run: bool = False) -> Call[OffsetUndo]:
        """Set the offsets of a STOPPED connector to their values at the instant ``to`` (ISO 8601 with a zone, or ms since 1970), or before
        change ``entry``. A dry run changes nothing and is allowed in any state."""
        asked = {"to": to, "entry": entry, "dry_run": dry_run}
        return call("undo_offsets", name, body={key: value for key, value in asked.items() if value is not None})

    @verb
    def dead_letter_replay(self, name: str) -> Call[Replay]:
        """The last replay of a sink's dead-letter records. Raises NotFoundException if there was no replay."""
        return call("dead_letter_replay", name)

    @verb
    def replay_dead_letters(self, name: str, asked: ReplayRequest, *, dry_run: bool = False, records: int = 10) -> Call[Replay]:
        """Request that dead-letter records of a sink are written back, each once. A dry run writes nothing and returns the first
        ``records`` records. Raises ConflictException while another replay is in progress, and NotFoundException for a real Kafka Connect,
        which has no such route."""
        given = {**to_json(asked), "dry_run": dry_run, "records": records}
        return call("replay_dead_letters", name, body={key: value for key, value in given.items() if value is not None})

    @verb
    def backfills(self, name: str) -> Call[list[Backfill]]:
        """The backfills of the connector with their progress. A real Kafka Connect has no such route: this verb and the next verb raise
        NotFoundException."""
        return call("backfills", name)

    @verb
    def create_backfill(self, name: str, request: BackfillRequest, *, dry_run: bool = False) -> Call[Backfill]:
        """Deliver ranges of a sink's topics again, while the live connector runs. A dry run creates nothing. Raises AlreadyExistsException
        for an existing id."""
        asked = {"ranges": to_json(request.ranges), "config": dict(request.changes), "id": request.id, "dry_run": dry_run}
        return call("create_backfill", name, body=asked)

    @verb
    def costs(self, *, days: int = DEFAULT_DAYS) -> Call[Costs]:
        """The usage and costs of connectors, by connector and UTC day, including today. A real Kafka Connect has no such route: this verb
        and the next verb raise NotFoundException."""
        return call("costs", days=days)

    @verb
    def connector_costs(self, name: str, *, days: int = DEFAULT_DAYS) -> Call[ConnectorCosts]:
        """The usage and costs of one connector, by day and by run."""
        return call("connector_costs", name, days=days)

    @verb
    def plugins(self, connectors_only: bool = True) -> Call[list[PluginView]]:
        """The installed plugins."""
        return call("plugins", connectors_only=connectors_only)

    @verb
    def plugin_config(self, plugin: str, version: str | None = None, location: str | None = None) -> Call[list[ConfigKeyView]]:
        """The settings of a plugin, optionally of a version or range (KIP-891), from the location of that name."""
        return call("plugin_config", plugin, version=version, location=location)

    @verb
    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Call[Validation]:
        """Validate the config without writing it. A missing ``connector.class`` is added."""
        return call("validate", plugin, body={"connector.class": plugin, **config}, read=_validation)

    @verb
    def loggers(self) -> Call[dict[str, LoggerView]]:
        """Every logger that the server's process has used, with its effective level."""
        return call("loggers")

    @verb
    def logger(self, name: str) -> Call[LoggerView]:
        """The level of one logger."""
        return call("logger", name)

    @verb
    def set_logger_level(self, name: str, level: str, *, whole_cluster: bool = False) -> Call[list[str]]:
        """Set a level. Returns the loggers that changed, or an empty list for the whole cluster (KIP-976)."""
        scope = "cluster" if whole_cluster else "worker"
        return call("set_logger_level", name, scope=scope, body={"level": level}, read=lambda a: of_json(list[str] | None, a.body) or [])

    @verb
    def preview(
        self, name: str, config: Mapping[str, str] | None = None, *, records: int = 10, version: str | None = None
    ) -> Call[Preview]:
        """The records that the connector's next run would read. Commits nothing. Optionally uses another ``config`` and another ``version``
        of the plugin. A real Kafka Connect has no such route, so this raises NotFoundException."""
        given = {"records": records, "version": version, "config": None if config is None else dict(config)}
        return call("preview", name, body={key: value for key, value in given.items() if value is not None})

    @verb
    def upgrade(self, name: str) -> Call[Upgrade]:
        """The state of the last requested upgrade of the connector's plugin. Raises NotFoundException if no upgrade was requested."""
        return call("upgrade", name)

    @verb
    def request_upgrade(self, name: str, to: str, *, canary: int = 100, accept_schema_change: bool = False) -> Call[Upgrade]:
        """Request that the next run use another version of the plugin, if that version reads ``canary`` records like the old one."""
        return call("request_upgrade", name, body={"to": to, "canary": canary, "accept_schema_change": accept_schema_change})

    @verb
    def forget_upgrade(self, name: str) -> Call[None]:
        """Remove the upgrade, so that only the config decides which version runs."""
        return call("forget_upgrade", name)

    @verb
    def compare_versions(self, name: str, to: str, *, records: int = 100) -> Call[Comparison]:
        """The comparison that an upgrade would make. Changes nothing."""
        return call("compare_versions", name, body={"to": to, "records": records})

    @verb
    def workers(self) -> Call[list[WorkerView]]:
        """The running Spark applications. A real Kafka Connect has no such route: NotFoundException."""
        return call("workers")


class ConnectVerbs(_Verbs, ABC):
    """The verbs of a client that waits for each answer."""

    @abstractmethod
    def carry_out(self, call: Call[T]) -> T:
        """Send the request and read its answer."""


class AsyncConnectVerbs(_Verbs, ABC):
    """The same verbs as coroutines."""

    @abstractmethod
    async def carry_out(self, call: Call[T]) -> T:
        """Send the request and read its answer."""


def _expanded(answer: Answer) -> dict[str, Views]:
    """The views by connector. Null views are left out."""
    return {
        name: {part: of_json(kind, parts[part]) for part, kind in _PARTS.items() if parts.get(part) is not None}
        for name, parts in answer.body.items()
    }


def _written(answer: Answer) -> ConnectorInfo:
    """The connector after a change of its config."""
    info: ConnectorInfo = of_json(ConnectorInfo, answer.body)
    return replace(info, warnings=_warnings(answer))


def _warnings(answer: Answer) -> tuple[str, ...]:
    """The warnings of a validation. Only this package's servers return warnings."""
    return tuple(json.loads(answer.headers.get(WARNINGS_HEADER, "[]")))


def _validation(answer: Answer) -> Validation:
    """The validation. Leaves out keys without a value; Kafka Connect may return such keys."""
    body = answer.body
    found: Validation = of_json(Validation, {**body, "configs": [each for each in body["configs"] if each["value"]]})
    return replace(found, warnings=_warnings(answer))


def _message(answer: Answer) -> str:
    return str(answer.body["message"])
