"""How a column is read: the SQL that selects it, its schema, and the way from the driver's Arrow column to the schema's.

Drivers differ in what they hand over: PostgreSQL's gives decimals as text, SQLite's guesses a type from the first rows, so that there every
expression says its type and tells nulls apart by a column of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.connectors.jdbc.column import TIMESTAMPS, Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.column_schema import schema_of_column
from airflow_provider_connect.connectors.jdbc.database_url import MARIADB, MYSQL, POSTGRESQL, SQLITE
from airflow_provider_connect.connectors.jdbc.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.source_config import NumericMapping
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.schema import DECIMAL, Schema, SchemaType, arrow_field, arrow_type

UTC: Final = "UTC"
_NANOS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """One column: what to select, one expression or, with ``null_test``, two; and what becomes of it."""

    name: str
    expression: str
    schema: Schema
    null_test: str | None = None
    time_zone: str = UTC

    @property
    def expressions(self) -> list[str]:
        return [self.expression] if self.null_test is None else [self.expression, self.null_test]

    def converted(self, column: pa.Array) -> pa.Array:
        """The driver's column as one of ``arrow_type(schema)``. Raises DataException naming the column."""
        wanted = arrow_type(self.schema)
        if column.type.equals(wanted):
            return column
        try:
            return _cast(column, self.schema, wanted, self.time_zone)
        except pa.ArrowException as error:
            raise DataException(f"Column {self.name} of type {column.type} does not fit schema type {self._kind}: {error}") from error

    @property
    def _kind(self) -> str:
        return self.schema.name or self.schema.type.name


@dataclass(frozen=True, slots=True)
class RowReading:
    """All columns of a table or query, as one struct. What a driver hands over may have more columns behind them."""

    columns: Sequence[ColumnReading]
    schema: Schema

    @classmethod
    def of(cls, columns: Sequence[ColumnReading], name: str | None) -> RowReading:
        return cls(columns, Schema.struct({column.name: column.schema for column in columns}, name=name))

    def select_list(self) -> list[str]:
        """The expressions, each under a name of its own."""
        every = (expression for column in self.columns for expression in column.expressions)
        return [f"{expression} AS c{number}" for number, expression in enumerate(every)]

    def struct(self, batch: pa.RecordBatch) -> pa.StructArray:
        """The rows of a batch. Raises DataException for a value that does not fit its schema."""
        found = list(self._converted(iter(batch.columns)))
        fields = [arrow_field(column.name, column.schema) for column in self.columns]
        return pa.StructArray.from_arrays(found, fields=fields)

    def _converted(self, given: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for column in self.columns:
            values = next(given)
            if column.null_test is not None:
                is_null = next(given).cast(pa.bool_())
                values = pc.if_else(is_null, pa.scalar(None, values.type), values)
            yield column.converted(values)


def readings_of(
    columns: Sequence[Column], dialect: Dialect, *, mapping: NumericMapping, time_zone: str, source: str | None = None
) -> list[ColumnReading]:
    """How each column is read. ``source`` stands before the names, where they need one."""
    return [_reading(column, dialect, schema_of_column(column, mapping), time_zone, source) for column in columns]


def _reading(column: Column, dialect: Dialect, schema: Schema, time_zone: str, source: str | None) -> ColumnReading:
    name = dialect.quoted(column.name)
    place = name if source is None else f"{source}.{name}"
    zone = time_zone if column.kind is ColumnKind.TIMESTAMP else UTC
    if dialect.name == SQLITE:
        expression, nothing = _sqlite_expression(column, place, schema)
        return ColumnReading(column.name, f"coalesce({expression}, {nothing})", schema, f"({expression}) IS NULL", zone)
    if dialect.name == POSTGRESQL:
        return ColumnReading(column.name, _postgresql_expression(column, place, schema), schema, None, zone)
    if dialect.name in (MYSQL, MARIADB):
        return ColumnReading(column.name, _mysql_expression(column, place), schema, None, zone)
    return ColumnReading(column.name, place, schema, None, zone)


def _postgresql_expression(column: Column, place: str, schema: Schema) -> str:
    if column.kind is ColumnKind.DECIMAL and schema.logical_name != DECIMAL:
        return f"{place}::{'float8' if schema.type is SchemaType.FLOAT64 else 'int8'}"
    if column.kind is ColumnKind.OTHER or (column.kind is ColumnKind.STRING and column.type_name not in ("text", "varchar", "bpchar")):
        return f"{place}::text"
    return f"{place}::int8" if column.type_name == "oid" else place


def _sqlite_expression(column: Column, place: str, schema: Schema) -> tuple[str, str]:
    """The expression, always of one storage class, and what stands for null in it."""
    found = _SQLITE_TIMES.get(column.kind)
    if found is not None:
        expression, nothing = found
        return expression.replace("{place}", place), nothing
    if column.kind in TIMESTAMPS:
        return sqlite_milliseconds(place), "0"
    word, nothing = _SQLITE_STORAGE.get(str(schema.type), ("INTEGER", "0"))
    if schema.logical_name == DECIMAL:
        word, nothing = "TEXT", "''"
    return f"CAST({place} AS {word})", nothing


_SQLITE_TIMES: Final = {
    ColumnKind.DATE: ("CASE typeof({place}) WHEN 'integer' THEN date({place} / 1000, 'unixepoch') ELSE date({place}) END", "''"),
    ColumnKind.TIME: (
        "CASE typeof({place}) WHEN 'integer' THEN time({place} / 1000, 'unixepoch') ELSE strftime('%H:%M:%f', {place}) END",
        "''",
    ),
}
_SQLITE_STORAGE: Final = {"bytes": ("BLOB", "x''"), "string": ("TEXT", "''"), "float32": ("REAL", "0.0"), "float64": ("REAL", "0.0")}


def sqlite_milliseconds(place: str) -> str:
    """Milliseconds since the epoch of a time that SQLite keeps as text or Julian day, or as those milliseconds already."""
    days = f"CAST(round((julianday({place}) - 2440587.5) * 86400000.0) AS INTEGER)"
    return f"CASE typeof({place}) WHEN 'integer' THEN {place} ELSE {days} END"


def _mysql_expression(column: Column, place: str) -> str:
    if column.type_name == "bit" and column.kind is ColumnKind.BOOLEAN:
        return f"CAST({place} AS UNSIGNED)"
    if column.kind is ColumnKind.TIME or column.type_name in ("set", "enum", "json", "uuid", "inet4", "inet6"):
        return f"CAST({place} AS CHAR)"
    return place


# Arrow


def _cast(column: pa.Array, schema: Schema, wanted: pa.DataType, zone: str) -> pa.Array:
    types, given = pa.types, column.type
    if types.is_timestamp(wanted):
        return milliseconds(column, zone).cast(wanted)
    if types.is_boolean(wanted) and types.is_integer(given):
        return pc.not_equal(column, 0)
    if types.is_string(given) and not types.is_string(wanted):
        column = _none_for_empty(column)
        column = _times_of(column) if types.is_time(wanted) else column
    return column.cast(wanted, safe=not types.is_time(wanted))


def _times_of(column: pa.Array) -> pa.Array:
    """Arrow reads times of day only as part of a moment."""
    return pc.binary_join_element_wise("1970-01-01 ", column, "").cast(pa.timestamp("us")).cast(pa.time64("us"))


def _none_for_empty(column: pa.Array) -> pa.Array:
    """SQLite's stand-in for null is no date and no number."""
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)


def milliseconds(column: pa.Array, zone: str) -> pa.Array:
    """A column of times as timestamp('ms', 'UTC'): digits beyond are cut off, towards the past. ``zone`` is that of times without one."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()).cast(pa.timestamp("ms", UTC))
    column = in_utc(column, zone)
    unit = column.type.unit
    if unit in ("s", "ms"):
        return column.cast(pa.timestamp("ms", UTC))
    if column.null_count < len(column) and pc.min(column.cast(pa.int64())).as_py() < 0:
        column = pc.floor_temporal(column, unit="millisecond")
    return column.cast(pa.timestamp("ms", UTC), safe=False)


def in_utc(column: pa.Array, zone: str) -> pa.Array:
    """A column of times with a zone; local times that are there twice are taken for the earlier, those that are not there for the next."""
    if column.type.tz is not None:
        return column
    if zone != UTC:
        column = pc.assume_timezone(column, zone, ambiguous="earliest", nonexistent="latest")
    return column.cast(pa.timestamp(column.type.unit, UTC))


def nanoseconds_of(value: pa.Scalar, zone: str) -> int | None:
    """One time of a driver's column as nanoseconds since the epoch; None for null."""
    if not value.is_valid:
        return None
    if pa.types.is_integer(value.type):
        return int(value.as_py()) * _NANOS["ms"]
    aware = in_utc(pa.array([value], type=value.type), zone)
    return int(aware.cast(pa.int64())[0].as_py()) * _NANOS[aware.type.unit]
