"""Warm processes for a probe: one or more for each set of locations whose code they have loaded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from airflow_provider_connect.plugins.validation.probe_process import ProbeProcess

Fingerprints = frozenset[tuple[str, str]]
MOST_IDLE: Final = 6
MOST_AT_ONCE: Final = 4


class ProbePool:
    """Safe to share between threads. At most ``MOST_AT_ONCE`` requests run at a time, and ``MOST_IDLE`` processes wait for the next one;
    those that waited longest go first. A process is never given plugins whose files have changed since it loaded them."""

    def __init__(self, start: Callable[[], ProbeProcess], timeout_seconds: float) -> None:
        self._start = start
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._idle: OrderedDict[ProbeProcess, Fingerprints] = OrderedDict()
        self._free = threading.Semaphore(MOST_AT_ONCE)
        self._closed = False

    def ask(self, locations: Fingerprints, request: Mapping[str, object]) -> dict[str, Any]:
        """The answer of a process that has loaded, or will now load, these locations and no others."""
        with self._free, self._process(locations) as process:
            return process.ask(request, self._timeout_seconds)

    def close(self) -> None:
        """End the processes that wait; those at work end after their answer."""
        with self._lock:
            self._closed = True
            idle = list(self._idle)
            self._idle.clear()
        for process in idle:
            process.end()

    @contextmanager
    def _process(self, locations: Fingerprints) -> Iterator[ProbeProcess]:
        process = self._taken(locations) or self._start()
        try:
            yield process
        finally:
            self._put_back(process, locations)

    def _taken(self, locations: Fingerprints) -> ProbeProcess | None:
        with self._lock:
            for process, loaded in reversed(self._idle.items()):
                if loaded == locations and process.is_alive:
                    del self._idle[process]
                    return process
        return None

    def _put_back(self, process: ProbeProcess, locations: Fingerprints) -> None:
        over: list[ProbeProcess] = []
        with self._lock:
            if process.is_alive and not self._closed:
                self._idle[process] = locations
                while len(self._idle) > MOST_IDLE:
                    over.append(self._idle.popitem(last=False)[0])
            else:
                over.append(process)
        for ended in over:
            ended.end()
