"""PostgreSQL as a sink's store: whole columns by COPY, into the table itself or into a temporary one that is then merged."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.adbc_database import AdbcDatabase
from airflow_provider_connect.connectors.jdbc.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.metadata import read_columns
from airflow_provider_connect.connectors.jdbc.sink_literal import text_literal
from airflow_provider_connect.connectors.jdbc.sink_store import RefusedException
from airflow_provider_connect.connectors.jdbc.sink_target import TargetTable
from airflow_provider_connect.connectors.jdbc.sink_wire import stage_type, wire_column
from airflow_provider_connect.connectors.jdbc.table_name import TableName
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk.arrow import pa

_SAVEPOINT, _MERGE, _NUMBER = "connect_piece", "connect_merge", "connect_row"
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
            "SELECT n.nspname::text, c.oid::int8, c.relkind IN ('r', 'p') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE c.relkind IN ('r', 'p', 'v', 'f') AND c.relname = {text_literal(name.table, self.dialect)} AND n.nspname {place} "
            "ORDER BY array_position(current_schemas(false), n.nspname) LIMIT 1"
        )
        if not found:
            return None
        [(schema, oid, is_stored)] = found
        resolved = TableName(name.table, str(schema))
        columns = {column.name: column for column in read_columns(self, self.url, resolved)}
        return TargetTable(resolved, columns, self._unique(int(oid)), self._declared(str(oid)), is_stored=bool(is_stored))

    def lock_to_change(self, table: TargetTable) -> None:
        if table.is_stored:
            self.execute(f"LOCK TABLE {self.dialect.table(table.name)} IN ACCESS EXCLUSIVE MODE")

    def lock_to_write(self, table: TargetTable) -> bool:
        """Values are made to suit COPY into columns of certain types; where those are others by now, they may have to go another way."""
        if not table.is_stored:
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
        columns = self._converted(table, rows)
        if all(is_direct for _, is_direct in columns):
            self._copy(table.name, _table(rows, columns))
            return
        names = ", ".join(map(self.dialect.quoted, rows.column_names))
        self._merge(
            table,
            rows,
            lambda stage: f"INSERT INTO {self.dialect.table(table.name)} ({names}) SELECT {self._cast(table, rows)} FROM {stage} s",
        )

    def upsert(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        quoted = self.dialect.quoted
        changes = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in rows.column_names if name not in keys)
        names, conflict = ", ".join(map(quoted, rows.column_names)), ", ".join(map(quoted, keys))
        self._merge(
            table,
            rows,
            lambda stage: (
                f"INSERT INTO {self.dialect.table(table.name)} ({names}) SELECT {self._cast(table, rows)} FROM {stage} s "
                f"ON CONFLICT ({conflict}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"
            ),
            is_whole=True,
        )

    def update(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None:
        changes = ", ".join(f"{self.dialect.quoted(name)} = {self._value(table, name)}" for name in rows.column_names if name not in keys)
        if changes:
            self._merge(
                table,
                rows,
                lambda stage: f"UPDATE {self.dialect.table(table.name)} t SET {changes} FROM {stage} s WHERE {self._same(table, keys)}",
            )

    def delete(self, table: TargetTable, rows: pa.Table) -> None:
        same = self._same(table, rows.column_names)
        self._merge(table, rows, lambda stage: f"DELETE FROM {self.dialect.table(table.name)} t USING {stage} s WHERE {same}")

    def _same(self, table: TargetTable, keys: Sequence[str]) -> str:
        return " AND ".join(f"t.{self.dialect.quoted(name)} = {self._value(table, name)}" for name in keys)

    def _cast(self, table: TargetTable, rows: pa.Table) -> str:
        return ", ".join(self._value(table, name) for name in rows.column_names)

    def _value(self, table: TargetTable, name: str) -> str:
        return f"s.{self.dialect.quoted(name)}::{table.declared[name]}"

    def _converted(self, table: TargetTable, rows: pa.Table) -> list[tuple[pa.ChunkedArray, bool]]:
        """Each column as COPY writes it, and whether the table's own column takes that."""
        return [
            wire_column(table.columns[name], column, self._time_zone) for name, column in zip(rows.column_names, rows.columns, strict=True)
        ]

    def _merge(self, table: TargetTable, rows: pa.Table, statement_of: Callable[[str], str], *, is_whole: bool = False) -> None:
        """Bring the rows into a temporary table, and from there where they belong, by one statement that reads a stage named ``s``.

        ``is_whole``: rows are new ones of the table. Where they have all its columns, the temporary table has its constraints, too, so
        that COPY names the row that is refused. Otherwise it is looked for among rows that have numbers.
        """
        columns = self._converted(table, rows)
        is_alike = is_whole and all(is_direct for _, is_direct in columns) and table.columns.keys() == set(rows.column_names)
        staged = _table(rows, columns)
        self.execute(f"SAVEPOINT {_MERGE}")
        try:
            with self._staged(staged, table if is_alike else None) as stage:
                self.execute(statement_of(stage))
        except RefusedException as error:
            if error.row is not None:
                raise
            if rows.num_rows == 1:
                raise RefusedException(error.message, 0) from error
            self.execute(f"ROLLBACK TO SAVEPOINT {_MERGE}")
            self._stages = dict(self._saved_stages)
        else:
            self.execute(f"RELEASE SAVEPOINT {_MERGE}")
            return
        numbered = staged.append_column(_NUMBER, pa.array(range(rows.num_rows), pa.int32()))
        with self._staged(numbered) as stage:
            some = f"(SELECT * FROM {stage} WHERE {_NUMBER} >= {{}} AND {_NUMBER} < {{}})"
            self._find_refused(rows.num_rows, lambda start, stop: statement_of(some.format(start, stop)))

    def _find_refused(self, count: int, statement_of: Callable[[int, int], str]) -> None:
        """Do everything before the first row that is refused, and raise RefusedException with its number. Returns where there is none."""
        start, stop = 0, count
        while start < count:
            middle = (start + stop + 1) // 2
            self.execute(f"SAVEPOINT {_MERGE}")
            try:
                self.execute(statement_of(start, middle))
            except RefusedException as error:
                self.execute(f"ROLLBACK TO SAVEPOINT {_MERGE}")
                if middle - start == 1:
                    raise RefusedException(error.message, start) from error
                stop = middle
            else:
                start, stop = middle, stop if stop > middle else count
            self.execute(f"RELEASE SAVEPOINT {_MERGE}")

    @contextlib.contextmanager
    def _staged(self, staged: pa.Table, like: TargetTable | None = None) -> Iterator[str]:
        """The rows in a temporary table, which is empty again afterwards. ``like``: with the columns and constraints of that table."""
        signature = (None if like is None else like.name, *((field.name, field.type) for field in staged.schema))
        name = self._stages.get(signature)
        if name is None:
            name = f"connect_stage_{len(self._stages)}"
            columns = ", ".join(f"{self.dialect.quoted(field.name)} {stage_type(field.type)}" for field in staged.schema)
            if like is not None:
                columns = f"LIKE {self.dialect.table(like.name)} INCLUDING CONSTRAINTS"
            self.execute(f"DROP TABLE IF EXISTS pg_temp.{name}")
            self.execute(f"CREATE TEMPORARY TABLE {name} ({columns}) ON COMMIT DELETE ROWS")
            self._stages[signature] = name
        self._remains[name] = self._remains.get(name, 0) + staged.num_rows
        self._copy(TableName(name), staged, is_temporary=True)
        yield f"pg_temp.{name}"
        if self._remains[name] < _MOST_REMAINS:
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


def _table(rows: pa.Table, columns: list[tuple[pa.ChunkedArray, bool]]) -> pa.Table:
    return pa.Table.from_arrays([column for column, _ in columns], names=rows.column_names)
