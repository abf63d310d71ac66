"""Every verb of Kafka Connect's REST API as a value: what to ask, and how to read the answer. Knows of no HTTP library and no server.

Paths are below the server's base URL, with names encoded. What may be asked again after its answer was lost is marked: a request that was
carried out and is sent once more must not do it twice.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from airflow_provider_connect.client import answers
from airflow_provider_connect.client.answers import Answer
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.model.preview_comparison import Comparison
from airflow_provider_connect.model.previews import Preview
from airflow_provider_connect.model.states import TargetState
from airflow_provider_connect.model.upgrades import Upgrade
from airflow_provider_connect.model.views import (
    ConfigKeyView,
    ConnectorInfo,
    ConnectorStatusView,
    HealthView,
    LoggerView,
    OffsetView,
    PluginView,
    ServerView,
    TaskInfo,
    TaskView,
    Validation,
    WorkerView,
)

T = TypeVar("T")

_INITIAL = {TargetState.STARTED: "RUNNING", TargetState.PAUSED: "PAUSED", TargetState.STOPPED: "STOPPED"}
_REMOVED = 404


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. ``body`` is JSON, None: no body.

    ``done_status``: the status that says, at a repetition, that an attempt whose answer was lost had been carried out.
    ``more_answers``: statuses from 400 on that are answers nevertheless.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    query: Sequence[tuple[str, str]] = ()
    body: Any = None  # whatever JSON can hold
    is_repeatable: bool = True
    done_status: int | None = None
    more_answers: Collection[int] = ()


def server_info() -> Call[ServerView]:
    """Which Kafka Connect answers, and the Kafka cluster behind it."""
    return Call("GET", "/", answers.server)


def health() -> Call[HealthView]:
    """Whether the worker can serve (KIP-1017: Kafka Connect 3.9 and later)."""
    return Call("GET", "/health", answers.health, more_answers=(500, 503))


# --- connectors -----------------------------------------------------------------------------------------------------------------------


def connectors() -> Call[list[str]]:
    """The names of all connectors."""
    return Call("GET", "/connectors", answers.names)


def expanded(*, info: bool, status: bool) -> Call[dict[str, dict[str, ConnectorInfo | ConnectorStatusView]]]:
    """All connectors with their info, status or both, in one request."""
    wanted = [("expand", name) for name, is_wanted in (("info", info), ("status", status)) if is_wanted]
    return Call("GET", "/connectors", answers.expanded, query=wanted)


def statuses() -> Call[dict[str, ConnectorStatusView]]:
    """The states of all connectors and their tasks, in one request; a connector that has no status yet is left out."""
    return Call("GET", "/connectors", answers.statuses, query=[("expand", "status")])


def connector_info(name: str) -> Call[ConnectorInfo]:
    """Config, tasks and type of a connector."""
    return Call("GET", _connector(name), answers.connector_info)


def connector_config(name: str) -> Call[dict[str, str]]:
    """The config as it was given, variables unresolved."""
    return Call("GET", f"{_connector(name)}/config", answers.config)


def connector_status(name: str) -> Call[ConnectorStatusView]:
    """The states of a connector and its tasks. A connector made a moment ago may have none yet: NotFoundException."""
    return Call("GET", f"{_connector(name)}/status", answers.status)


def create_connector(name: str, config: Mapping[str, str | None], initial_state: TargetState | None = None) -> Call[ConnectorInfo]:
    """A new connector (KIP-980 for ``initial_state``: Kafka Connect 3.7 and later). AlreadyExistsException when there is one."""
    body: dict[str, object] = {"name": name, "config": dict(config)}
    if initial_state is not None:
        body["initial_state"] = _INITIAL[initial_state]
    return Call("POST", "/connectors", answers.connector_info, body=body, is_repeatable=False)


def put_connector_config(name: str, config: Mapping[str, str | None]) -> Call[tuple[ConnectorInfo, bool]]:
    """The whole config of a connector, which is created where there is none; the second value says whether it was."""
    return Call("PUT", f"{_connector(name)}/config", answers.put_config, body=dict(config))


def patch_connector_config(name: str, patch: Mapping[str, str | None]) -> Call[ConnectorInfo]:
    """Some keys of the config; None removes a key (KIP-477: Kafka Connect 3.9 and later)."""
    return Call("PATCH", f"{_connector(name)}/config", answers.connector_info, body=dict(patch))


def delete_connector(name: str) -> Call[None]:
    """Remove a connector. Its offsets stay."""
    return Call("DELETE", _connector(name), answers.nothing, done_status=_REMOVED)


def pause(name: str) -> Call[None]:
    """Ask for PAUSED; the answer comes before it is reached."""
    return Call("PUT", f"{_connector(name)}/pause", answers.nothing)


def resume(name: str) -> Call[None]:
    """Ask for STARTED; the answer comes before it is reached."""
    return Call("PUT", f"{_connector(name)}/resume", answers.nothing)


def stop(name: str) -> Call[None]:
    """Ask for STOPPED, in which offsets may be altered (KIP-875: Kafka Connect 3.5 and later)."""
    return Call("PUT", f"{_connector(name)}/stop", answers.nothing)


def restart_connector(name: str, *, include_tasks: bool = False, only_failed: bool = False) -> Call[ConnectorStatusView | None]:
    """Restart (KIP-745). With a flag the answer tells what will restart; without one there is none, and the connector has restarted."""
    query = [("includeTasks", _flag(include_tasks)), ("onlyFailed", _flag(only_failed))]
    return Call("POST", f"{_connector(name)}/restart", answers.restart, query=query, is_repeatable=False)


# --- tasks and topics -----------------------------------------------------------------------------------------------------------------


def task_infos(name: str) -> Call[list[TaskInfo]]:
    """The configs of a connector's tasks."""
    return Call("GET", f"{_connector(name)}/tasks", answers.task_infos)


def task_status(name: str, task: int) -> Call[TaskView]:
    """The state of one task."""
    return Call("GET", f"{_connector(name)}/tasks/{task}/status", answers.task)


def restart_task(name: str, task: int) -> Call[None]:
    """Restart one task."""
    return Call("POST", f"{_connector(name)}/tasks/{task}/restart", answers.nothing, is_repeatable=False)


def active_topics(name: str) -> Call[list[str]]:
    """The topics that a connector has used (KIP-558). Empty for a connector that is not there."""
    return Call("GET", f"{_connector(name)}/topics", lambda answer: answers.topics(answer, name))


def reset_active_topics(name: str) -> Call[None]:
    """Forget the topics that a connector has used."""
    return Call("PUT", f"{_connector(name)}/topics/reset", answers.nothing)


# --- offsets (KIP-875: reading since Kafka Connect 3.5, changing since 3.6) --------------------------------------------------------------


def offsets(name: str) -> Call[list[OffsetView]]:
    """How far a connector has come, partition by partition. None for a partition whose offset was removed."""
    return Call("GET", f"{_connector(name)}/offsets", answers.offsets)


def alter_offsets(name: str, changes: Sequence[OffsetView]) -> Call[str]:
    """Set the offsets of some partitions of a STOPPED connector; None removes one. Returns the server's message."""
    entries = [{"partition": _plain(view.partition), "offset": _plain(view.offset)} for view in changes]
    return Call("PATCH", f"{_connector(name)}/offsets", answers.message, body={"offsets": entries})


def reset_offsets(name: str) -> Call[str]:
    """Remove all offsets of a STOPPED connector. Returns the server's message."""
    return Call("DELETE", f"{_connector(name)}/offsets", answers.message)


# --- plugins, loggers, workers ----------------------------------------------------------------------------------------------------------


def plugins(*, connectors_only: bool = True) -> Call[list[PluginView]]:
    """The installed plugins."""
    return Call("GET", "/connector-plugins", answers.plugins, query=[("connectorsOnly", _flag(connectors_only))])


def plugin_config(plugin: str, version: str | None = None) -> Call[list[ConfigKeyView]]:
    """The keys that a plugin knows; ``version`` (KIP-891) is a version or a range."""
    query = [] if version is None else [("version", version)]
    return Call("GET", f"/connector-plugins/{_segment(plugin, 'plugin')}/config", answers.config_keys, query=query)


def validate(plugin: str, config: Mapping[str, str | None]) -> Call[Validation]:
    """What is wrong with ``config``. Nothing is written. ``connector.class`` is filled in where it is missing."""
    whole = {"connector.class": plugin, **config}
    return Call("PUT", f"/connector-plugins/{_segment(plugin, 'plugin')}/config/validate", answers.validation, body=whole)


def loggers() -> Call[dict[str, LoggerView]]:
    """The loggers that have a level of their own."""
    return Call("GET", "/admin/loggers", answers.loggers)


def logger(name: str) -> Call[LoggerView]:
    """The level of one logger."""
    return Call("GET", f"/admin/loggers/{_segment(name, 'logger')}", answers.logger)


def set_logger_level(name: str, level: str, *, whole_cluster: bool = False) -> Call[list[str]]:
    """Set a level; returns the loggers that changed. For the whole cluster (KIP-976) the answer does not tell which: an empty list."""
    query = [("scope", "cluster" if whole_cluster else "worker")]
    return Call("PUT", f"/admin/loggers/{_segment(name, 'logger')}", answers.changed_loggers, query=query, body={"level": level})


def preview(name: str, config: Mapping[str, str] | None = None, *, records: int, version: str | None = None) -> Call[Preview]:
    """A dry run of a connector, which commits nothing. A real Kafka Connect has no such route: NotFoundException."""
    given = {"records": records, "version": version, "config": None if config is None else dict(config)}
    body = {key: value for key, value in given.items() if value is not None}
    return Call("POST", f"{_connector(name)}/preview", answers.preview, body=body)


def upgrade(name: str) -> Call[Upgrade]:
    """What has become of the upgrade that was asked for last; NotFoundException where none was."""
    return Call("GET", f"{_connector(name)}/upgrade", answers.upgrade)


def request_upgrade(name: str, to: str, *, canary: int, accept_schema_change: bool = False) -> Call[Upgrade]:
    """Have the next run go to another version, if it reads ``canary`` records as the old one does."""
    body = {"to": to, "canary": canary, "accept_schema_change": accept_schema_change}
    return Call("PUT", f"{_connector(name)}/upgrade", answers.upgrade, body=body)


def forget_upgrade(name: str) -> Call[None]:
    """From now on the config alone says which version runs."""
    return Call("DELETE", f"{_connector(name)}/upgrade", answers.nothing, done_status=_REMOVED)


def compare_versions(name: str, to: str, *, records: int) -> Call[Comparison]:
    """What an upgrade would compare; changes nothing."""
    return Call("POST", f"{_connector(name)}/upgrade/comparison", answers.comparison, body={"to": to, "records": records})


def workers() -> Call[list[WorkerView]]:
    """The Spark applications that run now. A real Kafka Connect has no such route: NotFoundException."""
    return Call("GET", "/workers", answers.workers)


def _connector(name: str) -> str:
    return f"/connectors/{_segment(name, 'connector')}"


def _segment(name: str, kind: str) -> str:
    """``name`` as one segment of a path. A name that would make it another path is refused."""
    if not name or name in (".", ".."):
        raise BadRequestException(f"{name!r} is no name of a {kind}: give one with letters or digits")
    return quote(name, safe="")


def _plain(value: Mapping[str, object] | None) -> dict[str, object] | None:
    return None if value is None else dict(value)


def _flag(value: bool) -> str:
    return "true" if value else "false"
