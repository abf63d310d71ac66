"""Any database that SQLAlchemy has a driver for. Rows pass through Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.connectors.jdbc.database_errors import connection_refusal, statement_refusal
from airflow_provider_connect.connectors.jdbc.database_url import MARIADB, MYSQL, URL, DatabaseUrl
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.arrow import pa

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


class SqlAlchemyDatabase:
    """Any database that SQLAlchemy has a driver for. Rows pass through Python."""

    def __init__(self, url: DatabaseUrl) -> None:
        import sqlalchemy

        self._url = url
        self._sqlalchemy: Any = sqlalchemy
        self.engine: Engine
        self.connection: Connection | None = None
        try:
            self.engine = sqlalchemy.create_engine(url.sqlalchemy_url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        except (sqlalchemy.exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise ConfigException.of(URL, f"{url.dialect}:…", f"There is no Python driver for {url.dialect} here: {error}") from None
        try:
            self.connection = self.engine.connect()
            if url.dialect in (MYSQL, MARIADB):  # what is stored in UTC is read in UTC
                self.connection.exec_driver_sql("SET time_zone = '+00:00'")
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise connection_refusal(url, str(getattr(error, "orig", None) or error)) from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._refusing():
            return [tuple(row) for row in self._execute(sql)]

    def has_row(self, sql: str) -> bool:
        with self._refusing():
            return self._execute(sql).first() is not None

    def execute(self, sql: str) -> None:
        with self._refusing():
            self._execute(sql)

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        with self._refusing():
            result = self._execute(sql, stream_results=True, max_row_buffer=rows)
            names = list(result.keys())
            while found := result.fetchmany(rows):
                columns = [_column(name, values) for name, values in zip(names, zip(*found, strict=True), strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names)

    def cancel(self) -> None:
        """Drivers have no common way; the piece that is being fetched comes to its end."""

    def close(self) -> None:
        if self.connection is not None:
            try:
                self.connection.invalidate()  # an answer may be half read
                self.connection.close()
            except self._sqlalchemy.exc.SQLAlchemyError:
                pass
            self.engine.dispose()
        self.connection = None

    def _execute(self, sql: str, **options: object) -> Any:  # a CursorResult
        return self._connected().execution_options(no_parameters=True, **options).exec_driver_sql(sql)

    def _connected(self) -> Connection:
        if self.connection is None:
            raise RetriableException(f"The connection to {self._url.place} is closed")
        return self.connection

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turns SQLAlchemy's errors into ours."""
        try:
            yield
        except self._sqlalchemy.exc.SQLAlchemyError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: Any) -> ConnectException:  # a SQLAlchemyError
        text = str(getattr(error, "orig", None) or error)
        if getattr(error, "connection_invalidated", False):
            return RetriableException(f"The connection to {self._url.place} was lost: {text}")
        return statement_refusal(self._url, text, None)


def _column(name: str, values: tuple[Any, ...]) -> pa.Array:
    try:
        return pa.array([",".join(sorted(value)) if isinstance(value, set) else value for value in values])
    except (pa.ArrowException, OverflowError) as error:
        raise DataException(f"Column {name} of the statement has values that go into no column of ours: {error}") from error
