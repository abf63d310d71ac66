"""The catalog of MySQL and MariaDB."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind, Table, sql_text
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.table_name import TableName

_TABLES: Final = (
    "SELECT table_schema, table_name, CASE table_type WHEN 'VIEW' THEN 'VIEW' ELSE 'TABLE' END FROM information_schema.tables "
    "WHERE table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') AND table_type IN ('BASE TABLE', 'VIEW') "
    "AND (DATABASE() IS NULL OR table_schema = DATABASE())"
)
_COLUMNS: Final = (
    "SELECT c.column_name, c.data_type, c.column_type, c.is_nullable, c.numeric_precision, c.numeric_scale, c.column_default, "
    "coalesce(k.ordinal_position, 0), c.extra FROM information_schema.columns c LEFT JOIN information_schema.key_column_usage k "
    "ON k.table_schema = c.table_schema AND k.table_name = c.table_name AND k.column_name = c.column_name "
    "AND k.constraint_name = 'PRIMARY' WHERE c.table_schema = {catalog} AND c.table_name = {table} ORDER BY c.ordinal_position"
)
_KINDS: Final = {
    "tinyint": ColumnKind.INT8,
    "smallint": ColumnKind.INT16,
    "mediumint": ColumnKind.INT32,
    "int": ColumnKind.INT32,
    "bigint": ColumnKind.INT64,
    "year": ColumnKind.INT16,
    "float": ColumnKind.FLOAT32,
    "double": ColumnKind.FLOAT64,
    "decimal": ColumnKind.DECIMAL,
    "date": ColumnKind.DATE,
    "time": ColumnKind.TIME,
    "datetime": ColumnKind.TIMESTAMP,
    "timestamp": ColumnKind.TIMESTAMP_TZ,
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit"), ColumnKind.BYTES),
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "uuid", "inet4", "inet6"),
        ColumnKind.STRING,
    ),
}
_WIDER: Final = {ColumnKind.INT8: ColumnKind.INT16, ColumnKind.INT16: ColumnKind.INT32, ColumnKind.INT32: ColumnKind.INT64}


def tables(database: Database) -> list[Table]:
    """The tables and views of the connection's database; of all, where the URL names none."""
    return [Table(TableName(name, None, catalog), type) for catalog, name, type in database.rows(_TABLES)]


def columns(database: Database, table: TableName) -> list[Column]:
    """The columns of a table; of one without catalog, that of the connection's database."""
    catalog = "DATABASE()" if table.catalog is None else _text(table.catalog)
    return [_column(*row) for row in database.rows(_COLUMNS.format(catalog=catalog, table=_text(table.table)))]


def _text(value: str) -> str:
    return sql_text(value.replace("\\", "\\\\"))


def _column(name: str, type_name: str, whole: str, nullable: str, *rest: Any) -> Column:  # Any: a row
    precision, scale, default, key, extra = rest
    word, whole = type_name.lower(), whole.lower()
    kind = _KINDS.get(word, ColumnKind.OTHER)
    if whole in ("tinyint(1)", "bit(1)"):
        kind = ColumnKind.BOOLEAN
    elif "unsigned" in whole:
        kind = _WIDER.get(kind, kind)
    if kind is not ColumnKind.DECIMAL:
        precision = scale = None
    is_generated = "auto_increment" in extra.lower() or "generated" in extra.lower()
    return Column(name, kind, word, nullable.upper() == "YES", precision, scale, default, int(key), is_generated)
