"""The effect of a schema change on open files (``schema.compatibility``). The files end, or values are projected to their schema.

With NONE, files end at each change. The other modes need versioned schemas. BACKWARD and FULL end files at a newer version, and project
older values to it. FORWARD ends files at an older version, and projects newer values to it. Schemas without a version are treated as with
NONE.
"""

from __future__ import annotations

from enum import StrEnum

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import cast_to_schema, column_of, row_numbers, with_children
from airflow_provider_connect.data.schema import Schema, SchemaType
from airflow_provider_connect.errors import DataException

_NUMBERS = tuple(map(SchemaType, ("int8", "int16", "int32", "int64", "float32", "float64")))


class Compatibility(StrEnum):
    """``schema.compatibility``."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"

    def keeps(self, current: Schema | None, new: Schema | None) -> bool:
        """Whether non-null values of ``new`` may be written to files of ``current``."""
        if current is None or new is None:
            return current is new
        if current.equals_but_for_null(new):
            return True
        if self is Compatibility.NONE or current.name != new.name:
            return False
        if current.version is None or new.version is None:
            return False
        return new.version >= current.version if self is Compatibility.FORWARD else new.version <= current.version


def project(column: pa.Array, schema: Schema, target: Schema, path: str = "") -> pa.Array:
    """Values of ``schema`` converted to ``target``, including inside arrays and maps. Fields that are not in ``target`` are dropped.
    Additional fields of ``target`` get their default or null. Raises DataException if the conversion is not possible."""
    if schema.type is SchemaType.STRUCT and target.type is SchemaType.STRUCT:
        fields = [_field(column, schema, each.name, each.schema, path) for each in target.fields]
        return pa.StructArray.from_arrays(fields, fields=list(arrow_type(target)), mask=column.is_null())
    if schema.type is target.type and schema.type in (SchemaType.ARRAY, SchemaType.MAP):
        column = _compact(column)
    if schema.type is SchemaType.ARRAY and target.type is SchemaType.ARRAY:
        return with_children(column, arrow_type(target), _elements(column.values, schema.value_schema, target.value_schema, f"{path}.item"))
    if schema.type is SchemaType.MAP and target.type is SchemaType.MAP:
        kind = arrow_type(target)
        keys = _elements(column.keys, schema.key_schema, target.key_schema, f"{path}.key")
        items = _elements(column.items, schema.value_schema, target.value_schema, f"{path}.value")
        return with_children(column, kind, pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field]))
    is_wider = schema.type in _NUMBERS and target.type in _NUMBERS and _NUMBERS.index(schema.type) <= _NUMBERS.index(target.type)
    same_kind = schema.type is target.type and schema.logical_name == target.logical_name
    if not same_kind and (not is_wider or schema.logical_name or target.logical_name):
        raise DataException(f"The field {path or 'of values'} of type {schema.type.name} does not fit the files' type {target.type.name}")
    return cast_to_schema(column, target)


def _elements(elements: pa.Array, schema: Schema | None, target: Schema | None, path: str) -> pa.Array:
    assert schema is not None
    assert target is not None
    found = project(elements, schema, target, path.lstrip("."))
    if found.null_count and not target.optional:
        raise DataException(f"An element of {path.lstrip('.')} is null, and the files' schema requires a value")
    return found


def _compact(column: pa.Array) -> pa.Array:
    """Lists or maps without elements outside their slice, which may not be convertible."""
    ends = (column.offsets[0].as_py(), column.offsets[-1].as_py()) if len(column) else (0, 0)
    elements = column.keys if pa.types.is_map(column.type) else column.values
    return column if ends == (0, len(elements)) and not column.offset else column.take(row_numbers(len(column)))


def _field(column: pa.Array, schema: Schema, name: str, target: Schema, path: str) -> pa.Array:
    given, path = schema.field(name), f"{path}.{name}".lstrip(".")
    if given is not None:
        values = project(pc.struct_field(column, [given.index]), given.schema, target, path)
        if target.optional or pc.all(pc.or_(values.is_valid(), column.is_null()), min_count=0).as_py():
            return values
        raise DataException(f"The field {path} is null, and the files' schema requires a value. Set schema.compatibility=NONE")
    if target.default is None and not target.optional:
        raise DataException(f"The field {path} is missing, and the files' schema has no default for it")
    one = column_of([target.default], target.as_optional())
    return one.take(pa.nulls(len(column), pa.int64()).fill_null(0))
