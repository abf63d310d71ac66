"""Any database that SQLAlchemy has a driver for. Rows pass through Python."""

from __future__ import annotations

import bisect
import contextlib
import sqlite3
import ssl
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.connectors.jdbc.database.adbc_database import bounded_rows
from airflow_provider_connect.connectors.jdbc.database.database_errors import (
    StatementException,
    ValueException,
    connection_error,
    error_number,
    redacted,
    statement_error,
)
from airflow_provider_connect.connectors.jdbc.database.database_files import guarded_files
from airflow_provider_connect.connectors.jdbc.database.database_options import SECRET_OPTIONS
from airflow_provider_connect.connectors.jdbc.database.database_url import URL, DatabaseUrl
from airflow_provider_connect.connectors.jdbc.database.other_databases import unsupported_reason
from airflow_provider_connect.connectors.jdbc.dialects.dialect import BATCH_BYTES
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


_FETCHED_ROWS: Final = 32  # fetched at once; their bytes are counted before the next ones
_NUMBER_BYTES: Final = 8  # of a value that is not a text
DRIVER_ERRORS: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""Exceptions that a driver raises in addition to its own errors, for example for a text in another encoding."""


class SqlAlchemyDatabase:
    """Any database that SQLAlchemy has a driver for. Rows pass through Python."""

    def __init__(self, url: DatabaseUrl) -> None:
        import sqlalchemy

        self._url = url
        self._sqlalchemy: Any = sqlalchemy
        self.engine: Engine
        self.connection: Connection | None = None
        try:
            with guarded_files(url) as there:
                self._connect(there)
        except ConfigException:
            self.close()
            raise

    def _connect(self, url: DatabaseUrl) -> None:
        """Connect to a URL with resolved paths. Messages name the given URL."""
        try:
            how: dict[str, Any] = {"poolclass": self._sqlalchemy.NullPool, "isolation_level": "AUTOCOMMIT"}
            if url.dialect.is_file:  # the URI has the exact path and the mode
                how["creator"] = lambda: sqlite3.connect(url.adbc_uri, uri=True, check_same_thread=False)
            elif url.dialect.makes_tls_context and (context := tls_context(url)) is not None:
                how["connect_args"] = {"ssl": context}
            self.engine = self._sqlalchemy.create_engine("sqlite://" if url.dialect.is_file else url.sqlalchemy_url, **how)
        except (self._sqlalchemy.exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise ConfigException.of(
                URL, f"{url.dialect.name}:…", f"There is no Python driver for {url.dialect.name} here: {error}"
            ) from None
        try:
            self.connection = self.engine.connect()
            for sql in url.dialect.session_statements:
                self.connection.exec_driver_sql(sql)
        except self._sqlalchemy.exc.SQLAlchemyError as error:
            original = getattr(error, "orig", None) or error
            raise connection_error(self._url, str(original), error_number(original)) from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._translating_errors():
            options = {"stream_results": True, "max_row_buffer": _FETCHED_ROWS} if self._url.dialect.buffers_answers else {}
            with self._execute(sql, **options) as answer:
                return bounded_rows(map(tuple, answer), self._url.address)

    def has_row(self, sql: str) -> bool:
        with self._translating_errors():
            return self._execute(sql).first() is not None

    def execute(self, sql: str) -> None:
        with self._translating_errors():
            self._execute(sql)

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        with self._translating_errors():
            result = self._execute(sql, stream_results=True, max_row_buffer=_FETCHED_ROWS)
            names = list(result.keys())
            for found in _pieces(result, rows):
                columns = [_column(index, values) for index, values in enumerate(zip(*found, strict=True))]
                yield pa.RecordBatch.from_arrays(columns, names)

    def cancel(self) -> None:
        """Not supported, because drivers have no common method. The current fetch completes."""

    def close(self) -> None:
        if self.connection is not None:
            try:
                self.connection.invalidate()  # a result may be partially read
                self.connection.close()
            except self._sqlalchemy.exc.SQLAlchemyError:
                pass
            self.engine.dispose()
        self.connection = None

    def _execute(self, sql: str, **options: object) -> Any:  # Any: a CursorResult
        return self._require_connection().execution_options(no_parameters=True, **options).exec_driver_sql(sql)

    def _require_connection(self) -> Connection:
        if self.connection is None:
            raise RetriableException(f"The connection to {self._url.address} is closed")
        return self.connection

    @contextlib.contextmanager
    def _translating_errors(self) -> Iterator[None]:
        """Translates SQLAlchemy's errors."""
        try:
            yield
        except self._sqlalchemy.exc.SQLAlchemyError as error:
            raise self._translated(error) from None
        except DRIVER_ERRORS as error:
            reason = f"{type(error).__name__}: {redacted(self._url, str(error))}"
            raise StatementException(f"The driver of {self._url.address} cannot decode the server's answer: {reason}") from error

    def _translated(self, error: Any) -> ConnectException:  # Any: a SQLAlchemyError
        original = getattr(error, "orig", None) or error
        if getattr(error, "connection_invalidated", False):
            return RetriableException(f"The connection to {self._url.address} was lost: {redacted(self._url, str(original))}")
        return statement_error(self._url, str(original), None, error_number(original))


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


def _column(index: int, values: tuple[Any, ...]) -> pa.Array:
    """The values as a column. Raises ValueException if they have no common type."""
    values = tuple(",".join(sorted(value)) if isinstance(value, set) else value for value in values)
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        raise ValueException(index, _mixed_value(values)) from error


def _mixed_value(values: Sequence[Any]) -> object:
    """The value that has another type: a text that the driver could not convert, or else the first value whose type differs from the types
    before it."""
    texts = [value for value in values if isinstance(value, str)]
    if texts and any(value is not None and not isinstance(value, str) for value in values):
        return texts[0]
    index = bisect.bisect_left(range(1, len(values) + 1), True, key=lambda end: _is_refused(values[:end]))
    return values[index] if index < len(values) else None


def _is_refused(values: Sequence[Any]) -> bool:
    try:
        pa.array(values)
    except (pa.ArrowException, OverflowError):
        return True
    return False


def missing_sqlalchemy_driver(url: DatabaseUrl) -> str | None:
    """The reason why SQLAlchemy has no driver for a database without a dialect here. None if it has a driver."""
    from sqlalchemy import exc
    from sqlalchemy.engine import make_url

    try:
        make_url(url.sqlalchemy_url).get_dialect().import_dbapi()
    except exc.NoSuchModuleError:
        return unsupported_reason(url.dialect.name)
    except ImportError as error:
        return f"The Python driver for {url.dialect.name} is not installed here: {error}. Install it on all hosts that run connectors."
    return None


# --- TLS to MySQL and MariaDB ---------------------------------------------------------------------------------------------------------


def tls_context(url: DatabaseUrl) -> ssl.SSLContext | None:
    """The TLS context. None if the URL does not require encryption. The server's certificate is checked against ``serverSslCert``; the host
    name is checked only if ``sslMode`` requires it. Raises ConfigException for files that are missing or have no certificate."""
    options = {name: value for name, value in url.options.items() if name.startswith("ssl_")}
    if not options.keys() - SECRET_OPTIONS:
        return None
    authority, certificate = options.get("ssl_ca"), options.get("ssl_cert")
    try:
        context = ssl.create_default_context(cafile=authority)
        context.check_hostname = "ssl_verify_identity" in options
        if authority is None and "ssl_verify_cert" not in options:
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            context.load_cert_chain(certificate, options.get("ssl_key"), password=options.get("ssl_key_password") or _no_password)
    except OSError as error:  # includes ssl.SSLError
        shown = ", ".join(f"{name}={value}" for name, value in options.items() if name in ("ssl_ca", "ssl_cert", "ssl_key"))
        reason = f"TLS cannot begin: {error.strerror or error}. The files must exist, be readable by the worker and be PEM."
        raise ConfigException.of(URL, shown, reason) from None
    return context


def _no_password() -> str:
    raise ssl.SSLError("the key is encrypted: give its password by ssl_key_password")
