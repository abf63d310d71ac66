"""What the herder answers with, as Kafka Connect's JSON: field names, their order, and which are left out (contract §3.2)."""

import json
from collections.abc import Iterable, Iterator, Mapping

from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.views import (
    ConfigKeyView,
    ConfigValueView,
    ConnectorInfo,
    ConnectorStatusView,
    OffsetView,
    PluginView,
    StateView,
    TaskInfo,
    TaskView,
    Validation,
    WorkerView,
)

Json = dict[str, object]


_ENCODED_AT_ONCE = 256
_SPLIT_LEVELS = 2


def json_bytes(value: object) -> bytes:
    """``value`` without white space. Half a surrogate pair, which some other writer may have left on a topic, becomes a question mark.

    Long lists and objects are encoded piece by piece: one call of the encoder keeps all other threads waiting, the event loop's too.
    """
    return b"".join(_encoded(value, _SPLIT_LEVELS))


def _encoded(value: object, levels: int) -> Iterator[bytes]:
    if levels and isinstance(value, dict) and any(isinstance(inner, dict | list) for inner in value.values()):
        before = b"{"
        for key, inner in value.items():
            yield before + _dumped(key) + b":"
            yield from _encoded(inner, levels - 1)
            before = b","
        yield b"}"
    elif isinstance(value, dict | list) and len(value) > _ENCODED_AT_ONCE:
        entries, (first, last) = (list(value.items()), b"{}") if isinstance(value, dict) else (value, b"[]")
        for at in range(0, len(entries), _ENCODED_AT_ONCE):
            some = entries[at : at + _ENCODED_AT_ONCE]
            yield (b"," if at else bytes([first])) + _dumped(dict(some) if isinstance(value, dict) else some)[1:-1]
        yield bytes([last])
    else:
        yield _dumped(value)


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(errors="replace")


def connector_json(connector: ConnectorInfo, config: Mapping[str, str]) -> Json:
    """``config`` is the one to show: with secrets masked."""
    return {"name": connector.name, "config": dict(config), "tasks": [_task_id(task) for task in connector.tasks], "type": connector.type}


def status_json(status: ConnectorStatusView) -> Json:
    return {
        "name": status.name,
        "connector": _state(status.connector),
        "tasks": [task_state_json(task) for task in status.tasks],
        "type": status.type,
    }


def task_state_json(task: TaskView) -> Json:
    return {"id": task.id, **_state(task)}


def _state(state: StateView | TaskView) -> Json:
    """Version and trace only where there is one."""
    shown: Json = {"state": str(state.state), "worker_id": state.worker_id}
    if state.version:
        shown["version"] = state.version
    if state.trace:
        shown["trace"] = state.trace
    return shown


def task_json(task: TaskInfo, config: Mapping[str, str]) -> Json:
    return {"id": _task_id(task.id), "config": dict(config)}


def _task_id(task: ConnectorTaskId) -> Json:
    return {"connector": task.connector, "task": task.task}


def offsets_json(offsets: Iterable[OffsetView]) -> Json:
    return {"offsets": [{"partition": entry.partition, "offset": entry.offset} for entry in offsets]}


def plugin_json(plugin: PluginView) -> Json:
    """A plugin that has no version shows none."""
    shown: Json = {"class": plugin.class_name, "type": plugin.type}
    if plugin.version is not None:
        shown["version"] = plugin.version
    return shown


def config_key_json(key: ConfigKeyView) -> Json:
    return {
        "name": key.name,
        "type": key.type,
        "required": key.required,
        "default_value": key.default_value,
        "importance": key.importance,
        "documentation": key.documentation,
        "group": key.group,
        "order_in_group": key.order,
        "width": key.width,
        "display_name": key.display_name,
        "dependents": list(key.dependents),
    }


def validation_json(validation: Validation) -> Json:
    return {
        "name": validation.name,
        "error_count": validation.error_count,
        "groups": list(validation.groups),
        "configs": [
            {"definition": None if key is None else config_key_json(key), "value": _config_value(value)}
            for key, value in validation.configs
        ],
    }


def _config_value(value: ConfigValueView) -> Json:
    return {
        "name": value.name,
        "value": value.value,
        "recommended_values": list(value.recommended_values),
        "errors": list(value.errors),
        "visible": value.visible,
    }


def worker_json(worker: WorkerView) -> Json:
    return {
        "worker_id": worker.worker_id,
        "connector": worker.connector,
        "claim": worker.claim,
        "tasks": list(worker.tasks),
        "started": worker.started,
    }
