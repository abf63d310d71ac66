"""A database accessed with its ADBC driver, which returns columns. ``rows`` and ``has_row`` do not need pyarrow."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.database.database_errors import connection_error, statement_error
from airflow_provider_connect.connectors.jdbc.database.database_files import guarded_files
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.dialect import BATCH_BYTES
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException

MAX_ANSWER_BYTES: Final = 256 << 20
_ROW_BYTES: Final = 100  # overhead of a row, without its values


def bounded_rows(rows: Iterable[tuple[Any, ...]], server: str) -> list[tuple[Any, ...]]:
    """All ``rows``. Raises ConnectException if they are larger than any possible result of our queries. The server is not trusted, and this
    process may serve all users."""
    found: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        found.append(row)
        size += _ROW_BYTES + sum(len(value) for value in row if isinstance(value, str | bytes))
        if size > MAX_ANSWER_BYTES:
            raise ConnectException(
                f"{server} returned more than {MAX_ANSWER_BYTES >> 20} MiB ({len(found)} rows so far) for a query whose answer is always "
                "small. Check the server and its catalog"
            )
    return found


class AdbcDatabase:
    """A database with an ADBC driver. Each statement is a separate transaction."""

    def __init__(self, url: DatabaseUrl) -> None:
        import adbc_driver_manager

        self._url = url
        self._driver: Any = adbc_driver_manager  # Any: a compiled module without types
        assert url.dialect.adbc_driver is not None
        product: Any = import_module(url.dialect.adbc_driver)
        self._statement: Any = None
        self._connection: Any = None
        self._database: Any = None
        try:
            with guarded_files(url) as local:
                self._database = product.connect(local.adbc_uri)
                self._connection = adbc_driver_manager.AdbcConnection(self._database)
            for sql in url.dialect.adbc_statements:
                self.rows(sql)
        except adbc_driver_manager.Error as error:
            self.close()
            raise connection_error(url, str(error)) from None
        except ConfigException:
            self.close()
            raise

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        import nanoarrow

        with self._executed(sql) as answer, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a PostgreSQL type that Arrow does not have, such as numeric, is read as text
            return bounded_rows(nanoarrow.ArrayStream(answer.stream()).iter_tuples(), self._url.address)

    def has_row(self, sql: str) -> bool:
        return bool(self.rows(f"SELECT 1 AS one WHERE EXISTS ({sql})"))

    def execute(self, sql: str) -> None:
        with self._executed(sql) as answer:
            answer.statement().execute_update()

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        dialect = self._url.dialect
        with self._executed(sql, dialect.stream_options(rows)) as answer:
            reader = answer.reader()
            yield from _joined(reader, rows) if dialect.streams_small_batches else map(_without_extensions, reader)

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
                except Exception:  # a broken connection must also be closed
                    continue
        self._statement = self._connection = self._database = None

    def _translated(self, text: str, state: str | None) -> ConnectException:
        """The exception for an error of the driver. ``state`` is its SQLSTATE, if any."""
        return statement_error(self._url, text, state)

    def _executed(self, sql: str | None, options: Mapping[str, str] | None = None) -> _AdbcAnswer:
        """Execute ``sql``. If it is None, the caller configures the statement."""
        if self._connection is None:
            raise RetriableException(f"The connection to {self._url.address} is closed")
        return _AdbcAnswer(self, sql, options or {})


def _without_extensions(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with columns of types that Arrow does not have, such as numeric, as texts. Texts can be compared and cast."""
    if not any(isinstance(field.type, pa.BaseExtensionType) for field in batch.schema):
        return batch
    columns = [column.storage if isinstance(column, pa.ExtensionArray) else column for column in batch.columns]
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _joined(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at least ``rows`` or ``BATCH_BYTES``, joined from small batches of the same type."""
    held: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        held.append(batch)
        count, size = count + batch.num_rows, size + batch.get_total_buffer_size()
        if count >= rows or size >= BATCH_BYTES:
            yield pa.concat_batches(held) if len(held) > 1 else batch
            held, count, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


class _AdbcAnswer:
    """One statement, from its execution until it is closed. The driver's errors are translated."""

    def __init__(self, database: AdbcDatabase, sql: str | None, options: Mapping[str, str]) -> None:
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
        if self._sql is not None:
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
            except database._driver.Error:  # the statement was interrupted
                database.close()
        if isinstance(error, database._driver.Error):
            raise database._translated(str(error), getattr(error, "sqlstate", None)) from None
        if error is not None and kind is not None and kind.__module__.partition(".")[0] in ("pyarrow", "nanoarrow"):
            raise database._translated(str(error), None) from None
        if isinstance(error, OSError):  # Arrow raises errors of the driver's stream as OSError
            raise database._translated(str(error), None) from None
