"""Temporary tables (stages) of one PostgreSQL connection, and the statements that move rows from a stage, named ``s``, to a table."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.sink.array_texts import array_type
from airflow_provider_connect.connectors.jdbc.sink.columns import stage_type
from airflow_provider_connect.connectors.jdbc.sink.settings import InsertMode
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import row_numbers

_MAX_DELETED_ROWS: Final = 20_000  # rows that a temporary table keeps, because each TRUNCATE creates new files; statements scan them
COUNTER: Final = "connect_row"  # a temporary sequence
ROW_NUMBER: Final = "__connect_row_index"  # a stage's column of row numbers, from 0
_START_ROWS: Final = 100  # cost of starting a statement, in rows: small pieces repeat fewer rows after a failure, but start more often
_ROW_BY_ROW: Final = """
#variable_conflict use_column
<<connect_rows>>
DECLARE
  first int := 0;       -- the row that comes next
  spot tid := '(0,0)';  -- and where it lies
  size int := total;    -- how many rows to try together
  usual int := total;
  is_cut boolean := false;  -- whether this try ends before a row that is known to be bad
  is_counted boolean := false;  -- whether this try counts its rows, which costs a third more
  is_new boolean := {may_be_new};  -- whether the table is taken to have none of the rows: then they need no merge, which costs half more
  refused int := 0;
  bad int; message text; detail text;
BEGIN
  IF EXISTS (SELECT FROM (SELECT {row_index} AS came, row_number() OVER () - 1 AS lies FROM {stage}) s WHERE came <> lies) THEN
    row_index := -1;
    RETURN NEXT;
    RETURN;
  END IF;
  WHILE connect_rows.first < total LOOP
    PERFORM setval('pg_temp.{row}', connect_rows.first + 1, false);
    BEGIN
      IF connect_rows.is_new THEN
        IF connect_rows.is_counted THEN {counted_as_new}; ELSE {as_new}; END IF;
      ELSE
        IF connect_rows.is_counted THEN {counted}; ELSE {statement}; END IF;
      END IF;
      {advance};
      connect_rows.first := connect_rows.first + connect_rows.size;
      connect_rows.size := CASE WHEN connect_rows.is_cut THEN 1 ELSE connect_rows.usual END;
      connect_rows.is_cut := false;
      connect_rows.is_counted := false;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR with_check_option_violation THEN
      GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
      IF connect_rows.is_counted THEN
        connect_rows.bad := currval('pg_temp.{row}') - 1;
      END IF;
      IF connect_rows.is_new AND SQLSTATE = '23505' THEN  -- the same rows again
        connect_rows.is_new := false;
      ELSIF connect_rows.size = 1 THEN
        row_index := connect_rows.first;
        reason := concat_ws(' ', 'ERROR:', message, 'DETAIL: ' || nullif(detail, ''));
        RETURN NEXT;
        connect_rows.refused := connect_rows.refused + 1;
        {advance};
        connect_rows.first := connect_rows.first + 1;
        connect_rows.usual := ceil(sqrt(2.0 * {start_rows} * (connect_rows.first / connect_rows.refused - 1)) + 1);
        connect_rows.size := connect_rows.usual;
        connect_rows.is_cut := false;
        connect_rows.is_counted := false;
      ELSIF NOT connect_rows.is_counted THEN
        connect_rows.is_counted := true;
      ELSIF connect_rows.bad < least(connect_rows.first + connect_rows.size, total) - 1 THEN
        connect_rows.is_cut := connect_rows.bad > connect_rows.first;
        connect_rows.size := greatest(1, connect_rows.bad - connect_rows.first);
        connect_rows.is_counted := false;
      ELSE
        connect_rows.is_cut := false;
        connect_rows.usual := connect_rows.size / 2;
        connect_rows.size := connect_rows.usual;
      END IF;
    END;
  END LOOP;
END
"""


_TYPE: Final = re.compile(r"too long for type (.+?)(?: DETAIL: |$)", re.DOTALL)
_DIGITS: Final = re.compile(r"A field with precision (\d+), scale (-?\d+)")
_RANGE: Final = re.compile(r"ERROR: (\w+) out of range")


def with_columns(reason: str, table: TargetTable, names: Collection[str]) -> str:
    """PostgreSQL's message about a value that does not fit, with the names of the columns of that type. The message itself names only the
    type."""
    digits, found = _DIGITS.search(reason), _TYPE.search(reason) or _RANGE.search(reason)
    type = f"numeric({digits[1]},{digits[2]})" if digits else found[1] if found else None
    columns = [name for name in names if type is not None and table.declared.get(name) == type]
    return f"{reason} (column {' or '.join(columns)})" if columns else reason


@dataclass(frozen=True, slots=True)
class StageStatements:
    """Statements for one stage. ``names`` are its columns. Columns in ``cast`` have other types in the stage than in the table."""

    dialect: Dialect
    table: TargetTable
    names: Sequence[str]
    cast: Collection[str]

    def insert(self, stage: str) -> str:
        names = ", ".join(map(self.dialect.quoted, self.names))
        values = ", ".join(map(self.value, self.names))
        return f"INSERT INTO {self.target} ({names}) SELECT {values} FROM {stage} s"

    def upsert(self, stage: str, keys: Sequence[str]) -> str:
        quoted = self.dialect.quoted
        changes = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in self.names if name not in keys)
        conflict = ", ".join(map(quoted, keys))
        return f"{self.insert(stage)} ON CONFLICT ({conflict}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"

    def update(self, stage: str, keys: Sequence[str]) -> str:
        changes = ", ".join(f"{self.dialect.quoted(name)} = {self.value(name)}" for name in self.names if name not in keys)
        return f"UPDATE {self.target} t SET {changes} FROM {stage} s WHERE {self.same(keys)}"

    def delete(self, stage: str) -> str:
        return f"DELETE FROM {self.target} t USING {stage} s WHERE {self.same(self.names)}"

    def write(self, stage: str, keys: Sequence[str], mode: InsertMode) -> str:
        """The statement for a mode."""
        if mode is InsertMode.INSERT:
            return self.insert(stage)
        return self.upsert(stage, keys) if mode is InsertMode.UPSERT else self.update(stage, keys)

    @property
    def target(self) -> str:
        """The table's name."""
        return self.dialect.table(self.table.name)

    def same(self, keys: Sequence[str]) -> str:
        """The condition that a row ``t`` has the values of ``keys``."""
        return " AND ".join(itertools.chain.from_iterable(map(self._is_same, keys)))

    def _is_same(self, key: str) -> Iterator[str]:
        """Conditions for equal keys. A text that is too long for a column does not equal any value in it, although a cast truncates the
        text. Trailing blanks are ignored, because they are also dropped when a row is written."""
        declared, given = self.table.declared[key], f"s.{self.dialect.quoted(key)}"
        yield f"t.{self.dialect.quoted(key)} = {self._as_declared(key)}"
        if self.table.columns[key].type_name in ("bpchar", "varchar") and declared != "character varying":
            yield f"rtrim({given}::text) = rtrim({self._as_declared(key)}::text)"

    def groups(self, stage: str) -> str:
        """For each row of a stage, in the order of ``ROW_NUMBER``, the number of the first row with equal columns."""
        keys = (f"{self._as_declared(name)}{self._collation(name)}" for name in self.names)
        return f"SELECT min({ROW_NUMBER}) OVER (PARTITION BY {', '.join(keys)}) AS first FROM {stage} s ORDER BY {ROW_NUMBER}"

    def _collation(self, name: str) -> str:
        collation = self.table.collations.get(name)
        return "" if collation is None else f" COLLATE {collation}"

    def value(self, name: str) -> str:
        """A value for its column. An explicit cast truncates texts that are too long. Without a cast, the server refuses them."""
        return self._as_declared(name) if name in self.cast else f"s.{self.dialect.quoted(name)}"

    def _as_declared(self, name: str) -> str:
        declared = self.table.declared[name]
        if declared.endswith("[]"):
            declared = array_type(declared)
        return f"s.{self.dialect.quoted(name)}::{'bit varying' if declared.startswith('bit') else declared}"  # a cast truncates bits


def row_function(name: str, stage: str, statements: StageStatements, keys: Sequence[str], mode: InsertMode) -> str:
    """The statement that creates a function. A stage has ``total`` rows, which are stored in order. The function writes the rows that the
    table accepts, with the same result as row by row. It returns the ``row_index`` and the ``reason`` of each refused row.

    The function writes many rows with one statement. After a failure, it repeats the statement, and counts its rows with a sequence, which
    a rollback does not reset. The count identifies the bad row. If a constraint is checked only after all rows, the function halves the
    number of rows instead. Rows to merge are inserted until one already exists. Errors that are not about values are raised. A single
    ``row_index`` of -1 means that no row was written, because the rows are not stored in the order of ``ROW_NUMBER``.
    """
    rest = f"FROM {stage} WHERE ctid >= connect_rows.spot"
    some = f"(SELECT * {rest} LIMIT connect_rows.size)"
    counted = f"(SELECT * FROM {some} r WHERE nextval('pg_temp.{COUNTER}') > 0)"
    body = _ROW_BY_ROW.format(
        row=COUNTER,
        row_index=ROW_NUMBER,
        stage=stage,
        start_rows=_START_ROWS,
        advance=f"SELECT ctid INTO connect_rows.spot {rest} OFFSET connect_rows.size LIMIT 1",
        may_be_new=str(mode is InsertMode.UPSERT).lower(),
        as_new=statements.insert(some),
        counted_as_new=statements.insert(counted),
        statement=statements.write(some, keys, mode),
        counted=statements.write(counted, keys, mode),
    )
    head = f"CREATE OR REPLACE FUNCTION {name}(total int) RETURNS TABLE (row_index int, reason text) LANGUAGE plpgsql"
    return f"{head} AS {statements.dialect.text_literal(body)}"


class StagingDatabase(Database, Protocol):
    """A PostgreSQL connection that writes columns."""

    dialect: Dialect

    def copy_to_stage(self, stage: str, rows: pa.Table) -> None:
        """Add rows to a temporary table of this connection."""


def with_numbers(rows: pa.Table) -> pa.Table:
    """The rows with the column ``ROW_NUMBER``."""
    return rows.append_column(ROW_NUMBER, row_numbers(rows.num_rows).cast(pa.int32()))


class Stages:
    """The stages and functions of a connection, created at first use and reused for the same columns and statements."""

    def __init__(self, database: StagingDatabase) -> None:
        self._database = database
        self._created: dict[tuple[object, ...], str] = {}
        self._remains: dict[str, int] = {}

    def snapshot(self) -> Mapping[tuple[object, ...], str]:
        """The current stages, for ``restore`` after a rollback to this point."""
        return dict(self._created)

    def restore(self, snapshot: Mapping[tuple[object, ...], str]) -> None:
        self._created = dict(snapshot)

    @contextlib.contextmanager
    def filled(self, rows: pa.Table, *, is_ordered: bool = False) -> Iterator[str]:
        """A stage that has only these rows. If ``is_ordered``, they are stored in order, because PostgreSQL does not search for free space
        in a table that was truncated in the same transaction."""
        signature = is_ordered, *((field.name, stage_type(field)) for field in rows.schema)
        name = self._created.get(signature)
        if name is None:
            name = f"connect_stage_{len(self._created)}"
            columns = ", ".join(f"{self._database.dialect.quoted(field.name)} {stage_type(field)}" for field in rows.schema)
            self._database.execute(f"DROP TABLE IF EXISTS pg_temp.{name}")
            self._database.execute(f"CREATE TEMPORARY TABLE {name} ({columns}) ON COMMIT DELETE ROWS")
            self._created[signature] = name
        if is_ordered:
            self._database.execute(f"TRUNCATE pg_temp.{name}")
        self._database.copy_to_stage(name, rows)
        yield f"pg_temp.{name}"
        if not is_ordered:
            self._empty(name, rows.num_rows)

    def function(self, stage: str, statement: str, text_of: Callable[[str], str]) -> str:
        """The name of a function for one stage and a statement. ``text_of`` returns the SQL that creates it."""
        signature = stage, statement
        if signature not in self._created:
            name = self._created[signature] = f"pg_temp.connect_function_{len(self._created)}"
            self._database.execute(text_of(name))
        return self._created[signature]

    def _empty(self, stage: str, rows: int) -> None:
        self._remains[stage] = self._remains.get(stage, 0) + rows
        if self._remains[stage] < _MAX_DELETED_ROWS:
            self._database.execute(f"DELETE FROM pg_temp.{stage}")
        else:
            self._database.execute(f"TRUNCATE pg_temp.{stage}")
            self._remains[stage] = 0
