"""The batches of a transactional sink since its last commit. They are retained, and put again if the destination has gone back to that
commit.

====================================  ============================================================================================
the task raises                       what follows
====================================  ============================================================================================
DataException from ``put``            ``put_accepted`` names the records of this batch; without it they are found by bisection
RolledBackException, ``REFUSED``      all batches are put again, each as a batch that was refused
RolledBackException, ``CHANGED``      all batches are put again
RolledBackException, ``LOST``         a wait, ``open``, then all batches are put again, unless the destination has the offsets of the
                                      commit in progress; with at most once the task fails
====================================  ============================================================================================

After a RetriableException the same call is repeated. Each refused record is reported once per commit. If a report cannot be written, the
run ends without a commit. The task runs in a thread of its own, one call at a time: a ``put`` runs while the next records are read and
converted. Knows nothing of Kafka clients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException, TaskException
from airflow_provider_connect.runtime.worker.errors.failures import PUT, Operation, RetriedByNextRunException
from airflow_provider_connect.runtime.worker.errors.retries import requested_delay_ms
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import AT_MOST_ONCE, Refusal, RollbackReason, RolledBackException, SinkTask

KEPT_BYTES: Final = 64 << 20
STOP_SECONDS: Final = 5.0  # how long a call is retried once the task must end
STOPPING_RETRY_SECONDS: Final = 0.3  # the wait between two attempts in that time
_BISECTED: Final = Operation(PUT.stage, PUT.class_name, 1)  # failures of parts do not count for whole batches
Offsets = Mapping[TopicPartition, int]
Write = Callable[[], list[Refusal] | None]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class TransactionContext(Protocol):
    """The parts of the task's context that the transaction uses."""

    guarantee: str
    exactly_once: bool

    def request_commit(self) -> None: ...

    def take_retry_ms(self) -> int | None: ...


class SinkTransaction(SinkTask):
    """Mediates between the loop and a transactional task. ``report`` accepts refused records, and raises if one must not be left out."""

    def __init__(
        self,
        task: SinkTask,
        context: TransactionContext,
        tolerance: Tolerance,
        report: Callable[[Iterable[tuple[Batch, Exception]]], None],
    ) -> None:
        self._task = task
        self._context = context
        self._tolerance = tolerance
        self._report_all = report
        self._thread = ThreadPoolExecutor(1, "sink-task")  # starts with the first call
        self._partitions: frozenset[TopicPartition] = frozenset()
        self._committed: dict[TopicPartition, int] = {}
        self._uncertain: dict[TopicPartition, int] | None = None  # offsets of a commit that may have succeeded
        self._pending: deque[tuple[Batch, Write]] = deque()  # batches that the task does not have yet, each with the call that writes it
        self._kept: list[Batch] = []
        self._kept_bytes = 0
        self._went_back: RollbackReason | None = None
        self._is_careful = False  # whether each batch is treated like a refused one
        self._is_naming = False  # whether the task has named records of this transaction itself
        self._reported: set[tuple[TopicPartition, int]] = set()

    def open(self, partitions: Collection[TopicPartition]) -> Offsets | None:
        self._partitions |= frozenset(partitions)
        found = self._until_done("open", lambda: self._call(self._task.open, partitions))
        self._committed.update(found or {})
        return found

    def holds_records(self, partition: TopicPartition, offset: int | None) -> bool:
        return self._until_done("open", lambda: self._call(self._task.holds_records, partition, offset))

    def put(self, batch: Batch) -> None:
        """Start to write a batch, after all other batches that are not committed. If it raises RetriableException, nothing of the batch was
        accepted, and the loop waits."""
        self._settle()
        if not batch.num_records:
            return
        self._kept.append(batch)
        self._kept_bytes += sum(column.nbytes for column in (batch.value, batch.key) if column is not None)
        self._pending.append((batch, self._thread.submit(self._write, batch).result))
        if self._kept_bytes > KEPT_BYTES:
            self._context.request_commit()

    def pre_commit(self, offsets: Offsets) -> Offsets:
        return self._until_done("pre_commit", lambda: self._commit(offsets))

    def flush(self, offsets: Offsets) -> None:
        self.pre_commit(offsets)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Drop what was not committed."""
        self._forget()
        self._partitions = frozenset()
        try:
            self._call(self._task.close, partitions)
        finally:
            self._thread.shutdown(wait=False)
            self._thread = ThreadPoolExecutor(1, "sink-task")  # partitions may be opened again

    # The transaction

    def _commit(self, offsets: Offsets) -> Offsets:
        while True:
            self._settle()
            try:
                committed = self._call(self._task.pre_commit, offsets)
            except RolledBackException as error:
                if error.reason is RollbackReason.LOST and self._context.exactly_once and self._committed != {**self._committed, **offsets}:
                    self._uncertain = dict(offsets)
                self._note(error)
            else:
                self._done(offsets)
                return committed

    def _settle(self) -> None:
        """Wait for the running ``put``. After that, the task has accepted each record since the last commit, or the record was reported."""
        while True:
            try:
                if self._went_back is not None:
                    self._start_over()
                while self._pending:
                    batch, write = self._pending[0]
                    self._pending[0] = batch, self._writing(batch)  # if ``write`` raises RetriableException
                    self._take(batch, write)
                    self._pending.popleft()
                return
            except RolledBackException as error:
                self._note(error)

    def _start_over(self) -> None:
        if self._went_back is RollbackReason.LOST:
            found = self._call(self._task.open, self._partitions) or {}
            uncertain, self._uncertain = self._uncertain, None
            if uncertain is not None and uncertain.items() <= dict(found).items():
                self._done(uncertain)
                return
        self._went_back = None
        self._pending.extend((batch, self._writing(batch)) for batch in self._kept)

    def _note(self, error: RolledBackException) -> None:
        """Note that everything since the last commit is lost."""
        self._pending.clear()
        self._went_back = error.reason
        if error.reason is RollbackReason.REFUSED:
            self._is_careful = True
        elif error.reason is RollbackReason.LOST:
            if self._context.guarantee == AT_MOST_ONCE:
                text = "Records since the last commit may be lost: with at_most_once they are never written again"
                raise TaskException(f"{text}. {error.message}") from error
            raise RetriableException(error.message) from error

    def _done(self, offsets: Offsets) -> None:
        self._committed.update(offsets)
        is_careful = bool(self._reported) and self._is_naming  # if some records are refused, the next transaction has more of them
        self._forget()
        self._is_careful = is_careful

    def _forget(self) -> None:
        self._kept.clear()
        self._reported.clear()
        self._pending.clear()
        self._kept_bytes, self._uncertain, self._went_back = 0, None, None
        self._is_careful = self._is_naming = False

    # Refused records

    def _write(self, batch: Batch) -> list[Refusal] | None:
        """Write a batch. Returns the refused records. None: they must be found in another way. Runs in the task's thread."""
        if self._is_careful:
            return self._refused(batch)
        self._task.put(batch)
        return []

    def _writing(self, batch: Batch) -> Write:
        return partial(self._call, self._write, batch)

    def _refused(self, batch: Batch) -> list[Refusal] | None:
        try:
            return self._task.put_accepted(batch)
        except DataException as error:  # would be attributed to the batch that the loop puts next
            raise ConnectException(error.message) from error

    def _take(self, batch: Batch, write: Write) -> None:
        """Pass a batch to the task without the records that it refuses. Report the refused records."""
        try:
            found, was_asked = write(), self._is_careful
        except DataException:
            found, was_asked = None, False
        if found is None and not was_asked:
            found = self._call(self._refused, batch)
        if found is None:
            found = self._bisected(batch)
        elif found:
            self._is_naming = True
        self._report(batch, found)

    def _bisected(self, batch: Batch) -> list[Refusal]:
        found: list[Refusal] = []

        def failed(index: int, error: Exception) -> None:
            found.append(Refusal(index, error))
            if not self._tolerance.settings.tolerates_all:
                self._report(batch, found)

        def put(start: int, length: int) -> None:
            self._until_done("put", lambda: self._call(self._task.put, batch.slice(start, length)))

        self._tolerance.bisect_failures(_BISECTED, batch.num_records, put, failed, tolerable=DataException)
        return found

    def _report(self, batch: Batch, refusals: Iterable[Refusal]) -> None:
        """Report the records that were not reported since the last commit.

        Raises RetriedByNextRunException if a report cannot be written now. The task has accepted other records of the batch, so the batch
        must not be put again before the destination has gone back.
        """
        failures: dict[tuple[TopicPartition, int], tuple[Batch, Exception]] = {}
        for refusal in refusals:
            record = batch.slice(refusal.row, 1)
            location = record.topic_partition, int(record.kafka_offsets[0].as_py())
            if location not in self._reported:
                failures[location] = record, refusal.error
        if not failures:
            return
        try:
            self._report_all(failures.values())
        except RetriableException as error:
            raise RetriedByNextRunException(error.message) from error
        self._reported |= failures.keys()

    # Calls

    def _call(self, call: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        """Call in the task's thread."""
        return self._thread.submit(call, *arguments, **named).result()

    def _until_done(self, name: str, call: Callable[[], Result]) -> Result:
        """Repeat the call after each RetriableException. Once the task must end, repeat it for ``STOP_SECONDS``, then raise
        RetriedByNextRunException."""
        tolerance, end = self._tolerance, float("inf")
        retries = tolerance.retries(name)
        while True:
            try:
                result = call()
            except RetriableException as error:
                asked_ms = requested_delay_ms(error, self._context.take_retry_ms())
                if end == float("inf"):
                    if not retries.wait(error, asked_ms):
                        end = tolerance.now() + STOP_SECONDS
                    continue
                if tolerance.now() >= end:
                    raise RetriedByNextRunException(error.message) from error
                tolerance.sleep(STOPPING_RETRY_SECONDS)
            else:
                retries.succeeded()
                return result
