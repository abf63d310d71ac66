"""Reads the new rows of one table or query, once, up to a bound that is set at the start.

Steps: (1) set the bound: the greatest number, or the database's clock minus the delay; (2) wait for the transactions that are writing at
that time, because they may commit rows below the bound, or change columns; (3) read the columns again, and stream the rows of one
statement. After a lost connection, reading resumes after the last page.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from airflow_provider_connect.connectors.jdbc.catalog.column import TABLE, VIEW, Table
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.database_errors import StatementException, ValueException
from airflow_provider_connect.connectors.jdbc.source.config import FROM_NOW, INCREMENTING, Mode
from airflow_provider_connect.connectors.jdbc.source.late_rows import LateRows, warn_of_repeated_times
from airflow_provider_connect.connectors.jdbc.source.offset import SourceOffset, number_of
from airflow_provider_connect.connectors.jdbc.source.read_ahead import NotYet, ReadAhead
from airflow_provider_connect.connectors.jdbc.source.row_query import RowQuery
from airflow_provider_connect.connectors.jdbc.source.row_source import RowSource, query_source, table_source
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings
from airflow_provider_connect.connectors.jdbc.source.shares import TablePart
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.batch import Batch

log = logging.getLogger(__name__)

WAITING: Final[tuple[Batch, ...]] = ()
"""There are no rows yet; call again."""
_PAGE_SECONDS: Final = 1.0
_SMALLEST_NS: Final = 1_000  # because databases compare microseconds


class RowReader:
    """The new rows of one source. ``next`` is called until it returns None. Each call may have another connection."""

    def __init__(
        self, source: RowSource, settings: SourceSettings, since: SourceOffset, *, writing: OpenTransactions, part: TablePart | None = None
    ) -> None:
        """``part`` limits reading to a range of the table. ``writing`` was not yet called, except for other ranges of the table."""
        self.source = source
        self.offset = since
        self._part = part
        self._settings = settings
        self._writing = writing
        self._query = RowQuery.of(source, settings)
        self._until: SourceOffset | None = None
        self._pages: ReadAhead[pa.RecordBatch] | None = None
        self._has_read = False
        self._is_part_reported = False
        self._late: LateRows | None = None  # of the current statement

    @property
    def _partition(self) -> Mapping[str, object]:
        return self.source.partition if self._part is None else self._part.partition

    @property
    def can_resume(self) -> bool:
        """Whether reading can resume after a lost connection. Rows without keys cannot be distinguished after some were sent."""
        return self._settings.mode is not Mode.BULK or not self._has_read

    @property
    def numbers_left(self) -> int | None:
        """The difference between the last row's number and the bound. None if it is unknown, or the mode uses other columns."""
        until = None if self._until is None else self._until.incrementing
        at = self.offset.incrementing
        return None if until is None or at is None or self._settings.mode is not Mode.INCREMENTING else max(until - at, 0)

    def next(self, database: Database) -> Batch | tuple[Batch, ...] | None:
        """The next page. ``WAITING`` while other transactions write, or while no page is ready. None after the last page."""
        if self._until is None:
            since = self.offset
            self._until = self._bound(database)
            if self.offset != since:
                return self.marker(self._partition, self.offset.to_json())  # this offset must not change until there are rows
        if self._until is None or not self._is_complete(database):
            return None if self._until is None or self._writing.has_timed_out(self.source) else WAITING
        if self._pages is None:
            self._reread_columns(database)
            if self.source.is_replaced([self.offset.table_id]):
                log.warning("%s", self.source.replaced_advice(self.offset.incrementing))
                return None
            self._refuse_duplicates(database)
            self._late = self._late_rows()
            self._pages = ReadAhead(self._read(database), database.cancel, size=lambda page: page.get_total_buffer_size())
        batch = self._next_batch(self._pages, database)
        if batch is None:
            self.interrupted()
            return self._end_of_overlap() if self._late is not None else self._end_of_part()
        return batch

    def interrupted(self) -> bool:
        """End reading before the connection is closed. ``next`` then restarts the statement after the last page.

        Returns False if reading hangs, after which the connection must not be closed."""
        pages, self._pages = self._pages, None
        return pages is None or pages.close()

    # 1

    def _bound(self, database: Database) -> SourceOffset | None:
        """The offset up to which this run reads. None if there is nothing to read."""
        mode = self._settings.mode
        if mode is Mode.BULK:
            return SourceOffset()
        if mode.has_timestamp:
            now = clock(database, self._settings)
            if self.offset.timestamp_ns is None and self._settings.timestamp_initial is not None:
                initial = self._settings.timestamp_initial
                before_now = self._query.tick_of(now) - _SMALLEST_NS  # rows that are written later may have this tick's timestamp
                self.offset = SourceOffset(None, before_now if initial == FROM_NOW else initial * 1_000_000)
            return SourceOffset(None, now - self._settings.timestamp_delay_ms * 1_000_000)
        if self._part is not None:
            until = self._part.until
            return None if self.offset.incrementing is not None and self.offset.incrementing >= until else SourceOffset(until)
        _, greatest = database.rows(self._query.extent())[0]
        reached = self.offset.incrementing
        number = None if greatest is None else number_of(greatest)
        if number is not None and reached is not None and number < reached and self._settings.rows_to is None:
            log.warning("%s", self.source.reset_advice(number, reached))
        if number is None or (reached is not None and number <= reached and not self._settings.overlap):
            return None
        return SourceOffset(number if reached is None else max(number, reached))

    def marker(self, partition: Mapping[str, object], offset: Mapping[str, object] | None) -> Batch:
        """An offset without rows."""
        schema = self._query.reading.schema
        rows = pa.array([], arrow_type(schema))
        return Batch(self.source.topic, rows, value_schema=schema, source_partition=partition, source_offset=offset)

    # 2

    def _is_complete(self, database: Database) -> bool:
        """Whether every transaction that was writing when the bound was set has ended."""
        return self._settings.mode is Mode.BULK or self._writing.have_ended(database, self.source)

    # 3

    def _read(self, database: Database) -> Iterator[pa.RecordBatch]:
        assert self._until is not None
        rows, query = self._settings.batch_rows, self._query
        try:
            yield from Pages(rows, self._index_of_ties()).of(database.batches(query.rows(self._since(), self._until), rows))
        except ValueException as error:
            raise query.reading.misfit(error.column, error.value) from error

    def _since(self) -> SourceOffset:
        return self.offset.reread if self._settings.overlap and self._part is None else self.offset

    def _late_rows(self) -> LateRows | None:
        if not self._settings.overlap or self._part is not None:
            return None
        query, mode = self._query, self._settings.mode
        self.offset = self.offset.of_columns(numbers=mode.has_incrementing, times=mode.has_timestamp)
        return LateRows(self.offset, self._settings.overlap, query, self.source.name)

    def _next_batch(self, pages: ReadAhead[pa.RecordBatch], database: Database) -> Batch | tuple[Batch, ...] | None:
        """The next page that has rows to send. ``WAITING`` while it is not ready, and if the statement must start again because the columns
        have changed."""
        try:
            while (page := pages.next(_PAGE_SECONDS)) is not None:
                page = page if self._late is None else self._late.new_rows(page)
                if page.num_rows:
                    return self._batch(page)
        except NotYet:
            return WAITING
        except (StatementException, DataException):
            if self.interrupted() and self.can_resume and self._reread_columns(database):
                return WAITING
            raise
        return None

    def _reread_columns(self, database: Database) -> bool:
        """Read the columns again. Returns whether they have changed. Raises ConfigException if the mode can no longer use them."""
        before = self.source
        if before.table is not None:
            self.source = table_source(database, self._settings, Table(before.table, TABLE if before.is_stored else VIEW))
        elif self._has_read:  # otherwise, the columns were just read, without waiting for transactions
            self.source = query_source(database, self._settings)
        self._query = RowQuery.of(self.source, self._settings)
        return self.source.columns != before.columns

    def _index_of_ties(self) -> int | None:
        """The index of the key column in which rows may have equal values. None if the key is unique: a table's numbers, and pairs of
        timestamp and number. Timestamps, and the numbers of a query or view, may be equal."""
        query, mode = self._query, self._settings.mode
        if mode is Mode.TIMESTAMP:
            return query.timestamp_index
        return query.incrementing_index if mode is Mode.INCREMENTING and not self.source.is_stored else None

    def _batch(self, page: pa.RecordBatch) -> Batch:
        if self._settings.mode is Mode.INCREMENTING and self.source.is_stored:
            self._refuse_equal_numbers(page)
        offset = self._query.offset_at(page, page.num_rows - 1) if self._late is None else self._late.offset_after(page)
        value = self._query.reading.struct(page)
        if not self._has_read:
            self._warn_of_repeated_times()
        self._has_read = True
        self.offset = offset = replace(offset, table_id=self.source.table_id)
        return Batch(
            self.source.topic,
            value,
            value_schema=self._query.reading.schema,
            source_partition=self._partition,
            source_offset=self._json(offset),
        )

    def _warn_of_repeated_times(self) -> None:
        reached, until = self.offset.timestamp_ns, None if self._until is None else self._until.timestamp_ns
        if reached is not None and until is not None:
            warn_of_repeated_times(reached, until, self._query.time_zone, self._settings.overlap, self.source.name)

    def _end_of_part(self) -> Batch | None:
        """The offset of a range that was read to its end. The last row may be below the end, because numbers have gaps."""
        if self._part is None or self._is_part_reported:
            return None
        self._is_part_reported = True
        return self.marker(self._partition, self._json(SourceOffset(self._part.until, table_id=self.source.table_id)))

    def _end_of_overlap(self) -> Batch | None:
        """The offset without hashes of deleted rows, so that the check for new rows does not find a difference at every scheduled time."""
        late, self._late, reached = self._late, None, self.offset.timestamp_ns
        until = None if self._until is None or reached is None else self._until.timestamp_ns
        is_read = until is None or reached is None or reached < self._query.tick_of(until)
        offset = late.offset_at_end() if late is not None and is_read else None
        if offset is None:
            return None
        self.offset = replace(offset, table_id=self.source.table_id)
        return self.marker(self._partition, self.offset.to_json())

    def _json(self, offset: SourceOffset) -> dict[str, object] | None:
        if self._part is None or offset.incrementing is None:
            return offset.to_json() or None
        return self._part.range.offset(offset, self._part.since)

    def _refuse_duplicates(self, database: Database) -> None:
        """Before the first row is sent, raise ConnectException for two new rows with the same number. Not needed for a unique column."""
        source, until = self.source, self._until
        if self._settings.mode is not Mode.INCREMENTING or not source.is_stored or source.has_unique_numbers or self._has_read:
            return
        assert until is not None
        [(number,)] = database.rows(self._query.duplicate_number(self._since(), until))
        if number is not None:
            raise self._not_growing(number_of(number))

    def _not_growing(self, number: int) -> ConnectException:
        return ConnectException(
            f"Column {self._settings.incrementing} of {self.source.name} ({INCREMENTING}) does not grow with each row: {number} is there "
            "twice, and a later row with a number already read would never be read. Name a column that is unique, or use mode "
            f"{Mode.TIMESTAMP_INCREMENTING}."
        )

    def _refuse_equal_numbers(self, page: pa.RecordBatch) -> None:
        assert self._query.incrementing_index is not None
        numbers = page.column(self._query.incrementing_index)
        equal = pc.index(pc.equal(numbers.slice(1), numbers.slice(0, len(numbers) - 1)), True).as_py()
        if self.offset.incrementing is not None and number_of(numbers[0].as_py()) == self.offset.incrementing:
            equal = 0
        if equal >= 0:
            raise self._not_growing(number_of(numbers[equal].as_py()))


def clock(database: Database, settings: SourceSettings) -> int:
    """The database's clock, in nanoseconds since the epoch."""
    found: Any = database.rows(settings.url.dialect.clock_query)[0][0]
    if isinstance(found, datetime):
        aware = found if found.tzinfo is not None else found.replace(tzinfo=ZoneInfo(settings.time_zone))
        return round((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000) * 1000
    return int(found) * 1000


@dataclass(frozen=True, slots=True)
class Pages:
    """Splits batches into pages of at most ``rows`` rows. Rows with equal values in the column ``key_index``, if any, stay in one page,
    even if there are more."""

    rows: int
    key_index: int | None = None

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The pages of ``batches``, which are in the order of the key."""
        held: list[pa.RecordBatch] = []  # all rows of one key, which may continue in the next batch
        for batch in batches:
            if not batch.num_rows:
                continue
            if self.key_index is None:
                yield from self._slices(batch)
                continue
            if held and not self._is_same_key(held[-1], batch):
                yield from self._slices(_joined(held))
                held = []
            last_key = self._last_key_start(batch)
            if last_key > 0:
                yield from self._slices(_joined([*held, batch.slice(0, last_key)]) if held else batch.slice(0, last_key))
                held = []
            held.append(batch.slice(last_key))
        if held:
            yield from self._slices(_joined(held))

    def _slices(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        start = 0
        while start < batch.num_rows:
            end = min(start + self.rows, batch.num_rows)
            if self.key_index is not None and end < batch.num_rows:
                keys = batch.column(self.key_index)
                other = pc.index(pc.equal(keys.slice(end), keys[end - 1]), False).as_py()
                end = batch.num_rows if other < 0 else end + other
            yield batch.slice(start, end - start)
            start = end

    def _is_same_key(self, before: pa.RecordBatch, batch: pa.RecordBatch) -> bool:
        assert self.key_index is not None
        return bool(before.column(self.key_index)[-1] == batch.column(self.key_index)[0])

    def _last_key_start(self, batch: pa.RecordBatch) -> int:
        assert self.key_index is not None
        keys = batch.column(self.key_index)
        return int(pc.index(keys, keys[-1]).as_py())


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The batches as one batch. Their types may differ, because some drivers report no types: a column may have only nulls in one batch,
    and more digits in the next."""
    if len(batches) == 1:
        return batches[0]
    table = pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive")
    [joined] = table.combine_chunks().to_batches()
    return joined


# --- the transactions that are writing ------------------------------------------------------------------------------------------------


def open_writers(database: Database, source: RowSource) -> frozenset[str]:
    """The transactions that currently hold a writer's lock on the table. Empty for a view, a query, or a product that does not show them.

    A row gets its number or time while its transaction holds that lock. After all transactions that held the lock at a given time have
    ended, the numbers of new rows were assigned after that time.
    """
    sql = source.dialect.open_writers_query(source.relation) if source.is_stored else None
    return frozenset() if sql is None else frozenset(name for (name,) in database.rows(sql))


class OpenTransactions:
    """The transactions that were writing to one table at the first call. A caller sets its bound before that call, and reads after these
    transactions have ended. It then misses no rows. The ranges of a table share this object, because their bounds were set together.

    ``most_ms`` limits the wait; 0 means no wait. ``now`` is in seconds.
    """

    def __init__(self, most_ms: int, now: Callable[[], float]) -> None:
        self._most_ms = most_ms
        self._now = now
        self._writers: frozenset[str] | None = None if most_ms else frozenset()
        self._deadline = 0.0
        self._is_logged = False

    def have_ended(self, database: Database, source: RowSource) -> bool:
        """Whether all these transactions have ended. Queries the database until they have."""
        if self._writers is not None and not self._writers:
            return True
        writing = open_writers(database, source)
        if self._writers is None:
            self._writers = writing
            self._deadline = self._now() + self._most_ms / 1000
        self._writers &= writing
        return not self._writers

    def has_timed_out(self, source: RowSource) -> bool:
        """Whether the timeout has expired, so that the source is left to the next run. Logs this once."""
        if self._now() < self._deadline:
            return False
        if not self._is_logged:
            self._is_logged = True
            name, seconds = source.name.capitalize(), self._most_ms / 1000
            log.warning("%s is left to the next run: transactions have been writing to it for %g s", name, seconds)
        return True
