"""One share of a JDBC source's tables, or its query, read one after another."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from airflow_provider_connect.connectors.jdbc.column import Table
from airflow_provider_connect.connectors.jdbc.database import Database, open_database
from airflow_provider_connect.connectors.jdbc.row_reader import WAITING, RowReader
from airflow_provider_connect.connectors.jdbc.row_source import query_source, table_source
from airflow_provider_connect.connectors.jdbc.source_offset import QUERY_PARTITION, SourceOffset, known_offset
from airflow_provider_connect.connectors.jdbc.source_settings import CONFIG_DEF, SourceSettings
from airflow_provider_connect.connectors.jdbc.table_name import TableName
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Type
from airflow_provider_connect.sdk.task import SourceTask

log = logging.getLogger(__name__)

TABLES = "tables"
"""In a task's config: JSON, for each table its catalog, schema, name and type, and whether another table has the same name."""


class ConnectionLostException(ConnectException):
    """The database cannot be reached any more. The run fails, and may be tried again."""

    retriable = True


class JdbcSourceTask(SourceTask):
    """Each table is read up to what it held when its turn came, then the next one. One connection, opened with the first poll."""

    class_name = "io.confluent.connect.jdbc.source.JdbcSourceTask"
    config_def = CONFIG_DEF.with_keys(ConfigKey(TABLES, Type.STRING, "[]", doc="The tables of this task."))

    def start(self, config: Config) -> None:
        self._settings = SourceSettings.of(config)
        self._waiting = tables_of(config[TABLES])
        self._has_query = self._settings.query is not None
        self._reader: RowReader | None = None
        self._database: Database | None = None
        self._failures = 0
        self._not_before = 0.0
        self._is_stopped = False
        self._reading = threading.Lock()

    def poll(self) -> Batch | Sequence[Batch] | None:
        with self._reading:
            if self._is_stopped:
                return None
            if time.monotonic() < self._not_before:
                return WAITING
            try:
                return self._next()
            except RetriableException as error:
                if self._is_stopped:
                    return None
                return self._try_again(error)

    def stop(self) -> None:
        self._is_stopped = True
        database = self._database
        if database is not None:
            database.cancel()
        with self._reading:
            self._close()

    def _next(self) -> Batch | Sequence[Batch] | None:
        """A page of the source at hand; of the next one, where that has no more."""
        while True:
            if self._database is None:
                self._database = open_database(self._settings.url)
            if self._reader is None:
                self._reader = self._next_reader(self._database)
            if self._reader is None:
                self._close()
                return None
            page = self._reader.next(self._database)
            if page is not None:
                self._failures = 0
                return page
            self._reader = None

    def _next_reader(self, database: Database) -> RowReader | None:
        settings = self._settings
        if self._has_query:
            source = query_source(database, settings)
            self._has_query = False
            return RowReader(source, settings, SourceOffset.of(self.context.offset(QUERY_PARTITION)), now=time.monotonic)
        if not self._waiting:
            return None
        table, is_only = self._waiting[0]
        source = table_source(database, settings, table)
        del self._waiting[0]
        offset = known_offset(table.name, self.context.offset, is_only=is_only)
        return RowReader(source, settings, SourceOffset.of(offset), now=time.monotonic)

    def _try_again(self, error: RetriableException) -> Sequence[Batch]:
        """Raises ConnectionLostException when that has been tried often enough, or would send rows twice."""
        self._close()
        self._failures += 1
        if self._reader is not None and not self._reader.can_resume:
            raise ConnectionLostException(f"{error.message}. What was read of {self._reader.source.name} has no offsets.") from error
        if self._failures >= self._settings.attempts:
            raise ConnectionLostException(f"{error.message} (after {self._failures} attempts)") from error
        log.warning("%s; trying again in %g s", error.message, self._settings.backoff_ms / 1000)
        self._not_before = time.monotonic() + self._settings.backoff_ms / 1000
        return WAITING

    def _close(self) -> None:
        is_free = self._reader is None or self._reader.interrupted()
        database, self._database = self._database, None
        if database is not None and is_free:
            with suppress(ConnectException):
                database.close()


def tables_text(tables: Sequence[tuple[Table, bool]]) -> str:
    """The tables of a task as its config holds them."""
    rows = [[table.name.catalog, table.name.schema, table.name.table, table.type, is_only] for table, is_only in tables]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def tables_of(text: str) -> list[tuple[Table, bool]]:
    """The inverse of ``tables_text``."""
    return [(Table(TableName(name, schema, catalog), kind), is_only) for catalog, schema, name, kind, is_only in json.loads(text)]
