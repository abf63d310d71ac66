"""A table to write to: whether its columns accept values of a schema, and the changes that it needs before records of a layout fit.

Only handles values; knows nothing of connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import INTEGERS, TIMESTAMPS, Column, ColumnKind, TableName
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.sink.layout import Layout, RecordColumn
from airflow_provider_connect.connectors.jdbc.sink.settings import AUTO_CREATE, AUTO_EVOLVE, PK_FIELDS, InsertMode, SinkSettings
from airflow_provider_connect.data.schema import DATE, DECIMAL, FLOAT64_SCHEMA, INTEGER_BITS, TIME, TIMESTAMP, Schema, SchemaType
from airflow_provider_connect.errors import ConfigException, ConnectException

_FLOATS: Final = (ColumnKind.FLOAT32, ColumnKind.FLOAT64)
_ACCEPTED_BY: Final[Mapping[str, tuple[ColumnKind, ...]]] = {
    **dict.fromkeys(INTEGER_BITS, (*INTEGERS, ColumnKind.DECIMAL, *_FLOATS)),
    **dict.fromkeys((SchemaType.FLOAT32, SchemaType.FLOAT64), (*_FLOATS, ColumnKind.DECIMAL)),
    DECIMAL: (ColumnKind.DECIMAL, *_FLOATS),
    SchemaType.BOOLEAN: (ColumnKind.BOOLEAN, *INTEGERS),
    SchemaType.STRING: (ColumnKind.STRING, ColumnKind.OTHER, ColumnKind.DATE, ColumnKind.TIME, *TIMESTAMPS),
    SchemaType.BYTES: (ColumnKind.BYTES,),
    DATE: (ColumnKind.DATE, *TIMESTAMPS),
    TIME: (ColumnKind.TIME,),
    TIMESTAMP: TIMESTAMPS,
}
_BITS: Final[Mapping[str, int]] = {
    **{str(kind): bits for kind, bits in INTEGER_BITS.items()},
    SchemaType.FLOAT32: 32,
    SchemaType.FLOAT64: 64,
}
_TIMES: Final = (DATE, TIME, TIMESTAMP)
_TIME_KINDS: Final = (ColumnKind.DATE, ColumnKind.TIME, *TIMESTAMPS)
_OF_DEBEZIUM: Final = "io.debezium.time."
_EXACT_AS_DOUBLE: Final = 32  # the width of integers, in bits, that doubles represent exactly


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A primary key or unique index. ``columns`` is empty if it is not of whole columns that the table or view has. A row that leaves out
    one of ``distinct`` is equal to no other row in the index."""

    columns: frozenset[str]
    distinct: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The current state of a table. ``unique`` has the columns of the primary key and of each unique index. ``indexes`` are the same, for
    stores whose upsert changes a row that is equal in any of them. ``declared`` has the columns'
    whole types as SQL, if the store needs them. ``collations`` has, as SQL, the columns' collations in which different texts may be equal.
    ``endings`` has the rest of a column's definition after the type, if a change of type must repeat it. ``is_lockable``: the table is not
    a view, and the user has the privileges to lock it. ``is_view``: COPY cannot write to the table. Stores
    without COPY set it only for views without ``unique``."""

    name: TableName
    columns: Mapping[str, Column]
    unique: tuple[frozenset[str], ...] = ()
    declared: Mapping[str, str] = field(default_factory=dict)
    collations: Mapping[str, str] = field(default_factory=dict)
    endings: Mapping[str, str] = field(default_factory=dict)
    is_lockable: bool = True
    is_view: bool = False
    indexes: tuple[UniqueIndex, ...] = ()


def changes(layout: Layout, table: TargetTable | None, name: TableName, settings: SinkSettings, dialect: Dialect) -> list[str]:
    """The statements that make records of ``layout`` fit. Empty if they already fit. Raises ConnectException, which names table and column,
    for changes that are impossible, or that ``auto.create`` and ``auto.evolve`` do not allow."""
    if table is None:
        if not settings.auto_create:
            reason = f"There is no table {name}. Create it, or set {AUTO_CREATE} to true."
            raise ConfigException.of(AUTO_CREATE, "false", reason)
        return [] if layout.value_schema is None else [_create(layout, name, dialect)]  # there are no rows to delete
    _refuse_conflicts(layout, table, settings, dialect)
    missing = [column for column in layout.columns if column.name not in table.columns]
    _refuse_missing(missing, table, settings)
    _refuse_left_out(layout, table, settings)
    added = [f"ALTER TABLE {dialect.table(table.name)} ADD {_definition(column, dialect)}" for column in missing]
    return [*added, *_wider(layout, table, settings, dialect)]


def _create(layout: Layout, name: TableName, dialect: Dialect) -> str:
    parts = [_definition(column, dialect) for column in layout.columns]
    if layout.keys:
        parts.append(f"PRIMARY KEY ({', '.join(map(dialect.quoted, layout.keys))})")
    return f"CREATE TABLE {dialect.table(name)} ({', '.join(parts)})"


def _definition(column: RecordColumn, dialect: Dialect) -> str:
    """A column's name, type, and default or nullability. With a default, NOT NULL is omitted, as in Connect's sinks."""
    try:
        type = dialect.column_type(column.schema, is_key=column.is_key)
    except ConnectException as error:
        raise ConnectException(f"Column {column.name}: {error}. {column.without_type}") from error
    text = f"{dialect.quoted(column.name)} {type}"
    if column.schema.default is not None and not column.is_key:
        return f"{text} DEFAULT {dialect.literal(column.schema, column.schema.default)}"
    return f"{text} NOT NULL" if column.is_key or not column.schema.optional else f"{text} NULL"


def _refuse_conflicts(layout: Layout, table: TargetTable, settings: SinkSettings, dialect: Dialect) -> None:
    for column in layout.columns:
        target = table.columns.get(column.name)
        if target is None or accepts(target, column.schema, reads_numbers=dialect.casts_texts):
            continue
        text = (
            f"Column {column.name} of table {table.name} is {table.declared.get(column.name, target.type_name)}, which accepts no values "
            f"of type {column.schema.name or column.schema.type.name}. Change the column's type, or {_conversion(column, target.kind)}"
        )
        is_fixed = dialect.has_fixed_types and target.kind is ColumnKind.DATE  # the column's type cannot change
        if is_fixed or wider_schema(target, column.schema) is None:
            raise ConnectException(text)
        if not settings.auto_evolve:
            raise ConfigException.of(AUTO_EVOLVE, "false", f"{text}, or set {AUTO_EVOLVE} to true.")


def _conversion(column: RecordColumn, kind: ColumnKind) -> str:
    """The advice for a field of another type than its column, which is of ``kind``."""
    schema = column.schema
    if schema.name is not None and schema.name.startswith(_OF_DEBEZIUM):
        return "set time.precision.mode=connect in Debezium's source, which then writes Kafka Connect's types"
    if not _is_convertible(schema, kind):
        return column.left_out
    if schema.logical_name in _TIMES or (kind in _TIME_KINDS and schema.type is SchemaType.INT64):
        return "convert the field (transformation TimestampConverter)"
    if kind in _TIME_KINDS:
        return "cast the field to int64 and convert it (transformations Cast and TimestampConverter)"
    return "cast the field (transformation Cast)"


def _is_convertible(schema: Schema, kind: ColumnKind) -> bool:
    """Whether Cast or TimestampConverter makes values of ``schema`` fit. Cast makes numbers, booleans and texts, of bytes only texts."""
    if schema.type in {SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT} or kind is ColumnKind.BYTES:
        return False
    if schema.type is SchemaType.BYTES and schema.logical_name != DECIMAL:
        return kind in (ColumnKind.STRING, ColumnKind.OTHER)
    return (
        kind is not ColumnKind.BOOLEAN
        if schema.logical_name in _TIMES
        else kind not in _TIME_KINDS or schema.type is not SchemaType.BOOLEAN
    )


def _refuse_missing(missing: Sequence[RecordColumn], table: TargetTable, settings: SinkSettings) -> None:
    if missing and not settings.auto_evolve:
        names = ", ".join(column.name for column in missing)
        reason = f"Table {table.name} has no column {names}. Add it, leave the field out, or set {AUTO_EVOLVE} to true."
        raise ConfigException.of(AUTO_EVOLVE, "false", reason)
    for column in missing:
        if column.is_key:
            raise ConnectException(
                f"Table {table.name} has no column {column.name}, and a column of the key cannot be added later. Add it yourself, or "
                f"change {PK_FIELDS}"
            )
        if not column.schema.optional and column.schema.default is None:
            raise ConnectException(
                f"Column {column.name} cannot be added to table {table.name}: the field is not optional and has no default, which existing "
                "rows would need. Add the column yourself, give it a default in the source, or leave the field out"
            )


def _refuse_left_out(layout: Layout, table: TargetTable, settings: SinkSettings) -> None:
    if layout.value_schema is None or settings.insert_mode is InsertMode.UPDATE:
        return
    given = {column.name for column in layout.columns}
    for target in table.columns.values():
        if target.name not in given and not target.is_nullable and target.default is None and not target.is_generated:
            raise ConnectException(
                f"Column {target.name} of table {table.name} is NOT NULL without a default, and the records have no field {target.name}. "
                "Give the column a default, make it nullable, or drop it"
            )
    if settings.insert_mode is InsertMode.UPSERT and frozenset(layout.keys) not in table.unique:
        remedy = "Write to the view's own table." if table.is_view else "Create one."
        raise ConfigException.of(
            PK_FIELDS,
            ",".join(layout.keys),
            f"Table {table.name} has no primary key or unique index of exactly these columns, which upsert needs. {remedy}",
        )


def _wider(layout: Layout, table: TargetTable, settings: SinkSettings, dialect: Dialect) -> Iterator[str]:
    """The statements that widen columns to types that fit both new and old values."""
    if not settings.auto_evolve or dialect.has_fixed_types:
        return
    for column in layout.columns:
        target = table.columns.get(column.name)
        schema = None if target is None else wider_schema(target, column.schema)
        if target is not None and schema is not None:
            yield _altered(target, dialect.column_type(schema, is_key=column.is_key), table, dialect)


def _altered(target: Column, type: str, table: TargetTable, dialect: Dialect) -> str:
    nullability = "NULL" if target.is_nullable else "NOT NULL"
    rest = table.endings.get(target.name, nullability)
    return f"ALTER TABLE {dialect.table(table.name)} {dialect.change_type(dialect.quoted(target.name), type, nullability, rest)}"


def accepts(column: Column, schema: Schema, *, reads_numbers: bool = False) -> bool:
    """Whether the column accepts those values of ``schema`` that are not too large. ``reads_numbers``: the database converts texts to
    decimals and floats, and refuses all other texts."""
    if schema.type is SchemaType.ARRAY:
        return column.is_array
    if reads_numbers and _kind(schema) == SchemaType.STRING and column.kind in (ColumnKind.DECIMAL, *_FLOATS):
        return True
    if _kind(schema) == SchemaType.BOOLEAN and column.kind is ColumnKind.DECIMAL and column.scale == 0:
        return True  # Oracle's NUMBER(1)
    return column.kind in _ACCEPTED_BY.get(_kind(schema), ())


def wider_schema(column: Column, schema: Schema) -> Schema | None:
    """The schema of a wider column, for all possible current values and all values of ``schema``. None if the column already accepts these
    values, or if no type accepts them. Records with the schema that created the column still fit, because they may still arrive."""
    if schema.logical_name == DECIMAL:
        is_short = column.kind is ColumnKind.DECIMAL and column.scale is not None and column.scale < schema.scale
        return schema if column.kind in INTEGERS or is_short else None
    if schema.logical_name == TIMESTAMP:
        return schema if column.kind is ColumnKind.DATE else None
    bits, wanted_bits = _BITS.get(column.kind.value), _BITS.get(_kind(schema))
    if bits is None or wanted_bits is None:
        return None
    is_float, wants_float = column.kind in _FLOATS, schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64)
    if is_float is wants_float:
        return schema if bits < wanted_bits else None
    if wants_float:
        return FLOAT64_SCHEMA if bits <= _EXACT_AS_DOUBLE else None
    return FLOAT64_SCHEMA if bits == wanted_bits == _EXACT_AS_DOUBLE else None


def _kind(schema: Schema) -> str:
    return schema.logical_name or str(schema.type)
