"""Which plugins, in which versions, a run of each connector would take now (KIP-891): told from metadata, without running any of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.isolation.chosen_plugins import PluginChoice
from airflow_provider_connect.isolation.plugin_catalog import PluginCatalog
from airflow_provider_connect.model.views import PluginView
from airflow_provider_connect.settings import WorkerSettings

_SECONDS = 10.0


class ChosenVersions:
    """Remembered for a while, as long as a connector's config is the very same object. Safe to share between threads: a choice that two
    make at once is equal, and either may be kept."""

    def __init__(self, settings: WorkerSettings, catalog: PluginCatalog, *, now: Callable[[], float] = time.monotonic) -> None:
        self._choice = PluginChoice(catalog, settings)
        self._now = now
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
            chosen = self._choice.all(name, config, _names(config, "transforms"), _names(config, "predicates"))
        except ConnectException:
            return {}
        return {place: PluginView(plugin.class_name, str(plugin.kind), plugin.version) for place, plugin in chosen.placed()}


def _names(config: Mapping[str, str], key: str) -> list[str]:
    return [alias.strip() for alias in config.get(key, "").split(",") if alias.strip()]
