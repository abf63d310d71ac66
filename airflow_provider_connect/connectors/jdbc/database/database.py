"""An open database, and the packages that it needs: small answers as Python rows, large ones as Arrow batches.

Knows SQL as text only: no dialect, no offsets.

PostgreSQL and SQLite by their ADBC drivers, whose rows are columns from the wire on; everything else by SQLAlchemy. ``rows`` and
``has_row`` need no pyarrow, so that a check inside an Airflow task stays cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_connect.connectors.jdbc.database.adbc_database import AdbcDatabase
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import SqlAlchemyDatabase, missing_dialect

if TYPE_CHECKING:
    from airflow_provider_connect.data.arrow import pa
from collections.abc import Iterable
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.database_options import MARIADB, MSSQL, MYSQL, ORACLE, POSTGRESQL, SQLITE
from airflow_provider_connect.connectors.jdbc.database.database_url import URL, parse_url
from airflow_provider_connect.connectors.jdbc.database.other_databases import way_out
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import ConfigValue
from airflow_provider_connect.sdk.required_packages import RequiredPackages


class Database(Protocol):
    """One connection, for one thread; only ``cancel`` may come from another.

    Raises RetriableException when there is no connection or it was lost, StatementException for a statement that is refused.
    """

    def rows(self, sql: str) -> list[tuple[Any, ...]]:  # Any: whatever the columns hold
        """All rows of a small answer."""

    def has_row(self, sql: str) -> bool:
        """Whether the answer of a query has a row."""

    def execute(self, sql: str) -> None:
        """Run a statement that has no answer."""

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The answer piece by piece: as PostgreSQL's driver has it, elsewhere at most about ``rows`` at a time; of 4 MiB each, or where
        rows are long, some tens of rows. Pieces differ in type where a driver shows none. Nothing else may be asked until the answer is
        used up or the connection closed."""

    def cancel(self) -> None:
        """Make what another thread waits for end soon, with an error."""

    def close(self) -> None:
        """Let go of the connection, whatever state it is in. May come twice."""


def open_database(url: DatabaseUrl) -> Database:
    """Connect. Raises ConfigException where the database refuses user, password or name, RetriableException where no server answers."""
    require_driver(url)
    return AdbcDatabase(url) if url.has_adbc else SqlAlchemyDatabase(url)


_ADBC: Final = {POSTGRESQL: "adbc_driver_postgresql", SQLITE: "adbc_driver_sqlite"}
_DRIVERS: Final = {MYSQL: "pymysql", MARIADB: "pymysql", MSSQL: "pymssql", ORACLE: "oracledb"}
_EXTRAS: Final = {POSTGRESQL: "jdbc", SQLITE: "jdbc", MYSQL: "mysql", MARIADB: "mysql", MSSQL: "mssql", ORACLE: "oracle"}


def missing_driver(url: DatabaseUrl) -> str | None:
    """What is not installed here, with the line that installs it; None: everything is, or SQLAlchemy has to find out."""
    if url.dialect not in _EXTRAS:
        is_there = RequiredPackages(url.dialect, ("sqlalchemy",), None).reason() is None
        return missing_dialect(url) if is_there else way_out(url.dialect)
    if url.dialect in _ADBC:
        needed = ["adbc_driver_manager", _ADBC[url.dialect], "nanoarrow", "sqlalchemy"]
    else:
        driver = _DRIVERS.get(url.dialect) if url.driver in (None, _DRIVERS.get(url.dialect)) else None
        needed = ["sqlalchemy", *([driver] if driver else [])]
    return RequiredPackages(f"A connector to {url.dialect}", tuple(needed), _EXTRAS[url.dialect]).reason()


def require_driver(url: DatabaseUrl) -> None:
    """Raise ConfigException with what is missing."""
    reason = missing_driver(url)
    if reason is not None:
        raise ConfigException.of(URL, f"{url.dialect}:…", reason)


def add_driver_errors(values: Iterable[ConfigValue]) -> None:
    """To the URL, where it is good in itself but its database cannot be reached from this environment."""
    for value in values:
        if value.name == URL and value.value and not value.errors:
            try:
                require_driver(parse_url(str(value.value)))
            except ConfigException as error:
                value.errors.append(error.message)
