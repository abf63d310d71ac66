"""Hosts a connector that stays. The connector is planned, and its tasks run until there is a reason to end. When something changes, it is
planned again.

The host has a thread of its own, which repeats these steps: 1 claim the connector; 2 plan its tasks; 3 start each task; 4 wait. It waits
for a trigger, for the time of the next check whether the connector needs other tasks, or for the end of all tasks. Each verb that concerns
the connector sends a trigger.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from airflow_provider_connect.errors import ConfigException, ConnectException, FencedException, message_of, trace_of
from airflow_provider_connect.runtime.config.masking import Mask, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim, RunSpec
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, FailedStatuses, TaskStatus
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.worker.application.failure_report import plugin_version, report_failed
from airflow_provider_connect.runtime.worker.application.planner import NoPlan, Plan, Planner
from airflow_provider_connect.runtime.worker.errors.traces import without_framework
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 60.0  # the waits after a failed plan
_JAVA_SECONDS = 1.0  # between looks at a Java connector
LAST_COMMIT_SECONDS = 60.0  # for the last commit of tasks whose config has changed
REPLAN_SECONDS = 300.0  # to find new tasks, topics and partitions; equals Kafka's metadata.max.age.ms

log = logging.getLogger(__name__)


class StayingTask(ABC):
    """A task that runs until there is a reason to end, in a thread of its own. ``reason`` is that reason, after the end; None: the task has
    not ended, or has FAILED for good (``failed``). ``on_end`` is called from the thread when the task ends."""

    def __init__(self, payload: TaskPayload, on_end: Callable[[], None]) -> None:
        self.task = payload.task
        self.reason: StopReason | None = None
        self.has_ended = False
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name=f"Task {payload.connector}-{payload.task}", daemon=True)

    @abstractmethod
    def run(self) -> StopReason | None:
        """Run to the end. Returns its reason. None: the task has FAILED for good. Called from the task's thread."""

    @abstractmethod
    def request_end(self) -> None:
        """Let the task end after its batch and commit its offsets."""

    @property
    def failed(self) -> bool:
        return self.has_ended and self.reason is None

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end. False: the task is overdue. Its commits are refused once there is a newer claim."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.reason = self.run()
        except Exception:  # (a store that cannot be read or written; a failure of the task is part of its result)
            log.exception("%s ends", self._thread.name)
        finally:
            self.has_ended = True
            self._on_end()


CreateTask = Callable[[TaskPayload, CheckedConnector, Callable[[], None]], StayingTask]
"""Creates a task. The task calls the last argument when it ends."""


@dataclass(slots=True)
class HostedConnector:
    """A plan and its tasks. ``is_reported_paused``: their statuses are PAUSED."""

    plan: Plan
    tasks: dict[int, StayingTask]
    is_reported_paused: bool = False


class ConnectorHost:
    """Hosts the connector of ``spec``. ``planner`` claims and plans; the host closes its store. ``create_task`` creates the tasks.
    ``claim`` is the claim for the first plan, if the caller has already made it. None: the host makes this claim. ``on_claim`` receives
    each later claim.

    ``failure`` is the trace of the connector, if it is FAILED now.

    Once ``ended`` is set, the host does nothing until a trigger starts it again. ``ended`` is the reason: a newer run has claimed the
    connector, or a plan has failed for good.
    """

    def __init__(
        self,
        spec: RunSpec,
        settings: WorkerSettings,
        backing: Backing,
        planner: Planner,
        create_task: CreateTask,
        *,
        worker_id: str,
        mask: Mask,
        claim: Claim | None = None,
        on_claim: Callable[[Claim], None] = lambda _: None,
    ) -> None:
        self.ended: Exception | None = None
        self.failure: str | None = None
        self._spec = spec
        self._name = spec.connector
        self._settings = settings
        self._backing = backing
        self._worker_id = worker_id
        self._configs = planner.store
        self._mask = mask
        self._planner = planner
        self._create_task = create_task
        self._claimed = claim
        self._on_claim = on_claim
        self._changed = threading.Condition()
        self._triggered = False
        self._restarts: set[int] = set()  # the tasks that a trigger names
        self._failed: set[int] = set()  # tasks that wait for a restart or for another config
        self._config: Mapping[str, str] = {}
        self._task_configs: Sequence[Mapping[str, str]] = ()
        self._closed = False
        self._overdue = False
        self._hosted: HostedConnector | None = None
        self._is_planning = False
        self._retry = FIRST_RETRY_SECONDS
        self._thread = threading.Thread(target=self._run, name=f"connector-{self._name}", daemon=True)

    # ── called from any thread ──

    def start(self) -> None:
        self._thread.start()

    def trigger(self, tasks: Iterable[int] | None = None) -> None:
        """Host the connector, unless it is hosted already. Restart ``tasks``, including those that have FAILED. Without ``tasks``, check
        whether the connector needs other tasks."""
        with self._changed:
            self._triggered = True
            self._restarts |= set(tasks or ())
            self._changed.notify_all()

    @property
    def is_running(self) -> bool:
        """Whether code of the connector may run. Overdue tasks do not count."""
        with self._changed:
            return not self._overdue and (self._is_planning or any(task.is_alive for task in self._tasks()))

    @property
    def failed_tasks(self) -> set[int]:
        """The tasks that have FAILED for good."""
        with self._changed:
            return {task.task for task in self._tasks() if task.failed} | self._failed

    @property
    def has_failed(self) -> bool:
        """Whether every task has FAILED for good."""
        with self._changed:
            hosted = self._hosted
        return hosted is not None and bool(hosted.plan.tasks) and self.failed_tasks >= set(hosted.plan.tasks)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the plugins in use; empty before the first plan."""
        with self._changed:
            return {} if self._hosted is None else self._hosted.plan.connector.plugins.versions()

    def request_end(self) -> None:
        """Let every task end after its batch."""
        for task in self._tasks():
            task.request_end()

    def abandon(self) -> None:
        """Request the end, and wait for no task any longer."""
        self.request_end()
        self._overdue = True

    def close(self) -> None:
        """Let the host end for good. Returns immediately."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.request_end()

    @property
    def is_alive(self) -> bool:
        """Whether the host's thread runs."""
        return self._thread.is_alive()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end after ``close``. False: the host is overdue."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _tasks(self) -> Sequence[StayingTask]:
        hosted = self._hosted
        return () if hosted is None else tuple(hosted.tasks.values())

    # ── on the host's thread ──

    def _run(self) -> None:
        while not self._closed:
            with self._changed:
                self._triggered = False
                restarts, self._restarts = self._restarts, set()
                self._failed -= restarts
            try:
                wait: float | None = self._host_once()
            except Exception as error:  # (a store that cannot be read or written, a thread that cannot be started)
                wait = self._retry_later(error)
            with self._changed:
                self._changed.wait_for(lambda: self._triggered or self._closed, wait)
        self._close_java()
        self._configs.close()

    def _close_java(self) -> None:
        if self._planner.staying is not None:
            self._planner.staying.close()

    def _next_retry(self) -> float:
        self._retry = min(2 * self._retry, LAST_RETRY_SECONDS)
        return self._retry

    def _retry_later(self, error: Exception) -> float:
        retry = self._next_retry()
        log.warning("Connector %s: it is checked again in %g s: %s", self._name, retry, self._mask(message_of(error)))
        return retry

    def _host_once(self) -> float | None:
        """Plan, start the tasks, and wait until they have ended. Returns how long to wait for a trigger before the next call. None: no
        limit."""
        plan = self._claim_and_plan()
        if not isinstance(plan, Plan):
            if self.failure is None:
                self._report_paused()
            return plan
        self._retry, self.failure = FIRST_RETRY_SECONDS, None
        self._keep_failed(plan)
        self._put_status(State.RUNNING, plan)
        hosted = HostedConnector(plan, {})
        with self._changed:
            self._overdue = False
            self._hosted, self._is_planning = hosted, False
        for task in plan.tasks:
            if task not in self._failed:
                self._start_task(hosted, task)
        self._watch(hosted)
        self._end(hosted)
        state = self._configs.read()
        if state.target_state(self._name) is TargetState.PAUSED:
            self._report_paused()
        elif StopReason.PAUSED in {task.reason for task in hosted.tasks.values()}:
            self._put_status(State.PAUSED, plan)
        is_owned = state.claims.get(self._name) == plan.claim and state.target_state(self._name) is TargetState.STARTED
        if not (is_owned and self._triggered):  # after a verb, the connector starts again too
            self._close_java()
        return REPLAN_SECONDS if is_owned else None  # the new owner of the claim decides what follows

    def _keep_failed(self, plan: Plan) -> None:
        """A task that has FAILED is started again once its config has changed, or the connector's."""
        same = (task for task, pair in enumerate(zip(self._task_configs, plan.task_configs, strict=False)) if pair[0] == pair[1])
        self._failed &= set(same) if plan.connector.raw == self._config else set()
        self._config, self._task_configs = plan.connector.raw, plan.task_configs

    def _claim_and_plan(self) -> Plan | float | None:
        """The plan, or how long to wait for a trigger before the next attempt. None: wait without a limit."""
        with self._changed:
            self._is_planning = True
            self.ended = None
        claim, self._claimed = self._claimed, None
        try:
            if claim is None:
                claimed = self._planner.claim(self._spec)
                if isinstance(claimed, NoPlan):
                    return None
                claim = claimed
                self._on_claim(claim)
            return self._planner.plan(self._spec, claim)
        except FencedException as error:
            log.info("Connector %s: %s", self._name, error)
            if self._is_superseded():  # a verb's claim does not end the host: a trigger follows
                self.ended = error
            return None
        except Exception as error:  # (the connector's own code: whatever it raises makes the connector FAILED)
            return self._plan_failed(claim, error)
        finally:
            with self._changed:
                self._is_planning = False

    def _is_superseded(self) -> bool:
        """Whether another run has made the newest claim."""
        return self._configs.read().owners.get(self._name) not in (None, self._planner.owner)

    def _plan_failed(self, claim: Claim | None, error: Exception) -> float | None:
        state = self._configs.read()
        raw = state.connector_config(self._name) or {}
        with suppress(ConfigException):  # a variable that cannot be resolved has no value to hide
            self._mask.add(secret_values(raw, self._settings.config_providers(self._name), {}))
        trace = self._mask(trace_of(error))
        self.failure = trace
        log.error("Connector %s FAILED\n%s", self._name, without_framework(trace))
        if claim is not None:
            version = plugin_version(self._settings, self._name, state)
            report_failed(self._backing, FailedStatuses(self._name, self._worker_id, version, claim), trace)
        if not isinstance(error, ConnectException) or not error.retriable:
            self.ended = error
            return None
        return self._next_retry()

    def _watch(self, hosted: HostedConnector) -> None:
        """Wait until the tasks must end, or have ended."""
        again = time.monotonic() + REPLAN_SECONDS
        while True:
            self._wait(hosted, again)
            with self._changed:
                if self._closed:
                    return
                triggered, self._triggered = self._triggered, False
                restarts, self._restarts = self._restarts, set()
            self._failed = {*self._failed, *(task.task for task in hosted.tasks.values() if task.failed)} - restarts
            try:
                is_outdated = self._is_outdated(hosted)
                if is_outdated and (triggered or not self._is_superseded()):
                    self.trigger(restarts)
            except ConnectException as error:  # the present tasks continue
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, self._retry_later(error))
                self.trigger(restarts)
                continue
            self._retry = FIRST_RETRY_SECONDS
            if is_outdated:
                return
            if triggered:
                self._put_state(hosted.plan)
            self._restart(hosted, restarts)
            if not triggered and self._is_over(hosted):
                return
            again = time.monotonic() + REPLAN_SECONDS

    def _wait(self, hosted: HostedConnector, until: float) -> None:
        """Wait for a trigger, for the end of all tasks, for a Java connector that asks for other tasks, or for the time ``until``."""
        java = self._planner.staying if hosted.plan.connector.is_java else None
        while True:
            left = until - time.monotonic()
            with self._changed:
                is_due = self._changed.wait_for(
                    lambda: self._closed or self._triggered or self._is_over(hosted),
                    max(0.0, left if java is None else min(left, _JAVA_SECONDS)),
                )
            if is_due or java is None or left <= 0:
                return
            before, asks = java.failure, java.asks()
            if java.failure != before:
                self.failure = java.failure
                self._put_state(hosted.plan)
            if asks:
                return

    def _is_over(self, hosted: HostedConnector) -> bool:
        """Whether all tasks have ended. A Java connector that stays may ask for tasks even if it has none."""
        may_ask = hosted.plan.connector.is_java and self._planner.staying is not None
        return all(task.has_ended for task in hosted.tasks.values()) and (bool(hosted.plan.tasks) or not may_ask)

    def _is_outdated(self, hosted: HostedConnector) -> bool:
        """Whether there is a newer claim, or the connector needs other tasks than it has."""
        state = self._configs.read()
        if state.claims.get(self._name) != hosted.plan.claim or state.target_state(self._name) is not TargetState.STARTED:
            return True
        try:
            return self._planner.is_outdated(self._spec, hosted.plan)
        except Exception as error:  # (the connector's own code; the present tasks continue)
            log.warning("Connector %s could not be planned again: %s", self._name, self._mask(message_of(error)))
            return False

    def _restart(self, hosted: HostedConnector, tasks: Iterable[int]) -> None:
        for number in tasks:
            task = hosted.tasks.get(number)
            if task is not None:
                task.request_end()
                task.join(self._graceful_seconds)
            if number in hosted.plan.tasks:
                self._start_task(hosted, number)

    def _end(self, hosted: HostedConnector) -> None:
        """Let the tasks end. Tasks whose config has changed have more time: a sink's destination may already have records for which the
        group's offsets are not yet committed, and a new destination would get them too."""
        for task in hosted.tasks.values():
            task.request_end()
        wait = max(LAST_COMMIT_SECONDS, self._graceful_seconds) if self._has_new_config(hosted.plan) else self._graceful_seconds
        deadline = time.monotonic() + wait
        for task in hosted.tasks.values():
            if not task.join(max(0.0, deadline - time.monotonic())):
                log.warning("Graceful stop of task %s-%d failed: it is left behind, and commits nothing more", self._name, task.task)
        self._failed |= {task.task for task in hosted.tasks.values() if task.failed}

    def _has_new_config(self, plan: Plan) -> bool:
        with suppress(ConnectException):
            return not self._closed and self._configs.read().connector_config(self._name) not in (None, plan.connector.raw)
        return False

    def _start_task(self, hosted: HostedConnector, number: int) -> None:
        known_topics: list[str] | None = [] if self._settings.topic_tracking_enable else None
        payload = replace(hosted.plan.payload(self._spec, number), known_topics=known_topics, endless=True, stays=True)
        task = self._create_task(payload, hosted.plan.connector, self._notify_host)
        with self._changed:
            hosted.tasks[number] = task
        task.start()

    def _notify_host(self) -> None:
        """Called when a task is about to end: let the host's thread check the task."""
        with self._changed:
            self._changed.notify_all()

    def _put_state(self, plan: Plan) -> None:
        """The connector's state while its tasks run."""
        self._put_status(State.RUNNING if self.failure is None else State.FAILED, plan, self.failure)

    def _put_status(self, state: State, plan: Plan, trace: str | None = None) -> None:
        with self._backing.status_notes(plan.claim) as statuses:
            version = plan.connector.plugin.version
            statuses.put_connector(ConnectorStatus(self._name, state, self._worker_id, trace, version=version, claim=plan.claim))

    def _report_paused(self) -> None:
        """Report PAUSED for a connector that is paused, and for its tasks that ended for another reason, such as a change of the config.
        Does nothing if this is reported already."""
        hosted = self._hosted
        if hosted is None or hosted.is_reported_paused or self._configs.read().target_state(self._name) is not TargetState.PAUSED:
            return
        hosted.is_reported_paused = True
        plan, version = hosted.plan, hosted.plan.connector.plugin.version
        self._put_status(State.PAUSED, plan)
        with self._backing.status_notes(plan.claim) as statuses:
            for number, task in sorted(hosted.tasks.items()):
                if task.has_ended and not task.failed and task.reason is not StopReason.PAUSED:
                    statuses.put_task(TaskStatus(self._name, number, State.PAUSED, self._worker_id, version=version, claim=plan.claim))

    @property
    def _graceful_seconds(self) -> float:
        return self._settings.task_shutdown_graceful_timeout_ms / 1000
