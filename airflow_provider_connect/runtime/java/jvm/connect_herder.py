"""Kafka Connect's plugins, worker and herder in a JVM, built as Connect's distributed worker builds them.

The herder is never started, so it joins no group and writes to no topic. It validates configs, and receives the reports of its worker's
tasks. All classes used here are internal to Kafka Connect 4.3.1; no other version is supported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_provider_connect.runtime.java.jvm.jvm import Jvm

_FORCED: Final = {
    "plugin.discovery": "service_load",
    "connector.client.config.override.policy": "All",  # this package has applied the worker's policy to the config
}
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_POLICY: Final = "org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy"


class ConnectHerder:
    """``connect`` is Connect's package. ``plugins``, ``worker`` and ``herder`` are Connect's objects. Their type is Any because they are
    Java objects."""

    def __init__(self, jvm: Jvm, settings: Mapping[str, str], locations: Sequence[Path], *, cluster: str | None = None) -> None:
        """``settings`` are the settings of Connect's distributed worker. Connect loads only the plugins at ``locations``. ``cluster`` is
        the id of the Kafka cluster. None: Connect asks the brokers. Must be called within ``jvm.calls()``, which documents the errors."""
        self._jvm = jvm
        java = jvm.java
        self.connect: Any = java.org.apache.kafka.connect
        runtime, storage = self.connect.runtime, self.connect.storage
        forced = {**settings, **_FORCED, "plugin.path": str(_plugin_path(jvm.folder, locations))}
        self.plugins: Any = runtime.isolation.Plugins(self.map(forced))
        self._use_delegating_loader()
        config = runtime.distributed.DistributedConfig(self.map(forced))
        if cluster is not None:
            known = java.java.lang.Class.forName("org.apache.kafka.connect.runtime.WorkerConfig").getDeclaredField("kafkaClusterId")
            known.setAccessible(True)  # otherwise, the worker's constructor asks a broker for the id
            known.set(config, cluster)
        id_, time = config.kafkaClusterId(), java.org.apache.kafka.common.utils.Time.SYSTEM
        name = config.getString("connector.client.config.override.policy")
        policy = self.plugins.newPlugin(name, config, java.java.lang.Class.forName(_POLICY))
        unused = storage.FileOffsetBackingStore(self.plugins.newInternalConverter(True, _JSON, {"schemas.enable": "false"}))
        nowhere = {"offset.storage.file.filename": str(jvm.folder / "no-offsets")}  # exactly-once tasks have other stores
        unused.configure(runtime.standalone.StandaloneConfig(self.map({**forced, **nowhere})))
        self.worker: Any = runtime.Worker("java:0", time, self.plugins, config, unused, policy)
        stores = (storage.MemoryStatusBackingStore(), storage.MemoryConfigBackingStore())
        nothing = jvm.array(java.java.lang.AutoCloseable, 0)
        self.herder: Any = runtime.distributed.DistributedHerder(
            config, time, self.worker, id_, *stores, "http://localhost/", None, policy, java.java.util.List.of(), nothing
        )

    def _use_delegating_loader(self) -> None:
        """Let every thread that calls from Python use, and every further one inherit, the class loader that finds plugins: Py4J may open
        a connection, with a thread of its own, for any call."""
        threads = self._jvm.java.java.lang.Thread
        before = self.plugins.compareAndSwapWithDelegatingLoader()
        loader = threads.currentThread().getContextClassLoader()
        for thread in threads.getAllStackTraces().keySet():
            if before.equals(thread.getContextClassLoader()):
                thread.setContextClassLoader(loader)

    def validate(self, config: Mapping[str, str | None]) -> Any:
        """Connect's ``ConfigInfos``. Must be called within ``jvm.calls()``."""
        found = self.connect.util.FutureCallback()
        self.herder.validateConnectorConfig(self.map(config), found, False)
        return found.get()

    def requests(self) -> Any:
        """The requests that a started herder would process: those of connectors for other tasks. Must be called within ``jvm.calls()``."""
        herders = self._jvm.java.java.lang.Class.forName("org.apache.kafka.connect.runtime.distributed.DistributedHerder")
        field = herders.getDeclaredField("requests")
        field.setAccessible(True)
        return field.get(self.herder)

    def map(self, values: Mapping[str, str | None]) -> Any:
        """A Java HashMap, because Connect adds entries to the map that it receives."""
        java_map = self._jvm.java.java.util.HashMap()
        java_map.putAll(dict(values))
        return java_map


def _plugin_path(folder: Path, locations: Sequence[Path]) -> Path:
    """A folder with links only to ``locations``, so that neighboring locations are not loaded."""
    path = folder / "plugins"
    path.mkdir()
    for number, location in enumerate(dict.fromkeys(locations)):
        link = path / f"{number}-{location.stem if location.is_file() else location.name}"
        if location.is_file():  # a jar is placed in a folder, whose name must not end in .jar
            link.mkdir()
            link = link / location.name
        link.symlink_to(location.resolve())
    return path
