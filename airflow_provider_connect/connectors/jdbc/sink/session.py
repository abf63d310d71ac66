"""One sink task's work on its database between two commits, written to it table by table.

What can happen to the connection and its transaction is a table of values (``TRANSITIONS``); ``SinkSession`` carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NoReturn, TypeVar

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.sink.layout import Layout, Records, layout_of, location_of
from airflow_provider_connect.connectors.jdbc.sink.offsets import OffsetsTable
from airflow_provider_connect.connectors.jdbc.sink.settings import SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore, column_name, table_name
from airflow_provider_connect.connectors.jdbc.sink.tables import SinkTables, TableChange, TableWriter
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.task import Refusal, RolledBackException, WentBack

_Result = TypeVar("_Result")


class Phase(StrEnum):
    """Of the connection."""

    CLOSED = "closed"
    IDLE = "idle"  # no transaction
    BEGUN = "begun"  # a transaction with rows or offsets


class Event(StrEnum):
    USE = "use"
    WRITE = "write"
    COMMIT = "commit"
    REFUSED = "refused"  # by the database, because of a record
    CHANGE = "change"  # a table has to be changed before records fit
    LOST = "lost"
    FAILED = "failed"
    CLOSE = "close"


class Action(StrEnum):
    CONNECT = "connect"
    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    DROP = "drop"  # the records that wait
    ALTER = "alter"  # the table, in a transaction of its own: some databases commit by it, and its locks must be short
    DISCONNECT = "disconnect"


@dataclass(frozen=True, slots=True)
class Step:
    """The next phase, and what leads to it. ``went_back``: what was put since the last commit is gone, and why."""

    phase: Phase
    actions: tuple[Action, ...] = ()
    went_back: WentBack | None = None


_END: Final = (Action.DROP, Action.DISCONNECT)
TRANSITIONS: Final[Mapping[tuple[Phase, Event], Step]] = {
    (Phase.CLOSED, Event.USE): Step(Phase.IDLE, (Action.CONNECT,)),
    (Phase.IDLE, Event.USE): Step(Phase.IDLE),
    (Phase.BEGUN, Event.USE): Step(Phase.BEGUN),
    (Phase.CLOSED, Event.WRITE): Step(Phase.BEGUN, (Action.CONNECT, Action.BEGIN)),
    (Phase.IDLE, Event.WRITE): Step(Phase.BEGUN, (Action.BEGIN,)),
    (Phase.BEGUN, Event.WRITE): Step(Phase.BEGUN),
    (Phase.CLOSED, Event.COMMIT): Step(Phase.CLOSED),
    (Phase.IDLE, Event.COMMIT): Step(Phase.IDLE),
    (Phase.BEGUN, Event.COMMIT): Step(Phase.IDLE, (Action.COMMIT,)),
    (Phase.IDLE, Event.REFUSED): Step(Phase.IDLE, (Action.DROP,), WentBack.REFUSED),
    (Phase.BEGUN, Event.REFUSED): Step(Phase.IDLE, (Action.ROLLBACK, Action.DROP), WentBack.REFUSED),
    (Phase.IDLE, Event.CHANGE): Step(Phase.IDLE, (Action.ALTER,)),
    (Phase.BEGUN, Event.CHANGE): Step(Phase.IDLE, (Action.ROLLBACK, Action.DROP, Action.ALTER), WentBack.CHANGED),
    **{(phase, Event.LOST): Step(Phase.CLOSED, _END, WentBack.LOST) for phase in Phase},
    **{(phase, event): Step(Phase.CLOSED, _END) for phase in Phase for event in (Event.FAILED, Event.CLOSE)},
}


@dataclass(slots=True)
class _Waiting:
    """Records for one table that are not written yet."""

    layout: Layout
    batches: list[Batch] = field(default_factory=list)
    count: int = 0


class SinkSession:
    """Takes batches, writes them table by table, commits them with their offsets; without a ``claim`` alone, at least once.

    RolledBackException: nothing since the last commit is written, and all of it has to be put again; after a lost connection behind another
    ``open``. Once a record was refused, each batch is written as it is put until the next commit, and DataException then means: nothing of
    this batch. After any other exception the session is of no use.
    """

    def __init__(
        self,
        connect: Callable[[], SinkStore],
        settings: SinkSettings,
        *,
        offsets_table: str,
        connector: str,
        claim: tuple[str, int] | None,
    ) -> None:
        self._connect = connect
        self._settings = settings
        self._offsets_table = offsets_table
        self._connector = connector
        self._claim = claim
        self._partitions: frozenset[TopicPartition] = frozenset()  # that have our claim
        self._phase = Phase.CLOSED
        self._store: SinkStore
        self._tables: SinkTables
        self._waiting: dict[str, _Waiting] = {}
        self._writes_at_once = False
        self._changes: set[str] = set()  # of tables, since the last commit
        self._committed: dict[TopicPartition, int] = {}

    @property
    def holds_others_up(self) -> bool:
        """Whether other connections wait for the transaction under way."""
        return self._phase is Phase.BEGUN and self._store.holds_others_up

    def open(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Take the partitions over, or go on with them on a new connection; the offsets in the database, None without a claim."""
        try:
            offsets = self._offsets()
            if self._claim is None:
                offsets.forget(partitions)
                return None
            if self._partitions >= frozenset(partitions):
                found = offsets.renew(partitions, self._claim[0])
            else:
                found = offsets.take(partitions, *self._claim)
        except BaseException:
            self._on(Event.FAILED)
            raise
        self._partitions |= frozenset(partitions)
        self._committed |= {**dict.fromkeys(partitions, -1), **found}
        return found

    def put(self, batch: Batch) -> None:
        """Take a batch; write what has become enough for one statement."""
        if not batch.num_records:
            return
        layout = self._layout(batch)
        self._run(lambda: self._add(batch, layout))
        if self._writes_at_once:
            self._run(self._write_or_drop)
        elif not self._store.holds_others_up:
            self._run(lambda: self._write_waiting(self._settings.batch_size))

    def refused(self, batch: Batch) -> list[Refusal] | None:
        """Write a batch but for the records that are refused, which are returned; None: nothing was written, for the database cannot name
        them."""
        self._writes_at_once = True
        self._run(self._write_waiting)
        try:
            layout = self._layout(batch)
        except DataException as error:
            return [Refusal(row, error) for row in range(batch.num_records)]
        records = Records([batch])

        def write() -> dict[int, str] | None:
            writer = self._writer(self._settings.table_of(batch.topic), layout)
            return {} if writer is None else writer.write_without_refused(records)

        found = self._run(write)
        return None if found is None else [Refusal(row, self._refusal(batch, row, reason)) for row, reason in sorted(found.items())]

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """1 write what waits 2 our offsets, which is refused to an older claim 3 commit."""
        self._run(self._write_waiting)  # 1
        new = {partition: offset for partition, offset in offsets.items() if self._committed.get(partition) != offset}

        def commit() -> None:
            if self._claim is not None and new:
                self._on(Event.WRITE)
                self._offsets().write(new, self._claim[0])  # 2
            self._on(Event.COMMIT)  # 3

        try:
            self._run(commit)
        except RefusedException as error:  # what the database checks no earlier
            self._fail(error)
        self._committed.update(new)
        self._changes.clear()
        self._writes_at_once = False

    def close(self) -> None:
        """Drop what was not committed."""
        self._on(Event.CLOSE)
        self._partitions, self._writes_at_once = frozenset(), False

    # The connection

    def _run(self, work: Callable[[], _Result]) -> _Result:
        """Do ``work``, again after a table was changed for it."""
        while True:
            try:
                return work()
            except TableChange as change:
                try:
                    went_back = self._on(Event.CHANGE, change)
                except BaseException as error:
                    self._fail(error)
                if went_back is not None:
                    raise RolledBackException(str(change), went_back) from None
            except (RefusedException, RolledBackException):
                raise
            except BaseException as error:
                self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        """Raise what follows from an error: whatever it is, the connection is not used again."""
        if isinstance(error, RetriableException):
            self._on(Event.LOST)
            raise RolledBackException(error.message, WentBack.LOST) from error
        self._on(Event.FAILED)
        if isinstance(error, DataException):
            raise ConnectException(error.message) from error
        raise error

    def _on(self, event: Event, change: TableChange | None = None) -> WentBack | None:
        """Carry out what follows from an event; whether everything since the last commit is gone by that, and why."""
        step = TRANSITIONS[self._phase, event]
        for action in step.actions:
            match action:
                case Action.CONNECT:
                    self._store = self._connect()
                    self._tables = SinkTables(self._store, self._settings)
                    self._phase = Phase.IDLE
                case Action.BEGIN:
                    self._store.begin()
                    self._tables.begun()
                case Action.COMMIT:
                    self._store.commit()
                case Action.ROLLBACK:
                    self._store.rollback()
                    self._phase = Phase.IDLE
                case Action.DROP:
                    self._waiting.clear()
                case Action.ALTER:
                    assert change is not None
                    self._tables.change(change, self._changes, self._check_claim)
                case Action.DISCONNECT:
                    if self._phase is not Phase.CLOSED:
                        self._store.close()
        self._phase = step.phase
        return step.went_back

    def _offsets(self) -> OffsetsTable:
        self._on(Event.USE)
        return OffsetsTable(self._store, table_name(self._offsets_table, self._store.dialect), self._connector)

    def _check_claim(self) -> None:
        """Raise FencedException within a transaction that a newer claim forbids."""
        if self._claim is not None:
            self._offsets().check(self._partitions, self._claim[0])

    # Records

    def _layout(self, batch: Batch) -> Layout:
        """Raises DataException where the batch's records cannot be rows: nothing of them is taken."""
        self._run(lambda: self._on(Event.USE))
        dialect = self._store.dialect
        return layout_of(self._settings, batch, lambda field: column_name(field, dialect))

    def _add(self, batch: Batch, layout: Layout) -> None:
        """Put the batch where it waits for its table. May be repeated until it returns."""
        name = self._settings.table_of(batch.topic)
        waiting = self._waiting.get(name)
        if waiting is not None and not waiting.layout.fits(batch):
            self._write(name, waiting)
            waiting = None
        if waiting is None:
            waiting = self._waiting[name] = _Waiting(layout)
        waiting.batches.append(batch)
        waiting.count += batch.num_records

    def _write_waiting(self, least: int = 0) -> None:
        """Write the tables of which at least so many records wait."""
        for name, waiting in list(self._waiting.items()):
            if waiting.count >= least:
                self._write(name, waiting)

    def _write_or_drop(self) -> None:
        """Write the one batch that waits, or nothing of it."""
        for name, waiting in list(self._waiting.items()):
            writer = self._writer(name, waiting.layout)
            try:
                if writer is not None:
                    with self._store.savepoint():
                        writer.write(Records(waiting.batches))
            except RefusedException as error:
                raise self._refusal(waiting.batches[0], error.row, error.message) from error
            finally:
                self._waiting.clear()

    def _write(self, name: str, waiting: _Waiting) -> None:
        """Write records. Where one is refused, nothing since the last commit stays: the framework puts it again, and finds the record."""
        writer = self._writer(name, waiting.layout)
        if writer is not None:
            try:
                writer.write(Records(waiting.batches))
            except RefusedException as error:
                went_back = self._on(Event.REFUSED)
                self._writes_at_once = True
                assert went_back is not None
                raise RolledBackException(error.message, went_back) from error
        self._waiting.pop(name, None)

    def _writer(self, name: str, layout: Layout) -> TableWriter | None:
        """In a transaction. None: the records are deletes of a table that does not exist."""
        self._on(Event.USE)
        writer = self._tables.writer(name, layout)
        if writer is None:
            return None
        self._on(Event.WRITE)
        return self._tables.held_writer(name, layout, writer)

    def _refusal(self, batch: Batch, row: int | None, reason: str) -> RefusedException:
        """``row`` None: not known, unless there is only one."""
        partition, offset = location_of(batch.slice(row or 0, 1))
        location = f"the record at offset {offset}" if row is not None or batch.num_records == 1 else f"a record from offset {offset} on"
        error = RefusedException(f"Table {self._settings.table_of(batch.topic)} refuses {location} of {partition}: {reason}", row)
        error.record = row
        return error
