"""PostgreSQL as a sink's store: whole columns by COPY, into the table itself or into a temporary one that is then merged."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.adbc_database import AdbcDatabase
from airflow_provider_connect.connectors.jdbc.database_errors import StatementException
from airflow_provider_connect.connectors.jdbc.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.metadata import read_columns
from airflow_provider_connect.connectors.jdbc.sink_columns import misfits, rest_of
from airflow_provider_connect.connectors.jdbc.sink_hope import Hope
from airflow_provider_connect.connectors.jdbc.sink_literal import text_literal
from airflow_provider_connect.connectors.jdbc.sink_settings import InsertMode
from airflow_provider_connect.connectors.jdbc.sink_statements import COUNTER, StageStatements, sieve_function, with_columns
from airflow_provider_connect.connectors.jdbc.sink_store import RefusedException
from airflow_provider_connect.connectors.jdbc.sink_target import TargetTable
from airflow_provider_connect.connectors.jdbc.sink_wire import stage_type, wire_column
from airflow_provider_connect.connectors.jdbc.table_name import TableName
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk.arrow import pa

_SAVEPOINT: Final = "connect_piece"
_NEW: Final = "connect_new"
_SIFTED_ROWS: Final = 50_000  # at a time
_MOST_REMAINS: Final = 20_000  # deleted rows of a temporary table, which each statement passes; TRUNCATE makes new files each time
_COPY_LINE: Final = re.compile(r"COPY \S.*?, line (\d+)")
_PARALLEL: Final = frozenset(
    {"40001", "40P01", "55P03", "25P03", "25P04"}
)  # serialization, deadlock, a lock not had, a transaction timed out
_PARALLEL_WORDS: Final = re.compile(  # the driver tells no SQLSTATE of what went wrong while rows came
    r"could not serialize access|deadlock detected|could not obtain lock|due to lock timeout|transaction timeout"
)


class PostgresqlStore(AdbcDatabase):
    """One connection. Transactions are begun and ended by statements, so that none is open while nothing is written."""

    holds_others_up = False

    def __init__(self, url: DatabaseUrl, dialect: Dialect, time_zone: str) -> None:
        super().__init__(url)
        self.url = url
        self.dialect = dialect
        self._time_zone = time_zone
        self._stages: dict[tuple[object, ...], str] = {}
        self._saved_stages = self._stages
        self._remains: dict[str, int] = {}
        self._hopes: dict[TableName, Hope] = {}
        [(self.session,)] = self.rows("SELECT pid || ' ' || backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")

    # Transactions

    def begin(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")
        self._stages.clear()  # some of them may be gone

    def save(self) -> None:
        self.execute(f"SAVEPOINT {_SAVEPOINT}")
        self._saved_stages = dict(self._stages)

    def restore(self) -> None:
        self.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
        self.release()
        self._stages = self._saved_stages

    def release(self) -> None:
        self.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")

    def end_session(self, session: str) -> None:
        pid, _, start = session.partition(" ")
        if pid.isdecimal():
            this = f"pid = {pid} AND backend_start = {text_literal(start, self.dialect)}::timestamptz AND pid <> pg_backend_pid()"
            self.rows(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {this}")

    def locked_rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.rows(f"{sql} FOR UPDATE")

    # Tables

    def read_table(self, name: TableName) -> TargetTable | None:
        place = "= ANY (current_schemas(false))" if name.schema is None else f"= {text_literal(name.schema, self.dialect)}"
        found = self.rows(
            "SELECT n.nspname::text, c.oid::int8, c.relkind IN ('r', 'p') AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE') "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE c.relkind IN ('r', 'p', 'v', 'f') AND c.relname = {text_literal(name.table, self.dialect)} AND n.nspname {place} "
            "ORDER BY array_position(current_schemas(false), n.nspname) LIMIT 1"
        )
        if not found:
            return None
        [(schema, oid, is_lockable)] = found
        resolved = TableName(name.table, str(schema))
        columns = {column.name: column for column in read_columns(self, self.url, resolved)}
        return TargetTable(resolved, columns, self._unique(int(oid)), self._declared(str(oid)), is_lockable=bool(is_lockable))

    def lock_to_change(self, table: TargetTable) -> None:
        if table.is_lockable:
            self.execute(f"LOCK TABLE {self.dialect.table(table.name)} IN ACCESS EXCLUSIVE MODE")

    def lock_to_write(self, table: TargetTable) -> bool:
        """Values are made to suit COPY into columns of certain types; where those are others by now, they may have to go another way."""
        if not table.is_lockable:
            return True
        name = self.dialect.table(table.name)
        self.execute(f"LOCK TABLE ONLY {name} IN ROW EXCLUSIVE MODE")  # as any statement that writes rows does
        is_same = self._declared(f"{text_literal(name, self.dialect)}::regclass") == table.declared
        if not is_same:
            self._stages.clear()
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

    def _declared(self, oid: str) -> dict[str, str]:
        rows = self.rows(
            f"SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = {oid} AND attnum > 0 "
            "AND NOT attisdropped"
        )
        return dict(rows)

    # Rows

    def insert(self, table: TargetTable, rows: pa.Table) -> None:
        staged, statements = self._prepared(table, rows)
        if statements.cast:
            self._merge(staged, statements.insert)
        else:
            self._copy(table.name, staged)

    def upsert(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        staged, statements = self._prepared(table, rows)
        if statements.cast or not self._is_all_new(table, staged):
            self._merge(staged, lambda stage: statements.upsert(stage, keys))

    def update(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        if not set(rows.column_names) <= set(keys):
            staged, statements = self._prepared(table, rows)
            self._merge(staged, lambda stage: statements.update(stage, keys))

    def delete(self, table: TargetTable, rows: pa.Table) -> None:
        staged, statements = self._prepared(table, rows)
        self._merge(staged, statements.delete)

    def sift(self, table: TargetTable, rows: pa.Table, keys: Sequence[str], mode: InsertMode) -> dict[int, str]:
        if mode is InsertMode.UPDATE and set(rows.column_names) <= set(keys):
            return {}
        refused = misfits(rows.num_rows, lambda start, length: self._prepared(table, rows.slice(start, length)))
        places = rest_of(rows.num_rows, refused)
        staged, statements = self._prepared(table, rows.take(places) if refused else rows)
        for start in range(0, len(places), _SIFTED_ROWS):
            some = staged.slice(start, _SIFTED_ROWS)
            with self._staged(some, is_ordered=True) as stage:
                sieve = self._sieve(stage, lambda stage: statements.write(stage, keys, mode))
                found = self.rows(f"SELECT * FROM {sieve}({some.num_rows})")
            refused |= {places[start + place].as_py(): with_columns(reason, table, rows.column_names) for place, reason in found}
        return refused

    def _sieve(self, stage: str, statement_of: Callable[[str], str]) -> str:
        """A temporary function that brings the rows of a stage where they belong."""
        signature = (stage, statement_of(stage))
        if signature not in self._stages:
            self._stages[signature] = f"pg_temp.connect_sieve_{len(self._stages)}"
            self.execute(f"CREATE TEMPORARY SEQUENCE IF NOT EXISTS {COUNTER}")
            self.execute(sieve_function(self._stages[signature], stage, statement_of, self.dialect))
        return self._stages[signature]

    def _prepared(self, table: TargetTable, rows: pa.Table) -> tuple[pa.Table, StageStatements]:
        """The rows as COPY writes them, and how they get from a stage into the table."""
        names = rows.column_names
        columns = [wire_column(table.columns[name], column, self._time_zone) for name, column in zip(names, rows.columns, strict=True)]
        cast = {name for name, (_, is_direct) in zip(names, columns, strict=True) if not is_direct}
        staged = pa.Table.from_arrays([column for column, _ in columns], names=names)
        return staged, StageStatements(self.dialect, table, names, cast)

    def _is_all_new(self, table: TargetTable, staged: pa.Table) -> bool:
        """Whether the rows went in as they are, since the table has none of them. That costs half of what a merge costs."""
        hope = self._hopes.setdefault(table.name, Hope())
        if not hope.takes_chance():
            return False
        self.execute(f"SAVEPOINT {_NEW}")
        is_all_new = True
        try:
            self._copy(table.name, staged)
            hope.fulfilled()
        except (RefusedException, StatementException):  # whatever it was: the merge will tell
            is_all_new = False
            self.execute(f"ROLLBACK TO SAVEPOINT {_NEW}")
            hope.disappointed()
        self.execute(f"RELEASE SAVEPOINT {_NEW}")
        return is_all_new

    def _merge(self, staged: pa.Table, statement_of: Callable[[str], str]) -> None:
        """Bring the rows into a temporary table, and from there where they belong."""
        with self._staged(staged) as stage:
            self.execute(statement_of(stage))

    @contextlib.contextmanager
    def _staged(self, staged: pa.Table, *, is_ordered: bool = False) -> Iterator[str]:
        """The rows in a temporary table, which is empty again afterwards. ``is_ordered``: there they lie in their order."""
        signature = is_ordered, *((field.name, field.type) for field in staged.schema)
        name = self._stages.get(signature)
        if name is None:
            name = f"connect_stage_{len(self._stages)}"
            columns = ", ".join(f"{self.dialect.quoted(field.name)} {stage_type(field.type)}" for field in staged.schema)
            self.execute(f"DROP TABLE IF EXISTS pg_temp.{name}")
            self.execute(f"CREATE TEMPORARY TABLE {name} ({columns}) ON COMMIT DELETE ROWS")
            self._stages[signature] = name
        self._remains[name] = self._remains.get(name, 0) + staged.num_rows
        self._copy(TableName(name), staged, is_temporary=True)
        yield f"pg_temp.{name}"
        if self._remains[name] < _MOST_REMAINS and not is_ordered:  # where rows were deleted others lie in between
            self.execute(f"DELETE FROM pg_temp.{name}")
        else:
            self.execute(f"TRUNCATE pg_temp.{name}")
            self._remains[name] = 0

    def _copy(self, name: TableName, rows: pa.Table, *, is_temporary: bool = False) -> None:
        place = {"adbc.ingest.temporary": "true"} if is_temporary else {"adbc.ingest.target_db_schema": str(name.schema)}
        options = {"adbc.ingest.target_table": name.table, "adbc.ingest.mode": "adbc.ingest.mode.append", **place}
        with self._executed(None, options) as answer:
            statement = answer.statement()
            statement.bind_stream(rows)
            statement.execute_update()

    def _answers(self) -> bool:
        """Whether the server is still there, if only to refuse."""
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

    def _refusal(self, text: str, state: str | None) -> ConnectException:
        """Bad values, a transaction to be begun anew, or a refusal for good."""
        said = " ".join(text.split())
        if not state and not self._answers():
            return RetriableException(f"The connection to {self.url.place} was lost: {said}")
        if state in _PARALLEL or (not state and _PARALLEL_WORDS.search(text)):
            return RetriableException(f"{self.url.place} has ended the transaction: {said}")
        if state is not None and state.startswith(("22", "23", "44")):
            line = _COPY_LINE.search(text)
            return RefusedException(said, int(line[1]) - 1 if line else None)
        return super()._refusal(text, state)
