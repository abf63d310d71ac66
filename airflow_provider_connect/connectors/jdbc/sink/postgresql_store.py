"""PostgreSQL as a sink's store. Writes whole columns with COPY, to the table or to a temporary table that is then merged."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, TableName
from airflow_provider_connect.connectors.jdbc.database.adbc_database import AdbcDatabase
from airflow_provider_connect.connectors.jdbc.database.database import read_columns
from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException, StatementException
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.sink.columns import find_misfits, remaining_rows, wire_field
from airflow_provider_connect.connectors.jdbc.sink.postgresql_stages import (
    COUNTER,
    Stages,
    StageStatements,
    row_function,
    with_columns,
    with_numbers,
)
from airflow_provider_connect.connectors.jdbc.sink.settings import InsertMode
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException

_SAVEPOINT: Final = "connect_piece"
_UPSERTS: Final = "connect.upserts_into_view"  # a setting of the session that returns the result of a block
_REFUSALS: Final = "syntax_error_or_access_rule_violation OR object_not_in_prerequisite_state OR feature_not_supported"
_MAX_SKIPPED: Final = 64
_COPY_LINE: Final = re.compile(r"^(?>.*?COPY \S).*?, line (\d+)", re.MULTILINE)  # the atomic group matches only a line's first COPY
_RETRIABLE_STATES: Final = frozenset(
    {"40001", "40P01", "55P03", "25P03", "25P04"}
)  # serialization failure, deadlock, unavailable lock, transaction timeout
_RETRIABLE_WORDS: Final = re.compile(  # for errors during streaming, the driver reports no SQLSTATE
    r"could not serialize access|deadlock detected|could not obtain lock|due to lock timeout|transaction timeout"
)
_EXACT: Final = frozenset(  # types without a precision, which would round, and no domains, which may be any type
    {
        *("boolean", "smallint", "integer", "bigint", "oid", "bytea", "text", "character varying", "numeric", "date"),
        *("time without time zone", "timestamp without time zone", "timestamp with time zone"),
    }
)
_LENGTH: Final = re.compile(r"character varying\((\d+)\)")
_SCALE: Final = re.compile(r"numeric\(\d+,(-?\d+)\)")
_UUID: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


@dataclass(slots=True)
class AdaptiveRetry:
    """Decides when to try an operation that saves time if it succeeds, and wastes time if it fails.

    Each failure doubles the number of skipped attempts, up to 64. Each success halves it.
    """

    _skips: int = 0
    _left: int = 0

    def should_try(self) -> bool:
        """Whether to try this time."""
        if self._left:
            self._left -= 1
            return False
        return True

    def succeeded(self) -> None:
        self._skips //= 2

    def failed(self) -> None:
        self._left = self._skips = min(max(1, 2 * self._skips), _MAX_SKIPPED)


class PostgresqlStore(AdbcDatabase):
    """One connection. Statements start and end transactions, so that no transaction is open while no rows are written."""

    blocks_writers = False
    needs_transactions = False  # because all tables support them

    def __init__(self, url: DatabaseUrl, dialect: Dialect, time_zone: str) -> None:
        super().__init__(url)
        self.url = url
        self.dialect = dialect
        self._time_zone = time_zone
        self._stages = Stages(self)
        self._copies_of_new: dict[TableName, AdaptiveRetry] = {}
        [(self.session,)] = self.rows("SELECT pid || ' ' || backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")

    # Transactions

    def begin(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")
        self._stages.restore({})  # because stages may have been rolled back

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        self.execute(f"SAVEPOINT {_SAVEPOINT}")
        stages = self._stages.snapshot()
        try:
            yield
        except (DataException, StatementException):
            self.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            self.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
            self._stages.restore(stages)
            raise
        self.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")

    def end_session(self, session: str) -> None:
        pid, _, start = session.partition(" ")
        if pid.isdecimal():
            this = f"pid = {pid} AND backend_start = {self.dialect.text_literal(start)}::timestamptz AND pid <> pg_backend_pid()"
            self.rows(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {this}")

    def locked_rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.rows(f"{sql} FOR UPDATE")

    # Tables

    def read_table(self, name: TableName, keys: Sequence[str] = ()) -> TargetTable | None:
        schemas = "= ANY (current_schemas(false))" if name.schema is None else f"= {self.dialect.text_literal(name.schema)}"
        found = self.rows(
            "SELECT n.nspname::text, c.oid::int8, c.relkind IN ('r', 'p') AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE'), "
            "c.relkind = 'v' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE c.relkind IN ('r', 'p', 'v', 'f') AND c.relname = {self.dialect.text_literal(name.table)} AND n.nspname {schemas} "
            "ORDER BY array_position(current_schemas(false), n.nspname) LIMIT 1"
        )
        if not found:
            return None
        [(schema, oid, is_lockable, is_view)] = found
        resolved = TableName(name.table, str(schema))
        columns = {column.name: column for column in read_columns(self, self.url, resolved)}
        declared, collations = self._declared(str(oid)), self._collations(int(oid))
        unique = self._unique_of_view(resolved, keys) if is_view else self._unique(int(oid))
        return TargetTable(resolved, columns, unique, declared, collations, is_lockable=bool(is_lockable), is_view=bool(is_view))

    def lock_to_change(self, table: TargetTable) -> None:
        if table.is_lockable:
            self.execute(f"LOCK TABLE {self.dialect.table(table.name)} IN ACCESS EXCLUSIVE MODE")

    def lock_to_write(self, table: TargetTable) -> bool:
        """COPY writes values for given column types. After a change of types, the rows must be prepared again."""
        if not table.is_lockable:
            return True
        name = self.dialect.table(table.name)
        self.execute(f"LOCK TABLE ONLY {name} IN ROW EXCLUSIVE MODE")  # like any statement that writes rows
        is_same = self._declared(f"{self.dialect.text_literal(name)}::regclass") == table.declared
        if not is_same:
            self._stages.restore({})
        return is_same

    def _unique(self, oid: int) -> tuple[frozenset[str], ...]:
        by_index: dict[int, set[str]] = {}
        for index, column in self.rows(
            "SELECT i.indexrelid::int8, a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = "
            "ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) WHERE i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL "
            f"AND i.indexprs IS NULL AND i.indrelid = {oid}"
        ):
            by_index.setdefault(index, set()).add(column)
        return tuple(map(frozenset, by_index.values()))

    def _unique_of_view(self, view: TableName, keys: Sequence[str]) -> tuple[frozenset[str], ...]:
        """``keys`` if the server upserts into the view by them. The server plans such a statement, which it does not run; the block's
        subtransaction keeps a refusal from ending the current transaction."""
        if not keys:
            return ()
        names = ", ".join(map(self.dialect.quoted, keys))
        nulls = ", ".join(["NULL"] * len(keys))
        plan = f"EXPLAIN INSERT INTO {self.dialect.table(view)} ({names}) VALUES ({nulls}) ON CONFLICT ({names}) DO NOTHING"
        check = (
            f"BEGIN EXECUTE {self.dialect.text_literal(plan)}; PERFORM set_config('{_UPSERTS}', 'true', false); "
            f"EXCEPTION WHEN {_REFUSALS} THEN PERFORM set_config('{_UPSERTS}', 'false', false); END"
        )
        self.execute(f"DO {self.dialect.text_literal(check)}")
        return (frozenset(keys),) if self.rows(f"SELECT current_setting('{_UPSERTS}')") == [("true",)] else ()

    def _declared(self, oid: str) -> dict[str, str]:
        rows = self.rows(
            f"SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = {oid} AND attnum > 0 "
            "AND NOT attisdropped"
        )
        return dict(rows)

    def _collations(self, oid: int) -> dict[str, str]:
        rows = self.rows(
            "SELECT a.attname::text, quote_ident(n.nspname) || '.' || quote_ident(c.collname) FROM pg_attribute a "
            "JOIN pg_collation c ON c.oid = a.attcollation JOIN pg_namespace n ON n.oid = c.collnamespace "
            f"WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped AND NOT (to_jsonb(c) ->> 'collisdeterministic')::bool"
        )
        return dict(rows)

    # Rows

    def equal_keys(self, table: TargetTable, keys: pa.Table) -> pa.Table:
        staged, statements = self._prepared(table, keys)
        if all(is_exact(table, table.columns[name], staged[name]) for name in staged.column_names):
            return staged
        with self._stages.filled(with_numbers(staged)) as stage:
            groups = list(self.batches(statements.groups(stage), staged.num_rows))
        return pa.Table.from_batches(groups)

    def insert(self, table: TargetTable, rows: pa.Table) -> None:
        self._write(*self._prepared(table, rows), (), InsertMode.INSERT)

    def upsert(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        self._write(*self._prepared(table, rows), keys, InsertMode.UPSERT)

    def update(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        if not set(rows.column_names) <= set(keys):
            self._write(*self._prepared(table, rows), keys, InsertMode.UPDATE)

    def delete(self, table: TargetTable, rows: pa.Table) -> None:
        staged, statements = self._prepared(table, rows)
        with self._stages.filled(staged) as stage:
            self.execute(statements.delete(stage))

    def write_without_refused(self, table: TargetTable, rows: pa.Table, keys: Sequence[str], mode: InsertMode) -> dict[int, str]:
        if mode is InsertMode.UPDATE and set(rows.column_names) <= set(keys):
            return {}
        refused = find_misfits(rows.num_rows, lambda start, length: self._prepared(table, rows.slice(start, length)))
        kept = remaining_rows(rows.num_rows, refused)
        staged, statements = self._prepared(table, rows.take(kept) if refused else rows)
        found = self._write_row_by_row(staged, statements, keys, mode) if staged.num_rows else {}
        return refused | {kept[row].as_py(): reason for row, reason in found.items()}

    def _write_row_by_row(self, staged: pa.Table, statements: StageStatements, keys: Sequence[str], mode: InsertMode) -> dict[int, str]:
        with self._stages.filled(with_numbers(staged), is_ordered=True) as stage:

            def text_of(name: str) -> str:
                self.execute(f"CREATE TEMPORARY SEQUENCE IF NOT EXISTS {COUNTER}")
                return row_function(name, stage, statements, keys, mode)

            function = self._stages.function(stage, statements.write(stage, keys, mode), text_of)
            found = self.rows(f"SELECT * FROM {function}({staged.num_rows})")
        if found and found[0][0] < 0:
            raise RefusedException("The rows of a stage are not stored in the order in which they were written")
        return {row: with_columns(reason, statements.table, staged.column_names) for row, reason in found}

    def copy_to_stage(self, stage: str, rows: pa.Table) -> None:
        self._copy(stage, rows, {"adbc.ingest.temporary": "true"})

    def _prepared(self, table: TargetTable, rows: pa.Table) -> tuple[pa.Table, StageStatements]:
        """The rows in the form that COPY writes, and the statements that move them from a stage to the table."""
        names = rows.column_names
        found = [self._wire(table, name, column) for name, column in zip(names, rows.columns, strict=True)]
        cast = {field.name for field, _, is_direct in found if not is_direct}
        staged = pa.Table.from_arrays([column for _, column, _ in found], schema=pa.schema([field for field, _, _ in found]))
        return staged, StageStatements(self.dialect, table, names, cast)

    def _wire(self, table: TargetTable, name: str, column: pa.ChunkedArray) -> tuple[pa.Field, pa.ChunkedArray, bool]:
        """The rows in the form that COPY writes. If Arrow cannot convert a value, raises RefusedException without a row. Records are then
        tried one by one."""
        try:
            return wire_field(table.columns[name], column, self._time_zone)
        except pa.ArrowException as error:
            raise RefusedException(f"A value does not fit column {name} of table {table.name}: {error}") from error

    def _write(self, staged: pa.Table, statements: StageStatements, keys: Sequence[str], mode: InsertMode) -> None:
        """Write the rows to the table, only with COPY if possible."""
        takes_copy = not statements.cast and not statements.table.is_view
        if takes_copy and mode is InsertMode.INSERT:
            self._copy_into(statements.table.name, staged)
        elif not takes_copy or mode is InsertMode.UPDATE or not self._copy_if_new(statements.table.name, staged):
            with self._stages.filled(staged) as stage:
                self.execute(statements.write(stage, keys, mode))

    def _copy_if_new(self, table: TableName, staged: pa.Table) -> bool:
        """Write the rows with COPY, which costs half as much as a merge. Returns false if the table already had one of the rows."""
        retry = self._copies_of_new.setdefault(table, AdaptiveRetry())
        if not retry.should_try():
            return False
        try:
            with self.savepoint():
                self._copy_into(table, staged)
        except (RefusedException, StatementException):  # the merge reports any error except a duplicate
            retry.failed()
            return False
        retry.succeeded()
        return True

    def _copy_into(self, table: TableName, rows: pa.Table) -> None:
        self._copy(table.table, rows, {"adbc.ingest.target_db_schema": str(table.schema)})

    def _copy(self, table: str, rows: pa.Table, target: Mapping[str, str]) -> None:
        options = {"adbc.ingest.target_table": table, "adbc.ingest.mode": "adbc.ingest.mode.append", **target}
        with self._executed(None, options) as answer:
            statement = answer.statement()
            statement.bind_stream(rows)
            statement.execute_update()

    def _answers(self) -> bool:
        """Whether the server still responds, even with an error."""
        if self._connection is None:
            return False
        statement = self._driver.AdbcStatement(self._connection)
        try:
            statement.set_sql_query("SELECT 1")
            statement.execute_update()
        except self._driver.Error as error:
            return bool(error.sqlstate)
        finally:
            with contextlib.suppress(self._driver.Error):
                statement.close()
        return True

    def _translated(self, text: str, state: str | None) -> ConnectException:
        """RefusedException for bad values, RetriableException for a transaction to repeat, otherwise StatementException."""
        shown = " ".join(text.split())
        if not state and not self._answers():
            return RetriableException(f"The connection to {self.url.address} was lost: {shown}")
        if state in _RETRIABLE_STATES or (not state and _RETRIABLE_WORDS.search(text)):
            return RetriableException(f"{self.url.address} has ended the transaction: {shown}")
        if state is not None and state.startswith(("22", "23", "44")):
            line = _COPY_LINE.search(text)
            return RefusedException(shown, int(line[1]) - 1 if line else None)
        return super()._translated(text, state)


def is_exact(table: TargetTable, target: Column, column: pa.ChunkedArray) -> bool:
    """Whether all values of a column (in the form that COPY writes) that are equal for PostgreSQL are also equal for Arrow."""
    declared = table.declared.get(target.name, "")
    if target.name in table.collations:
        return False
    if pa.types.is_string(column.type):
        return _is_exact_text(declared, column)
    if pa.types.is_decimal(column.type) and (scale := _SCALE.fullmatch(declared)):
        return bool(column.type.scale <= int(scale[1]))
    return declared in _EXACT


def _is_exact_text(declared: str, column: pa.ChunkedArray) -> bool:
    """Whether texts are exact. Trailing blanks are ignored in ``character(n)``, and truncated if they do not fit into ``character
    varying(n)``."""
    if declared == "uuid":
        return _all(pc.match_substring_regex(column, _UUID))
    length = _LENGTH.fullmatch(declared)
    if length or re.fullmatch(r"character\(\d+\)", declared):
        is_short = length is not None and (pc.max(pc.utf8_length(column)).as_py() or 0) <= int(length[1])
        return is_short or _all(pc.invert(pc.ends_with(column, " ")))
    return declared in ("text", "character varying")


def _all(values: pa.ChunkedArray) -> bool:
    return pc.all(values).as_py() is not False  # null if there are only nulls
