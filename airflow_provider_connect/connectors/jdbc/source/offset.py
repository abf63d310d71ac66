"""How far a table was read, as the well-known JDBC source writes it: ``{"incrementing": 7, "timestamp": ms, "timestamp_nanos": ns}``.

The source partition is ``{"protocol": "1", "table": "database.schema.table"}``, of a query ``{"query": "query"}``. Offsets that another
worker wrote under a shorter name of the table are found too. Times are kept here as nanoseconds since the epoch, in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.database.dialect import TableName
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.connector import OffsetReader

INCREMENTING, TIMESTAMP, NANOS = "incrementing", "timestamp", "timestamp_nanos"
TABLE, PROTOCOL, QUERY = "table", "protocol", "query"
SPLIT, SINCE = "split", "since"
QUERY_PARTITION: Final[Mapping[str, object]] = {QUERY: QUERY}
_KEYS: Final = ({TABLE}, {TABLE, PROTOCOL}, {TABLE, PROTOCOL, SPLIT})
_NANOS_A_SECOND: Final = 1_000_000_000
_NANOS_A_MILLI: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The greatest values read; None where nothing was, or the mode has no such column."""

    incrementing: int | None = None
    timestamp_ns: int | None = None

    @classmethod
    def of(cls, offset: Mapping[str, object] | None) -> SourceOffset:
        """Raises ConnectException for an offset that is not of this form."""
        offset = offset or {}
        incrementing, milliseconds, nanos = (_whole(offset, name) for name in (INCREMENTING, TIMESTAMP, NANOS))
        if milliseconds is None:
            return cls(incrementing)
        seconds, rest = divmod(milliseconds, 1000)
        if nanos is None:
            nanos = rest * _NANOS_A_MILLI
        if not 0 <= nanos < _NANOS_A_SECOND:
            raise ConnectException(f"Offset '{NANOS}' must be the nanoseconds of a second, from 0 to 999999999, got {nanos}")
        return cls(incrementing, seconds * _NANOS_A_SECOND + nanos)

    def to_json(self) -> dict[str, object]:
        found: dict[str, object] = {}
        if self.incrementing is not None:
            found[INCREMENTING] = self.incrementing
        if self.timestamp_ns is not None:
            found[TIMESTAMP] = self.timestamp_ns // _NANOS_A_MILLI
            found[NANOS] = self.timestamp_ns % _NANOS_A_SECOND
        return found


def table_partition(table: TableName) -> dict[str, object]:
    """The source partition of a table."""
    return {PROTOCOL: "1", TABLE: table.text}


def split_partition(table: TableName, low: int, high: int) -> dict[str, object]:
    """The source partition of a range of a table's incrementing column: the numbers greater than ``low``, up to ``high``."""
    return {PROTOCOL: "1", TABLE: table.text, SPLIT: f"{low}-{high}"}


def known_offset(table: TableName, offset: OffsetReader, *, is_only: bool) -> Mapping[str, object] | None:
    """The committed offset of a table under any name that it may have been given. ``is_only``: no other table has the same last name."""
    names = [".".join(table.parts[start:]) for start in range(len(table.parts))]
    partitions: list[dict[str, object]] = [{PROTOCOL: "1", TABLE: name} for name in (names if is_only else names[:-1] or names)]
    if is_only:
        partitions.append({TABLE: table.table})
    return next((found for partition in partitions if (found := offset(partition))), None)


def refuse_wrong(partition: Any, offset: Any) -> None:  # Any: JSON from a user, checked here
    """Raise ConnectException for an offset that this source cannot go on from."""
    if offset is None:
        return
    is_known = isinstance(partition, Mapping) and (partition.keys() in _KEYS or dict(partition) == QUERY_PARTITION)
    if not is_known:
        form = '{"protocol":"1","table":"database.schema.table"} or {"query":"query"}'
        raise ConnectException(f"Partition objects must be {form}, got {partition}")
    if not isinstance(offset, Mapping) or not offset.keys() <= {INCREMENTING, TIMESTAMP, NANOS, SINCE}:
        raise ConnectException(f"Offset objects hold '{INCREMENTING}', '{TIMESTAMP}' and '{NANOS}' only: {offset}")
    SourceOffset.of(offset)


def _whole(offset: Mapping[str, object], name: str) -> int | None:
    value = offset.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ConnectException(f"Offset '{name}' must be a whole number, got {value!r}")
    return value
