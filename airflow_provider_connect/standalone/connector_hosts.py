"""The launcher of a worker of its own: every connector is hosted by this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.standalone.connector_host import ConnectorHost
from airflow_provider_connect.standalone.task_figures import TaskFigures
from airflow_provider_connect.stores.backing import Backing

END_SECONDS = 2.0  # beyond the graceful time, for threads to end


class ConnectorHosts:
    """A Launcher. ``figures`` takes what the tasks count. Safe to share between threads."""

    def __init__(self, settings: WorkerSettings, backing: Backing, *, worker_id: str, figures: TaskFigures) -> None:
        self._settings = settings
        self._backing = backing
        self._worker_id = worker_id
        self._figures = figures
        self._lock = threading.Lock()
        self._hosts: dict[str, ConnectorHost] = {}
        self._closed = False

    def is_running(self, connector: str) -> bool:
        host = self._hosts.get(connector)
        return host is not None and host.is_running

    def running(self) -> list[str]:
        with self._lock:
            hosts = dict(self._hosts)
        return [name for name, host in hosts.items() if host.is_running]

    def end(self, connector: str) -> None:
        """A thread cannot be killed: one that has not ended is given up, and what it commits from now on is refused."""
        host = self._hosts.get(connector)
        if host is not None:
            host.give_up()

    def trigger(self, connector: str, tasks: Sequence[int] | None = None) -> None:
        with self._lock:
            if self._closed:
                return
            host = self._hosts.get(connector)
            if host is None:
                host = ConnectorHost(connector, self._settings, self._backing, worker_id=self._worker_id, figures=self._figures)
                self._hosts[connector] = host
                host.start()
        host.trigger(tasks)

    def obstacle(self, connector: str | None = None) -> str | None:
        """This process runs what it is given."""
        return None

    def forget(self, connector: str) -> None:
        with self._lock:
            host = self._hosts.pop(connector, None)
        if host is not None:
            host.close()
        self._figures.forget(connector)

    def close(self) -> bool:
        """End all of them, each task after its batch and with its offsets committed. False: some were overdue, and stay behind."""
        with self._lock:
            self._closed = True
            hosts = list(self._hosts.values())
        for host in hosts:
            host.close()
        deadline = time.monotonic() + self._settings.task_shutdown_graceful_timeout_ms / 1000 + END_SECONDS
        ended = [host.join(max(0.0, deadline - time.monotonic())) for host in hosts]
        return all(ended)
