"""Exactly-once sinks. An author opens a connection and writes batches; this module handles offsets, claims and retries after failures.

The destination stores one ``OffsetRow`` for each partition of a connector. A commit is one transaction of the destination. (1) Write the
batches. (2) Write the offset rows, unless another process has changed one. (3) Commit. Knows nothing of SQL (``sql_sink``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from airflow_provider_connect.data.records import TopicPartition, may_be_same_topic
from airflow_provider_connect.errors import ConnectException, DataException, FencedException, RetriableException, RetriesExhaustedException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SinkConnector
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.offset_row import ADOPT, OffsetRow
from airflow_provider_connect.sdk.task import RollbackReason, RolledBackException, SinkTask

_Result = TypeVar("_Result")


class TransactionalSink(SinkConnector):
    """A sink connector, with the calls that its tasks make to the destination.

    Define ``open`` and ``write``. Also define ``commit``, ``read_offsets`` and ``write_offsets``; ``SqlSink`` already defines these three
    for SQL databases. Each task has its own instance, with ``config`` (parsed) and ``allowed_paths``, and makes one call at a time. A
    transaction begins and ends within one ``pre_commit``, so locks are short. After a refused record, a transaction lasts from a ``put`` to
    the next commit.

    After any error the connection is closed, which rolls back its transaction. After a RetriableException from any method, all batches
    since the last commit are written again on another connection, unless the commit succeeded. After a DataException from ``write`` or
    ``flush``, the refused records are found by bisection. A DataException from ``commit`` names no record, so it fails the task.
    """

    required_columns: ClassVar[frozenset[str]] = SinkTask.required_columns
    """The columns that ``write`` needs besides the value, as in ``SinkTask.required_columns``."""
    commits_when_caught_up: ClassVar[bool] = True
    """Whether a commit takes only milliseconds, as in ``SinkTask.commits_when_caught_up``."""
    max_retries: ClassVar[int] = 10
    """How many RetriableExceptions are allowed without a commit between them. The next one fails the task."""
    retries_setting: ClassVar[str] = "max_retries"
    """The name of the setting for ``max_retries``, for the message when a task fails."""
    topic_ids: Mapping[str, str] = MappingProxyType({})
    """In a task: topic ids by topic name, as in ``SinkTaskContext.topic_ids``."""

    def __init_subclass__(cls, **named: Any) -> None:
        """Give each sink its own task class, which refers to it."""
        super().__init_subclass__(**named)
        if "task_class" not in cls.__dict__:
            name, parent = f"{cls.__name__}Task", getattr(cls, "task_class", TransactionalSinkTask)
            attributes = {"__module__": cls.__module__, "__qualname__": name, "required_columns": cls.required_columns}
            cls.task_class = type(name, (parent,), attributes)
        cls.task_class.sink_class = cls  # type: ignore[attr-defined]  # the author's task class is one of a TransactionalSink
        cls.task_class.commits_when_caught_up = cls.commits_when_caught_up

    # Methods that an author defines or overrides

    def open(self) -> Any:
        """Connect to the destination and return the connection. Called by each task, again after each lost connection, and by
        ``alter_offsets``."""
        raise NotImplementedError

    def write(self, transaction: Any, batch: Batch) -> None:
        """Write a batch in the current transaction. The batch is never empty. Must not commit.

        May keep the batch only if ``flush`` writes it and ``forget`` drops it.
        """
        raise NotImplementedError

    def flush(self, transaction: Any) -> None:
        """Write everything that ``write`` has kept. Called once per commit, before the offsets are written. After a refused record, also
        called after each ``write``."""

    def forget(self) -> None:
        """Drop everything that ``write`` has kept on ``self``: the batches were rolled back and will be written again. May be called at any
        time."""

    def begin(self, connection: Any) -> Any:
        """Begin a transaction and return the object that the other methods get. By default it returns the connection."""
        return connection

    def commit(self, connection: Any) -> None:
        """Commit the current transaction."""
        raise NotImplementedError

    def close(self, connection: Any) -> None:
        """Close the connection. This must roll back an open transaction."""
        connection.close()

    def create_offsets(self, connection: Any) -> None:
        """Create the storage of offset rows if it is missing. Called after ``open``, outside of transactions, only with exactly once."""

    def end_older_sessions(self, connection: Any, connector: str, partitions: Collection[TopicPartition], claim: OffsetRow) -> None:
        """End connections of claims that are not newer than ``claim``, because their transactions may lock these partitions.

        Called before a task writes its claim, outside of transactions. By default it does nothing: the destination's own timeouts end them.
        """

    def read_offsets(self, transaction: Any, connector: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        """The existing rows of these partitions. They must be locked, or otherwise protected from changes, until the transaction ends."""
        raise NotImplementedError

    def write_offsets(self, transaction: Any, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        """Insert or replace rows. None deletes the row of its partition. Called after ``read_offsets`` of the same partitions, in the same
        transaction."""
        raise NotImplementedError

    def holds_records(self, transaction: Any) -> bool:
        """Whether the destination has any records, of any connector. Called if it no longer has an offset of this connector.

        See ``SinkTask.holds_records``. Not called with ``stores_offsets_separately``.
        """
        return False

    def savepoint(self, transaction: Any) -> AbstractContextManager[Any] | None:
        """A context manager. If its block raises, the writes of the block are rolled back, and the transaction stays open.

        None: the destination has no savepoints. After each refused record, all batches of the transaction are then written again on another
        connection.
        """
        return None

    def check_new_topic(self, partition: TopicPartition, former: OffsetRow) -> None:
        """Check a topic that was deleted and created again: the destination has records of the old topic (``former.topic_id``).

        Raise ConfigException if the new records would replace the old ones. By default it does nothing.
        """

    def check_claims(self, transaction: Any) -> None:
        """Raise FencedException unless this task may still write. The framework defines it in each task; elsewhere it does nothing.

        Authors call it in transactions of their own, for example to alter a table.
        """

    def translate_error(self, error: Exception) -> Exception:
        """Translate an exception of the destination's client to DataException or RetriableException. Any other result fails the task."""
        return error

    def datasets(self) -> Iterable[Dataset]:
        """The datasets that this task has written, as in ``SinkTask.datasets``. Must not use the connection."""
        return ()

    def lost_values(self) -> int:
        """The values that the destination does not have, as in ``SinkTask.lost_values``."""
        return 0

    # Methods of the connector

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """``max_tasks`` tasks. The framework assigns partitions to them."""
        return [self.config.originals] * max_tasks

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Set the offsets of partitions that the destination knows. This fences a task that still writes."""
        self.config = self.task_config(config)
        with _translating(self):
            connection = self.open()
            try:
                transaction, connector = self.begin(connection), self.config.originals.get("name", "")
                found = self.read_offsets(transaction, connector, list(offsets))
                self.write_offsets(transaction, connector, {partition: row.alter(offsets[partition]) for partition, row in found.items()})
                self.commit(connection)
            finally:
                self.close(connection)
        return True


class TransactionalSinkTask(SinkTask):
    """The task of every TransactionalSink. It keeps batches until ``pre_commit``, and commits them with their offsets.

    After a refused record, it writes each batch immediately, instead of collecting it, until the next commit.
    """

    is_transactional: ClassVar[bool] = True
    sink_class: ClassVar[type[TransactionalSink]]

    def start(self, config: Config) -> None:
        self._sink = self.sink_class()
        self._sink.config, self._sink.allowed_paths, self._sink.topic_ids = config, self.allowed_paths, self.context.topic_ids
        self._sink.check_claims = lambda transaction: self._check_rows(transaction, self._rows)  # type: ignore[method-assign]
        self._connector = config.originals.get("name", "")
        self._connection: Any = None  # Any: the author's
        self._transaction: Any = None
        self._rows: dict[TopicPartition, OffsetRow] = {}  # as this task has left them
        self._uncertain: dict[TopicPartition, OffsetRow] = {}  # the rows of a commit that may have succeeded
        self._waiting: list[Batch] = []
        self._written: list[Batch] = []  # in the current transaction
        self._writes_at_once = False
        self._losses = 0

    def lost_values(self) -> int:
        return self._sink.lost_values()

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Write the claim to the rows and return their offsets. After a lost connection the rows must be as this task left them."""
        try:
            if not self.context.exactly_once:
                self._run(lambda: self._forget_rows(partitions))
                return None
            found = self._run(lambda: self._take_rows(partitions))
        except RolledBackException as error:
            raise RetriableException(error.message) from error
        self._rows.update(found)
        self._uncertain.clear()
        return {partition: row.next_offset for partition, row in found.items() if row.next_offset is not None}

    def holds_records(self, partition: TopicPartition, offset: int | None) -> bool:
        """Ask the sink only if there is no offset. If there is one, records and offsets have gone back together."""
        if offset is not None:
            return False
        found = self._run(lambda: self._sink.holds_records(self._begun()))
        self._disconnect()
        return found

    def put(self, batch: Batch) -> None:
        if not batch.num_records:
            return
        if self._writes_at_once:
            self._run(lambda: self._write_or_nothing(batch))
        else:
            self._waiting.append(batch)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.pre_commit(offsets)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        known = {partition: row.next_offset for partition, row in self._rows.items()}
        new = {p: n for p, n in offsets.items() if known.get(p) != n} if self.context.exactly_once else {}
        if self._waiting or self._transaction is not None or new:
            try:
                self._run(lambda: self._commit(new))
            except DataException as error:  # no batch caused it: each was written by itself
                self._disconnect()
                raise ConnectException(error.message) from error
        self._ended()
        self._losses, self._writes_at_once = 0, False
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._disconnect()
        self._rows.clear()
        self._uncertain.clear()
        self._writes_at_once = False

    def datasets(self) -> Iterable[Dataset]:
        return self._sink.datasets()

    # Transactions

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = self._sink.open()
            if self.context.exactly_once:
                self._sink.create_offsets(self._connection)
        return self._connection

    def _begun(self) -> Any:
        """The current transaction, or a new one, on a new connection if necessary."""
        connection = self._connected()
        if self._transaction is None:
            self._transaction = self._sink.begin(connection)
        return self._transaction

    def _take_rows(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        context = self.context
        claimants = {p: OffsetRow.of_task(context, p.topic) for p in partitions}
        if not self._rows.keys() >= set(partitions):
            claim = OffsetRow(None, context.claim, context.claim_epoch)
            self._sink.end_older_sessions(self._connected(), self._connector, partitions, claim)
        transaction = self._begun()
        found = self._sink.read_offsets(transaction, self._connector, partitions)
        for partition in self._rows.keys() & partitions:
            if found.get(partition) not in (self._rows[partition], self._uncertain.get(partition, self._rows[partition])):
                raise _fenced(partition, found.get(partition), context.claim)
        adopts = context.config.get(ADOPT)
        taken = {p: found.get(p, claimant).take_over(p, claimant, adopts=adopts) for p, claimant in claimants.items()}
        for partition, row in found.items():
            if not may_be_same_topic(row.topic_id, claimants[partition].topic_id):
                self._sink.check_new_topic(partition, row)
        try:
            self._sink.write_offsets(transaction, self._connector, taken)
        except Exception as error:
            if isinstance(self._sink.translate_error(error), DataException):  # another process wrote them first
                raise RetriableException(f"Another process has written offsets of {self._connector}: {error}") from error
            raise
        self._sink.commit(self._connection)
        self._ended()
        return taken

    def _forget_rows(self, partitions: Collection[TopicPartition]) -> None:
        """Delete the rows. Runs with another guarantee do not update them, and a later run with exactly once must not find outdated
        offsets."""
        transaction = self._begun()
        found = self._sink.read_offsets(transaction, self._connector, partitions)
        self._sink.write_offsets(transaction, self._connector, dict.fromkeys(found))
        self._sink.commit(self._connection)
        self._ended()

    def _commit(self, new: Mapping[TopicPartition, int]) -> None:
        transaction = self._begun()
        for batch in self._waiting:  # 1
            self._sink.write(transaction, batch)
        self._sink.flush(transaction)
        rows = {partition: replace(self._rows[partition], next_offset=offset) for partition, offset in new.items()}
        if rows:  # 2
            self._check_rows(transaction, rows)
            self._sink.write_offsets(transaction, self._connector, rows)
        self._uncertain = rows
        self._sink.commit(self._connection)  # 3
        self._rows.update(rows)
        self._uncertain = {}

    def _check_rows(self, transaction: Any, partitions: Collection[TopicPartition]) -> None:
        """Lock the rows, and raise FencedException unless each is as this task left it."""
        found = self._sink.read_offsets(transaction, self._connector, list(partitions)) if partitions else {}
        for partition in partitions:
            if found.get(partition) != self._rows[partition]:
                raise _fenced(partition, found.get(partition), self.context.claim)

    def _write_or_nothing(self, batch: Batch) -> None:
        transaction = self._begun()
        block = self._sink.savepoint(transaction)
        try:
            with block or contextlib.nullcontext():
                self._sink.write(transaction, batch)
                self._sink.flush(transaction)  # so that records refused here are attributed to this batch
        except Exception as error:
            self._sink.forget()
            if block is None and isinstance(self._sink.translate_error(error), DataException):
                self._write_again(list(self._written))
            raise
        self._written.append(batch)

    def _write_again(self, written: list[Batch]) -> None:
        self._disconnect()
        try:
            for batch in written:
                self._sink.write(self._begun(), batch)
            self._sink.flush(self._begun())
        except Exception as error:  # not caused by the batch that is put
            raise RetriableException(f"A batch that was written before could not be written again: {error}") from error
        self._written = written

    def _run(self, work: Callable[[], _Result]) -> _Result:
        """Run ``work``, and translate its errors to the exceptions that the framework expects from a transactional task."""
        try:
            with _translating(self._sink):
                return work()
        except DataException as error:
            if self._waiting:  # a batch is refused, or a commit of several batches
                self._disconnect()
                self._writes_at_once = True
                raise RolledBackException(error.message, RollbackReason.REFUSED) from error
            raise
        except RolledBackException:  # a subclass with its own ``put`` has rolled back and keeps this connection
            self._ended()
            self._sink.forget()
            raise
        except RetriableException as error:
            self._disconnect()
            self._losses += 1
            if self._losses > self._sink.max_retries:
                setting = self._sink.retries_setting
                raise RetriesExhaustedException(f"Failed after {self._sink.max_retries} retries ({setting}): {error}") from error
            if error.retry_after_ms is not None:
                self.context.timeout(int(error.retry_after_ms))
            raise RolledBackException(error.message, RollbackReason.LOST) from error
        except Exception:
            self._disconnect()
            raise

    def _ended(self) -> None:
        """Note that no transaction is open and no batch waits."""
        self._transaction = None
        self._waiting.clear()
        self._written.clear()

    def _disconnect(self) -> None:
        self._ended()
        self._sink.forget()
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the connection may be gone
                self._sink.close(connection)


@contextlib.contextmanager
def _translating(sink: TransactionalSink) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        known = sink.translate_error(error)
        if known is error:
            raise
        raise known from error


def _fenced(partition: TopicPartition, found: OffsetRow | None, claim: str) -> FencedException:
    now = "no claim" if found is None else f"claim {found.claim} with offset {found.next_offset}"
    return FencedException(f"{partition} belongs to {now} now, claim {claim} may no longer write")
