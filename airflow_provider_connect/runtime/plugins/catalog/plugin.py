"""One plugin in one version, and the choice among plugins with the same name: by version, runtime and location (KIP-891)."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter

from airflow_provider_connect.errors import ConfigException, PluginVersionException, message_of, plugin_code
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.connector_keys import LOCATION_KEY
from airflow_provider_connect.runtime.model.plugin_kinds import CONNECTOR_KINDS, PluginKind, is_hash_version
from airflow_provider_connect.runtime.model.versions import choose_version, oldest_first
from airflow_provider_connect.runtime.plugins.loading.plugin_path import Location


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin in one version. ``reference`` is ``module:Class``, or the Java class. ``location`` None: the class can be imported from
    the environment (built in or installed). A Java class is then on the class path of Kafka Connect's runtime."""

    kind: PluginKind
    class_name: str
    reference: str
    version: str
    location: Location | None = None
    names: frozenset[str] = field(default=frozenset(), compare=False)
    is_java: bool = False

    def load(self) -> type:
        """The class, imported from its location. Raises ConfigException, with plugin and origin, if it cannot be imported."""
        if self.is_java:
            raise ConfigException(f"Plugin {self.class_name} ({self.origin}) is a Java plugin: it has no Python class")
        try:
            with plugin_code():
                return self._loaded()
        except Exception as error:
            reason = _missing_variable(error) or f"{type(error).__name__}: {message_of(error)}"
            raise ConfigException(f"Plugin {self.class_name} ({self.origin}) cannot be imported: {reason}") from error

    def _loaded(self) -> type:
        if self.location is not None:
            from airflow_provider_connect.runtime.plugins.loading.plugin_loader import load

            return load(self.location, self.reference)
        module, _, attribute = self.reference.partition(":")
        loaded: type = attrgetter(attribute)(import_module(module))
        return loaded

    @property
    def origin(self) -> str:
        """A description of where the plugin is, for error messages."""
        return self.reference if self.location is None else f"{self.location.path}, {self.reference}"


def _missing_variable(error: Exception) -> str:
    """The reason and the remedy, if ``os.environ["…"]`` raised the error. Empty for other errors."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_code is not type(os.environ).__getitem__.__code__:
        return ""
    name = error.args[0]
    return (
        f"it reads environment variable {name}, which this process does not have. Processes that check configs and preview records get no "
        f"variables of the server, because they may be secrets. Declare a setting, and give it the value ${{env:{name}}} in the config"
    )


def versions_of(plugins: Iterable[Plugin]) -> list[str]:
    """The versions of the plugins, each once, oldest first."""
    return oldest_first(dict.fromkeys(plugin.version for plugin in plugins))


def answering(known: Sequence[Plugin], name: str, what: str) -> list[Plugin]:
    """The plugins to which a name refers. All plugins in ``known`` have that name. The result has the versions of one class. If both Python
    and Java have plugins of that name, it has the versions of one Python class and one Java class.

    An alias of a Python plugin is not an alias of a Java plugin, so installing a Java plugin changes no config. Raises ConfigException for
    an alias of several classes. ``what`` describes these classes in the message.
    """
    python = _of_one_class([plugin for plugin in known if not plugin.is_java], name, what)
    java = [plugin for plugin in known if plugin.is_java]
    classes = {name, *(plugin.class_name for plugin in python)}
    return [*python, *([plugin for plugin in java if plugin.class_name in classes] if python else _of_one_class(java, name, what))]


def _of_one_class(found: list[Plugin], name: str, what: str) -> list[Plugin]:
    classes = sorted({plugin.class_name for plugin in found})
    if len(classes) > 1 and name not in classes:
        raise ConfigException(
            f"More than one {what} matches alias {name}. Please use full package and class name instead. "
            f"Classes found: {', '.join(classes)}"
        )
    return found if len(classes) < 2 else [plugin for plugin in found if plugin.class_name == name]


def chosen(found: Sequence[Plugin], spec: str | None, location: str | None = None, *, near: Location | None = None) -> Plugin:
    """The plugin to use among ``found``, the versions of one name. ``near`` is the location of the connector that uses the plugin. Among
    equal versions, the plugin in ``near`` is used.

    Steps: (1) if ``location`` is given, keep only the plugins in the location of that name; (2) choose the newest Python plugin that
    satisfies ``spec``; (3) if there is none, choose the newest Java plugin that satisfies ``spec``. So if a class exists in both Python and
    Java, the Java class is used only if location or version require it. Raises PluginVersionException if no version satisfies ``spec``.
    Raises ConfigException for a spec that is not a range, for a location without the plugin, and for a version that is in two locations of
    which neither is ``near``. A version may be in two locations for Java's converters, transformations and predicates. Publishers put the
    same jars into several archives, and equal versions are the same code.
    """
    within = list(found) if location is None else _in_location(found, location)
    python, java = ([plugin for plugin in within if plugin.is_java is is_java] for is_java in (False, True))
    if python and java:
        try:
            return _newest(python, spec, near)
        except PluginVersionException:
            if not _any_satisfies(java, spec):
                return _newest(within, spec, near)
    return _newest(java or within, spec, near)


def _in_location(found: Sequence[Plugin], name: str) -> list[Plugin]:
    there = [plugin for plugin in found if plugin.location is not None and plugin.location.name == name]
    if not there:
        known = sorted({plugin.location.name for plugin in found if plugin.location is not None})
        text = f"no location of plugin.path called {cut(name)} has {found[0].class_name}; it is in: {', '.join(known) or 'no location'}"
        raise ConfigException.of(LOCATION_KEY, name, text)
    return there


def _any_satisfies(found: Sequence[Plugin], spec: str | None) -> bool:
    try:
        return bool(choose_version(found[0].class_name, versions_of(found), spec))
    except PluginVersionException:
        return False


def _newest(found: Sequence[Plugin], spec: str | None, near: Location | None) -> Plugin:
    class_name = found[0].class_name
    version = choose_version(class_name, versions_of(found), spec)
    unordered = [plugin for plugin in found if is_hash_version(plugin.version)]
    if spec != version and is_hash_version(version) and len(versions_of(unordered)) > 1:
        origins = ", ".join(f"{plugin.version} in {plugin.origin}" for plugin in unordered)
        raise ConfigException(f"Which version of plugin {class_name} is the newest is unknown: give each file a __version__: {origins}")
    same = [plugin for plugin in found if plugin.version == version]
    located = [plugin for plugin in same if plugin.location is not None]
    first = preferred(same, near)
    are_one = all(plugin.is_java and plugin.kind not in CONNECTOR_KINDS for plugin in located)
    if len(located) > 1 and first.location != near and not are_one:
        origins = ", ".join(plugin.origin for plugin in located)
        raise ConfigException(f"Version {version} of plugin {class_name} is in {len(located)} locations; please keep one: {origins}")
    return first


def preferred(same: Sequence[Plugin], near: Location | None) -> Plugin:
    """Among plugins of one version, the plugin in ``near``, the location of the connector that uses it. Otherwise, the first plugin by
    location. Built-in plugins come last."""
    located = [plugin for plugin in same if plugin.location is not None]
    own = [plugin for plugin in located if plugin.location == near]
    return min(own or located, key=lambda plugin: plugin.origin, default=same[0])
