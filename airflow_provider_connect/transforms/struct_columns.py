"""Splits struct columns into their fields and rebuilds them, with the checks and defaults of Connect's Struct."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import cast_to_schema, column_of, row_numbers
from airflow_provider_connect.data.schema import Field, Schema, SchemaType
from airflow_provider_connect.errors import DataException


def child(column: pa.Array, field: Field, *, fill: bool) -> pa.Array:
    """The column of a field, null where the struct is null. With ``fill``, null fields become their default, as in ``Struct.get``."""
    values = column.field(field.index)  # pc.struct_field also takes time for the other fields
    if column.null_count:
        is_nested = pa.types.is_nested(values.type)
        values = pc.struct_field(column, [field.index]) if is_nested else pc.if_else(column.is_valid(), values, None)
    return defaulted(values, field.schema, within=column) if fill else values


def children(column: pa.Array, schema: Schema, *, fill: bool) -> list[pa.Array]:
    """The columns of all fields, in order."""
    return [child(column, field, fill=fill) for field in schema.fields]


def defaulted(values: pa.Array, schema: Schema, *, within: pa.Array) -> pa.Array:
    """``values`` with the schema's default for each null, except in rows where ``within`` is null."""
    if schema.default is None or not values.null_count:
        return values
    missing = values.is_null()
    if within.null_count:
        missing = pc.and_(missing, within.is_valid())
    default = column_of([schema.default], schema).cast(values.type)
    if not pa.types.is_nested(values.type):
        return pc.if_else(missing, default[0], values)
    return pa.concat_arrays([values, default]).take(pc.if_else(missing, len(values), row_numbers(len(values))))


def constant(value: pa.Array, like: pa.Array) -> pa.Array:
    """A column that has the single value of ``value`` in the rows where ``like`` is not null, and null in the other rows."""
    return value.take(pc.if_else(like.is_valid(), pa.scalar(0, pa.int32()), pa.scalar(None, pa.int32())))


def schema_like(schema: Schema, fields: Iterable[tuple[str, Schema]]) -> Schema:
    """A required struct without default, with the name, version, doc and parameters of ``schema``, as in ``SchemaUtil.copySchemaBasics``.

    Raises SchemaException for a duplicate field name."""
    return Schema(
        SchemaType.STRUCT,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=tuple(Field(name, index, of_field) for index, (name, of_field) in enumerate(fields)),
    )


def struct_column(schema: Schema, columns: Sequence[pa.Array], within: pa.Array) -> pa.Array:
    """A column of structs of ``schema`` from the columns of its fields, null where ``within`` is null.

    Raises DataException for null in a required field, as ``Struct.put`` does."""
    type = arrow_type(schema)
    mask = within.is_null() if within.null_count else None
    for field, column in zip(schema.fields, columns, strict=True):
        if column.null_count > (0 if mask is None else within.null_count) and not field.schema.optional:
            raise DataException(
                f'Invalid value: null used for required field: "{field.name}", schema type: {field.schema.type.name}',
            )
    if not columns:
        empty = pa.StructArray.from_buffers(type, len(within), [None], children=[])
        return empty if mask is None else pc.if_else(mask, pa.scalar(None, type), empty)
    arrays = [cast_to_schema(column, field.schema) for field, column in zip(schema.fields, columns, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(type), mask=mask)
