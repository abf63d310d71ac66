"""SQLite. Any column may have any value. Times are texts, Julian days or milliseconds since the epoch."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TIMESTAMPS, Column, ColumnKind, Table, TableName
from airflow_provider_connect.connectors.jdbc.dialects.dialect import (
    IS_NULL,
    STANDARD_TYPES,
    Dialect,
    ErrorWords,
    Rows,
    RowSql,
    Selected,
    sql_text,
    utc_offset,
)
from airflow_provider_connect.connectors.jdbc.dialects.url_options import UrlOptions, words
from airflow_provider_connect.data.schema import DECIMAL, Schema, SchemaType

_BUSY_MS: Final = 5000
_SHOWN: Final = 300  # characters of a value in an error message
_STREAMED_ROWS: Final = 64  # the driver does not limit bytes; 64 takes 1.5 times as long as 10,000, and half as long as 32


def sqlite_milliseconds(operand: str) -> str:
    """The SQL for a time in milliseconds since the epoch. SQLite stores times as texts, Julian days, or milliseconds since the epoch."""
    days = f"CAST(round((julianday({operand}) - 2440587.5) * 86400000.0) AS INTEGER)"
    return f"CASE typeof({operand}) WHEN 'integer' THEN {operand} ELSE {days} END"


@dataclass(frozen=True)
class Sqlite(Dialect):
    """A file, accessed with the ADBC driver or Python's ``sqlite3``."""

    name: str = "sqlite"

    title = "SQLite"
    aliases = ("sqlite3",)
    extra = "jdbc"
    adbc_driver = "adbc_driver_sqlite"
    is_file = True
    options = UrlOptions(
        accepted=words("mode"),
        ignored=words("timeout busy_timeout journal_mode cache"),
        fixed={
            "foreign_keys": (("false", "off", "0"), "Foreign keys are not enforced here. Use a CHECK or a trigger of the database."),
        },
    )
    error_words = ErrorWords(
        unknown_database="unable to open database file|failed to open 'file:|file is not a database", lost="database (?:table )?is locked"
    )
    numbers_statement_errors = True
    adbc_statements = (f"PRAGMA busy_timeout = {_BUSY_MS}",)  # because writers briefly lock the whole file
    streams_small_batches = True
    describes_views = True
    quotes = ("`", "`")  # within ", a name that is no longer a column would be read as a text
    ignores_case = True
    has_dotted_names = False
    types: ClassVar[Mapping[str, str]] = {
        **STANDARD_TYPES,
        **dict.fromkeys((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64), "INTEGER"),
        SchemaType.FLOAT32: "REAL",
        SchemaType.FLOAT64: "REAL",
        SchemaType.STRING: "TEXT",
        DECIMAL: "DECIMAL({precision},{scale})",
    }
    has_negative_scales = True
    has_fixed_types = True
    replaces_numbers = True
    clock_query = f"SELECT {sqlite_milliseconds(chr(39) + 'now' + chr(39))} * 1000 AS now"
    locks_database = True
    writes_times_as_text = True
    needs_unzoned_texts = True

    def stream_options(self, rows: int) -> Mapping[str, str]:
        return {"adbc.sqlite.query.batch_rows": str(min(rows, _STREAMED_ROWS))}

    def read_tables(self, database: Rows) -> list[Table]:
        return [Table(TableName(name), type) for name, type in database.rows(_TABLES)]

    def read_columns(self, database: Rows, table: TableName) -> list[Column]:
        """The declared types determine the columns' kinds, because any column may have any value."""
        return [_column(*row) for row in database.rows(_COLUMNS.format(table=sql_text(table.table)))]

    def read_view_columns(self, database: Rows, view: str) -> list[Column]:
        """SQLite declares no type for a computed column, so the type of its first value is used."""
        columns = self.read_columns(database, TableName(view))
        computed = [column for column in columns if not column.type_name]
        if not computed:
            return columns
        names = [f'"{column.name.replace(chr(34), chr(34) * 2)}"' for column in computed]
        firsts = ", ".join(f"(SELECT typeof({name}) FROM {view} WHERE {name} IS NOT NULL LIMIT 1)" for name in names)
        [found] = database.rows(f"SELECT {firsts}")
        kinds = {column.name: _STORAGE_KINDS.get(word or "", ColumnKind.STRING) for column, word in zip(computed, found, strict=True)}
        return [Column(column.name, kinds[column.name], "") if column.name in kinds else column for column in columns]

    def with_zones(self, database: Rows, relation: str, columns: Sequence[Column]) -> list[Column]:
        """The first value of a column determines whether its times have a zone. Numbers are in UTC; texts may end with an offset."""
        names = {column.name: self.quoted(column.name) for column in columns if column.kind is ColumnKind.TIMESTAMP}
        if not names:
            return list(columns)
        first = "(SELECT {has_zone} FROM {relation} WHERE {operand} IS NOT NULL LIMIT 1)"
        firsts = [first.format(has_zone=_HAS_ZONE.format(operand=each), relation=relation, operand=each) for each in names.values()]
        [found] = database.rows(f"SELECT {', '.join(firsts)}")
        zoned = {name for name, has_zone in zip(names, found, strict=True) if has_zone}
        return [replace(column, kind=ColumnKind.TIMESTAMP_TZ) if column.name in zoned else column for column in columns]

    def selected(self, column: Column, schema: Schema, zero_dates: str | None) -> Selected:
        """An expression of one storage class, because the driver infers a type from the first rows. For the same reason, a second
        expression reads nulls. It also refuses values that the conversion to this class would change."""
        operand = self.quoted(column.name)
        expression, null, is_held = _expression(column, operand, schema)
        check = f"CASE WHEN {operand} IS NULL THEN '{IS_NULL}' WHEN {is_held} THEN '' ELSE substr(quote({operand}), 1, {_SHOWN}) END"
        return Selected(f"coalesce({expression}, {null})", schema, check)

    def timestamp_operand(self, column: str, *, has_zone: bool) -> str:
        return f"({sqlite_milliseconds(column)})"

    def timestamp_literal(self, nanoseconds: int, zone: str, *, has_zone: bool) -> str:
        """The operand of a local time is its number as if it were in UTC."""
        local = 0 if has_zone or zone == "UTC" else utc_offset(nanoseconds, zone) // datetime.timedelta(milliseconds=1)
        return str(nanoseconds // 1_000_000 + local)

    def locking(self, select: str) -> str:
        return select

    def upsert(self, row: RowSql, keys: Sequence[str]) -> str:
        rest = [self.quoted(name) for name in row.names if name not in keys]
        changes = ", ".join(f"{name} = excluded.{name}" for name in rest)
        conflict = ", ".join(map(self.quoted, keys))
        return f"{row.insert} ON CONFLICT ({conflict}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"


# --- catalog --------------------------------------------------------------------------------------------------------------------------

_TABLES: Final = (
    "SELECT name, CASE type WHEN 'view' THEN 'VIEW' ELSE 'TABLE' END FROM sqlite_master "
    "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)
_COLUMNS: Final = (
    "SELECT name, type, \"notnull\", coalesce(dflt_value, ''), dflt_value IS NULL, pk, hidden FROM pragma_table_xinfo({table}) "
    "WHERE hidden <> 1 ORDER BY cid"
)
_DECLARED: Final = re.compile(r"\s*+([^(\s]*+(?:\s++[^(\s]++)*+)\s*+(?:\(\s*+(\d++)\s*+(?:,\s*+(-?\d++)\s*+)?\)\s*+)?")
_HAS_ZONE: Final = "typeof({operand}) <> 'text' OR {operand} GLOB '*[Zz]' OR {operand} GLOB '*[+-][0-9][0-9]:[0-9][0-9]'"
_WORDS: Final = {"boolean": ColumnKind.BOOLEAN, "bool": ColumnKind.BOOLEAN, "date": ColumnKind.DATE, "time": ColumnKind.TIME}
_PARTS: Final = (
    (("timestamp", "datetime"), ColumnKind.TIMESTAMP),
    (("int",), ColumnKind.INT64),
    (("char", "clob", "text"), ColumnKind.STRING),
    (("blob",), ColumnKind.BYTES),
    (("real", "floa", "doub"), ColumnKind.FLOAT64),
)
_STORAGE_KINDS: Final = {"integer": ColumnKind.INT64, "real": ColumnKind.FLOAT64, "blob": ColumnKind.BYTES}


def _column(name: str, declared: str, is_required: int, *rest: Any) -> Column:  # Any: a row
    default, has_no_default, key, hidden = rest
    match = _DECLARED.fullmatch(declared or "")
    word = (match[1] if match else declared).lower()
    precision = int(match[2]) if match and match[2] else None
    scale = int(match[3]) if match and match[3] else (0 if precision is not None else None)
    kind = _kind(word, precision)
    if kind is not ColumnKind.DECIMAL:
        precision = scale = None
    is_rowid = bool(key) and word == "integer"  # never null, although not declared NOT NULL
    is_nullable, is_generated = not (is_required or is_rowid), is_rowid or hidden > 1
    return Column(name, kind, word, is_nullable, precision, scale, None if has_no_default else default, key, is_generated)


def _kind(word: str, precision: int | None) -> ColumnKind:
    """The kind of a declared type: first by names that are more specific than SQLite's affinities, then by the affinities."""
    if word in _WORDS:
        return _WORDS[word]
    for parts, kind in _PARTS:
        if any(part in word for part in parts):
            return kind
    if "dec" in word or "num" in word:
        return ColumnKind.DECIMAL if precision is not None else ColumnKind.FLOAT64
    return ColumnKind.STRING


# --- reading --------------------------------------------------------------------------------------------------------------------------

_TIMES: Final = {
    ColumnKind.DATE: ("CASE typeof({operand}) WHEN 'integer' THEN date({operand} / 1000, 'unixepoch') ELSE date({operand}) END", "''"),
    ColumnKind.TIME: (
        "CASE typeof({operand}) WHEN 'integer' THEN time({operand} / 1000, 'unixepoch') ELSE strftime('%H:%M:%f', {operand}) END",
        "''",
    ),
}
_STORAGE: Final = {  # by the schema's type: the storage class, a substitute for null, and whether a value can be converted to the class
    "bytes": ("BLOB", "x''", "1"),
    "string": ("TEXT", "''", "typeof({operand}) <> 'blob'"),
    **dict.fromkeys(
        ("float32", "float64"), ("REAL", "0.0", "typeof({operand}) IN ('real', 'integer') AND CAST({operand} AS REAL) = {operand}")
    ),
}
_WHOLE: Final = ("INTEGER", "0", "typeof({operand}) IN ('integer', 'real') AND CAST({operand} AS INTEGER) = {operand}")
_DIGITS: Final = ("TEXT", "''", "typeof({operand}) <> 'blob' AND {operand} <> ''")  # texts that are not numbers are refused later
_AS_TEXT: Final = "CASE typeof({operand}) WHEN 'blob' THEN quote({operand}) ELSE CAST({operand} AS TEXT) END"


def _expression(column: Column, operand: str, schema: Schema) -> tuple[str, str, str]:
    """An expression of one storage class, its substitute for null, and the condition for values that are not null."""
    expression, null, is_held = _expressions(column, schema)
    return expression.replace("{operand}", operand), null, is_held.replace("{operand}", operand)


def _expressions(column: Column, schema: Schema) -> tuple[str, str, str]:
    if column.kind in (*_TIMES, *TIMESTAMPS):
        expression, null = _TIMES.get(column.kind, (sqlite_milliseconds("{operand}"), "0"))
        return expression, null, f"({expression}) IS NOT NULL"
    if column.kind is ColumnKind.OTHER:
        return _AS_TEXT, "''", "1"
    word, null, is_held = _DIGITS if schema.logical_name == DECIMAL else _STORAGE.get(str(schema.type), _WHOLE)
    return f"CAST({{operand}} AS {word})", null, is_held
