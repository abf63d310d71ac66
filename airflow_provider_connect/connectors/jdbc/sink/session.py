"""One sink task's work on its database between two commits. What was not committed is kept, and written again after a lost connection.

Columns of the records since the last commit stay in memory for that, so a commit is asked for every ``UNCOMMITTED_BYTES``.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.connectors.jdbc.sink.layout import Layout, layout_of
from airflow_provider_connect.connectors.jdbc.sink.offsets import OffsetsTable
from airflow_provider_connect.connectors.jdbc.sink.records import Records
from airflow_provider_connect.connectors.jdbc.sink.refusals import Refusals, Report
from airflow_provider_connect.connectors.jdbc.sink.settings import SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore, column_name, table_name
from airflow_provider_connect.connectors.jdbc.sink.tables import SinkTables, TableChange
from airflow_provider_connect.connectors.jdbc.sink.writer import Refusal
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException, TaskException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.records import TopicPartition

UNCOMMITTED_BYTES: Final = 64 << 20
Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Connection:
    store: SinkStore
    tables: SinkTables


@dataclass(slots=True)
class _Waiting:
    """Records for one table that are not written yet."""

    layout: Layout
    batches: list[Batch]
    count: int = 0


class SinkSession:
    """Takes batches, writes them table by table, commits them with their offsets.

    ``claim`` None: without offsets of our own, at least once. ``report`` is told of each record that the database refuses, once, and raises
    where one may not be left out. After a RetriableException the same call may be made again: the transaction is begun anew from the
    last commit, on a new connection. A DataException from ``put``: no record of the batch was taken, and the session goes on. After any
    other exception the session is of no use.

    ``is_at_most_once``: what may have been written is never written again, so no exception is a RetriableException.
    """

    def __init__(
        self,
        connect: Callable[[], SinkStore],
        settings: SinkSettings,
        report: Report,
        *,
        offsets_table: str,
        connector: str,
        claim: tuple[str, int] | None,
        is_at_most_once: bool = False,
    ) -> None:
        self._connect = connect
        self._settings = settings
        self._refusals = Refusals(report, settings.table_of)
        self._offsets_table = offsets_table
        self._connector = connector
        self._claim = claim
        self._is_at_most_once = is_at_most_once
        self._untaken: DataException | None = None  # why a batch cannot be rows at all, of which nothing was written
        self._partitions: frozenset[TopicPartition] = frozenset()
        self._connection: _Connection | None = None
        self._thread = ThreadPoolExecutor(1, "jdbc-sink")  # starts with the first work
        self._attempt: tuple[Future[list[Refusal]], Iterator[Refusal], Records] | None = None
        self._is_begun = False
        self._is_complete = True  # whether everything in _uncommitted is written or waits to be
        self._uncommitted: list[Batch] = []
        self._uncommitted_bytes = 0
        self._waiting: dict[str, _Waiting] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._in_doubt: dict[TopicPartition, int] | None = None

    @property
    def wants_commit(self) -> bool:
        """Whether a commit should come soon: much is kept for it."""
        return self._uncommitted_bytes > UNCOMMITTED_BYTES

    def open(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Take the partitions over; the offsets that the database holds, None if it is to hold none."""
        with self._dropped_on_failure(is_repeatable=True):
            offsets = self._offsets(self._connected().store)
            if self._claim is None:
                offsets.forget(partitions)
                return None
            found = offsets.take(partitions, *self._claim)
        self._partitions |= frozenset(partitions)
        self._committed = {**dict.fromkeys(partitions, -1), **found}
        return found

    def put(self, batch: Batch) -> None:
        """Take a batch; write what has become enough for one statement."""

        def take() -> None:
            self._add(batch)
            if not self._opened().store.holds_others_up:
                self._write_waiting(only_full=True)

        self._in_transaction(take)
        self._uncommitted.append(batch)
        self._uncommitted_bytes += sum(column.nbytes for column in (batch.value, batch.key) if column is not None)

    def commit(self, offsets: Offsets) -> None:
        """Write what waits, and commit it together with ``offsets``."""
        new = {partition: offset for partition, offset in offsets.items() if self._committed.get(partition) != offset}
        if not self._uncommitted and (not new or self._claim is None):
            return

        def commit() -> None:
            if not new.items() <= self._committed.items() or self._uncommitted:  # else a commit in doubt went through
                self._write_waiting(only_full=False)
                self._commit(new)

        self._in_transaction(commit)
        self._committed.update(new)
        self._forget()

    def close(self) -> None:
        """Drop what was not committed."""
        self._forget()
        self._drop_connection()
        self._thread.shutdown(wait=False)
        self._thread = ThreadPoolExecutor(1, "jdbc-sink")  # partitions may be opened again

    # The transaction

    def _in_transaction(self, work: Callable[[], None]) -> None:
        """Do ``work`` behind everything that is not committed. Where a table has to be changed, that is done first, in a transaction of its
        own: some databases commit by it, and its locks are not to be held for long. What was written then goes back and comes again."""
        done: set[str] = set()
        with self._dropped_on_failure():
            while True:
                try:
                    self._restore()
                    work()
                    return
                except TableChange as change:
                    self._begin_anew()
                    self._connected().tables.change(change, done, self._check_claim)

    def _restore(self) -> None:
        """Where something is missing: write what was not committed again, unless its commit went through after all."""
        if self._is_complete:
            return
        store = self._connected().store
        if self._in_doubt is not None and self._claim is not None:
            found = self._offsets(store).read(self._in_doubt, self._claim[0])
            if all(found.get(partition) == offset for partition, offset in self._in_doubt.items()):
                self._committed.update(self._in_doubt)
                self._forget()
                return
            self._in_doubt = None
        self._waiting.clear()
        for batch in self._uncommitted:
            self._add(batch)
            if not store.holds_others_up:
                self._write_waiting(only_full=True)
        self._is_complete = True

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        """1 our offsets, which is refused to an older claim 2 commit. A connection that is lost in 2 leaves that in doubt."""
        store = self._connected().store
        if self._claim is not None and offsets:
            self._begin()
            self._offsets(store).write(offsets, self._claim[0])  # 1
            self._in_doubt = offsets
        if self._is_begun:
            store.commit()  # 2
        self._is_begun, self._in_doubt = False, None

    def _begin(self) -> None:
        if not self._is_begun:
            connection = self._connected()
            connection.store.begin()
            connection.tables.begun()
            self._is_begun = True

    def _begin_anew(self) -> None:
        """Take back what was written since the last commit."""
        if self._is_begun:
            self._connected().store.rollback()
        self._is_begun = self._is_complete = False
        self._waiting.clear()

    def _forget(self) -> None:
        """Everything is committed, or given up."""
        self._uncommitted.clear()
        self._waiting.clear()
        self._refusals.forget()
        self._uncommitted_bytes, self._in_doubt, self._is_complete = 0, None, True

    def _connected(self) -> _Connection:
        """The database, with nothing going on in it."""
        self._finish_attempt()
        return self._opened()

    def _finish_attempt(self) -> None:
        """Wait for what is being written. Report what was refused; behind the first that ever was, the rest is written here."""
        if self._attempt is not None:
            (future, refusals, records), self._attempt = self._attempt, None
            self._refusals.tell(records, itertools.chain(future.result(), refusals))

    def _opened(self) -> _Connection:
        """The database, in which something may be going on."""
        if self._connection is None:
            store = self._connect()
            self._connection = _Connection(store, SinkTables(store, self._settings))
            if self._claim is not None and self._partitions:
                self._offsets(store).renew(self._partitions, self._claim[0])
        return self._connection

    def _drop_connection(self) -> None:
        if self._attempt is not None:
            self._attempt[0].exception()  # waits
            self._attempt = None
        if self._connection is not None:
            self._connection.store.close()
        self._connection, self._is_begun = None, False

    @contextlib.contextmanager
    def _dropped_on_failure(self, *, is_repeatable: bool = False) -> Iterator[None]:
        """Whatever goes wrong, what was handed on since the last commit is incomplete from here on. Only a batch that was refused before
        any of it was taken leaves the rest as it is: any other DataException would let the framework blame, and leave out, records that
        are not at fault. ``is_repeatable``: nothing is written, so the call may be made again under any guarantee."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, DataException) and error is self._untaken:
                raise
            self._is_complete = False
            self._drop_connection()
            if isinstance(error, DataException):
                raise ConnectException(error.message) from error
            if isinstance(error, RetriableException) and self._is_at_most_once and not is_repeatable:
                text = "Records since the last commit may be lost: with at_most_once they are never written again"
                raise TaskException(f"{text}. {error.message}") from error
            raise

    def _check_claim(self) -> None:
        """Raise FencedException within a transaction that somebody newer forbids."""
        if self._claim is not None:
            self._offsets(self._connected().store).check(self._partitions, self._claim[0])

    def _offsets(self, store: SinkStore) -> OffsetsTable:
        return OffsetsTable(store, table_name(self._offsets_table, store.dialect), self._connector)

    # Records

    def _add(self, batch: Batch) -> None:
        """Put the batch where it waits for its table."""
        if not batch.num_records:
            return
        name = self._settings.table_of(batch.topic)
        waiting = self._waiting.get(name)
        if waiting is not None and not waiting.layout.fits(batch):
            self._write(name, waiting)
            waiting = None
        if waiting is None:
            try:
                layout = layout_of(self._settings, batch, self._column_name)
            except DataException as error:
                self._untaken = error
                self._refusals.tell_of_all(batch, error)
                return
            waiting = self._waiting[name] = _Waiting(layout, [])
        waiting.batches.append(batch)
        waiting.count += batch.num_records

    def _column_name(self, field: str) -> str:
        return column_name(field, self._opened().store.dialect)

    def _write_waiting(self, *, only_full: bool) -> None:
        """Write what waits, or the tables of which enough waits for one statement."""
        for name, waiting in list(self._waiting.items()):
            if not only_full or waiting.count >= self._settings.batch_size:
                self._write(name, waiting, ahead=only_full)

    def _write(self, name: str, waiting: _Waiting, *, ahead: bool = False) -> None:
        """Write records. ``ahead``: in a thread of its own, while more are read; whoever needs the database next waits for it."""
        self._finish_attempt()
        tables = self._opened().tables
        writer = tables.writer(name, waiting.layout)
        if writer is not None:
            self._begin()
            writer = tables.held_writer(name, waiting.layout, writer)
        if writer is not None:
            records = Records(waiting.batches)
            refusals = writer.write(records)
            if ahead:
                self._attempt = self._thread.submit(list, self._refusals.as_far_as_known(refusals)), refusals, records
            else:
                self._refusals.tell(records, refusals)
        del self._waiting[name]
