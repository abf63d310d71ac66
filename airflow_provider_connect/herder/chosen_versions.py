"""Which plugins, in which versions, a run of each connector would take now (KIP-891): told from metadata, without running any of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.model.upgrades import Upgrade, version_in_force
from airflow_provider_connect.model.views import PluginView
from airflow_provider_connect.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.plugins.catalog.plugin_catalog import PluginCatalog

_SECONDS = 10.0
_UPGRADES_SECONDS = 1.0


class ChosenVersions:
    """Remembered for a while, as long as a connector's config is the very same object. Safe to share between threads: a choice that two
    make at once is equal, and either may be kept. ``upgrades`` tells those that were asked for, by connector."""

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
        """By their places in the config: ``connector``, ``key.converter``, ``transforms.«alias»``, …; empty: no run could start as things
        are."""
        known = self._known.get(name)
        if known is not None and known[0] is config and self._now() < known[2]:
            return known[1]
        chosen = self._chosen(name, config)
        self._known[name] = (config, chosen, self._now() + _SECONDS)
        return chosen

    def _chosen(self, name: str, config: Mapping[str, str]) -> Mapping[str, PluginView]:
        try:
            choice = PluginChoice(self._catalog, self._settings, version=version_in_force(self._upgrade_of(name), config))
            chosen = choice.all(name, config, _names(config, "transforms"), _names(config, "predicates"))
        except ConnectException:
            return {}
        return {prefix: PluginView(plugin.class_name, str(plugin.kind), plugin.version) for prefix, plugin in chosen.by_prefix()}

    def _upgrade_of(self, name: str) -> Upgrade | None:
        looked, known = self._known_upgrades
        if self._now() - looked > _UPGRADES_SECONDS:
            known = self._upgrades()
            self._known_upgrades = (self._now(), known)
        return known.get(name)


def _names(config: Mapping[str, str], key: str) -> list[str]:
    return [alias.strip() for alias in config.get(key, "").split(",") if alias.strip()]
