"""What counts of an answer: the part that a step is about, without what may differ from server to server (golden/README.md)."""

import json
import re
from collections.abc import Callable
from typing import Any

_PLUGIN_TAIL = re.compile(r"(available connectors are: ).*", re.DOTALL)
_EXCEPTION_HEAD = re.compile(r"(?:[\w.$]+(?:Exception|Error): )+(?=Failed to find any class)")
_SORTED_LISTS = ("topics", "offsets", "recommended_values")
_OF_CONNECT = {"MissingException": "ConnectException"}
"""What Kafka Connect raises instead of an exception that it does not have."""
_KAFKA = "org.apache.kafka."


def comparable(body: Any, *, view: str | None, profile: str, run: str, path: str) -> Any:
    """``body`` as it is compared; for both sides alike."""
    if path.partition("?")[0].rstrip("/") == "/connectors":
        body = _of_the_run(body, run)
    shown = _VIEWS[view](body, run) if view is not None and _is_whole(body) else body
    return _plain(shown, keeps_versions=profile == "versions", sorts_tasks="/restart" in path)


def _is_whole(body: Any) -> bool:
    return not (isinstance(body, dict) and "error_code" in body)


def _of_the_run(body: Any, run: str) -> Any:
    if isinstance(body, list):
        return [name for name in body if run in str(name)]
    if isinstance(body, dict) and "error_code" not in body and "config" not in body:
        return {name: value for name, value in body.items() if run in name}
    return body


def _plain(value: Any, *, keeps_versions: bool, sorts_tasks: bool, key: str = "") -> Any:
    def inner(one: Any, name: str = "") -> Any:
        return _plain(one, keeps_versions=keeps_versions, sorts_tasks=sorts_tasks, key=name)

    match value:
        case dict():
            dropped = {"worker_id", "documentation"} | (set() if keeps_versions else {"version"})
            plain = {name: inner(one, name) for name, one in value.items() if name not in dropped}
            return plain if keeps_versions else _without_plugin_versions(plain)
        case list():
            items = [inner(one) for one in value]
            if key == "recommended_values":
                items = [one for one in items if not _is_foreign_plugin(one)]
            return sorted(items, key=_ordered) if key in _SORTED_LISTS or (key == "tasks" and sorts_tasks) else items
        case str() if key == "trace":
            name = value.partition("\n")[0].partition(":")[0].rpartition(".")[2]
            return _OF_CONNECT.get(name, name)
        case str() if key == "message":
            return _EXCEPTION_HEAD.sub("", _PLUGIN_TAIL.sub(r"\1", value))
        case int() if key == "last_modified":
            return "a time"
    return value


def _ordered(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _is_foreign_plugin(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"(\w+\.)+[\w$]+", value) is not None and not value[0].isdigit() and _KAFKA not in value


def _without_plugin_versions(plain: dict[str, Any]) -> dict[str, Any]:
    """Neither those that a validation names nor, in the view ``values``, the values of such keys."""
    if not str(plain.get("name", "")).endswith("plugin.version"):
        return {name: value for name, value in plain.items() if not (name.endswith("plugin.version") and _is_version(value))}
    return {name: value for name, value in plain.items() if name not in ("default_value", "value", "recommended_values")}


def _is_version(value: Any) -> bool:
    return value is None or (isinstance(value, str) and re.fullmatch(r"[0-9][\w.+-]*", value) is not None)


def _definition_names(body: Any, _: str) -> Any:
    if isinstance(body, dict):
        return [config["value"]["name"] for config in body["configs"]]
    return [key["name"] for key in body]


def _errors(body: Any, _: str) -> Any:
    values = [config["value"] for config in body["configs"]]
    errors = {value["name"]: value["errors"] for value in values if value["errors"]}
    return {"name": body["name"], "error_count": body["error_count"], "errors": errors}


def _version_keys(body: Any, _: str) -> Any:
    return [config for config in body["configs"] if config["value"]["name"].endswith("plugin.version")]


def _plugins(body: Any, only: str) -> list[dict[str, Any]]:
    return [plugin for plugin in body if plugin["class"].startswith(only)]


_VIEWS: dict[str, Callable[[Any, str], Any]] = {
    "server": lambda body, _: sorted(body),
    "sorted": lambda body, _: sorted(body),
    "plugin-classes": lambda body, _: [[plugin["class"], plugin["type"]] for plugin in _plugins(body, _KAFKA)],
    "file-versions": lambda body, _: _plugins(body, f"{_KAFKA}connect.file."),
    "errors": _errors,
    "values": lambda body, _: {config["value"]["name"]: config["value"]["value"] for config in body["configs"]},
    "keys": _definition_names,
    "version-keys": _version_keys,
    "loggers": lambda body, run: {name: level for name, level in body.items() if name == "root" or run in name},
}
