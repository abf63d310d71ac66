"""Which plugins there are, by class name and alias, and their classes. Finds without importing; only ``load`` imports.

Built-ins stand in a table. Others come from entry points of the group ``airflow_provider_connect.plugins``, named ``«kind»:«class name»``
or ``«kind»:«alias»``, of installed distributions; their metadata is read only when no built-in has the name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.metadata import entry_points

from airflow_provider_connect.errors import ConfigException, PluginNotFoundException

GROUP = "airflow_provider_connect.plugins"
_HOUSE = "airflow_provider_connect"
_KAFKA = "org.apache.kafka.connect"


class PluginKind(StrEnum):
    """What a plugin is; values as in ``GET /connector-plugins``."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


CONNECTOR_KINDS = (PluginKind.SINK, PluginKind.SOURCE)


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin: the name it goes by, where its class lies (``module:Class``), and its distribution's version."""

    kind: PluginKind
    class_name: str
    reference: str
    version: str

    def load(self) -> type:
        """Import the class. Raises ConfigException naming the plugin when it cannot be imported."""
        module, _, name = self.reference.partition(":")
        try:
            loaded: type = getattr(import_module(module), name)
        except Exception as error:
            raise ConfigException(f"Plugin {self.class_name} ({self.reference}) cannot be imported: {error}") from error
        return loaded


def _built_in(kind: PluginKind, module: str, package: str, *names: str) -> list[Plugin]:
    from airflow_provider_connect import __version__

    return [Plugin(kind, f"{_KAFKA}.{package}.{name}", f"{_HOUSE}.{module}:{name}", __version__) for name in names]


_SUFFIXES = {
    PluginKind.SINK: ("Connector",),
    PluginKind.SOURCE: ("Connector",),
    PluginKind.TRANSFORMATION: ("Transformation",),
    PluginKind.PREDICATE: ("Predicate",),
    PluginKind.CONVERTER: ("Converter",),
    PluginKind.HEADER_CONVERTER: ("HeaderConverter", "Converter"),
}


def built_ins() -> list[Plugin]:
    """The plugins that this package brings, under Kafka Connect's names."""
    numbers = ("BooleanConverter", "DoubleConverter", "FloatConverter", "IntegerConverter", "LongConverter", "ShortConverter")
    plugins = [
        *_built_in(PluginKind.SINK, "connectors.file", "file", "FileStreamSinkConnector"),
        *_built_in(PluginKind.SOURCE, "connectors.file", "file", "FileStreamSourceConnector"),
    ]
    for kind in (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER):
        plugins += _built_in(kind, "converters.json", "json", "JsonConverter")
        plugins += _built_in(kind, "converters.string", "storage", "StringConverter")
        plugins += _built_in(kind, "converters.bytes", "converters", "ByteArrayConverter")
        plugins += _built_in(kind, "converters.numbers", "converters", *numbers)
    plugins += _built_in(PluginKind.HEADER_CONVERTER, "converters.header", "storage", "SimpleHeaderConverter")
    return plugins


def find(kind: PluginKind, name: str) -> Plugin:
    """The plugin of ``kind`` that goes by ``name``: its class name, its simple name, or that without ``Connector`` (``Converter``, …).

    Raises PluginNotFoundException, which lists what there is, or ConfigException when several go by the name.
    """
    found = [plugin for plugin in built_ins() if plugin.kind is kind and name in _names(plugin)]
    if not found:
        found = [plugin for plugin in _installed(kind) if name in _names(plugin)]
    if len({plugin.reference for plugin in found}) > 1:
        candidates = ", ".join(sorted(plugin.reference for plugin in found))
        raise ConfigException(f"More than one {kind} goes by {name}; please use one of the full names instead: {candidates}")
    if not found:
        known = sorted({plugin.class_name for plugin in (*built_ins(), *_installed(kind)) if plugin.kind is kind})
        raise PluginNotFoundException(f"No {kind} goes by the name {name}; there are: {', '.join(known)}", known=known)
    return found[0]


def find_connector(name: str) -> Plugin:
    """The source or sink connector that goes by ``name``. Raises ConfigException with Connect's words when there is none."""
    known: list[str] = []
    for kind in CONNECTOR_KINDS:
        try:
            return find(kind, name)
        except PluginNotFoundException as error:
            known += error.known
    text = f"Failed to find any class that implements Connector and which name matches {name}, available connectors are: {', '.join(known)}"
    raise ConfigException(text)


def _names(plugin: Plugin) -> set[str]:
    simple = plugin.class_name.rpartition(".")[2]
    pruned = {simple.removesuffix(suffix) for suffix in _SUFFIXES[plugin.kind]}
    return {plugin.class_name, plugin.reference.replace(":", "."), simple, *pruned}


def _installed(kind: PluginKind) -> Iterator[Plugin]:
    for entry in entry_points(group=GROUP):
        kind_name, _, class_name = entry.name.partition(":")
        if kind_name == kind:
            yield Plugin(kind, class_name, entry.value, entry.dist.version if entry.dist else "undefined")
