"""The process with the JVM of a Java probe. Serves requests from standard input, one after another, until the input ends.

It runs as ``python -m airflow_provider_connect.runtime.java.probe.server``. The first request starts the JVM, which ends with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.jvm.jvm import Jvm
from airflow_provider_connect.runtime.java.probe.inspector import PluginInspector
from airflow_provider_connect.runtime.plugins.validation.probe_server import serve
from airflow_provider_connect.runtime.spark.class_data import ClassData
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime


class JavaAnswers:
    """Answers the requests. Of the worker settings, only the group, exactly-once support and the converters' classes reach the JVM."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._inspector: PluginInspector | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, object]:
        if request["ask"] == "start":
            self._inspector = self._start_inspector(request)
            return {}
        inspector = self._inspector
        if inspector is None:
            raise ValueError("the first request must be start")
        inspector.jvm.title = request["title"]
        match request["ask"]:
            case "validate":
                return {"answer": inspector.validate(request["config"])}
            case "keys":
                return {"answer": inspector.keys(request["class"], request["version"])}
            case "alter_offsets":
                offsets = request["offsets"] or []
                return {"answer": inspector.alter_offsets(request["class"], request["version"], request["config"], offsets)}
        raise ValueError(f"unknown request: {request['ask']}")

    def _start_inspector(self, request: Mapping[str, Any]) -> PluginInspector:
        java = request["java"]
        runtime = JavaRuntime(Path(java["home"]), java["version"], Path(java["real_home"]))
        class_data = ClassData(Path(request["class_data"]))
        jvm = Jvm(runtime, [Path(jar) for jar in request["class_path"]], heap=request["heap"], hide=str, class_data=class_data)
        support = "enabled" if self._settings.exactly_once_source_enabled else "disabled"
        own = {"group.id": self._settings.group_id, "exactly.once.source.support": support, **request["converters"]}
        return PluginInspector(jvm, own, [Path(location) for location in request["locations"]])


if __name__ == "__main__":
    serve(lambda settings, _: JavaAnswers(settings).answer)
