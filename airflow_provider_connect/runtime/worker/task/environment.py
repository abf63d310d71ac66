"""The environment of a task, source or sink: payload, plugins, stop signal, statuses, counters, active topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_connect.errors import FencedException, PausedException, plugin_code, trace_of
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.model.connector_settings import ConnectorSettings, Guarantee
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import TaskStatus, TopicStatus
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges
from airflow_provider_connect.runtime.stores.status_notes import StatusNotes
from airflow_provider_connect.runtime.worker.delivery.commit_steps import StepHook
from airflow_provider_connect.runtime.worker.delivery.librdkafka import Librdkafka, load_librdkafka
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.missing import note_missing
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector
from airflow_provider_connect.runtime.worker.task.memory_limit import TaskMemoryLimit
from airflow_provider_connect.runtime.worker.task.stop_signal import StopSignal
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload, require_newest_claim
from airflow_provider_connect.sdk.task import SinkTask, SourceTask

_log = logging.getLogger(__name__)
_UNKNOWN = ""  # the note that the config topic has is not known yet


@dataclass(slots=True)
class TaskEnvironment:
    """The environment of one task. ``started`` and ``started_cpu`` are seconds of the process's clock and of ``cpu_clock``, which counts
    the CPU time of the task. ``step`` surrounds each step of a commit.
    ``java`` may contain the JVM of the plan. ``memory_limit`` None: the process that hosts the task has no memory limit."""

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
    step: StepHook
    java: JavaHost | None = None
    memory_limit: TaskMemoryLimit | None = None
    cpu_clock: Callable[[], float] = time.process_time
    started: float = field(default_factory=time.monotonic)
    started_cpu: float = field(init=False)
    _noted: str | None = field(default=_UNKNOWN, init=False)

    def __post_init__(self) -> None:
        self.started_cpu = self.cpu_clock()

    def metrics(self, *, is_source: bool) -> TaskMetrics:
        """New counters for the task, which its host may watch."""
        exactly_once = self.payload.guarantee == Guarantee.EXACTLY_ONCE
        self.counted.append(TaskMetrics(is_source, in_transactions=is_source and exactly_once))
        self.watch(self.counted[-1])
        return self.counted[-1]

    def active_topics(self) -> ActiveTopics:
        """The topics that this task uses."""
        payload = self.payload
        return ActiveTopics(payload.connector, payload.task, payload.known_topics, put=self.statuses.put_topic, now=time.time)

    @property
    def connector_settings(self) -> ConnectorSettings:
        return self.checked.settings

    @property
    def max_records(self) -> int | None:
        """The number of records that ends a run. None: no limit. The worker's setting does not limit a backfill, because a backfill has
        only one run."""
        worker = None if self.connector_settings.is_backfill else self.settings.batch_max_records
        return self.connector_settings.batch_max_records or worker

    @property
    def producer_overrides(self) -> Mapping[str, str]:
        return self.checked.producer_overrides(self.settings)

    @property
    def librdkafka(self) -> Librdkafka | None:
        """None: records go through confluent-kafka's API."""
        return load_librdkafka() if self.settings.librdkafka_direct_access_enable else None

    def note_position(self, position: str) -> None:
        """Called before the work on each batch, for the report of a task that reaches its memory limit."""
        if self.memory_limit is not None:
            self.memory_limit.at(self.mask(position))

    def note_missing(self, missing: str | None) -> None:
        """Note what the connector waits for. None: nothing is missing. Called by the tasks of a run that stays, each time they check. Other
        runs check before they start."""
        name, stays = self.payload.connector, self.payload.stays
        if not stays or missing == self._noted:
            return
        if self.configs.read().notes.get(name) != missing:
            note_missing(self.backing.configs, name, missing, of=self.payload.connector_config)
        self._noted = missing

    def refuse_old_claim(self) -> None:
        """Raise FencedException unless the claim is the newest and the connector is STARTED; if it is PAUSED, raise PausedException.

        Called right after the id was taken over. With the takeover, a task of an older claim has fenced the newer owner. It must not
        continue in place of that owner.
        """
        state, payload = self.configs.read(), self.payload
        require_newest_claim(state, payload.connector, payload.claim)
        target = state.target_state(payload.connector)
        if target is not TargetState.STARTED:
            kind = PausedException if target is TargetState.PAUSED else FencedException
            raise kind(f"connector {payload.connector} is {target}")

    def stop_task(self, task: SourceTask | SinkTask) -> None:
        """Stop the connector's task. As in Connect, an exception of its ``stop`` is only logged."""
        try:
            with plugin_code():
                task.stop()
        except Exception as error:
            name, trace = f"{self.payload.connector}-{self.payload.task}", self.mask(trace_of(error))
            _log.warning("Task %s: could not be stopped\n%s", name, trace)

    def report(self, state: State) -> None:
        """Write the task's status. Never blocks."""
        self._put(state, self.payload.failures if state is State.RUNNING else 0)

    def forget_failures(self) -> None:
        """Called when the task has made progress. Write RUNNING with no failures, if the status counts failures."""
        if self.payload.failures:
            self._put(State.RUNNING, 0)

    def _put(self, state: State, failures: int) -> None:
        name, task, claim = self.payload.connector, self.payload.task, self.payload.claim
        version = self.checked.plugin.version
        self.statuses.put_task(TaskStatus(name, task, state, self.worker_id, version=version, claim=claim, failures=failures))


class ActiveTopics:
    """The topics that a connector uses (KIP-558). Each is noted once on the status topic.

    ``known`` are the topics that the status topic already has for the connector. None: ``topic.tracking.enable`` is off, and no topic is
    noted. ``put`` writes a status without making the caller wait. ``now`` gives seconds since 1970. Called per batch, not per record.
    """

    def __init__(
        self, connector: str, task: int, known: Collection[str] | None, *, put: Callable[[TopicStatus], None], now: Callable[[], float]
    ) -> None:
        self._connector = connector
        self._task = task
        self._known = None if known is None else set(known)
        self._put = put
        self._now = now

    def note(self, topics: Iterable[str]) -> None:
        """Note that records of ``topics`` were converted (sinks: by their names in Kafka) or delivered (sources: after transformations)."""
        if self._known is None:
            return
        for topic in topics:
            if topic not in self._known:
                self._known.add(topic)
                self._put(TopicStatus(topic, self._connector, self._task, int(self._now() * 1000)))
