"""Which keys PostgreSQL holds equal. Where Arrow holds the same ones equal, keys are compared here, else in the database.

Knows what the catalog says of a column and what its values look like; asks nothing.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.sdk.arrow import pa, pc

_EXACT: Final = frozenset(  # whole types: with a precision they round, and domains may be anything
    {
        *("boolean", "smallint", "integer", "bigint", "oid", "bytea", "text", "character varying", "numeric", "date"),
        *("time without time zone", "timestamp without time zone", "timestamp with time zone"),
    }
)
_LENGTH: Final = re.compile(r"character varying\((\d+)\)")
_SCALE: Final = re.compile(r"numeric\(\d+,(-?\d+)\)")
_UUID: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def is_exact(table: TargetTable, target: Column, column: pa.ChunkedArray) -> bool:
    """Whether two values of a column, as COPY writes it, are equal for PostgreSQL only if they are for Arrow."""
    declared = table.declared.get(target.name, "")
    if target.name in table.collations:
        return False
    if pa.types.is_string(column.type):
        return _is_exact_text(declared, column)
    if pa.types.is_decimal(column.type) and (scale := _SCALE.fullmatch(declared)):
        return bool(column.type.scale <= int(scale[1]))
    return declared in _EXACT


def _is_exact_text(declared: str, column: pa.ChunkedArray) -> bool:
    """Blanks at the end are nothing in ``character(n)``, and cut off where ``character varying(n)`` has no room for them."""
    if declared == "uuid":
        return _all(pc.match_substring_regex(column, _UUID))
    length = _LENGTH.fullmatch(declared)
    if length or re.fullmatch(r"character\(\d+\)", declared):
        is_short = length is not None and (pc.max(pc.utf8_length(column)).as_py() or 0) <= int(length[1])
        return is_short or _all(pc.invert(pc.ends_with(column, " ")))
    return declared in ("text", "character varying")


def _all(values: pa.ChunkedArray) -> bool:
    return pc.all(values).as_py() is not False  # there may be nulls only
