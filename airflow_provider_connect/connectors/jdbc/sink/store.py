"""What a sink needs of a database: transactions, tables and whole columns written at once. One connection, for one thread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.sink.settings import TABLE_FORMAT, InsertMode
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConfigException


class SinkStore(Database, Protocol):
    """An open database to write to.

    Rows are tables of Arrow columns named like the table's. Raises RefusedException for bad values, RetriableException when the
    connection or the transaction is lost, StatementException for everything else.
    """

    url: DatabaseUrl
    dialect: Dialect
    blocks_writers: bool
    """Whether a transaction that has written keeps all others from writing, so that it must be short."""
    needs_transactions: bool
    """Whether a table that cannot take rows back is refused when it is read. False, until it is set."""
    session: str
    """The connection's name for ``end_session``; empty where it has none."""

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def savepoint(self) -> AbstractContextManager[None]:
        """What is done in it is taken back if a DataException or StatementException ends it, and the transaction goes on."""

    def end_session(self, session: str) -> None:
        """End another connection of this user that may have been left open, with its transaction. Outside of transactions."""

    def locked_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT, locked until the transaction ends."""

    def read_table(self, name: TableName) -> TargetTable | None:
        """The table as it is; None where it does not exist."""

    def lock_to_change(self, table: TargetTable) -> None:
        """Keep other tasks from changing the table until the transaction ends."""

    def lock_to_write(self, table: TargetTable) -> bool:
        """Keep all others from changing the table's columns until the transaction ends, where rows are written in their form. Whether they
        are still as they were read."""

    def equal_keys(self, table: TargetTable, keys: pa.Table) -> pa.Table | None:
        """A table of as many rows, of which those are equal whose keys the database holds equal (``A`` and ``a``, 1.0 and 1.00). None: only
        writing the rows in their order shows it."""

    def insert(self, table: TargetTable, rows: pa.Table) -> None: ...

    def upsert(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None: ...

    def update(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None: ...

    def delete(self, table: TargetTable, rows: pa.Table) -> None:
        """Delete the rows that have the values of ``rows`` in those columns."""

    def write_without_refused(self, table: TargetTable, rows: pa.Table, keys: Sequence[str], mode: InsertMode) -> dict[int, str] | None:
        """Write the rows as if one by one, in their order, but for those that are refused; why they are, by their numbers. None: nothing is
        written, since the database cannot name them."""


def table_name(text: str, dialect: Dialect) -> TableName:
    """The name that a config writes with dots: schema and table, where the database has schemas. A part in quotes is a name as it is, dots
    included."""
    parts = _parts(text, dialect)
    if parts is None:
        text = dialect.stored_name(text)
        parts = text.rsplit(".", 2) if dialect.has_dotted_names else [text]
    *before, table = parts
    if not dialect.has_schemas:
        return TableName(table, None, before[-1] if before else None)
    return TableName(table, before[-1] if before else None, before[0] if len(before) > 1 else None)


def _parts(text: str, dialect: Dialect) -> list[str] | None:
    """The parts of a name that has quotes, the database's own or those of standard SQL; None: it has none."""
    marks = [*{dialect.quotes, ('"', '"')}]
    quoted = "|".join(rf"{re.escape(a)}(?:[^{re.escape(b)}]|{re.escape(b)}{re.escape(b)})+{re.escape(b)}" for a, b in marks)
    part = rf"(?:{quoted}|[^.]+)"
    if not re.search(rf"(?:^|\.)(?:{quoted})(?:\.|$)", text):
        return None
    if not re.fullmatch(rf"{part}(?:\.{part}){{0,2}}", text):
        raise ConfigException.of(TABLE_FORMAT, text[:200], "Write schema and table with a dot between, each in quotes or without.")
    closing = dict(marks)
    found = re.findall(part, text)
    return [
        each[1:-1].replace(closing[each[0]] * 2, closing[each[0]]) if re.fullmatch(quoted, each) else dialect.stored_name(each)
        for each in found
    ]
