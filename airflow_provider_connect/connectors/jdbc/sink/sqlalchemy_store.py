"""Any database of SQLAlchemy as a sink's store: rows by ``executemany``, from whole columns. SQLite, MySQL and MariaDB can upsert."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import INTEGERS, TIMESTAMPS, ColumnKind
from airflow_provider_connect.connectors.jdbc.catalog.metadata import inspected_name, read_columns, stored_name
from airflow_provider_connect.connectors.jdbc.database.database_errors import (
    RefusedException,
    StatementException,
    is_others_turn,
    number_of_error,
    without_secrets,
)
from airflow_provider_connect.connectors.jdbc.database.database_options import MARIADB, MSSQL, MYSQL, ORACLE, SQLITE
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.database.dialect import Dialect, TableName
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import OF_DRIVER, SqlAlchemyDatabase
from airflow_provider_connect.connectors.jdbc.sink.columns import (
    cast_column,
    local_times,
    midnights,
    refuse_far_times,
    refuse_wide_numbers,
)
from airflow_provider_connect.connectors.jdbc.sink.settings import INSERT_MODE, InsertMode
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable, text_literal
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException

_SAVEPOINT: Final = "connect_piece"
_BAD_VALUES: Final = (1048, 1264, 1265, 1292, 1364, 1366, 1406, 1411, 1452, 3140, 3819, 4025)
_MYSQLS: Final = (MYSQL, MARIADB)
# a line of SHOW CREATE TABLE: name of the column, then the rest of its definition
_DEFINITION: Final = re.compile(r"\s*+`((?:[^`]|``)+)` \w++(?:\([^)]*+\))?+(?: unsigned)?+(?: zerofill)?+ ?+(.*?),?")
_LONGEST_LOCK: Final = 64
_LOCK_SECONDS: Final = 60


class RowStore(SqlAlchemyDatabase):
    """One connection."""

    session = ""
    needs_transactions = False

    def __init__(self, url: DatabaseUrl, dialect: Dialect, time_zone: str) -> None:
        super().__init__(url)
        self.url = url
        self.dialect = dialect
        self.blocks_writers = url.dialect == SQLITE
        self._time_zone = time_zone
        self._lock: str | None = None
        if url.dialect in _MYSQLS:  # as by the JDBC drivers: else what does not fit is cut without an error; and texts mean the same
            mode = "CONCAT(REPLACE(@@SESSION.sql_mode, 'NO_BACKSLASH_ESCAPES', ''), ',STRICT_TRANS_TABLES')"
            self.execute(f"SET SESSION sql_mode = {mode}")
        if url.dialect != SQLITE:
            with self._refusing():
                self._connected().commit()
                self._connected().execution_options(isolation_level="READ COMMITTED")

    # Transactions

    def begin(self) -> None:
        if self.url.dialect == SQLITE:
            self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._end("COMMIT")

    def rollback(self) -> None:
        self._end("ROLLBACK")

    def _end(self, word: str) -> None:
        if self.url.dialect == SQLITE:
            self.execute(word)
            return
        with self._refusing():
            self._connected().commit() if word == "COMMIT" else self._connected().rollback()
        if self._lock is not None:
            self.execute(f"DO RELEASE_LOCK({self._lock})")
            self._lock = None

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        is_mssql = self.url.dialect == MSSQL
        self.execute(f"{'SAVE TRANSACTION' if is_mssql else 'SAVEPOINT'} {_SAVEPOINT}")
        try:
            yield
        except (DataException, StatementException):
            self.execute(f"ROLLBACK {'TRANSACTION' if is_mssql else 'TO'} {_SAVEPOINT}")
            raise
        if not is_mssql and self.url.dialect != ORACLE:
            self.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")

    def end_session(self, session: str) -> None:
        """Not known here: what an older claim has left open ends with its process."""

    def locked_rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self.url.dialect == MSSQL:  # a hint of the table's: locked until the transaction ends, as also the gaps
            before, where, behind = sql.partition(" WHERE ")
            return self.rows(f"{before} WITH (UPDLOCK, HOLDLOCK){where}{behind}")
        return self.rows(sql if self.url.dialect == SQLITE else f"{sql} FOR UPDATE")

    # Tables

    def read_table(self, name: TableName) -> TargetTable | None:
        if self.url.dialect in _MYSQLS:
            self._hold_definition(name)
        columns = {column.name: column for column in read_columns(self, self.url, name)}
        if not columns:
            return None
        if self.needs_transactions and self.url.dialect in _MYSQLS:
            self._refuse_no_transactions(name)
        key = frozenset(column.name for column in columns.values() if column.key_position)
        endings = self._endings(name) if self.url.dialect in _MYSQLS else {}
        return TargetTable(name, columns, ((key,) if key else ()) + self._unique_indexes(name), endings=endings)

    def _hold_definition(self, name: TableName) -> None:
        """Until the transaction ends, no other session can finish an ALTER of the table: within one, its columns are listed without its
        keys. Reading takes the lock that does so; it needs the right to select."""
        with contextlib.suppress(StatementException):  # no such table, or no such right
            self.rows(f"SELECT 1 FROM {self.dialect.table(name)} LIMIT 0")

    def _refuse_no_transactions(self, name: TableName) -> None:
        """Rows in a table of MyISAM or Aria stay where their transaction is rolled back, and would come again."""
        schema = "DATABASE()" if name.catalog is None else text_literal(name.catalog, self.dialect)
        engines = self.rows(
            "SELECT t.ENGINE FROM information_schema.TABLES t JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE "
            f"WHERE t.TABLE_SCHEMA = {schema} AND t.TABLE_NAME = {text_literal(name.table, self.dialect)} AND e.TRANSACTIONS <> 'YES'"
        )
        for (engine,) in engines:
            raise ConfigException.of(
                "delivery.guarantee",
                "exactly_once",
                f"Table {name} is of engine {engine}, which has no transactions. Make it a table of InnoDB (ALTER TABLE … ENGINE=InnoDB), "
                "or set at_least_once.",
            )

    def _endings(self, name: TableName) -> dict[str, str]:
        """What stands in MySQL's definition of each column behind the type: null or not, default, comment."""
        try:
            [row] = self.rows(f"SHOW CREATE TABLE {self.dialect.table(name)}")
        except StatementException:  # without the right to see it
            return {}
        found = (_DEFINITION.fullmatch(line) for line in str(row[1]).splitlines())
        return {match[1].replace("``", "`"): match[2] for match in found if match}

    def lock_to_change(self, table: TargetTable) -> None:
        """MySQL's changes commit, so a lock of ours keeps the other tasks away."""
        if self.url.dialect in _MYSQLS:
            self._lock = text_literal(f"connect.{table.name.table}"[:_LONGEST_LOCK], self.dialect)
            if self.rows(f"SELECT GET_LOCK({self._lock}, {_LOCK_SECONDS})") != [(1,)]:
                raise RetriableException(f"Another task has been changing table {table.name} for {_LOCK_SECONDS} s")

    def lock_to_write(self, table: TargetTable) -> bool:
        """Values go as they are; the database fits them into its columns."""
        return True

    def _unique_indexes(self, name: TableName) -> tuple[frozenset[str], ...]:
        schema = name.schema or name.catalog
        with self._refusing():
            inspector = self._sqlalchemy.inspect(self._connected().execution_options(no_parameters=False))  # its names may have %
            table, schema = inspected_name(inspector, name.table), inspected_name(inspector, schema)
            indexes = inspector.get_indexes(table, schema=schema)
            constraints = inspector.get_unique_constraints(table, schema=schema)
        columns = [index["column_names"] for index in indexes if index.get("unique")]
        columns += [constraint["column_names"] for constraint in constraints]
        return tuple(frozenset(str(stored_name(inspector, column)) for column in found if column) for found in columns)

    # Rows

    def equal_keys(self, table: TargetTable, keys: pa.Table) -> pa.Table | None:
        """Collations, affinities and roundings are the database's own: here it is known of integers and bytes alone."""
        types = pa.types
        for name, column in zip(keys.column_names, keys.columns, strict=True):
            kind = table.columns[name].kind
            if not (types.is_integer(column.type) and kind in INTEGERS) and not (types.is_binary(column.type) and kind is ColumnKind.BYTES):
                return None
        return keys

    def insert(self, table: TargetTable, rows: pa.Table) -> None:
        self._execute_rows(self._insert(table, rows), table, rows)

    def upsert(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        rest = [self.dialect.quoted(name) for name in rows.column_names if name not in keys]
        if self.url.dialect == SQLITE:
            conflict = ", ".join(map(self.dialect.quoted, keys))
            changes = ", ".join(f"{name} = excluded.{name}" for name in rest)
            ending = f"ON CONFLICT ({conflict}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"
        elif self.url.dialect in _MYSQLS and _has_other_unique(table, rows, keys):
            self._insert_missing(table, rows, keys)
            self.update(table, rows, keys)
            return
        elif self.url.dialect in _MYSQLS:
            names = rest or [self.dialect.quoted(keys[0])]
            ending = f"ON DUPLICATE KEY UPDATE {', '.join(f'{name} = VALUES({name})' for name in names)}"
        elif self.url.dialect in (MSSQL, ORACLE):
            self._execute_rows(self._merge(table, rows, keys), table, rows)
            return
        else:
            raise ConfigException.of(INSERT_MODE, "upsert", f"Upsert is not known for {self.url.dialect}. Use insert or update.")
        self._execute_rows(f"{self._insert(table, rows)} {ending}", table, rows)

    def _insert_missing(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        """The first row of each key that is not there. MySQL's ON DUPLICATE KEY would take the row of any other unique index for it."""
        count = len(rows.column_names)
        names, marks = ", ".join(map(self._name, rows.column_names)), self._marks(count + len(keys))
        same = " AND ".join(f"{self._name(name)} = {mark}" for name, mark in zip(keys, marks[count:], strict=True))
        missing = f"WHERE NOT EXISTS (SELECT 1 FROM {self._table(table)} WHERE {same})"
        sql = f"INSERT INTO {self._table(table)} ({names}) SELECT {', '.join(marks[:count])} FROM dual {missing}"
        given = pa.table([*rows.columns, *(rows[name] for name in keys)], names=[*rows.column_names, *keys])
        self._execute_rows(sql, table, given)

    def _merge(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> str:
        """One row by MERGE. SQL Server needs the hint, lest another connection inserts the key meanwhile, and the semicolon."""
        names = {name: self._name(name) for name in rows.column_names}
        given = ", ".join(f"{mark} AS {name}" for mark, name in zip(self._marks(len(names)), names.values(), strict=True))
        same = " AND ".join(f"stored.{names[name]} = given.{names[name]}" for name in keys)
        changes = ", ".join(f"stored.{name} = given.{name}" for key, name in names.items() if key not in keys)
        values = ", ".join(f"given.{name}" for name in names.values())
        is_mssql = self.url.dialect == MSSQL
        return (
            f"MERGE INTO {self._table(table)}{' WITH (HOLDLOCK) AS' if is_mssql else ''} stored USING (SELECT {given}"
            f"{'' if is_mssql else ' FROM dual'}) given ON ({same})"
            f"{f' WHEN MATCHED THEN UPDATE SET {changes}' if changes else ''}"
            f" WHEN NOT MATCHED THEN INSERT ({', '.join(names.values())}) VALUES ({values}){';' if is_mssql else ''}"
        )

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
        """Drivers do not name the row that was refused."""

    def _insert(self, table: TargetTable, rows: pa.Table) -> str:
        names, marks = ", ".join(map(self._name, rows.column_names)), ", ".join(self._marks(len(rows.column_names)))
        return f"INSERT INTO {self._table(table)} ({names}) VALUES ({marks})"

    def _marks(self, count: int) -> list[str]:
        """The driver's own marks for parameters."""
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
        with self._refusing():
            try:
                self._connected().exec_driver_sql(sql, list(zip(*columns, strict=True)))
            except OF_DRIVER as error:  # as it writes values for its server
                raise RefusedException(f"The driver cannot write a value: {type(error).__name__}: {error}") from error

    def _values(self, table: TargetTable, name: str, column: pa.ChunkedArray) -> list[Any]:
        """A column as the driver's values. SQLite has neither times nor decimals: they are texts that sort as the values do."""
        target, types = table.columns[name], pa.types
        refuse_wide_numbers(column, target)
        refuse_far_times(column, target)
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
        if self.url.dialect == SQLITE and is_text:
            column = column.cast(pa.string())
        values: list[Any] = column.to_pylist()
        return values

    def _refusal(self, error: Any) -> ConnectException:  # a SQLAlchemyError
        """Bad values, a transaction to be begun anew, or a refusal for good."""
        errors, original = self._sqlalchemy.exc, getattr(error, "orig", None)
        text, number = without_secrets(self.url, str(original or error)), number_of_error(original)
        if getattr(error, "connection_invalidated", False) or is_others_turn(self.url, text, None, number):
            return RetriableException(f"{self.url.address} has ended the transaction: {text}")
        is_of_driver = number is None and self.url.dialect in (*_MYSQLS, SQLITE)  # these servers' errors of statements are others
        if is_of_driver and isinstance(error, errors.ProgrammingError | errors.InterfaceError):
            return RefusedException(text)
        if isinstance(error, errors.IntegrityError | errors.DataError) or number in _BAD_VALUES:
            return RefusedException(text)
        return super()._refusal(error)


def _has_other_unique(table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> bool:
    """Whether a row may be equal to one of another key in the columns of a unique index."""
    return any(unique != frozenset(keys) and unique <= set(rows.column_names) for unique in table.unique)
