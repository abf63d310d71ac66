"""Which columns take values of a schema, and as what a column takes them besides its own, with nothing lost. Pure values; knows no SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import INTEGERS, TIMESTAMPS, Column, ColumnKind
from airflow_provider_connect.sdk.schema import DATE, DECIMAL, FLOAT64_SCHEMA, INTEGER_BITS, TIME, TIMESTAMP, Schema, SchemaType

_FLOATS: Final = (ColumnKind.FLOAT32, ColumnKind.FLOAT64)
_TAKEN_BY: Final[Mapping[str, tuple[ColumnKind, ...]]] = {
    **dict.fromkeys(INTEGER_BITS, (*INTEGERS, ColumnKind.DECIMAL, *_FLOATS)),
    **dict.fromkeys((SchemaType.FLOAT32, SchemaType.FLOAT64), (*_FLOATS, ColumnKind.DECIMAL)),
    DECIMAL: (ColumnKind.DECIMAL, *_FLOATS),
    SchemaType.BOOLEAN: (ColumnKind.BOOLEAN, *INTEGERS),
    SchemaType.STRING: (ColumnKind.STRING, ColumnKind.OTHER, ColumnKind.DATE, ColumnKind.TIME, *TIMESTAMPS),
    SchemaType.BYTES: (ColumnKind.BYTES,),
    DATE: (ColumnKind.DATE, *TIMESTAMPS),
    TIME: (ColumnKind.TIME,),
    TIMESTAMP: TIMESTAMPS,
}
_BITS: Final[Mapping[str, int]] = {
    **{str(kind): bits for kind, bits in INTEGER_BITS.items()},
    SchemaType.FLOAT32: 32,
    SchemaType.FLOAT64: 64,
}
_EXACT_AS_DOUBLE: Final = 32  # bits of the widest integers that doubles hold one by one


def is_taken(column: Column, schema: Schema, *, reads_numbers: bool = False) -> bool:
    """Whether the column takes values of ``schema``, at least those that are not too large. ``reads_numbers``: the database reads decimals
    and floats from texts, and refuses those that are none."""
    if reads_numbers and _kind(schema) == SchemaType.STRING and column.kind in (ColumnKind.DECIMAL, *_FLOATS):
        return True
    return column.kind in _TAKEN_BY.get(_kind(schema), ())


def wider(column: Column, schema: Schema) -> Schema | None:
    """As what the column would hold all that it may hold now and all values of ``schema``; None where it does already, or nothing does.
    Records of the schema that it was made for are taken then, too: they may still come."""
    if schema.logical_name == DECIMAL:
        is_short = column.kind is ColumnKind.DECIMAL and column.scale is not None and column.scale < schema.scale
        return schema if column.kind in INTEGERS or is_short else None
    if schema.logical_name == TIMESTAMP:
        return schema if column.kind is ColumnKind.DATE else None
    bits, wanted_bits = _BITS.get(column.kind.value), _BITS.get(_kind(schema))
    if bits is None or wanted_bits is None:
        return None
    is_float, wants_float = column.kind in _FLOATS, schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64)
    if is_float is wants_float:
        return schema if bits < wanted_bits else None
    if wants_float:
        return FLOAT64_SCHEMA if bits <= _EXACT_AS_DOUBLE else None
    return FLOAT64_SCHEMA if bits == wanted_bits == _EXACT_AS_DOUBLE else None


def _kind(schema: Schema) -> str:
    return schema.logical_name or str(schema.type)
