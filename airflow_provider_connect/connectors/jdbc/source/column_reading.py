"""The reading of columns: the SQL that selects a column, its schema, and the conversion of the driver's Arrow column to the schema's
type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.dialects.dialect import IS_NULL, Dialect
from airflow_provider_connect.connectors.jdbc.source.column_schema import schema_of_column
from airflow_provider_connect.connectors.jdbc.source.config import AS_TEXT, NumericMapping
from airflow_provider_connect.connectors.jdbc.source.far_times import has_wrapped_times, unwrapped_days, unwrapped_milliseconds
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_field, arrow_type
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import DataException

UTC: Final = "UTC"
_SHOWN: Final = 200  # characters of a value in an error message
_NANOS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """One column: the expressions to select (``dialects.dialect.Selected``) and the schema of its values."""

    name: str
    expression: str
    schema: Schema
    check: str | None = None
    time_zone: str = UTC
    relation: str = ""  # for error messages

    @property
    def label(self) -> str:
        """The column in error messages."""
        return f"Column {self.name} of {self.relation}" if self.relation else f"Column {self.name}"

    @property
    def expressions(self) -> list[str]:
        return [self.expression] if self.check is None else [self.expression, self.check]

    def converted(self, column: pa.Array) -> pa.Array:
        """The driver's column converted to ``arrow_type(schema)``. Raises a DataException that names column and value."""
        wanted = arrow_type(self.schema)
        if column.type.equals(wanted):
            return unwrapped_days(column) if pa.types.is_date32(wanted) else column
        if pa.types.is_null(column.type):  # the driver reports no types
            return pa.nulls(len(column), wanted)
        if pa.types.is_string(column.type) and pa.types.is_decimal(wanted):
            return self._decimals(column, wanted)
        try:
            return self._cast(column, wanted)
        except pa.ArrowException as error:
            value = column[first_refused(column, lambda some: self._cast(some, wanted))]
            raise misfit(self.label, value, self.kind) from error

    def checked(self, column: pa.Array, checks: pa.Array) -> pa.Array:
        """The driver's column with its nulls, after the results of ``check``. Raises a DataException that names column and value."""
        if not pc.any(pc.not_equal(checks, "")).as_py():
            return column
        is_null = pc.equal(checks, IS_NULL)
        refused = pc.indices_nonzero(pc.invert(pc.or_(is_null, pc.equal(checks, ""))))
        if len(refused):
            raise misfit(self.label, checks[refused[0].as_py()], self.kind)
        return pc.if_else(is_null, pa.scalar(None, column.type), column)

    def _cast(self, column: pa.Array, wanted: pa.DataType) -> pa.Array:
        return _cast(column, self.schema, wanted, self.time_zone)

    def _decimals(self, texts: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Convert to decimals. Digits are checked here, because Arrow's cast overflows silently for a number with more digits than the
        type."""
        texts = _empty_as_null(texts)
        wide = _too_wide(texts, wanted)
        try:
            numbers = texts.cast(wanted)
        except pa.ArrowException:
            numbers = None
        if numbers is not None and not wide:
            return numbers
        value = texts[wide[0]] if wide else texts[first_refused(texts, lambda some: some.cast(wanted))]
        raise misfit(self.label, value, f"a Decimal of {wanted.precision} digits, {wanted.scale} of them after the point")

    @property
    def kind(self) -> str:
        """The schema's type in error messages."""
        return self.schema.name or self.schema.type.name


@dataclass(frozen=True, slots=True)
class RowReading:
    """All columns of a table or query, as one struct. The driver's batches may have further columns at the end."""

    columns: Sequence[ColumnReading]
    schema: Schema

    @classmethod
    def of(cls, columns: Sequence[ColumnReading], name: str | None) -> RowReading:
        return cls(columns, Schema.struct({column.name: column.schema for column in columns}, name=name))

    def select_list(self) -> list[str]:
        """The expressions, each with a unique name."""
        every = (expression for column in self.columns for expression in column.expressions)
        return [f"{expression} AS c{number}" for number, expression in enumerate(every)]

    def struct(self, batch: pa.RecordBatch) -> pa.StructArray:
        """The rows of a batch as structs. Raises DataException for a value that does not fit its schema."""
        found = list(self._converted(iter(batch.columns)))
        fields = [arrow_field(column.name, column.schema) for column in self.columns]
        return pa.StructArray.from_arrays(found, fields=fields)

    def misfit(self, index: int, value: object) -> DataException:
        """The error for a value that the driver could not convert. ``index`` is the column's index in the driver's rows."""
        column = [column for column in self.columns for _ in column.expressions][index]
        return misfit(column.label, value, column.kind)

    def _converted(self, given: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for column in self.columns:
            values = next(given)
            yield column.converted(values if column.check is None else column.checked(values, next(given)))


def misfit(label: str, value: object, kind: str) -> DataException:
    """The error for a value that a record cannot have."""
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
    """The readings of columns. ``zero_dates`` is the value that replaces MySQL's 0000-00-00 (None means null, if the column may be null).
    ``relation`` is for error messages."""
    found = []
    for column in columns:
        expression, schema, check = dialect.selected(column, schema_of_column(column, mapping), zero_dates)
        zone = time_zone if column.kind is ColumnKind.TIMESTAMP else UTC
        found.append(ColumnReading(column.name, expression, schema, check, zone, relation))
    return found


# Arrow


def _cast(column: pa.Array, schema: Schema, wanted: pa.DataType, zone: str) -> pa.Array:
    types, given = pa.types, column.type
    if types.is_timestamp(wanted):
        if types.is_string(given):  # the driver returns some times as texts
            column = column.cast(pa.timestamp("us"))
        return milliseconds(column, zone).cast(wanted)
    if types.is_boolean(wanted) and types.is_integer(given):
        return pc.not_equal(column, 0)
    if types.is_string(given) and not types.is_string(wanted):
        column = _empty_as_null(column)
        column = _parsed_times(column) if types.is_time(wanted) else column
    return column.cast(wanted, safe=not types.is_time(wanted))


def _too_wide(texts: pa.Array, wanted: pa.DataType) -> list[int]:
    """The indices of numbers that have more digits before the point than the type."""
    room = wanted.precision - wanted.scale
    longest = pc.max(pc.binary_length(texts)).as_py()
    is_float = pc.match_substring(texts, "e", ignore_case=True)  # SQLite writes large numbers like this
    has_floats = pc.any(is_float).as_py()
    if longest is None or (longest <= room and not has_floats):
        return []
    unsigned = pc.ascii_ltrim(texts, "-0")  # the 0 of 0.5 is not a digit of the type
    point = pc.find_substring(unsigned, ".")
    is_wide = pc.greater(pc.if_else(pc.less(point, 0), pc.binary_length(unsigned), point), room)
    if has_floats:
        is_wide = pc.if_else(is_float, pc.greater_equal(pc.abs(texts.cast(pa.float64())), 10.0**room), is_wide)
    found: list[int] = pc.indices_nonzero(is_wide.fill_null(False)).to_pylist()
    return found


def first_refused(column: Any, cast: Callable[[Any], object]) -> int:  # Any: a pa.Array or pa.ChunkedArray
    """The index of the first value that ``cast`` refuses. ``cast`` raises ArrowException for the whole column."""
    low, high = 0, len(column)  # all values before ``low`` are accepted; a value before ``high`` is not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(column.slice(low, middle - low))
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def _parsed_times(column: pa.Array) -> pa.Array:
    """Parse times of day, which Arrow parses only as part of a timestamp."""
    return pc.binary_join_element_wise("1970-01-01 ", column, "").cast(pa.timestamp("us")).cast(pa.time64("us"))


def _empty_as_null(column: pa.Array) -> pa.Array:
    """Replace empty texts with null, because SQLite's expressions return them for null."""
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)


def milliseconds(column: pa.Array, zone: str) -> pa.Array:
    """A column of times as timestamp('ms', 'UTC'), rounded down. ``zone`` applies to times without a zone."""
    if pa.types.is_integer(column.type):  # SQLite: a local time is its number as if it were in UTC
        return in_utc(column.cast(pa.int64()).cast(pa.timestamp("ms")), zone)
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
    """A column of times in UTC. If a local time occurs twice, the earlier instant is used. If a local time does not occur, the next
    existing local time is used."""
    if column.type.tz is not None:
        return column
    if zone != UTC:
        column = pc.assume_timezone(column, zone, ambiguous="earliest", nonexistent="latest")
    return column.cast(pa.timestamp(column.type.unit, UTC))


def nanoseconds_of(column: pa.Array, zone: str) -> list[int | None]:
    """A driver's column of times as nanoseconds since the epoch. None for null."""
    if pa.types.is_integer(column.type):
        return _times(milliseconds(column, zone).cast(pa.int64()), _NANOS["ms"])
    if pa.types.is_null(column.type):
        return [None] * len(column)
    if has_wrapped_times(column):
        if len(column) > 1:  # other columns keep their microseconds
            return [time for row in range(len(column)) for time in nanoseconds_of(column.slice(row, 1), zone)]
        return _times(unwrapped_milliseconds(column, zone).cast(pa.int64()), _NANOS["ms"])
    aware = in_utc(column, zone)
    return _times(aware.cast(pa.int64()), _NANOS[aware.type.unit])


def _times(column: pa.Array, unit_ns: int) -> list[int | None]:
    return [None if value is None else value * unit_ns for value in column.to_pylist()]
