"""What the source's and the sink's side of a task both work with: its payload, its plugins, its stop signal, its statuses, its counters."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from airflow_provider_connect.config.masking import Mask
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import FencedException, trace_of
from airflow_provider_connect.model.connector_settings import ConnectorSettings, Guarantee
from airflow_provider_connect.model.states import State, TargetState
from airflow_provider_connect.model.status import TaskStatus
from airflow_provider_connect.sdk.task import SinkTask, SourceTask
from airflow_provider_connect.stores.backing import Backing
from airflow_provider_connect.stores.config_changes import ConfigChanges
from airflow_provider_connect.stores.status_notes import StatusNotes
from airflow_provider_connect.worker.delivery.commit_steps import StepHook, unobserved
from airflow_provider_connect.worker.metrics import TaskMetrics
from airflow_provider_connect.worker.pipeline.pipeline import Converters
from airflow_provider_connect.worker.task.active_topics import ActiveTopics
from airflow_provider_connect.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.worker.task.lifecycle import StopSignal
from airflow_provider_connect.worker.task.newest_claim import need_newest
from airflow_provider_connect.worker.task.task_payload import TaskPayload

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TaskEnvironment:
    """One task's own. ``started`` and ``started_cpu`` in seconds of the process's clocks."""

    payload: TaskPayload
    settings: WorkerSettings
    backing: Backing
    checked: CheckedConnector
    task_config: Mapping[str, str]
    stop: StopSignal
    statuses: StatusNotes
    worker_id: str
    converters: Converters
    configs: ConfigChanges
    mask: Mask
    counted: list[TaskMetrics]
    watch: Callable[[TaskMetrics], None]
    step: StepHook = unobserved
    started: float = field(default_factory=time.monotonic)
    started_cpu: float = field(default_factory=time.process_time)

    def metrics(self, *, is_source: bool) -> TaskMetrics:
        """New counters for the body, which whoever hosts the task may watch."""
        exactly_once = self.payload.guarantee == Guarantee.EXACTLY_ONCE
        self.counted.append(TaskMetrics(is_source, in_transactions=is_source and exactly_once))
        self.watch(self.counted[-1])
        return self.counted[-1]

    def active_topics(self) -> ActiveTopics:
        """What notes the topics that this task uses."""
        payload = self.payload
        return ActiveTopics(payload.connector, payload.task, payload.known_topics, put=self.statuses.put_topic, now=time.time)

    @property
    def connector_settings(self) -> ConnectorSettings:
        return self.checked.settings

    def refuse_old_claim(self) -> None:
        """Raise FencedException unless the claim is the newest and the connector STARTED. Asked right after the id was taken over: who came
        late has fenced the newer owner by that, and must not go on in its place."""
        state, payload = self.configs.read(), self.payload
        need_newest(state, payload.connector, payload.claim)
        if state.target_state(payload.connector) is not TargetState.STARTED:
            raise FencedException(f"connector {payload.connector} is {state.target_state(payload.connector)}")

    def stopped(self, task: SourceTask | SinkTask) -> None:
        """End the connector's task. As in Connect, an exception of its ``stop`` is logged: what is delivered is delivered."""
        try:
            task.stop()
        except Exception as error:
            name, trace = f"{self.payload.connector}-{self.payload.task}", self.mask(trace_of(error))
            _log.warning("Task %s: could not be stopped\n%s", name, trace)

    def report(self, state: State, trace: str | None = None) -> None:
        """Write the task's status, which never waits."""
        payload = self.payload
        version, failures = self.checked.plugin.version, payload.failures if state is State.RUNNING else 0
        name, task, claim = payload.connector, payload.task, payload.claim
        self.statuses.put_task(TaskStatus(name, task, state, self.worker_id, trace=trace, version=version, claim=claim, failures=failures))

    def forget_failures(self) -> None:
        """The task has done its work: its status, which is RUNNING, counts no failures any more."""
        if self.payload.failures:
            payload, version = self.payload, self.checked.plugin.version
            status = TaskStatus(payload.connector, payload.task, State.RUNNING, self.worker_id, version=version, claim=payload.claim)
            self.statuses.put_task(status)
