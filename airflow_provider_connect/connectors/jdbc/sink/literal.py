"""Values as literals of SQL: for defaults of columns and for the small statements of the offsets table."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from airflow_provider_connect.connectors.jdbc.database.database_url import MARIADB, MYSQL, POSTGRESQL
from airflow_provider_connect.connectors.jdbc.database.dialect import Dialect
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.schema import Schema

_BACKSLASH_ESCAPES = (MYSQL, MARIADB)


def text_literal(text: str, dialect: Dialect) -> str:
    """A text in quotes."""
    if "\0" in text:
        raise ConnectException(f"{text!r} holds a zero byte, which no text of SQL may")
    escaped = text.replace("'", "''")
    return f"'{escaped.replace(chr(92), chr(92) * 2) if dialect.name in _BACKSLASH_ESCAPES else escaped}'"


def literal(schema: Schema, value: Any, dialect: Dialect) -> str:
    """A value of ``schema``. Raises ConnectException for arrays, maps and structs."""
    if isinstance(value, bool):
        return str(value).upper() if dialect.name == POSTGRESQL else str(int(value))
    if isinstance(value, int | float | Decimal):
        return str(value) if not isinstance(value, Decimal) else format(value, "f")
    if isinstance(value, bytes | bytearray | memoryview):
        return f"'\\x{bytes(value).hex()}'" if dialect.name == POSTGRESQL else f"X'{bytes(value).hex()}'"
    if isinstance(value, datetime.datetime):
        return f"'{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, datetime.date | datetime.time):
        return f"'{value.isoformat()}'"
    if isinstance(value, Mapping) or not isinstance(value, str):
        raise ConnectException(f"A default of {schema.type.name} cannot be written as SQL")
    return text_literal(value, dialect)
