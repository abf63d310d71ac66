"""PostgreSQL, accessed with its ADBC driver, which uses libpq. Rows are read and written as whole columns (COPY)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

from airflow_provider_connect.connectors.jdbc.catalog.column import TIMESTAMPS, UNLIMITED_SCALE, Column, ColumnKind, Table, TableName
from airflow_provider_connect.connectors.jdbc.dialects.dialect import (
    BATCH_BYTES,
    STANDARD_TYPES,
    Dialect,
    ErrorWords,
    Rows,
    Selected,
    local_text,
    sql_text,
)
from airflow_provider_connect.connectors.jdbc.dialects.url_options import READ_ONLY, UrlOptions, by_word, renamed, switch, words
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.schema import DECIMAL, MOST_DIGITS, Schema, SchemaType

INFINITY_MS: Final = 9_223_372_036_825_200_000
MINUS_INFINITY_MS: Final = -9_223_372_036_832_400_000
"""The values that PostgreSQL's JDBC driver returns for infinite timestamps."""
_INFINITE: Final = {INFINITY_MS * 1_000_000: "infinity", MINUS_INFINITY_MS * 1_000_000: "-infinity"}
_YEAR_2_NS: Final = -62_104_060_800_000_000_000
_HOUR_US: Final = 3_600_000_000
_SESSIONS: Final = {
    **{word: {"target_session_attrs": "primary"} for word in ("primary", "master")},
    **{word: {"target_session_attrs": "standby"} for word in ("secondary", "slave")},
    **{word: {"target_session_attrs": "prefer-standby"} for word in ("prefersecondary", "preferslave")},
    "any": {},
}


@dataclass(frozen=True)
class Postgresql(Dialect):
    """Names have all parts: catalog, schema and table."""

    name: str = "postgresql"

    title = "PostgreSQL"
    aliases = ("postgres", "pgsql")
    extra = "jdbc"
    driver = "psycopg2"
    adbc_driver = "adbc_driver_postgresql"
    uses_libpq = True
    port = 5432
    reaches_one_database = True
    options = UrlOptions(
        accepted=words(
            "sslmode connect_timeout application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout "
            "channel_binding require_auth gssencmode sslnegotiation sslsni ssl_min_protocol_version ssl_max_protocol_version "
            "target_session_attrs load_balance_hosts host port krbsrvname sslpassword"
        ),
        defaults={
            "connect_timeout": "30",
            "keepalives_idle": "60",
            "keepalives_interval": "10",
            "keepalives_count": "6",
            "tcp_user_timeout": "120000",
        },
        files=words("sslrootcert sslcert sslkey sslcrl"),
        ignored=words(
            "stringtype preparethreshold preparedstatementcachequeries preparedstatementcachesizemib databasemetadatacachefields "
            "databasemetadatacachefieldsmib defaultrowfetchsize rewritebatchedinserts binarytransfer tcpkeepalive tcpnodelay sockettimeout "
            "cancelsignaltimeout hostrecheckseconds protocolversion autosave cleanupsavepoints quotereturningidentifiers "
            "assumeminserverversion adaptivefetch logunclosedconnections disablecolumnsanitiser escapesyntaxcallmode logservererrordetail "
            "sslresponsetimeout"
        ),
        translations={
            "ssl": by_word({"true": {"sslmode": "verify-full"}, "": {"sslmode": "verify-full"}, "false": {}}),
            "applicationname": renamed("application_name"),
            "connecttimeout": renamed("connect_timeout"),
            "logintimeout": renamed("connect_timeout"),
            "channelbinding": renamed("channel_binding"),
            "kerberosservername": renamed("krbsrvname"),
            "requireauth": renamed("require_auth"),
            "targetservertype": by_word(_SESSIONS),
            "loadbalancehosts": switch({"load_balance_hosts": "random"}),
            READ_ONLY: switch({READ_ONLY: "true"}),
        },
        pem="sslrootcert=…&sslcert=…&sslkey=…",
        without_files=", or have the workers' admin set libpq's environment (PGSSLROOTCERT, PGPASSFILE, …)",
    )
    error_words = ErrorWords(
        r"password authentication failed|no password supplied|role \"[^\"]*\" does not exist|no pg_hba\.conf entry"
        r"|is not permitted to log in",
        r"database \"[^\"]*\" does not exist",
        r"could not translate host name|remaining connection slots|session is (?:not )?read-|server is (?:not )?in hot standby"
        r"|no more connections allowed|server login has been failing",
        r"server closed the connection|terminating connection|no connection to the server|could not receive data|could not send data"
        r"|the database system is|SSL connection has been closed|SSL SYSCALL|connection not open",
        r"deadlock detected|could not serialize access|conflict with recovery",
    )
    dataset_scheme = "postgres"
    default_schema = "public"
    describes_views = True
    longest_name = 63
    in_bytes = True
    types: ClassVar[Mapping[str, str]] = {
        **STANDARD_TYPES,
        SchemaType.STRING: "TEXT",
        SchemaType.BYTES: "BYTEA",
        DECIMAL: "DECIMAL",
    }
    has_arrays = True
    casts_texts = True
    has_booleans = True
    bytes_literal = "'\\x{}'"
    clock_query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS now"
    has_copy = True

    def column_type(self, schema: Schema, *, is_key: bool = False) -> str:
        """A decimal has limits if its values could not be read from a column without limits."""
        text = super().column_type(schema, is_key=is_key)
        if schema.logical_name != DECIMAL:
            return text
        type = arrow_type(schema)
        is_readable = type.scale <= UNLIMITED_SCALE and type.precision - type.scale <= MOST_DIGITS - UNLIMITED_SCALE
        return text if is_readable or type.scale < 0 else f"{text}({MOST_DIGITS},{type.scale})"

    def stream_options(self, rows: int) -> Mapping[str, str]:
        return {"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)}

    def read_tables(self, database: Rows) -> list[Table]:
        """A partitioned table is one table. Its partitions are not listed."""
        return [Table(TableName(name, schema, catalog), type) for catalog, schema, name, type in database.rows(_TABLES)]

    def read_columns(self, database: Rows, table: TableName) -> list[Column]:
        """The columns of a table. A table without a schema is found through the search path."""
        schema = "ANY (current_schemas(false))" if table.schema is None else sql_text(table.schema)
        return [_column(*row) for row in database.rows(_COLUMNS.format(schema=schema, table=sql_text(table.table)))]

    def read_view_columns(self, database: Rows, view: str) -> list[Column]:
        schema = database.rows("SELECT nspname::text FROM pg_catalog.pg_namespace WHERE oid = pg_catalog.pg_my_temp_schema()")[0][0]
        return self.read_columns(database, TableName(view, schema))

    def open_writers_query(self, relation: str) -> str:
        return _WRITERS.format(table=sql_text(relation))

    def _unquoted(self, identifier: str) -> str:
        return identifier.lower()

    def table(self, name: TableName) -> str:
        return ".".join(map(self.quoted, name.parts[1:] if name.catalog is not None else name.parts))

    def change_type(self, column: str, type: str, nullability: str, rest: str) -> str:
        return f"ALTER COLUMN {column} TYPE {type}"

    def selected(self, column: Column, schema: Schema, zero_dates: str | None) -> Selected:
        """Types that Arrow does not have are read as texts. The driver returns decimals as texts."""
        operand = self.quoted(column.name)
        if column.kind is ColumnKind.DECIMAL and schema.logical_name != DECIMAL:
            operand = f"{operand}::{'float8' if schema.type is SchemaType.FLOAT64 else 'int8'}"
        elif column.kind is ColumnKind.OTHER or (column.kind is ColumnKind.STRING and column.type_name not in _ARROW_TEXTS):
            operand = f"{operand}::text"
        elif column.type_name == "oid":
            operand = f"{operand}::int8"
        return Selected(operand, schema)

    def timestamp_literal(self, nanoseconds: int, zone: str, *, has_zone: bool) -> str:
        """Supports all times of PostgreSQL: years before 2 are expressed as an interval before 1970."""
        kind, offset = ("timestamptz", "+00") if has_zone else ("timestamp", "")
        if nanoseconds in _INFINITE:
            return f"'{_INFINITE[nanoseconds]}'::{kind}"
        if nanoseconds >= _YEAR_2_NS:
            return f"'{local_text(nanoseconds, zone)}{offset}'::{kind}"
        shift = ZoneInfo(zone).utcoffset(datetime(2, 1, 1)) or timedelta()
        microseconds = -(nanoseconds // 1000 + shift // timedelta(microseconds=1))
        hours, rest = divmod(microseconds, _HOUR_US)  # PostgreSQL 14 accepts at most 2^31 of a unit
        return f"('1970-01-01 00:00:00{offset}'::{kind} - '{hours} hours {Decimal(rest).scaleb(-6):f} seconds'::interval)"


# --- catalog --------------------------------------------------------------------------------------------------------------------------

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
  a.attidentity <> '' OR a.attgenerated <> '' OR coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false),
  c.oid::text || coalesce((SELECT '/' || s.relfilenode FROM pg_catalog.pg_depend o JOIN pg_catalog.pg_class s ON s.oid = o.objid
    WHERE o.classid = 'pg_catalog.pg_class'::regclass AND o.refclassid = o.classid AND o.refobjid = c.oid AND o.refobjsubid = a.attnum
    AND o.deptype IN ('a', 'i') AND s.relkind = 'S' AND t.typcategory = 'N' ORDER BY s.oid LIMIT 1), '')
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
_ARROW_TEXTS: Final = ("text", "varchar", "bpchar")
_SECOND_DIGITS: Final = 6  # of a timestamp that is declared without a precision


def _column(name: str, type_name: str, category: str, modifier: int, *rest: Any) -> Column:  # Any: a row
    is_required, default, key, is_generated, table_id = rest
    kind = _KINDS.get(type_name, ColumnKind.STRING if category == "E" else ColumnKind.OTHER)
    precision = scale = None
    if kind is ColumnKind.DECIMAL and modifier >= 4:
        precision = ((modifier - 4) >> 16) & 0xFFFF
        scale = (((modifier - 4) & 0x7FF) ^ 0x400) - 0x400  # eleven bits, signed
    digits = (modifier if modifier >= 0 else _SECOND_DIGITS) if kind in TIMESTAMPS else None
    return Column(name, kind, type_name, not is_required, precision, scale, default, max(key, 0), is_generated, digits, table_id)


_WRITERS: Final = """
SELECT DISTINCT l.virtualtransaction::text FROM pg_catalog.pg_locks l
WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
  AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  AND l.relation IN (SELECT {table}::regclass UNION SELECT relid FROM pg_catalog.pg_partition_tree({table}::regclass))
"""
