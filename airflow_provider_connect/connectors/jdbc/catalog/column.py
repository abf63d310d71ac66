"""The tables and columns of a database's catalog, as values that are the same for every database."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.dialect import TableName

TABLE, VIEW, MATERIALIZED_VIEW, FOREIGN_TABLE = "TABLE", "VIEW", "MATERIALIZED VIEW", "FOREIGN TABLE"


class ColumnKind(StrEnum):
    """What the values of a column are, whatever the database calls the type."""

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
    """Without a time zone."""
    TIMESTAMP_TZ = "timestamp with time zone"
    OTHER = "other"
    """Only its text can be read: arrays, intervals, network addresses …"""


INTEGERS = (ColumnKind.INT8, ColumnKind.INT16, ColumnKind.INT32, ColumnKind.INT64)
TIMESTAMPS = (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ)

SPATIAL: Final = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    }
)
"""MySQL's words for types whose values are bytes: four of the reference system's number, then WKB."""


@dataclass(frozen=True, slots=True)
class Column:
    """``type_name`` is the database's own word, in lower case. ``precision`` and ``scale`` are those of a DECIMAL, None where it has no
    limits. ``default`` is the expression as the catalog has it. ``key_position`` counts from 1 within the primary key; 0 is outside.
    ``second_digits`` are those behind the second that a timestamp keeps; None where the catalog does not show them."""

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

    @property
    def is_array(self) -> bool:
        """Whether it is one of PostgreSQL's arrays."""
        return self.kind is ColumnKind.OTHER and self.type_name.startswith("_")


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view that can be read. ``type`` is JDBC's word."""

    name: TableName
    type: str = TABLE


def sql_text(value: str) -> str:
    """A name as a text literal of standard SQL."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
