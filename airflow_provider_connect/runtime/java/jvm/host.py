"""Passes the JVM that planned the tasks to a task of the same process. Does not load Py4J, because processes without Java connectors also
have a host."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker


class JavaHost:
    """Keeps the JVM that planned the tasks for the first task that runs in the same process. Each other task starts a JVM."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: ConnectWorker | None = None

    def keep(self, worker: ConnectWorker) -> None:
        with self._lock:
            before, self._kept = self._kept, worker
        if before is not None:
            before.close()

    def take(self) -> ConnectWorker | None:
        """The kept worker, which the caller then closes. None: no worker is kept, or it was already taken."""
        with self._lock:
            taken, self._kept = self._kept, None
        return taken

    def close(self) -> None:
        if (left := self.take()) is not None:
            left.close()
