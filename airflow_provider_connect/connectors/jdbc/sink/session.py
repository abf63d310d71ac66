"""One connection of a sink's task. Writes batches table by table, and commits them with the rows of the offsets table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.sink.layout import Layout, Records, build_layout, location_of
from airflow_provider_connect.connectors.jdbc.sink.rounded_numbers import RoundedNumbers
from airflow_provider_connect.connectors.jdbc.sink.settings import SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore
from airflow_provider_connect.connectors.jdbc.sink.tables import SinkTables, TableChange, TableWriter
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import Refusal, RollbackReason, RolledBackException

_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Waiting:
    """The unwritten records of one table."""

    layout: Layout
    batches: list[Batch] = field(default_factory=list)
    count: int = 0


class SinkSession:
    """Accepts batches, and writes them table by table. A transaction starts with the first statement that needs a transaction.

    After RolledBackException, all batches since the last commit were rolled back and must be put again. After a refused record, ``put``
    writes each batch immediately, instead of collecting it, until the next commit. DataException then means that no record of this batch is
    written. After any other exception, the session is unusable. ``check_claims`` raises FencedException in a transaction that a newer claim
    forbids.
    """

    def __init__(
        self, store: SinkStore, settings: SinkSettings, check_claims: Callable[[SinkSession], None], rounded: RoundedNumbers
    ) -> None:
        self.store = store
        self._settings = settings
        self._check_claims = check_claims
        self._tables = SinkTables(store, settings, rounded)
        self._is_begun = False
        self._waiting: dict[str, _Waiting] = {}
        self._writes_at_once = False
        self._changes: set[str] = set()  # statements that changed tables since the last commit

    @property
    def tables(self) -> list[TargetTable]:
        """The tables that this connection has written."""
        return self._tables.written

    @property
    def blocks_writers(self) -> bool:
        """Whether other connections wait for the current transaction."""
        return self._is_begun and self.store.blocks_writers

    def put(self, batch: Batch) -> None:
        """Accept a batch. Write each table that has enough records for one statement."""
        layout = self._layout(batch)
        self._with_changes(lambda: self._add(batch, layout))
        if self._writes_at_once:
            self._with_changes(self._write_or_drop)
        elif not self.store.blocks_writers:
            self._with_changes(lambda: self._write_waiting(self._settings.batch_size))

    def put_accepted(self, batch: Batch) -> list[Refusal] | None:
        """Write a batch without its refused records, and return the refused records. None means that no record was written, because the
        database cannot name refused records."""
        self._writes_at_once = True
        self.flush()
        try:
            layout = self._layout(batch)
        except DataException as error:
            return [Refusal(row, error) for row in range(batch.num_records)]
        records = Records([batch])

        def write() -> dict[int, str] | None:
            writer = self._writer(self._settings.table_of(batch.topic), layout)
            return {} if writer is None else writer.write_without_refused(records)

        found = self._with_changes(write)
        return None if found is None else [Refusal(row, self._refusal(batch, row, reason)) for row, reason in sorted(found.items())]

    def flush(self) -> None:
        """Write all waiting records."""
        self._with_changes(self._write_waiting)

    # Transactions

    def begin(self) -> None:
        """Start a transaction, unless one is open."""
        if not self._is_begun:
            self.store.begin()
            self._tables.begun()
            self._is_begun = True

    def commit(self) -> None:
        if self._is_begun:
            self.store.commit()
        self._is_begun, self._writes_at_once = False, False
        self._changes.clear()

    def _roll_back(self) -> None:
        """Roll back, and drop the waiting records."""
        if self._is_begun:
            self.store.rollback()
        self._is_begun = False
        self._waiting.clear()

    def _with_changes(self, work: Callable[[], _Result]) -> _Result:
        """Run ``work``, and repeat it after each table change that it needs. The change has a separate transaction, because a change
        commits in some databases, and because its locks must be short."""
        while True:
            try:
                return work()
            except TableChange as change:
                is_rolled_back = self._is_begun
                if is_rolled_back:
                    self._roll_back()
                self._tables.change(change, self._changes, self._check_change)
                if is_rolled_back:
                    raise RolledBackException(str(change), RollbackReason.CHANGED) from None
            except RefusedException:
                raise
            except DataException as error:  # the exception is not only about one batch
                raise ConnectException(error.message) from error

    def _check_change(self) -> None:
        """Check the claims in the transaction of a change."""
        self._is_begun = True
        try:
            self._check_claims(self)
        finally:
            self._is_begun = False

    # Records

    def _layout(self, batch: Batch) -> Layout:
        """The layout of the batch. If its records cannot be rows, raises DataException, and no record is accepted."""
        dialect = self.store.dialect
        layout = build_layout(self._settings, batch, dialect.stored_name)
        for column in layout.columns:
            try:
                dialect.column_type(column.schema)
            except ConnectException as error:
                text = f"Column {column.name}: {error}. {column.without_type}"
                raise DataException(f"Records of topic {batch.topic} cannot be rows: {text}") from error
        return layout

    def _add(self, batch: Batch, layout: Layout) -> None:
        """Add the batch to the waiting records of its table. The call may be repeated until it returns."""
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
        """Write the tables that have at least ``least`` waiting records."""
        for name, waiting in list(self._waiting.items()):
            if waiting.count >= least:
                self._write(name, waiting)

    def _write_or_drop(self) -> None:
        """Write all records of the only waiting batch, or none."""
        for name, waiting in list(self._waiting.items()):
            writer = self._writer(name, waiting.layout)
            try:
                if writer is not None:
                    with self.store.savepoint():
                        writer.write(Records(waiting.batches))
            except RefusedException as error:
                raise self._refusal(waiting.batches[0], error.row, error.message) from error
            finally:
                self._waiting.clear()

    def _write(self, name: str, waiting: _Waiting) -> None:
        """Write records. If a record is refused, all records since the last commit are rolled back. The framework then puts these records
        again, and finds the refused record."""
        writer = self._writer(name, waiting.layout)
        if writer is not None:
            try:
                writer.write(Records(waiting.batches))
            except RefusedException as error:
                self._roll_back()
                self._writes_at_once = True
                raise RolledBackException(error.message, RollbackReason.REFUSED) from error
        self._waiting.pop(name, None)

    def _writer(self, name: str, layout: Layout) -> TableWriter | None:
        """The table's writer, in a transaction. None if the records are deletes and the table does not exist."""
        writer = self._tables.writer(name, layout)
        if writer is None:
            return None
        self.begin()
        return self._tables.locked_writer(name, layout, writer)

    def _refusal(self, batch: Batch, row: int | None, reason: str) -> RefusedException:
        """The error for a refused record. If ``row`` is None, the record is unknown, unless there is only one."""
        partition, offset = location_of(batch.slice(row or 0, 1))
        location = f"the record at offset {offset}" if row is not None or batch.num_records == 1 else f"a record from offset {offset} on"
        error = RefusedException(f"Table {self._settings.table_of(batch.topic)} refuses {location} of {partition}: {reason}", row)
        error.record = row
        return error
