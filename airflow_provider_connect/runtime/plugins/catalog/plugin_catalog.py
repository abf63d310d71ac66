"""Finds plugins, their versions and locations, without importing them. Only ``Plugin.load`` imports a plugin.

Plugins come from three places: the built-ins (a table, so nothing is read), the locations of ``plugin.path``, and distributions installed
in the environment (read only if a name is not a built-in class). Several versions of a class can exist side by side, and so can Java and
Python plugins. A Java connector uses Java converters, transformations and predicates. A Python connector uses Python converters,
transformations and predicates.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final

from airflow_provider_connect import __version__
from airflow_provider_connect.errors import ConfigException, PluginNotFoundException, PluginVersionException
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.plugin_kinds import (
    CONNECTOR_KINDS,
    SUFFIXES,
    Declarations,
    Declared,
    PluginKind,
)
from airflow_provider_connect.runtime.model.unknown_settings import nearest
from airflow_provider_connect.runtime.model.versions import MavenVersion, choose_version
from airflow_provider_connect.runtime.plugins.catalog.next_step import INSTALL, next_step
from airflow_provider_connect.runtime.plugins.catalog.plugin import Plugin, answering, chosen, versions_of
from airflow_provider_connect.runtime.plugins.loading.plugin_path import BrokenLocation, Location, LocationForm, locations
from airflow_provider_connect.runtime.spark.jar_cache import KAFKA_CONNECT

__all__ = ["CONNECTOR_KINDS", "Plugin", "PluginCatalog", "PluginKind", "versions_of"]

REFRESH_SECONDS: Final = 1.0
_KINDS: Final = tuple(PluginKind)
_MOST_UNREAD: Final = 5


class PluginCatalog:
    """The plugins of ``plugin_path`` and of the environment. May be used from several threads.

    A change of a location takes effect within ``REFRESH_SECONDS``. No location is read before the first call.
    """

    def __init__(self, plugin_path: Sequence[str] = (), *, now: Callable[[], float] = time.monotonic) -> None:
        self._plugin_path = tuple(plugin_path)
        self._now = now
        self._lock = threading.Lock()
        self._read: dict[str, tuple[Location, list[Plugin], list[BrokenLocation]]] = {}  # by path
        self._refreshed_at: float | None = None
        self._unreadable: list[BrokenLocation] = []
        self._built_ins = [_plugin(declared, None) for declared in built_ins(__version__)]
        self._connects = [_plugin(declared, None, is_java=True) for declared in of_connects_runtime()]
        self._installed: list[Plugin] | None = None
        self._installed_broken: list[BrokenLocation] = []

    def plugins(self, kinds: Iterable[PluginKind] = _KINDS) -> list[Plugin]:
        """All plugins of these kinds, in the order of kinds, class names, versions."""
        wanted = set(kinds)
        return [plugin for plugin in _sorted(self._all()) if plugin.kind in wanted]

    def broken(self) -> list[BrokenLocation]:
        """The locations on ``plugin.path`` that cannot be used. Includes installed distributions after they were first searched for a
        name."""
        self._on_path()
        with self._lock:
            on_path = (broken for _, _, problems in self._read.values() for broken in problems)
            return [*self._unreadable, *on_path, *self._installed_broken]

    def named(self, name: str, kinds: Iterable[PluginKind] = _KINDS) -> list[Plugin]:
        """Every version of the plugin with this ``name``, oldest first. A name is the class name, the name of its Python class, the simple
        name, or the simple name without ``Connector`` (``Converter``, …).

        Raises ConfigException if plugins of several classes have that name.
        """
        return self._named(name, kinds, is_java=None)

    def _named(self, name: str, kinds: Iterable[PluginKind], *, is_java: bool | None) -> list[Plugin]:
        """``is_java`` None: both Java and Python plugins. True: the plugins that a Java connector can use, including the plugins of
        Connect's own runtime."""
        wanted = set(kinds)
        what = "connector" if wanted <= set(CONNECTOR_KINDS) else "plugin"
        known = [plugin for plugin in (*self._built_ins, *self._on_path()) if name in plugin.names]
        if not any(plugin.location is None and plugin.class_name == name for plugin in known):
            known += [plugin for plugin in self._in_environment() if name in plugin.names]
        known = [plugin for plugin in known if plugin.kind in wanted and is_java in (None, plugin.is_java)]
        if is_java:
            known += [plugin for plugin in self._connects if name in plugin.names and plugin.kind in wanted]
        return _sorted(answering(known, name, what))

    def used_by(self, name: str, kind: PluginKind, *, is_java: bool) -> list[Plugin]:
        """Every version of the plugin ``name`` that a Java connector (``is_java``) or a Python connector can use, oldest first."""
        return self._named(name, (kind,), is_java=is_java)

    def find(
        self, kind: PluginKind, name: str, spec: str | None = None, *, is_java: bool | None = None, near: Location | None = None
    ) -> Plugin:
        """The newest version of the plugin ``name`` of ``kind`` that satisfies ``spec`` (a ``….plugin.version``; None: the newest).
        ``is_java``: True for a Java connector, False for a Python connector, None for either. ``near`` is the location of that connector.

        Raises PluginNotFoundException, which lists the known plugins. Raises PluginVersionException, which lists the installed versions.
        Raises ConfigException for an ambiguous name, for a spec that is not a range, and for a version that is in two locations.
        """
        found = self._named(name, (kind,), is_java=is_java)
        if not found and is_java is not None and self._named(name, (kind,), is_java=not is_java):
            here, there = ("Java", "Python") if is_java else ("Python", "Java")
            raise ConfigException(f"The {kind} {cut(name)} is a {there} plugin, which a {here} connector cannot use")
        if not found:
            known = sorted({plugin.class_name for plugin in self._all() if plugin.kind is kind})
            hint = self._hint(name, (kind,))
            text = f"No {kind} is called {cut(name)}{hint and f'; {hint}'}; there are: {', '.join(known)}.{self.unread(name)}"
            raise PluginNotFoundException(text.removesuffix("."), known=known)
        return self._chosen(found, spec, near=near)

    def find_connector(self, name: str, spec: str | None = None, location: str | None = None) -> Plugin:
        """Like ``find``, for the source or sink connector ``name``. If a location is given, searches only that location. Raises
        ConfigException, with Connect's text, for an unknown connector."""
        found = self.named(name, CONNECTOR_KINDS)
        if not found:
            known = ", ".join(f"{plugin.class_name} {plugin.version}" for plugin in self.plugins(CONNECTOR_KINDS))
            hint = next_step(name) or self._hint(name, CONNECTOR_KINDS) or INSTALL
            text = (
                f"Failed to find any class that implements Connector and which name matches {cut(name)}, available connectors are: "
                f"({hint}) {known}.{self.unread(name)}"
            )
            raise ConfigException(text.removesuffix("."))
        return self._chosen(found, spec, location)

    def _hint(self, name: str, kinds: Iterable[PluginKind]) -> str:
        near = nearest(name, {known for plugin in self.plugins(kinds) for known in plugin.names})
        return "" if near is None else f"did you mean {near}?"

    def unread(self, name: str) -> str:
        """A sentence that lists unusable locations of ``plugin.path``. It is appended to the error that ``name`` is unknown. Likely
        locations of ``name`` come first. Empty if all locations are usable."""
        names = dict.fromkeys(os.path.basename(each.path.rstrip("/")) for each in self.broken())
        if not names:
            return ""
        near_first = sorted(names, key=lambda each: not name.startswith(each.partition(".")[0]))
        shown = ", ".join(cut(each) for each in near_first[:_MOST_UNREAD])
        more = f" and {len(names) - _MOST_UNREAD} more" if len(names) > _MOST_UNREAD else ""
        return f" Not usable on plugin.path: {shown}{more}; 'airflow connect plugins broken' prints the reasons"

    def _chosen(self, found: Sequence[Plugin], spec: str | None, location: str | None = None, *, near: Location | None = None) -> Plugin:
        try:
            return chosen(found, spec, location, near=near)
        except PluginVersionException:
            class_name = found[0].class_name
            of_all_kinds = dict.fromkeys((plugin.kind, plugin.version) for plugin in self.named(class_name))
            choose_version(class_name, [version for _, version in of_all_kinds], spec)  # in Connect's order, each once per kind
            raise

    def _all(self) -> list[Plugin]:
        return [*self._built_ins, *self._on_path(), *self._in_environment()]

    def _in_environment(self) -> list[Plugin]:
        """The plugins in the environment. Reads them only once, because a process may have imported packages, and does not notice when they
        change."""
        with self._lock:
            if self._installed is None:
                from airflow_provider_connect.runtime.plugins.catalog.location_reader import read_environment

                parts = list(read_environment())
                self._installed = list(dict.fromkeys(_plugin(each, None) for _, part in parts for each in part.plugins))
                self._installed_broken = [BrokenLocation(entry, problem) for entry, part in parts for problem in part.problems]
            return self._installed

    def _on_path(self) -> list[Plugin]:
        if not self._plugin_path:
            return []
        with self._lock:
            if self._refreshed_at is None or self._now() - self._refreshed_at >= REFRESH_SECONDS:
                self._refresh()
                self._refreshed_at = self._now()
            return [plugin for _, plugins, _ in self._read.values() for plugin in plugins]

    def _refresh(self) -> None:
        from airflow_provider_connect.runtime.plugins.catalog.location_reader import read_location

        found, self._unreadable = locations(self._plugin_path)
        before, self._read = self._read, {}
        for location in found:
            known = before.get(location.path)
            if known is not None and known[0] == location:
                self._read[location.path] = known
                continue
            declared = read_location(location)
            if declared.problems and not os.path.exists(location.path):
                continue
            if declared.problems:  # the location may have been replaced while it was read
                declared = read_location(location)
            self._read[location.path] = _located(location, declared)


def _located(location: Location, declared: Declarations) -> tuple[Location, list[Plugin], list[BrokenLocation]]:
    plugins = [_plugin(each, location) for each in declared.plugins]
    return location, plugins, [BrokenLocation(location.path, problem) for problem in declared.problems]


def _plugin(declared: Declared, location: Location | None, *, is_java: bool = False) -> Plugin:
    is_java = is_java or (location is not None and location.form is LocationForm.JAVA)
    return Plugin(declared.kind, declared.class_name, declared.reference, declared.version, location, _names(declared), is_java)


def _names(declared: Declared) -> frozenset[str]:
    whole = {declared.class_name, declared.reference.replace(":", "."), *declared.names}
    return short_names(declared.class_name, declared.kind) | whole


def short_names(class_name: str, kind: PluginKind) -> frozenset[str]:
    """Short names of a plugin class. Nested Java classes (``Cast$Key``) have no short names, because these would always be ambiguous."""
    if "$" in class_name:
        return frozenset()
    simple = class_name.rpartition(".")[2]
    pruned = {simple.removesuffix(suffix) for suffix in SUFFIXES[kind]} - {""}
    return frozenset({simple, *pruned})


def _sorted(plugins: Sequence[Plugin]) -> list[Plugin]:
    """The plugins, sorted by kind, class name and version. Equal versions stay in the order of their locations."""
    return sorted(plugins, key=lambda plugin: (_KINDS.index(plugin.kind), plugin.class_name, MavenVersion(plugin.version)))


_HOUSE = "airflow_provider_connect"
_KAFKA = "org.apache.kafka.connect"
_NUMBERS = ("BooleanConverter", "DoubleConverter", "FloatConverter", "IntegerConverter", "LongConverter", "ShortConverter")

_JDBC = (
    (PluginKind.SINK, "connectors.jdbc.sink.connector:JdbcSinkConnector", "io.aiven.connect.jdbc.JdbcSinkConnector"),
    (PluginKind.SOURCE, "connectors.jdbc.source.connector:JdbcSourceConnector", "io.aiven.connect.jdbc.JdbcSourceConnector"),
)
_OWN = (
    (PluginKind.SINK, "connectors.filesystem.sink:FileSystemSinkConnector"),
    (PluginKind.SINK, "connectors.lake.delta_sink:DeltaSinkConnector"),
    (PluginKind.SINK, "connectors.spark.sink:SparkSinkConnector"),
    (PluginKind.SOURCE, "connectors.dead_letters.connector:DeadLetterReplayConnector"),
    (PluginKind.SOURCE, "connectors.spark.source:SparkSourceConnector"),
    (PluginKind.SOURCE, "connectors.logs.source:LogSourceConnector"),
    (PluginKind.SOURCE, "connectors.filesystem.source.connector:FileSystemSourceConnector"),
    (PluginKind.TRANSFORMATION, "transforms.sql:SqlTransform"),
)
"""Plugins without a counterpart in Kafka Connect. Their class name is the name of the Python class."""
_REPLACED = {
    "connectors.filesystem.sink:FileSystemSinkConnector": frozenset(
        f"io.confluent.connect.{name}SinkConnector"
        for name in ("azure.blob.AzureBlobStorage", "gcs.Gcs", "hdfs.Hdfs", "hdfs3.Hdfs3", "s3.S3")
    )
}
"""Names of the Java plugins that built-in plugins replace."""
_LAKE = (
    (
        "org.apache.iceberg.connect.IcebergSinkConnector",
        "connectors.lake.iceberg_sink:IcebergSinkConnector",
        "io.tabular.iceberg.connect.IcebergSinkConnector",
    ),
)
"""Sinks for data lakes: class name, module and class, and another name."""
_MIRRORS = ("Source", "Checkpoint", "Heartbeat")
_SMTS = {
    "transforms.cast": "Cast$Key Cast$Value",
    "transforms.fields": "InsertField$Key InsertField$Value MaskField$Key MaskField$Value ReplaceField$Key ReplaceField$Value",
    "transforms.headers": "DropHeaders HeaderFrom$Key HeaderFrom$Value InsertHeader",
    "transforms.predicates": "Filter",
    "transforms.routing": "RegexRouter TimestampRouter",
    "transforms.structs": "ExtractField$Key ExtractField$Value Flatten$Key Flatten$Value HoistField$Key HoistField$Value "
    "SetSchemaMetadata$Key SetSchemaMetadata$Value ValueToKey",
    "transforms.timestamp_converter": "TimestampConverter$Key TimestampConverter$Value",
}
"""Single message transformations, by their module."""
SAME_TOPIC = frozenset(name for module, names in _SMTS.items() if module != "transforms.routing" for name in names.split())
"""Those that leave a record's topic unchanged."""
_REGISTRY_CONVERTERS = (
    ("converters.registry.avro_converter", "io.confluent.connect.avro.AvroConverter"),
    ("converters.registry.json_schema_converter", "io.confluent.connect.json.JsonSchemaConverter"),
    ("converters.registry.protobuf_converter", "io.confluent.connect.protobuf.ProtobufConverter"),
)
"""Converters with a schema registry, by their module."""
_CONVERTERS = (
    ("converters.json.converter", "json", ("JsonConverter",)),
    ("converters.plain", "storage", ("StringConverter",)),
    ("converters.plain", "converters", ("ByteArrayConverter", *_NUMBERS)),
)


def built_ins(version: str) -> list[Declared]:
    """All built-in plugins, with ``version``."""
    table = [
        (PluginKind.SINK, "connectors.file_sink", "file", ("FileStreamSinkConnector",)),
        (PluginKind.SOURCE, "connectors.file_source", "file", ("FileStreamSourceConnector",)),
        *((PluginKind.SOURCE, f"connectors.mirror_maker.{name.lower()}", "mirror", (f"Mirror{name}Connector",)) for name in _MIRRORS),
        *((PluginKind.TRANSFORMATION, module, "transforms", names.split()) for module, names in _SMTS.items()),
        (PluginKind.PREDICATE, "transforms.predicates", "transforms.predicates", ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")),
        *((kind, *row) for kind in (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER) for row in _CONVERTERS),
        (PluginKind.HEADER_CONVERTER, "converters.plain", "storage", ("SimpleHeaderConverter",)),
    ]
    databases = [
        Declared(kind, f"io.confluent.connect.jdbc.{reference.partition(':')[2]}", f"{_HOUSE}.{reference}", version, frozenset({name}))
        for kind, reference, name in _JDBC
    ]
    own = [
        Declared(kind, f"{_HOUSE}.{reference.replace(':', '.')}", f"{_HOUSE}.{reference}", version, _REPLACED.get(reference, frozenset()))
        for kind, reference in _OWN
    ]
    lake = [Declared(PluginKind.SINK, name, f"{_HOUSE}.{reference}", version, frozenset({other})) for name, reference, other in _LAKE]
    of_registries = [
        Declared(PluginKind.CONVERTER, name, f"{_HOUSE}.{module}:{name.rpartition('.')[2]}", version)
        for module, name in _REGISTRY_CONVERTERS
    ]
    return [*databases, *lake, *own, *of_registries] + [
        Declared(kind, f"{_KAFKA}.{package}.{name}", f"{_HOUSE}.{module}:{name.replace('$', '')}", version)
        for kind, module, package, names in table
        for name in names
    ]


@cache
def built_in_connectors() -> frozenset[str]:
    """All names of the built-in connectors."""
    return frozenset(name for declared in built_ins(__version__) if declared.kind in CONNECTOR_KINDS for name in _names(declared))


def of_connects_runtime() -> list[Declared]:
    """The converters, transformations and predicates of Kafka Connect's own runtime, derived from our built-ins with the same names."""
    prefixes = tuple(f"{_KAFKA}.{package}." for package in ("json", "storage", "converters", "transforms"))
    found = (declared for declared in built_ins(KAFKA_CONNECT) if declared.class_name.startswith(prefixes))
    return [Declared(each.kind, each.class_name, each.class_name, each.version) for each in found]
