"""One share of a JDBC source's tables, or its query, read one after another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.database.database import Database, open_database
from airflow_provider_connect.connectors.jdbc.database.database_errors import StatementException
from airflow_provider_connect.connectors.jdbc.database.datasets import table_dataset
from airflow_provider_connect.connectors.jdbc.source.config import AS_TEXT, CONFIG_DEF
from airflow_provider_connect.connectors.jdbc.source.offset import QUERY_PARTITION, SourceOffset, known_offset
from airflow_provider_connect.connectors.jdbc.source.row_reader import WAITING, OpenTransactions, RowReader
from airflow_provider_connect.connectors.jdbc.source.row_source import RowSource, query_source, table_source
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings
from airflow_provider_connect.connectors.jdbc.source.shares import Progress, Share, TablePart, extent_of, ranges_between, shares_of
from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Type
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.task import SourceTask

log = logging.getLogger(__name__)

TABLES = "tables"
"""In a task's config: what it reads, as ``shares.shares_text`` writes it."""


class ConnectionLostException(ConnectException):
    """The database cannot be reached any more. The run fails, and may be tried again."""

    retriable = True


class OutdatedPlanException(ConnectException):
    """Another run went on until this one took over. The run fails, and may be tried again."""

    retriable = True


class JdbcSourceTask(SourceTask):
    """Each table is read up to what it held when its turn came, then the next one. One connection, opened with the first poll."""

    class_name = "io.confluent.connect.jdbc.source.JdbcSourceTask"
    config_def = CONFIG_DEF.with_keys(ConfigKey(TABLES, Type.STRING, "[]", doc="The tables of this task."))

    def start(self, config: Config) -> None:
        self._reader: RowReader | None = None
        self._left: int | None = None  # of the reader before
        self._folds: list[Batch] = []
        self._writing: dict[TableName, OpenTransactions] = {}  # to tables whose ranges are read here
        self._database: Database | None = None
        self._sources: dict[TableName, RowSource] = {}  # what was read, for lineage
        self._failures = 0
        self._not_before = 0.0
        self._is_stopped = False
        self._reading = threading.Lock()
        self._settings = SourceSettings.of(config, self.allowed_paths)  # behind what ``stop`` needs: these may raise
        self._waiting = shares_of(config[TABLES])
        self._has_query = self._settings.query is not None

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
            except DataException as error:  # which would promise that the next poll goes on behind the row
                raise ConnectException(error.message) from error

    def distance(self) -> Distance | None:
        """Of the last table, by its growing numbers, which may have gaps: of those that wait the ends are not known yet."""
        left = self._left if self._reader is None else self._reader.numbers_left
        return None if self._waiting or left is None else Distance(left, f"numbers of {self._settings.incrementing}")

    def datasets(self) -> Iterable[Dataset]:
        """The tables that were read. What a query reads is not known."""
        return [table_dataset(self._settings.url, name, source.columns) for name, source in self._sources.items()]

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
            if self._folds:
                folds, self._folds = self._folds, []
                return folds
            page = self._page(self._reader, self._database)
            if page is not None:
                self._failures = 0
                return page
            self._left, self._reader = self._reader.numbers_left, None

    def _page(self, reader: RowReader, database: Database) -> Batch | Sequence[Batch] | None:
        """Errors of a library name what was read, and are final."""
        try:
            return reader.next(database)
        except StatementException as error:
            raise StatementException(f"Reading {reader.source.name}: {error.message}", error.state) from error
        except (ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError) as error:
            columns = ", ".join(f"{column.name} {column.type_name}" for column in reader.source.columns)
            reason = f"{type(error).__name__}: {error}. Its columns are: {columns}. Name the one at fault in {AS_TEXT}"
            raise ConnectException(f"Reading {reader.source.name}: {reason}") from error

    def _next_reader(self, database: Database) -> RowReader | None:
        settings = self._settings
        if self._has_query:
            source = query_source(database, settings)
            self._has_query = False
            return RowReader(source, settings, SourceOffset.of(self.context.offset(QUERY_PARTITION)), writing=self._writing_now())
        if not self._waiting:
            return None
        share = self._waiting[0]
        source = self._sources[share.table.name] = table_source(database, settings, share.table)
        known = SourceOffset.of(known_offset(share.table.name, self.context.offset, is_only=share.is_only))
        if share.part is not None:
            writing = self._writing.setdefault(share.table.name, self._writing_now())
            reader = RowReader(source, settings, self._begin_of(share.part), writing=writing, part=share.part)
        elif share.folds:
            progress = self._progress(database, source, share)
            reader = RowReader(source, settings, SourceOffset(progress.position), writing=self._writing_now())
            moved = [(source.partition, reader.offset.to_json()), *progress.fold(share.table.name)]
            self._folds = [reader.marker(partition, offset) for partition, offset in moved]
        else:
            reader = RowReader(source, settings, known, writing=self._writing_now())
        del self._waiting[0]
        return reader

    def _writing_now(self) -> OpenTransactions:
        return OpenTransactions(self._settings.open_transactions_ms, time.monotonic)

    def _begin_of(self, part: TablePart) -> SourceOffset:
        reached = part.range.reached(self.context.offset(part.partition), part.since)
        begin = part.range.low if part.since is None else max(part.since, part.range.low)
        return SourceOffset(begin if reached is None else reached)

    def _progress(self, database: Database, source: RowSource, share: Share) -> Progress:
        """How far the ranges of a table were read. Read again: a run that was not yet fenced when this one was planned may have gone
        on."""
        name = share.table.name
        since, least, greatest = extent_of(database, self._settings, source, share, self.context.offset)
        ranges = [] if greatest is None else ranges_between(since, least, greatest)
        progress = Progress.of(name, since, ranges, self.context.offset)
        if progress.has_gap or progress.position is None:
            raise OutdatedPlanException(f"Ranges of table {name} were read on while this run was planned. The next one goes on with them.")
        return progress

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
