"""Tasks: one share of a connector's work, in an executor's Python worker, on one thread (only ``stop`` may come from another).

The loop around a task waits, retries and commits; a task reads or writes, and never sleeps. RetriableException from ``poll`` or ``put``
means: call me again, after ``retry_after_ms`` or a wait that grows (``docs/errors.md``). Any other exception ends the task, whose status
becomes FAILED with the trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    """One step of a commit, which is whole when it returns. Faults of tests are put before, after or within one."""

    WRITE_RECORDS = "write records"  # those of one poll, to the producer
    ACKNOWLEDGE_RECORDS = "acknowledge records"
    WRITE_OFFSETS = "write offsets"  # in the transaction of the records
    COMMIT_OFFSETS = "commit offsets"  # in a transaction of their own
    ABORT_TRANSACTION = "abort transaction"  # at the request of a task with transaction.boundary=connector
    COMMIT_TRANSACTION = "commit transaction"
    NOTIFY_TASK = "notify task"  # SourceTask.commit
    PUT = "put"
    PRE_COMMIT = "pre-commit"  # an exactly-once destination commits data, offsets and claim here
    COMMIT_GROUP = "commit group"  # the consumer group's offsets


class Task:
    """What both kinds share. Created by the framework without arguments."""

    class_name: ClassVar[str | None] = None
    """The public name, written as ``task.class`` into task configs; None: module and class."""
    config_def: ClassVar[ConfigDef | None] = None
    """The settings of a task config, where they are not the connector's."""
    header_converter: HeaderConverter = RAW_HEADERS
    """Set by the framework before ``start``; used where batches become records."""
    allowed_paths: AllowedPaths = NOTHING_ALLOWED
    """The files of the host that this task may open. Set by the framework before ``initialize``."""

    def datasets(self) -> Iterable[Dataset]:
        """What this task has read (a source) or written (a sink) outside of Kafka, for lineage events. The first thousand count.

        Called once at the end of a run, behind its last commit and before ``stop``; must not open or ask anything. Exceptions are logged.
        By default nothing is known."""
        return ()


class TransactionContext(Protocol):
    """With ``transaction.boundary=connector`` the task ends transactions. It calls these within ``poll``, about what that returns.

    Records are counted from 0 over all that is returned. What no commit follows is never committed: at the end of a run it is dropped, and
    the next run goes on from the last offset that was committed. A request without ``after`` may come with nothing returned.
    """

    def commit_transaction(self, after: int | None = None) -> None:
        """Commit behind record number ``after``; None: behind the last. Within a batch only where that has ``source_offsets``."""

    def abort_transaction(self, after: int | None = None) -> None:
        """Drop what the transaction holds, up to and with that record. Offsets go on all the same: the records do not come again."""


class RangeReader(Protocol):
    """Reads ranges of partitions of a Kafka cluster, in columns; the next records are read while those before are worked on.

    A range is done at its end, and before it where there is nothing but transaction markers. Used from the task's thread alone.
    """

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Where each partition goes on after all that was returned, also behind transaction markers and aborted records."""

    @property
    def exhausted(self) -> bool:
        """Whether every range is done."""

    def read(self, timeout_seconds: float) -> list[Batch]:
        """The next records, a batch for each partition: keys and values of type binary, headers, timestamps, Kafka offsets. A record's
        headers are null where they cannot be read: the name of one is not UTF-8. Empty after ``timeout_seconds`` without any. Raises
        RetriableException where the cluster is away."""

    def close(self) -> None:
        """End reading; may be called twice."""


class SourceTaskContext(Protocol):
    """What the framework offers a source task. ``claim`` names the right to write that this task was started with."""

    config: Mapping[str, str]
    claim: str
    is_preview: bool
    """Whether this is a preview, in which nothing may be written anywhere."""
    transaction_context: TransactionContext | None

    def offset(self, partition: Mapping[str, object], default: dict[str, Any] | None = None) -> dict[str, Any] | Any:
        """The committed offset of a source partition; ``default`` (None) where there is none. Any: the task's own JSON, or the default."""

    def offsets(self, partitions: Iterable[Mapping[str, object]]) -> list[dict[str, Any] | None]:
        """The committed offsets of several source partitions, in their order."""

    def read_ranges(self, client_config: Mapping[str, Any] | None, ranges: Mapping[TopicPartition, tuple[int, int]]) -> RangeReader:
        """A reader of a Kafka cluster: each partition from its start offset up to and without its end offset.

        ``client_config`` is librdkafka's, and must be checked already: some of its settings run code or open files. Any: its values. None:
        the worker's own cluster, with the connector's ``consumer.override.*``; committed records alone, from the first that is held where
        the start offset is not."""

    def decode(self, batch: Batch) -> list[Batch]:
        """What the connector's converters make of the keys and values of a batch of bytes that a ``RangeReader`` returned: batches of one
        schema each, in their order. A record that cannot be converted fails as in a sink, by ``errors.tolerance``."""

    def stopping(self) -> bool:
        """Whether the run is about to end; a long ``poll`` checks this and returns."""


class SourceTask(Task):
    """Reads from a source. ``initialize`` → ``start`` → ``poll`` … ``commit`` … → ``stop``."""

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        """Take the context. Called once, before ``start``."""
        self.context = context

    def start(self, config: Config) -> None:
        """Open the source and find the position to resume from (``context.offset``)."""
        raise NotImplementedError

    def poll(self) -> Batch | Sequence[Batch] | Sequence[SourceRecord] | None:
        """The next records. None: nothing more in this run. Nothing (an empty list) now, but maybe later: the loop waits and calls again.

        Each batch carries its source partition and the offset to go on from after it. Return within some seconds.

        DataException means that one record cannot be read, and that the task has passed it: where ``errors.tolerance`` is ``all`` it
        is logged and counted as skipped, and ``poll`` is called again; otherwise the task FAILS. Name the record's position in it."""
        raise NotImplementedError

    def distance(self) -> Distance | None:
        """How far the task is from the end of its source, by what it knows already; None: not known.

        Called every ten seconds between two polls, for the log and for lists, and at the end of a run; must not open or ask anything.
        What it raises is ignored."""
        return None

    def commit(self) -> None:
        """Everything returned so far up to some batch is in Kafka with its offsets. Exceptions are logged and ignored."""

    def stop(self) -> None:
        """End: make a ``poll`` under way return, and release the source. May come from another thread, and more than once."""


class ErrantRecordReporter(Protocol):
    """Where a sink task hands over records that its destination refuses, from its own thread, within ``put`` or ``pre_commit``."""

    def report(self, records: SinkRecord | Batch, error: Exception) -> None:
        """Send the records to the dead letter queue and the log as configured; raises where ``errors.tolerance`` is ``none``.

        Records keep their Kafka offsets, by which the queue gets them as they lie on the topic. Within ``put`` they are in the queue before
        ``pre_commit`` is called; within ``pre_commit`` when this returns: report before the destination takes note of its offsets."""

    def report_all(self, failures: Iterable[tuple[SinkRecord | Batch, Exception]]) -> None:
        """The same for many, which take one write to the queue instead of one each."""


class SinkTaskContext(Protocol):
    """What the framework offers a sink task."""

    config: Mapping[str, str]
    claim: str
    """The right to write that this task was started with."""
    claim_epoch: int
    """Larger for a newer claim."""
    guarantee: str
    """``delivery.guarantee``. ``exactly_once``: the destination commits data, offsets and claim together. ``at_least_once``.
    ``at_most_once``: offsets are committed before ``put`` is called, so a task repeats only writes that are known to have failed."""
    exactly_once: bool
    topic_ids: Mapping[str, str]
    """The id that Kafka gave each topic (KIP-516): one that is created anew under the same name has another. A topic whose id is not known
    is left out."""
    has_external_commits: bool
    """Whether another program's sink, such as a real Kafka Connect's, has committed offsets of this group since. What it has written to
    the destination stays. Known before ``open``."""
    errant_record_reporter: ErrantRecordReporter | None

    @property
    def assignment(self) -> Collection[TopicPartition]:
        """The partitions that this task reads now."""

    def offset(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading ``partition`` from ``offset``."""

    def timeout(self, timeout_ms: int) -> None:
        """How long to wait after the next RetriableException, if that has no ``retry_after_ms``."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read nothing more of these partitions until ``resume``."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions again."""

    def request_commit(self) -> None:
        """Commit offsets soon, rather than at the next interval."""

    def stopping(self) -> bool:
        """Whether the commit under way is the run's last. A task that keeps records over several commits makes all of them durable then."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that its destination refuses: its row in the batch, and why."""

    row: int
    error: Exception


class WentBack(StrEnum):
    """Why a destination has gone back to its last commit."""

    REFUSED = "it refuses a record"
    CHANGED = "it had to be changed before records fit"
    LOST = "the connection or its transaction was lost"


class RolledBackException(ConnectException):
    """Raised by a transactional sink: nothing that was put since the last commit is in the destination any more.

    ``LOST`` leaves open whether a commit under way went through; the destination knows once ``open`` was called again."""

    def __init__(self, message: str, why: WentBack) -> None:
        super().__init__(message)
        self.why = why


class SinkTask(Task):
    """Writes to a destination. ``initialize`` → ``start`` → ``open`` → ``put`` … ``pre_commit`` … → ``close`` → ``stop``.

    Define ``put`` (whole batches) or ``put_records`` (one record at a time), and ``flush`` or ``pre_commit``.
    """

    context: SinkTaskContext
    required_columns: ClassVar[frozenset[str]] = frozenset({"key", "headers", "timestamp"})
    """The columns that ``put`` needs besides the value. The others are not read, and are None."""
    takes_nulls_among_values: ClassVar[bool] = False
    """Whether records without a value may come in one batch with those around them, as nulls of their schema, which is optional then, and
    structs that are optional with those that are not. Else a batch ends at each change of the schema, and of the rows of a change data
    capture a batch has a few. Holds where the config has no transformations."""
    is_transactional: ClassVar[bool] = False
    """Whether what is put between two commits is one transaction of the destination. The framework then keeps it, and puts it again after a
    RolledBackException; and calls the task in a thread of its own, one call at a time, while the next records are read. After ``REFUSED``
    ``put`` writes at once until the next commit, so that DataException means the batch itself. Such a task has no
    ``errant_record_reporter``: it has ``refused``."""

    def initialize(self, context: SinkTaskContext) -> None:
        """Take the context. Called once, before ``start``."""
        self.context = context

    def start(self, config: Config) -> None:
        """Connect to the destination."""
        raise NotImplementedError

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Get ready for these partitions. An exactly-once sink writes its claim to the destination, so that older ones are refused from
        now on, and returns the offsets found there: the next to read, for each partition it knows. Others return None."""
        return None

    def holds_records(self, partition: TopicPartition, offset: int | None) -> bool:
        """Whether the destination holds records of ``partition`` from ``offset`` on, as far as is known; None: any. Asked behind ``open``
        where that has returned this offset and this connector has committed a later one there: then the offsets went back and the records
        did not, and the run FAILs instead of delivering them again, unless ``destination.rollback`` asks for that."""
        return False

    def put(self, batch: Batch) -> None:
        """Take one batch. It need not be durable before ``flush`` or ``pre_commit``. After a RetriableException the same batch comes
        again. May be called with an empty batch.

        DataException means that a record cannot be written, and that nothing of this batch was taken: where ``errors.tolerance`` is ``all``
        the batch comes again in parts, and the records that fail alone are left out and reported."""
        self.put_records(batch.sink_records(self.header_converter))

    def refused(self, batch: Batch) -> list[Refusal] | None:
        """Take a batch but for the records that the destination refuses each by itself; these are returned, in their order.

        Asked for a batch for which ``put`` raised DataException. A transactional task is also asked for batches that were not put before,
        from a refusal on until a commit without one. Must not raise DataException. After a RetriableException, with nothing of the batch
        taken, it is asked again. None, the default: nothing was taken, and the framework finds the records by bisection.
        """
        return None

    def put_records(self, records: list[SinkRecord]) -> None:
        """Take some records: the record form of ``put``."""
        raise NotImplementedError(f"{type(self).__qualname__} must define put or put_records")

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything put so far durable. ``offsets`` are the next to read."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed: by default ``offsets``, after a ``flush``.

        An exactly-once sink commits data, ``offsets`` and its claim together here, and raises FencedException where it finds a newer claim.
        """
        self.flush(offsets)
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Release these partitions; what was not committed may be thrown away."""

    def stop(self) -> None:
        """End and release the destination. May come from another thread, and more than once."""
