"""Any database that SQLAlchemy has a driver for. Rows pass through Python."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.connectors.jdbc.database.adbc_database import BATCH_BYTES
from airflow_provider_connect.connectors.jdbc.database.database_errors import connection_refusal, statement_refusal
from airflow_provider_connect.connectors.jdbc.database.database_files import opening
from airflow_provider_connect.connectors.jdbc.database.database_url import MARIADB, MYSQL, SQLITE, URL, DatabaseUrl
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.arrow import pa

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


_FETCHED_ROWS: Final = 32  # at once; their bytes are counted before more are fetched
_NUMBER_BYTES: Final = 8  # of a value that is no text


class SqlAlchemyDatabase:
    """Any database that SQLAlchemy has a driver for. Rows pass through Python."""

    def __init__(self, url: DatabaseUrl) -> None:
        import sqlalchemy

        self._url = url
        self._sqlalchemy: Any = sqlalchemy
        self.engine: Engine
        self.connection: Connection | None = None
        try:
            with opening(url) as there:
                self._connect(there)
        except ConfigException:
            self.close()
            raise

    def _connect(self, url: DatabaseUrl) -> None:
        """To the URL with paths resolved; errors speak of the one that was given."""
        try:
            how: dict[str, Any] = {"poolclass": self._sqlalchemy.NullPool, "isolation_level": "AUTOCOMMIT"}
            if url.dialect == SQLITE:  # by its URI, which keeps to the path and the mode
                how["creator"] = lambda: sqlite3.connect(url.adbc_uri, uri=True, check_same_thread=False)
            self.engine = self._sqlalchemy.create_engine("sqlite://" if url.dialect == SQLITE else url.sqlalchemy_url, **how)
        except (self._sqlalchemy.exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise ConfigException.of(URL, f"{url.dialect}:…", f"There is no Python driver for {url.dialect} here: {error}") from None
        try:
            self.connection = self.engine.connect()
            if url.dialect in (MYSQL, MARIADB):  # what is stored in UTC is read in UTC
                self.connection.exec_driver_sql("SET time_zone = '+00:00'")
        except self._sqlalchemy.exc.SQLAlchemyError as error:
            raise connection_refusal(self._url, str(getattr(error, "orig", None) or error)) from None

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
            result = self._execute(sql, stream_results=True, max_row_buffer=_FETCHED_ROWS)
            names = list(result.keys())
            for found in _pieces(result, rows):
                columns = [_column(name, values) for name, values in zip(names, zip(*found, strict=True), strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names)

    def cancel(self) -> None:
        """Drivers have no common way; the piece that is being fetched is completed."""

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
            raise RetriableException(f"The connection to {self._url.address} is closed")
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
            return RetriableException(f"The connection to {self._url.address} was lost: {text}")
        return statement_refusal(self._url, text, None)


def _pieces(result: Any, rows: int) -> Iterator[list[Sequence[Any]]]:
    """The rows of a CursorResult, ``rows`` or some ``BATCH_BYTES`` at a time."""
    held: list[Sequence[Any]] = []
    size = 0
    while found := result.fetchmany(min(rows, _FETCHED_ROWS)):
        held += found
        size += sum(len(value) if isinstance(value, str | bytes) else _NUMBER_BYTES for row in found for value in row)
        if len(held) >= rows or size >= BATCH_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _column(name: str, values: tuple[Any, ...]) -> pa.Array:
    try:
        return pa.array([",".join(sorted(value)) if isinstance(value, set) else value for value in values])
    except (pa.ArrowException, OverflowError) as error:
        raise DataException(f"Column {name} of the statement has values that go into no column of ours: {error}") from error
