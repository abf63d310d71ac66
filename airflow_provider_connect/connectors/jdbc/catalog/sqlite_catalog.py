"""The catalog of SQLite."""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind, Table, sql_text
from airflow_provider_connect.connectors.jdbc.database.database import Database
from airflow_provider_connect.connectors.jdbc.database.table_name import TableName

_TABLES: Final = (
    "SELECT name, CASE type WHEN 'view' THEN 'VIEW' ELSE 'TABLE' END FROM sqlite_master "
    "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)
_COLUMNS: Final = (
    "SELECT name, type, \"notnull\", coalesce(dflt_value, ''), dflt_value IS NULL, pk, hidden FROM pragma_table_xinfo({table}) "
    "WHERE hidden <> 1 ORDER BY cid"
)
_DECLARED: Final = re.compile(r"\s*+([^(\s]*+(?:\s++[^(\s]++)*+)\s*+(?:\(\s*+(\d++)\s*+(?:,\s*+(-?\d++)\s*+)?\)\s*+)?")


def tables(database: Database) -> list[Table]:
    """Tables and views; none of SQLite's own."""
    return [Table(TableName(name), type) for name, type in database.rows(_TABLES)]


def columns(database: Database, table: TableName) -> list[Column]:
    """The columns of a table. Their kinds follow the declared words, since any column may hold any value."""
    return [_column(*row) for row in database.rows(_COLUMNS.format(table=sql_text(table.table)))]


def _column(name: str, declared: str, is_required: int, *rest: Any) -> Column:  # Any: a row
    default, has_no_default, key, hidden = rest
    match = _DECLARED.fullmatch(declared or "")
    word = (match[1] if match else declared).lower()
    precision = int(match[2]) if match and match[2] else None
    scale = int(match[3]) if match and match[3] else (0 if precision is not None else None)
    kind = _kind(word, precision)
    if kind is not ColumnKind.DECIMAL:
        precision = scale = None
    is_rowid = bool(key) and word == "integer"  # never null, though it is not declared so
    return Column(
        name, kind, word, not (is_required or is_rowid), precision, scale, None if has_no_default else default, key, is_rowid or hidden > 1
    )


_WORDS: Final = {"boolean": ColumnKind.BOOLEAN, "bool": ColumnKind.BOOLEAN, "date": ColumnKind.DATE, "time": ColumnKind.TIME}
_PARTS: Final = (
    (("timestamp", "datetime"), ColumnKind.TIMESTAMP),
    (("int",), ColumnKind.INT64),
    (("char", "clob", "text"), ColumnKind.STRING),
    (("blob",), ColumnKind.BYTES),
    (("real", "floa", "doub"), ColumnKind.FLOAT64),
)


def _kind(word: str, precision: int | None) -> ColumnKind:
    """The words that have a meaning beside SQLite's own affinities first, then those."""
    if word in _WORDS:
        return _WORDS[word]
    for parts, kind in _PARTS:
        if any(part in word for part in parts):
            return kind
    if "dec" in word or "num" in word:
        return ColumnKind.DECIMAL if precision is not None else ColumnKind.FLOAT64
    return ColumnKind.STRING
