"""The loop of a source task: poll, pipeline, deliver, commit. Knows nothing of Kafka clients or Spark."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from airflow_provider_connect.data.records import SourceRecord
from airflow_provider_connect.errors import ConnectException, DataException, FencedException, RetriableException, plugin_code, trace_of
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep, StepHook, unobserved
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.record_limits import Excess, RecordLimits
from airflow_provider_connect.runtime.worker.delivery.refused_records import InvalidTimestamp, invalid_timestamps, remove_refused
from airflow_provider_connect.runtime.worker.delivery.source_delivery import SourceDelivery, SourceOffset
from airflow_provider_connect.runtime.worker.delivery.transaction_boundary import Ending, RequestedBoundary
from airflow_provider_connect.runtime.worker.errors.failures import RetriedByNextRunException, unread
from airflow_provider_connect.runtime.worker.errors.retries import Retries
from airflow_provider_connect.runtime.worker.errors.tolerance import StoppedWhileRetrying, Tolerance
from airflow_provider_connect.runtime.worker.task.after_commit import AfterCommit
from airflow_provider_connect.runtime.worker.task.run_progress import RunProgress
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopSignal
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.task import SourceTask

log = logging.getLogger(__name__)
IDLE_SECONDS = 0.1  # after a poll that returned nothing


Renew = Callable[[Callable[[], None]], SourceTask | StopReason]
"""Waits for new data. Calls its argument several times a second meanwhile. Returns the task that reads the new data, or a reason to
stop."""


class Pipeline(Protocol):
    """A SourcePipeline, or an object that observes one."""

    @property
    def errors(self) -> Tolerance: ...

    def batches(self, polled: Batch | Sequence[Batch] | Sequence[SourceRecord]) -> list[Batch]: ...

    def encode(self, batch: Batch) -> Iterable[EncodedBatch]: ...


@dataclass(frozen=True, slots=True)
class TransactionRequests:
    """With ``transaction.boundary=connector``: the task's requests, and the delivery's ``drop``."""

    boundary: RequestedBoundary
    drop: Callable[..., bool]


@dataclass(slots=True)
class SourceLoop:
    """Runs one source task until it has no more records, reaches its limit, or ``stop`` gives a reason.

    Steps: 1 ``poll``, repeated after a RetriableException; 2 transform and convert; 3 deliver records and offsets under the guarantee; 4
    ``task.commit()``, only after a commit. A fenced loop commits nothing. ``transactions`` None: the delivery decides where transactions
    end. ``limits`` knows which records client or broker would refuse. The error rules decide about such records before any record of the
    same poll is written. None: no record is checked. ``sleep`` is called after a poll without records. ``mask`` masks secrets in log lines.
    ``step`` surrounds the call of ``task.commit``. In a run that stays, ``renew`` is called when the task has no more records. It waits for
    new data, and returns the task that reads the new data, or a reason to stop. ``renew`` None: the run ends. A task that returns empty
    polls for ``idle_seconds`` also ends the run. Calls in ``after_commit`` have a commit made at once. A run that stays reports its
    deliveries when it is quiet, not only with its commits.

    A poll that fails, or whose records cannot be encoded, does not affect earlier polls: their records are committed, then the exception is
    raised. Retries of ``poll`` that end without success raise RetriedByNextRunException in the same way.
    """

    task: SourceTask
    pipeline: Pipeline
    delivery: SourceDelivery
    progress: RunProgress
    stop: StopSignal
    transactions: TransactionRequests | None = None
    limits: RecordLimits | None = None
    sleep: Callable[[float], None] = time.sleep
    mask: Callable[[str], str] = str
    step: StepHook = unobserved
    renew: Renew | None = None
    idle_seconds: float | None = None
    after_commit: AfterCommit = field(default_factory=AfterCommit)
    now: Callable[[], float] = time.monotonic
    _is_within_transaction: bool = False
    _next_poll: float = -math.inf
    _failure: Exception | None = None

    def run(self) -> StopReason | None:
        """Run to the end. Returns why the loop ended early, or None if there is nothing more."""
        try:
            reason = self._until_end_or_stopped()
            if reason is StopReason.FENCED:
                self.delivery.abort()
                return reason
            self._end_last_transaction()
            self._commit(is_last=True)
            self._report_all_deliveries()
            if self._failure is not None:
                raise self._failure
            if reason is StopReason.TIME:
                self._retries.refuse_run_without_success()
            return reason
        except BaseException:
            self.delivery.abort()
            raise

    def _until_end_or_stopped(self) -> StopReason | None:
        try:
            return self._until_end()
        except StoppedWhileRetrying:  # neither records nor offsets of this poll are delivered: the next run polls them again
            return self.stop.reason()
        except _FailedPoll as failed:
            self._failure = failed.cause
            return None

    def _until_end(self) -> StopReason | None:
        received = self.now()
        while True:
            reason = self.stop.reason()
            if reason is not None:
                return reason
            self._take_turn()
            with _failing_alone():
                batches = self._poll()
            if batches is None:
                self.after_commit.delivered()
                if self.renew is None or self._failure is not None:
                    return None
                if (reason := self._renew(self.renew)) is not None:
                    return reason
                continue
            if batches:
                self._deliver(batches)
                received = self.now()
            elif self._is_idle(self.now() - received):
                return StopReason.IDLE
            elif not self._end_transaction(None if self.transactions is None else self.transactions.boundary.take_last()):
                self.sleep(IDLE_SECONDS)
            self.after_commit.delivered()
            if self.delivery.is_due() or (self.after_commit.is_due and self.transactions is None):
                self._commit()
            if self.progress.has_reached_limit and not self._is_within_transaction:
                return None

    def _is_idle(self, seconds: float) -> bool:
        """Whether a run with ``idle_seconds`` ends after ``seconds`` without a record. A retry or a transaction keeps it."""
        is_retrying = self._retries.now() < self._next_poll
        return self.idle_seconds is not None and seconds >= self.idle_seconds and not is_retrying and not self._is_within_transaction

    def _renew(self, renew: Renew) -> StopReason | None:
        """Commit, wait, and continue with another task; or return why the loop ends."""
        self._end_last_transaction()
        self._commit()
        with _failing_alone():
            renewed = renew(self._take_turn)
        if isinstance(renewed, StopReason):
            return renewed
        self.task = renewed
        return None

    def _poll(self) -> list[Batch] | None:
        """The polled batches. Empty: there are no records now. None: there are no more records in this run. While a retry waits, the loop
        continues without the task, so that neither a due commit nor a request to stop is delayed."""
        retries = self._retries
        if retries.now() < self._next_poll:
            return []
        with self.progress.metrics.timed_call():
            try:
                polled = self.task.poll()
            except RetriableException as error:
                self.after_commit.drop()
                return self._poll_later(error)
            except DataException as error:
                self.after_commit.drop()
                retries.succeeded()
                self.pipeline.errors.failed(unread(class_name_of(type(self.task)), error))
                return []
        retries.succeeded()
        return None if polled is None else self.pipeline.batches(polled)

    def _poll_later(self, error: RetriableException) -> list[Batch] | None:
        try:
            delay = self._retries.delay(error, error.retry_after_ms)
        except RetriedByNextRunException as failure:
            self._failure = failure
            return None
        self._next_poll = self._retries.now() + delay
        return []

    @property
    def _retries(self) -> Retries:
        return self.pipeline.errors.retries("poll")

    def _deliver(self, batches: Sequence[Batch]) -> None:
        if self.transactions is None:
            self._send(batches)
            return
        for piece, ending in self.transactions.boundary.split(batches):
            if piece:
                self._send(piece)
                self._is_within_transaction = True
            self._end_transaction(ending)

    def _end_transaction(self, ending: Ending | None) -> bool:
        """Commit as the task requested, or drop the records and commit their offsets. Dropped records are not polled again. False: the task
        requested nothing."""
        if ending is None or self.transactions is None:
            return False
        if ending is Ending.ABORT:
            log.debug("Aborting a transaction as requested by the connector")
            if not self.transactions.drop(with_offsets=False):
                log.warning("Ignoring request by task to abort transaction as the current transaction is empty")
            self.progress.dropped()
        self._commit()
        self._is_within_transaction = False
        return True

    def _end_last_transaction(self) -> None:
        """Drop the records that the task did not request to commit. The next run polls them again."""
        if self.transactions is None or self._end_transaction(self.transactions.boundary.take_last()):
            return
        if self.transactions.drop(with_offsets=True):
            self.progress.dropped()

    def _send(self, batches: Sequence[Batch]) -> None:
        polled: list[tuple[EncodedBatch, Batch]] = []
        offsets: list[SourceOffset] = []
        for batch in batches:
            self.progress.note_position(f"the conversion of records of {_position(batch)}")
            with _failing_alone():
                polled += ((part, batch) for part in self.pipeline.encode(batch))
            offsets.extend(_offset_after(batch))
        self.progress.polled(batches, [part for part, _ in polled])
        with _failing_alone():
            encoded = [piece for part, batch in polled for piece in self._fitting(part, batch)]
        self.progress.sent(encoded)
        self.delivery.deliver(encoded, offsets)
        if batches:
            self.progress.note_position(f"what follows {_position(batches[-1])}")

    def _fitting(self, part: EncodedBatch, batch: Batch) -> list[EncodedBatch]:
        """The records that client and topic accept."""
        if self.limits is None:
            return [part]
        refusals: dict[int, Excess | InvalidTimestamp] = {refusal.index: refusal for refusal in self.limits.excesses(part)}
        refusals |= {refusal.index: refusal for refusal in invalid_timestamps(part)}
        if not refusals:
            return [part]
        in_order = [refusals[index] for index in sorted(refusals)]
        return remove_refused(part, in_order, batch.source_partition, self.pipeline.errors.failed)

    def _commit(self, *, is_last: bool = False) -> None:
        with self.progress.metrics.timed_commit():
            is_committed = self.delivery.commit(self.progress.batch_log_records(is_last=is_last))
        self.progress.nothing_uncommitted()
        if is_committed:
            self.progress.committed()
            self._notify_task()
        self.after_commit.committed()

    def _take_turn(self) -> None:
        """Call ``progress.tick``. In a run that stays: write what was committed to the batch log, once the task is quiet."""
        self.progress.tick()
        if records := self.progress.unreported_records(is_last=False):
            self.delivery.commit(records)

    def _report_all_deliveries(self) -> None:
        """The same at the end. A failure is logged, because everything is delivered and committed."""
        if records := self.progress.unreported_records(is_last=True):
            try:
                self.delivery.commit(records)
            except (ConnectException, FencedException) as error:
                log.info("The batch log lacks the task's last deliveries: %s", self.mask(str(error)))
                self.delivery.abort()

    def _notify_task(self) -> None:
        """Notify the source task, which can now forget what is committed. An exception of its ``commit`` is logged."""
        try:
            with self.step(CommitStep.NOTIFY_TASK), plugin_code():
                self.task.commit()
        except Exception as error:
            trace = self.mask(trace_of(error))
            log.error("The task's commit raised; its offsets are committed all the same\n%s", trace)  # noqa: TRY400  (masked)


class _FailedPoll(Exception):
    """A poll has failed, so its records are not delivered. Records of earlier polls are delivered."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextmanager
def _failing_alone() -> Iterator[None]:
    try:
        yield
    except (StoppedWhileRetrying, FencedException, _FailedPoll):
        raise
    except Exception as error:
        raise _FailedPoll(error) from error


def _position(batch: Batch) -> str:
    return f"source partition {batch.source_partition}, offset {batch.last_offset}"


def _offset_after(batch: Batch) -> list[SourceOffset]:
    """The offset after the batch, if it has one. A source without offsets starts from its beginning in each run."""
    offset = batch.last_offset
    return [] if batch.source_partition is None or offset is None else [(batch.source_partition, offset)]
