"""MySQL and MariaDB, accessed with SQLAlchemy and ``pymysql``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TIMESTAMPS, Column, ColumnKind, Table, TableName
from airflow_provider_connect.connectors.jdbc.dialects.dialect import (
    STANDARD_TYPES,
    Dialect,
    ErrorWords,
    Rows,
    RowSql,
    Selected,
    UnknownFormError,
    local_text,
    sql_text,
)
from airflow_provider_connect.connectors.jdbc.dialects.url_options import (
    TINY_AS_BOOLEAN,
    TO_ERROR,
    TO_FIRST_DAY,
    TO_NULL,
    ZERO_DATES,
    UrlOptions,
    by_word,
    renamed,
    seconds,
    switch,
    words,
)
from airflow_provider_connect.data.schema import DECIMAL, TIME, TIMESTAMP, Schema, SchemaType

_ENCRYPTED: Final = {"ssl_check_hostname": "true"}  # without a check of the certificate
_VERIFIED: Final = {"ssl_verify_cert": "true"}
_TLS: Final = {
    **dict.fromkeys(("true", "required", "trust"), _ENCRYPTED),
    **{word: {} for word in ("false", "disabled", "disable", "preferred")},
    "verify_ca": _VERIFIED,
    **{word: {**_VERIFIED, "ssl_verify_identity": "true"} for word in ("verify_identity", "verify_full")},
}
_LONGEST_LOCK: Final = 64


@dataclass(frozen=True)
class Mysql(Dialect):
    """A catalog is a database, and there are no schemas. A change of a table commits."""

    name: str = "mysql"

    title = "MySQL"
    extra = "mysql"
    driver = "pymysql"
    makes_tls_context = True
    port = 3306
    zero_dates: ClassVar[str | None] = TO_ERROR
    options = UrlOptions(
        accepted=words("charset connect_timeout read_timeout write_timeout ssl_key_password"),
        defaults={"connect_timeout": "30", "read_timeout": "3600", "write_timeout": "3600"},
        files=words("ssl_ca ssl_cert ssl_key"),
        ignored=words(
            "characterencoding useunicode servertimezone connectiontimezone usejdbccompliantimezoneshift usejdbccomplianttimezoneshift "
            "allowpublickeyretrieval rewritebatchedstatements useserverprepstmts cacheprepstmts prepstmtcachesize prepstmtcachesqllimit "
            "usecursorfetch defaultfetchsize autoreconnect maxreconnects useinformationschema tcpkeepalive usecompression "
            "permitmysqlscheme usebulkstmts"
        ),
        fixed={
            "yearisdatetype": (("false",), "A YEAR is read as a number, never as a date."),
            "uselegacydatetimecode": (("false",), "Times are read as stored; the time zone of columns without one is db.timezone."),
            "forceconnectiontimezonetosession": (
                ("false",),
                "The session's time zone is UTC here, so that a TIMESTAMP is read as it is stored. That of DATETIME columns is "
                "db.timezone.",
            ),
            "nullcatalogmeanscurrent": (
                ("true",),
                "The tables of the URL's database are read. Leave the database out of the URL for those of all, and choose by "
                "table.include.",
            ),
            "transformedbitisboolean": (("true",), "A BIT(1) is read as a BOOLEAN."),
        },
        translations={
            **dict.fromkeys(("usessl", "requiressl", "sslmode"), by_word(_TLS)),
            "verifyservercertificate": switch(_VERIFIED),
            "serversslcert": renamed("ssl_ca"),
            "keypassword": renamed("ssl_key_password"),
            "connecttimeout": seconds("connect_timeout"),
            "sockettimeout": seconds("read_timeout", "write_timeout"),
            ZERO_DATES: by_word(
                {
                    **{word: {ZERO_DATES: TO_NULL} for word in ("converttonull", "convert_to_null")},
                    "round": {ZERO_DATES: TO_FIRST_DAY},
                    "exception": {ZERO_DATES: TO_ERROR},
                }
            ),
            TINY_AS_BOOLEAN: by_word({"true": {}, "false": {TINY_AS_BOOLEAN: "false"}}),
        },
        pem="serverSslCert=…&ssl_cert=…&ssl_key=…",
    )
    lost_numbers = frozenset({1040, 1053, 1077, 1078, 1927, 2002, 2003, 2006, 2013, 2055, 4031})
    rollback_numbers = frozenset({1020, 1205, 1213})
    error_words = ErrorWords(
        "Access denied for user",
        "Unknown database",
        lost="Lost connection|gone away|Connection was killed",
        rolled_back="deadlock found|lock wait timeout",
    )
    value_numbers = frozenset({1048, 1264, 1265, 1292, 1364, 1366, 1369, 1406, 1411, 1423, 1452, 3140, 3819, 4025})
    numbers_statement_errors = True
    session_statements = ("SET time_zone = '+00:00'",)  # TIMESTAMP is stored and read in UTC
    buffers_answers = True
    quotes = ("`", "`")
    longest_name = 64
    ignores_case = True
    has_schemas = False
    types: ClassVar[Mapping[str, str]] = {
        **STANDARD_TYPES,
        SchemaType.INT8: "TINYINT",
        SchemaType.INT32: "INT",
        SchemaType.FLOAT32: "FLOAT",
        SchemaType.FLOAT64: "DOUBLE",
        SchemaType.BOOLEAN: "TINYINT",
        SchemaType.STRING: "LONGTEXT",
        SchemaType.BYTES: "LONGBLOB",
        DECIMAL: "DECIMAL(65,{scale})",
        TIME: "TIME(3)",
        TIMESTAMP: "DATETIME(3)",
    }
    key_types: ClassVar[Mapping[str, str]] = {SchemaType.STRING: "VARCHAR(255)", SchemaType.BYTES: "VARBINARY(255)"}
    binary_collation = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    table_options = " ENGINE=InnoDB"
    escapes_backslashes = True
    clock_query = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED) AS now"
    write_statements = (  # as with the JDBC drivers; otherwise, values that do not fit are truncated silently, and texts may differ
        "SET SESSION sql_mode = CONCAT(REPLACE(@@SESSION.sql_mode, 'NO_BACKSLASH_ESCAPES', ''), ',STRICT_TRANS_TABLES')",
    )
    upserts_by_any_index = True
    needs_unzoned_texts = True

    def common_form(self, rest: str) -> str:
        word = rest.partition(":")[0]
        if word in ("loadbalance", "replication", "failover", "sequential", "aurora", "load-balance-read"):
            raise UnknownFormError(f"The mode {word} tries several hosts. Name one host: jdbc:{self.name}://host:port/database")
        return rest

    def read_tables(self, database: Rows) -> list[Table]:
        """The tables of the connection's database, or of all databases if the URL does not name one."""
        return [Table(TableName(name, None, catalog), type) for catalog, name, type in database.rows(_TABLES)]

    def read_columns(self, database: Rows, table: TableName) -> list[Column]:
        """The columns of a table. A table without a catalog is in the connection's database."""
        catalog = "DATABASE()" if table.catalog is None else _text(table.catalog)
        return [_column(*row) for row in database.rows(_COLUMNS.format(catalog=catalog, table=_text(table.table)))]

    def change_type(self, column: str, type: str, nullability: str, rest: str) -> str:
        return f"MODIFY {column} {type} {rest}"

    def selected(self, column: Column, schema: Schema, zero_dates: str | None) -> Selected:
        operand = self.quoted(column.name)
        if column.kind in (ColumnKind.DATE, *TIMESTAMPS) and (zero_dates is not None or column.is_nullable):
            return _without_zero_dates(operand, column, schema, zero_dates or TO_NULL)
        return Selected(_expression(column, operand), schema)

    def timestamp_literal(self, nanoseconds: int, zone: str, *, has_zone: bool) -> str:
        return f"'{local_text(nanoseconds, zone)}'"

    def upsert(self, row: RowSql, keys: Sequence[str]) -> str:
        names = [self.quoted(name) for name in row.names if name not in keys] or [self.quoted(keys[0])]
        return f"{row.insert} ON DUPLICATE KEY UPDATE {', '.join(f'{name} = VALUES({name})' for name in names)}"

    def definition_lock(self, name: TableName) -> str:
        """During an ALTER, a table's columns are listed without its keys. This query takes a lock that keeps an ALTER from finishing. It
        needs the SELECT privilege."""
        return f"SELECT 1 FROM {self.table(name)} LIMIT 0"

    def definition_query(self, name: TableName) -> str:
        return f"SHOW CREATE TABLE {self.table(name)}"

    def definition_rests(self, definition: str) -> dict[str, str]:
        found = (_DEFINITION.fullmatch(line) for line in definition.splitlines())
        return {match[1].replace("``", "`"): match[2] for match in found if match}

    def view_base(self, database: Rows, name: TableName) -> tuple[TableName, Mapping[str, str]] | None:
        """Needs the SHOW VIEW privilege, because the definition is empty without it. A view with computed columns accepts no inserts."""
        schema = "DATABASE()" if name.catalog is None else self.text_literal(name.catalog)
        rows = database.rows(_VIEW_DEFINITION.format(schema=schema, view=self.text_literal(name.table)))
        found = _VIEW.fullmatch(rows[0][0] or "") if rows else None
        if found is None:
            return None
        names = itertools.pairwise(_VIEW_NAME.findall(found["columns"]))
        columns = {_bare(alias): _bare(column) for (_, column), (is_alias, alias) in names if is_alias}
        return TableName(_bare(found["table"]), None, _bare(found["catalog"])), columns

    def unsafe_engine_query(self, name: TableName) -> str:
        """The rows of a MyISAM or Aria table stay after their transaction is rolled back, and would be written again."""
        schema = "DATABASE()" if name.catalog is None else self.text_literal(name.catalog)
        return (
            "SELECT t.ENGINE FROM information_schema.TABLES t JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE "
            f"WHERE t.TABLE_SCHEMA = {schema} AND t.TABLE_NAME = {self.text_literal(name.table)} AND e.TRANSACTIONS <> 'YES'"
        )

    def change_lock(self, name: TableName, seconds: int) -> tuple[str, str]:
        lock = self.text_literal(f"connect.{name.table}"[:_LONGEST_LOCK])
        return f"SELECT GET_LOCK({lock}, {seconds})", f"DO RELEASE_LOCK({lock})"


@dataclass(frozen=True)
class Mariadb(Mysql):
    """MySQL, except that a zero date is null, as with MariaDB's JDBC driver."""

    name: str = "mariadb"

    title = "MariaDB"
    dataset_scheme = "mysql"
    zero_dates: ClassVar[str | None] = None


# --- catalog --------------------------------------------------------------------------------------------------------------------------

_TABLES: Final = (
    "SELECT table_schema, table_name, CASE table_type WHEN 'VIEW' THEN 'VIEW' ELSE 'TABLE' END FROM information_schema.tables "
    "WHERE table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') AND table_type IN ('BASE TABLE', 'VIEW') "
    "AND (DATABASE() IS NULL OR table_schema = DATABASE())"
)
_COLUMNS: Final = (
    "SELECT c.column_name, c.data_type, c.column_type, c.is_nullable, c.numeric_precision, c.numeric_scale, "
    "IF(c.is_nullable = 'YES' AND c.column_default = 'NULL' AND version() LIKE '%MariaDB%', NULL, c.column_default), "
    "coalesce(k.ordinal_position, 0), c.extra FROM information_schema.columns c LEFT JOIN information_schema.key_column_usage k "
    "ON k.table_schema = c.table_schema AND k.table_name = c.table_name AND k.column_name = c.column_name "
    "AND k.constraint_name = 'PRIMARY' WHERE c.table_schema = {catalog} AND c.table_name = {table} ORDER BY c.ordinal_position"
)
# a line of SHOW CREATE TABLE: the column's name, then the rest of its definition
_DEFINITION: Final = re.compile(r"\s*+`((?:[^`]|``)+)` \w++(?:\([^)]*+\))?+(?: unsigned)?+(?: zerofill)?+ ?+(.*?),?")
_VIEW_DEFINITION: Final = (
    "SELECT VIEW_DEFINITION FROM information_schema.VIEWS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {view} AND IS_UPDATABLE = 'YES'"
)
_QUOTED: Final = r"`(?:[^`]|``)++`"
_VIEW_NAME: Final = re.compile(r"( AS )?(`(?:[^`]|``)*+`?)")
_PLAIN_COLUMN: Final = rf"(?:{_QUOTED}\.){{1,2}}+{_QUOTED} AS {_QUOTED}"
_VIEW: Final = re.compile(  # the server's own text of a view: columns of one table, perhaps with an alias, and a condition
    rf"select (?P<columns>{_PLAIN_COLUMN}(?:,{_PLAIN_COLUMN})*+) from (?P<catalog>{_QUOTED})\.(?P<table>{_QUOTED})(?: {_QUOTED})?"
    r"(?: where .*)?",
    re.DOTALL,
)
_SPATIAL: Final = frozenset(  # types whose values are bytes: four for the reference system's number, then WKB
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    }
)
_KINDS: Final = {
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
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", *_SPATIAL), ColumnKind.BYTES),
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "uuid", "inet4", "inet6"),
        ColumnKind.STRING,
    ),
}
_WIDER: Final = {ColumnKind.INT8: ColumnKind.INT16, ColumnKind.INT16: ColumnKind.INT32, ColumnKind.INT32: ColumnKind.INT64}


def _bare(quoted: str) -> str:
    return quoted[1:-1].replace("``", "`")


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
    is_nullable, is_numbered, is_computed = nullable.upper() == "YES", "auto_increment" in extra.lower(), "generated" in extra.lower()
    is_distinct = is_numbered or (is_nullable and default is None and not is_computed)
    is_generated = is_numbered or is_computed
    return Column(
        name,
        kind,
        word,
        is_nullable,
        precision,
        scale,
        default,
        int(key),
        is_generated,
        is_distinct_by_default=is_distinct,
    )


# --- reading --------------------------------------------------------------------------------------------------------------------------

_NUMBERS_AND_TIMES: Final = frozenset(  # types whose kind is OTHER only if ``columns.as.text`` lists the column
    {
        *("tinyint", "smallint", "mediumint", "int", "bigint", "year", "float", "double", "decimal"),
        *("date", "time", "datetime", "timestamp"),
    }
)


def _without_zero_dates(operand: str, column: Column, schema: Schema, zero_dates: str) -> Selected:
    """The column with zero dates replaced, as MySQL's JDBC driver does for ``zeroDateTimeBehavior``. Dates with only some zero parts
    fail."""
    if zero_dates == TO_ERROR:
        return Selected(operand, schema)
    first_day = "DATE '0001-01-01'" if column.kind is ColumnKind.DATE else "TIMESTAMP '0001-01-01 00:00:00'"
    instead = "NULL" if zero_dates == TO_NULL else first_day
    expression = f"IF(LEFT(CAST({operand} AS CHAR), 10) = '0000-00-00', {instead}, {operand})"
    return Selected(expression, schema.as_optional() if zero_dates == TO_NULL else schema)


def _expression(column: Column, operand: str) -> str:
    if column.type_name == "bit" and column.kind is ColumnKind.BOOLEAN:
        return f"CAST({operand} AS UNSIGNED)"
    if column.kind is ColumnKind.OTHER and column.type_name in _SPATIAL:
        return f"ST_AsText({operand})"
    if column.kind is ColumnKind.OTHER and column.type_name in _NUMBERS_AND_TIMES:
        return f"CAST({operand} AS CHAR)"
    if column.kind is ColumnKind.TIME or column.type_name in ("set", "enum", "json", "uuid", "inet4", "inet6"):
        return f"CAST({operand} AS CHAR)"
    return operand
