"""Calls into the Kafka client and into connectors, with a time limit, because such calls may never return."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_connect.errors import ConfigException, RetriableException

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
    from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import Plugin

_OURS = "airflow_provider_connect."
_Returned = TypeVar("_Returned")


class CallOverdueException(RetriableException):
    """A call exceeded its time limit. ``stack`` is the formatted stack of its thread at that time. Empty: unknown."""

    def __init__(self, message: str, stack: str = "") -> None:
        super().__init__(message)
        self.stack = stack


def within(seconds: float, act: Callable[[], _Returned], doing: str) -> _Returned:
    """Call ``act`` in a thread of its own. Returns what it returns, and raises what it raises.

    Raises CallOverdueException after ``seconds``. The thread then continues until the process ends, so ``act`` must do no harm if it
    succeeds late.
    """
    returned: list[_Returned] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(act())
        except BaseException as error:  # (raised again below)
            raised.append(error)

    thread = threading.Thread(target=run, name=doing, daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if returned:
        return returned[0]
    frame = sys._current_frames().get(thread.ident or 0)
    stack = "" if frame is None else "".join(traceback.format_stack(frame))
    raise CallOverdueException(f"{doing[:1].upper()}{doing[1:]} took more than {seconds:g} s. A later try may succeed.", stack)


def connector_class(plugin: Plugin, settings: WorkerSettings) -> type:
    """The class of ``plugin``. The import runs the author's code. Raises ConfigException if it fails or exceeds
    ``plugin.probe.timeout.ms``."""
    if plugin.location is None and plugin.reference.startswith(_OURS):
        return plugin.load()
    seconds = settings.plugin_probe_timeout_ms / 1000
    try:
        return within(seconds, plugin.load, f"import of {plugin.class_name}")
    except CallOverdueException as error:
        text = f"importing it ({plugin.origin}) took more than the {seconds:g} s of plugin.probe.timeout.ms"
        raise ConfigException.of("connector.class", plugin.class_name, text) from error
