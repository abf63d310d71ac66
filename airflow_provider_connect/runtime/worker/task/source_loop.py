"""The loop of a source task: poll, pipeline, deliver, commit. Knows nothing of Kafka clients or Spark."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow_provider_connect.errors import DataException, FencedException, RetriableException, plugin_code, trace_of
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep, StepHook, unobserved
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.record_limits import RecordLimits
from airflow_provider_connect.runtime.worker.delivery.refused_records import without_refused, wrong_times
from airflow_provider_connect.runtime.worker.delivery.source_delivery import SourceDelivery, SourceOffset
from airflow_provider_connect.runtime.worker.delivery.transaction_boundary import Ending, RequestedBoundary
from airflow_provider_connect.runtime.worker.errors.failures import RetriedByNextRunException, unread
from airflow_provider_connect.runtime.worker.errors.retries import Retries
from airflow_provider_connect.runtime.worker.errors.tolerance import StoppedWhileRetrying
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.task.environment import ActiveTopics
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason, StopSignal
from airflow_provider_connect.runtime.worker.task.written_topics import WrittenTopics
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.task import SourceTask

log = logging.getLogger(__name__)
IDLE_SECONDS = 0.1  # between a poll that returned nothing and the next


@dataclass(frozen=True, slots=True)
class TransactionRequests:
    """With ``transaction.boundary=connector``: what the task asks for, and the delivery's ``drop``."""

    boundary: RequestedBoundary
    drop: Callable[..., bool]


@dataclass(slots=True)
class SourceLoop:
    """Runs one source task to the end of what there is, to its limits, or until ``stop`` gives a reason.

    1 ``poll``, again after a RetriableException 2 transformations and converters 3 records and offsets delivered under the guarantee
    4 ``task.commit()``, after a commit and never before. A fenced loop commits nothing. ``closing`` returns the batch log's record for the
    last commit, ``reporting`` that of a commit before, or nothing; a run without records has neither. ``committed`` is called after each
    commit. ``requests`` None: the delivery decides where transactions end. ``tick`` is called in each turn, ``note_position``
    before the work on each batch and each poll. ``limits`` knows which records client or broker would refuse: those go by the error rules
    before any of their poll is written.

    A poll that fails, or whose records cannot be encoded, costs itself alone: what was read before is committed, then its exception is
    raised. Retries of ``poll`` that end without success raise RetriedByNextRunException in the same way.
    """

    task: SourceTask
    pipeline: SourcePipeline
    delivery: SourceDelivery
    requests: TransactionRequests | None
    stop: StopSignal
    metrics: TaskMetrics
    topics: WrittenTopics
    active_topics: ActiveTopics
    closing: Callable[[], Sequence[ProducerRecord]]
    committed: Callable[[], None]
    max_records: int | None
    sleep: Callable[[float], None]
    mask: Callable[[str], str]
    step: StepHook = unobserved
    tick: Callable[[], None] = lambda: None
    note_position: Callable[[str], None] = lambda _: None
    reporting: Callable[[], Sequence[ProducerRecord]] = tuple
    limits: RecordLimits | None = None
    _written: set[str] = field(default_factory=set)
    _is_within_transaction: bool = False
    _next_poll: float = -math.inf
    _failure: Exception | None = None

    def run(self) -> StopReason | None:
        """Why the loop ended early, or None when there is nothing more."""
        try:
            reason = self._until_end_or_stopped()
            if reason is StopReason.FENCED:
                self.delivery.abort()
                return reason
            self._end_last_transaction()
            self._commit(self.closing() if self.metrics.records_in else ())
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
        except StoppedWhileRetrying:  # the records of that poll are not delivered, nor their offsets: they come again
            return self.stop.reason()
        except _FailedPoll as failed:
            self._failure = failed.cause
            return None

    def _until_end(self) -> StopReason | None:
        while True:
            reason = self.stop.reason()
            if reason is not None:
                return reason
            self.tick()
            with _failing_alone():
                batches = self._poll()
            if batches is None:
                return None
            if batches:
                self._deliver(batches)
            elif not self._end_transaction(None if self.requests is None else self.requests.boundary.take_last()):
                self.sleep(IDLE_SECONDS)
            if self.delivery.is_due():
                self._commit()
            if self.max_records is not None and self.metrics.records_in >= self.max_records and not self._is_within_transaction:
                return None

    def _poll(self) -> list[Batch] | None:
        """The polled batches; empty: nothing now; None: nothing more in this run. The task is left alone while a retry waits: the loop goes
        on, so that a commit that is due and a reason to stop wait for nothing."""
        retries = self._retries
        if retries.now() < self._next_poll:
            return []
        with self.metrics.timed_call():
            try:
                polled = self.task.poll()
            except RetriableException as error:
                return self._poll_later(error)
            except DataException as error:
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
        if self.requests is None:
            self._send(batches)
            return
        for piece, ending in self.requests.boundary.cut(batches):
            if piece:
                self._send(piece)
                self._is_within_transaction = True
            self._end_transaction(ending)

    def _end_transaction(self, ending: Ending | None) -> bool:
        """Commit as the task asked; or drop the records and commit their offsets, so that they do not come again. False: it did not ask."""
        if ending is None or self.requests is None:
            return False
        if ending is Ending.ABORT:
            log.debug("Aborting a transaction as requested by the connector")
            if not self.requests.drop(with_offsets=False):
                log.warning("Ignoring request by task to abort transaction as the current transaction is empty")
            self.metrics.drop()
        self._commit()
        self._is_within_transaction = False
        return True

    def _end_last_transaction(self) -> None:
        """At the end of a run nothing is committed that the task did not ask for: it comes again in the next."""
        if self.requests is None or self._end_transaction(self.requests.boundary.take_last()):
            return
        if self.requests.drop(with_offsets=True):
            self.metrics.drop()

    def _send(self, batches: Sequence[Batch]) -> None:
        polled: list[tuple[EncodedBatch, Batch]] = []
        offsets: list[SourceOffset] = []
        for batch in batches:
            self.note_position(f"the conversion of records of {_position(batch)}")
            with _failing_alone():
                polled += ((part, batch) for part in self.pipeline.encode(batch))
            offsets.extend(_offset_after(batch))
        for batch in batches:
            self.metrics.records_in += batch.num_records
            self.metrics.batches.add(batch.num_records)
        for part, _ in polled:
            self.topics.prepare(part.topic)
        with _failing_alone():
            encoded = [piece for part, batch in polled for piece in self._fitting(part, batch)]
        for part in encoded:
            self.metrics.records_out += part.num_records
            self.metrics.bytes += part.num_bytes
            self._written.add(part.topic)
        self.delivery.deliver(encoded, offsets)
        if batches:
            self.note_position(f"what follows {_position(batches[-1])}")

    def _fitting(self, part: EncodedBatch, batch: Batch) -> list[EncodedBatch]:
        """What client and topic take of it."""
        refusals = {refusal.index: refusal for refusal in (*(self.limits.excesses(part) if self.limits else ()), *wrong_times(part))}
        if not refusals:
            return [part]
        in_order = [refusals[index] for index in sorted(refusals)]
        return without_refused(part, in_order, batch.source_partition, self.pipeline.errors.failed)

    def _commit(self, closing: Sequence[ProducerRecord] = ()) -> None:
        with self.metrics.timed_commit():
            committed = self.delivery.commit(closing or (self.reporting() if self.metrics.records_in else ()))
        if committed:
            self.active_topics.note(self._written)
            self._written.clear()
            self.committed()
            self._notify_task()

    def _notify_task(self) -> None:
        """The source may forget what is committed. What its commit raises is logged."""
        try:
            with self.step(CommitStep.NOTIFY_TASK), plugin_code():
                self.task.commit()
        except Exception as error:
            trace = self.mask(trace_of(error))
            log.error("The task's commit raised; its offsets are committed all the same\n%s", trace)  # noqa: TRY400  (masked)


class _FailedPoll(Exception):
    """A poll whose records are not delivered. Those before it are."""

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
    """The offset behind the batch, if it has one: a source without offsets starts anew at each run."""
    offset = batch.last_offset
    return [] if batch.source_partition is None or offset is None else [(batch.source_partition, offset)]
