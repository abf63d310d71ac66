"""The loop of a sink task: read, pipeline, put, commit. Knows nothing of Kafka clients' settings or Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ChangedInputException, RetriableException
from airflow_provider_connect.runtime.worker.delivery.kafka_reader import AheadReader
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.runtime.worker.delivery.sink_delivery import SinkDelivery
from airflow_provider_connect.runtime.worker.errors.retries import requested_delay_ms
from airflow_provider_connect.runtime.worker.errors.tolerance import StoppedWhileRetrying
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.runtime.worker.task.contexts import TaskSinkContext
from airflow_provider_connect.runtime.worker.task.environment import ActiveTopics
from airflow_provider_connect.runtime.worker.task.sink_errors import SinkErrors
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopSignal
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import Refusal, SinkTask

log = logging.getLogger(__name__)
Result = TypeVar("Result")
READ_SECONDS = 0.5
GROUP_SECONDS = 1.0  # how often a sink that ``commits_when_caught_up`` commits the group's offsets
MARKER_SECONDS = 5.0  # after which such a sink, at rest, commits the offsets after transaction markers
RECHECK_SECONDS, FIRST_RECHECK_SECONDS = 300.0, 5.0  # for other partitions; for the first ones
PUT = "put"


@dataclass(slots=True)
class SinkLoop:
    """Runs one sink task until its reader is exhausted, its limit is reached, or ``stop`` gives a reason.

    Steps: 1 read; 2 convert and transform; 3 ``put``, repeated with the same batch after a RetriableException; 4 commit under the
    guarantee. The loop commits every ``interval_seconds``, at the end, and when an ``endless`` reader has no more records for now. If
    ``commits_when_caught_up``, an endless loop also commits to the destination after each batch after which no record waits. The group's
    offsets follow every ``GROUP_SECONDS``. A commit also has the offsets after transaction markers that follow the last records, so that
    the lag is 0. For such markers alone, the loop commits every ``interval_seconds``, or ``MARKER_SECONDS`` if it
    ``commits_when_caught_up``. A fenced loop commits nothing.

    A run whose time ends before any ``put`` has succeeded raises RetriedByNextRunException. If the broker sends no
    record for ``silence_seconds`` although there are records, RetriableException is raised. ``errors`` decides about records that fail
    alone. If ``errors`` retains much data, the commit comes early. ``tick`` is called in each turn, ``note_position`` before the work on
    each batch. With an ``endless`` reader, ``is_outdated`` is called every ``RECHECK_SECONDS``, and the loop ends if it returns True. It
    also ends after ``idle_seconds`` without a record.
    """

    task: SinkTask
    context: TaskSinkContext
    reader: AheadReader
    pipeline: SinkPipeline
    delivery: SinkDelivery
    stop: StopSignal
    metrics: TaskMetrics
    topics: ActiveTopics
    interval_seconds: float
    silence_seconds: float
    max_records: int | None
    now: Callable[[], float]
    endless: bool = False
    idle_seconds: float | None = None
    commits_when_caught_up: bool = False
    is_outdated: Callable[[], bool] = lambda: False
    sleep: Callable[[float], None] = time.sleep
    errors: SinkErrors = field(default_factory=SinkErrors)
    tick: Callable[[], None] = lambda: None
    note_position: Callable[[str], None] = lambda _: None
    _starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    _delivered: dict[TopicPartition, int] = field(default_factory=dict)
    _is_uncommitted: bool = False

    def run(self) -> StopReason | None:
        """Run to the end. Returns why the loop ended early, or None if every partition was read to its end."""
        try:
            reason = self._until_end()
            if reason is StopReason.TIME:
                self.errors.tolerance.retries(PUT).refuse_run_without_success()
            if reason is not StopReason.FENCED:
                self.context.is_ending = True
                self._commit()
        except ChangedInputException as error:
            if not self.endless:
                raise
            log.warning("The task begins again: %s", error)
            return StopReason.OUTDATED
        return reason

    def _until_end(self) -> StopReason | None:
        committed, silence = self.now(), 0.0
        checked = received = committed
        self._starts = self.reader.positions
        while self.endless or not self.reader.exhausted:
            reason = self.stop.reason()
            if reason is not None:
                self._delivered.update(self._after_markers())
                return reason
            if self.endless and self.now() - checked >= (RECHECK_SECONDS if self.reader.positions else FIRST_RECHECK_SECONDS):
                checked = self.now()
                if self.is_outdated():
                    return StopReason.OUTDATED
            self.tick()
            asked = self.now()
            raws = self._read()
            silence = 0.0 if raws or self.endless else silence + self.now() - asked  # a put or a commit may take any length of time
            if silence > self.silence_seconds:
                raise RetriableException(
                    f"The broker sent no record for {self.silence_seconds:g} s though there are some. A later try may succeed."
                )
            for raw in raws:
                if not self._deliver(raw):
                    return self.stop.reason()
                received = self.now()
            self._apply_requests()
            is_quiet = self.endless and not raws and (self._is_uncommitted or self._has_late_markers(committed))
            is_due = is_quiet or self.errors.is_full or self.now() - committed >= self.interval_seconds
            if self.context.take_commit_wanted() or is_due:
                self._delivered.update(self._after_markers())
                self._commit()
                committed = self.now()
            elif self.endless and self.commits_when_caught_up and self._is_uncommitted and self.reader.is_caught_up:
                with_group = self.now() - committed >= GROUP_SECONDS
                self._commit(with_group=with_group)
                committed = self.now() if with_group else committed
            if self.max_records is not None and self.metrics.records_in >= self.max_records:
                return None
            if self.idle_seconds is not None and not self._is_uncommitted and self.now() - received >= self.idle_seconds:
                break
        self._delivered.update(self.reader.positions)
        return None

    def _after_markers(self) -> dict[TopicPartition, int]:
        """The offsets after what the reader has passed without returning it: transaction markers, aborted records, and records that
        retention removed. They may be committed, because everything that the reader has returned is delivered."""
        passed = self.reader.positions.items()
        return {p: n for p, n in passed if n > self._delivered.get(p, self._starts.get(p, n))}

    def _has_late_markers(self, committed: float) -> bool:
        return self.commits_when_caught_up and self.now() - committed >= MARKER_SECONDS and bool(self._after_markers())

    def _read(self) -> list[RawBatch]:
        """The next records. Empty after ``READ_SECONDS`` without a record. An endless reader waits also if it has no partition, or if the
        task has paused all its partitions."""
        if not self.reader.exhausted:
            return self.reader.read(READ_SECONDS)
        self.sleep(READ_SECONDS)
        return []

    def _deliver(self, raw: RawBatch) -> bool:
        """Put the records of a raw batch. False: a retry noticed that the task must end. The remaining records are then not delivered."""
        self.metrics.records_in += raw.num_records
        self.metrics.batches.add(raw.num_records)
        self.errors.keep(raw)
        partition = raw.partition
        self.note_position(f"{partition.topic}-{partition.partition}, offsets {raw.first_offset} to {raw.next_offset - 1}")
        try:
            batches = list(self.pipeline.batches(raw))
            self.topics.note([raw.partition.topic])
            for batch in batches:
                self._put_tolerantly(batch, raw)
        except StoppedWhileRetrying:
            return False
        self._delivered[raw.partition] = raw.next_offset
        self._is_uncommitted = True
        self.metrics.bytes += raw.value.nbytes
        return True

    def _apply_requests(self) -> None:
        """Apply the task's requests: partitions to pause, or to read again from another offset."""
        self.reader.hold(self.context.paused)
        for partition, offset in self.context.take_rewinds().items():
            self.reader.seek(partition, offset)
            self._delivered[partition] = offset

    def _put_tolerantly(self, batch: Batch, raw: RawBatch) -> None:
        """Put a batch. If errors are tolerated, records for which the task raises DataException are skipped."""
        if not self.errors.tolerates_all or not batch.num_records:
            self._put_and_note(batch, raw)
            return

        def put(start: int, length: int) -> None:
            self._put_and_note(batch.slice(start, length), raw)

        def put_accepted() -> list[Refusal] | None:
            return self._until_done(partial(self.task.put_accepted, batch))

        names_refused = type(self.task).put_accepted is not SinkTask.put_accepted
        taken = self.errors.put_in_parts(
            batch.num_records, put, lambda index: raw.original(batch, index), put_accepted if names_refused else None
        )
        self.metrics.records_out += taken

    def _put_and_note(self, batch: Batch, raw: RawBatch) -> None:
        after = batch.next_offset if batch.next_offset is not None else raw.next_offset
        positions = {**self._delivered, raw.partition: after}
        self._until_done(partial(self.delivery.deliver, self.task, batch, positions))
        self._delivered[raw.partition] = after
        self.metrics.records_out += batch.num_records

    def _until_done(self, call: Callable[[], Result]) -> Result:
        """Call the task, and repeat the call after each RetriableException. Raises StoppedWhileRetrying when the task must end."""
        retries = self.errors.tolerance.retries(PUT)
        while True:
            try:
                with self.metrics.timed_call():
                    result = call()
            except RetriableException as error:
                if not retries.wait(error, requested_delay_ms(error, self.context.take_retry_ms())):
                    raise StoppedWhileRetrying from error
            else:
                retries.succeeded()
                return result

    def _commit(self, *, with_group: bool = True) -> None:
        if self._delivered:
            positions = dict(self._delivered)
            with self.metrics.timed_commit(), self.errors.committing(positions):
                committed = self.delivery.commit(self.task, positions, with_group=with_group)
            self.errors.committed(committed)
            self._is_uncommitted = not with_group
