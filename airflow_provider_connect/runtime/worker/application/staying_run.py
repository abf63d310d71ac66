"""A run that stays: it hosts its connector in the driver, and its tasks in the engine's processes, until there is a reason to end."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace

from airflow_provider_connect.errors import (
    ConnectException,
    FencedException,
    StoreTimeoutException,
    is_transient,
    last_line,
    message_of,
    shorten,
    trace_of,
)
from airflow_provider_connect.runtime.config.dag_settings import dag_keys
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim, RunResult, RunSpec, RunState, TaskResult, merge_results
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import FailedStatuses
from airflow_provider_connect.runtime.model.upgrades import Upgrade, UpgradeState
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.config_follower import ConfigFollower
from airflow_provider_connect.runtime.worker.application.connector_host import ConnectorHost, StayingTask
from airflow_provider_connect.runtime.worker.application.planner import Planner
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopServer
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

TaskRunner = Callable[[TaskPayload], TaskResult]
"""Runs a task in another process, or in the calling thread, and returns its result. Raises when the process is lost."""

_PAUSED_SECONDS = 600.0  # a resume in this time needs no new application
_POLL_SECONDS = 0.2
_RESTART_SECONDS = 10.0  # a verb writes its claim before the statuses of the tasks that it restarts
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.5, 60.0
_MOST_LOSSES = 6  # in a row, none of which lasted _HEALTHY_SECONDS
_HEALTHY_SECONDS = 60.0  # after this time, the wait before the next retry is short again

log = logging.getLogger(__name__)


class StayingRun:
    """Runs one connector in one application until ``run`` has a reason to end. ``claim`` is the application's claim. ``planner`` yields to
    newer runs. ``engine`` waits until the engine can run tasks, and returns it. Tasks connect to this process at the address ``host``.
    ``failures``: how often each task has FAILED in a row. ``on_claim`` receives each later claim."""

    def __init__(
        self,
        spec: RunSpec,
        settings: WorkerSettings,
        backing: Backing,
        planner: Planner,
        engine: Callable[[], TaskRunner],
        *,
        claim: Claim,
        host: str,
        worker_id: str,
        mask: Mask,
        on_claim: Callable[[Claim], None],
        failures: Mapping[int, int],
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._backing = backing
        self._planner = planner
        self._engine = engine
        self._claim = claim
        self._address = host
        self._worker_id = worker_id
        self._mask = mask
        self._on_claim = on_claim
        self._failures = dict(failures)
        self._is_end_requested = False
        self._dag_keys: Mapping[str, str] = {}
        self._upgrade: Upgrade | None = None
        self._tasks: dict[int, RemoteTask] = {}
        self._host = ConnectorHost(
            spec, settings, backing, planner, self._create_task, worker_id=worker_id, mask=mask, claim=claim, on_claim=self._note_claim
        )

    def request_end(self) -> None:
        """Let every task end after its batch. Safe in a signal handler."""
        self._is_end_requested = True

    def run(self, seconds: float) -> RunResult:
        """Steps: 1 host the connector for at most ``seconds``; 2 end its tasks; 3 report the result. Called once."""
        name, store = self._spec.connector, self._planner.store
        state = store.read()
        self._dag_keys, self._upgrade = dag_keys(state.connector_config(name) or {}), state.upgrades.get(name)
        with store.follow(name, self._claim) as follower:  # not from now on: a verb may have written since
            self._host.start()  # 1
            reason = self._until_ended(follower, time.monotonic() + seconds)
        log.info("Connector %s: the run ends: %s", name, reason or "it has FAILED")
        self._host.close()  # 2
        if not self._host.join(self._settings.task_shutdown_graceful_timeout_ms / 1000 + _POLL_SECONDS):
            log.warning("Connector %s: its host is overdue", name)
        return self._result(reason)  # 3

    def _until_ended(self, follower: ConfigFollower, deadline: float) -> StopReason | None:
        """Wait for the end. Returns why the run ends. None: the connector, or each of its tasks, has FAILED for good."""
        host, idle_at, restarts_until, is_unread = self._host, math.inf, -math.inf, False
        while True:
            now = time.monotonic()
            if self._is_end_requested:
                return StopReason.ASKED_TO_END
            if not host.is_alive:
                raise ConnectException(f"Connector {self._spec.connector}: the thread of its host has ended")
            if host.ended is not None or host.has_failed:
                return StopReason.FENCED if isinstance(host.ended, FencedException) else None
            if now >= deadline:
                return StopReason.TIME
            if now >= idle_at:
                return StopReason.PAUSED
            if follower.has_changed(self._planner.owner or "", _POLL_SECONDS) or is_unread:
                try:
                    reason, target = self._read_change()
                except StoreTimeoutException as error:  # the tasks continue
                    log.warning("Connector %s: %s", self._spec.connector, error)
                    is_unread = True
                    continue
                is_unread = False
                if reason is not None:
                    return reason
                idle_at = now + _PAUSED_SECONDS if target is TargetState.PAUSED else math.inf
                restarts_until = now + _RESTART_SECONDS
                host.trigger()
            if now < restarts_until and (failed := host.failed_tasks):
                with suppress(StoreTimeoutException):  # the next turn reads them
                    if restarting := failed & self._restarting():
                        host.trigger(restarting)

    def _read_change(self) -> tuple[StopReason | None, TargetState | None]:
        """Why the run ends after a change on the config topic, and the target state. None instead of a reason: the run continues."""
        name, state = self._spec.connector, self._planner.store.read()
        target = state.target_state(name)
        if target is None:
            return StopReason.DELETED, None
        if target is TargetState.STOPPED:
            return StopReason.STOPPED, target
        if dag_keys(state.connector_config(name) or {}) != self._dag_keys:
            return StopReason.TIME, target  # the next run is that of another DAG
        upgrade = state.upgrades.get(name)
        if upgrade is not None and upgrade != self._upgrade and upgrade.state in (UpgradeState.REQUESTED, UpgradeState.TRIAL):
            return StopReason.TIME, target  # the next run is the upgrade trial
        if target is TargetState.STARTED and _has_airflow_values(state.connector_config(name) or {}):
            return StopReason.TIME, target  # only Airflow resolves them, when the next run starts
        return None, target

    def _restarting(self) -> set[int]:
        with closing(self._backing.statuses()) as statuses:
            tasks = statuses.read().task_map(self._spec.connector)
        return {number for number, task in tasks.items() if task.state is State.RESTARTING}

    def _note_claim(self, claim: Claim) -> None:
        self._claim = claim
        self._on_claim(claim)

    def _create_task(self, payload: TaskPayload, checked: CheckedConnector, on_end: Callable[[], None]) -> StayingTask:
        number = payload.task
        failures = self._failures.pop(number, 0)

        def put_lost(trace: str) -> None:
            with self._backing.status_notes(payload.claim) as statuses:
                failed = FailedStatuses(payload.connector, self._worker_id, checked.plugin.version, payload.claim)
                statuses.put_task(failed.of_task(number, trace, failures=failures + 1))

        def mask_trace(error: Exception) -> str:
            return shorten(self._mask(trace_of(error) if isinstance(error, ConnectException) else lost_trace(error)))

        before = self._tasks.get(number)
        task = RemoteTask(
            replace(payload, failures=failures, known=self._planner.store.snapshot()),
            self._engine,
            self._address,
            on_end=on_end,
            on_lost=put_lost,
            trace_of=mask_trace,
            total=None if before is None else before.result,
        )
        self._tasks[number] = task
        return task

    def _result(self, reason: StopReason | None) -> RunResult:
        name, results = self._spec.connector, [task.result for _, task in sorted(self._tasks.items())]
        failed = [result for result in results if result.state == State.FAILED]
        error, retriable = None, any(result.retriable for result in failed)
        if failed:
            error = f"task {failed[0].task}: {last_line(failed[0].trace or '')}"
        elif reason is None or reason is StopReason.FENCED:
            ended = self._host.ended
            error = None if ended is None else shorten(self._mask(message_of(ended)))
            retriable = ended is not None and is_transient(ended)
        state = RunState.DONE if reason is StopReason.TIME else RunState.STOPPED
        if failed or reason is None:
            state = RunState.FAILED
        return RunResult(name, state, self._claim, results, error, retriable, self._host.versions)


class RemoteTask:
    """A StayingTask that ``engine`` runs while a thread of the driver waits for it. A lost process is replaced after a growing wait.
    ``on_lost`` receives the trace of each loss, formatted by ``trace_of``. ``result`` is what all processes have counted,
    with the end of the last one. ``total`` is the result of the task before this one, which had the same number."""

    def __init__(
        self,
        payload: TaskPayload,
        engine: Callable[[], TaskRunner],
        host: str,
        *,
        on_end: Callable[[], None],
        on_lost: Callable[[str], None],
        trace_of: Callable[[Exception], str],
        total: TaskResult | None = None,
    ) -> None:
        self.task = payload.task
        self.reason: StopReason | None = None
        self.failed = False
        self.has_ended = False
        self.result = TaskResult(payload.task) if total is None else replace(total, state=State.RUNNING, trace=None, stopped_by=None)
        self._payload = payload
        self._engine = engine
        self._address = host
        self._on_end = on_end
        self._on_lost = on_lost
        self._trace_of = trace_of
        self._is_end_requested = threading.Event()
        self._server: StopServer | None = None
        self._thread = threading.Thread(target=self._run, name=f"task-{payload.task}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def request_end(self) -> None:
        self._is_end_requested.set()
        server = self._server
        if server is not None:
            server.request_stop()

    def join(self, timeout_seconds: float) -> bool:
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._run_until_ended()
        except Exception as error:  # (a status that cannot be written)
            log.exception("Task %s-%d ends", self._payload.connector, self.task)
            failed = TaskResult(self.task, State.FAILED, self._trace_of(error), retriable=True)
            self.result = merge_results(self.result, failed)
        finally:
            self.failed = self.reason is None
            self.has_ended = True
            self._on_end()

    def _run_until_ended(self) -> None:
        engine = self._engine()  # raises if it does not start: then each task fails, and with them the run
        retry, losses = _FIRST_RETRY_SECONDS, 0
        while True:
            began = time.monotonic()
            result = self._run_process(engine)
            self.result = merge_results(self.result, result)
            if result.stopped_by is not None:
                self.reason = StopReason(result.stopped_by)
                return
            is_healthy = time.monotonic() - began > _HEALTHY_SECONDS
            losses = 1 if is_healthy else losses + 1
            if not result.retriable or losses > _MOST_LOSSES:  # the next run has another application
                return
            retry = _FIRST_RETRY_SECONDS if is_healthy else min(2 * retry, _LAST_RETRY_SECONDS)
            log.warning("Task %s-%d: its process is started again in %g s", self._payload.connector, self.task, retry)
            if self._is_end_requested.wait(retry):
                self.reason = StopReason.ASKED_TO_END
                return

    def _run_process(self, engine: TaskRunner) -> TaskResult:
        """Run the task in a process. If the process is lost, returns a result that may be retried."""
        payload = self._payload
        with closing(StopServer(self._address)) as server:
            self._server = server
            if self._is_end_requested.is_set():
                server.request_stop()
            try:
                return engine(replace(payload, stop_address=server.address, stop_token=server.token))
            except Exception as error:  # (the Spark job died: its Python worker was killed, or an executor lost; or it could not start)
                is_lost = not isinstance(error, ConnectException)
                log.warning(
                    "Connector %s, task %s: its process %s", payload.connector, self.task, "was lost" if is_lost else "did not start"
                )
                trace = (server.last_report(self.task) if is_lost else None) or self._trace_of(error)
                self._on_lost(trace)
                return TaskResult(self.task, State.FAILED, trace, retriable=is_lost or is_transient(error))
            finally:
                self._server = None


def lost_trace(error: Exception) -> str:
    """The useful first lines of a Py4J error, which repeats the JVM's whole stack. Logs and UIs show the last line alone."""
    last = "its Spark job was lost: the Python worker or the executor ended without a result. A later try may succeed."
    return "\n".join([*str(error).splitlines()[:40], last])


def _has_airflow_values(config: Mapping[str, str]) -> bool:
    return any(text in value for value in config.values() for text in ("${airflow:", "${variable:"))
