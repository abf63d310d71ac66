"""Answers of Kafka Connect, in a JVM, about Java plugins and their configs: setting definitions, validations, alterations of offsets.

Connect's own herder answers, in its own JSON. The herder is never started, and asks no broker. Plugins may connect to servers that a config
names, because they also do this in a worker of Connect, to validate the config.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from airflow_provider_connect.errors import BadRequestException, ConfigException, ConnectException, JavaException, PluginNotFoundException
from airflow_provider_connect.runtime.java.jvm.connect_herder import ConnectHerder
from airflow_provider_connect.runtime.java.jvm.jvm import MISSING, Jvm

_FORCED: Final = {
    "bootstrap.servers": "localhost:1",  # no connection is made: validating a config asks no broker
    **{f"{kind}.storage.topic": f"unused-{kind}" for kind in ("config", "offset", "status")},
}
_SOURCE: Final = "org.apache.kafka.connect.source.SourceConnector"
_SINK: Final = "org.apache.kafka.connect.sink.SinkConnector"


class PluginInspector:
    """One herder, in ``jvm``. ``settings`` are the worker's group, converters and support of exactly once. The herder loads only plugins at
    ``locations``."""

    def __init__(self, jvm: Jvm, settings: Mapping[str, str], locations: Sequence[Path]) -> None:
        """Raises JavaException for settings that Connect refuses."""
        self.jvm = jvm
        with jvm.calls():
            started = ConnectHerder(jvm, {"group.id": "connect-cluster", **settings, **_FORCED}, locations, cluster="unknown")
            self._json = jvm.java.com.fasterxml.jackson.databind.ObjectMapper()
        self._connect, self._plugins, self._herder = started.connect, started.plugins, started.herder
        self._map, self._validate = started.map, started.validate

    def validate(self, config: Mapping[str, str | None]) -> dict[str, Any]:
        """Connect's ``ConfigInfos``, as its REST API writes them. Raises ConfigException, with Connect's text, if Connect cannot validate
        the config."""
        with _translate_errors(), self.jvm.calls():
            answer: dict[str, Any] = json.loads(str(self._json.writeValueAsString(self._validate(config))))
            return answer

    def keys(self, class_name: str, version: str | None) -> list[dict[str, Any]]:
        """The settings of a plugin. For a connector, the framework's settings are included. Raises PluginNotFoundException with Connect's
        text."""
        with _translate_errors(), self.jvm.calls():
            wanted = None if version is None else self._connect.runtime.isolation.PluginUtils.connectorVersionRequirement(version)
            found = self._herder.connectorPluginConfig(class_name, wanted)
            answer: list[dict[str, Any]] = json.loads(str(self._json.writeValueAsString(found)))
            return answer

    def alter_offsets(self, class_name: str, version: str | None, config: Mapping[str, str], offsets: Sequence[Any]) -> bool:
        """Call a connector's ``alterOffsets`` with pairs of source partition and offset. For a sink, the pairs have the form of Connect's
        REST API. False: the connector does not implement this method. Does not change the offsets that Connect stores."""
        with _translate_errors(), self.jvm.calls():
            wanted = None if version is None else self._connect.runtime.isolation.PluginUtils.connectorVersionRequirement(version)
            connector = self._plugins.newConnector(class_name, wanted)
            types = self.jvm.array(self.jvm.java.java.lang.Class, 2)
            types[0] = types[1] = self._class("java.util.Map")
            kind = self._class(_SINK)
            pairs = self._pairs(offsets)
            if kind.isInstance(connector):
                pairs = self._connect.util.SinkUtils.parseSinkConnectorOffsets(pairs)
            else:
                kind = self._class(_SOURCE)
            method = kind.getMethod("alterOffsets", types)  # the method of the interface, because versions share a class name
            loader = self._plugins.connectorLoader(class_name, wanted)
            return bool(self._call(loader, method, connector, self._map(config), pairs))

    def _pairs(self, offsets: Sequence[Any]) -> Any:
        """A Java map whose integers are Long, as when Connect reads its topics."""
        jackson = self.jvm.java.com.fasterxml.jackson.databind
        longs = jackson.ObjectMapper().configure(jackson.DeserializationFeature.USE_LONG_FOR_INTS, True)
        pairs = self.jvm.java.java.util.HashMap()
        for pair in longs.readValue(json.dumps(offsets), self._class("java.util.List")):
            pairs.put(pair[0], pair[1])
        return pairs

    def _call(self, loader: Any, method: Any, *arguments: Any) -> Any:
        """Call the method with ``loader`` as the thread's class loader, as in a worker of Connect, because a plugin's libraries find
        services there. All steps are one call from Python, because each call may run in another thread of the JVM."""
        java = self.jvm.java.java
        given = self.jvm.array(java.lang.Object, len(arguments))
        for number, argument in enumerate(arguments):
            given[number] = argument
        bound = java.lang.invoke.MethodHandles.insertArguments(java.lang.invoke.MethodHandles.publicLookup().unreflect(method), 0, given)
        asked = java.util.concurrent.FutureTask(
            java.lang.invoke.MethodHandleProxies.asInterfaceInstance(self._class("java.util.concurrent.Callable"), bound)
        )
        self._plugins.withClassLoader(loader, asked).run()
        return asked.get()

    def _class(self, name: str) -> Any:
        return self.jvm.java.java.lang.Class.forName(name)


_WRAPPERS: Final = ("java.util.concurrent.ExecutionException", "java.lang.reflect.InvocationTargetException")
_CAUSE: Final = re.compile(r"(?:Caused by: )?((?:[\w$]+\.)+[\w$]+)(?:: (.*))?")


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translates Connect's exceptions to ours, with only Java's message, because an author of configs does not need a trace of the
    herder."""
    try:
        yield
    except JavaException as error:
        raise _translated(error.trace) from None


def _translated(trace: str) -> Exception:
    lines = trace.splitlines()
    if lines[-1].startswith(MISSING):
        return ConnectException(lines[-1])
    messages = [*lines[:1], *(line for line in lines if line.startswith("Caused by: "))]
    causes = [found for line in messages if (found := _CAUSE.fullmatch(line))]
    cause = next((found for found in causes if found[1] not in _WRAPPERS), None)
    if cause is None:
        return ConnectException(trace.partition("\n")[0])
    kind, text = cause[1].rpartition(".")[2], cause[2] or cause[1]
    if kind == "UnsupportedOperationException":
        return NotImplementedError(text)
    kinds: dict[str, type[ConnectException]] = {"NotFoundException": PluginNotFoundException, "BadRequestException": BadRequestException}
    if kind.startswith("ConfigException") or cause[1] == "org.apache.kafka.connect.errors.ConnectException":
        return ConfigException(text)
    return kinds.get(kind, ConnectException)(text)
