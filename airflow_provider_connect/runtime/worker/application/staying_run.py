"""A run that stays: it hosts its connector in the driver, and its tasks in the engine's processes, until there is a reason to end."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace

from airflow_provider_connect.errors import ConnectException, FencedException, StoreTimeoutException, is_transient, message_of, shorten
from airflow_provider_connect.runtime.config.config_providers import airflow_variables
from airflow_provider_connect.runtime.config.dag_settings import dag_keys
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim, RunResult, RunSpec, RunState
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import FailedStatuses
from airflow_provider_connect.runtime.model.upgrades import Upgrade, UpgradeState
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.config_follower import ConfigFollower
from airflow_provider_connect.runtime.worker.application.connector_host import ConnectorHost, StayingTask
from airflow_provider_connect.runtime.worker.application.planner import Planner
from airflow_provider_connect.runtime.worker.application.remote_task import RemoteTask, TaskRunner
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

_PAUSED_SECONDS = 600.0  # a resume in this time needs no new application
_POLL_SECONDS = 0.2
_RESTART_SECONDS = 10.0  # a verb writes its claim before the statuses of the tasks that it restarts

log = logging.getLogger(__name__)


class StayingRun:
    """Runs one connector in one application until ``run`` has a reason to end. ``claim`` is the application's claim. ``planner`` yields to
    newer runs. ``engine`` waits until the engine can run tasks, and returns it. Tasks connect to this process at the address ``host``.
    ``failures``: how often each task has FAILED in a row. ``on_claim`` receives each later claim. ``on_failures`` receives the traces of
    what is FAILED, whenever they change."""

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
        on_failures: Callable[[Sequence[str]], None],
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
        self._on_failures = on_failures
        self._reported: list[str] = []
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
                return StopReason.NEXT_RUN
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
            self._report_failures()
            if now < restarts_until and (failed := host.failed_tasks):
                with suppress(StoreTimeoutException):  # the next turn reads them
                    if restarting := failed & self._restarting():
                        host.trigger(restarting)

    def _report_failures(self) -> None:
        traces = [self._tasks[number].result.trace or "" for number in sorted(self._host.failed_tasks)]
        if self._host.failure is not None:
            traces.insert(0, self._host.failure)
        if traces != self._reported:
            self._reported = traces
            try:
                self._on_failures(traces)
            except OSError as error:  # (a full disk is no reason to end the running tasks)
                log.warning("Connector %s: what is FAILED could not be noted: %s", self._spec.connector, error)

    def _read_change(self) -> tuple[StopReason | None, TargetState | None]:
        """Why the run ends after a change on the config topic, and the target state. None instead of a reason: the run continues."""
        name, state = self._spec.connector, self._planner.store.read()
        target = state.target_state(name)
        if target is None:
            return StopReason.DELETED, None
        if target is TargetState.STOPPED:
            return StopReason.STOPPED, target
        if dag_keys(state.connector_config(name) or {}) != self._dag_keys:
            return StopReason.NEXT_RUN, target  # the next run is that of another DAG
        upgrade = state.upgrades.get(name)
        if upgrade is not None and upgrade != self._upgrade and upgrade.state in (UpgradeState.REQUESTED, UpgradeState.TRIAL):
            return StopReason.NEXT_RUN, target  # the next run is the upgrade trial
        if target is TargetState.STARTED and airflow_variables(state.connector_config(name) or {}):
            return StopReason.NEXT_RUN, target  # only Airflow resolves them, when the next run starts
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

        before = self._tasks.get(number)
        task = RemoteTask(
            replace(payload, failures=failures, known=self._planner.store.snapshot()),
            self._engine,
            self._address,
            mask=self._mask,
            on_end=on_end,
            on_lost=put_lost,
            total=None if before is None else before.result,
        )
        self._tasks[number] = task
        return task

    def _result(self, reason: StopReason | None) -> RunResult:
        tasks = [task.result for _, task in sorted(self._tasks.items())]
        result = RunResult.of_tasks(self._spec.connector, self._claim, tasks, self._host.versions)
        if result.state is RunState.FAILED:
            return result
        if (ended := self._host.ended) is not None:
            result.error, result.retriable = shorten(self._mask(message_of(ended))), is_transient(ended)
        result.state = RunState.FAILED if reason is None else RunState.DONE if reason is StopReason.NEXT_RUN else RunState.STOPPED
        return result
