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
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.run import Claim, RunResult, RunSpec, RunState
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import FailedStatuses
from airflow_provider_connect.runtime.model.upgrades import Upgrade, UpgradeState
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.config_follower import ConfigFollower
from airflow_provider_connect.runtime.worker.application.connector_host import ConnectorHost, StayingTask
from airflow_provider_connect.runtime.worker.application.handover import HANDOVER_SECONDS, InstalledPackage, Leave
from airflow_provider_connect.runtime.worker.application.planner import Planner
from airflow_provider_connect.runtime.worker.application.remote_task import RemoteTask, TaskRunner
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

_PAUSED_SECONDS = 600.0  # a resume in this time needs no new application
_STEP_SECONDS = 0.02
_POLL_SECONDS = 1.0  # a change on the config topic is noticed at once
_RESTART_SECONDS = 10.0  # a verb writes its claim before the statuses of the tasks that it restarts

log = logging.getLogger(__name__)


class StayingRun:
    """Runs one connector in one application until ``run`` has a reason to end. ``claim`` is the application's claim. ``planner`` yields to
    newer runs. ``engine`` waits until the engine can run tasks, and returns it. Tasks connect to this process at the address ``host``.
    ``failures``: how often each task has FAILED in a row. ``on_claim`` receives each later claim. ``on_failures`` receives the traces of
    what is FAILED, whenever they change. ``leave``: the run may hand its connector over to the next one (``handover``). None: it ends."""

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
        leave: Leave | None = None,
    ) -> None:
        self._leave = leave
        self._package = InstalledPackage()
        self._is_offer_requested = self._is_offered = self._is_time_over = self._is_replaced = False
        self._deadline = self._idle_at = math.inf
        self._reason: StopReason | None = None
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

    def request_handover(self) -> None:
        """Let the time of the run be over. Safe in a signal handler."""
        self._is_time_over = True

    def request_offer(self) -> None:
        """Offer the connector to the next run. Thread-safe."""
        self._is_offer_requested = True

    @property
    def is_offered(self) -> bool:
        """Whether the next run can have the connector from this one."""
        return self._is_offered

    def run(self, seconds: float) -> RunResult:
        """Steps: 1 host the connector for ``seconds``, and until it is handed over; 2 end its tasks; 3 hand it over, or withdraw the offer;
        4 report the result. Called once."""
        name, store = self._spec.connector, self._planner.store
        state = store.read()
        self._dag_keys, self._upgrade = dag_keys(state.connector_config(name) or {}), state.upgrades.get(name)
        self._deadline = time.monotonic() + seconds
        with store.follow(name, self._claim) as follower:  # not from now on: a verb may have written since
            self._host.start()  # 1
            reason = self._until_ended(follower)
        log.info("Connector %s: the run ends: %s", name, reason or "it has FAILED")
        self._host.close()  # 2
        if not self._host.join(self._graceful_seconds + _POLL_SECONDS):
            log.warning("Connector %s: its host is overdue", name)
        if self._is_offered:
            self._hand_over()  # 3
        return self._result(reason)  # 4

    def _hand_over(self) -> None:
        name, store = self._spec.connector, self._planner.store
        try:
            if not store.hand_over(name, self._claim):
                store.put_successor(name, None, self._claim)
        except ConnectException as error:  # claimed by another run or a verb, or the topic is away
            log.info("Connector %s is not handed over: %s", name, error.message)

    def _until_ended(self, follower: ConfigFollower) -> StopReason | None:
        """Wait for the end. Returns why the run ends. None: the connector, or each of its tasks, has FAILED for good."""
        host, restarts_until, is_unread = self._host, -math.inf, False
        while not self._is_over():
            if follower.has_changed(self._planner.owner or "", _POLL_SECONDS) or is_unread:
                try:
                    is_unread, is_over = False, self._take_change()
                except StoreTimeoutException as error:  # the tasks continue
                    log.warning("Connector %s: %s", self._spec.connector, error)
                    is_unread = True
                    continue
                if is_over:
                    break
                restarts_until = time.monotonic() + _RESTART_SECONDS
                host.trigger()
            self._report_failures()
            if time.monotonic() < restarts_until and (failed := host.failed_tasks):
                with suppress(StoreTimeoutException):  # the next turn reads them
                    if restarting := failed & self._restarting():
                        host.trigger(restarting)
        return self._reason

    def _is_over(self) -> bool:
        """Whether the run ends now, for a reason that is not on the config topic, which it sets."""
        host, now = self._host, time.monotonic()
        if self._is_end_requested:
            self._reason = StopReason.ASKED_TO_END
            return True
        if not host.is_alive:
            raise ConnectException(f"Connector {self._spec.connector}: the thread of its host has ended")
        if host.ended is not None or host.has_failed:
            self._reason = StopReason.FENCED if isinstance(host.ended, FencedException) else None
            return True
        if now >= self._idle_at:
            self._reason = StopReason.PAUSED
            return True
        is_due = now >= self._deadline
        if not self._is_offered:
            self._is_replaced = self._leave is not None and self._package.is_replaced()
            is_due = is_due or self._is_time_over or self._is_offer_requested or self._is_replaced
        self._reason = StopReason.NEXT_RUN
        return is_due and (self._is_offered or not self._offer())

    def _take_change(self) -> bool:
        """Whether the run ends because of a change on the config topic. Sets the reason."""
        name, state = self._spec.connector, self._planner.store.read()
        target = state.target_state(name)
        needs_secrets = bool(airflow_variables(state.connector_config(name) or {}))  # which Airflow resolves when the next run starts
        reason = self._reason_in(state, needs_secrets=needs_secrets)
        if self._is_offered and target is TargetState.STARTED and state.successors.get(name):  # a pause keeps the connector here
            reason = StopReason.NEXT_RUN
        elif reason is StopReason.NEXT_RUN and not needs_secrets and (self._is_offered or self._offer()):
            reason = None
        self._reason = reason
        self._idle_at = time.monotonic() + _PAUSED_SECONDS if target is TargetState.PAUSED else math.inf
        return reason is not None

    def _offer(self) -> bool:
        """Offer the connector to the next run, and let Airflow start it. False: the run has to end."""
        name, store = self._spec.connector, self._planner.store
        is_member = self._is_offer_requested
        if (self._leave is None and not is_member) or self._host.failure is not None or self._host.failed_tasks:
            return False
        try:
            if store.read().target_state(name) is not TargetState.STARTED:
                return False
            result = None if is_member else self._result_so_far()
            store.put_successor(name, "", self._claim)
            self._is_offered = True
            if is_member or (result is not None and self._leave is not None and self._leave(result)):
                self._deadline = time.monotonic() + HANDOVER_SECONDS
                log.info("Connector %s: the next run takes it over", name)
                return True
        except ConnectException as error:  # a verb has claimed the connector, or the topic is away
            log.info("Connector %s: the run ends before the next one: %s", name, error.message)
        return False

    def _result_so_far(self) -> RunResult | None:
        """Restart the tasks, because they count until they end. None: not all of them have started again. Processes of another version of
        this package could not run them."""
        before = {} if self._is_replaced else {number: task for number, task in self._tasks.items() if not task.has_ended}
        until = time.monotonic() + (len(before) + 1) * self._graceful_seconds
        self._host.trigger(before)
        while any(self._tasks[number] is task for number, task in before.items()):
            if time.monotonic() > until or self._is_end_requested or self._host.ended is not None or self._host.failed_tasks:
                return None
            time.sleep(_STEP_SECONDS)
        tasks = [task.result for _, task in sorted(self._tasks.items())]
        return RunResult.of_tasks(self._spec.connector, self._claim, tasks, self._host.versions)

    @property
    def _graceful_seconds(self) -> float:
        return self._settings.task_shutdown_graceful_timeout_ms / 1000

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

    def _reason_in(self, state: ClusterConfigState, *, needs_secrets: bool) -> StopReason | None:
        """Why the run ends after a change on the config topic. None: it continues."""
        name = self._spec.connector
        target = state.target_state(name)
        if target is None:
            return StopReason.DELETED
        if target is TargetState.STOPPED:
            return StopReason.STOPPED
        if dag_keys(state.connector_config(name) or {}) != self._dag_keys:
            return StopReason.NEXT_RUN  # the next run is that of another DAG
        upgrade = state.upgrades.get(name)
        if upgrade is not None and upgrade != self._upgrade and upgrade.state in (UpgradeState.REQUESTED, UpgradeState.TRIAL):
            return StopReason.NEXT_RUN  # the next run is the upgrade trial
        return StopReason.NEXT_RUN if target is TargetState.STARTED and needs_secrets else None

    def _restarting(self) -> set[int]:
        with closing(self._backing.statuses()) as statuses:
            tasks = statuses.read().task_map(self._spec.connector)
        return {number for number, task in tasks.items() if task.state is State.RESTARTING}

    def _note_claim(self, claim: Claim) -> None:
        self._claim = claim
        self._on_claim(claim)
        if self._is_offered:  # that was about the claim before
            with suppress(ConnectException):
                self._planner.store.put_successor(self._spec.connector, "", claim)

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
        if reason is StopReason.FENCED:  # the newer run does what a retry would have done
            tasks = [replace(each, state=State.RUNNING, trace=None) if each.retriable else each for each in tasks]
        result = RunResult.of_tasks(self._spec.connector, self._claim, tasks, self._host.versions)
        if result.state is RunState.FAILED:
            return result
        if (ended := self._host.ended) is not None:
            result.error, result.retriable = shorten(self._mask(message_of(ended))), is_transient(ended)
        result.state = RunState.FAILED if reason is None else RunState.DONE if reason is StopReason.NEXT_RUN else RunState.STOPPED
        return result
