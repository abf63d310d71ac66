"""One connector, hosted by this process: planned, its tasks looped in threads, planned anew when something asks for that.

Works on a thread of its own: 1 claim 2 plan 3 a loop for each task 4 wait; then from the beginning. What it waits for: a trigger, which
follows every verb that asks something of it; the time to look whether the connector wants other tasks; the end of all loops.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from airflow_provider_connect.errors import ConfigException, ConnectException, FencedException, trace_of
from airflow_provider_connect.runtime.config.masking import Mask, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.metric_names import TOTALS
from airflow_provider_connect.runtime.model.run import Claim, RunSpec, TaskResult
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, FailedStatuses
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.transactional_producer import Fence
from airflow_provider_connect.runtime.worker.application.failure_report import plugin_version, report_failed
from airflow_provider_connect.runtime.worker.application.planner import NoPlan, Plan, Planner
from airflow_provider_connect.runtime.worker.application.task_body import TaskHost
from airflow_provider_connect.runtime.worker.errors.traces import without_framework
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.task.memory_fence import SharedFence
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from airflow_provider_connect.standalone.task_loop import FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, TaskLoop

REPLAN_SECONDS = 300.0  # for new tasks, topics and partitions; Kafka's metadata.max.age.ms

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostedConnector:
    """A plan and the loops of its tasks."""

    plan: Plan
    loops: dict[int, TaskLoop]


class ConnectorHost:
    """See the module."""

    def __init__(
        self,
        name: str,
        settings: WorkerSettings,
        backing: Backing,
        *,
        worker_id: str,
        counters: TaskCounters,
        mask: Mask,
        fence: SharedFence | None = None,
    ) -> None:
        self._name = name
        self._fence = fence
        self._settings = settings
        self._backing = backing
        self._worker_id = worker_id
        self._counters = counters
        self._configs = backing.configs()
        self._mask = mask
        self._planner = Planner(settings, backing, self._configs, Fence(settings), hide=self._mask.add)
        self._changed = threading.Condition()
        self._triggered = False
        self._restarts: set[int] = set()  # the tasks that a trigger names
        self._failed: set[int] = set()  # these wait for a restart, or another config
        self._config: Mapping[str, str] = {}
        self._closed = False
        self._overdue = False
        self._hosted: HostedConnector | None = None
        self._is_planning = False
        self._retry = FIRST_RETRY_SECONDS
        self._thread = threading.Thread(target=self._run, name=f"connector-{name}", daemon=True)

    # ── called from any thread ──

    def start(self) -> None:
        self._thread.start()

    def trigger(self, tasks: Iterable[int] | None = None) -> None:
        """Host it if it is not; restart ``tasks``, also those that have FAILED; without any, see whether it wants other tasks."""
        with self._changed:
            self._triggered = True
            self._restarts |= set(tasks or ())
            self._changed.notify_all()

    @property
    def is_running(self) -> bool:
        """Whether any of its code may be under way; what is overdue is given up."""
        with self._changed:
            loops = () if self._hosted is None else tuple(self._hosted.loops.values())
            return not self._overdue and (self._is_planning or any(loop.is_alive for loop in loops))

    def cut(self) -> None:
        """Have every loop end after its batch."""
        hosted = self._hosted
        for loop in () if hosted is None else tuple(hosted.loops.values()):
            loop.cut()

    def give_up(self) -> None:
        """What has not ended is not waited for any longer."""
        self.cut()
        self._overdue = True

    def close(self) -> None:
        """Have it end for good; returns at once."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.cut()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end after ``close``. False: it is overdue."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    # ── on the host's thread ──

    def _run(self) -> None:
        while not self._closed:
            with self._changed:
                self._triggered = False
                restarts, self._restarts = self._restarts, set()
                self._failed -= restarts
            wait = self._host_once()
            with self._changed:
                self._changed.wait_for(lambda: self._triggered or self._closed, wait)
        self._configs.close()

    def _host_once(self) -> float | None:
        """Plan, host, and wait until it is over. How long to wait for a trigger before the next time; None: until there is one."""
        plan = self._claim_and_plan()
        if not isinstance(plan, Plan):
            return plan
        self._retry = FIRST_RETRY_SECONDS
        if plan.connector.raw != self._config:
            self._config = plan.connector.raw
            self._failed.clear()
        self._put_status(State.RUNNING, plan)
        hosted = HostedConnector(plan, {})
        with self._changed:
            self._overdue = False
            self._hosted, self._is_planning = hosted, False
        for task in plan.tasks:
            if task not in self._failed:
                self._start_loop(hosted, task)
        self._watch(hosted)
        self._end(hosted)
        reasons = {loop.reason for loop in hosted.loops.values()}
        if StopReason.PAUSED in reasons:
            self._put_status(State.PAUSED, plan)
        state = self._configs.read()
        if state.target_state(self._name) is not TargetState.STARTED:
            return None
        return None if state.claims.get(self._name) != plan.claim else REPLAN_SECONDS  # the new owner of the claim decides what follows

    def _claim_and_plan(self) -> Plan | float | None:
        """The plan; or how long to wait for a trigger before the next try, None: until there is one."""
        with self._changed:
            self._is_planning = True
        claim: Claim | None = None
        try:
            claimed = self._planner.claim(self._spec())
            if isinstance(claimed, NoPlan):
                return None
            claim = claimed
            return self._plan(claim)
        except FencedException as error:
            log.info("Connector %s: %s", self._name, error)
            return None
        except Exception as error:  # (the connector's own code: whatever it raises makes the connector FAILED)
            return self._plan_failed(claim, error)
        finally:
            with self._changed:
                self._is_planning = False

    def _plan(self, claim: Claim) -> Plan:
        return self._planner.plan(self._spec(), claim)

    def _plan_failed(self, claim: Claim | None, error: Exception) -> float | None:
        state = self._configs.read()
        raw = state.connector_config(self._name) or {}
        with suppress(ConfigException):  # a variable that cannot be resolved has no value to hide
            self._mask.add(secret_values(raw, self._settings.config_providers(self._name), {}))
        trace = self._mask(trace_of(error))
        log.error("Connector %s FAILED\n%s", self._name, without_framework(trace))
        if claim is not None:
            version = plugin_version(self._settings, self._name, state)
            report_failed(self._backing, FailedStatuses(self._name, self._worker_id, version, claim), trace)
        if not isinstance(error, ConnectException) or not error.retriable:
            return None
        self._retry = min(2 * self._retry, LAST_RETRY_SECONDS)
        return self._retry

    def _watch(self, hosted: HostedConnector) -> None:
        """Returns when the loops have to end, or have."""
        again = time.monotonic() + REPLAN_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._triggered or _is_over(hosted), max(0.0, again - time.monotonic()))
                if self._closed:
                    return
                triggered, self._triggered = self._triggered, False
                restarts, self._restarts = self._restarts, set()
            self._failed = {*self._failed, *(loop.task for loop in hosted.loops.values() if loop.failed)} - restarts
            if self._is_outdated(hosted):
                self.trigger(restarts)
                return
            if triggered:
                self._put_status(State.RUNNING, hosted.plan)
            self._restart(hosted, restarts)
            if not triggered and _is_over(hosted):
                return
            again = time.monotonic() + REPLAN_SECONDS

    def _is_outdated(self, hosted: HostedConnector) -> bool:
        """Whether a newer claim came, or the connector wants other tasks than it has."""
        state = self._configs.read()
        if state.claims.get(self._name) != hosted.plan.claim or state.target_state(self._name) is not TargetState.STARTED:
            return True
        if hosted.plan.connector.is_java:  # its plan starts a JVM
            return state.connector_config(self._name) != hosted.plan.connector.raw
        try:
            plan = self._plan(hosted.plan.claim)
            return plan.task_configs != hosted.plan.task_configs or plan.connector.raw != hosted.plan.connector.raw
        except Exception as error:  # (the tasks that there are go on)
            log.warning("Connector %s could not be planned anew: %s", self._name, type(error).__name__)
            return isinstance(error, FencedException)

    def _restart(self, hosted: HostedConnector, tasks: Iterable[int]) -> None:
        for task in tasks:
            loop = hosted.loops.get(task)
            if loop is not None:
                loop.cut()
                loop.join(self._graceful_seconds)
            if task in hosted.plan.tasks:
                self._start_loop(hosted, task)

    def _end(self, hosted: HostedConnector) -> None:
        for loop in hosted.loops.values():
            loop.cut()
        deadline = time.monotonic() + self._graceful_seconds
        for loop in hosted.loops.values():
            if not loop.join(max(0.0, deadline - time.monotonic())):
                log.warning("Graceful stop of task %s-%d failed: it is left behind, and commits nothing more", self._name, loop.task)
        self._failed |= {loop.task for loop in hosted.loops.values() if loop.failed}

    def _start_loop(self, hosted: HostedConnector, task: int) -> None:
        plan = hosted.plan
        is_endless = not plan.connector.is_source or plan.connector.is_java
        payload = TaskPayload(
            connector=self._name,
            task=task,
            tasks=len(plan.task_configs),
            settings=dict(self._settings.originals),
            secrets={},
            connector_config=dict(plan.connector.raw),
            task_config=dict(plan.task_configs[task]),
            claim=plan.claim,
            guarantee=plan.guarantee,
            run_id=f"standalone-{plan.claim}",
            stop_address=("", 0),
            stop_token="",
            known_topics=[] if self._settings.topic_tracking_enable else None,
            versions=plan.connector.plugins.versions(),
            locations=plan.connector.plugins.locations(),
            endless=is_endless,
            max_seconds=None if is_endless else REPLAN_SECONDS,
        )
        loop = TaskLoop(
            payload,
            plan.connector,
            TaskHost(self._backing, self._worker_id, None, self._counters.watch(self._name, task), self._mask, fence=self._fence),
            on_result=lambda result: self._counters.add(self._name, result),
            on_end=self._notify_host,
        )
        with self._changed:
            hosted.loops[task] = loop
        loop.start()

    def _notify_host(self) -> None:
        """A loop is about to end: see to it on the host's thread."""
        with self._changed:
            self._changed.notify_all()

    def _put_status(self, state: State, plan: Plan) -> None:
        with self._backing.status_notes(plan.claim) as statuses:
            version = plan.connector.plugin.version
            statuses.put_connector(ConnectorStatus(self._name, state, self._worker_id, version=version, claim=plan.claim))

    def _spec(self) -> RunSpec:
        return RunSpec(self._name, self._settings.originals, run_id="standalone")

    @property
    def _graceful_seconds(self) -> float:
        return self._settings.task_shutdown_graceful_timeout_ms / 1000


def _is_over(hosted: HostedConnector) -> bool:
    return all(loop.has_ended for loop in hosted.loops.values())


# --- counters -------------------------------------------------------------------------------------------------------------------------

_Task = tuple[str, int]  # connector, task


class TaskCounters:
    """Adds up what the runs of each task's body counted, the one under way included. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: dict[_Task, dict[str, float]] = {}
        self._running: dict[_Task, TaskMetrics] = {}

    def watch(self, connector: str, task: int) -> Callable[[TaskMetrics], None]:
        """The callback that takes the counters of a body that begins."""

        def begin(metrics: TaskMetrics) -> None:
            with self._lock:
                self._running[connector, task] = metrics

        return begin

    def add(self, connector: str, result: TaskResult) -> None:
        """A body has ended."""
        task = (connector, result.task)
        with self._lock:
            self._running.pop(task, None)
            self._ended[task] = _merge(result.metrics, self._ended.get(task, {}))

    def forget(self, connector: str) -> None:
        """The connector is gone."""
        with self._lock:
            for counts in (self._ended, self._running):
                for task in [task for task in counts if task[0] == connector]:
                    del counts[task]

    def read(self) -> dict[_Task, dict[str, float]]:
        """By connector and task."""
        with self._lock:
            counts = {task: dict(ended) for task, ended in self._ended.items()}
            for task, metrics in self._running.items():
                counts[task] = _merge(metrics.by_name(), counts.get(task, {}))
        return counts


def _merge(newer: Mapping[str, float], older: Mapping[str, float]) -> dict[str, float]:
    """Totals add up; of all else the newer value counts."""
    totals = {name: value + older.get(name, 0.0) for name, value in newer.items() if name in TOTALS}
    return {**older, **newer, **totals}
