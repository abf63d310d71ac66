"""A task of JdbcSource. Reads its share of the tables, one after another, or the query."""

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
from airflow_provider_connect.connectors.jdbc.source.shares import Progress, Share, TablePart, read_progress, shares_of
from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Type
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.task import SourceTask

log = logging.getLogger(__name__)

_MOST_ERRORS = 20
TABLES = "tables"
"""The setting in a task's config that contains the task's share of the tables, in the form of ``shares.shares_text``."""


class ConnectionLostException(ConnectException):
    """The database is no longer reachable. The run fails, and may be retried."""

    retriable = True


class OutdatedPlanException(ConnectException):
    """Another run continued reading until this run took over, so this run's plan is outdated. The run fails, and may be retried."""

    retriable = True


class JdbcSourceTask(SourceTask):
    """Reads the tables one after another. The bound of a table is set when reading that table starts. Has one connection, which the first
    poll opens. A table whose reading fails costs no other: the task fails with its error when the others are read."""

    class_name = "io.confluent.connect.jdbc.source.JdbcSourceTask"
    config_def = CONFIG_DEF.with_keys(ConfigKey(TABLES, Type.STRING, "[]", doc="The tables of this task."))

    def start(self, config: Config) -> None:
        self._reader: RowReader | None = None
        self._left: int | None = None  # numbers left in the previous reader
        self._folds: list[Batch] = []
        self._writing: dict[TableName, OpenTransactions] = {}  # for tables whose ranges are read here
        self._database: Database | None = None
        self._sources: dict[TableName, RowSource] = {}  # the sources that were read, for lineage
        self._failures = 0
        self._failed: list[ConnectException] = []  # one for each table whose reading failed
        self._not_before = 0.0
        self._is_stopped = False
        self._reading = threading.Lock()
        self._settings = SourceSettings.of(config, self.allowed_paths)  # may raise, so the attributes that ``stop`` needs are set before
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
                return self._retry_later(error)
            except DataException as error:  # otherwise, the framework would expect that the next poll resumes after the row
                raise ConnectException(error.message) from error

    def distance(self) -> Distance | None:
        """The distance to the end of the current table, in incrementing numbers, which may have gaps. The ends of later tables are not
        known yet."""
        left = self._left if self._reader is None else self._reader.numbers_left
        return None if self._waiting or left is None else Distance(left, f"numbers of {self._settings.incrementing}")

    def datasets(self) -> Iterable[Dataset]:
        """The tables that were read. The tables of a query are not known."""
        return [table_dataset(self._settings.url, name, source.columns) for name, source in self._sources.items()]

    def stop(self) -> None:
        self._is_stopped = True
        database = self._database
        if database is not None:
            database.cancel()
        with self._reading:
            self._close()

    def _next(self) -> Batch | Sequence[Batch] | None:
        """A page of the current source. After its end, a page of the next source."""
        while True:
            if self._database is None:
                self._database = open_database(self._settings.url)
            try:
                if self._reader is None:
                    self._reader = self._next_reader(self._database)
                if self._folds:
                    folds, self._folds = self._folds, []
                    return folds
                page = None if self._reader is None else self._page(self._reader, self._database)
            except ConnectException as error:
                if error.retriable or self._is_stopped or self._settings.query is not None:
                    raise
                self._leave_table(error)
                continue
            if page is not None:
                self._failures = 0
                return page
            if self._reader is None:
                self._close()
                self._raise_failures()
                return None
            self._left, self._reader = self._reader.numbers_left, None

    def _leave_table(self, error: ConnectException) -> None:
        """Keep the error of the current table, so that the next one is read."""
        self._failed.append(error)
        if self._reader is None:
            del self._waiting[0]
        self._close()
        self._reader, self._folds = None, []

    def _raise_failures(self) -> None:
        """Raise the errors of the tables that were left, as one."""
        if len(self._failed) == 1:
            raise self._failed[0]
        if self._failed:
            more = [f"… and {len(self._failed) - _MOST_ERRORS} more"] if len(self._failed) > _MOST_ERRORS else []
            texts = [*(error.message for error in self._failed[:_MOST_ERRORS]), *more]
            raise ConnectException("\n".join((f"{len(self._failed)} tables could not be read, all others were:", *texts)))

    def _page(self, reader: RowReader, database: Database) -> Batch | Sequence[Batch] | None:
        """The reader's next page. Errors of a library name the source, and are not retried."""
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
            reader = RowReader(source, settings, self._start_offset(share.part, known), writing=writing, part=share.part)
        elif share.folds:
            progress = self._progress(database, source, share)
            own = SourceOffset(progress.position, table_id=next(filter(None, progress.table_ids), None))
            reader = RowReader(source, settings, own, writing=self._writing_now())
            moved = [(source.partition, reader.offset.to_json()), *progress.fold(share.table.name)]
            self._folds = [reader.marker(partition, offset) for partition, offset in moved]
        else:
            reader = RowReader(source, settings, known, writing=self._writing_now())
        del self._waiting[0]
        return reader

    def _writing_now(self) -> OpenTransactions:
        return OpenTransactions(self._settings.open_transactions_ms, time.monotonic)

    def _start_offset(self, part: TablePart, own: SourceOffset) -> SourceOffset:
        committed = self.context.offset(part.partition)
        if part.range.reached(committed, part.since) is not None:
            return SourceOffset.of(committed)
        return SourceOffset(part.range.low if part.since is None else max(part.since, part.range.low), table_id=own.table_id)

    def _progress(self, database: Database, source: RowSource, share: Share) -> Progress:
        """The progress of a table's ranges. It is read again, because a run that was not yet fenced when this run was planned may have
        continued reading."""
        name = share.table.name
        progress, _, _ = read_progress(database, self._settings, source, share, self.context.offset)
        if progress.has_gap or progress.position is None:
            raise OutdatedPlanException(f"Another run read ranges of table {name} while this one was planned. The next run resumes them.")
        return progress

    def _retry_later(self, error: RetriableException) -> Sequence[Batch]:
        """Close the connection to retry later. Raises ConnectionLostException after the last attempt, or if rows would be sent twice."""
        self._close()
        self._failures += 1
        if self._reader is not None and not self._reader.can_resume:
            raise ConnectionLostException(f"{error.message}. The rows read of {self._reader.source.name} have no offsets.") from error
        if self._failures >= self._settings.attempts:
            raise ConnectionLostException(f"{error.message} (after {self._failures} attempts)") from error
        log.warning("%s; retrying in %g s", error.message, self._settings.backoff_ms / 1000)
        self._not_before = time.monotonic() + self._settings.backoff_ms / 1000
        return WAITING

    def _close(self) -> None:
        is_free = self._reader is None or self._reader.interrupted()
        database, self._database = self._database, None
        if database is not None and is_free:
            with suppress(ConnectException):
                database.close()
