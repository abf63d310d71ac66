"""Facts of connectors' plugins without running their code: source or sink, and the versions that a run would use (KIP-891)."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from airflow_provider_connect.codecs.dead_letters import REPLAY_CLASS
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.config_limits import cache_key_part
from airflow_provider_connect.runtime.model.connector_keys import LOCATION_KEY
from airflow_provider_connect.runtime.model.page import ConnectorClass
from airflow_provider_connect.runtime.model.upgrades import Upgrade, version_in_force
from airflow_provider_connect.runtime.model.views import PluginView
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin import Plugin
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, PluginCatalog, built_in_connectors
from airflow_provider_connect.runtime.plugins.catalog.plugin_summary import read_summary

UNKNOWN = "unknown"
_SECONDS = 10.0
_MANY = 1000
_UPGRADES_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """``type`` is source, sink or unknown. ``version`` None: unknown. ``is_java``: a run uses a Java plugin."""

    type: str = UNKNOWN
    version: str | None = None
    is_java: bool = False


def is_built_in(config: Mapping[str, str]) -> bool:
    """Whether a built-in connector runs. False if a location or version may select a foreign plugin with the same class."""
    return config.get("connector.class") in built_in_connectors() and not config.keys() & {LOCATION_KEY, "connector.plugin.version"}


class KnownPlugins:
    """Facts from ``catalog``, cached for a while. A missing plugin, or a class that is given by a variable, is unknown. Safe to share
    between threads."""

    def __init__(self, catalog: PluginCatalog, *, now: Callable[[], float] = time.monotonic) -> None:
        self._catalog = catalog
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[tuple[str | None, ...], tuple[PluginFacts, float]] = {}
        self._summaries: dict[Plugin, str | None] = {}

    def of(self, config: Mapping[str, str]) -> PluginFacts:
        """The facts of a connector's plugin, by its raw config."""
        named = (config.get("connector.class"), config.get("connector.plugin.version"), config.get(LOCATION_KEY))
        key = tuple(map(cache_key_part, named))
        found = self._known.get(key)
        if found is not None and self._now() < found[1]:
            return found[0]
        with self._lock:
            facts = self._read(*named)
            if len(self._known) >= _MANY and key not in self._known:  # drop plugins that configs no longer name
                self._known = {known: kept for known, kept in self._known.items() if self._now() < kept[1]}
            self._known[key] = (facts, self._now() + _SECONDS)
        return facts

    def classes(self) -> list[ConnectorClass]:
        """All versions of connector classes, except connectors that only this package creates."""
        found = [plugin for plugin in self._catalog.plugins(CONNECTOR_KINDS) if REPLAY_CLASS not in plugin.names]
        for plugin in found:
            if plugin not in self._summaries:
                self._summaries[plugin] = read_summary(plugin)
        return [ConnectorClass(each.class_name, str(each.kind), each.version, self._summaries[each]) for each in found]

    def _read(self, name: str | None, versions: str | None, location: str | None) -> PluginFacts:
        try:
            named = self._catalog.named(name or "", CONNECTOR_KINDS)
        except ConnectException:
            named = []
        if not named:
            return PluginFacts()
        try:
            found = self._catalog.find_connector(name or "", versions, location)
            return PluginFacts(str(named[0].kind), found.version, found.is_java)
        except ConnectException:  # no version is in the range
            return PluginFacts(str(named[0].kind))


class ChosenVersions:
    """The plugins that a run of each connector would use. They are cached for a while, as long as the connector's config is the same
    object. Safe to share between threads: concurrent choices are equal, and either may be kept. ``upgrades`` returns the requested
    upgrades, by connector."""

    def __init__(
        self,
        settings: WorkerSettings,
        catalog: PluginCatalog,
        *,
        upgrades: Callable[[], Mapping[str, Upgrade]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._upgrades = upgrades
        self._now = now
        self._known_upgrades: tuple[float, Mapping[str, Upgrade]] = (-math.inf, {})
        self._known: dict[str, tuple[Mapping[str, str], Mapping[str, PluginView], float]] = {}

    def of(self, name: str, config: Mapping[str, str]) -> Mapping[str, PluginView]:
        """By their prefixes in the config: ``connector``, ``key.converter``, ``transforms.«alias»``, …. Empty: no run could start now."""
        known = self._known.get(name)
        if known is not None and known[0] is config and self._now() < known[2]:
            return known[1]
        chosen = self._chosen(name, config)
        self._known[name] = (config, chosen, self._now() + _SECONDS)
        return chosen

    def forget_others(self, names: Collection[str]) -> None:
        """Drop cached plugins of connectors that are not in ``names``, the existing connectors."""
        if len(self._known) > len(names):
            self._known = {name: known for name, known in list(self._known.items()) if name in names}

    def _chosen(self, name: str, config: Mapping[str, str]) -> Mapping[str, PluginView]:
        try:
            choice = PluginChoice(self._catalog, self._settings, version=version_in_force(self._upgrade_of(name), config))
            chosen = choice.all(name, config, _names(config, "transforms"), _names(config, "predicates"))
        except ConnectException:
            return {}
        return {prefix: PluginView(plugin.class_name, str(plugin.kind), plugin.version) for prefix, plugin in chosen.by_prefix()}

    def _upgrade_of(self, name: str) -> Upgrade | None:
        read, known = self._known_upgrades
        if self._now() - read > _UPGRADES_SECONDS:
            known = self._upgrades()
            self._known_upgrades = (self._now(), known)
        return known.get(name)


def _names(config: Mapping[str, str], key: str) -> list[str]:
    return [alias.strip() for alias in config.get(key, "").split(",") if alias.strip()]
