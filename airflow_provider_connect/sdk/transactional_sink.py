"""Exactly-once sinks: an author opens a connection and writes batches; offsets, claims and repetition after failures are done here.

The destination stores one ``OffsetRow`` for each partition of a connector. A commit is one transaction of the destination:
1 the batches 2 the offset rows, each of which must still be as this task left it 3 the commit. Knows nothing of SQL (``sql_sink``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from airflow_provider_connect.data.records import TopicPartition, may_be_same_topic
from airflow_provider_connect.errors import ConnectException, DataException, FencedException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SinkConnector
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.offset_row import ADOPT, OffsetRow
from airflow_provider_connect.sdk.task import RolledBackException, SinkTask, WentBack

_Result = TypeVar("_Result")


class TransactionalSink(SinkConnector):
    """A connector together with the calls that its tasks make to the destination.

    An author defines ``open`` and ``write``, and unless the destination is an SQL database (``SqlSink``), ``commit``,
    ``read_offsets`` and ``write_offsets``. Each task has an instance of its own with ``config`` and ``allowed_paths``, and calls it one
    call at a time. A transaction begins and ends within one ``pre_commit``, so locks are short; only after a refused record it lasts from
    one ``put`` to the next commit.

    After any error the connection is closed, which rolls its transaction back. RetriableException from any method: all batches since the
    last commit come again on another connection, unless the commit went through. DataException from ``write`` or ``flush``: the refused
    records are searched by halving batches. One that ``commit`` alone raises names no record, and fails the task.
    """

    required_columns: ClassVar[frozenset[str]] = SinkTask.required_columns
    """What ``write`` reads besides values, as in ``SinkTask.required_columns``."""
    max_retries: ClassVar[int] = 10
    """How many RetriableExceptions may follow each other without a commit; the next one fails the task."""
    retries_setting: ClassVar[str] = "max_retries"
    """What sets ``max_retries``: named when a task fails by it."""
    topic_ids: Mapping[str, str] = MappingProxyType({})
    """In a task, the id of each topic whose id is known, as in ``SinkTaskContext.topic_ids``."""

    def __init_subclass__(cls, **named: Any) -> None:
        """Each sink has a task class of its own, which knows it."""
        super().__init_subclass__(**named)
        if "task_class" not in cls.__dict__:
            name, parent = f"{cls.__name__}Task", getattr(cls, "task_class", TransactionalSinkTask)
            attributes = {"__module__": cls.__module__, "__qualname__": name, "required_columns": cls.required_columns}
            cls.task_class = type(name, (parent,), attributes)
        cls.task_class.sink_class = cls  # type: ignore[attr-defined]  # the author's task class is one of a TransactionalSink

    # An author's methods

    def open(self) -> Any:
        """Connect to the destination. Called at the start of a task, after each loss of the connection, and by ``alter_offsets``."""
        raise NotImplementedError

    def write(self, transaction: Any, batch: Batch) -> None:
        """Write a batch, which is never empty, in the transaction under way. Must not commit, and must not keep the batch unless ``flush``
        writes it and ``forget`` drops it."""
        raise NotImplementedError

    def flush(self, transaction: Any) -> None:
        """Write what ``write`` has kept. Called once a commit, before its offsets are written; after a refused record also behind each
        ``write``."""

    def forget(self) -> None:
        """Drop what ``write`` has kept on ``self``: its batches are taken back, and come again. Called too when nothing is kept."""

    def begin(self, connection: Any) -> Any:
        """Begin a transaction: what the other methods are given. By default the connection itself."""
        return connection

    def commit(self, connection: Any) -> None:
        """Commit the transaction under way."""
        raise NotImplementedError

    def close(self, connection: Any) -> None:
        """Close the connection. A transaction under way must be rolled back by that."""
        connection.close()

    def create_offsets(self, connection: Any) -> None:
        """Create what stores offset rows, unless it exists. Called outside of transactions, with exactly once."""

    def end_older(self, connection: Any, connector: str, partitions: Collection[TopicPartition], claim: OffsetRow) -> None:
        """End connections of claims that are not newer than ``claim``: their transactions may hold locks on these partitions. Called before
        a task writes its claim, outside of transactions. By default the destination's own time limits end them."""

    def read_offsets(self, transaction: Any, connector: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        """The rows of these partitions that exist, locked or otherwise kept from changes by others until the transaction ends."""
        raise NotImplementedError

    def write_offsets(self, transaction: Any, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        """Write rows, in place of those that exist; None deletes one. Follows ``read_offsets`` of the same partitions."""
        raise NotImplementedError

    def holds_records(self, transaction: Any) -> bool:
        """Whether the destination holds records, whosever they are. Asked where it has no offset of this connector any more, but not where
        ``keeps_offsets_apart``; see ``SinkTask.holds_records``."""
        return False

    def savepoint(self, transaction: Any) -> AbstractContextManager[Any] | None:
        """A block whose writes are taken back if it raises, while the transaction goes on. None: the destination has no savepoints, and
        all batches of the transaction are written again, on another connection, after each refused record."""
        return None

    def check_new_topic(self, partition: TopicPartition, former: OffsetRow) -> None:
        """Called where the destination has records of another topic of this name (``former.topic_id``): this one was created anew. Raises
        ConfigException where its records would replace those."""

    def check_claims(self, transaction: Any) -> None:
        """Raises FencedException unless this task may still write. An author calls it in a transaction other than the framework's, such as
        one that changes a table. Does something only in a task, which sets it."""

    def translated(self, error: Exception) -> Exception:
        """The exception of this package for one of the destination's client: DataException, RetriableException, or another that fails the
        task."""
        return error

    def datasets(self) -> Iterable[Dataset]:
        """What this task's instance has written, as in ``SinkTask.datasets``. No connection is open any more, or it is not to be used."""
        return ()

    # The connector's methods

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """As many tasks as are allowed. Each reads partitions of its own."""
        return [self.config.originals] * max_tasks

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Set the offsets of partitions that the destination knows. A task that still writes is fenced by that."""
        self.config = self.task_config(config)
        with _translating(self):
            connection = self.open()
            try:
                transaction, connector = self.begin(connection), self.config.originals.get("name", "")
                found = self.read_offsets(transaction, connector, list(offsets))
                self.write_offsets(transaction, connector, {partition: row.altered(offsets[partition]) for partition, row in found.items()})
                self.commit(connection)
            finally:
                self.close(connection)
        return True


class TransactionalSinkTask(SinkTask):
    """The task of every TransactionalSink: keeps batches until ``pre_commit``, and commits them with their offsets.

    After a refused record it writes each batch as it is put, until the next commit.
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
        self._uncertain: dict[TopicPartition, OffsetRow] = {}  # of a commit that may have gone through
        self._waiting: list[Batch] = []
        self._written: list[Batch] = []  # in the transaction under way
        self._writes_at_once = False
        self._losses = 0

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Write the claim to the rows; the offsets there. After a lost connection the rows must be as this task has left them."""
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
        """Rows and offsets go back together, so only where there is none it is a question."""
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
            except DataException as error:  # no batch is to blame: each was written by itself
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
        """The transaction under way, or a new one, on a new connection if there is none."""
        connection = self._connected()
        if self._transaction is None:
            self._transaction = self._sink.begin(connection)
        return self._transaction

    def _take_rows(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        context = self.context
        claimants = {p: OffsetRow.of_task(context, p.topic) for p in partitions}
        if not self._rows.keys() >= set(partitions):
            claim = OffsetRow(None, context.claim, context.claim_epoch)
            self._sink.end_older(self._connected(), self._connector, partitions, claim)
        transaction = self._begun()
        found = self._sink.read_offsets(transaction, self._connector, partitions)
        for partition in self._rows.keys() & partitions:
            if found.get(partition) not in (self._rows[partition], self._uncertain.get(partition, self._rows[partition])):
                raise _fenced(partition, found.get(partition), context.claim)
        adopts = context.config.get(ADOPT)
        taken = {p: found.get(p, claimant).taken(p, claimant, adopts=adopts) for p, claimant in claimants.items()}
        for partition, row in found.items():
            if not may_be_same_topic(row.topic_id, claimants[partition].topic_id):
                self._sink.check_new_topic(partition, row)
        try:
            self._sink.write_offsets(transaction, self._connector, taken)
        except Exception as error:
            if isinstance(self._sink.translated(error), DataException):  # another process was faster
                raise RetriableException(f"Another process has written offsets of {self._connector}: {error}") from error
            raise
        self._sink.commit(self._connection)
        self._ended()
        return taken

    def _forget_rows(self, partitions: Collection[TopicPartition]) -> None:
        """With another guarantee offsets are not kept up here: a later run with exactly once must not find old ones."""
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
        """Lock the rows, and raise FencedException unless each is as this task has left it."""
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
                self._sink.flush(transaction)  # what is refused only there is refused by itself too
        except Exception as error:
            self._sink.forget()
            if block is None and isinstance(self._sink.translated(error), DataException):
                self._write_again(list(self._written))
            raise
        self._written.append(batch)

    def _write_again(self, written: list[Batch]) -> None:
        self._disconnect()
        try:
            for batch in written:
                self._sink.write(self._begun(), batch)
            self._sink.flush(self._begun())
        except Exception as error:  # is not about the batch that is put
            raise RetriableException(f"A batch that was written before could not be written again: {error}") from error
        self._written = written

    def _run(self, work: Callable[[], _Result]) -> _Result:
        """Do ``work``, and raise what follows from its errors."""
        try:
            with _translating(self._sink):
                return work()
        except DataException as error:
            if self._waiting:  # it is a batch that is refused, or a commit of batches
                self._disconnect()
                self._writes_at_once = True
                raise RolledBackException(error.message, WentBack.REFUSED) from error
            raise
        except RolledBackException:  # a task with a ``put`` of its own has rolled back and goes on with this connection
            self._ended()
            self._sink.forget()
            raise
        except RetriableException as error:
            self._disconnect()
            self._losses += 1
            if self._losses > self._sink.max_retries:
                setting = self._sink.retries_setting
                raise ConnectException(f"Failed after {self._sink.max_retries} retries ({setting}): {error}") from error
            if error.retry_after_ms is not None:
                self.context.timeout(int(error.retry_after_ms))
            raise RolledBackException(error.message, WentBack.LOST) from error
        except Exception:
            self._disconnect()
            raise

    def _ended(self) -> None:
        """No transaction is under way, and no batch waits."""
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
        known = sink.translated(error)
        if known is error:
            raise
        raise known from error


def _fenced(partition: TopicPartition, found: OffsetRow | None, claim: str) -> FencedException:
    now = "no claim" if found is None else f"claim {found.claim} with offset {found.next_offset}"
    return FencedException(f"{partition} belongs to {now} now, claim {claim} may no longer write")
