"""The tables and columns of a database's catalog, in a form that is the same for every database."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

UNLIMITED_SCALE: Final = 18
"""The digits after the point that are read from a decimal column without limits, because a Connect Decimal has one scale for all values."""
TABLE, VIEW, MATERIALIZED_VIEW, FOREIGN_TABLE = "TABLE", "VIEW", "MATERIALIZED VIEW", "FOREIGN TABLE"


class ColumnKind(StrEnum):
    """The kind of a column's values, independent of each product's type names."""

    BOOLEAN = "boolean"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    STRING = "string"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    """A timestamp without a time zone."""
    TIMESTAMP_TZ = "timestamp with time zone"
    OTHER = "other"
    """Types that are only read as text: arrays, intervals, network addresses …"""


INTEGERS = (ColumnKind.INT8, ColumnKind.INT16, ColumnKind.INT32, ColumnKind.INT64)
TIMESTAMPS = (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ)


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """``catalog`` is the database. The parts depend on the product: PostgreSQL has all, MySQL has no schema, SQLite has only the table."""

    table: str
    schema: str | None = None
    catalog: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The existing parts, widest first."""
        return tuple(part for part in (self.catalog, self.schema, self.table) if part is not None)

    @property
    def text(self) -> str:
        """``catalog.schema.table`` without quotes: the name in messages, lists of tables and source partitions."""
        return ".".join(self.parts)

    def __str__(self) -> str:
        return self.text

    def has_name(self, text: str, *, ignore_case: bool = False) -> bool:
        """Whether ``text`` is this name, whole or without its widest parts."""
        names = [".".join(self.parts[start:]) for start in range(len(self.parts))]
        if ignore_case:
            return text.lower() in {name.lower() for name in names}
        return text in names


@dataclass(frozen=True, slots=True)
class Column:
    """``type_name`` is the database's own type name, in lower case. ``precision`` and ``scale`` are set for a DECIMAL, or None if the
    DECIMAL has no limits. ``default`` is the expression in the catalog. ``key_position`` counts from 1 within the primary key; 0 is
    outside the key. ``is_distinct_by_default``: rows without a value for the column are equal to no other row in it, because it is null
    or the database numbers it; only reported by MySQL and MariaDB. ``second_digits`` is the number of a timestamp's fractional digits,
    or None if the catalog does not have it. ``table_id`` identifies the table and, after a slash, the sequence that the column owns. It
    changes if the table is created again, or if the sequence is restarted. None if the database does not report it."""

    name: str
    kind: ColumnKind
    type_name: str
    is_nullable: bool = True
    precision: int | None = None
    scale: int | None = None
    default: str | None = None
    key_position: int = 0
    is_generated: bool = False
    second_digits: int | None = None
    table_id: str | None = field(default=None, compare=False)
    is_distinct_by_default: bool = False

    @property
    def is_array(self) -> bool:
        """Whether the type is a PostgreSQL array."""
        return self.kind is ColumnKind.OTHER and self.type_name.startswith("_")


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view that can be read. ``type`` is JDBC's name of the type."""

    name: TableName
    type: str = TABLE
