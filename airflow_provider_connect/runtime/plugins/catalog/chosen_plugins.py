"""The plugin, and its version, for each key of a connector's config (KIP-891). Reads metadata, runs no plugin.

The version is, in this order: the config's ``….plugin.version``; a range of the worker settings ``version_ranges.«connector»`` or
``version_ranges.«class»`` (in Airflow: the Variable ``connect_worker_config``); the newest version. If a Python and a Java plugin have the
same name, the Python plugin is used. The Java plugin is used if only the Java plugin has the required version or is in
``connector.plugin.location``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.errors import ConfigException, PluginNotFoundException, PluginVersionException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.connector_keys import LOCATION_KEY
from airflow_provider_connect.runtime.plugins.catalog.plugin import preferred
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, Plugin, PluginCatalog, PluginKind
from airflow_provider_connect.runtime.plugins.loading.plugin_path import Location

CONNECTOR: Final = "connector"
VERSION_ENDING: Final = "plugin.version"
CONVERTER_KINDS: Final = {"key": PluginKind.CONVERTER, "value": PluginKind.CONVERTER, "header": PluginKind.HEADER_CONVERTER}


@dataclass(frozen=True, slots=True)
class ChosenPlugins:
    """The plugins of one run. Converters by role (key, value, header), other plugins by alias."""

    connector: Plugin
    converters: Mapping[str, Plugin]
    transforms: Mapping[str, Plugin]
    predicates: Mapping[str, Plugin]

    def versions(self) -> dict[str, str]:
        """The version of each plugin, by the plugin's prefix in the config: ``connector``, ``task``, ``key.converter``,
        ``transforms.«alias»``, …"""
        return {prefix: plugin.version for prefix, plugin in self.by_prefix()}

    def locations(self) -> list[str]:
        """The paths of the plugins' locations in ``plugin.path``, each once."""
        found = (plugin.location for _, plugin in self.by_prefix())
        return list(dict.fromkeys(location.path for location in found if location is not None))

    def by_prefix(self) -> Iterator[tuple[str, Plugin]]:
        yield CONNECTOR, self.connector
        yield "task", self.connector
        yield from ((f"{role}.converter", plugin) for role, plugin in self.converters.items())
        yield from ((f"transforms.{alias}", plugin) for alias, plugin in self.transforms.items())
        yield from ((f"predicates.{alias}", plugin) for alias, plugin in self.predicates.items())


@dataclass(frozen=True, slots=True)
class VersionRanges:
    """The version ranges for configs without a range, by connector and by class or alias."""

    ranges: Mapping[str, str]

    def for_connector(self, name: str | None, found: Sequence[Plugin]) -> str | None:
        return self.ranges.get(name) if name is not None and name in self.ranges else self.for_class(found)

    def for_class(self, found: Sequence[Plugin]) -> str | None:
        """The range for the class of ``found``, which are all versions of one plugin. A range for the full name takes precedence over a
        range for an alias."""
        if not found or not self.ranges:
            return None
        names = (found[0].class_name, *sorted(found[0].names))
        return next((self.ranges[name] for name in names if name in self.ranges), None)


@dataclass(frozen=True, slots=True)
class PluginChoice:
    """Chooses the plugins of one config. ``pinned`` are exact versions by prefix, from ``ChosenPlugins.versions``, because a task uses the
    versions that its run has chosen. ``version`` is the connector's version or range that an upgrade has set. This version overrides the
    config."""

    catalog: PluginCatalog
    settings: WorkerSettings
    pinned: Mapping[str, str] | None = None
    version: str | None = None

    def connector(self, name: str | None, config: Mapping[str, str]) -> Plugin:
        """Raises ConfigException for an unknown class, PluginVersionException if no version fits."""
        named, location = config.get("connector.class") or "", config.get(LOCATION_KEY)
        found = self.catalog.named(named, CONNECTOR_KINDS)
        spec = config.get(f"connector.{VERSION_ENDING}") if self.version is None else self.version
        if spec is None:
            spec = self._ranges.for_connector(name, found)
        return self._pinned(CONNECTOR, found, location) or self.catalog.find_connector(named, spec, location)

    def converter(self, role: str, config: Mapping[str, str], *, is_java: bool = False, near: Location | None = None) -> Plugin:
        """The config's converter, or else the worker's converter. ``is_java``: for a Java connector."""
        key = f"{role}.converter"
        if config.get(key):
            named, spec = config[key].strip(), config.get(f"{key}.{VERSION_ENDING}")
        else:
            named, spec = self.worker_converter(role)
        return self.other(CONVERTER_KINDS[role], named, spec, prefix=key, is_java=is_java, near=near)

    def worker_converter(self, role: str) -> tuple[str, str | None]:
        """Class name and version range of the converter that the worker settings name."""
        settings = self.settings
        chosen = {
            "key": (settings.key_converter, settings.key_converter_settings),
            "value": (settings.value_converter, settings.value_converter_settings),
            "header": (settings.header_converter, settings.header_converter_settings),
        }
        named, about = chosen[role]
        return named, about.get(VERSION_ENDING)

    def other(
        self, kind: PluginKind, named: str, spec: str | None, *, prefix: str = "", is_java: bool = False, near: Location | None = None
    ) -> Plugin:
        """The plugin of ``kind`` with the name ``named``: a Java plugin for a Java connector, otherwise a Python plugin. If several plugins
        have equal versions, the plugin in ``near``, the connector's own location, is used. Raises PluginNotFoundException,
        PluginVersionException or ConfigException."""
        found = self.catalog.used_by(named, kind, is_java=is_java)
        spec = self._ranges.for_class(found) if spec is None else spec
        return self._pinned(prefix, found, near=near) or self.catalog.find(kind, named, spec, is_java=is_java, near=near)

    def all(self, name: str | None, config: Mapping[str, str], transforms: Sequence[str], predicates: Sequence[str]) -> ChosenPlugins:
        """Every plugin of a config. Raises ConfigException with all errors."""
        errors: list[str] = []

        def chosen(choose: Callable[[], Plugin], key: str, named: str | None) -> Plugin | None:
            try:
                return choose()
            except PluginVersionException as error:
                errors.append(error.message)
            except PluginNotFoundException as error:
                errors.append(ConfigException.of(key, named, f"Class {named} could not be found. {error}").message)
            except ConfigException as error:
                errors.extend(error.errors)
            return None

        def aliased(kind: PluginKind, prefix: str) -> Plugin | None:
            named = config.get(f"{prefix}.type", "").strip()
            spec = config.get(f"{prefix}.{VERSION_ENDING}")
            return chosen(lambda: self.other(kind, named, spec, prefix=prefix, is_java=is_java, near=near), f"{prefix}.type", named)

        def converter(role: str) -> Plugin | None:
            return chosen(lambda: self.converter(role, config, is_java=is_java, near=near), f"{role}.converter", self._named(role, config))

        connector = chosen(lambda: self.connector(name, config), "connector.class", config.get("connector.class"))
        is_java = connector is not None and connector.is_java
        near = None if connector is None else connector.location
        converters = {role: converter(role) for role in CONVERTER_KINDS}
        stages = {alias: aliased(PluginKind.TRANSFORMATION, f"transforms.{alias}") for alias in transforms}
        conditions = {alias: aliased(PluginKind.PREDICATE, f"predicates.{alias}") for alias in predicates}
        if errors or connector is None:
            raise ConfigException("\n".join(errors), errors=errors)
        return ChosenPlugins(connector, _present(converters), _present(stages), _present(conditions))

    @property
    def _ranges(self) -> VersionRanges:
        return VersionRanges(self.settings.version_ranges)

    def _named(self, role: str, config: Mapping[str, str]) -> str:
        return config.get(f"{role}.converter") or self.worker_converter(role)[0]

    def _pinned(self, prefix: str, found: Sequence[Plugin], location: str | None = None, near: Location | None = None) -> Plugin | None:
        """The plugin in the version that the run has chosen for this prefix. Raises PluginVersionException if that version was removed."""
        version = None if self.pinned is None else self.pinned.get(prefix)
        if version is None or not found:
            return None
        there = [plugin for plugin in found if plugin.version == version and location in (None, plugin.location and plugin.location.name)]
        if not there:
            known = [plugin.version for plugin in found]
            raise PluginVersionException(
                f"Plugin {found[0].class_name} not found in version {version}, which this run began with, available versions: "
                f"[{', '.join(known)}]",
                versions=known,
            )
        return preferred(there, near)


def _present(plugins: Mapping[str, Plugin | None]) -> dict[str, Plugin]:
    return {name: plugin for name, plugin in plugins.items() if plugin is not None}
