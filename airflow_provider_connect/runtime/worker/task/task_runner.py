"""Runs one task from takeover to result. The order is the same for sources and sinks."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.model.batches import BatchRecord, ConnectorType, Stay
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.connector_settings import Guarantee
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.batch_log import BatchLog
from airflow_provider_connect.runtime.stores.offset_location import is_elsewhere
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.task.environment import TaskEnvironment
from airflow_provider_connect.runtime.worker.task.lineage import task_datasets
from airflow_provider_connect.runtime.worker.task.progress import ProgressLog, end_not_known
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.sdk.task import SinkTask, SourceTask

log = logging.getLogger(__name__)
_MAX_ERROR_LENGTH: Final = 500
_DATASETS_SECONDS: Final = 60.0
_Known = TypeVar("_Known")
_Loop = TypeVar("_Loop", bound="Loop")


class Loop(Protocol):
    """Moves records: a SourceLoop or a SinkLoop."""

    def run(self) -> StopReason | None:
        """Returns why the loop ended early, or None if everything was read."""


class TaskRunner(ABC, Generic[_Known, _Loop]):
    """Runs one task once. Every guarantee depends on the order of ``run``: nothing that was read before the first step is ever used.

    ``take_over`` by a task of an older claim may fence a task of a newer claim. The newer task then runs again (``task_body``). After the
    loop, everything that the steps opened is closed in reverse order.
    """

    def __init__(self, environment: TaskEnvironment, *, is_source: bool) -> None:
        self._environment = environment
        self._name = f"{environment.payload.connector}-{environment.payload.task}"
        self._metrics: TaskMetrics = environment.metrics(is_source=is_source)
        self._open = ExitStack()
        self._task_of_author: SourceTask | SinkTask | None = None
        self._distance: Callable[[], Distance | None] = end_not_known
        self._named: Sequence[tuple[str, str]] = ()
        self._datasets_due = 0.0
        self._cpu_seconds_elsewhere = 0.0  # CPU time of a process that the task has started
        self._earlier: BatchRecord | None = None

    def run(self) -> TaskResult:
        """Steps: 1 take over the transactional id; 2 refuse an old claim; 3 read offsets; 4 start the task; 5 run the loop; 6 create the
        result."""
        with self._open:
            self.take_over()  # 1
            self._environment.refuse_old_claim()  # 2
            self._earlier = self._earlier_entry() if self._logs_ranges else None
            known = self.read_offsets()  # 3
            loop = self.start(known)  # 4
            reason = loop.run()  # 5
            datasets = [] if reason is StopReason.FENCED else self._datasets()
        result = self.result(loop, reason)  # 6
        result.datasets, result.failed, result.error = datasets, self._metrics.records_skipped, self._last_error()
        result.is_logged = self._logs_ranges
        return result

    @property
    def _logs_ranges(self) -> bool:
        """Whether the batch log has the task's ranges, because the run stays."""
        return self._environment.payload.stays and self._has_batch_log

    @abstractmethod
    def take_over(self) -> None:
        """Fence every older owner of the task's offsets."""

    @abstractmethod
    def read_offsets(self) -> _Known:
        """Read the offsets from which the task continues."""

    @abstractmethod
    def start(self, known: _Known) -> _Loop:
        """Start the task and report it RUNNING."""

    @abstractmethod
    def result(self, loop: _Loop, reason: StopReason | None) -> TaskResult:
        """The result. Called after everything is closed."""

    def _leave_out_uncommitted(self, result: TaskResult) -> None:
        """Leave out of a fenced task's result what the newer run delivers again, and counts."""
        if self._environment.payload.guarantee == Guarantee.AT_MOST_ONCE:  # everything that was delivered is committed
            return
        result.records = self._metrics.records_committed
        if not result.records:
            result.bytes, result.ranges, result.topics = 0, {}, {}

    def _earlier_entry(self) -> BatchRecord | None:
        """The task's entry in the batch log, if a task under the same claim has written it, in a run that stays: that task's process was
        lost, or it has begun again. The counts of an entry are those of the claim."""
        payload = self._environment.payload
        try:
            with closing(self._environment.backing.batch_log()) as store:
                entries = store.entries(payload.connector)
        except ConnectException as error:
            log.info("Task %s: the records that it delivered before are not known: %s", self._name, error.message)
            return None
        key = (payload.task, payload.claim, payload.run_id)
        return next((entry for entry in entries if (entry.task.task, entry.claim, entry.run) == key), None)

    def _admin_connection(self, overrides: Mapping[str, str], seconds: float) -> AdminConnection:
        client_id = f"connector-adminclient-{self._name}"
        return AdminConnection.of(self._environment.settings, overrides, seconds, client_id=client_id)

    @staticmethod
    def _turn(progress: ProgressLog, connection: AdminConnection) -> Callable[[], None]:
        """What the loop calls in each turn. A task at rest keeps no admin client."""

        def turn() -> None:
            progress.tick()
            connection.close_unused()

        return turn

    def _stop_at_end(self, task: SourceTask | SinkTask) -> None:
        """Let a new task be stopped at the end, even if its start fails, as in Connect. Stop the previous task now."""
        if self._task_of_author is None:
            self._open.callback(self._stop_task)
        else:
            self._stop_task()
        self._task_of_author = task

    def _stop_task(self) -> None:
        if self._task_of_author is not None:
            self._environment.stop_task(self._task_of_author)

    def _last_error(self) -> str:
        """The error of the last record that was skipped, without secrets. Empty: no record was skipped, or the error is not known."""
        return cut(self._environment.mask(self._metrics.last_error()), _MAX_ERROR_LENGTH)

    @property
    def _has_batch_log(self) -> bool:
        environment = self._environment
        return environment.backing.keeps_batch_log and not is_elsewhere(environment.settings, environment.producer_overrides)

    def _names_of_datasets(self) -> Sequence[tuple[str, str]]:
        """Namespaces and names of the datasets. Those of a task that has delivered records are read once a minute."""
        now = time.monotonic()
        if self._metrics.records_delivered and now >= self._datasets_due:
            self._datasets_due = now + _DATASETS_SECONDS
            self._named = [(each["namespace"], each["name"]) for each in self._datasets()]
        return self._named

    def _datasets(self) -> list[dict[str, Any]]:
        """The datasets for lineage. The datasets of a Java task are not known. Any: JSON."""
        return [] if self._task_of_author is None else task_datasets(self._name, self._task_of_author, self._environment.mask)

    def _batch_log(
        self,
        ranges: Mapping[str, Mapping[str, list[int]]],
        positions: Mapping[str, Mapping[str, int]],
        topic_ids: Mapping[str, str] = MappingProxyType({}),
        destination: str = "",
        stay: Stay | None = None,
    ) -> Sequence[ProducerRecord]:
        """The batch log's record of the task's deliveries in this run so far. Empty if the task's transactions do not go to the worker's
        own cluster, which has the batch log."""
        environment, metrics, payload = self._environment, self._metrics, self._environment.payload
        if not self._has_batch_log:
            return []
        task = ConnectorTaskId(payload.connector, payload.task)
        earlier = self._earlier or BatchRecord(task, "", payload.claim, ConnectorType.SOURCE)
        partition, key, value = BatchLog.record(
            environment.settings,
            connector=payload.connector,
            task=payload.task,
            run=payload.run_id,
            claim=payload.claim,
            is_source=metrics.is_source,
            records=earlier.records + metrics.records_delivered,
            size=earlier.bytes + metrics.bytes,
            seconds=earlier.seconds + time.monotonic() - environment.started,
            cpu_seconds=earlier.cpu_seconds + environment.cpu_clock() - environment.started_cpu + self._cpu_seconds_elsewhere,
            ranges=ranges,
            positions=positions,
            topic_ids=topic_ids,
            distance=self._distance(),
            failed=earlier.failed + metrics.records_skipped,
            error=self._last_error() or earlier.error,
            destination=destination,
            stay=stay,
            datasets=self._names_of_datasets(),
        )
        return [ProducerRecord(environment.settings.batch_topic, partition, key, value)]
