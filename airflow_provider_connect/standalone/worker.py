"""A standalone worker: the herder, and the connectors that this process hosts. Knows nothing of files, REST or signals."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from airflow_provider_connect.runtime.config.masking import Mask, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.herder.ports import Probe
from airflow_provider_connect.runtime.model.metric_names import merge_metrics
from airflow_provider_connect.runtime.model.run import RunSpec, TaskResult
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.views import ConnectorInfo
from airflow_provider_connect.runtime.stores.backing import Backing, TopicBacking
from airflow_provider_connect.runtime.stores.transactional_producer import Fence
from airflow_provider_connect.runtime.worker.application.connector_host import ConnectorHost, StayingTask
from airflow_provider_connect.runtime.worker.application.planner import Planner
from airflow_provider_connect.runtime.worker.application.task_body import TaskHost
from airflow_provider_connect.runtime.worker.application.task_loop import TaskLoop
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.preview.runner import PreviewRunner
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.runtime.worker.task.memory_limit import SharedMemoryLimit
from airflow_provider_connect.runtime.worker.task.stop_signal import StopEvent, StopReason
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

_END_SECONDS = 2.0  # for threads to end after the graceful timeout


class StandaloneWorker:
    """See the module. ``worker_id`` (``host:port``) is in every status. ``mask`` gets each secret of the worker and its connectors before
    the code that uses it is called. Raises ConfigException."""

    def __init__(
        self,
        settings: WorkerSettings,
        backing: Backing,
        probe: Probe,
        *,
        worker_id: str,
        mask: Mask,
        memory_limit: SharedMemoryLimit | None = None,
    ) -> None:
        self.settings = settings
        mask.add(secret_values(settings.originals, settings.config_providers(), {}))
        previewer = PreviewRunner(settings) if isinstance(backing, TopicBacking) else None
        self.counters = TaskCounters()
        backing.ensure()
        self._hosts = ConnectorHosts(settings, backing, worker_id=worker_id, counters=self.counters, mask=mask, memory_limit=memory_limit)
        self.herder = Herder(
            settings,
            self._hosts,
            probe=probe,
            previewer=previewer,
            takes_upgrades=False,
            backing=backing,
            worker_id=worker_id,
            task_metrics=self.counters.read,
        )

    def put_connector(self, name: str, config: Mapping[str, str], initial_state: TargetState | None = None) -> ConnectorInfo:
        """Create the connector, or replace the config of the existing connector. Raises ConfigException if the config is refused."""
        if initial_state is not None and name not in self.herder.connectors():
            return self.herder.create_connector(name, config, initial_state)
        info, _ = self.herder.put_connector_config(name, config)
        return info

    def close(self) -> bool:
        """End every task after its current batch, with its offsets committed. Returns False if some tasks did not end in time."""
        ended = self._hosts.close()
        self.herder.close()
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class ConnectorHosts:
    """The launcher of a standalone worker. This process hosts every connector.

    ``counters`` gets the tasks' metrics. Safe to share between threads.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        backing: Backing,
        *,
        worker_id: str,
        counters: TaskCounters,
        mask: Mask,
        memory_limit: SharedMemoryLimit | None = None,
    ) -> None:
        self._memory_limit = memory_limit
        self._settings = settings
        self._backing = backing
        self._worker_id = worker_id
        self._counters = counters
        self._mask = mask
        self._owner = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._hosts: dict[str, ConnectorHost] = {}
        self._closed = False

    def is_running(self, connector: str) -> bool:
        host = self._hosts.get(connector)
        return host is not None and host.is_running

    def running(self) -> dict[str, Sequence[str]]:
        with self._lock:
            hosts = dict(self._hosts)
        return {name: () for name, host in hosts.items() if host.is_running}

    def end(self, connector: str) -> None:
        """Abandon the threads that have not ended, because threads cannot be killed. Their later commits are refused."""
        host = self._hosts.get(connector)
        if host is not None:
            host.abandon()

    def trigger(self, connector: str, tasks: Sequence[int] | None = None) -> None:
        with self._lock:
            if self._closed:
                return
            host = self._hosts.get(connector)
            if host is None:
                host = self._hosts[connector] = self._host(connector)
                host.start()
        host.trigger(tasks)

    def _host(self, connector: str) -> ConnectorHost:
        settings, backing, mask = self._settings, self._backing, self._mask
        planner = Planner(settings, backing, backing.configs(), Fence(settings), hide=mask.add, mask=mask, owner=self._owner, stays=True)
        spec = RunSpec(connector, settings.originals, run_id="standalone")
        return ConnectorHost(spec, settings, backing, planner, self._create_task, worker_id=self._worker_id, mask=mask)

    def _create_task(self, payload: TaskPayload, _: CheckedConnector, on_end: Callable[[], None]) -> StayingTask:
        name = payload.connector
        host = TaskHost(
            self._backing, self._worker_id, None, self._counters.watch(name, payload.task), self._mask, shared_limit=self._memory_limit
        )
        named = replace(payload, run_id=f"{payload.run_id}-{payload.claim}")
        return _LocalTask(named, host, on_result=lambda result: self._counters.add(name, result), on_end=on_end)

    def obstacle(self, connector: str | None = None) -> str | None:
        """None: this process can run every connector."""
        return None

    def forget(self, connector: str) -> None:
        with self._lock:
            host = self._hosts.pop(connector, None)
        if host is not None:
            host.close()
        self._counters.forget(connector)

    def close(self) -> bool:
        """End each task after its current batch, with its offsets committed. Returns False if some tasks are still running."""
        with self._lock:
            self._closed = True
            hosts = list(self._hosts.values())
        for host in hosts:
            host.close()
        deadline = time.monotonic() + self._settings.task_shutdown_graceful_timeout_ms / 1000 + _END_SECONDS
        ended = [host.join(max(0.0, deadline - time.monotonic())) for host in hosts]
        return all(ended)


_Task = tuple[str, int]  # connector, task


class _LocalTask(StayingTask):
    """Runs a TaskLoop."""

    def __init__(
        self, payload: TaskPayload, host: TaskHost, *, on_result: Callable[[TaskResult], None], on_end: Callable[[], None]
    ) -> None:
        super().__init__(payload, on_end)
        self._stop_event = StopEvent()
        self._loop = TaskLoop(payload, host, self._stop_event, on_result=on_result)

    def request_end(self) -> None:
        self._stop_event.request()

    def run(self) -> StopReason | None:
        stopped_by = self._loop.run().stopped_by
        return None if stopped_by is None else StopReason(stopped_by)


class TaskCounters:
    """Adds up the metrics of all runs of each task, including the present run. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: dict[_Task, dict[str, float]] = {}
        self._running: dict[_Task, TaskMetrics] = {}

    def watch(self, connector: str, task: int) -> Callable[[TaskMetrics], None]:
        """The callback that gets the metrics of a task that begins."""

        def begin(metrics: TaskMetrics) -> None:
            with self._lock:
                self._running[connector, task] = metrics

        return begin

    def add(self, connector: str, result: TaskResult) -> None:
        """Add the metrics of a task that has ended."""
        task = (connector, result.task)
        with self._lock:
            self._running.pop(task, None)
            self._ended[task] = merge_metrics(result.metrics, self._ended.get(task, {}))

    def forget(self, connector: str) -> None:
        """Drop the metrics of a deleted connector."""
        with self._lock:
            for counts in (self._ended, self._running):
                for task in [task for task in counts if task[0] == connector]:
                    del counts[task]

    def read(self) -> dict[_Task, dict[str, float]]:
        """The metrics by connector and task."""
        with self._lock:
            counts = {task: dict(ended) for task, ended in self._ended.items()}
            for task, metrics in self._running.items():
                counts[task] = merge_metrics(metrics.by_name(), counts.get(task, {}))
        return counts
