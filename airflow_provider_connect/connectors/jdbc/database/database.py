"""An open database, and the packages that it needs. Small results are Python rows, large results are Arrow batches.

Products with an ADBC driver return columns. All others are read with SQLAlchemy. ``rows`` and ``has_row`` do not need pyarrow, so that a
check in an Airflow task stays cheap.
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
    """One connection, for one thread. Only ``cancel`` may be called from another thread.

    Methods raise RetriableException if there is no connection or it was lost, and StatementException for a refused statement.
    """

    def rows(self, sql: str) -> list[tuple[Any, ...]]:  # Any: the columns' values
        """All rows of a small result."""

    def has_row(self, sql: str) -> bool:
        """Whether the result of a query has a row."""

    def execute(self, sql: str) -> None:
        """Run a statement that has no result."""

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The result in batches of about 4 MiB, or of some tens of rows if rows are long. Batches have at most about ``rows`` rows, except
        with PostgreSQL's driver. If a driver does not report types, the types of batches may differ. No other method may be called until
        the result is read to its end, or the connection is closed."""

    def cancel(self) -> None:
        """Interrupt the current call in another thread. That call then raises an exception."""

    def close(self) -> None:
        """Close the connection, whatever its state. May be called twice."""


def open_database(url: DatabaseUrl) -> Database:
    """Connect. Raises ConfigException if the database refuses user, password or name, RetriableException if no server responds."""
    require_driver(url)
    return SqlAlchemyDatabase(url) if url.dialect.adbc_driver is None else AdbcDatabase(url)


def missing_driver(url: DatabaseUrl) -> str | None:
    """The missing packages, with the command that installs them. None if all are installed, or if only SQLAlchemy can determine this."""
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
    """Raise a ConfigException that names missing packages."""
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
    """The tables of these types (JDBC's names, in any case) that the user may read, in the order of their names. System tables are
    omitted."""
    wanted = {word.upper() for word in types}
    tables = url.dialect.read_tables(database)
    return sorted((table for table in tables if table.type in wanted), key=lambda table: table.name.parts)


def read_columns(database: Database, url: DatabaseUrl, table: TableName) -> list[Column]:
    """The columns of a table in order. Empty if there is no such table."""
    found = url.dialect.read_columns(database, table)
    if url.options.get(TINY_AS_BOOLEAN) == "false":
        return [replace(column, kind=ColumnKind.INT8) if _is_tiny_boolean(column) else column for column in found]
    return found


def _is_tiny_boolean(column: Column) -> bool:
    return column.type_name == "tinyint" and column.kind is ColumnKind.BOOLEAN
