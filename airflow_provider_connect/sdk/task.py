"""Tasks do the work of a connector. Each task runs in one thread of a Python worker. Only ``stop`` may be called from another thread.

The loop around a task waits, retries and commits; the task reads or writes and never sleeps. If ``poll`` or ``put`` raises
RetriableException, the loop calls it again after ``retry_after_ms``, or after a growing wait (``docs/errors.md``). Any other exception
ends the task: its status becomes FAILED, with the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.allowed_paths import NOTHING_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.converter import RAW_HEADERS, HeaderConverter

if TYPE_CHECKING:
    from airflow_provider_connect.data.records import Distance, SinkRecord, SourceRecord, TopicPartition
    from airflow_provider_connect.sdk.batch import Batch
    from airflow_provider_connect.sdk.config_def import Config, ConfigDef
    from airflow_provider_connect.sdk.datasets import Dataset


AT_MOST_ONCE: Final = "at_most_once"
"""A sink task's ``context.guarantee``: no write may be repeated."""


class CommitStep(StrEnum):
    """One step of a commit. A step is complete when it returns. ``sdk.testing.Fault`` ends a task before, after or within a step."""

    WRITE_RECORDS = "write records"  # of one poll, to the producer
    ACKNOWLEDGE_RECORDS = "acknowledge records"
    WRITE_OFFSETS = "write offsets"  # in the transaction of the records
    COMMIT_OFFSETS = "commit offsets"  # in a separate transaction
    ABORT_TRANSACTION = "abort transaction"  # requested by a task with transaction.boundary=connector
    COMMIT_TRANSACTION = "commit transaction"
    NOTIFY_TASK = "notify task"  # SourceTask.commit
    PUT = "put"
    PRE_COMMIT = "pre-commit"  # an exactly-once destination commits data, offsets and claim
    COMMIT_GROUP = "commit group"  # the consumer group's offsets


class Task:
    """Base of ``SourceTask`` and ``SinkTask``. The framework creates each task without arguments."""

    class_name: ClassVar[str | None] = None
    """The value of ``task.class`` in task configs. None: module and name of the class."""
    config_def: ClassVar[ConfigDef | None] = None
    """The settings of a task config. None: they are the connector's."""
    header_converter: HeaderConverter = RAW_HEADERS
    """Reads headers when a batch is converted to records. The framework sets it before ``start``."""
    allowed_paths: AllowedPaths = NOTHING_ALLOWED
    """The files of the host that this task may open. The framework sets it before ``initialize``."""

    def datasets(self) -> Iterable[Dataset]:
        """The datasets outside of Kafka that this task has read (a source) or written (a sink), for lineage events.

        Called after the last commit of a run and before ``stop``, and about once a minute in a run that stays. Must not open or request
        anything. The first thousand are used. Exceptions are logged. By default there are none."""
        return ()


class TransactionContext(Protocol):
    """Lets a source task end transactions, with ``transaction.boundary=connector``. Call its methods within ``poll``.

    ``after`` is the index, from 0, of a record among all that this ``poll`` returns. Records after the last commit are dropped at the end
    of the run; the next run resumes from the last committed offset. A request without ``after`` is valid even if ``poll`` returns nothing.
    """

    def commit_transaction(self, after: int | None = None) -> None:
        """Commit after record ``after``; None: after the last record. A batch can be divided only if it has ``source_offsets``."""

    def abort_transaction(self, after: int | None = None) -> None:
        """Drop the transaction's records, including record ``after``. Offsets still advance, so these records are not read again."""


class RangeReader(Protocol):
    """Reads ranges of partitions of a Kafka cluster as batches, and fetches ahead while the task works.

    A range is done when its end is reached, or earlier if only transaction markers remain. Use the reader only in the task's thread.
    """

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of each partition after all returned records. Transaction markers and aborted records are skipped."""

    @property
    def exhausted(self) -> bool:
        """Whether every range is done."""

    def read(self, timeout_seconds: float) -> list[Batch]:
        """The next records, one batch per partition: keys and values as binary, headers, timestamps, Kafka offsets.

        Empty if no record arrives within ``timeout_seconds``. A record's headers are null if a header's name is not UTF-8. Raises
        RetriableException if the cluster is unavailable."""

    def close(self) -> None:
        """Stop reading. May be called twice."""


class SourceTaskContext(Protocol):
    """The object through which a source task calls the framework. Passed to ``initialize``. ``config`` is the task config, unparsed."""

    config: Mapping[str, str]
    claim: str
    """The claim (the right to write) that this task was started with."""
    is_preview: bool
    """Whether this run is a preview. A preview must not write anything anywhere."""
    transaction_context: TransactionContext | None
    """None unless ``transaction.boundary=connector``."""

    def offset(self, partition: Mapping[str, object], default: dict[str, Any] | None = None) -> dict[str, Any] | Any:
        """The committed offset of a source partition, or ``default`` if it has none."""

    def offsets(self, partitions: Iterable[Mapping[str, object]]) -> list[dict[str, Any] | None]:
        """The committed offsets of several source partitions, in their order; None for a partition without one."""

    def read_ranges(self, client_config: Mapping[str, Any] | None, ranges: Mapping[TopicPartition, tuple[int, int]]) -> RangeReader:
        """Open a reader of ``ranges``: each partition from its start offset up to its end offset, exclusive.

        ``client_config`` has librdkafka's settings. The caller must have checked them, because some run code or open files. If
        ``client_config`` is None, the reader reads committed records of the worker's own cluster, with the connector's
        ``consumer.override.*``. If the start offset no longer exists in the cluster, reading starts at the first existing record. Any:
        librdkafka's values."""

    def decode(self, batch: Batch) -> list[Batch]:
        """Convert the keys and values of a ``RangeReader``'s batch by the connector's converters. Returns batches of one schema each.

        ``errors.tolerance`` applies to a record that cannot be converted, as in a sink."""

    def after_commit(self, call: Callable[[], None]) -> None:
        """Have a commit made soon after this ``poll``, and then have ``call`` called, in the task's thread. All records that the poll
        returns are then in Kafka. Not called if the poll fails, or if the run ends before the commit. Use it within ``poll``."""

    def note_lost(self, records: int) -> None:
        """Count records that were removed from the source before they were read, for the metric ``records-lost-total``. The task logs a
        warning itself. A ``RangeReader`` does both."""

    def stopping(self) -> bool:
        """Whether the run is about to end. A long ``poll`` must check it and return."""


class SourceTask(Task):
    """Reads from a source. Calls: ``initialize`` → ``start`` → ``poll`` and ``commit``, repeatedly → ``stop``."""

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        """Keep the context. Called once, before ``start``."""
        self.context = context

    def start(self, config: Config) -> None:
        """Open the source and find the position to resume from (``context.offset``). Called once, after ``initialize``."""
        raise NotImplementedError

    def poll(self) -> Batch | Sequence[Batch] | Sequence[SourceRecord] | None:
        """The next records. After an empty list, the loop waits and calls ``poll`` again. After None, the run ends.

        Each batch has its source partition, and the offset from which to resume after the batch. Return within a few seconds.

        If a record cannot be read, move past it and raise DataException with its position. With ``errors.tolerance=all`` the record is
        logged and counted as skipped, and ``poll`` is called again; otherwise the task FAILS."""
        raise NotImplementedError

    def distance(self) -> Distance | None:
        """The known distance of the task from the end of its source. None: unknown.

        Called every ten seconds between two polls and at the end of a run, for the log and for lists. Must not open or request anything.
        Exceptions are ignored."""
        return None

    def commit(self) -> None:
        """Called after a commit. Batches up to some point are then in Kafka with their offsets. Exceptions are only logged."""

    def stop(self) -> None:
        """Make a running ``poll`` return, and release the source. May be called from another thread, and more than once."""


class ErrantRecordReporter(Protocol):
    """Reports records that the destination refuses. Call it from the task's own thread, within ``put`` or ``pre_commit``."""

    def report(self, records: SinkRecord | Batch, error: Exception) -> None:
        """Send the records to the dead letter queue and the log, as configured. Raises if ``errors.tolerance`` is ``none``.

        Do not change the records' Kafka offsets: the queue gets the original bytes at these offsets. Records reported in ``put`` are in the
        queue before ``pre_commit`` is called. Records reported in ``pre_commit`` are in the queue when ``report`` returns, so report them
        before the destination commits its offsets."""

    def report_all(self, failures: Iterable[tuple[SinkRecord | Batch, Exception]]) -> None:
        """Report many failures in one write to the queue, instead of one write each."""


class SinkTaskContext(Protocol):
    """The object through which a sink task calls the framework. Passed to ``initialize``. ``config`` is the task config, unparsed."""

    config: Mapping[str, str]
    claim: str
    """The claim (the right to write) that this task was started with."""
    claim_epoch: int
    """Orders claims: a newer claim has a larger epoch."""
    guarantee: str
    """The setting ``delivery.guarantee``: ``exactly_once``, ``at_least_once`` or ``at_most_once``.

    With ``exactly_once`` the destination commits data, offsets and claim together. With ``at_most_once`` offsets are committed before
    ``put`` is called, so a task may repeat only a write that certainly failed."""
    exactly_once: bool
    """Whether ``guarantee`` is ``exactly_once``."""
    topic_ids: Mapping[str, str]
    """Topic ids by topic name (KIP-516). A topic that is created again gets another id. Topics whose id is unknown are left out."""
    has_external_commits: bool
    """Whether another program, such as Kafka Connect, has committed offsets of this group since this connector's last commit. Records that
    the program wrote stay in the destination. Set before ``open``."""
    stays: bool
    """Whether the run stays, so that its last commit may be a day away."""
    errant_record_reporter: ErrantRecordReporter | None
    """None for a transactional task, and if neither a dead letter queue nor ``errors.log.enable`` is set."""

    @property
    def assignment(self) -> Collection[TopicPartition]:
        """The partitions that this task reads at present."""

    def offset(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading ``partition`` from ``offset``."""

    def timeout(self, timeout_ms: int) -> None:
        """Set the wait after the next RetriableException, unless the exception has its own ``retry_after_ms``."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions until ``resume``."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these paused partitions again."""

    def request_commit(self) -> None:
        """Ask for a commit soon, before the next interval ends."""

    def stopping(self) -> bool:
        """Whether the current commit is the last of the run. A task that has kept records over several commits must then make them
        durable. In a run that ``stays``, it needs a limit of its own for how long it keeps them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that the destination refuses: its row index in the batch, and the reason."""

    row: int
    error: Exception


class RollbackReason(StrEnum):
    """The reason why a destination rolled back to its last commit."""

    REFUSED = "it refuses a record"
    CHANGED = "it had to be changed before records fit"
    LOST = "the connection or its transaction was lost"


class RolledBackException(ConnectException):
    """Raised by a transactional sink after a rollback: the destination has no records that were put since the last commit.

    With ``LOST``, an unfinished commit may still have succeeded; the next ``open`` returns the destination's offsets."""

    def __init__(self, message: str, reason: RollbackReason) -> None:
        super().__init__(message)
        self.reason = reason


class SinkTask(Task):
    """Writes to a destination.

    Calls: ``initialize`` → ``start`` → ``open`` → ``put`` and ``pre_commit``, repeatedly → ``close`` → ``stop``.

    Define ``put`` (for batches) or ``put_records`` (for single records), and ``flush`` or ``pre_commit``.
    """

    context: SinkTaskContext
    required_columns: ClassVar[frozenset[str]] = frozenset({"key", "headers", "timestamp"})
    """The columns that ``put`` needs besides the value. Other columns are not read; they are None."""
    allows_mixed_nulls: ClassVar[bool] = False
    """Whether one batch may contain records with and without a value, and required and optional structs. Its schema is then optional.

    Otherwise a batch ends at each schema change, so change data capture results in small batches. Has no effect if the config has
    transformations."""
    is_transactional: ClassVar[bool] = False
    """Whether all batches put between two commits are one transaction of the destination.

    The framework then keeps these batches and puts them again after a RolledBackException. It calls the task in a separate thread, one call
    at a time, while the next records are read. After ``RollbackReason.REFUSED``, ``put`` must write each batch immediately until the next
    commit, so that a DataException refers to the batch of that call. A transactional task has no ``errant_record_reporter``; it uses
    ``put_accepted``."""
    commits_when_caught_up: ClassVar[bool] = False
    """Whether a commit takes only milliseconds. A run that stays then calls ``pre_commit`` after each batch after which no record waits.

    Otherwise it is called when no record has arrived for half a second, and once in each ``offset.flush.interval.ms``."""

    def initialize(self, context: SinkTaskContext) -> None:
        """Keep the context. Called once, before ``start``."""
        self.context = context

    def start(self, config: Config) -> None:
        """Connect to the destination. Called once, after ``initialize``."""
        raise NotImplementedError

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Prepare for these partitions. An exactly-once sink returns the next offsets that its destination has for them.

        An exactly-once sink first writes its claim to the destination. From then on, the destination refuses older claims. Other sinks
        return None. Called before the first ``put``, and again after ``RollbackReason.LOST``."""
        return None

    def holds_records(self, partition: TopicPartition, offset: int | None) -> bool:
        """Whether the destination is known to have records of ``partition`` from ``offset`` on. If ``offset`` is None: any records of
        ``partition``.

        Called after ``open`` returned this offset, if this connector once committed a later offset to the destination. True means that the
        offsets went back, but the records did not. The run then FAILs unless ``destination.rollback`` allows it to deliver the records
        again."""
        return False

    def put(self, batch: Batch) -> None:
        """Write one batch, which may be empty. The records need not be durable before ``flush`` or ``pre_commit``.

        After a RetriableException the same batch is put again. Raise DataException if a record cannot be written. In this case no record of
        the batch may be written. With ``errors.tolerance=all`` the batch is put again in parts, and a record that fails alone is reported
        and skipped."""
        self.put_records(batch.sink_records(self.header_converter))

    def put_accepted(self, batch: Batch) -> list[Refusal] | None:
        """Write the records of a batch that the destination accepts, and return the refused ones, in their order.

        Called after ``put`` raised DataException for the batch. After a refusal, a transactional task also gets batches that were not put
        before, until a commit without refusals. Must not raise DataException. A RetriableException means that nothing was written; the call
        is then repeated. None, the default, means that nothing was written: the framework finds the refused records by bisection.
        """
        return None

    def put_records(self, records: list[SinkRecord]) -> None:
        """Write some records: the record form of ``put``."""
        raise NotImplementedError(f"{type(self).__qualname__} must define put or put_records")

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make all batches put so far durable. ``offsets`` are the next offsets to read."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed. By default it calls ``flush`` and returns ``offsets``.

        An exactly-once sink commits data, ``offsets`` and its claim together here. It raises FencedException if it finds a newer claim.
        """
        self.flush(offsets)
        return offsets

    def lost_values(self) -> int:
        """The number of values of delivered records that the destination does not have, or has only rounded, since ``start``. For the
        metric ``sink-values-lost-total``. May be called from another thread. By default 0."""
        return 0

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Release these partitions. Uncommitted data may be discarded."""

    def stop(self) -> None:
        """Release the destination. May be called from another thread, and more than once."""
