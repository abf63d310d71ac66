"""The catalog of PostgreSQL."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TIMESTAMPS, Column, ColumnKind, Table, sql_text
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.table_name import TableName

_TABLES: Final = """
SELECT current_database()::text, n.nspname::text, c.relname::text,
  CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
"""
_COLUMNS: Final = """
SELECT a.attname::text, coalesce(b.typname, t.typname)::text, coalesce(b.typcategory, t.typcategory)::text,
  CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END::int8, a.attnotnull OR t.typnotnull,
  pg_catalog.pg_get_expr(d.adbin, d.adrelid)::text,
  coalesce((SELECT array_position(k.conkey, a.attnum) FROM pg_catalog.pg_constraint k
    WHERE k.conrelid = c.oid AND k.contype = 'p'), 0)::int8,
  a.attidentity <> '' OR a.attgenerated <> '' OR coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relname = {table} AND n.nspname = {schema} AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
ORDER BY a.attnum
"""
_KINDS: Final = {
    "bool": ColumnKind.BOOLEAN,
    "int2": ColumnKind.INT16,
    "int4": ColumnKind.INT32,
    "int8": ColumnKind.INT64,
    "oid": ColumnKind.INT64,
    "float4": ColumnKind.FLOAT32,
    "float8": ColumnKind.FLOAT64,
    "numeric": ColumnKind.DECIMAL,
    "bytea": ColumnKind.BYTES,
    "date": ColumnKind.DATE,
    "time": ColumnKind.TIME,
    "timestamp": ColumnKind.TIMESTAMP,
    "timestamptz": ColumnKind.TIMESTAMP_TZ,
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "name", "json", "jsonb", "uuid", "xml", "citext"), ColumnKind.STRING),
}
_SECOND_DIGITS: Final = 6  # of a timestamp declared without a precision


def tables(database: Database) -> list[Table]:
    """Tables, views and the like outside the system's schemas; a partitioned table without its partitions."""
    return [Table(TableName(name, schema, catalog), type) for catalog, schema, name, type in database.rows(_TABLES)]


def columns(database: Database, table: TableName) -> list[Column]:
    """The columns of a table; of one without schema, that of the search path."""
    schema = "ANY (current_schemas(false))" if table.schema is None else sql_text(table.schema)
    return [_column(*row) for row in database.rows(_COLUMNS.format(schema=schema, table=sql_text(table.table)))]


def _column(name: str, type_name: str, category: str, modifier: int, *rest: Any) -> Column:  # Any: a row
    is_required, default, key, is_generated = rest
    kind = _KINDS.get(type_name, ColumnKind.STRING if category == "E" else ColumnKind.OTHER)
    precision = scale = None
    if kind is ColumnKind.DECIMAL and modifier >= 4:
        precision = ((modifier - 4) >> 16) & 0xFFFF
        scale = (((modifier - 4) & 0x7FF) ^ 0x400) - 0x400  # eleven bits with a sign
    digits = (modifier if modifier >= 0 else _SECOND_DIGITS) if kind in TIMESTAMPS else None
    return Column(name, kind, type_name, not is_required, precision, scale, default, max(key, 0), is_generated, digits)
