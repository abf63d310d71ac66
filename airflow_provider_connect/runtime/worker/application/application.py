"""The driver of one run. It has one connector, one claim, and the connector's tasks. Each task is a Spark job with one partition."""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial

from airflow_provider_connect.errors import ConnectException, FencedException, is_transient, last_line, message_of, shorten, trace_of
from airflow_provider_connect.runtime.config.masking import Mask, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot, received_snapshot
from airflow_provider_connect.runtime.model.log_levels import apply_levels
from airflow_provider_connect.runtime.model.run import UNREPORTED, Claim, RunResult, RunSpec, RunState, TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, FailedStatuses
from airflow_provider_connect.runtime.stores.backing import Backing, TopicBacking
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges
from airflow_provider_connect.runtime.stores.status_notes import StatusNotes
from airflow_provider_connect.runtime.stores.transactional_producer import Fence
from airflow_provider_connect.runtime.worker.application.failure_report import plugin_version, report_failed
from airflow_provider_connect.runtime.worker.application.handover import REHEARSAL_SECONDS, Leave, request_handover
from airflow_provider_connect.runtime.worker.application.planner import NoPlan, Plan, Planner
from airflow_provider_connect.runtime.worker.application.remote_task import TaskRunner, run_remotely
from airflow_provider_connect.runtime.worker.application.staying_run import StayingRun
from airflow_provider_connect.runtime.worker.application.upgrade_trial import UpgradeTrial, preview_in_subprocess
from airflow_provider_connect.runtime.worker.bounded_call import within
from airflow_provider_connect.runtime.worker.errors.traces import line_of_author
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopServer

log = logging.getLogger(__name__)


class Application:
    """Runs one ``RunSpec`` to its ``RunResult``. ``start_engine`` starts the engine that runs tasks: Spark or this process. It is called in
    a separate thread during planning. ``backing`` None: the internal topics. After each task but the last, ``on_progress`` receives the
    result that the application would have if it ended now. In this result, tasks that still run have ``UNREPORTED`` as their trace.
    Of a run that stays, ``on_failures`` receives the traces of what is FAILED, whenever they change.
    ``mask`` receives the secrets of the run before any code that knows them runs. ``java`` keeps the JVM of a Java connector's plan for a
    task in this process. None: tasks run elsewhere. ``owner`` identifies the run in its claims. None: a new owner. With ``leave``, a run
    that stays hands its connector over to the next one (``handover``)."""

    def __init__(
        self,
        spec: RunSpec,
        start_engine: Callable[[], TaskRunner],
        *,
        host: str,
        on_claim: Callable[[Claim], None],
        on_progress: Callable[[RunResult], None] = lambda _: None,
        on_failures: Callable[[Sequence[str]], None] = lambda _: None,
        backing: Backing | None = None,
        mask: Mask | None = None,
        java: JavaHost | None = None,
        owner: str | None = None,
        leave: Leave | None = None,
    ) -> None:
        self._spec = spec
        self._settings = WorkerSettings.of(spec.settings, spec.secrets)
        self._backing = backing or TopicBacking(self._settings, known=received_snapshot(spec), only=spec.connector)
        self._engine = StartingEngine(start_engine)
        self._stop_server = StopServer(host)
        self._on_claim = on_claim
        self._on_progress = on_progress
        self._on_failures = on_failures
        self._worker_id = f"{host}:{os.getpid()}"
        self._mask = mask or Mask()
        self._mask.add(spec.secrets.values())
        self._java = java
        self._has_new_config = False
        self._failures: dict[int, int] = {}
        self._state: ClusterConfigState | None = None
        self._owner = owner or secrets.token_hex(8)
        self._leave = leave
        self._staying: StayingRun | None = None
        self._is_end_requested = self._is_offer_requested = False

    def request_end(self) -> None:
        """Have every task end after its current batch. Safe in a signal handler."""
        self._is_end_requested = True
        self._stop_server.request_stop()
        if self._staying is not None:
            self._staying.request_end()

    def request_handover(self) -> None:
        """Have a run that stays end its time now, so that the next run takes its connector over. Safe in a signal handler."""
        if self._staying is not None:
            self._staying.request_handover()

    def request_offer(self) -> None:
        """Have a run that stays offer its connector to the next run, and end once that run has it. Thread-safe."""
        self._is_offer_requested = True
        if self._staying is not None:
            self._staying.request_offer()

    @property
    def is_offered(self) -> bool:
        """Whether the next run can have the connector from this one."""
        return self._staying is not None and self._staying.is_offered

    def run(self) -> RunResult:
        """Steps: 1 claim the connector; 2 plan its tasks; 3 run the tasks; 4 report the result. Never raises, because failures are in the
        result. Called once."""
        with closing(self._stop_server), closing(self._java) if self._java is not None else nullcontext():
            return self._run()

    def _run(self) -> RunResult:
        spec = self._spec
        claim: Claim | None = None
        trial: UpgradeTrial | None = None
        if (known := received_snapshot(spec)) is not None:
            apply_levels(known.log_levels().values())
        try:
            self._mask.add(secret_values(self._settings.originals, self._settings.config_providers(), spec.secrets))
            self._backing.ensure()
            store = self._backing.configs()
            planner = self._planner(store, java=self._java)
            claimed = self._handed_over(planner) or planner.claim(spec)  # 1
            if isinstance(claimed, NoPlan):
                log.info("Connector %s: nothing to run: %s", spec.connector, claimed.reason)
                return RunResult(spec.connector, RunState.SKIPPED, error=claimed.reason)
            claim = claimed
            self._on_claim(claim)
            self._state = state = store.read()
            apply_levels(state.log_levels.values())
            self._has_new_config = state.applied_configs.get(spec.connector) != state.connector_config(spec.connector)
            self._mask.add(planner.secrets(spec, state))
            trial = UpgradeTrial(spec.connector, claim, store, partial(preview_in_subprocess, self._settings, spec.secrets), state=state)
            if spec.claim is None and trial.before_plan(is_whole=spec.tasks is None):
                spec = self._spec = dataclasses.replace(spec, tasks=None)
            if spec.stays_seconds is not None and not trial.is_trying:
                return self._stay(spec.stays_seconds, store, claim)
            if trial.is_trying:
                self._spec = dataclasses.replace(spec, idle_seconds=None)
            return self._run_claimed(planner, store, claim, trial)
        except FencedException as error:
            log.warning("Connector %s: %s", spec.connector, self._mask(str(error)))
            return RunResult(spec.connector, RunState.STOPPED, claim, error=self._mask(str(error)))
        except Exception as error:  # (the boundary: the run's result reports it)
            return self._connector_failed(claim, error, trial)

    def _handed_over(self, planner: Planner) -> Claim | None:
        """The claim that the run before this one has made for it. None: there is no such run."""
        spec, store = self._spec, planner.store
        if spec.stays_seconds is None or spec.connector not in store.read().successors:
            return None
        engine = self._engine.wait()
        try:
            within(REHEARSAL_SECONDS, lambda: engine(planner.rehearsal(spec)), f"loading the code of connector {spec.connector}")
        except Exception as error:  # (the connector's own code; its plan reports the error)
            log.info("Connector %s: its code was not loaded before its start: %s", spec.connector, self._mask(message_of(error)))
        graceful_seconds = self._settings.task_shutdown_graceful_timeout_ms / 1000
        return request_handover(
            store, spec.connector, self._owner, graceful_seconds=graceful_seconds, is_ending=lambda: self._is_end_requested
        )

    def _run_claimed(self, planner: Planner, store: ConfigChanges, claim: Claim, trial: UpgradeTrial) -> RunResult:
        spec = self._spec
        plan = planner.plan(spec, claim)  # 2
        statuses = self._backing.status_notes(claim)
        version = plan.connector.plugin.version
        where = "" if self._backing.exactly_once else ": the worker keeps offsets in a file (offset.storage.file.filename)"
        log.info("Connector %s: delivers %s%s", spec.connector, plan.guarantee.replace("_", " "), where)
        statuses.put_connector(ConnectorStatus(spec.connector, State.RUNNING, self._worker_id, version=version, claim=claim))
        results = self._run_tasks(plan, statuses, store.snapshot())  # 3
        if any(result.stopped_by == StopReason.PAUSED for result in results):
            statuses.put_connector(ConnectorStatus(spec.connector, State.PAUSED, self._worker_id, version=version, claim=claim))
        statuses.flush(self._settings.offset_flush_timeout_ms / 1000)
        statuses.close()
        result = RunResult.of_tasks(spec.connector, claim, results, plan.connector.plugins.versions())  # 4
        _evaluate_trial(result, lambda: trial.after(results, len(plan.task_configs)))
        store.close()
        return result

    def _planner(self, store: ConfigChanges, *, java: JavaHost | None = None, stays: bool = False) -> Planner:
        return Planner(
            self._settings,
            self._backing,
            store,
            Fence(self._settings),
            hide=self._mask.add,
            java=java,
            mask=self._mask,
            owner=self._owner,
            yields=stays,
            stays=stays,
        )

    def _stay(self, seconds: float, store: ConfigChanges, claim: Claim) -> RunResult:
        self._read_statuses()
        spec = dataclasses.replace(self._spec, tasks=None, known=None)
        self._staying = StayingRun(
            spec,
            self._settings,
            self._backing,
            self._planner(store, stays=True),
            self._engine.wait,
            claim=claim,
            host=self._stop_server.address[0],
            worker_id=self._worker_id,
            mask=self._mask,
            on_claim=self._on_claim,
            on_failures=self._on_failures,
            failures=self._failures,
            leave=self._leave,
        )
        if self._is_end_requested:
            self._staying.request_end()
        if self._is_offer_requested:
            self._staying.request_offer()
        return self._staying.run(seconds)

    def _read_statuses(self) -> list[str] | None:
        """While the engine starts, read how many times in a row each task has FAILED. Returns the topics that the connector is known to
        use. None: topics are not tracked."""
        with closing(self._backing.statuses()) as store:
            statuses = store.read()
        tasks = {} if self._has_new_config else statuses.task_map(self._spec.connector)
        self._failures = {number: task.failures for number, task in tasks.items()}
        return statuses.topics_of(self._spec.connector) if self._settings.topic_tracking_enable else None

    def _run_tasks(self, plan: Plan, statuses: StatusNotes, known: ConfigSnapshot | None) -> list[TaskResult]:
        """Run each task in a driver thread of its own. A task that fails never stops the others."""
        known_topics = self._read_statuses()
        run_task = self._engine.wait()
        results: dict[int, TaskResult] = {}
        lock = threading.Lock()

        def host(task: int) -> None:
            failures = self._failures.get(task, 0)
            payload = dataclasses.replace(plan.payload(self._spec, task), known_topics=known_topics, failures=failures, known=known)

            def put_lost(trace: str) -> None:
                failed = FailedStatuses(plan.connector.name, self._worker_id, plan.connector.plugin.version, plan.claim)
                statuses.put_task(failed.of_task(task, trace, failures=failures + 1))

            results[task] = run_remotely(run_task, payload, self._stop_server, self._mask, put_lost)
            with lock:
                if len(results) < len(plan.tasks):
                    self._note_progress(plan, results)

        threads = [threading.Thread(target=host, args=(task,), name=f"task-{task}") for task in plan.tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [results[task] for task in plan.tasks]

    def _note_progress(self, plan: Plan, results: Mapping[int, TaskResult]) -> None:
        known = [results.get(task) or TaskResult(task, State.FAILED, UNREPORTED, retriable=True) for task in plan.tasks]
        try:
            self._on_progress(RunResult(plan.connector.name, RunState.FAILED, plan.claim, known))
        except OSError as error:  # (a full disk is no reason to end the running tasks)
            log.warning("Connector %s: which of its tasks are done could not be noted: %s", plan.connector.name, error)

    def _connector_failed(self, claim: Claim | None, error: Exception, trial: UpgradeTrial | None) -> RunResult:
        name = self._spec.connector
        trace = shorten(self._mask(trace_of(error)))
        text = shorten(self._mask(message_of(error)))
        log.error("Connector %s FAILED: %s%s", name, text, line_of_author(trace))
        if claim is not None:
            version = None if self._state is None else plugin_version(self._settings, name, self._state)
            failed = FailedStatuses(name, self._worker_id, version, claim)
            report_failed(self._backing, failed, trace, error, () if self._state is None else self._state.tasks(name))
        result = RunResult(name, RunState.FAILED, claim, error=text, retriable=is_transient(error))
        if trial is not None:
            _evaluate_trial(result, lambda: trial.failed(last_line(text)))
        return result


class StartingEngine:
    """Starts the engine in a thread. ``wait`` returns the engine, or raises the exception of its start."""

    def __init__(self, start: Callable[[], TaskRunner]) -> None:
        self._made: TaskRunner | None = None
        self._error: BaseException | None = None

        def make() -> None:
            try:
                self._made = start()
            except BaseException as error:  # (raised again by wait)
                self._error = error

        self._thread = threading.Thread(target=make, name="engine", daemon=True)
        self._thread.start()

    def wait(self) -> TaskRunner:
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._made is not None
        return self._made


def _evaluate_trial(result: RunResult, evaluate: Callable[[], str]) -> None:
    """Evaluate the run's upgrade trial. If the trial failed, the run may be retried immediately, with the old version."""
    try:
        rolled_back = evaluate()
    except ConnectException as error:  # the next run finds a trial that never reported its end
        log.warning("Connector %s: whether its upgrade has succeeded could not be written: %s", result.connector, error.message)
        return
    if not rolled_back:
        return
    result.error = f"{rolled_back}: {result.error}" if result.error else rolled_back
    result.retriable = True
    for task in result.tasks:
        task.retriable = task.retriable or task.state == State.FAILED
