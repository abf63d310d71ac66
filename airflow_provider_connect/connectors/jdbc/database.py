"""An open database: small answers as Python rows, large ones as Arrow batches. Knows SQL as text only: no dialect, no offsets.

PostgreSQL and SQLite by their ADBC drivers, whose rows are columns from the wire on; everything else by SQLAlchemy. ``rows`` and
``has_row`` need no pyarrow, so that a check inside an Airflow task stays cheap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow_provider_connect.connectors.jdbc.database_url import MARIADB, MYSQL, SQLITE, URL, DatabaseUrl
from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.sdk.arrow import pa

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

USER: Final = "connection.user"
PASSWORD: Final = "connection.password"
_BATCH_BYTES: Final = 4 << 20  # of PostgreSQL's own encoding; larger batches fall out of the cache


class StatementException(ConnectException):
    """The database refuses a statement: a table that is gone, a right that is missing, a conversion that fails. ``state`` is its SQLSTATE
    where it has one."""

    def __init__(self, message: str, state: str | None = None) -> None:
        super().__init__(message)
        self.state = state


class Database(Protocol):
    """One connection, for one thread; only ``cancel`` may come from another.

    Raises RetriableException when the connection cannot be had or was lost, StatementException for a statement that is refused.
    """

    def rows(self, sql: str) -> list[tuple[Any, ...]]:  # Any: whatever the columns hold
        """All rows of a small answer."""

    def has_row(self, sql: str) -> bool:
        """Whether the answer of a query has a row."""

    def execute(self, sql: str) -> None:
        """Run a statement that has no answer."""

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The answer piece by piece, as the driver has it or about ``rows`` at a time. Nothing else may be asked until it is used up or
        the connection closed."""

    def cancel(self) -> None:
        """Make what another thread waits for end soon, with an error."""

    def close(self) -> None:
        """Let go of the connection, whatever state it is in. May come twice."""


def open_database(url: DatabaseUrl) -> Database:
    """Connect. Raises ConfigException where the database refuses user, password or name, RetriableException where nobody answers."""
    return AdbcDatabase(url) if url.has_adbc else SqlAlchemyDatabase(url)


class AdbcDatabase:
    """PostgreSQL or SQLite. Each statement is a transaction of its own."""

    def __init__(self, url: DatabaseUrl) -> None:
        import adbc_driver_manager

        self._url = url
        self._driver: Any = adbc_driver_manager  # Any: a compiled module without types
        product: Any = import_module("adbc_driver_sqlite" if url.dialect == SQLITE else "adbc_driver_postgresql")
        self._statement: Any = None
        self._connection: Any = None
        self._database: Any = None
        try:
            self._database = product.connect(url.adbc_uri)
            self._connection = adbc_driver_manager.AdbcConnection(self._database)
        except adbc_driver_manager.Error as error:
            self.close()
            raise connection_refusal(url, str(error)) from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        import nanoarrow

        with self._executed(sql) as answer:
            return list(nanoarrow.ArrayStream(answer.stream()).iter_tuples())

    def has_row(self, sql: str) -> bool:
        return bool(self.rows(f"SELECT 1 AS one WHERE EXISTS ({sql})"))

    def execute(self, sql: str) -> None:
        with self._executed(sql) as answer:
            answer.statement().execute_update()

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        options = {"adbc.sqlite.query.batch_rows": str(rows)} if self._url.dialect == SQLITE else _POSTGRESQL_STREAM
        with self._executed(sql, options) as answer:
            yield from answer.reader()

    def cancel(self) -> None:
        connection = self._connection
        if connection is not None:
            try:
                connection.cancel()
            except self._driver.Error:
                return

    def close(self) -> None:
        for part in (self._statement, self._connection, self._database):
            if part is not None:
                try:
                    part.close()
                except Exception:  # (a broken connection is closed all the same)
                    continue
        self._statement = self._connection = self._database = None

    def _executed(self, sql: str, options: Mapping[str, str] | None = None) -> _AdbcAnswer:
        if self._connection is None:
            raise RetriableException(f"The connection to {self._url.place} is closed")
        return _AdbcAnswer(self, sql, options or {})


_POSTGRESQL_STREAM: Final = {"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)}


class _AdbcAnswer:
    """One statement from its execution to its end; foreign errors are translated."""

    def __init__(self, database: AdbcDatabase, sql: str, options: Mapping[str, str]) -> None:
        self._database = database
        self._sql = sql
        self._options = options

    def __enter__(self) -> _AdbcAnswer:
        return self

    def stream(self) -> Any:  # the driver's own handle
        return self.statement().execute_query()[0]

    def statement(self) -> Any:  # the driver's own
        database = self._database
        statement = database._statement = database._driver.AdbcStatement(database._connection)
        if self._options:
            statement.set_options(**self._options)
        statement.set_sql_query(self._sql)
        return statement

    def reader(self) -> Any:  # a pa.RecordBatchReader
        return pa.RecordBatchReader.from_stream(self.stream())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        database, statement = self._database, self._database._statement
        database._statement = None
        if statement is not None:
            try:
                statement.close()
            except database._driver.Error:  # what was cut off in the middle
                database.close()
        if isinstance(error, database._driver.Error):
            raise statement_refusal(database._url, str(error), getattr(error, "sqlstate", None)) from None
        if error is not None and kind is not None and kind.__module__.partition(".")[0] in ("pyarrow", "nanoarrow"):
            raise statement_refusal(database._url, str(error), None) from None
        if isinstance(error, OSError):  # so Arrow hands on what a driver's stream says
            raise statement_refusal(database._url, str(error), None) from None


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
        with self._translated():
            return [tuple(row) for row in self._execute(sql)]

    def has_row(self, sql: str) -> bool:
        with self._translated():
            return self._execute(sql).first() is not None

    def execute(self, sql: str) -> None:
        with self._translated():
            self._execute(sql)

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        with self._translated():
            result = self._execute(sql, stream_results=True, max_row_buffer=rows)
            names = list(result.keys())
            while found := result.fetchmany(rows):
                columns = [pa.array(_plain(values)) for values in zip(*found, strict=True)]
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
        if self.connection is None:
            raise RetriableException(f"The connection to {self._url.place} is closed")
        return self.connection.execution_options(no_parameters=True, **options).exec_driver_sql(sql)

    def _translated(self) -> _Translated:
        return _Translated(self)


class _Translated:
    """Turns SQLAlchemy's errors into ours."""

    def __init__(self, database: SqlAlchemyDatabase) -> None:
        self._database = database

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        errors = self._database._sqlalchemy.exc
        if not isinstance(error, errors.SQLAlchemyError):
            return
        text = str(getattr(error, "orig", None) or error)
        if getattr(error, "connection_invalidated", False):
            raise RetriableException(f"The connection to {self._database._url.place} was lost: {text}") from None
        raise statement_refusal(self._database._url, text, None) from None


def _plain(values: tuple[Any, ...]) -> list[Any]:
    """MySQL's booleans of type BIT come as bytes, its sets as sets: Arrow knows neither."""
    return [",".join(sorted(value)) if isinstance(value, set) else value for value in values]


_UNKNOWN_USER: Final = re.compile(
    r"password authentication failed|no password supplied|Access denied for user|role \"[^\"]*\" does not exist|no pg_hba\.conf entry"
    r"|is not permitted to log in|Login failed|ORA-01017|authentication failed",
    re.IGNORECASE,
)
_UNKNOWN_DATABASE: Final = re.compile(
    r"database \"[^\"]*\" does not exist|Unknown database|unable to open database file|failed to open 'file:|file is not a database|Cannot open database",
    re.IGNORECASE,
)
_LOST: Final = re.compile(
    r"server closed the connection|terminating connection|connection (?:to server )?was lost|no connection to the server|broken pipe"
    r"|could not receive data|could not send data|Lost connection|gone away|connection reset|the database system is"
    r"|database is locked|SSL connection has been closed|SSL SYSCALL|connection not open",
    re.IGNORECASE,
)


def connection_refusal(url: DatabaseUrl, text: str) -> ConnectException:
    """Why there is no connection, with the setting to change; RetriableException where nobody answers. Never holds the password."""
    said = _without_password(url, text)
    if _UNKNOWN_USER.search(text):
        reason = f"{url.place} refuses user {url.user!r}: {said}. Set {USER} and {PASSWORD} to those of a user that may log in."
        return ConfigException.of(PASSWORD, "[hidden]", reason)
    if _UNKNOWN_DATABASE.search(text):
        return ConfigException.of(URL, url.place, f"There is no such database: {said}. Set {URL} to one that exists.")
    return RetriableException(f"No connection to {url.place} ({URL}): {said}")


def statement_refusal(url: DatabaseUrl, text: str, state: str | None) -> ConnectException:
    """What an error of a statement is: a lost connection, which may be had again, or a refusal."""
    said = _without_password(url, text)
    if (state or "").startswith(("08", "57P")) or _LOST.search(text):
        return RetriableException(f"The connection to {url.place} was lost: {said}")
    return StatementException(f"{url.place} refuses a statement: {said}", state)


def _without_password(url: DatabaseUrl, text: str) -> str:
    said = " ".join(text.split())
    return said.replace(url.password, "[hidden]") if url.password else said
