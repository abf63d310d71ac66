"""The interface of a database for sinks: transactions, tables, and writing whole columns. One connection, for one thread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.sink.settings import TABLE_FORMAT, TABLE_PATTERN, InsertMode
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConfigException


class SinkStore(Database, Protocol):
    """An open database to write to.

    Rows are Arrow tables whose columns have the names of the table's columns. Methods raise RefusedException for bad values,
    RetriableException if the connection or transaction is lost, and StatementException for all other errors.
    """

    url: DatabaseUrl
    dialect: Dialect
    blocks_writers: bool
    """Whether a transaction that has written blocks all other writers, so that it must be short."""
    needs_transactions: bool
    """Whether ``read_table`` refuses a table that cannot roll back. False until it is set."""
    session: str
    """The connection's name for ``end_session``; empty if it has no name."""

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def savepoint(self) -> AbstractContextManager[None]:
        """A block that is rolled back if it raises DataException or StatementException. The transaction continues."""

    def end_session(self, session: str) -> None:
        """End another connection of this user that may still be open, and its transaction. Called outside of transactions."""

    def locked_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT, locked until the transaction ends."""

    def read_table(self, name: TableName, keys: Sequence[str] = ()) -> TargetTable | None:
        """The current state of the table. None if it does not exist. A view that can be written to has the unique columns of its table; a
        store may report only ``keys`` of them."""

    def lock_to_change(self, table: TargetTable) -> None:
        """Prevent other tasks from changing the table until the transaction ends."""

    def lock_to_write(self, table: TargetTable) -> bool:
        """Prevent changes of the table's columns until the transaction ends. Only for stores that write rows in the columns' types. Returns
        whether the columns are unchanged since they were read."""

    def equal_keys(self, table: TargetTable, keys: pa.Table) -> pa.Table | None:
        """A table with the same number of rows. Its rows are equal where the database considers the keys equal (``A`` and ``a``, 1.0 and
        1.00). None if this is unknown before the rows are written in order."""

    def insert(self, table: TargetTable, rows: pa.Table) -> None: ...

    def upsert(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None: ...

    def update(self, table: TargetTable, rows: pa.Table, keys: Sequence[str]) -> None: ...

    def delete(self, table: TargetTable, rows: pa.Table) -> None:
        """Delete the rows that have the values of ``rows`` in the same columns."""

    def write_without_refused(self, table: TargetTable, rows: pa.Table, keys: Sequence[str], mode: InsertMode) -> dict[int, str] | None:
        """Write the rows without refused rows, with the same result as one by one in order. Returns the reasons by row index. None means
        that no row is written, because the database cannot name refused rows."""


def table_name(text: str, url: DatabaseUrl, dialect: Dialect, setting: str = TABLE_FORMAT) -> TableName:
    """The table of a dotted name in a config. The parts are schema and table, if the database has schemas. A quoted part is literal,
    including its dots. Raises ConfigException for a name with a part that statements on this connection cannot have."""
    parts = _parts(text, dialect, setting)
    if parts is None:
        text = dialect.stored_name(text)
        parts = text.rsplit(".", 2) if dialect.has_dotted_names else [text]
    *before, table = parts
    if not dialect.has_schemas:
        if len(before) > 1:
            raise _surplus(setting, text, f"{before[0]} is neither its database nor its table")
        return TableName(table, None, before[-1] if before else None)
    catalog = before[0] if len(before) > 1 else None
    if catalog is not None and dialect.reaches_one_database and catalog != (url.database or url.user):
        raise _surplus(setting, text, f"{catalog} is not the database of the connection, which reaches no other")
    return TableName(table, before[-1] if before else None, catalog)


def _surplus(setting: str, text: str, reason: str) -> ConfigException:
    shorter = (
        f"Set {TABLE_PATTERN} to take the table's name from a part of the topic's" if setting == TABLE_FORMAT else "Leave that part out"
    )
    return ConfigException.of(setting, text[:200], f"{reason[:200]}. {shorter}, or put a name that has dots in quotes.")


def _parts(text: str, dialect: Dialect, setting: str) -> list[str] | None:
    """The parts of a name with the database's or standard SQL's quotes. None if the name has no quotes."""
    marks = [*{dialect.quotes, ('"', '"')}]
    quoted = "|".join(rf"{re.escape(a)}(?:[^{re.escape(b)}]|{re.escape(b)}{re.escape(b)})+{re.escape(b)}" for a, b in marks)
    part = rf"(?:{quoted}|[^.]+)"
    if not re.search(rf"(?:^|\.)(?:{quoted})(?:\.|$)", text):
        return None
    if not re.fullmatch(rf"{part}(?:\.{part}){{0,2}}", text):
        raise ConfigException.of(setting, text[:200], "Write schema and table with a dot between, each in quotes or without.")
    closing = dict(marks)
    found = re.findall(part, text)
    return [
        each[1:-1].replace(closing[each[0]] * 2, closing[each[0]]) if re.fullmatch(quoted, each) else dialect.stored_name(each)
        for each in found
    ]
