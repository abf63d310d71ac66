"""The process that runs plugins' code for a probe. Serves requests from standard input, one after another, until the input ends.

It runs as ``python -m airflow_provider_connect.runtime.plugins.validation.probe_server``. Output of plugins goes to standard error. The
kernel ends the process when a request greatly exceeds its time limit, even if the parent process has ended.
"""

from __future__ import annotations

import os
import queue
import resource
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Final

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.model.offsets import OFFSET, PARTITION, TOPIC
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog, PluginKind
from airflow_provider_connect.runtime.plugins.validation.probe_messages import LATE, error_message, from_line, to_line
from airflow_provider_connect.runtime.plugins.validation.validation import key_view, validate_config
from airflow_provider_connect.sdk.config_def import ConfigDef
from airflow_provider_connect.sdk.connector import Connector

GRACE_SECONDS = 5
_NOT_OF_PLUGINS: Final = (
    os.path.join(Path(__file__).parents[3], ""),
    *(os.path.join(sysconfig.get_path("stdlib"), name) for name in ("importlib", "threading", "runpy")),
)


class Answers:
    """Answers the requests. Created with the first request, which contains the worker settings."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._choice = PluginChoice(PluginCatalog(settings.plugin_path), settings)

    def answer(self, request: Mapping[str, Any]) -> dict[str, object]:
        match request["ask"]:
            case "validate":
                return asdict(validate_config(self._choice, request["config"]))
            case "keys":
                return {"keys": self._keys(PluginKind(request["kind"]), request["class"], request["version"])}
            case "alter_offsets":
                return {"agreed": self._alter_offsets(request["connector"], request["config"], request["offsets"])}
        raise ValueError(f"unknown request: {request['ask']}")

    def _keys(self, kind: PluginKind, class_name: str, version: str) -> list[dict[str, object]]:
        found = next(plugin for plugin in self._choice.catalog.used_by(class_name, kind, is_java=False) if plugin.version == version)
        definition = getattr(found.load(), "config_def", None)
        if not isinstance(definition, ConfigDef):
            raise ConfigException(f"{class_name}.config() must return a ConfigDef that is not null.")
        return [{name: getattr(view, name) for name in view.__slots__} for view in map(key_view, definition.keys.values())]

    def _alter_offsets(self, name: str, config: Mapping[str, str], offsets: list[Any] | None) -> bool:
        plugin = self._choice.connector(name, config)
        connector: Connector = plugin.load()()
        connector.allowed_paths = self._choice.settings.allowed_paths
        pairs: list[Any] = [(partition, offset) for partition, offset in offsets or ()]
        if plugin.kind is PluginKind.SINK:
            by_partition = {TopicPartition(p[TOPIC], p[PARTITION]): None if o is None else o[OFFSET] for p, o in pairs}
            return bool(connector.alter_offsets(strip_framework_keys(config), by_partition))
        return bool(connector.alter_offsets(strip_framework_keys(config), pairs))


Answer = Callable[[Mapping[str, Any]], dict[str, object]]
"""The answer to one request. An exception is also an answer."""


def serve(make: Callable[[WorkerSettings, Mapping[str, str]], Answer]) -> None:
    """Answer requests until the end of standard input. ``make`` gets the worker settings and the values of variables, once."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the server's terminal is for the server only
    pending: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, pending), name="requests", daemon=True).start()
    asked: Answer | None = None
    while True:
        request = from_line(pending.get())
        if asked is None:
            _limit(request["memory_bytes"])
            asked = make(WorkerSettings.of(request["settings"], request["secrets"]), request["secrets"])
            continue
        signal.alarm(int(request["timeout_seconds"]) + GRACE_SECONDS)
        with _OneAnswer(answers, request.pop("until")) as write:
            write(_answered(asked, request))
        signal.alarm(0)


class _OneAnswer:
    """The answer to one request. If the answer comes after ``until``, on this host's monotonic clock, the line of the plugin's code that
    was running at that time replaces it."""

    def __init__(self, answers: BinaryIO, until: float) -> None:
        self._answers, self._watched = answers, threading.get_ident()
        self._lock, self._is_written = threading.Lock(), False
        self._timer = threading.Timer(max(until - time.monotonic(), 0.0), self._report)
        self._timer.daemon = True

    def __enter__(self) -> Callable[[Mapping[str, object]], None]:
        self._timer.start()
        return self._write

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _report(self) -> None:
        self._write({LATE: _line_of_plugin(self._watched)})

    def _write(self, answer: Mapping[str, object]) -> None:
        with self._lock:
            if not self._is_written:
                self._is_written = True
                self._answers.write(to_line(answer))
                self._answers.flush()


def _line_of_plugin(thread: int) -> str:
    """The text `` (file, line number)`` for the current position of a thread in code that is neither Python's nor this package's. Empty if
    the thread is not in such code."""
    stack = traceback.walk_stack(sys._current_frames().get(thread))
    lines = [(frame.f_code.co_filename, number) for frame, number in stack]
    found = next((line for line in lines if _may_be_of_plugin(line[0])), None)
    return "" if found is None else " ({}, line {})".format(*found)


def _may_be_of_plugin(file: str) -> bool:
    return os.path.isabs(file) and not file.startswith(_NOT_OF_PLUGINS) and "py4j" not in Path(file).parts  # the code waits for a JVM


def _read(requests: BinaryIO, pending: queue.SimpleQueue[bytes]) -> None:
    for line in requests:
        pending.put(line)
    os._exit(0)  # the parent has gone, whatever the plugin is doing


def _answered(answer: Answer, request: Mapping[str, Any]) -> dict[str, object]:
    try:
        return answer(request)
    except Exception as error:  # (plugins' code may raise anything)
        return error_message(error)
    except SystemExit as error:
        return {"error": f"The plugin's code called exit({error.code})", "kind": ""}


def _limit(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    serve(lambda settings, _: Answers(settings).answer)
