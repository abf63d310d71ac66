"""One task of one run, from its payload to its result. It runs in an executor's Python worker, in a process of its own, or in a thread.

``TaskRunner.run`` has the order on which every guarantee depends.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_connect.errors import (
    ChangedInputException,
    FencedException,
    PausedException,
    RetriableException,
    TaskMemoryException,
    TransactionExpiredException,
    is_transient,
    message_of,
    shorten,
    trace_of,
)
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.config_providers import ConfigProvider
from airflow_provider_connect.runtime.config.masking import Mask, mask_output, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.model.connector_settings import ConnectorSettings
from airflow_provider_connect.runtime.model.log_levels import apply_levels
from airflow_provider_connect.runtime.model.log_lines import write_logs
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import FailedStatuses, TaskStatus
from airflow_provider_connect.runtime.stores.backing import Backing, TopicBacking
from airflow_provider_connect.runtime.stores.status_notes import StatusNotes
from airflow_provider_connect.runtime.worker.delivery.commit_steps import StepHook, unobserved
from airflow_provider_connect.runtime.worker.errors.traces import without_framework
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.missing import note_call, shortened_note
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector, check_connector
from airflow_provider_connect.runtime.worker.task.environment import TaskEnvironment
from airflow_provider_connect.runtime.worker.task.long_calls import LongCalls
from airflow_provider_connect.runtime.worker.task.memory_limit import MemoryLimit, SharedMemoryLimit, TaskMemoryLimit
from airflow_provider_connect.runtime.worker.task.pipeline_setup import create_converters
from airflow_provider_connect.runtime.worker.task.stop_signal import FollowedConfig, HostConnection, StopConnection, StopReason, StopSignal
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.worker.task.task_runner import TaskRunner

log = logging.getLogger(__name__)
TAKE_OVERS = 3
_IMPORT = threading.Lock()  # a thread that waits for another thread's failing import would get half a module, and report that instead
_ENDED_WELL = (None, StopReason.TIME, StopReason.EXPIRED, StopReason.OUTDATED)
_HEALTHY_SECONDS = 60.0  # after that long, a task that stays has not failed in a row
_SWITCH_SECONDS = 0.0002  # Arrow's threads request the interpreter constantly: with 5 ms each time, a sink lost 5 % of its speed


@dataclass(frozen=True, slots=True)
class TaskHost:
    """Where a task runs. ``connection`` None: only the config topic and time end the task. ``watch`` receives the counters of the task when
    it begins. ``mask`` receives the task's secrets, which the process hides in its log and output. ``java`` is the application's host of
    JVMs, if the task runs in the application's process. ``limited_tasks`` is the number of tasks that share this process. The process is
    killed when it exceeds the sum of the tasks' memory limits. 0: the process belongs to another program, and is never killed.
    ``shared_limit`` is the memory limit of a process that hosts tasks of several connectors."""

    backing: Backing
    worker_id: str
    connection: HostConnection | None
    watch: Callable[[TaskMetrics], None] = lambda _: None
    mask: Mask = field(default_factory=Mask)
    java: JavaHost | None = None
    limited_tasks: int = 0
    shared_limit: SharedMemoryLimit | None = None

    @property
    def cpu_clock(self) -> Callable[[], float]:
        """The CPU time of the task: that of its own thread, if tasks of other connectors share the process."""
        return time.process_time if self.shared_limit is None else time.thread_time


def run_task(
    payload: TaskPayload, host: TaskHost | None = None, *, step: StepHook = unobserved, has_memory_limit: bool = False
) -> TaskResult:
    """Run the task and return its result. A failure of the task is part of the result, and is never raised.

    ``host`` None: the task has a process of its own, keeps its state on the topics, and ends when its driver closes the connection.
    ``step`` surrounds each step of a commit. ``has_memory_limit``: the task's own process is killed when the task exceeds its memory limit.
    """
    settings = WorkerSettings.of(payload.settings, payload.secrets)
    host = host or own_process_host(payload, has_memory_limit=has_memory_limit)
    host.mask.add(payload.secrets.values())
    started, cpu = time.monotonic(), host.cpu_clock()
    with _memory_limit(payload, settings, host) as memory_limit:
        result = _run(payload, settings, host, host.mask, step=step, memory_limit=memory_limit)
    result.seconds = time.monotonic() - started
    result.cpu_seconds += host.cpu_clock() - cpu
    return result


def rehearse_task(payload: TaskPayload, mask: Mask) -> None:
    """Load the connector's code and the modules of its tasks, so that the next task in this process starts sooner. ``mask`` receives the
    task's secrets. Raises ConfigException."""
    mask.add(payload.secrets.values())
    settings = WorkerSettings.of(payload.settings, payload.secrets)
    checked = check_connector(
        payload.connector, payload.connector_config, settings, payload.secrets, versions=payload.versions, hide=mask.add
    )
    with _IMPORT:
        _runner_class(checked)
    if not checked.is_java:
        create_converters(checked, settings)


def own_process_host(payload: TaskPayload, *, has_memory_limit: bool = False) -> TaskHost:
    """The host of a task that has a process of its own. Sets up the log and output of the process. ``has_memory_limit``: see
    ``run_task``."""
    mask = own_output(payload.secrets.values())
    if payload.known is not None:
        apply_levels(payload.known.log_levels().values())
    return replace(
        _executor_host(payload, WorkerSettings.of(payload.settings, payload.secrets)), mask=mask, limited_tasks=int(has_memory_limit)
    )


def own_output(secrets: Iterable[str]) -> Mask:
    """Set up the log and output of a process that belongs to tasks. Returns the mask that hides ``secrets`` in them."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    write_logs()
    mask = Mask(secrets)
    mask_output(mask)
    return mask


def _memory_limit(payload: TaskPayload, settings: WorkerSettings, host: TaskHost) -> AbstractContextManager[TaskMemoryLimit | None]:
    title = f"Task {payload.connector}-{payload.task}"
    if host.shared_limit is not None:
        return host.shared_limit.share(title)
    if not host.limited_tasks:
        return nullcontext()
    if host.limited_tasks > 1:
        title += f", in one process with {host.limited_tasks - 1} others,"
    connection = None if host.connection is None else host.connection.descriptor
    return MemoryLimit(title, payload.task, settings.task_memory_max * host.limited_tasks, connection=connection)


def driver_host(
    payload: TaskPayload, mask: Mask, java: JavaHost | None = None, backing: Backing | None = None, *, has_memory_limit: bool = False
) -> TaskHost:
    """The host of a task in a thread of the application's driver. The driver hides the secrets of ``mask``. ``java`` has the driver's JVM
    for Java plugins. ``backing`` None: the topics keep the task's state."""
    host = _executor_host(payload, WorkerSettings.of(payload.settings, payload.secrets), backing)
    return replace(host, mask=mask, java=java, limited_tasks=payload.hosted if has_memory_limit else 0)


def _executor_host(payload: TaskPayload, settings: WorkerSettings, backing: Backing | None = None) -> TaskHost:
    name = socket.gethostname() if payload.stop_address[0] != "127.0.0.1" else "127.0.0.1"
    kept = backing or TopicBacking(settings, known=payload.known, only=payload.connector)
    return TaskHost(kept, f"{name}:{os.getpid()}", _driver_connection(payload))


def _driver_connection(payload: TaskPayload) -> StopConnection | None:
    """Connect to the driver. A task also runs without a connection, because the config topic has every reason to end except the
    application's own. None also for a rehearsal, which ends by itself."""
    if payload.is_rehearsal:
        return None
    try:
        return StopConnection(payload.stop_address, payload.stop_token)
    except OSError as error:
        log.warning("Task %s-%s cannot reach its driver, which therefore cannot end it: %s", payload.connector, payload.task, error)
        return None


def _run(
    payload: TaskPayload, settings: WorkerSettings, host: TaskHost, mask: Mask, *, step: StepHook, memory_limit: TaskMemoryLimit | None
) -> TaskResult:
    statuses = host.backing.status_notes(payload.claim)
    counted: list[TaskMetrics] = []
    result, version = TaskResult(payload.task), None
    try:
        mask.add(secret_values(payload.settings, settings.config_providers(), payload.secrets))
        values = _Values(settings.config_providers(payload.connector), time.monotonic())
        for config in (payload.connector_config, payload.task_config):
            mask.add(secret_values(config, values.providers, payload.secrets))
        with _environment(
            payload, settings, host, statuses, values, mask=mask, counted=counted, step=step, memory_limit=memory_limit
        ) as environment:
            version = environment.checked.plugin.version
            result = _run_until_owned(environment)
            result.records += sum(metrics.records_committed for metrics in counted[:-1])  # delivered before a takeover of the task's id
            if result.stopped_by == StopReason.IDLE:  # the end of the data
                result.stopped_by = None
            if result.stopped_by == StopReason.PAUSED:
                environment.report(State.PAUSED)
                result.state = State.PAUSED
            elif result.stopped_by in _ENDED_WELL or (payload.endless and time.monotonic() - environment.started > _HEALTHY_SECONDS):
                environment.forget_failures()
    except FencedException as error:
        log.warning("Task %s-%s ends: %s", payload.connector, payload.task, mask(str(error)))
        result.stopped_by = StopReason.FENCED
        if isinstance(error, PausedException):
            result.stopped_by, result.state = StopReason.PAUSED, State.PAUSED
            paused = TaskStatus(payload.connector, payload.task, State.PAUSED, host.worker_id, version=version, claim=payload.claim)
            statuses.put_task(paused)
        _count_committed(result, counted)
    except BaseException as error:  # (the boundary: any exception of a task makes it FAILED, including SystemExit)
        trace = shorten(mask(trace_of(_memory_exception(error, payload, settings))))
        log.error("Task %s-%s FAILED\n%s", payload.connector, payload.task, without_framework(trace))  # noqa: TRY400  (masked)
        failed = FailedStatuses(payload.connector, host.worker_id, version, payload.claim)
        statuses.put_task(failed.of_task(payload.task, trace, failures=payload.failures + 1))
        result = TaskResult(payload.task, State.FAILED, trace, is_transient(error))
        _count_committed(result, counted)
        result.metrics["last-error-timestamp"] = int(time.time() * 1000)
    statuses.flush(settings.offset_flush_timeout_ms / 1000)
    result.metrics |= statuses.metrics()
    statuses.close()
    return result


def _memory_exception(error: BaseException, payload: TaskPayload, settings: WorkerSettings) -> BaseException:
    """Returns ``error``. For a MemoryError, which has no text, returns an error that names the task: the system's limit was reached before
    the task's limit."""
    if not isinstance(error, MemoryError):
        return error
    task = f"{payload.connector}-{payload.task}"
    named = TaskMemoryException(
        f"Task {task} was refused memory by the system, before it reached task.memory.max ({settings.task_memory_max >> 20} MiB): "
        f"{message_of(error)}. What was committed before stays. Give the task smaller batches, or its host more memory."
    )
    named.__cause__ = error
    return named


def _count_committed(result: TaskResult, counted: Sequence[TaskMetrics]) -> None:
    """Count what the task had committed before it failed, or before a newer run began."""
    result.records = sum(metrics.records_committed for metrics in counted)
    result.metrics = counted[-1].by_name() if counted else {}


def _run_until_owned(environment: TaskEnvironment) -> TaskResult:
    """Run the task. Run it again if an older claim has fenced it.

    A task of an older claim takes over the id before it can know that its claim is old, and then ends. The work of the newest claim remains
    to be done.
    """
    fenced: FencedException | None = None
    task = f"{environment.payload.connector}-{environment.payload.task}"
    for _ in range(TAKE_OVERS):
        try:
            return _run_once(environment)
        except ChangedInputException:
            environment.refuse_old_claim()  # raises if the offsets are those of a newer run
            raise
        except FencedException as error:
            environment.refuse_old_claim()  # raises after a newer claim or a stop: then the task must end
            why = str(error) if isinstance(error, TransactionExpiredException) else "an older claim has fenced it"
            log.warning("Task %s takes its id over again: %s", task, why)
            fenced = error
    if isinstance(fenced, TransactionExpiredException):
        raise RetriableException(_EXPIRED.format(task)) from fenced
    raise RetriableException(
        f"Another process without a newer claim has taken over the transactional id of task {task} "
        f"{TAKE_OVERS} times; does a Kafka Connect worker of the same group.id run this connector? A later try may succeed."
    ) from fenced


_EXPIRED = (
    "The task {} was unable to finish writing records to Kafka before its producer transaction expired. It may be necessary to "
    "reconfigure this connector in order for it to run healthily with exactly-once support. Options for this include: tune the connector's "
    "producer configuration for higher throughput, increase the transaction timeout for the connector's producers, decrease the offset "
    "commit interval (if using interval-based transaction boundaries), or use the 'poll' transaction boundary (if the connector is not "
    "already configured to use it)."
)


def _run_once(environment: TaskEnvironment) -> TaskResult:
    with _IMPORT:
        runner = _runner_class(environment.checked)(environment)
    return runner.run()


def _runner_class(checked: CheckedConnector) -> Callable[[TaskEnvironment], TaskRunner[Any, Any]]:
    if checked.is_java:
        from airflow_provider_connect.runtime.java.task.runner import JavaSinkRunner, JavaSourceRunner

        return JavaSourceRunner if checked.is_source else JavaSinkRunner
    if checked.is_source:
        from airflow_provider_connect.runtime.worker.task.source_runner import SourceTaskRunner

        return SourceTaskRunner
    from airflow_provider_connect.runtime.worker.task.sink_runner import SinkTaskRunner

    return SinkTaskRunner


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of this task's variables, resolved once at the time ``resolved_at`` of the monotonic clock."""

    providers: Mapping[str, ConfigProvider]
    resolved_at: float

    def expiry(self, checked: CheckedConnector) -> float:
        """The time at which the task must end, so that the values are resolved again."""
        ttl_ms = config_providers.shortest_ttl_ms(self.providers)
        if ttl_ms is None or checked.resolved.get("config.action.reload", "restart").lower() != "restart":
            return math.inf
        return self.resolved_at + ttl_ms / 1000


def _note_call(host: TaskHost, payload: TaskPayload, mask: Mask, call: str | None, instead_of: str | None) -> None:
    """Note the call that the connector waits for. See ``LongCalls``."""
    texts = [None if text is None else shortened_note(mask(text)) for text in (call, instead_of)]
    note_call(host.backing.configs, payload.connector, texts[0], of=payload.connector_config, instead_of=texts[1])


def _max_seconds(connector: ConnectorSettings, worker: WorkerSettings) -> float:
    """How long the task may run. The worker's setting does not limit a backfill, because a backfill has only one run."""
    if connector.is_backfill and connector.batch_max_duration_ms is None:
        return math.inf
    return (connector.batch_max_duration_ms or worker.batch_max_duration_ms) / 1000


@contextmanager
def _environment(
    payload: TaskPayload,
    settings: WorkerSettings,
    host: TaskHost,
    statuses: StatusNotes,
    values: _Values,
    *,
    mask: Mask,
    counted: list[TaskMetrics],
    step: StepHook,
    memory_limit: TaskMemoryLimit | None,
) -> Iterator[TaskEnvironment]:
    checked = check_connector(
        payload.connector,
        payload.connector_config,
        settings,
        payload.secrets,
        versions=payload.versions,
        providers=values.providers,
        hide=mask.add,
    )
    if memory_limit is not None and host.limited_tasks <= 1:
        memory_limit.lower(checked.settings.task_memory_max)
    task_config = config_providers.resolve(payload.task_config, values.providers, payload.secrets)
    store = host.backing.configs()
    longest = math.inf if payload.longest_seconds is None else payload.longest_seconds
    seconds = longest if payload.endless else _max_seconds(checked.settings, settings)
    with store.follow(payload.connector, payload.claim) as follower:
        deadline = time.monotonic() + seconds
        stop = StopSignal(FollowedConfig(follower), host.connection, now=time.monotonic, deadline=deadline, expiry=values.expiry(checked))
        try:
            with LongCalls(stop, f"Connector {payload.connector}, task {payload.task}", note=partial(_note_call, host, payload, mask)):
                yield TaskEnvironment(
                    payload=payload,
                    settings=settings,
                    backing=host.backing,
                    checked=checked,
                    task_config=task_config,
                    stop=stop,
                    statuses=statuses,
                    worker_id=host.worker_id,
                    converters=cast(Converters, None) if checked.is_java else create_converters(checked, settings),  # its JVM has its own
                    configs=store,
                    mask=mask,
                    counted=counted,
                    watch=host.watch,
                    cpu_clock=host.cpu_clock,
                    step=step,
                    java=host.java,
                    memory_limit=memory_limit,
                )
        finally:
            if host.connection is not None:
                host.connection.close()
            store.close()
