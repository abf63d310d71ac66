"""Calls into the Kafka client, and imports of connector classes, with a time limit, because such calls may never return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigException, RetriableException

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
    from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import Plugin

_OURS = "airflow_provider_connect."


def within(seconds: float, act: Callable[[], object], doing: str) -> None:
    """Call ``act`` in a thread of its own, and raise what it raises.

    Raises RetriableException after ``seconds``. The thread then continues until the process ends, so ``act`` must do no harm if it succeeds
    late.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:  # (raised again below)
            raised.append(error)

    thread = threading.Thread(target=run, name=doing, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise RetriableException(f"{doing[:1].upper()}{doing[1:]} took more than {seconds:g} s. A later try may succeed.")
    if raised:
        raise raised[0]


def connector_class(plugin: Plugin, settings: WorkerSettings) -> type:
    """The class of ``plugin``. The import runs the author's code. Raises ConfigException if it fails or exceeds
    ``plugin.probe.timeout.ms``."""
    if plugin.location is None and plugin.reference.startswith(_OURS):
        return plugin.load()
    seconds = settings.plugin_probe_timeout_ms / 1000
    loaded: list[type] = []
    try:
        within(seconds, lambda: loaded.append(plugin.load()), f"import of {plugin.class_name}")
    except RetriableException as error:
        text = f"importing it ({plugin.origin}) took more than the {seconds:g} s of plugin.probe.timeout.ms"
        raise ConfigException.of("connector.class", plugin.class_name, text) from error
    return loaded[0]
