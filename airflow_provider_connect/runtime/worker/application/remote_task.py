"""Tasks that an engine runs outside of the calling thread: a task whose process is lost has FAILED, and a task that stays gets another
process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from airflow_provider_connect.errors import ConnectException, is_transient, trace_of
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.worker.application.connector_host import StayingTask
from airflow_provider_connect.runtime.worker.application.task_processes import TaskProcessLost
from airflow_provider_connect.runtime.worker.metrics import merge_results
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopServer
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

TaskRunner = Callable[[TaskPayload], TaskResult]
"""Runs a task in another process, or in the calling thread, and returns its result. Raises when the process is lost."""

_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.5, 60.0
_MOST_LOSSES = 6  # in a row, none of which lasted _HEALTHY_SECONDS
_HEALTHY_SECONDS = 60.0  # after this time, the wait before the next retry is short again

log = logging.getLogger(__name__)


def run_remotely(
    run: TaskRunner, payload: TaskPayload, server: StopServer, mask: Callable[[str], str], on_lost: Callable[[str], None]
) -> TaskResult:
    """Run the task, whose end ``server`` requests. If its process is lost or does not start, returns a result with FAILED, and ``on_lost``
    receives the trace."""
    try:
        return run(replace(payload, stop_address=server.address, stop_token=server.token))
    except Exception as error:  # (the Spark job died: its Python worker was killed, an executor was lost, or it could not start)
        is_lost = not isinstance(error, ConnectException)
        log.warning("Connector %s, task %s: its process %s", payload.connector, payload.task, "was lost" if is_lost else "did not start")
        report = server.last_report(payload.task) if is_lost else None
        trace = mask(report or (_lost_trace(error) if is_lost else trace_of(error)))
        on_lost(trace)
        return TaskResult(payload.task, State.FAILED, trace, retriable=is_transient(error))


def _lost_trace(error: Exception) -> str:
    """How the process ended. With Spark, the useful first lines of a Py4J error, which repeats the JVM's whole stack. Logs and UIs show the
    last line alone."""
    if isinstance(error, TaskProcessLost):
        return f"{error}. A later try may succeed."
    last = "its Spark job was lost: the Python worker or the executor ended without a result. A later try may succeed."
    return "\n".join([*str(error).splitlines()[:40], last])


class RemoteTask(StayingTask):
    """Waits in a thread of the driver for a task that ``engine`` runs. ``engine`` waits until the engine can run tasks, and returns it.
    Tasks connect to this process at the address ``host``. A lost process is replaced after a growing wait. ``on_lost`` receives the
    trace of each loss. ``result`` is what all processes have counted, with the end of the last one. ``total`` is the result of the task
    before this one, which had the same number."""

    def __init__(
        self,
        payload: TaskPayload,
        engine: Callable[[], TaskRunner],
        host: str,
        *,
        mask: Callable[[str], str],
        on_end: Callable[[], None],
        on_lost: Callable[[str], None],
        total: TaskResult | None = None,
    ) -> None:
        super().__init__(payload, on_end)
        self.result = TaskResult(payload.task) if total is None else replace(total, state=State.RUNNING, trace=None, stopped_by=None)
        self._payload = payload
        self._engine = engine
        self._address = host
        self._mask = mask
        self._on_lost = on_lost
        self._is_end_requested = threading.Event()
        self._server: StopServer | None = None

    def request_end(self) -> None:
        self._is_end_requested.set()
        server = self._server
        if server is not None:
            server.request_stop()

    def run(self) -> StopReason | None:
        try:
            return self._until_ended(self._engine())  # raises if the engine does not start: then each task fails, and with them the run
        except Exception as error:
            failed = TaskResult(self.task, State.FAILED, self._mask(trace_of(error)), retriable=True)
            self.result = merge_results(self.result, failed)
            raise

    def _until_ended(self, engine: TaskRunner) -> StopReason | None:
        retry, losses = _FIRST_RETRY_SECONDS, 0
        while True:
            began = time.monotonic()
            result = self._run_process(engine)
            self.result = merge_results(self.result, result)
            if result.stopped_by is not None:
                return StopReason(result.stopped_by)
            is_healthy = time.monotonic() - began > _HEALTHY_SECONDS
            losses = 1 if is_healthy else losses + 1
            if not result.retriable or losses > _MOST_LOSSES:  # the next run has another application
                return None
            retry = _FIRST_RETRY_SECONDS if is_healthy else min(2 * retry, _LAST_RETRY_SECONDS)
            log.warning("Task %s-%d: its process is started again in %g s", self._payload.connector, self.task, retry)
            if self._is_end_requested.wait(retry):
                return StopReason.ASKED_TO_END

    def _run_process(self, engine: TaskRunner) -> TaskResult:
        with closing(StopServer(self._address)) as server:
            self._server = server
            if self._is_end_requested.is_set():
                server.request_stop()
            try:
                return run_remotely(engine, self._payload, server, self._mask, self._on_lost)
            finally:
                self._server = None
