"""The SQL that reads the rows of a source after an offset, up to a bound, in the order of offsets.

Values are literals, because PostgreSQL streams columns (COPY) only for statements without parameters. Literals are numbers, and times that
are formatted here from numbers. They are never text from a config or an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.source.column_reading import (
    UTC,
    ColumnReading,
    RowReading,
    nanoseconds_of,
    readings_of,
)
from airflow_provider_connect.connectors.jdbc.source.offset import SourceOffset, number_of
from airflow_provider_connect.connectors.jdbc.source.row_source import RowSource
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings
from airflow_provider_connect.data.arrow import pa

_SECOND_NS: Final = 1_000_000_000
_MINUTE_NS: Final = 60 * _SECOND_NS
_FINEST_DIGITS: Final = 3


@dataclass(frozen=True, slots=True)
class RowQuery:
    """The statements for one source. ``incrementing_index`` and ``timestamp_index`` are the indexes of the key columns in the driver's
    rows. ``bounds`` are from the settings: only rows from the first bound to the second (exclusive) are read."""

    source: RowSource
    reading: RowReading
    time_zone: str
    incrementing_index: int | None = None
    timestamp_index: int | None = None
    _extra: Sequence[str] = field(default=())
    bounds: tuple[int | None, int | None] = (None, None)

    @classmethod
    def of(cls, source: RowSource, settings: SourceSettings) -> RowQuery:
        columns = readings_of(
            source.columns,
            source.dialect,
            mapping=settings.numeric_mapping,
            time_zone=settings.time_zone,
            zero_dates=settings.url.zero_dates,
            relation=source.name,
        )
        reading = RowReading.of(columns, None if source.table is None else source.table.table)
        extra: tuple[str, ...] = ()
        timestamp_index = None
        if len(source.timestamps) == 1 and not source.dialect.casts_timestamps:
            timestamp_index = _index_of(columns, source.timestamps[0])
        elif source.timestamps:
            timestamp_index = sum(len(column.expressions) for column in columns)
            extra = (f"{_timestamp(source)} AS connect_timestamp",)
        incrementing_index = None if source.incrementing is None else _index_of(columns, source.incrementing)
        zone = settings.time_zone if _has_no_zone(source) else UTC
        bounds = settings.rows_from, settings.rows_to
        return cls(source, reading, zone, incrementing_index, timestamp_index, extra, bounds)

    def rows(self, since: SourceOffset, until: SourceOffset) -> str:
        """A query for the rows after ``since`` up to ``until``, in order."""
        keys = self._keys()
        return (
            f"SELECT {', '.join([*self.reading.select_list(), *self._extra])} FROM {self.source.relation}{self._where(since, until)}"
            f"{' ORDER BY ' + ', '.join(keys) if keys else ''}"
        )

    def any_row(self, since: SourceOffset, until: SourceOffset) -> str:
        """A query that returns a row if there is a new one."""
        return f"SELECT 1 AS one FROM {self.source.relation}{self._where(since, until)}"

    def overlapping(self, offset: SourceOffset) -> str:
        """A query for the number of rows up to an offset that are read again because of late rows."""
        conditions = [*self._within(), *self._after(offset.reread), f"NOT ({' AND '.join(self._after(offset))})"]
        return f"SELECT count(*) AS number FROM {self.source.relation}{_conditions(conditions)}"

    def extent(self) -> str:
        """A query for the least and greatest value of the incrementing column."""
        column = self._incrementing()
        return f"SELECT min({column}) AS least, max({column}) AS greatest FROM {self.source.relation}{_conditions(self._within())}"

    def duplicate_number(self, since: SourceOffset, until: SourceOffset) -> str:
        """A query for the least new number that two rows have. Null if each number is unique."""
        column = self._incrementing()
        doubled = f"SELECT {column} AS number FROM {self.source.relation}{self._where(since, until)} GROUP BY {column} HAVING count(*) > 1"
        return f"SELECT min(number) AS number FROM ({doubled}) connect_doubled"

    def _where(self, since: SourceOffset, until: SourceOffset) -> str:
        return _conditions([*self._within(), *self._after(since), *self._up_to(until)])

    def _within(self) -> list[str]:
        """Conditions for the range in the settings, on the first key column."""
        source, found = self.source, list[str]()
        for sign, bound in zip((">=", "<"), self.bounds, strict=True):
            if bound is not None and source.timestamps:
                found.append(f"{_timestamp(source)} {sign} {self.literal(bound)}")
            elif bound is not None:
                found.append(f"{self._incrementing()} {sign} {bound}")
        return found

    def _after(self, since: SourceOffset) -> list[str]:
        source = self.source
        time = None if since.timestamp_ns is None else self.literal(since.timestamp_ns)
        if source.timestamps and source.incrementing is not None and time is not None and since.incrementing is not None:
            timestamp, number = _timestamp(source), self._incrementing()
            # The first condition is implied, but allows the use of an index on the timestamp.
            return [f"{timestamp} >= {time}", f"({timestamp} > {time} OR {number} > {since.incrementing})"]
        if source.timestamps:
            return [] if time is None else [f"{_timestamp(source)} > {time}"]
        if source.incrementing is not None and since.incrementing is not None:
            return [f"{self._incrementing()} > {since.incrementing}"]
        return []

    def offset_at(self, page: pa.RecordBatch, row: int) -> SourceOffset:
        """The offset after one of the driver's rows."""
        number = None if self.incrementing_index is None else number_of(page.column(self.incrementing_index)[row].as_py())
        time = None
        if self.timestamp_index is not None:
            [time] = nanoseconds_of(page.column(self.timestamp_index).slice(row, 1), self.time_zone)
        return SourceOffset(number, time)

    def keys_of(self, page: pa.RecordBatch) -> list[tuple[int, ...]]:
        """``SourceOffset.key`` of each of the driver's rows. Their key columns are not null."""
        times = [] if self.timestamp_index is None else [nanoseconds_of(page.column(self.timestamp_index), self.time_zone)]
        numbers = [] if self.incrementing_index is None else [map(number_of, page.column(self.incrementing_index).to_pylist())]
        return list(zip(*times, *numbers, strict=True))

    def offset_of(self, key: tuple[int, ...]) -> SourceOffset:
        """The offset with this ``SourceOffset.key``."""
        number = None if self.incrementing_index is None else key[-1]
        return SourceOffset(number, None if self.timestamp_index is None else key[0])

    def identity(self) -> list[int]:
        """The indexes of columns that distinguish rows with equal key columns. Empty if the key columns are unique. Otherwise the columns
        of the primary key, or all columns if there is none."""
        if self.incrementing_index is not None and self.source.is_stored:
            return []
        key = [column for column in self.source.columns if column.key_position]
        return [_index_of(self.reading.columns, column) for column in key or self.source.columns]

    def _up_to(self, until: SourceOffset) -> list[str]:
        """Conditions for rows up to the bound. Rows with timestamps in the bound's tick may still be written, so this tick is not read.
        Rows with null keys are also omitted."""
        if self.source.timestamps and until.timestamp_ns is not None:
            return [f"{_timestamp(self.source)} < {self.literal(self.tick_of(until.timestamp_ns))}"]
        if self.source.incrementing is not None and not self.source.timestamps and until.incrementing is not None:
            return [f"{self._incrementing()} <= {until.incrementing}"]
        return []

    def _keys(self) -> list[str]:
        keys = [_timestamp(self.source)] if self.source.timestamps else []
        return keys if self.source.incrementing is None else [*keys, self._incrementing()]

    def _incrementing(self) -> str:
        assert self.source.incrementing is not None
        return self.source.dialect.quoted(self.source.incrementing.name)

    def tick_of(self, nanoseconds: int) -> int:
        """The least timestamp of rows that are written at this instant or later.

        The clock's time is truncated or rounded to the column's precision when it is stored. Rounding changes the time by at most half a
        tick, and never to an earlier tick.
        """
        return nanoseconds - nanoseconds % _tick_ns(self.source)

    def literal(self, nanoseconds: int) -> str:
        """A time as SQL, to compare with the source's timestamp columns."""
        return self.source.dialect.timestamp_literal(nanoseconds, self.time_zone, has_zone=not _has_no_zone(self.source))


def _conditions(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _timestamp(source: RowSource) -> str:
    dialect, has_zone = source.dialect, not _has_no_zone(source)
    names = [dialect.timestamp_operand(dialect.quoted(column.name), has_zone=has_zone) for column in source.timestamps]
    return names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"


def _tick_ns(source: RowSource) -> int:
    """The smallest difference between two timestamps that the source's writers store.

    For columns of PostgreSQL's tables and views, the column's precision determines it, but many clients write milliseconds. For other
    products, it is unknown. MySQL's ``NOW()`` and SQLite's ``CURRENT_TIMESTAMP`` are whole seconds in columns of any precision.
    """
    digits = [column.second_digits for column in source.timestamps if column.second_digits is not None]
    if len(digits) == len(source.timestamps):
        return int(10 ** (9 - min(*digits, _FINEST_DIGITS)))
    return _MINUTE_NS if any(column.type_name == "smalldatetime" for column in source.timestamps) else _SECOND_NS


def _has_no_zone(source: RowSource) -> bool:
    return any(column.kind is ColumnKind.TIMESTAMP for column in source.timestamps)


def _index_of(columns: Sequence[ColumnReading], column: Column) -> int:
    position = 0
    for each in columns:
        if each.name == column.name:
            break
        position += len(each.expressions)
    return position
