"""The catalog of a database that is known through SQLAlchemy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_connect.connectors.jdbc.catalog.column import VIEW, Column, ColumnKind, Table
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import SqlAlchemyDatabase
from airflow_provider_connect.connectors.jdbc.database.table_name import TableName


def tables(database: SqlAlchemyDatabase) -> list[Table]:
    """Tables and views of the schema that the connection starts in."""
    import sqlalchemy

    inspector = sqlalchemy.inspect(database.engine)
    schema = inspector.default_schema_name
    tables = [Table(TableName(name, schema)) for name in inspector.get_table_names()]
    return tables + [Table(TableName(name, schema), VIEW) for name in inspector.get_view_names()]


def columns(database: SqlAlchemyDatabase, table: TableName) -> list[Column]:
    """The columns of a table."""
    import sqlalchemy

    inspector = sqlalchemy.inspect(database.engine)
    try:
        found = inspector.get_columns(table.table, schema=table.schema)
        key: Sequence[str] = inspector.get_pk_constraint(table.table, schema=table.schema).get("constrained_columns") or ()
    except sqlalchemy.exc.NoSuchTableError:
        return []
    return [_column(column, list(key)) for column in found]


def _column(found: Any, key: list[str]) -> Column:  # Any: a ReflectedColumn
    from sqlalchemy import types

    kinds: tuple[tuple[type[Any], ColumnKind], ...] = (
        (types.Boolean, ColumnKind.BOOLEAN),
        (types.SmallInteger, ColumnKind.INT16),
        (types.BigInteger, ColumnKind.INT64),
        (types.Integer, ColumnKind.INT32),
        (types.REAL, ColumnKind.FLOAT32),
        (types.Float, ColumnKind.FLOAT64),
        (types.Numeric, ColumnKind.DECIMAL),
        (types.Date, ColumnKind.DATE),
        (types.Time, ColumnKind.TIME),
        (types.DateTime, ColumnKind.TIMESTAMP),
        (types._Binary, ColumnKind.BYTES),
        (types.String, ColumnKind.STRING),
    )
    type_ = found["type"]
    kind = next((kind for cls, kind in kinds if isinstance(type_, cls)), ColumnKind.OTHER)
    if kind is ColumnKind.TIMESTAMP and getattr(type_, "timezone", False):
        kind = ColumnKind.TIMESTAMP_TZ
    is_decimal = kind is ColumnKind.DECIMAL
    return Column(
        found["name"],
        kind,
        str(type_).lower(),
        bool(found.get("nullable", True)),
        getattr(type_, "precision", None) if is_decimal else None,
        getattr(type_, "scale", None) if is_decimal else None,
        found.get("default"),
        key.index(found["name"]) + 1 if found["name"] in key else 0,
        bool(found.get("autoincrement") is True or found.get("computed") or found.get("identity")),
    )
