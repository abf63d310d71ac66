"""Rows that a table of PostgreSQL probably refuses, as far as its catalog tells what it demands. What only the database itself knows, such
as triggers, is not looked for."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException, StatementException
from airflow_provider_connect.connectors.jdbc.sink.keys import repeated
from airflow_provider_connect.connectors.jdbc.sink.literal import text_literal
from airflow_provider_connect.connectors.jdbc.sink.settings import InsertMode
from airflow_provider_connect.connectors.jdbc.sink.stages import Stages, StagingDatabase, with_places
from airflow_provider_connect.connectors.jdbc.sink.statements import PLACE, StageStatements
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.sdk.arrow import pa, pc

_LONGEST: Final = re.compile(r"character(?: varying)?\((\d+)\)")
_DIGITS: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")
_NAMES: Final = """ARRAY(SELECT a.attname::text FROM unnest(k.{numbers}) WITH ORDINALITY n (number, place)
JOIN pg_attribute a ON a.attrelid = k.{table} AND a.attnum = n.number ORDER BY n.place)"""
_RULES: Final = f"""
SELECT contype::text, coalesce(pg_get_expr(conbin, conrelid), confrelid::regclass::text),
{_NAMES.format(numbers="conkey", table="conrelid")}, {_NAMES.format(numbers="confkey", table="confrelid")}
FROM pg_constraint k WHERE conrelid = {{table}}::regclass
AND (contype = 'c' OR contype = 'f' AND confrelid <> conrelid AND has_table_privilege(confrelid, 'SELECT'))
AND coalesce((to_jsonb(k) ->> 'conenforced')::bool, true)"""


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A condition of SQL under which a row ``s`` is a suspect, and the columns that it looks at."""

    columns: frozenset[str]
    condition: str


class Suspects:
    """Looks for them: rows that violate a check, refer to what is not there or are too long; for inserts those with a key that is there."""

    def __init__(self, database: StagingDatabase, stages: Stages) -> None:
        self._database = database
        self._stages = stages
        self._doubts: dict[tuple[str, InsertMode], list[_Doubt]] = {}

    def among(self, rows: pa.Table, statements: StageStatements, mode: InsertMode) -> list[int]:
        """The places of the suspects."""
        found = set(_too_long(rows, statements.table))
        if mode is InsertMode.INSERT:
            found.update(repeated(rows, statements.table.unique))
        signature = statements.insert(""), mode
        # a value that cannot be cast, or a check that asks for more than columns, is left to the database
        with contextlib.suppress(RefusedException, StatementException), self._database.taken_back_if_refused("connect_doubts"):
            if signature not in self._doubts:
                self._doubts[signature] = list(_doubts(self._database, statements, mode))
            found.update(self._doubted(rows, statements, self._doubts[signature]))
        return sorted(found)

    def _doubted(self, rows: pa.Table, statements: StageStatements, doubts: Sequence[_Doubt]) -> Iterator[int]:
        if not doubts:
            return
        looked_at = frozenset().union(*(doubt.columns for doubt in doubts))
        names = [name for name in statements.names if name in looked_at]
        values = "".join(f", {statements.value(name)} AS {statements.dialect.quoted(name)}" for name in names)
        conditions = " OR ".join(f"({doubt.condition})" for doubt in doubts)
        with self._stages.filled(with_places(rows.select(names))) as stage:
            for (place,) in self._database.rows(f"SELECT {PLACE} FROM (SELECT {PLACE}{values} FROM {stage} s) s WHERE {conditions}"):
                yield place


def _doubts(database: StagingDatabase, statements: StageStatements, mode: InsertMode) -> Iterator[_Doubt]:
    table = text_literal(statements.target, statements.dialect)
    rules: list[tuple[Any, ...]] = database.rows(_RULES.format(table=table))
    for kind, rule, columns, others in rules:
        if not frozenset(columns) <= set(statements.names):
            continue
        if kind == "c":
            yield _Doubt(frozenset(columns), f"NOT ({rule})")
        else:
            given = " AND ".join(f"s.{statements.dialect.quoted(name)} IS NOT NULL" for name in columns)
            yield _Doubt(frozenset(columns), f"{given} AND {_found(statements, rule, columns, others)} IS NULL")
    if mode is InsertMode.INSERT and database.has_row(f"SELECT 1 WHERE has_table_privilege({table}, 'SELECT')"):
        for unique in statements.table.unique:
            if unique <= set(statements.names):
                yield _Doubt(unique, f"{_found(statements, statements.target, sorted(unique))} IS NOT NULL")


def _found(statements: StageStatements, table: str, keys: Sequence[str], names: Sequence[str] | None = None) -> str:
    """True where ``table`` has a row with the values of ``keys``, else null. For each row by itself: a join might read the whole table."""
    return f"(SELECT true FROM {table} t WHERE {statements.same(keys, names)} LIMIT 1)"


def _too_long(rows: pa.Table, table: TargetTable) -> Iterator[int]:
    for name in rows.column_names:
        type, column = table.declared[name], rows[name]
        longest, digits = _LONGEST.fullmatch(type), _DIGITS.fullmatch(type)
        if longest and pa.types.is_string(column.type):
            is_long = pc.greater(pc.utf8_length(column), int(longest[1]))
        elif digits and _is_number(column.type):
            is_long = pc.greater_equal(pc.abs(column.cast(pa.float64())), 10.0 ** (int(digits[1]) - int(digits[2])))
        else:
            continue
        yield from pc.indices_nonzero(is_long).to_pylist()


def _is_number(type: pa.DataType) -> bool:
    types = pa.types
    return any(is_one(type) for is_one in (types.is_decimal, types.is_integer, types.is_floating))
