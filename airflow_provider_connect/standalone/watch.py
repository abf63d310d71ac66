"""``connect-run --watch``: starts a run, and another run after each change of the connector's code or properties, until a signal.

Each run is a separate process (``watched_run``), so that it loads edited code and all its imports again. The process of the next run starts
in advance. Files are polled.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.plugins.loading.plugin_path import Location, editable_location, file_stamp, locations
from airflow_provider_connect.standalone.files import read_connector_file, read_properties

POLL_SECONDS: Final = 0.1
_END_SECONDS: Final = 15.0  # for a run to end after its batch: longer than ``watched_run.END_SECONDS``
_RUN: Final = "airflow_provider_connect.standalone.watched_run"

log = logging.getLogger(__name__)


def watch(connector: Path, worker: Path | None, options: Sequence[str]) -> None:
    """Run until SIGINT or SIGTERM. No process is left. ``options`` are the options of each run. After each run, even a failed one, waits
    for a change. A change during a run ends the run after its current batch."""
    ends = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ends.set())
    command = [sys.executable, "-P", "-m", _RUN, str(connector), *([] if worker is None else ["--worker", str(worker)]), *options]
    run = _Run(command)
    try:
        while not ends.is_set():
            files = WatchedFiles.of(connector, worker)
            state, started = files.state(), time.monotonic()
            run.begin()
            while run.is_alive and not ends.is_set() and files.state() == state:
                ends.wait(POLL_SECONDS)
            is_cut_short = run.is_alive
            code = run.end()
            if not ends.is_set():
                run = _Run(command)
                if is_cut_short:
                    log.info("Ended by a change of code or properties after %.2f s; it runs again", time.monotonic() - started)
                else:
                    log.info("Exit code %d after %.2f s; waiting for a change of code or properties", code, time.monotonic() - started)
            _wait_for_change(files, state, ends)
    finally:
        run.end()


def _wait_for_change(files: WatchedFiles, state: frozenset[tuple[str, object]], ends: threading.Event) -> None:
    """Return when the files differ from ``state`` and no longer change, because an editor may save in several steps."""
    before, now = state, files.state()
    while not ends.is_set() and (now == state or now != before):
        ends.wait(POLL_SECONDS)
        before, now = now, files.state()


class _Run:
    """The process of one run. The constructor starts it; the run begins with ``begin``."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True)  # Ctrl-C is for the parent
        assert self._process.stdin is not None
        self._input = self._process.stdin
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True
        with contextlib.suppress(BrokenPipeError):  # the process has ended; ``end`` returns its exit code
            self._input.write(b"\n")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> int:
        """End the run after its current batch, and the processes that it has started. Returns the exit code."""
        self._input.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS if self._has_begun else 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # the process has its own session
        return self._process.wait()


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """The files of a run that its author may edit: properties files, and the code of plugins. ``used`` has the locations of plugins that
    the properties name. Module files and installations on ``plugin_path`` are watched, too."""

    properties: tuple[Path, ...]
    plugin_path: tuple[str, ...] = ()
    used: tuple[Location, ...] = ()

    @classmethod
    def of(cls, connector: Path, worker: Path | None) -> WatchedFiles:
        """The files of a connector. If the properties files cannot be read, only the properties files are watched."""
        files = (connector,) if worker is None else (connector, worker)
        try:
            properties = {} if worker is None else read_properties(worker)
            named = {text.strip() for text in (*read_connector_file(connector).config.values(), *properties.values())}
            plugin_path = WorkerSettings.of(properties).plugin_path
        except ConnectException:  # the run reports the error
            return cls(files)
        plugins = (plugin for plugin in PluginCatalog(plugin_path).plugins() if plugin.names & named)
        used = (plugin.location or editable_location(plugin.reference) for plugin in plugins)
        return cls(files, tuple(plugin_path), tuple(dict.fromkeys(location for location in used if location is not None)))

    def state(self) -> frozenset[tuple[str, object]]:
        """A value that differs after each change."""
        installed = ((location.path, location.stamp) for location in locations(self.plugin_path)[0])
        code = ((f"{location.path}:", _present(location.fingerprint)) for location in self.used)
        return frozenset({*installed, *code, *((str(file), _present(partial(file_stamp, file))) for file in self.properties)})


def _present(read: Callable[[], object]) -> object:
    """The result of ``read``. None: a file is missing, perhaps because an editor is replacing it."""
    try:
        return read()
    except OSError:
        return None
