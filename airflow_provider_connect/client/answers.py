"""Kafka Connect's JSON answers read into the views that the herder answers with. Unknown fields are left alone: servers grow them.

A reader raises KeyError, TypeError, ValueError or AttributeError for answers of another shape; ``conversation`` says which server gave it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.preview_comparison import Comparison
from airflow_provider_connect.model.previews import Preview
from airflow_provider_connect.model.upgrades import Upgrade
from airflow_provider_connect.model.views import (
    ConfigKeyView,
    ConfigValueView,
    ConnectorInfo,
    ConnectorStatusView,
    HealthView,
    LoggerView,
    OffsetView,
    PluginView,
    ServerView,
    StateView,
    TaskInfo,
    TaskView,
    Validation,
    WorkerView,
)

CREATED = 201


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer. ``body`` is the parsed JSON, None without one; ``text`` what came instead of JSON."""

    status: int
    body: Any = None  # whatever JSON can hold
    text: str = ""


def nothing(answer: Answer) -> None:
    """For verbs whose answer says nothing."""


def server(answer: Answer) -> ServerView:
    return ServerView(str(answer.body["version"]), str(answer.body["commit"]), str(answer.body["kafka_cluster_id"]))


def health(answer: Answer) -> HealthView:
    return HealthView(str(answer.body["status"]), str(answer.body["message"]))


def names(answer: Answer) -> list[str]:
    return [str(name) for name in _list(answer.body)]


def expanded(answer: Answer) -> dict[str, dict[str, ConnectorInfo | ConnectorStatusView]]:
    """A connector whose info is null, being deleted just now, has none in the result."""
    found: dict[str, dict[str, ConnectorInfo | ConnectorStatusView]] = {}
    for name, parts in answer.body.items():
        found[name] = {}
        if parts.get("info") is not None:
            found[name]["info"] = _connector_info(parts["info"])
        if parts.get("status") is not None:
            found[name]["status"] = _status(parts["status"])
    return found


def statuses(answer: Answer) -> dict[str, ConnectorStatusView]:
    return {name: _status(parts["status"]) for name, parts in answer.body.items() if parts.get("status") is not None}


def connector_info(answer: Answer) -> ConnectorInfo:
    return _connector_info(answer.body)


def put_config(answer: Answer) -> tuple[ConnectorInfo, bool]:
    return _connector_info(answer.body), answer.status == CREATED


def config(answer: Answer) -> dict[str, str]:
    return dict(answer.body)


def status(answer: Answer) -> ConnectorStatusView:
    return _status(answer.body)


def restart(answer: Answer) -> ConnectorStatusView | None:
    return None if answer.body is None else _status(answer.body)


def task_infos(answer: Answer) -> list[TaskInfo]:
    return [TaskInfo(_task_id(task["id"]), dict(task["config"])) for task in _list(answer.body)]


def task(answer: Answer) -> TaskView:
    return _task(answer.body)


def topics(answer: Answer, connector: str) -> list[str]:
    return sorted(answer.body[connector]["topics"])


def offsets(answer: Answer) -> list[OffsetView]:
    return [OffsetView(dict(entry["partition"]), entry["offset"]) for entry in _list(answer.body["offsets"])]


def message(answer: Answer) -> str:
    return str(answer.body["message"])


def plugins(answer: Answer) -> list[PluginView]:
    return [PluginView(plugin["class"], plugin["type"], plugin.get("version")) for plugin in _list(answer.body)]


def config_keys(answer: Answer) -> list[ConfigKeyView]:
    return [_config_key(key) for key in _list(answer.body)]


def validation(answer: Answer) -> Validation:
    pairs = [(entry.get("definition"), entry["value"]) for entry in _list(answer.body["configs"])]
    configs = [(None if definition is None else _config_key(definition), _config_value(value)) for definition, value in pairs if value]
    return Validation(answer.body["name"], list(answer.body["groups"]), configs)


def loggers(answer: Answer) -> dict[str, LoggerView]:
    return {name: _logger(level) for name, level in answer.body.items()}


def logger(answer: Answer) -> LoggerView:
    return _logger(answer.body)


def changed_loggers(answer: Answer) -> list[str]:
    return [] if answer.body is None else names(answer)


def preview(answer: Answer) -> Preview:
    return Preview.of_json(answer.body)


def upgrade(answer: Answer) -> Upgrade:
    return Upgrade.of_json(answer.body)


def comparison(answer: Answer) -> Comparison:
    return Comparison.of_json(answer.body)


def workers(answer: Answer) -> list[WorkerView]:
    return [
        WorkerView(worker["worker_id"], worker["connector"], worker.get("claim"), list(worker["tasks"]), worker.get("started"))
        for worker in _list(answer.body)
    ]


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list is expected, not {type(value).__name__}")
    return value


def _task_id(value: Mapping[str, Any]) -> ConnectorTaskId:
    return ConnectorTaskId(str(value["connector"]), int(value["task"]))


def _connector_info(value: Mapping[str, Any]) -> ConnectorInfo:
    tasks = [_task_id(task) for task in value["tasks"]]
    return ConnectorInfo(str(value["name"]), dict(value["config"]), tasks, str(value.get("type") or "unknown"))


def _status(value: Mapping[str, Any]) -> ConnectorStatusView:
    connector = value["connector"]
    state = StateView(connector["state"], connector["worker_id"], connector.get("trace"), connector.get("version"))
    return ConnectorStatusView(value["name"], state, [_task(task) for task in value["tasks"]], value["type"])


def _task(value: Mapping[str, Any]) -> TaskView:
    return TaskView(int(value["id"]), value["state"], value["worker_id"], value.get("trace"), value.get("version"))


def _config_key(value: Mapping[str, Any]) -> ConfigKeyView:
    """``order_in_group`` is what released workers call the place in the group."""
    order = value["order_in_group"] if "order_in_group" in value else value["order"]
    return ConfigKeyView(order=order, **{name: value[name] for name in ConfigKeyView.__dataclass_fields__ if name != "order"})


def _config_value(value: Mapping[str, Any]) -> ConfigValueView:
    return ConfigValueView(**{name: value[name] for name in ConfigValueView.__dataclass_fields__})


def _logger(value: Mapping[str, Any]) -> LoggerView:
    return LoggerView(value.get("level"), value.get("last_modified"))
