"""The offset of a table, in the form of the well-known JDBC source: ``{"incrementing": 7, "timestamp": ms, "timestamp_nanos": ns}``.

``table_id`` (``Column.table_id``) is added for tables whose identity is known. Other JDBC sources ignore it.

The source partition is ``{"protocol": "1", "table": "database.schema.table"}``, or ``{"query": "query"}`` for a query. Offsets that another
worker wrote under a shorter name of the table are also found. In this package, times are nanoseconds since the epoch, in UTC.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.connector import OffsetReader

INCREMENTING, TIMESTAMP, NANOS = "incrementing", "timestamp", "timestamp_nanos"
TABLE, PROTOCOL, QUERY = "table", "protocol", "query"
SPLIT, SINCE = "split", "since"
OVERLAP_FROM, OVERLAP_ROWS = "overlap_from", "overlap_rows"
TABLE_ID = "table_id"
HASH_BYTES: Final = 8
QUERY_PARTITION: Final[Mapping[str, object]] = {QUERY: QUERY}
_KEYS: Final = ({TABLE}, {TABLE, PROTOCOL}, {TABLE, PROTOCOL, SPLIT})
_OFFSET_KEYS: Final = {INCREMENTING, TIMESTAMP, NANOS, SINCE, OVERLAP_FROM, OVERLAP_ROWS, TABLE_ID}
_NANOS_A_SECOND: Final = 1_000_000_000
_NANOS_A_MILLI: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The greatest values that were read. None if no row was read, or the mode has no such column.

    ``overlap_from`` and ``overlap_rows`` belong to ``late_rows``. They are the key above which rows are read again, and hashes of the rows
    above this key that are in Kafka. ``table_id`` identifies the table that was read. None if its identity is unknown, or if
    another program or an admin wrote the offset."""

    incrementing: int | None = None
    timestamp_ns: int | None = None
    overlap_from: int | None = None
    overlap_rows: str | None = None
    table_id: str | None = None

    @property
    def key(self) -> tuple[int, ...] | None:
        """The values by which rows are ordered. None if no row was read."""
        return tuple(part for part in (self.timestamp_ns, self.incrementing) if part is not None) or None

    def of_columns(self, *, numbers: bool, times: bool) -> SourceOffset:
        """The part of the offset that applies to these key columns. Another mode may have written the offset."""
        if (self.incrementing is not None, self.timestamp_ns is not None) == (numbers, times):
            return self
        if times and self.timestamp_ns is None:
            return SourceOffset()
        return SourceOffset(self.incrementing if numbers else None, self.timestamp_ns if times else None)

    @property
    def reread(self) -> SourceOffset:
        """The offset after which rows are read, including possibly late rows."""
        if self.overlap_from is None or self.key is None or self.overlap_from >= self.key[0]:
            return SourceOffset(self.incrementing, self.timestamp_ns)
        return SourceOffset(self.overlap_from) if self.timestamp_ns is None else SourceOffset(None, self.overlap_from)

    @classmethod
    def of(cls, offset: Mapping[str, object] | None) -> SourceOffset:
        """Parse an offset. Raises ConnectException for another form."""
        offset = offset or {}
        incrementing, milliseconds, nanos = (_whole(offset, name) for name in (INCREMENTING, TIMESTAMP, NANOS))
        written = *_overlap(offset), _table_id(offset)
        if milliseconds is None:
            return cls(incrementing, None, *written)
        seconds, rest = divmod(milliseconds, 1000)
        if nanos is None:
            nanos = rest * _NANOS_A_MILLI
        if not 0 <= nanos < _NANOS_A_SECOND:
            raise ConnectException(f"Offset '{NANOS}' must be the nanoseconds of a second, from 0 to 999999999, got {nanos}")
        return cls(incrementing, seconds * _NANOS_A_SECOND + nanos, *written)

    @property
    def overlap_hashes(self) -> list[bytes]:
        """The hashes of the rows that are in Kafka."""
        data = base64.b64decode(self.overlap_rows or "")
        return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]

    def to_json(self) -> dict[str, object]:
        found: dict[str, object] = {}
        if self.incrementing is not None:
            found[INCREMENTING] = self.incrementing
        if self.timestamp_ns is not None:
            found[TIMESTAMP] = self.timestamp_ns // _NANOS_A_MILLI
            found[NANOS] = self.timestamp_ns % _NANOS_A_SECOND
        if self.overlap_from is not None:
            found |= {OVERLAP_FROM: str(self.overlap_from), OVERLAP_ROWS: self.overlap_rows}
        if self.table_id is not None:
            found[TABLE_ID] = self.table_id
        return found

    @property
    def text(self) -> str:
        """The offset in messages."""
        return ", ".join(f"{name} {value}" for name, value in SourceOffset(self.incrementing, self.timestamp_ns).to_json().items())


def _overlap(offset: Mapping[str, object]) -> tuple[int | None, str | None]:
    low, rows = offset.get(OVERLAP_FROM), offset.get(OVERLAP_ROWS)
    if low is None and rows is None:
        return None, None
    try:
        if isinstance(rows, str) and len(base64.b64decode(rows, validate=True)) % HASH_BYTES == 0:
            return int(str(low)), rows
        raise ValueError(rows)
    except ValueError:
        reason = "are written by the source itself; leave both out to begin without them"
        raise ConnectException(f"Offsets '{OVERLAP_FROM}' and '{OVERLAP_ROWS}' {reason}") from None


def _table_id(offset: Mapping[str, object]) -> str | None:
    table_id = offset.get(TABLE_ID)
    if table_id is None or isinstance(table_id, str):
        return table_id
    raise ConnectException(f"Offset '{TABLE_ID}' is written by the source itself; leave it out to accept the table as it is now")


def number_of(value: Any) -> int:  # Any: the driver's value
    """A value of an incrementing column. Raises ConnectException for a fraction, which an offset cannot have."""
    try:
        number = Decimal(value)
        whole = int(number)
    except (ArithmeticError, TypeError, ValueError):
        number, whole = Decimal("NaN"), 0
    if whole != number:
        raise ConnectException(f"The value {value!s:.100} of the incrementing column is not a whole number. Name another column, or mode")
    return whole


def table_partition(table: TableName) -> dict[str, object]:
    """The source partition of a table."""
    return {PROTOCOL: "1", TABLE: table.text}


def split_partition(table: TableName, low: int, high: int) -> dict[str, object]:
    """The source partition of a range of a table's incrementing column: numbers greater than ``low``, up to ``high``."""
    return {PROTOCOL: "1", TABLE: table.text, SPLIT: f"{low}-{high}"}


def known_offset(table: TableName, offset: OffsetReader, *, is_only: bool) -> Mapping[str, object] | None:
    """The committed offset of a table under any of its names. ``is_only``: no other table has the same last part of the name."""
    names = [".".join(table.parts[start:]) for start in range(len(table.parts))]
    partitions: list[dict[str, object]] = [{PROTOCOL: "1", TABLE: name} for name in (names if is_only else names[:-1] or names)]
    if is_only:
        partitions.append({TABLE: table.table})
    return next((found for partition in partitions if (found := offset(partition))), None)


def refuse_wrong(partition: Any, offset: Any) -> None:  # Any: JSON from a user, checked here
    """Raise ConnectException for an offset from which this source cannot resume."""
    if offset is None:
        return
    is_known = isinstance(partition, Mapping) and (partition.keys() in _KEYS or dict(partition) == QUERY_PARTITION)
    if not is_known:
        form = '{"protocol":"1","table":"database.schema.table"} or {"query":"query"}'
        raise ConnectException(f"Partition objects must be {form}, got {partition}")
    if not isinstance(offset, Mapping) or not offset.keys() <= _OFFSET_KEYS:
        raise ConnectException(f"Offset objects hold '{INCREMENTING}', '{TIMESTAMP}' and '{NANOS}' only: {offset}")
    SourceOffset.of(offset)


def refuse_without(name: str, mode: str, offset: Mapping[str, object] | None) -> None:
    """Raise ConnectException for an offset without the value from which ``mode`` resumes, because a run would read all rows again."""
    if offset and offset.get(name) is None and SINCE not in offset:
        raise ConnectException(f"The offset {dict(offset)} has no '{name}', from which mode={mode} goes on. Give null to begin anew.")


def _whole(offset: Mapping[str, object], name: str) -> int | None:
    value = offset.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ConnectException(f"Offset '{name}' must be a whole number, got {value!r}")
    return value
