"""How a column is read: the SQL that selects it, its schema, and the way from the driver's Arrow column to the schema's.

Drivers differ in what they hand over: PostgreSQL's gives decimals as text, SQLite's guesses a type from the first rows, so that there every
expression declares its type and marks nulls in a column of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import SPATIAL, TIMESTAMPS, Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.database.database_options import (
    MARIADB,
    MSSQL,
    MYSQL,
    ORACLE,
    POSTGRESQL,
    SQLITE,
    TO_ERROR,
    TO_NULL,
)
from airflow_provider_connect.connectors.jdbc.database.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.source.column_schema import schema_of_column
from airflow_provider_connect.connectors.jdbc.source.config import AS_TEXT, NumericMapping
from airflow_provider_connect.connectors.jdbc.source.far_times import has_wrapped_times, unwrapped_days, unwrapped_milliseconds
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_field, arrow_type
from airflow_provider_connect.data.schema import DECIMAL, Schema, SchemaType
from airflow_provider_connect.errors import DataException

UTC: Final = "UTC"
_SHOWN: Final = 200  # characters of a value in an error text
_NANOS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """One column: what to select, one expression or, with ``null_test``, two; and what becomes of it."""

    name: str
    expression: str
    schema: Schema
    null_test: str | None = None
    time_zone: str = UTC
    relation: str = ""  # for error texts

    @property
    def label(self) -> str:
        """What error texts call it."""
        return f"Column {self.name} of {self.relation}" if self.relation else f"Column {self.name}"

    @property
    def expressions(self) -> list[str]:
        return [self.expression] if self.null_test is None else [self.expression, self.null_test]

    def converted(self, column: pa.Array) -> pa.Array:
        """The driver's column as one of ``arrow_type(schema)``. Raises DataException naming column and value."""
        wanted = arrow_type(self.schema)
        if column.type.equals(wanted):
            return unwrapped_days(column) if pa.types.is_date32(wanted) else column
        if pa.types.is_null(column.type):  # of a driver that shows no types
            return pa.nulls(len(column), wanted)
        if pa.types.is_string(column.type) and pa.types.is_decimal(wanted):
            return self._decimals(column, wanted)
        try:
            return self._cast(column, wanted)
        except pa.ArrowException as error:
            value = column[_first_refused(column, lambda some: self._cast(some, wanted))]
            raise misfit(self.label, value, self.kind) from error

    def _cast(self, column: pa.Array, wanted: pa.DataType) -> pa.Array:
        return _cast(column, self.schema, wanted, self.time_zone)

    def _decimals(self, texts: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Arrow's cast overflows silently where a number has more digits than the type, and raises where it is not a number."""
        texts = _none_for_empty(texts)
        wide = _too_wide(texts, wanted)
        try:
            numbers = texts.cast(wanted)
        except pa.ArrowException:
            numbers = None
        if numbers is not None and not wide:
            return numbers
        value = texts[wide[0]] if wide else texts[_first_refused(texts, lambda some: some.cast(wanted))]
        raise misfit(self.label, value, f"a Decimal of {wanted.precision} digits, {wanted.scale} of them after the point")

    @property
    def kind(self) -> str:
        """The schema's type as error texts have it."""
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

    def misfit(self, index: int, value: object) -> DataException:
        """The error for a value that the driver could not read, at this index of its rows."""
        column = [column for column in self.columns for _ in column.expressions][index]
        return misfit(column.label, value, column.kind)

    def _converted(self, given: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for column in self.columns:
            values = next(given)
            if column.null_test is not None:
                is_null = next(given).cast(pa.bool_())
                values = pc.if_else(is_null, pa.scalar(None, values.type), values)
            yield column.converted(values)


def misfit(label: str, value: object, kind: str) -> DataException:
    """The error for a value that no record can hold."""
    shown = str(value)
    return DataException(
        f"{label}: the value {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'} does not fit {kind}. "
        f"Name the column in {AS_TEXT}, so that its values become texts, or change the value."
    )


def readings_of(
    columns: Sequence[Column],
    dialect: Dialect,
    *,
    mapping: NumericMapping,
    time_zone: str,
    zero_dates: str | None = None,
    relation: str = "",
) -> list[ColumnReading]:
    """How each column is read. ``zero_dates``: what MySQL's 0000-00-00 is read as, None: null where the column may be null. ``relation`` is
    for error texts."""
    readings = (_reading(column, dialect, schema_of_column(column, mapping), time_zone, zero_dates) for column in columns)
    return [replace(reading, relation=relation) for reading in readings]


def _reading(column: Column, dialect: Dialect, schema: Schema, time_zone: str, zero_dates: str | None) -> ColumnReading:
    operand = dialect.quoted(column.name)
    zone = time_zone if column.kind is ColumnKind.TIMESTAMP else UTC
    if dialect.name == SQLITE:
        expression, nothing = _sqlite_expression(column, operand, schema)
        return ColumnReading(column.name, f"coalesce({expression}, {nothing})", schema, f"({expression}) IS NULL", zone)
    if dialect.name == POSTGRESQL:
        return ColumnReading(column.name, _postgresql_expression(column, operand, schema), schema, None, zone)
    if dialect.name in (MYSQL, MARIADB):
        if column.kind in _DATES and (zero_dates is not None or column.is_nullable):
            expression, schema = _without_zero_dates(operand, column, schema, zero_dates or TO_NULL)
            return ColumnReading(column.name, expression, schema, None, zone)
        return ColumnReading(column.name, _mysql_expression(column, operand), schema, None, zone)
    expression = _inspected_expression(column, operand, dialect) if dialect.name in _IN_UTC else operand
    return ColumnReading(column.name, expression, schema, None, zone)


def _inspected_expression(column: Column, operand: str, dialect: Dialect) -> str:
    """Of Oracle and SQL Server, whose drivers leave out time zones, and have types of their own for what is no text."""
    if column.kind is ColumnKind.TIMESTAMP_TZ:
        return _IN_UTC[dialect.name].format(operand)
    if column.kind is not ColumnKind.OTHER:
        return operand
    if dialect.name == ORACLE:
        return f"TO_CHAR({operand})"
    style = {"float": ", 3", "real": ", 3", "money": ", 2", "smallmoney": ", 2"}.get(column.type_name, "")  # all of their digits
    return f"CONVERT(nvarchar(max), {operand}{style})"


_IN_UTC: Final = {MSSQL: "CAST(SWITCHOFFSET({}, '+00:00') AS datetime2)", ORACLE: "SYS_EXTRACT_UTC({})"}


def _postgresql_expression(column: Column, operand: str, schema: Schema) -> str:
    if column.kind is ColumnKind.DECIMAL and schema.logical_name != DECIMAL:
        return f"{operand}::{'float8' if schema.type is SchemaType.FLOAT64 else 'int8'}"
    if column.kind is ColumnKind.OTHER or (column.kind is ColumnKind.STRING and column.type_name not in ("text", "varchar", "bpchar")):
        return f"{operand}::text"
    return f"{operand}::int8" if column.type_name == "oid" else operand


def _sqlite_expression(column: Column, operand: str, schema: Schema) -> tuple[str, str]:
    """The expression, always of one storage class, and what stands for null in it."""
    found = _SQLITE_TIMES.get(column.kind)
    if found is not None:
        expression, nothing = found
        return expression.replace("{operand}", operand), nothing
    if column.kind in TIMESTAMPS:
        return sqlite_milliseconds(operand), "0"
    word, nothing = _SQLITE_STORAGE.get(str(schema.type), ("INTEGER", "0"))
    if schema.logical_name == DECIMAL:
        word, nothing = "TEXT", "''"
    return f"CAST({operand} AS {word})", nothing


_SQLITE_TIMES: Final = {
    ColumnKind.DATE: ("CASE typeof({operand}) WHEN 'integer' THEN date({operand} / 1000, 'unixepoch') ELSE date({operand}) END", "''"),
    ColumnKind.TIME: (
        "CASE typeof({operand}) WHEN 'integer' THEN time({operand} / 1000, 'unixepoch') ELSE strftime('%H:%M:%f', {operand}) END",
        "''",
    ),
}
_SQLITE_STORAGE: Final = {"bytes": ("BLOB", "x''"), "string": ("TEXT", "''"), "float32": ("REAL", "0.0"), "float64": ("REAL", "0.0")}


def sqlite_milliseconds(operand: str) -> str:
    """Milliseconds since the epoch of a time that SQLite keeps as text or Julian day, or as those milliseconds already."""
    days = f"CAST(round((julianday({operand}) - 2440587.5) * 86400000.0) AS INTEGER)"
    return f"CASE typeof({operand}) WHEN 'integer' THEN {operand} ELSE {days} END"


_DATES: Final = (ColumnKind.DATE, *TIMESTAMPS)


def _without_zero_dates(operand: str, column: Column, schema: Schema, zero_dates: str) -> tuple[str, Schema]:
    """As MySQL's JDBC driver does it by ``zeroDateTimeBehavior``. Dates of which only a part is zero are left to fail."""
    if zero_dates == TO_ERROR:
        return operand, schema
    first_day = "DATE '0001-01-01'" if column.kind is ColumnKind.DATE else "TIMESTAMP '0001-01-01 00:00:00'"
    instead = "NULL" if zero_dates == TO_NULL else first_day
    expression = f"IF(LEFT(CAST({operand} AS CHAR), 10) = '0000-00-00', {instead}, {operand})"
    return expression, schema.as_optional() if zero_dates == TO_NULL else schema


_MYSQL_NUMBERS_AND_TIMES: Final = frozenset(  # whose kind is OTHER only where ``columns.as.text`` has them
    {
        *("tinyint", "smallint", "mediumint", "int", "bigint", "year", "float", "double", "decimal"),
        *("date", "time", "datetime", "timestamp"),
    }
)


def _mysql_expression(column: Column, operand: str) -> str:
    if column.type_name == "bit" and column.kind is ColumnKind.BOOLEAN:
        return f"CAST({operand} AS UNSIGNED)"
    if column.kind is ColumnKind.OTHER and column.type_name in SPATIAL:
        return f"ST_AsText({operand})"
    if column.kind is ColumnKind.OTHER and column.type_name in _MYSQL_NUMBERS_AND_TIMES:
        return f"CAST({operand} AS CHAR)"
    if column.kind is ColumnKind.TIME or column.type_name in ("set", "enum", "json", "uuid", "inet4", "inet6"):
        return f"CAST({operand} AS CHAR)"
    return operand


# Arrow


def _cast(column: pa.Array, schema: Schema, wanted: pa.DataType, zone: str) -> pa.Array:
    types, given = pa.types, column.type
    if types.is_timestamp(wanted):
        if types.is_string(given):  # what its driver does not take for a time
            column = column.cast(pa.timestamp("us"))
        return milliseconds(column, zone).cast(wanted)
    if types.is_boolean(wanted) and types.is_integer(given):
        return pc.not_equal(column, 0)
    if types.is_string(given) and not types.is_string(wanted):
        column = _none_for_empty(column)
        column = _times_of(column) if types.is_time(wanted) else column
    return column.cast(wanted, safe=not types.is_time(wanted))


def _too_wide(texts: pa.Array, wanted: pa.DataType) -> list[int]:
    """Which numbers have more digits before the point than the type has room for."""
    room = wanted.precision - wanted.scale
    longest = pc.max(pc.binary_length(texts)).as_py()
    is_float = pc.match_substring(texts, "e", ignore_case=True)  # as SQLite writes large ones
    has_floats = pc.any(is_float).as_py()
    if longest is None or (longest <= room and not has_floats):
        return []
    point = pc.find_substring(texts, ".")
    digits = pc.subtract(pc.if_else(pc.less(point, 0), pc.binary_length(texts), point), pc.starts_with(texts, "-").cast(pa.int32()))
    is_wide = pc.greater(digits, room)
    if has_floats:
        is_wide = pc.if_else(is_float, pc.greater_equal(pc.abs(texts.cast(pa.float64())), 10.0**room), is_wide)
    found: list[int] = pc.indices_nonzero(is_wide.fill_null(False)).to_pylist()
    return found


def _first_refused(column: pa.Array, cast: Callable[[pa.Array], object]) -> int:
    low, high = 0, len(column)  # all before ``low`` are taken; one before ``high`` is not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(column.slice(low, middle - low))
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def _times_of(column: pa.Array) -> pa.Array:
    """Arrow reads times of day only as part of a timestamp."""
    return pc.binary_join_element_wise("1970-01-01 ", column, "").cast(pa.timestamp("us")).cast(pa.time64("us"))


def _none_for_empty(column: pa.Array) -> pa.Array:
    """SQLite's stand-in for null is no date and no number."""
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)


def milliseconds(column: pa.Array, zone: str) -> pa.Array:
    """A column of times as timestamp('ms', 'UTC'): digits beyond are cut off, towards the past. ``zone`` is that of times without one."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()).cast(pa.timestamp("ms", UTC))
    if has_wrapped_times(column):
        return unwrapped_milliseconds(column, zone)
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


def nanoseconds_of(column: pa.Array, zone: str) -> list[int | None]:
    """A driver's column of times as nanoseconds since the epoch; None for null."""
    if pa.types.is_integer(column.type):
        return _times(column, _NANOS["ms"])
    if pa.types.is_null(column.type):
        return [None] * len(column)
    if has_wrapped_times(column):
        if len(column) > 1:  # the others keep their microseconds
            return [time for row in range(len(column)) for time in nanoseconds_of(column.slice(row, 1), zone)]
        return _times(unwrapped_milliseconds(column, zone).cast(pa.int64()), _NANOS["ms"])
    aware = in_utc(column, zone)
    return _times(aware.cast(pa.int64()), _NANOS[aware.type.unit])


def _times(column: pa.Array, unit_ns: int) -> list[int | None]:
    return [None if value is None else value * unit_ns for value in column.to_pylist()]
