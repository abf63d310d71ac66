"""Which tables a database has, and which columns a table has. Queries the catalog only: reads no rows of tables and changes nothing.

One section for each product: PostgreSQL, SQLite, MySQL with MariaDB, and the databases that only SQLAlchemy knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import SPATIAL, TABLE, TIMESTAMPS, VIEW, Column, ColumnKind, Table, sql_text
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.database_options import MARIADB, MYSQL, POSTGRESQL, SQLITE, TINY_AS_BOOLEAN
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.database.dialect import TableName
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import SqlAlchemyDatabase


def read_tables(database: Database, url: DatabaseUrl, types: Collection[str] = (TABLE,)) -> list[Table]:
    """The tables of these types (JDBC's words, in any case) that the user may read, in the order of their names, without the system's.

    A partitioned table of PostgreSQL is one table; its partitions are not listed.
    """
    wanted = {word.upper() for word in types}
    tables, _ = _CATALOGS.get(url.dialect, (_inspected_tables, _inspected_columns))
    return sorted((table for table in tables(database) if table.type in wanted), key=lambda table: table.name.parts)


def read_columns(database: Database, url: DatabaseUrl, table: TableName) -> list[Column]:
    """The columns of a table in their order; empty where there is no such table."""
    _, columns = _CATALOGS.get(url.dialect, (_inspected_tables, _inspected_columns))
    found = columns(database, table)
    if url.options.get(TINY_AS_BOOLEAN) == "false":
        return [replace(column, kind=ColumnKind.INT8) if _is_tiny_boolean(column) else column for column in found]
    return found


def _is_tiny_boolean(column: Column) -> bool:
    return column.type_name == "tinyint" and column.kind is ColumnKind.BOOLEAN


# --- PostgreSQL -----------------------------------------------------------------------------------------------------------------------

_POSTGRESQL_TABLES: Final = """
SELECT current_database()::text, n.nspname::text, c.relname::text,
  CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
"""
_POSTGRESQL_COLUMNS: Final = """
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
_POSTGRESQL_KINDS: Final = {
    "bool": ColumnKind.BOOLEAN,
    "int2": ColumnKind.INT16,
    "int4": ColumnKind.INT32,
    **dict.fromkeys(("int8", "oid"), ColumnKind.INT64),
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


def _postgresql_tables(database: Database) -> list[Table]:
    return [Table(TableName(name, schema, catalog), type) for catalog, schema, name, type in database.rows(_POSTGRESQL_TABLES)]


def _postgresql_columns(database: Database, table: TableName) -> list[Column]:
    """Of a table without schema, that of the search path."""
    schema = "ANY (current_schemas(false))" if table.schema is None else sql_text(table.schema)
    rows = database.rows(_POSTGRESQL_COLUMNS.format(schema=schema, table=sql_text(table.table)))
    return [_postgresql_column(*row) for row in rows]


def _postgresql_column(name: str, type_name: str, category: str, modifier: int, *rest: Any) -> Column:  # Any: a row
    is_required, default, key, is_generated = rest
    kind = _POSTGRESQL_KINDS.get(type_name, ColumnKind.STRING if category == "E" else ColumnKind.OTHER)
    precision = scale = None
    if kind is ColumnKind.DECIMAL and modifier >= 4:
        precision = ((modifier - 4) >> 16) & 0xFFFF
        scale = (((modifier - 4) & 0x7FF) ^ 0x400) - 0x400  # eleven bits with a sign
    digits = (modifier if modifier >= 0 else _SECOND_DIGITS) if kind in TIMESTAMPS else None
    return Column(name, kind, type_name, not is_required, precision, scale, default, max(key, 0), is_generated, digits)


# --- SQLite ---------------------------------------------------------------------------------------------------------------------------

_SQLITE_TABLES: Final = (
    "SELECT name, CASE type WHEN 'view' THEN 'VIEW' ELSE 'TABLE' END FROM sqlite_master "
    "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)
_SQLITE_COLUMNS: Final = (
    "SELECT name, type, \"notnull\", coalesce(dflt_value, ''), dflt_value IS NULL, pk, hidden FROM pragma_table_xinfo({table}) "
    "WHERE hidden <> 1 ORDER BY cid"
)
_DECLARED: Final = re.compile(r"\s*+([^(\s]*+(?:\s++[^(\s]++)*+)\s*+(?:\(\s*+(\d++)\s*+(?:,\s*+(-?\d++)\s*+)?\)\s*+)?")
_SQLITE_WORDS: Final = {"boolean": ColumnKind.BOOLEAN, "bool": ColumnKind.BOOLEAN, "date": ColumnKind.DATE, "time": ColumnKind.TIME}
_SQLITE_PARTS: Final = (
    (("timestamp", "datetime"), ColumnKind.TIMESTAMP),
    (("int",), ColumnKind.INT64),
    (("char", "clob", "text"), ColumnKind.STRING),
    (("blob",), ColumnKind.BYTES),
    (("real", "floa", "doub"), ColumnKind.FLOAT64),
)


def _sqlite_tables(database: Database) -> list[Table]:
    return [Table(TableName(name), type) for name, type in database.rows(_SQLITE_TABLES)]


def _sqlite_columns(database: Database, table: TableName) -> list[Column]:
    """Their kinds follow the declared words, since any column may hold any value."""
    return [_sqlite_column(*row) for row in database.rows(_SQLITE_COLUMNS.format(table=sql_text(table.table)))]


def _sqlite_column(name: str, declared: str, is_required: int, *rest: Any) -> Column:  # Any: a row
    default, has_no_default, key, hidden = rest
    match = _DECLARED.fullmatch(declared or "")
    word = (match[1] if match else declared).lower()
    precision = int(match[2]) if match and match[2] else None
    scale = int(match[3]) if match and match[3] else (0 if precision is not None else None)
    kind = _sqlite_kind(word, precision)
    if kind is not ColumnKind.DECIMAL:
        precision = scale = None
    is_rowid = bool(key) and word == "integer"  # never null, though it is not declared so
    is_nullable, is_generated = not (is_required or is_rowid), is_rowid or hidden > 1
    return Column(name, kind, word, is_nullable, precision, scale, None if has_no_default else default, key, is_generated)


def _sqlite_kind(word: str, precision: int | None) -> ColumnKind:
    """The words that have a meaning beside SQLite's own affinities first, then those."""
    if word in _SQLITE_WORDS:
        return _SQLITE_WORDS[word]
    for parts, kind in _SQLITE_PARTS:
        if any(part in word for part in parts):
            return kind
    if "dec" in word or "num" in word:
        return ColumnKind.DECIMAL if precision is not None else ColumnKind.FLOAT64
    return ColumnKind.STRING


# --- MySQL and MariaDB ----------------------------------------------------------------------------------------------------------------

_MYSQL_TABLES: Final = (
    "SELECT table_schema, table_name, CASE table_type WHEN 'VIEW' THEN 'VIEW' ELSE 'TABLE' END FROM information_schema.tables "
    "WHERE table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') AND table_type IN ('BASE TABLE', 'VIEW') "
    "AND (DATABASE() IS NULL OR table_schema = DATABASE())"
)
_MYSQL_COLUMNS: Final = (
    "SELECT c.column_name, c.data_type, c.column_type, c.is_nullable, c.numeric_precision, c.numeric_scale, c.column_default, "
    "coalesce(k.ordinal_position, 0), c.extra FROM information_schema.columns c LEFT JOIN information_schema.key_column_usage k "
    "ON k.table_schema = c.table_schema AND k.table_name = c.table_name AND k.column_name = c.column_name "
    "AND k.constraint_name = 'PRIMARY' WHERE c.table_schema = {catalog} AND c.table_name = {table} ORDER BY c.ordinal_position"
)
_MYSQL_KINDS: Final = {
    "tinyint": ColumnKind.INT8,
    **dict.fromkeys(("smallint", "year"), ColumnKind.INT16),
    **dict.fromkeys(("mediumint", "int"), ColumnKind.INT32),
    "bigint": ColumnKind.INT64,
    "float": ColumnKind.FLOAT32,
    "double": ColumnKind.FLOAT64,
    "decimal": ColumnKind.DECIMAL,
    "date": ColumnKind.DATE,
    "time": ColumnKind.TIME,
    "datetime": ColumnKind.TIMESTAMP,
    "timestamp": ColumnKind.TIMESTAMP_TZ,
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", *SPATIAL), ColumnKind.BYTES),
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "uuid", "inet4", "inet6"),
        ColumnKind.STRING,
    ),
}
_WIDER: Final = {ColumnKind.INT8: ColumnKind.INT16, ColumnKind.INT16: ColumnKind.INT32, ColumnKind.INT32: ColumnKind.INT64}


def _mysql_tables(database: Database) -> list[Table]:
    """Of the connection's database; of all, where the URL names none."""
    return [Table(TableName(name, None, catalog), type) for catalog, name, type in database.rows(_MYSQL_TABLES)]


def _mysql_columns(database: Database, table: TableName) -> list[Column]:
    """Of a table without catalog, that of the connection's database."""
    catalog = "DATABASE()" if table.catalog is None else _mysql_text(table.catalog)
    rows = database.rows(_MYSQL_COLUMNS.format(catalog=catalog, table=_mysql_text(table.table)))
    return [_mysql_column(*row) for row in rows]


def _mysql_text(value: str) -> str:
    return sql_text(value.replace("\\", "\\\\"))


def _mysql_column(name: str, type_name: str, whole: str, nullable: str, *rest: Any) -> Column:  # Any: a row
    precision, scale, default, key, extra = rest
    word, whole = type_name.lower(), whole.lower()
    kind = _MYSQL_KINDS.get(word, ColumnKind.OTHER)
    if whole in ("tinyint(1)", "bit(1)"):
        kind = ColumnKind.BOOLEAN
    elif "unsigned" in whole:
        kind = _WIDER.get(kind, kind)
    if kind is not ColumnKind.DECIMAL:
        precision = scale = None
    is_generated = "auto_increment" in extra.lower() or "generated" in extra.lower()
    return Column(name, kind, word, nullable.upper() == "YES", precision, scale, default, int(key), is_generated)


# --- databases that only SQLAlchemy knows ---------------------------------------------------------------------------------------------

_ORACLE_DIGITS: Final = 38  # of a NUMBER(*, 0)


def _inspected_tables(database: Database) -> list[Table]:
    """Tables and views of the schema that the connection starts in."""
    inspector = _inspector(database)
    schema = stored_name(inspector, inspector.default_schema_name)
    found = [*((name, TABLE) for name in inspector.get_table_names()), *((name, VIEW) for name in inspector.get_view_names())]
    return [Table(TableName(stored_name(inspector, name) or "", schema), kind) for name, kind in found]


def stored_name(inspector: Any, name: str | None) -> str | None:  # Any: SQLAlchemy's Inspector
    """A name as the catalog has it: SQLAlchemy writes names of Oracle that are all capitals in lower case."""
    found: str | None = inspector.dialect.denormalize_name(name) if _folds(inspector) else name
    return None if found is None else str(found)


def inspected_name(inspector: Any, name: str | None) -> str | None:  # Any: SQLAlchemy's Inspector
    """``stored_name`` undone."""
    return inspector.dialect.normalize_name(name) if _folds(inspector) else name


def _folds(inspector: Any) -> bool:
    return bool(getattr(inspector.dialect, "requires_name_normalize", False))


def _inspected_columns(database: Database, table: TableName) -> list[Column]:
    import sqlalchemy

    inspector = _inspector(database)
    try:
        name, schema = inspected_name(inspector, table.table), inspected_name(inspector, table.schema)
        found = inspector.get_columns(name, schema=schema)
        key: Sequence[str] = inspector.get_pk_constraint(name, schema=schema).get("constrained_columns") or ()
    except sqlalchemy.exc.NoSuchTableError:
        return []
    columns = [_inspected_column(column, list(key), is_oracle=_folds(inspector)) for column in found]
    return [replace(column, name=stored_name(inspector, column.name) or "") for column in columns]


def _inspector(database: Database) -> Any:  # SQLAlchemy's Inspector
    import sqlalchemy

    assert isinstance(database, SqlAlchemyDatabase)
    return sqlalchemy.inspect(database.engine)


def _inspected_column(found: Any, key: list[str], *, is_oracle: bool) -> Column:  # Any: a ReflectedColumn
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
    if is_oracle and isinstance(type_, types.Integer) and not isinstance(type_, types.Float):  # NUMBER, also with digits behind the point
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


_CATALOGS: Final[dict[str, tuple[Callable[[Database], list[Table]], Callable[[Database, TableName], list[Column]]]]] = {
    POSTGRESQL: (_postgresql_tables, _postgresql_columns),
    SQLITE: (_sqlite_tables, _sqlite_columns),
    MYSQL: (_mysql_tables, _mysql_columns),
    MARIADB: (_mysql_tables, _mysql_columns),
}
