"""Columns of Parquet and ORC files as structs of a Connect schema. Rows with invalid values become exceptions that name the column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from airflow_provider_connect.connectors.filesystem.formats.contract import Piece
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type, schema_of
from airflow_provider_connect.data.columns import cast_to_schema, row_numbers
from airflow_provider_connect.data.expansion import MOST_FAULTS, limit_faults
from airflow_provider_connect.data.schema import Schema, SchemaType
from airflow_provider_connect.errors import DataException, SchemaException

_OPTIONAL: Final = b"connect.optional"


def table_schema(columns: pa.Schema) -> Schema:
    """The schema of a file's structs, from its column types and metadata. Raises DataException, which names the column, for a type that
    Connect does not have."""
    metadata = columns.metadata or {}
    own = {key: text for key, text in metadata.items() if key.startswith(b"connect.")}
    is_optional = own.pop(_OPTIONAL, b"false") == b"true"
    fields = [_plain_field(field) for field in columns]
    for field in fields:
        try:
            schema_of(field)
        except SchemaException as error:
            raise DataException(f"Column {field.name}: {error.message}") from error
    return schema_of(pa.field("value", pa.struct(fields), nullable=is_optional, metadata=own or None))


def struct_metadata(schema: Schema, own: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The file metadata that describes the struct itself, for ``table_schema``."""
    return {**own, _OPTIONAL: b"true" if schema.optional else b"false"}


def struct_pieces(columns: Sequence[pa.Array], schema: Schema, first_row: int, part: str = "") -> Iterator[Piece]:
    """The structs of all valid rows, then an exception for each invalid row. ``first_row`` is the number of the first row, from 1, in
    ``part`` of the file."""
    cast: list[pa.Array] = []
    wrong: dict[int, str] = {}
    for column, field in zip(columns, schema.fields, strict=True):
        try:
            cast.append(_fitting(column, field.schema))
        except DataException:
            rows = row_numbers(len(column))
            bad = {row: f"column {field.name}: {reason}" for row, reason in _bad_rows(column, field.schema, rows)}
            wrong = bad | wrong
            cast.append(_fitting(column.take(pc.if_else(_is_in(rows, bad), None, rows)), field.schema))
    structs = pa.StructArray.from_arrays(cast, fields=list(arrow_type(schema)))
    if wrong:
        structs = structs.filter(pc.invert(_is_in(row_numbers(len(structs)), wrong)))
    if len(structs):
        yield structs, schema
    faults = [DataException(f"Row {first_row + row}, {part}{wrong[row]}") for row in sorted(wrong)[:MOST_FAULTS]]
    yield from limit_faults(faults, len(wrong))


def _is_in(rows: pa.Array, some: Iterable[int]) -> pa.Array:
    return pc.is_in(rows, pa.array(list(some), pa.int64()))


def _bad_rows(column: pa.Array, schema: Schema, rows: pa.Array) -> Iterator[tuple[int, str]]:
    """The invalid rows among ``rows``, found by bisection, and the reasons. Uses ``take``, because a cast of a slice also checks entries
    outside the slice."""
    try:
        _fitting(column.take(rows), schema)
    except DataException as error:
        if len(rows) == 1:
            yield rows[0].as_py(), error.message
            return
        half = len(rows) // 2
        yield from _bad_rows(column, schema, rows.slice(0, half))
        yield from _bad_rows(column, schema, rows.slice(half))


def _fitting(column: pa.Array, schema: Schema) -> pa.Array:
    """The column in the types of ``schema``. Times in nested structs may have more digits than Connect's."""
    column = _plain(column)
    if schema.type is not SchemaType.STRUCT or column.type.equals(arrow_type(schema)):
        return cast_to_schema(column, schema)
    inner = [_fitting(child, field.schema) for child, field in zip(column.flatten(), schema.fields, strict=True)]
    return pa.StructArray.from_arrays(inner, fields=list(arrow_type(schema)), mask=column.is_null())


def _plain(column: pa.Array) -> pa.Array:
    plain = _plain_type(column.type)
    return column if plain.equals(column.type) else column.cast(plain)


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


def _plain_type(type: pa.DataType) -> pa.DataType:
    """The storage type for a type that Connect does not have: text for JSON, 16 bytes for a UUID, a number for a duration. A column that is
    always null becomes text."""
    types = pa.types
    if isinstance(type, pa.BaseExtensionType):
        return _plain_type(type.storage_type)
    if types.is_null(type) or types.is_duration(type):
        return pa.string() if types.is_null(type) else pa.int64()
    if types.is_struct(type):
        return pa.struct([_plain_field(field) for field in type])
    if types.is_map(type):
        return pa.map_(_plain_field(type.key_field), _plain_field(type.item_field))
    if types.is_list(type) or types.is_large_list(type):
        return (pa.list_ if types.is_list(type) else pa.large_list)(_plain_field(type.value_field))
    return pa.list_(_plain_field(type.value_field), type.list_size) if types.is_fixed_size_list(type) else type
