"""Some rows of one table, in their loaded and their wanted state. Writes the differences in SQL that every database supports."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, bindparam, delete, insert, select, update
from sqlalchemy.orm import Session

from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.sql_mirror.tables import LONGEST_NAME, LONGEST_WORD

Database = Session | Connection
Row = dict[str, Any]  # Any: a column's own type
Key = tuple[Any, ...]
_V = TypeVar("_V")

_MOST_NAMES = 500  # in one IN (…) clause


class Rows:
    """The rows of ``table`` whose ``by`` is one of ``values`` and for which ``also`` holds. They are read for each batch of records, so
    ``by`` must be the first column of an index. Change ``now``, which maps primary keys to rows, then call ``write``."""

    def __init__(self, database: Database, table: Table, by: Column[Any], values: Collection[object], *also: ColumnElement[bool]) -> None:
        self._table = table
        self._keys = [column.name for column in table.primary_key.columns]
        self._others = [column.name for column in table.columns if column.name not in self._keys]
        self._before = {self.key(row): row for row in _selected(database, select(table).where(*also), by, values)}
        self.now = dict(self._before)

    def key(self, row: Row) -> Key:
        return tuple(row[name] for name in self._keys)

    def put(self, row: Row) -> None:
        """Add the row, or replace the row with the same key."""
        self.now[self.key(row)] = row

    def write(self, database: Database) -> None:
        """Write the differences between the loaded rows and ``now``."""
        before, now = self._before, self.now
        gone = [before[key] for key in before.keys() - now.keys()]
        if gone:
            remove_rows(database, self._table, gone)
        added = [now[key] for key in now.keys() - before.keys()]
        if added:
            database.execute(insert(self._table), added)
        changed = [now[key] for key in now.keys() & before.keys() if now[key] != before[key]]
        if changed and self._others:
            statement = update(self._table).where(*_is_key(self._table))
            values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in self._others}
            database.execute(statement.values(values), [_parameters(row, self._keys, self._others) for row in changed])


def remove_rows(database: Database, table: Table, rows: Iterable[Row]) -> None:
    """Delete the rows with these primary keys."""
    keys = [column.name for column in table.primary_key.columns]
    parameters = [_parameters(row, keys, []) for row in rows]
    if parameters:
        database.execute(delete(table).where(*_is_key(table)), parameters)


def _selected(database: Database, statement: Select[Any], by: Column[Any], values: Collection[object]) -> Iterator[Row]:
    found = iter(sorted(values, key=str))
    while some := list(islice(found, _MOST_NAMES)):
        yield from (dict(row) for row in database.execute(statement.where(by.in_(some))).mappings())


def _is_key(table: Table) -> list[Any]:
    return [column == bindparam(f"key_{column.name}") for column in table.primary_key.columns]


def _parameters(row: Row, keys: list[str], others: list[str]) -> Row:
    return {**{f"key_{name}": row[name] for name in keys}, **{f"new_{name}": row[name] for name in others}}


def json_text(value: object) -> str:
    """``value`` as the mirror's JSON: ASCII, without spaces, with the order of its entries kept."""
    return json.dumps(value, separators=(",", ":"))


def optional(value: _V | None, convert: Callable[[_V], str]) -> str | None:
    """``convert(value)``, but None for None."""
    return None if value is None else convert(value)


def storable(text: str) -> str:
    """``text`` with null characters and lone surrogates escaped, because some databases refuse them."""
    if "\0" in text or not text.isprintable():
        text = text.replace("\0", "\\x00").encode(errors="backslashreplace").decode()
    return text


def is_name(text: str) -> bool:
    """Whether ``text`` can be a key in every database. MySQL ignores trailing blanks when it compares names."""
    return 0 < len(text) <= LONGEST_NAME and storable(text) == text and not text.endswith(" ")


def is_claim(claim: Claim | None) -> bool:
    """Whether ``claim`` can be stored. A claim of another writer may be too long."""
    return claim is None or len(str(claim)) <= LONGEST_WORD


def is_integer(number: int) -> bool:
    """Whether ``number`` is valid as the number of a task or a partition."""
    return 0 <= number <= 0x7FFFFFFF


def is_count(number: int) -> bool:
    """Whether ``number`` is valid as a number of records or bytes. The sum of thousands of such numbers fits into 64 bits."""
    return 0 <= number <= 1 << 50
