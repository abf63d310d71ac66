"""The plugins that Kafka Connect finds in a location, with the version that each plugin reports. Loads the plugins' code in a JVM."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider_connect.runtime.java.jvm.jvm import Jvm
from airflow_provider_connect.runtime.java.jvm.runtime_jars import runtime_jars
from airflow_provider_connect.runtime.spark.jar_cache import announce, fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime

_SCANNER: Final = ("io.github.classgraph:classgraph:4.8.179:jar",)
_HEAP: Final = "512m"
_LISTS: Final = {
    "sink": "sinkConnectors",
    "source": "sourceConnectors",
    "transformation": "transformations",
    "predicate": "predicates",
    "converter": "converters",
    "header_converter": "headerConverters",
}
_CLASS_PATH: Final = "classpath"


@dataclass(frozen=True, slots=True, order=True)
class FoundPlugin:
    """``kind`` is as in ``GET /connector-plugins``. ``version`` is the version that the plugin reports, or ``undefined`` if it reports
    none."""

    kind: str
    name: str
    version: str


def scan(location: Path, cache: Path, java: JavaRuntime, *, notify: Callable[[str], None] = announce) -> Sequence[FoundPlugin]:
    """Every plugin in ``location``, a folder of jars or one jar, whether or not a service file names it. The result is sorted. The scan
    takes several seconds.

    Raises ConnectException if no JVM can be started, or Connect cannot read the location.
    """
    logging.getLogger("java.org.apache.kafka.connect.runtime.isolation").setLevel(logging.ERROR)  # recommends another discovery
    scanner = fetch_jars(cache, "classgraph", _SCANNER, java, notify=notify)
    jvm = Jvm(java, [*runtime_jars(cache, java, notify=notify), *scanner.iterdir()], heap=_HEAP, hide=str)
    try:
        path = jvm.folder / "scanned"
        path.mkdir()
        (path / location.name).symlink_to(location.resolve())
        with jvm.calls():
            settings = jvm.java.java.util.HashMap()
            settings.putAll({"plugin.path": str(path), "plugin.discovery": "hybrid_warn"})
            return sorted(_found(jvm.java.org.apache.kafka.connect.runtime.isolation.Plugins(settings)))
    finally:
        jvm.close()


def _found(plugins: Any) -> Iterator[FoundPlugin]:
    """Reads Connect's ``Plugins``, typed Any because it is a Java object."""
    for kind, listed in _LISTS.items():
        for found in getattr(plugins, listed)():
            if str(found.location()) != _CLASS_PATH:
                yield FoundPlugin(kind, str(found.className()), str(found.version()))
