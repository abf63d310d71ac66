"""Any database of SQLAlchemy as a sink's store. Writes rows with ``executemany``, from whole columns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import INTEGERS, TIMESTAMPS, Column, ColumnKind, TableName
from airflow_provider_connect.connectors.jdbc.database.database import read_columns
from airflow_provider_connect.connectors.jdbc.database.database_errors import (
    RefusedException,
    StatementException,
    error_number,
    is_retriable_rollback,
    redacted,
)
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import DRIVER_ERRORS, SqlAlchemyDatabase
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect, RowSql
from airflow_provider_connect.connectors.jdbc.dialects.inspection import inspected_name, stored_name
from airflow_provider_connect.connectors.jdbc.sink.columns import (
    cast_column,
    local_times,
    midnights,
    refuse_far_times,
    refuse_wide_numbers,
    unzoned_texts,
)
from airflow_provider_connect.connectors.jdbc.sink.rounded_numbers import refuse_unheld_numbers
from airflow_provider_connect.connectors.jdbc.sink.settings import INSERT_MODE, InsertMode
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable, UniqueIndex
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException

_SAVEPOINT: Final = "connect_piece"
_LOCK_SECONDS: Final = 60


class RowStore(SqlAlchemyDatabase):
    """One connection."""

    session = ""
    needs_transactions = False

    def __init__(self, url: DatabaseUrl, dialect: Dialect, time_zone: str) -> None:
        super().__init__(url)
        self.url = url
        self.dialect = dialect
        self.blocks_writers = dialect.locks_database
        self._time_zone = time_zone
        self._unlock: str | None = None  # the statement that releases the lock of ``lock_to_change``
        for sql in dialect.write_statements:
            self.execute(sql)
        if not dialect.locks_database:
            with self._translating_errors():
                self._require_connection().commit()
                self._require_connection().execution_options(isolation_level="READ COMMITTED")

    # Transactions

    def begin(self) -> None:
        if self.dialect.locks_database:
            self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._end("COMMIT")

    def rollback(self) -> None:
        self._end("ROLLBACK")

    def _end(self, word: str) -> None:
        if self.dialect.locks_database:
            self.execute(word)
            return
        with self._translating_errors():
            self._require_connection().commit() if word == "COMMIT" else self._require_connection().rollback()
        if self._unlock is not None:
            self.execute(self._unlock)
            self._unlock = None

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        create, roll_back, release = self.dialect.savepoint
        self.execute(f"{create} {_SAVEPOINT}")
        try:
            yield
        except (DataException, StatementException):
            self.execute(f"{roll_back} {_SAVEPOINT}")
            raise
        if release is not None:
            self.execute(f"{release} {_SAVEPOINT}")

    def end_session(self, session: str) -> None:
        """Not supported. A connection that an older claim has left open ends when the claim's process ends."""

    def locked_rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.rows(self.dialect.locking(sql))

    # Tables

    def read_table(self, name: TableName, keys: Sequence[str] = ()) -> TargetTable | None:
        if (lock := self.dialect.definition_lock(name)) is not None:
            with contextlib.suppress(StatementException):  # no such table or privilege
                self.rows(lock)
        columns = {column.name: column for column in read_columns(self, self.url, name)}
        if not columns:
            return None
        if self.needs_transactions:
            self._refuse_no_transactions(name)
        indexes = self._indexes(name, columns.values())
        unique = tuple(index.columns for index in indexes if index.columns)
        is_view = not unique and self._is_view(name)
        return TargetTable(name, columns, unique, endings=self._endings(name), is_view=is_view, indexes=indexes)

    def _refuse_no_transactions(self, name: TableName) -> None:
        if (base := self.dialect.view_base(self, name)) is not None:
            self._refuse_no_transactions(base[0])
        sql = self.dialect.unsafe_engine_query(name)
        for (engine,) in self.rows(sql) if sql is not None else ():
            raise ConfigException.of(
                "delivery.guarantee",
                "exactly_once",
                f"Table {name} is of engine {engine}, which has no transactions. Make it a table of InnoDB (ALTER TABLE … ENGINE=InnoDB), "
                "or set at_least_once.",
            )

    def _endings(self, name: TableName) -> dict[str, str]:
        sql = self.dialect.definition_query(name)
        if sql is None:
            return {}
        try:
            [row] = self.rows(sql)
        except StatementException:  # no privilege to read the definition
            return {}
        return self.dialect.definition_rests(str(row[1]))

    def lock_to_change(self, table: TargetTable) -> None:
        lock = self.dialect.change_lock(table.name, _LOCK_SECONDS)
        if lock is not None:
            query, self._unlock = lock
            if self.rows(query) != [(1,)]:
                raise RetriableException(f"Another task has been changing table {table.name} for {_LOCK_SECONDS} s")

    def lock_to_write(self, table: TargetTable) -> bool:
        """Takes no lock, because the database converts values to its columns."""
        return True

    def _indexes(self, name: TableName, columns: Iterable[Column]) -> tuple[UniqueIndex, ...]:
        """The primary key and the unique indexes. A view has those of its table, without those in which its rows are equal to no others."""
        base = self.dialect.view_base(self, name)
        if base is None:
            known = list(columns)
            key = frozenset(column.name for column in known if column.key_position)
            distinct = frozenset(column.name for column in known if column.is_distinct_by_default)
            found = ((key, True),) if key else ()
            return tuple(
                UniqueIndex(names if is_whole else frozenset(), names & distinct)
                for names, is_whole in (*found, *self._unique_indexes(name))
            )
        table, originals = base
        names = {self.dialect.folded(column): name for name, column in originals.items()}
        try:
            indexes = self._indexes(table, read_columns(self, self.url, table))
        except StatementException:  # no privilege to read the table's definition
            return ()
        return tuple(self._index_of_view(index, names) for index in indexes if self._has_all(names, index.distinct))

    def _index_of_view(self, index: UniqueIndex, names: Mapping[str, str]) -> UniqueIndex:
        """``names``: the view's columns by the folded names of its table's."""
        columns, distinct = (
            frozenset(names.get(self.dialect.folded(name), "") for name in each) for each in (index.columns, index.distinct)
        )
        return UniqueIndex(columns if self._has_all(names, index.columns) else frozenset(), distinct)

    def _has_all(self, names: Mapping[str, str], columns: Iterable[str]) -> bool:
        return all(self.dialect.folded(column) in names for column in columns)

    def _is_view(self, name: TableName) -> bool:
        with self._translating_errors():
            inspector = self._inspector()
            views = inspector.get_view_names(inspected_name(inspector, name.schema or name.catalog))
            return inspected_name(inspector, name.table) in views

    def _unique_indexes(self, name: TableName) -> list[tuple[frozenset[str], bool]]:
        """The columns of each unique index, and whether the index has only whole columns."""
        schema = name.schema or name.catalog
        with self._translating_errors():
            inspector = self._inspector()
            table, schema = inspected_name(inspector, name.table), inspected_name(inspector, schema)
            indexes = [index for index in inspector.get_indexes(table, schema=schema) if index.get("unique")]
            constraints = inspector.get_unique_constraints(table, schema=schema)
        listed = {index["name"] for index in indexes}
        columns = [(index["column_names"], _is_whole(index)) for index in indexes]
        columns += [(each["column_names"], True) for each in constraints if each["name"] is None or each["name"] not in listed]
        return [
            (frozenset(str(stored_name(inspector, column)) for column in found if column), is_whole and all(found))
            for found, is_whole in columns
        ]

    def _inspector(self) -> Any:  # Any: SQLAlchemy's Inspector
        return self._sqlalchemy.inspect(self._require_connection().execution_options(no_parameters=False))  # names may contain %

    # Rows

    def equal_keys(self, table: TargetTable, keys: pa.Table) -> pa.Table | None:
        """Known only for integers and bytes. For other types, the database's collations, affinities and rounding decide."""
        types = pa.types
        for name, column in zip(keys.column_names, keys.columns, strict=True):
            kind = table.columns[name].kind
            if not (types.is_integer(column.type) and kind in INTEGERS) and not (types.is_binary(column.type) and kind is ColumnKind.BYTES):
                return None
        return keys

    def insert(self, table: TargetTable, rows: pa.Table) -> None:
        self._execute_rows(self._row(table, rows).insert, table, rows)

    def upsert(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        if self.dialect.upserts_by_any_index and has_other_unique(table, rows.column_names, keys):
            self._insert_missing(table, rows, keys)
            self.update(table, rows, keys)
            return
        sql = self.dialect.upsert(self._row(table, rows), keys)
        if sql is None:
            raise ConfigException.of(INSERT_MODE, "upsert", f"Upsert is not known for {self.dialect.name}. Use insert or update.")
        self._execute_rows(sql, table, rows)

    def _insert_missing(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        """Insert the first row of each key that is not in the table."""
        count = len(rows.column_names)
        names, marks = ", ".join(map(self._name, rows.column_names)), self._marks(count + len(keys))
        same = " AND ".join(f"{self._name(name)} = {mark}" for name, mark in zip(keys, marks[count:], strict=True))
        missing = f"WHERE NOT EXISTS (SELECT 1 FROM {self._table(table)} WHERE {same})"
        sql = f"INSERT INTO {self._table(table)} ({names}) SELECT {', '.join(marks[:count])} FROM dual {missing}"
        given = pa.table([*rows.columns, *(rows[name] for name in keys)], names=[*rows.column_names, *keys])
        self._execute_rows(sql, table, given)

    def update(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        rest = [name for name in rows.column_names if name not in keys]
        if not rest:
            return
        ordered = rows.select([*rest, *keys])
        marks = iter(self._marks(len(ordered.column_names)))
        changes = ", ".join(f"{self._name(name)} = {next(marks)}" for name in rest)
        same = " AND ".join(f"{self._name(name)} = {next(marks)}" for name in keys)
        self._execute_rows(f"UPDATE {self._table(table)} SET {changes} WHERE {same}", table, ordered)

    def delete(self, table: TargetTable, rows: pa.Table) -> None:
        marks = self._marks(len(rows.column_names))
        same = " AND ".join(f"{self._name(name)} = {mark}" for name, mark in zip(rows.column_names, marks, strict=True))
        self._execute_rows(f"DELETE FROM {self._table(table)} WHERE {same}", table, rows)

    def write_without_refused(self, table: TargetTable, rows: pa.Table, keys: Sequence[str], mode: InsertMode) -> None:
        """Not supported, because drivers do not name the refused row."""

    def _row(self, table: TargetTable, rows: pa.Table) -> RowSql:
        names = rows.column_names
        return RowSql(self._table(table), {name: self._name(name) for name in names}, self._marks(len(names)))

    def _marks(self, count: int) -> list[str]:
        """The driver's placeholders for parameters."""
        style = self.engine.dialect.paramstyle
        if style in ("format", "pyformat"):
            return ["%s"] * count
        return ["?"] * count if style == "qmark" else [f":{number + 1}" for number in range(count)]

    def _name(self, name: str) -> str:
        """A quoted name inside a statement with parameters."""
        quoted = self.dialect.quoted(name)
        return quoted.replace("%", "%%") if self.engine.dialect.paramstyle in ("format", "pyformat") else quoted

    def _table(self, table: TargetTable) -> str:
        return ".".join(map(self._name, table.name.parts))

    def _execute_rows(self, sql: str, table: TargetTable, rows: pa.Table) -> None:
        columns = [self._values(table, name, column) for name, column in zip(rows.column_names, rows.columns, strict=True)]
        with self._translating_errors():
            try:
                self._require_connection().exec_driver_sql(sql, list(zip(*columns, strict=True)))
            except DRIVER_ERRORS as error:  # from encoding values
                raise RefusedException(f"The driver cannot write a value: {type(error).__name__}: {error}") from error

    def _values(self, table: TargetTable, name: str, column: pa.ChunkedArray) -> list[Any]:
        """A column's values for the driver."""
        target, types = table.columns[name], pa.types
        if self.dialect.needs_unzoned_texts:
            column = unzoned_texts(column, target, self._time_zone)
        refuse_wide_numbers(column, target)
        refuse_far_times(column, target)
        if self.dialect.replaces_numbers:
            refuse_unheld_numbers(column, target)
        if types.is_date(column.type) and target.kind in TIMESTAMPS:
            column = midnights(column, target, self._time_zone).cast(pa.timestamp("us"))
        elif types.is_timestamp(column.type):
            zone = "UTC" if target.kind is ColumnKind.TIMESTAMP_TZ else self._time_zone
            column = cast_column(name, local_times(column, zone), pa.timestamp("us"))
        elif types.is_decimal(column.type) and target.kind is not ColumnKind.DECIMAL:
            column = column.cast(pa.float64())
        elif types.is_boolean(column.type) and target.kind is not ColumnKind.BOOLEAN:
            column = column.cast(pa.int8())
        is_text = types.is_temporal(column.type) or types.is_decimal(column.type)
        if self.dialect.writes_times_as_text and is_text:
            column = column.cast(pa.string())
        values: list[Any] = column.to_pylist()
        return values

    def _translated(self, error: Any) -> ConnectException:  # Any: a SQLAlchemyError
        """RefusedException for bad values, RetriableException for a transaction to repeat, otherwise StatementException."""
        errors, original = self._sqlalchemy.exc, getattr(error, "orig", None)
        text, number = redacted(self.url, str(original or error)), error_number(original)
        if getattr(error, "connection_invalidated", False) or is_retriable_rollback(self.url, text, None, number):
            return RetriableException(f"{self.url.address} has ended the transaction: {text}")
        is_of_driver = number is None and self.dialect.numbers_statement_errors
        if is_of_driver and isinstance(error, errors.ProgrammingError | errors.InterfaceError):
            return RefusedException(text)
        if isinstance(error, errors.IntegrityError | errors.DataError) or number in self.dialect.value_numbers:
            return RefusedException(text)
        return super()._translated(error)


def has_other_unique(table: TargetTable, given: Iterable[str], keys: Iterable[str]) -> bool:
    """Whether a row of the ``given`` columns may have the same values in a unique index as a row with another key."""
    known, key = frozenset(given), frozenset(keys)
    return any(index.columns != key and index.distinct <= known for index in table.indexes)


def _is_whole(index: Mapping[str, Any]) -> bool:  # Any: SQLAlchemy's ReflectedIndex
    """Whether an index has no beginnings of columns and no expressions."""
    return bool(index["column_names"]) and not any(option.endswith("_length") for option in index.get("dialect_options", {}))
