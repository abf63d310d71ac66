"""The columns of a query's rows. PostgreSQL and SQLite tell them of a view that lives for a moment in the connection's temporary schema;
elsewhere they are taken from the first rows."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.catalog.metadata import read_columns
from airflow_provider_connect.connectors.jdbc.database.database import Database, open_database
from airflow_provider_connect.connectors.jdbc.database.database_errors import StatementException
from airflow_provider_connect.connectors.jdbc.database.database_url import POSTGRESQL, SQLITE, DatabaseUrl
from airflow_provider_connect.connectors.jdbc.database.table_name import TableName
from airflow_provider_connect.connectors.jdbc.source.config import QUERY
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.arrow import pa

_VIEW: Final = "connect_query"
_SAMPLE_ROWS: Final = 1000
_STORAGE_KINDS: Final = {"integer": ColumnKind.INT64, "real": ColumnKind.FLOAT64, "blob": ColumnKind.BYTES}


def read_query_columns(database: Database, url: DatabaseUrl, query: str) -> list[Column]:
    """The columns in their order, all nullable. Raises ConfigException for a query that the database refuses."""
    try:
        if url.dialect in (POSTGRESQL, SQLITE):
            return _of_view(database, url, query)
        return _of_first_rows(url, query)
    except StatementException as error:
        reason = f"{error.message}. Correct the query, or the user's rights."
        raise ConfigException.of(QUERY, query, reason) from error


def _of_view(database: Database, url: DatabaseUrl, query: str) -> list[Column]:
    try:
        database.execute(f"CREATE TEMP VIEW {_VIEW} AS SELECT * FROM ({query}\n) AS connect_rows")
    except StatementException as error:
        if error.state in ("25006", "42501"):  # a standby, or no right to temporary objects
            return _of_first_rows(url, query)
        raise
    try:
        if url.dialect == SQLITE:
            return _with_storage(database, read_columns(database, url, TableName(_VIEW)))
        schema = database.rows("SELECT nspname::text FROM pg_catalog.pg_namespace WHERE oid = pg_catalog.pg_my_temp_schema()")[0][0]
        return read_columns(database, url, TableName(_VIEW, schema))
    finally:
        database.execute(f"DROP VIEW {_VIEW}")


def _with_storage(database: Database, columns: list[Column]) -> list[Column]:
    """SQLite declares no type for a computed column: then that of its first value counts."""
    computed = [column for column in columns if not column.type_name]
    if not computed:
        return columns
    names = [f'"{column.name.replace(chr(34), chr(34) * 2)}"' for column in computed]
    found = database.rows(f"SELECT {', '.join(f'(SELECT typeof({name}) FROM {_VIEW} WHERE {name} IS NOT NULL LIMIT 1)' for name in names)}")
    kinds = {column.name: _STORAGE_KINDS.get(word or "", ColumnKind.STRING) for column, word in zip(computed, found[0], strict=True)}
    return [Column(column.name, kinds[column.name], "") if column.name in kinds else column for column in columns]


def _of_first_rows(url: DatabaseUrl, query: str) -> list[Column]:
    with closing(open_database(url)) as database:
        for batch in database.batches(f"SELECT * FROM ({query}\n) AS connect_rows", _SAMPLE_ROWS):
            return [_column(field) for field in batch.schema]
    reason = "It has no rows yet, and this database tells the columns of a query by its rows. Run it when there are some."
    raise ConfigException.of(QUERY, query, reason)


def _column(field: pa.Field) -> Column:
    types = pa.types
    kinds = (
        (types.is_boolean, ColumnKind.BOOLEAN),
        (types.is_int16, ColumnKind.INT16),
        (types.is_int32, ColumnKind.INT32),
        (types.is_integer, ColumnKind.INT64),
        (types.is_float32, ColumnKind.FLOAT32),
        (types.is_floating, ColumnKind.FLOAT64),
        (types.is_decimal, ColumnKind.DECIMAL),
        (types.is_date, ColumnKind.DATE),
        (types.is_time, ColumnKind.TIME),
        (types.is_binary, ColumnKind.BYTES),
    )
    if types.is_timestamp(field.type):
        return Column(field.name, ColumnKind.TIMESTAMP if field.type.tz is None else ColumnKind.TIMESTAMP_TZ, str(field.type))
    kind = next((kind for is_type, kind in kinds if is_type(field.type)), ColumnKind.STRING)
    if kind is ColumnKind.DECIMAL:
        return Column(field.name, kind, "decimal", precision=38, scale=field.type.scale)
    if (field.metadata or {}).get(b"ADBC:postgresql:typname") == b"numeric":
        return Column(field.name, ColumnKind.DECIMAL, "numeric")
    return Column(field.name, kind, str(field.type))
