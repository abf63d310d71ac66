"""A table that is written to, and what has to change in it before records of some layout fit. Pure values; knows no connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.connectors.jdbc.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.database_url import MARIADB, MYSQL, POSTGRESQL, SQLITE
from airflow_provider_connect.connectors.jdbc.dialect import Dialect
from airflow_provider_connect.connectors.jdbc.sink_layout import Layout, RecordColumn
from airflow_provider_connect.connectors.jdbc.sink_literal import literal
from airflow_provider_connect.connectors.jdbc.sink_settings import AUTO_CREATE, AUTO_EVOLVE, PK_FIELDS, InsertMode, SinkSettings
from airflow_provider_connect.connectors.jdbc.table_name import TableName
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table as it is. ``unique`` holds the columns of the primary key and of each unique index, ``declared`` the columns' whole types as
    SQL, where a store needs them."""

    name: TableName
    columns: Mapping[str, Column]
    unique: tuple[frozenset[str], ...] = ()
    declared: Mapping[str, str] = field(default_factory=dict)


_INTEGERS = (ColumnKind.INT8, ColumnKind.INT16, ColumnKind.INT32, ColumnKind.INT64)
_FLOATS = (ColumnKind.FLOAT32, ColumnKind.FLOAT64)
_TIMESTAMPS = (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ)
_FITS: Mapping[str, tuple[ColumnKind, ...]] = {
    **dict.fromkeys((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64), (*_INTEGERS, ColumnKind.DECIMAL, *_FLOATS)),
    **dict.fromkeys((SchemaType.FLOAT32, SchemaType.FLOAT64), (*_FLOATS, ColumnKind.DECIMAL)),
    DECIMAL: (ColumnKind.DECIMAL, *_FLOATS),
    SchemaType.BOOLEAN: (ColumnKind.BOOLEAN, *_INTEGERS),
    SchemaType.STRING: (ColumnKind.STRING, ColumnKind.OTHER, ColumnKind.DATE, ColumnKind.TIME, *_TIMESTAMPS),
    SchemaType.BYTES: (ColumnKind.BYTES,),
    DATE: (ColumnKind.DATE,),
    TIME: (ColumnKind.TIME,),
    TIMESTAMP: _TIMESTAMPS,
}
_WIDTHS: Mapping[str, int] = {
    SchemaType.INT8: 8,
    SchemaType.INT16: 16,
    SchemaType.INT32: 32,
    SchemaType.INT64: 64,
    SchemaType.FLOAT32: 32,
    SchemaType.FLOAT64: 64,
}


def changes(layout: Layout, table: TargetTable | None, name: TableName, settings: SinkSettings, dialect: Dialect) -> list[str]:
    """The statements to run before records of ``layout`` fit; none where they do. Raises ConnectException for what cannot be, or may not
    be by ``auto.create`` and ``auto.evolve``: the text names table and column."""
    if table is None:
        if not settings.auto_create:
            reason = f"There is no table {name}. Create it, or set {AUTO_CREATE} to true."
            raise ConfigException.of(AUTO_CREATE, "false", reason)
        return [] if layout.value_schema is None else [_create(layout, name, dialect)]  # nothing to delete from
    _refuse_conflicts(layout, table)
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
    """Name, type and what may be missing. A default makes NOT NULL superfluous, as in Connect's sinks."""
    try:
        type = dialect.column_type(column.schema, is_key=column.is_key)
    except ConnectException as error:
        raise ConnectException(f"Column {column.name}: {error}. Leave the field out by fields.whitelist, or flatten it") from error
    text = f"{dialect.quoted(column.name)} {type}"
    if column.schema.default is not None and not column.is_key:
        return f"{text} DEFAULT {literal(column.schema, column.schema.default, dialect)}"
    return f"{text} NOT NULL" if column.is_key or not column.schema.optional else f"{text} NULL"


def _kind_name(schema: Schema) -> str:
    return schema.logical_name or str(schema.type)


def _refuse_conflicts(layout: Layout, table: TargetTable) -> None:
    for column in layout.columns:
        target = table.columns.get(column.name)
        if target is not None and target.kind not in _FITS.get(_kind_name(column.schema), ()):
            raise ConnectException(
                f"Column {column.name} of table {table.name} is {target.type_name}, which takes no values of type "
                f"{column.schema.name or column.schema.type.name}. Change the column's type, or cast the field (transformation Cast)"
            )


def _refuse_missing(missing: Sequence[RecordColumn], table: TargetTable, settings: SinkSettings) -> None:
    if missing and not settings.auto_evolve:
        names = ", ".join(column.name for column in missing)
        reason = f"Table {table.name} has no column {names}. Add it, leave the field out, or set {AUTO_EVOLVE} to true."
        raise ConfigException.of(AUTO_EVOLVE, "false", reason)
    for column in missing:
        if column.is_key:
            raise ConnectException(f"Table {table.name} has no column {column.name}, and a column of the key cannot be added later")
        if not column.schema.optional and column.schema.default is None:
            raise ConnectException(
                f"Column {column.name} cannot be added to table {table.name}: the field is not optional and has no default, which the rows "
                "that are there would need"
            )


def _refuse_left_out(layout: Layout, table: TargetTable, settings: SinkSettings) -> None:
    if layout.value_schema is None or settings.insert_mode is InsertMode.UPDATE:
        return
    given = {column.name for column in layout.columns}
    for target in table.columns.values():
        if target.name not in given and not target.is_nullable and target.default is None and not target.is_generated:
            raise ConnectException(
                f"Column {target.name} of table {table.name} is NOT NULL without a default, and the records have no field {target.name}. "
                "Give the column a default, or make it nullable"
            )
    if settings.insert_mode is InsertMode.UPSERT and frozenset(layout.keys) not in table.unique:
        raise ConfigException.of(
            PK_FIELDS,
            ",".join(layout.keys),
            f"Table {table.name} has no primary key or unique index of exactly these columns, which upsert needs. Make one.",
        )


def _wider(layout: Layout, table: TargetTable, settings: SinkSettings, dialect: Dialect) -> Iterator[str]:
    """Numbers that have become wider: the column becomes it too. SQLite's columns are wide enough."""
    if not settings.auto_evolve or dialect.name == SQLITE:
        return
    for column in layout.columns:
        target = table.columns.get(column.name)
        if target is None or column.schema.logical_name is not None:
            continue
        width, wanted = _WIDTHS.get(target.kind.value), _WIDTHS.get(column.schema.type)
        is_float = column.schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64)
        if width is not None and wanted is not None and width < wanted and is_float == (target.kind in _FLOATS):
            yield _altered(target, dialect.column_type(column.schema, is_key=column.is_key), table.name, dialect)


def _altered(target: Column, type: str, table: TableName, dialect: Dialect) -> str:
    start, name = f"ALTER TABLE {dialect.table(table)}", dialect.quoted(target.name)
    if dialect.name in (MYSQL, MARIADB):
        return f"{start} MODIFY {name} {type} {'NULL' if target.is_nullable else 'NOT NULL'}"
    return f"{start} ALTER COLUMN {name} {'TYPE ' if dialect.name == POSTGRESQL else ''}{type}"
