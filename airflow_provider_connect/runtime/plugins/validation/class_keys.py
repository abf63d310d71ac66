"""Settings that name a plugin class or version: the values that such a setting accepts, recommends and shows, with Kafka Connect's texts
(contract §5.4). Loads only the classes that a config names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, ConnectException, PluginNotFoundException, PluginVersionException
from airflow_provider_connect.runtime.model.versions import requirement
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import Plugin, PluginCatalog, PluginKind, versions_of
from airflow_provider_connect.sdk.config_def import Plugin as PluginClass
from airflow_provider_connect.sdk.converter import Converter, HeaderConverter
from airflow_provider_connect.sdk.transformations import Predicate, Transformation

INTERFACES: Final[Mapping[PluginKind, type[PluginClass]]] = {
    PluginKind.CONVERTER: Converter,
    PluginKind.HEADER_CONVERTER: HeaderConverter,
    PluginKind.TRANSFORMATION: Transformation,
    PluginKind.PREDICATE: Predicate,
}

_KAFKA: Final = "org.apache.kafka.connect."
_CONNECTS: Final[Mapping[str, tuple[str, Sequence[PluginKind]]]] = {
    f"{_KAFKA}transforms.Transformation": ("interface", (PluginKind.TRANSFORMATION,)),
    f"{_KAFKA}transforms.predicates.Predicate": ("interface", (PluginKind.PREDICATE,)),
    f"{_KAFKA}storage.Converter": ("interface", (PluginKind.CONVERTER,)),
    f"{_KAFKA}storage.HeaderConverter": ("interface", (PluginKind.HEADER_CONVERTER,)),
    f"{_KAFKA}converters.NumberConverter": ("class", (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER)),
}
"""Types of Kafka Connect that plugins implement: for each type, the word in Java's messages, and the kinds of plugins that implement the
type."""
_ABSTRACT: Final = "This class is abstract and cannot be created."


def found(catalog: PluginCatalog, kind: PluginKind, key: str, named: str) -> list[Plugin]:
    """Every version of the plugin that ``key`` names. Raises ConfigException for a name that no plugin of this kind has."""
    plugins = catalog.used_by(named, kind, is_java=False)
    if plugins:
        return plugins
    _refuse_abstract(catalog, kind, named)
    others = catalog.named(named)
    if any(plugin.kind is kind for plugin in others):
        raise ConfigException.of(key, named, f"Class {named} is a Java plugin, which a Python connector cannot use.")
    if others:
        interface = INTERFACES[kind].__name__
        raise ConfigException(f"Class class {others[0].class_name} does not implement the {interface} interface")
    raise ConfigException.of(key, named, f"Class {named} could not be found.{catalog.unread(named)}{_instead(kind, named)}")


def _instead(kind: PluginKind, named: str) -> str:
    """Advice for a Python connector that names a Java plugin. Empty if the name does not look like a Java class. The message is then
    exactly Kafka Connect's."""
    if not named.startswith(_MAKERS) or ".example." in named:
        return ""
    own = _INSTEAD.get(named) or (_USE_SQL if kind is PluginKind.TRANSFORMATION else _WRITE)
    return f" Java's {kind}s are for connectors in Java: {own}, or have Java's connector installed (connector.plugin.location)."


_MAKERS: Final = ("com.", "io.", "org.")
_WRITE: Final = "for this one in Python write one (docs/writing-transformations.md)"
_USE_SQL: Final = "for this one in Python use SqlTransform or one of your own (docs/transformations.md)"
_INSTEAD: Final = {
    "io.confluent.connect.replicator.util.ByteArrayConverter": "use org.apache.kafka.connect.converters.ByteArrayConverter",
    "io.confluent.connect.transforms.TombstoneHandler": "use the transformation Filter with the predicate RecordIsTombstone",
}


def _refuse_abstract(catalog: PluginCatalog, kind: PluginKind, named: str) -> None:
    """Raises ConfigException for a class of Kafka Connect that cannot be instantiated, such as ``Cast``, the outer class of
    ``Cast$Key``."""
    nested = [plugin for plugin in catalog.plugins() if not plugin.is_java and plugin.class_name.startswith(f"{named}$")]
    word, kinds = _CONNECTS.get(named, ("class", [plugin.kind for plugin in nested]))
    if kind in kinds:
        names = ", ".join(dict.fromkeys(plugin.class_name for plugin in nested))
        raise ConfigException(f"{_ABSTRACT} Did you mean {names}?" if names else _ABSTRACT)
    if kinds:
        raise ConfigException(f"Class {word} {named} does not implement the {INTERFACES[kind].__name__} interface")


def create_instance(plugin: Plugin, kind: PluginKind, key: str) -> Any:
    """An instance of the plugin's class, which implements ``INTERFACES[kind]``. Raises ConfigException with Connect's texts."""
    loaded = plugin.load()
    interface = INTERFACES[kind]
    if not isinstance(loaded, type) or not issubclass(loaded, interface):
        raise ConfigException(f"Class class {plugin.class_name} does not implement the {interface.__name__} interface")
    if inspect.isabstract(loaded):
        raise ConfigException(_ABSTRACT)
    try:
        inspect.signature(loaded).bind()
    except (TypeError, ValueError) as error:
        raise ConfigException.of(key, plugin.class_name, f"Could not find a public no-argument constructor for class: {error}") from error
    try:
        return loaded()
    except Exception as error:
        raise ConfigException.of(key, plugin.class_name, f"Could not instantiate class{_because(error)}") from error


def _because(error: Exception) -> str:
    return f": {error}" if str(error) else ""


class ClassCheck:
    """Validator of a setting that names a class: a version of the class must exist, and it must be possible to instantiate the chosen
    version. A missing value is valid."""

    def __init__(self, choice: PluginChoice, kind: PluginKind) -> None:
        self._choice = choice
        self._kind = kind

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        found(self._choice.catalog, self._kind, name, value)
        try:
            plugin = self._choice.other(self._kind, value, None)
        except (PluginVersionException, PluginNotFoundException):
            return  # reported at the key of the version
        create_instance(plugin, self._kind, name)


class ClassChoices:
    """Recommends every plugin of a kind, repeated for each version, as Connect does."""

    def __init__(self, catalog: PluginCatalog, kind: PluginKind) -> None:
        self._catalog = catalog
        self._kind = kind

    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        return [plugin.class_name for plugin in self._catalog.plugins((self._kind,)) if not plugin.is_java]

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return True


class VersionChoices:
    """Recommends the versions of the plugin that ``named_by`` names. ``hides``: the setting is invisible while ``named_by`` names no
    plugin."""

    def __init__(self, versions: Callable[[str], list[Plugin]], named_by: str, *, hides: bool = True) -> None:
        self._versions = versions
        self._named_by = named_by
        self._hides = hides

    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        return list(versions_of(self._found(parsed)))

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return not self._hides or bool(self._found(parsed))

    def _found(self, parsed: Mapping[str, object]) -> list[Plugin]:
        named = parsed.get(self._named_by)
        try:
            return self._versions(str(named)) if named is not None else []
        except ConnectException:  # reported at the key of the class
            return []


def check_range(name: str, value: Any) -> None:
    """Validator of a ``….plugin.version``, which must be a range. The message is only Maven's, as in Connect."""
    requirement(value)
