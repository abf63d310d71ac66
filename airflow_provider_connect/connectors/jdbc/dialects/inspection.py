"""Tables and columns from SQLAlchemy's inspector, for products whose catalog is not queried here. Does not read rows of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TABLE, VIEW, Column, ColumnKind, Table, TableName

_ORACLE_DIGITS: Final = 38  # of a NUMBER(*, 0)


def inspected_tables(engine: Any) -> list[Table]:  # Any: SQLAlchemy's Engine
    """Tables and views of the connection's initial schema."""
    inspector = _inspector(engine)
    schema = stored_name(inspector, inspector.default_schema_name)
    found = [*((name, TABLE) for name in inspector.get_table_names()), *((name, VIEW) for name in inspector.get_view_names())]
    return [Table(TableName(stored_name(inspector, name) or "", schema), kind) for name, kind in found]


def inspected_columns(engine: Any, table: TableName) -> list[Column]:  # Any: SQLAlchemy's Engine
    """The columns of a table. Empty if there is no such table."""
    import sqlalchemy

    inspector = _inspector(engine)
    try:
        name, schema = inspected_name(inspector, table.table), inspected_name(inspector, table.schema)
        found = inspector.get_columns(name, schema=schema)
        key: Sequence[str] = inspector.get_pk_constraint(name, schema=schema).get("constrained_columns") or ()
    except sqlalchemy.exc.NoSuchTableError:
        return []
    columns = [inspected_column(column, list(key), is_oracle=_folds(inspector)) for column in found]
    return [replace(column, name=stored_name(inspector, column.name) or "") for column in columns]


def stored_name(inspector: Any, name: str | None) -> str | None:  # Any: SQLAlchemy's Inspector
    """A name as in the catalog. SQLAlchemy converts Oracle's all-capital names to lower case."""
    found: str | None = inspector.dialect.denormalize_name(name) if _folds(inspector) else name
    return None if found is None else str(found)


def inspected_name(inspector: Any, name: str | None) -> str | None:  # Any: SQLAlchemy's Inspector
    """The inverse of ``stored_name``."""
    return inspector.dialect.normalize_name(name) if _folds(inspector) else name


def _folds(inspector: Any) -> bool:
    return bool(getattr(inspector.dialect, "requires_name_normalize", False))


def _inspector(engine: Any) -> Any:  # Any: SQLAlchemy's Inspector
    import sqlalchemy

    return sqlalchemy.inspect(engine)


def inspected_column(found: Any, key: list[str], *, is_oracle: bool) -> Column:  # Any: a ReflectedColumn
    """One column as reported by the inspector. ``key`` are the columns of the primary key."""
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
    if is_oracle and isinstance(type_, types.Integer) and not isinstance(type_, types.Float):  # NUMBER, including digits after the point
        kind = ColumnKind.DECIMAL
    if kind is ColumnKind.TIMESTAMP and getattr(type_, "timezone", False):
        kind = ColumnKind.TIMESTAMP_TZ
    is_decimal, is_whole = kind is ColumnKind.DECIMAL, not isinstance(type_, types.Numeric)
    return Column(
        found["name"],
        kind,
        str(type_).lower(),
        bool(found.get("nullable", True)),
        getattr(type_, "precision", None if not is_whole else _ORACLE_DIGITS) if is_decimal else None,
        getattr(type_, "scale", None if not is_whole else 0) if is_decimal else None,
        found.get("default"),
        key.index(found["name"]) + 1 if found["name"] in key else 0,
        bool(found.get("autoincrement") is True or found.get("computed") or found.get("identity")),
    )
