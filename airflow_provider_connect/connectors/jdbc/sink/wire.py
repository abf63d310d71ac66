"""Columns of records as PostgreSQL's binary COPY takes them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TIMESTAMPS, Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.sink.columns import cast_column, local_times, midnights
from airflow_provider_connect.connectors.jdbc.source.far_times import far_dates, far_timestamps, has_far_times, has_infinite_days
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.arrow import pa

_TEXTS: Final = frozenset({"text", "varchar", "bpchar"})


_BINARY: Final = b"postgresql"  # in a field's metadata: the type whose binary numbers an integer column holds


def wire_field(target: Column, column: pa.ChunkedArray, time_zone: str) -> tuple[pa.Field, pa.ChunkedArray, bool]:
    """The column as COPY writes it, with its field, and whether ``target`` takes it so: else it is staged, and cast by the server."""
    types = pa.types
    binary = None
    if target.kind in TIMESTAMPS and (types.is_timestamp(column.type) or types.is_date(column.type)) and has_far_times(column):
        column, is_direct, binary = far_timestamps(target, column, time_zone), True, target.type_name
    elif target.kind is ColumnKind.DATE and types.is_date(column.type) and has_infinite_days(column):
        column, is_direct, binary = far_dates(target, column), True, target.type_name
    else:
        column, is_direct = wire_column(target, column, time_zone)
    metadata = None if binary is None else {_BINARY: binary}
    return pa.field(target.name, column.type, metadata=metadata), column, is_direct


def wire_column(target: Column, column: pa.ChunkedArray, time_zone: str) -> tuple[pa.ChunkedArray, bool]:
    """The column as the driver writes it for COPY, where it holds no far times; and whether ``target`` takes it so."""
    given, types = column.type, pa.types
    if types.is_timestamp(given) or (types.is_date(given) and target.kind in TIMESTAMPS):
        return _moments(target, column, time_zone), True
    if types.is_decimal(given) and target.kind is ColumnKind.DECIMAL:
        return column, True
    if types.is_integer(given) and target.kind is ColumnKind.DECIMAL:
        return column.cast(pa.decimal128(19, 0)), True
    wire = _wire().get(target.type_name)
    if types.is_null(given):
        return column.cast(wire or pa.string()), wire is not None
    is_other = types.is_floating(given) and target.kind is ColumnKind.DECIMAL
    if wire is None or is_other or types.is_string(given) != types.is_string(wire):
        return column, False
    return cast_column(target.name, column, wire, safe=not types.is_floating(wire)), True


def _moments(target: Column, column: pa.ChunkedArray, time_zone: str) -> pa.ChunkedArray:
    if pa.types.is_date(column.type):
        return midnights(column, target, time_zone)
    if target.kind is ColumnKind.TIMESTAMP_TZ:
        return cast_column(target.name, column, pa.timestamp("us", "UTC"))
    moments = local_times(column, time_zone) if time_zone != "UTC" else column
    return cast_column(target.name, moments, pa.timestamp("us"))


def stage_type(field: pa.Field) -> str:
    """The type of PostgreSQL whose COPY format the driver writes for a column."""
    types, type = pa.types, field.type
    if field.metadata and _BINARY in field.metadata:
        return str(field.metadata[_BINARY].decode())
    if types.is_decimal(type):
        return "numeric"
    if types.is_timestamp(type):
        return "timestamptz" if type.tz else "timestamp"
    for is_kind, name in (
        (types.is_boolean, "bool"),
        (types.is_int8, "int2"),
        (types.is_int16, "int2"),
        (types.is_int32, "int4"),
        (types.is_int64, "int8"),
        (types.is_float32, "float4"),
        (types.is_float64, "float8"),
        (types.is_binary, "bytea"),
        (types.is_date, "date"),
        (types.is_time, "time"),
        (types.is_string, "text"),
    ):
        if is_kind(type):
            return name
    raise ConnectException(f"Arrow type {type} has no type in PostgreSQL")


@functools.cache
def _wire() -> Mapping[str, pa.DataType]:
    """What the driver's COPY writes for a type of PostgreSQL."""
    return {
        "bool": pa.bool_(),
        "int2": pa.int16(),
        "int4": pa.int32(),
        "int8": pa.int64(),
        "float4": pa.float32(),
        "float8": pa.float64(),
        "bytea": pa.binary(),
        "date": pa.date32(),
        "time": pa.time64("us"),
        **dict.fromkeys(_TEXTS, pa.string()),
    }
