"""What the herder tells of a connector's plugin without running any of its code: source or sink, and the version that would be chosen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, PluginCatalog

UNKNOWN = "unknown"
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """``type`` is source, sink or unknown; ``version`` None: not known."""

    type: str = UNKNOWN
    version: str | None = None


class KnownPlugins:
    """Looked up in what ``catalog`` finds installed, and remembered for a while. A plugin that is missing, or a class that is a variable,
    is unknown. Safe to share between threads."""

    def __init__(self, catalog: PluginCatalog, *, now: Callable[[], float] = time.monotonic) -> None:
        self._catalog = catalog
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[tuple[str | None, str | None], tuple[PluginFacts, float]] = {}

    def of(self, config: Mapping[str, str]) -> PluginFacts:
        """The facts of a connector's plugin, by its raw config."""
        key = (config.get("connector.class"), config.get("connector.plugin.version"))
        found = self._known.get(key)
        if found is not None and self._now() < found[1]:
            return found[0]
        with self._lock:
            facts = self._look_up(*key)
            self._known[key] = (facts, self._now() + _SECONDS)
        return facts

    def _look_up(self, name: str | None, versions: str | None) -> PluginFacts:
        try:
            named = self._catalog.named(name or "", CONNECTOR_KINDS)
        except ConnectException:
            named = []
        if not named:
            return PluginFacts()
        try:
            return PluginFacts(str(named[0].kind), self._catalog.find_connector(name or "", versions).version)
        except ConnectException:  # no version of it is in the range
            return PluginFacts(str(named[0].kind))
