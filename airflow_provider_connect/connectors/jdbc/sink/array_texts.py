"""Arrays as PostgreSQL's texts with braces, which the server converts to any array type. Knows nothing of connections."""

from __future__ import annotations

import re
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column
from airflow_provider_connect.data.arrow import pa, pc

_LENGTHS: Final = re.compile(r"\(\d+(?:,-?\d+)?\)")
_TEXTS: Final = ("character varying[]", "character[]")


def array_type(declared: str) -> str:
    """The array type to which a text is cast for a column of the type ``declared``. The array type has no lengths, because a cast would
    truncate texts. The column itself refuses texts that are too long, and rounds numbers."""
    type = _LENGTHS.sub("", declared)
    if type.startswith("bit"):
        return "bit varying[]"
    return "text[]" if type in _TEXTS else type


def array_texts(column: pa.ChunkedArray, target: Column, time_zone: str) -> pa.ChunkedArray:
    """Lists of single values as texts. Null lists stay null. Timestamps for a column without a zone are local to ``time_zone``."""
    return pa.chunked_array([_texts(chunk, target, time_zone) for chunk in column.chunks], pa.string())


def _texts(lists: pa.Array, target: Column, time_zone: str) -> pa.Array:
    flat = pc.fill_null(_elements(lists.flatten(), target, time_zone), "NULL")
    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int32())
    offsets = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), lengths]))
    texts = pc.binary_join_element_wise("{", pc.binary_join(pa.ListArray.from_arrays(offsets, flat), ","), "}", "")
    return pc.if_else(lists.is_valid(), texts, pa.scalar(None, pa.string()))


def _elements(values: pa.Array, target: Column, time_zone: str) -> pa.Array:
    types, type = pa.types, values.type
    if types.is_string(type) or types.is_large_string(type):
        escaped = pc.replace_substring(pc.replace_substring(values.cast(pa.string()), "\\", "\\\\"), '"', '\\"')
        return pc.binary_join_element_wise('"', escaped, '"', "")
    if types.is_binary(type) or types.is_large_binary(type):
        import polars

        hexes = polars.Series(values).bin.encode("hex").to_arrow().cast(pa.string())
        return pc.binary_join_element_wise('"\\\\x', hexes, '"', "")
    if types.is_timestamp(type):
        local = pc.local_timestamp(values.cast(pa.timestamp(type.unit, time_zone)))
        return pc.binary_join_element_wise('"', (local if target.type_name == "_timestamp" else values).cast(pa.string()), '"', "")
    return values.cast(pa.string())
