"""Statements of PostgreSQL that bring rows from a stage, named ``s``, into a table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.sink.literal import text_literal
from airflow_provider_connect.connectors.jdbc.sink.settings import InsertMode
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable

COUNTER: Final = "connect_row"  # a temporary sequence
PLACE: Final = "__connect_place"  # a stage's column of the rows' numbers, from 0 on
_START_ROWS: Final = 100  # what a statement costs before its first row, in rows: few at a time are less to do again, many start less often
_SIEVE: Final = """
#variable_conflict use_column
<<connect_sieve>>
DECLARE
  first int := 0;       -- the row that comes next
  spot tid := '(0,0)';  -- and where it lies
  size int := total;    -- how many rows to try together
  usual int := total;
  is_cut boolean := false;  -- whether this try ends before a row that is said to be bad
  refused int := 0;
  bad int; said text; detail text;
BEGIN
  IF EXISTS (SELECT FROM (SELECT {place} AS came, row_number() OVER () - 1 AS lies FROM {stage}) s WHERE came <> lies) THEN
    place := -1;
    RETURN NEXT;
    RETURN;
  END IF;
  WHILE connect_sieve.first < total LOOP
    PERFORM setval('pg_temp.{row}', connect_sieve.first + 1, false);
    BEGIN
      {statement};
      {advance};
      connect_sieve.first := connect_sieve.first + connect_sieve.size;
      connect_sieve.size := CASE WHEN connect_sieve.is_cut THEN 1 ELSE connect_sieve.usual END;
      connect_sieve.is_cut := false;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR with_check_option_violation THEN
      GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
      connect_sieve.bad := currval('pg_temp.{row}') - 1;
      IF connect_sieve.size = 1 THEN
        place := connect_sieve.first;
        reason := concat_ws(' ', 'ERROR:', said, 'DETAIL: ' || nullif(detail, ''));
        RETURN NEXT;
        connect_sieve.refused := connect_sieve.refused + 1;
        {advance};
        connect_sieve.first := connect_sieve.first + 1;
        connect_sieve.usual := ceil(sqrt(2.0 * {start_rows} * (connect_sieve.first / connect_sieve.refused - 1)) + 1);
        connect_sieve.size := connect_sieve.usual;
        connect_sieve.is_cut := false;
      ELSIF connect_sieve.bad < least(connect_sieve.first + connect_sieve.size, total) - 1 THEN
        connect_sieve.is_cut := connect_sieve.bad > connect_sieve.first;
        connect_sieve.size := greatest(1, connect_sieve.bad - connect_sieve.first);
      ELSE
        connect_sieve.is_cut := false;
        connect_sieve.usual := connect_sieve.size / 2;
        connect_sieve.size := connect_sieve.usual;
      END IF;
    END;
  END LOOP;
END
"""


_TYPE: Final = re.compile(r"too long for type (.+?)(?: DETAIL: |$)", re.DOTALL)
_DIGITS: Final = re.compile(r"A field with precision (\d+), scale (-?\d+)")
_RANGE: Final = re.compile(r"ERROR: (\w+) out of range")


def with_columns(reason: str, table: TargetTable, names: Collection[str]) -> str:
    """What PostgreSQL says of a value that does not fit, with the columns that it may mean: it tells no more than their type."""
    digits, found = _DIGITS.search(reason), _TYPE.search(reason) or _RANGE.search(reason)
    type = f"numeric({digits[1]},{digits[2]})" if digits else found[1] if found else None
    columns = [name for name in names if type is not None and table.declared.get(name) == type]
    return f"{reason} (column {' or '.join(columns)})" if columns else reason


@dataclass(frozen=True, slots=True)
class StageStatements:
    """``names`` are the columns of the stage; those of ``cast`` have other types there than in the table."""

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
        """The statement of a mode."""
        if mode is InsertMode.INSERT:
            return self.insert(stage)
        return self.upsert(stage, keys) if mode is InsertMode.UPSERT else self.update(stage, keys)

    @property
    def target(self) -> str:
        """The table's name."""
        return self.dialect.table(self.table.name)

    def same(self, keys: Sequence[str], names: Sequence[str] | None = None) -> str:
        """Whether a row ``t`` has the values of ``keys``, in columns of those names or of ``names``."""
        return " AND ".join(itertools.chain.from_iterable(map(self._is_same, keys, keys if names is None else names)))

    def _is_same(self, key: str, name: str) -> Iterator[str]:
        """A text that is too long for a column is equal to no value of it, though a cast cuts it off: but for blanks, which go without a
        word when a row is written, too."""
        declared, given = self.table.declared[key], f"s.{self.dialect.quoted(key)}"
        yield f"t.{self.dialect.quoted(name)} = {self._as_declared(key)}"
        if self.table.columns[key].type_name in ("bpchar", "varchar") and declared != "character varying":
            yield f"rtrim({given}::text) = rtrim({self._as_declared(key)}::text)"

    def groups(self, stage: str) -> str:
        """For each row of a stage with ``PLACE``, in that order, the place of the first whose columns are equal to its own."""
        keys = (f"{self._as_declared(name)}{self._collation(name)}" for name in self.names)
        return f"SELECT min({PLACE}) OVER (PARTITION BY {', '.join(keys)}) AS first FROM {stage} s ORDER BY {PLACE}"

    def _collation(self, name: str) -> str:
        collation = self.table.collations.get(name)
        return "" if collation is None else f" COLLATE {collation}"

    def value(self, name: str) -> str:
        """A value for its column. A cast that is written down cuts texts off that are too long; what needs none is refused then."""
        return self._as_declared(name) if name in self.cast else f"s.{self.dialect.quoted(name)}"

    def _as_declared(self, name: str) -> str:
        declared = self.table.declared[name]
        return f"s.{self.dialect.quoted(name)}::{'bit varying' if declared.startswith('bit') else declared}"  # of bits a cast cuts some off


def sieve_function(name: str, stage: str, statement_of: Callable[[str], str], dialect: Dialect) -> str:
    """The statement that makes a function: of the ``total`` rows of a stage, which lie in it in their order, it brings in what the table
    takes, as if row by row, and returns the ``place`` of each row that is refused with the ``reason``.

    It tries many rows at once. A sequence, which no failure takes back, tells which row was on its way then; where that cannot be, because
    a constraint is looked at when all rows are there, it halves what it tries. Errors that are not about values go out. A single place
    of -1: nothing was done, since the rows do not lie in the order of their ``PLACE``.
    """
    behind = f"FROM {stage} WHERE ctid >= connect_sieve.spot"
    some = f"(SELECT * FROM (SELECT * {behind} LIMIT connect_sieve.size) r WHERE nextval('pg_temp.{COUNTER}') > 0)"
    advance = f"SELECT ctid INTO connect_sieve.spot {behind} OFFSET connect_sieve.size LIMIT 1"
    names = {"row": COUNTER, "place": PLACE, "stage": stage, "start_rows": _START_ROWS}
    body = _SIEVE.format(**names, advance=advance, statement=statement_of(some))
    head = f"CREATE OR REPLACE FUNCTION {name}(total int) RETURNS TABLE (place int, reason text) LANGUAGE plpgsql"
    return f"{head} AS {text_literal(body, dialect)}"
