"""An open database, and the packages that it needs: small answers as Python rows, large ones as Arrow batches.

Products with an ADBC driver return columns; all others are read by SQLAlchemy. ``rows`` and ``has_row`` need no pyarrow, so that a check
inside an Airflow task stays cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_connect.connectors.jdbc.catalog.column import TABLE, Column, ColumnKind, Table, TableName
from airflow_provider_connect.connectors.jdbc.database.adbc_database import AdbcDatabase
from airflow_provider_connect.connectors.jdbc.database.database_url import URL, DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.database.other_databases import unsupported_reason
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import SqlAlchemyDatabase, missing_sqlalchemy_driver
from airflow_provider_connect.connectors.jdbc.dialects.url_options import TINY_AS_BOOLEAN
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import ConfigValue
from airflow_provider_connect.sdk.required_packages import RequiredPackages

if TYPE_CHECKING:
    from airflow_provider_connect.data.arrow import pa


class Database(Protocol):
    """One connection, for one thread; only ``cancel`` may be called from another.

    Raises RetriableException when there is no connection or it was lost, StatementException for a refused statement.
    """

    def rows(self, sql: str) -> list[tuple[Any, ...]]:  # Any: the columns' values
        """All rows of a small answer."""

    def has_row(self, sql: str) -> bool:
        """Whether the answer of a query has a row."""

    def execute(self, sql: str) -> None:
        """Run a statement that has no answer."""

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The answer in batches of about 4 MiB, or of some tens of rows where rows are long; except by PostgreSQL's driver at most about
        ``rows`` in each. Batches differ in type where a driver reports no types. No other method may be called until the answer is read
        to its end or the connection closed."""

    def cancel(self) -> None:
        """Interrupt the call that another thread waits in, which then raises an error."""

    def close(self) -> None:
        """Close the connection in any state. May be called twice."""


def open_database(url: DatabaseUrl) -> Database:
    """Connect. Raises ConfigException if the database refuses user, password or name, RetriableException if no server answers."""
    require_driver(url)
    return SqlAlchemyDatabase(url) if url.dialect.adbc_driver is None else AdbcDatabase(url)


def missing_driver(url: DatabaseUrl) -> str | None:
    """The packages that are not installed here, with the command that installs them; None: all are, or SQLAlchemy has to find out."""
    dialect = url.dialect
    if not dialect.is_known:
        has_sqlalchemy = RequiredPackages(dialect.name, ("sqlalchemy",), None).reason() is None
        return missing_sqlalchemy_driver(url) if has_sqlalchemy else unsupported_reason(dialect.name)
    needed = ["sqlalchemy"]
    if dialect.adbc_driver is not None:
        needed = ["adbc_driver_manager", dialect.adbc_driver, "nanoarrow", "sqlalchemy"]
    elif dialect.driver is not None and url.driver in (None, dialect.driver):
        needed.append(dialect.driver)
    return RequiredPackages(f"A connector to {dialect.name}", tuple(needed), dialect.extra).reason()


def require_driver(url: DatabaseUrl) -> None:
    """Raise ConfigException that names the missing packages."""
    reason = missing_driver(url)
    if reason is not None:
        raise ConfigException.of(URL, f"{url.dialect.name}:…", reason)


def add_driver_errors(values: Iterable[ConfigValue]) -> None:
    """Add an error to a valid URL if the driver of its database is not installed."""
    for value in values:
        if value.name == URL and value.value and not value.errors:
            try:
                require_driver(parse_url(str(value.value)))
            except ConfigException as error:
                value.errors.append(error.message)


def read_tables(database: Database, url: DatabaseUrl, types: Collection[str] = (TABLE,)) -> list[Table]:
    """The tables of these types (JDBC's words, in any case) that the user may read, in the order of their names, without the system's."""
    wanted = {word.upper() for word in types}
    tables = url.dialect.read_tables(database)
    return sorted((table for table in tables if table.type in wanted), key=lambda table: table.name.parts)


def read_columns(database: Database, url: DatabaseUrl, table: TableName) -> list[Column]:
    """The columns of a table in their order; empty where there is no such table."""
    found = url.dialect.read_columns(database, table)
    if url.options.get(TINY_AS_BOOLEAN) == "false":
        return [replace(column, kind=ColumnKind.INT8) if _is_tiny_boolean(column) else column for column in found]
    return found


def _is_tiny_boolean(column: Column) -> bool:
    return column.type_name == "tinyint" and column.kind is ColumnKind.BOOLEAN
