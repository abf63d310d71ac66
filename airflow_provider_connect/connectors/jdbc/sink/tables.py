"""The tables to which one connection of a sink writes, and the writing of records to each table. Knows nothing of offsets and commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException, StatementException
from airflow_provider_connect.connectors.jdbc.sink.columns import find_misfits, refuse_nulls, remaining_rows
from airflow_provider_connect.connectors.jdbc.sink.layout import Layout, Records
from airflow_provider_connect.connectors.jdbc.sink.rounded_numbers import RoundedNumbers
from airflow_provider_connect.connectors.jdbc.sink.settings import DELETE_ENABLED, InsertMode, SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore, table_name
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable, changes
from airflow_provider_connect.data.arrow import pa, pc, pl
from airflow_provider_connect.data.columns import row_numbers
from airflow_provider_connect.errors import ConnectException

log = logging.getLogger(__name__)


class TableChange(Exception):
    """A table must be changed before further records are written."""

    def __init__(self, name: str, layout: Layout, statements: list[str]) -> None:
        super().__init__(name)
        self.name = name
        self.layout = layout
        self.statements = statements


class SinkTables:
    """Reads each table once, and again after another process has changed it."""

    def __init__(self, store: SinkStore, settings: SinkSettings, rounded: RoundedNumbers) -> None:
        self._store = store
        self._rounded = rounded
        self._settings = settings
        self._tables: dict[str, TargetTable] = {}
        self._writers: dict[str, TableWriter] = {}
        self._given: dict[str, Layout] = {}  # for each writer, the layout from which it was created
        self._locked: set[str] = set()  # tables whose columns stay unchanged until the transaction ends

    @property
    def written(self) -> list[TargetTable]:
        """The tables that have a writer."""
        return [self._tables[name] for name in self._writers if name in self._tables]

    def begun(self) -> None:
        """Called after a transaction has started."""
        self._locked.clear()

    def writer(self, name: str, layout: Layout) -> TableWriter | None:
        """The writer for records of ``layout``. None if the records are deletes and the table does not exist yet. Raises TableChange."""
        writer = self._writers.get(name)
        if writer is not None and self._given.get(name) == layout:
            return writer
        table, statements = self._needed(name, layout)
        if statements:
            raise TableChange(name, layout, statements)
        if table is None:
            return None
        writer = self._writers[name] = TableWriter(self._store, table, self._named(layout, table), self._settings, self._rounded)
        self._given[name] = layout
        return writer

    def locked_writer(self, name: str, layout: Layout, writer: TableWriter) -> TableWriter | None:
        """The writer for these records in this transaction. It is a new writer if another process has changed the table meanwhile."""
        if name in self._locked:
            return writer
        self._locked.add(name)
        if self._store.lock_to_write(self._tables[name]):
            return writer
        self._forget(name)
        return self.writer(name, layout)

    def change(self, change: TableChange, done: set[str], check_claim: Callable[[], None]) -> None:
        """Change a table. Steps: (1) lock the table, unless the claim is older; (2) read the table again, because another task may have
        changed it; (3) run the statements that are still needed. A new table cannot be locked, so another task may create it first.
        ``done`` has statements that were already executed, and must not be needed again."""
        store, table = self._store, self._tables.get(change.name)
        self._forget(change.name)
        statements = change.statements
        store.begin()
        try:
            check_claim()
            if table is not None:
                store.lock_to_change(table)  # 1
                statements = self._needed(change.name, change.layout)[1]  # 2
            if statements and done.issuperset(statements):
                raise ConnectException(f"Table {change.name} still needs {'; '.join(statements)} after these statements")
            for statement in statements:  # 3
                store.execute(statement)
            store.commit()
            done.update(statements)  # after the commit, because a lost connection repeats them
            for statement in statements:
                log.info("%s", statement)
        except (StatementException, RefusedException) as error:
            store.rollback()
            self._forget(change.name)
            if self._needed(change.name, change.layout)[1] == statements:
                raise ConnectException(
                    f"Table {change.name} cannot be changed for new records by {'; '.join(statements)}: {error}. Create what the "
                    "database misses, give the user the right that it asks for, or make the change yourself"
                ) from error
        self._forget(change.name)

    def _needed(self, name: str, layout: Layout) -> tuple[TargetTable | None, list[str]]:
        """The table, and the statements that must run before these records are written."""
        target = table_name(name, self._store.url, self._store.dialect)
        known = self._tables.get(name)
        if known is not None and self._fits(layout, known, target):
            return known, []
        table = self._store.read_table(target, layout.keys)  # another process may have changed it
        if table is not None:
            self._tables[name] = table
        return table, changes(self._named(layout, table), table, target, self._settings, self._store.dialect)

    def _fits(self, layout: Layout, table: TargetTable, target: TableName) -> bool:
        try:
            return not changes(self._named(layout, table), table, target, self._settings, self._store.dialect)
        except ConnectException:
            return False

    def _named(self, layout: Layout, table: TargetTable | None) -> Layout:
        """The layout with the names of the table's columns, if the database ignores case."""
        return layout.named_as(() if table is None else table.columns) if self._store.dialect.ignores_case else layout

    def _forget(self, name: str) -> None:
        self._tables.pop(name, None)
        self._writers.pop(name, None)


class _HiddenException(RefusedException):
    """The last change of a key is refused, and an earlier change of the key is not yet written. The rows before ``row`` must be written
    first."""


class TableWriter:
    """Writes the records of one layout into one table, ``batch.size`` at a time."""

    def __init__(self, store: SinkStore, table: TargetTable, layout: Layout, settings: SinkSettings, rounded: RoundedNumbers) -> None:
        self._store = store
        self._rounded = rounded
        self._table = table
        self.layout = layout
        self._mode = settings.insert_mode
        self._most = settings.batch_size

    def write(self, records: Records) -> None:
        """Write all records. Raises RefusedException, with the row if known. Some rows may then already be written."""
        for start in range(0, len(records), self._most):
            try:
                self._write_piece(records.slice(start, start + self._most))
            except RefusedException as error:
                raise RefusedException(error.message, None if error.row is None else start + error.row) from error

    def write_without_refused(self, records: Records) -> dict[int, str] | None:
        """Write the records without refused records, with the same result as one by one. Returns the reasons by row. None means that no
        record is written, because the database does not name refused rows."""
        found: dict[int, str] = {}
        start = 0
        try:
            with self._store.savepoint():
                while start < len(records):
                    count, refused = self._write_some(records.slice(start, start + self._most))
                    found |= {start + row: reason for row, reason in refused.items()}
                    start += count
        except (RefusedException, StatementException):
            return None
        return found

    def _write_some(self, records: Records) -> tuple[int, dict[int, str]]:
        """Write some of the first records. Returns their number, and the reasons for refused ones.

        If the last change of a key is refused, the previous change of the key takes effect. The records before the refused record are then
        written first.
        """
        store = self._store
        rows, deletes = self._rows(records)
        refused = find_misfits(len(records), lambda *piece: self._refuse_nulls(*_piece_of(piece, records, rows, deletes)))
        kept = remaining_rows(len(records), refused)
        if refused:
            rows, deletes = rows.take(kept), None if deletes is None else deletes.take(kept)
        self._note_rounded(rows)
        keys = rows.select(list(self.layout.keys))
        try:
            with store.savepoint():
                equal = self._equal_keys(keys, deletes)
                if equal is None:
                    raise RefusedException("Equal keys are not known before the rows are written in their order")
                effect = self._effect(keys, equal, deletes)
                written = effect.written if effect.written is not None else row_numbers(rows.num_rows)
                if effect.deleted is not None:
                    self._apply(keys, effect.deleted, lambda some: store.delete(self._table, some))
                changed = _with_first_keys(rows.take(written), keys, effect)
                found = store.write_without_refused(self._table, changed, self.layout.keys, self._mode)
                if found is None:
                    raise RefusedException("The database does not name the rows that it refuses")
                bad = [written[row].as_py() for row in found]
                hidden = [] if self._mode is InsertMode.INSERT else with_earlier_key(equal, bad)
                if hidden:
                    raise _HiddenException("", min(hidden))
        except _HiddenException as error:
            return self._write_some(records.slice(0, kept[error.row].as_py()))
        return len(records), refused | {kept[row].as_py(): reason for row, reason in zip(bad, found.values(), strict=True)}

    def _write_piece(self, records: Records) -> None:
        """Write records with one or a few statements."""
        rows, deletes = self._rows(records)
        self._refuse_nulls(records, rows, deletes)
        self._note_rounded(rows)
        keys = rows.select(list(self.layout.keys))
        equal = self._equal_keys(keys, deletes)
        if equal is None:
            self._write_in_order(rows, keys, deletes)
            return
        effect = self._effect(keys, equal, deletes)
        if effect.deleted is not None:
            self._apply(keys, effect.deleted, lambda some: self._store.delete(self._table, some))
        self._apply(rows, effect.written, lambda some: self._put(_with_first_keys(some, keys, effect)))

    def _equal_keys(self, keys: pa.Table, deletes: pa.ChunkedArray | None) -> pa.Table | None:
        """``SinkStore.equal_keys``, unless every record is a separate row."""
        is_every_row = deletes is None and self._mode is InsertMode.INSERT
        return keys if is_every_row or keys.num_rows < 2 else self._store.equal_keys(self._table, keys)

    def _effect(self, keys: pa.Table, equal: pa.Table, deletes: pa.ChunkedArray | None) -> Effect:
        return effect_of(equal, deletes, self._mode, has_variants=equal.column_names != keys.column_names)

    def _write_in_order(self, rows: pa.Table, keys: pa.Table, deletes: pa.ChunkedArray | None) -> None:
        """Write the records in order, as groups of consecutive deletes and consecutive changes, because any record may affect the same row
        as the record before it."""
        if deletes is None:
            self._put(rows)
            return
        numbers = row_numbers(rows.num_rows)
        ends = [*(pc.indices_nonzero(pc.not_equal(deletes.slice(1), deletes.slice(0, len(deletes) - 1))).to_pylist()), rows.num_rows - 1]
        start = 0
        for end in ends:
            some = numbers.slice(start, end + 1 - start)
            if deletes[start].as_py():
                self._apply(keys, some, lambda found: self._store.delete(self._table, found))
            else:
                self._apply(rows, some, self._put)
            start = end + 1

    def _rows(self, records: Records) -> tuple[pa.Table, pa.ChunkedArray | None]:
        """The records' rows, and a mask of deletes. The mask is None if there are no deletes."""
        deletes = records.deletes() if self.layout.has_deletes else None
        return records.table(self.layout), None if deletes is None or not pc.any(deletes).as_py() else deletes

    def _apply(self, rows: pa.Table, numbers: pa.Array | None, write: Callable[[pa.Table], None]) -> None:
        """Write the rows with these indices. None means all rows."""
        some = rows if numbers is None else rows.take(numbers)
        if not some.num_rows:
            return
        try:
            write(some)
        except RefusedException as error:
            if numbers is None or error.row is None:
                raise
            raise RefusedException(error.message, numbers[error.row].as_py()) from error

    def _put(self, rows: pa.Table) -> None:
        store, keys = self._store, self.layout.keys
        match self._mode:
            case InsertMode.INSERT:
                store.insert(self._table, rows)
            case InsertMode.UPSERT:
                store.upsert(self._table, rows, keys)
            case InsertMode.UPDATE:
                store.update(self._table, rows, keys)

    def _note_rounded(self, rows: pa.Table) -> None:
        self._rounded.add(self._table, rows, rounds_decimals=not self._store.dialect.has_fixed_types)

    def _refuse_nulls(self, records: Records, rows: pa.Table, deletes: pa.ChunkedArray | None) -> None:
        if not self.layout.has_deletes:
            empty = records.deletes()
            if pc.any(empty).as_py():
                row = pc.index(empty, True).as_py()
                raise RefusedException(f"A record without a value, and {DELETE_ENABLED} is false", row)
        keys = self.layout.keys
        if deletes is None:
            refuse_nulls(rows, self._table, keys)
            return
        refuse_nulls(rows.select(list(keys)), self._table, keys)
        kept = pc.indices_nonzero(pc.invert(deletes))
        self._apply(rows, kept, lambda some: refuse_nulls(some, self._table, keys))


def _with_first_keys(rows: pa.Table, keys: pa.Table, effect: Effect) -> pa.Table:
    """The rows of ``effect.written`` with the keys that they would have if the records were written one by one."""
    if effect.keyed is None:
        return rows
    first = keys.take(effect.keyed)
    for name in keys.column_names:
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), first[name])
    return rows


def _piece_of(
    piece: tuple[int, int], records: Records, rows: pa.Table, deletes: pa.ChunkedArray | None
) -> tuple[Records, pa.Table, pa.ChunkedArray | None]:
    start, length = piece
    return records.slice(start, start + length), rows.slice(start, length), None if deletes is None else deletes.slice(start, length)


@dataclass(frozen=True, slots=True)
class Effect:
    """The changes that records make to a table: first ``deleted`` rows, then ``written`` rows. Both are ascending record indices. If
    ``written`` is None, all records are written. For each of ``written``, ``keyed`` has the first record with the same key. A new row keeps
    that record's key, because the last record may have another form of an equal key. If ``keyed`` is None, equal keys are identical."""

    deleted: pa.Array | None
    written: pa.Array | None
    keyed: pa.Array | None = None


def with_earlier_key(keys: pa.Table, rows: Sequence[int]) -> list[int]:
    """Those of ``rows`` that have the same key as an earlier row. For ``keys``, see ``effect_of``."""
    if not rows:
        return []
    frame = _frame(keys)
    is_first = frame.select(_whole(frame.columns).is_first_distinct()).to_series()
    return [row for row in rows if not is_first[row]]


EVERYTHING: Final = Effect(None, None)


def effect_of(keys: pa.Table, deletes: pa.ChunkedArray | None, mode: InsertMode, *, has_variants: bool = False) -> Effect:
    """The effect of records that are applied together. ``keys`` are equal where the database considers the records' keys equal.
    ``has_variants``: equal keys may have different forms.

    Of several changes of one key, only the last is written. Inserts are an exception, because the database reports two inserts of one key
    as an error. A delete cancels all earlier changes of its key.
    """
    if deletes is None and mode is InsertMode.INSERT:
        return EVERYTHING
    frame = _frame(keys).with_row_index("row")
    names = frame.columns[1:]
    is_last = _whole(names).is_last_distinct()
    if deletes is None:
        last = (frame.with_columns(_first(names)) if has_variants else frame).filter(is_last)
        return EVERYTHING if len(last) == len(frame) else Effect(None, last["row"].to_arrow(), _column(last, "first"))
    marked = frame.with_columns(pl.Series("is delete", deletes.to_numpy()))
    last_delete = pl.when("is delete").then(pl.col("row").cast(pl.Int64)).max().over(names).fill_null(-1)
    left = marked.with_columns(last_delete.alias("last delete")).filter(pl.col("row") >= pl.col("last delete"))
    written = left.filter(~pl.col("is delete"))
    if mode is InsertMode.INSERT:
        return Effect(left.filter("is delete")["row"].to_arrow(), written["row"].to_arrow())
    written = (written.with_columns(_first(names)) if has_variants else written).filter(is_last)
    return Effect(left.filter("is delete")["row"].to_arrow(), written["row"].to_arrow(), _column(written, "first"))


def _column(frame: Any, name: str) -> pa.Array | None:  # a polars DataFrame
    return frame[name].to_arrow() if name in frame.columns else None


def _first(names: Sequence[str]) -> Any:  # a polars expression
    """The first row of each key."""
    return pl.col("row").min().over(names).alias("first")


def _frame(keys: pa.Table) -> Any:  # a polars DataFrame
    """The keys, with names that no other column has."""
    return pl.DataFrame(pl.from_arrow(keys.rename_columns([f"key {number}" for number in range(keys.num_columns)])))


def _whole(names: Sequence[str]) -> Any:  # a polars expression
    """A whole key as one value."""
    return pl.col(names[0]) if len(names) == 1 else pl.struct(*names)
