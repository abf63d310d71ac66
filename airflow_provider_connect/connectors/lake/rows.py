"""Records as rows of a lake table: columns in the table's types, and the last change of each key. Knows nothing of table formats."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from airflow_provider_connect.connectors.lake.conversions import convert
from airflow_provider_connect.connectors.lake.names import Names, rename_fields
from airflow_provider_connect.data.arrow import pa, pc, pl
from airflow_provider_connect.data.schema import SchemaType
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch

ROW: Final = "row of the value"
_DIGITS: Final = 38
_Type = TypeVar("_Type")


def value_rows(batch: Batch) -> pa.Table:
    """The fields of the batch's values as columns, with one row per record. A batch without values has no columns. Raises DataException
    unless values are structs."""
    if batch.value is None or batch.value.null_count == len(batch):  # tombstones do not need a schema
        return _without_columns(batch)
    if batch.value_schema is None or batch.value_schema.type is not SchemaType.STRUCT:
        kind = "values without a schema" if batch.value_schema is None else batch.value_schema.type.name
        raise DataException(f"A table's rows are structs, got {kind}: use a converter with schemas (JsonConverter: schemas.enable=true)")
    if not batch.value_schema.fields:
        return _without_columns(batch)
    return pa.Table.from_arrays(batch.value.flatten(), schema=pa.schema(list(batch.value.type)))


def _without_columns(batch: Batch) -> pa.Table:
    return pa.Table.from_struct_array(pa.Array.from_buffers(pa.struct([]), batch.num_records, [None]))


def lake_type(type: pa.DataType, *, knows_uuid: bool = False) -> pa.DataType:
    """The Arrow type of table columns for values of ``type``: integers of at least 32 bits, decimals of at most 38 digits and a scale of at
    least 0, times in microseconds."""
    types = pa.types
    if types.is_struct(type):
        return pa.struct([lake_field(field, knows_uuid=knows_uuid) for field in type])
    if types.is_map(type):
        return pa.map_(lake_field(type.key_field, knows_uuid=knows_uuid), lake_field(type.item_field, knows_uuid=knows_uuid))
    return pa.list_(lake_field(type.value_field, knows_uuid=knows_uuid)) if types.is_list(type) else _plain_type(type)


def _plain_type(type: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_int8(type) or types.is_int16(type):
        return pa.int32()
    if types.is_decimal(type) and type.scale <= _DIGITS and (type.scale < 0 or type.precision > _DIGITS):
        return pa.decimal128(_DIGITS, max(type.scale, 0))
    if types.is_time(type):
        return pa.time64("us")
    return pa.timestamp("us", type.tz) if types.is_timestamp(type) else type


def lake_field(field: pa.Field, *, knows_uuid: bool = False) -> pa.Field:
    """The table's field for a field of records, with only its documentation as metadata. With ``knows_uuid``, a text whose schema has the
    name uuid becomes a UUID."""
    known = field.metadata or {}
    is_uuid = knows_uuid and pa.types.is_string(field.type) and known.get(b"connect.name") == b"uuid"
    type = pa.uuid() if is_uuid else lake_type(field.type, knows_uuid=knows_uuid)
    doc = known.get(b"connect.doc")
    return pa.field(field.name, type, field.nullable, None if doc is None else {"doc": doc})


def table_type(lake: str, field: pa.Field, convert: Callable[[pa.Field], _Type]) -> _Type:
    """The result of ``convert`` for a field. Raises DataException, which names the innermost field without a type in ``lake``. This is a
    field for which ``convert`` raises an exception, or a struct without fields."""
    if not any(map(_is_empty_struct, (each for _, each in _nested_fields(field.name, field)))):
        with contextlib.suppress(Exception):  # exceptions have several classes
            return convert(field)
    path, found = next(each for each in _nested_fields(field.name, field) if _is_unsupported(each[1], convert))
    reason = "a struct without fields" if _is_empty_struct(found) else found.type
    raise DataException(f"{lake} has no type for the field {path} ({reason}): convert it, or leave it out")


def _nested_fields(path: str, field: pa.Field) -> Iterator[tuple[str, pa.Field]]:
    """The fields inside a field, then the field itself, with their paths."""
    type = field.type
    inner = [type.key_field, type.item_field] if pa.types.is_map(type) else [type.field(index) for index in range(type.num_fields)]
    for each in inner:
        yield from _nested_fields(f"{path}.{each.name}", each)
    yield path, field


def _is_empty_struct(field: pa.Field) -> bool:
    return bool(pa.types.is_struct(field.type) and not field.type.num_fields)


def _is_unsupported(field: pa.Field, convert: Callable[[pa.Field], object]) -> bool:
    try:
        convert(field)
    except Exception:
        return True
    return _is_empty_struct(field)


def as_optional(field: pa.Field) -> pa.Field:
    """The field as optional, including all inner fields except keys of maps. Without metadata."""
    type, types = field.type, pa.types
    if types.is_struct(type):
        type = pa.struct([as_optional(each) for each in type])
    elif types.is_map(type):
        type = pa.map_(as_optional(type.key_field).with_nullable(False), as_optional(type.item_field))
    elif types.is_list(type):
        type = pa.list_(as_optional(type.value_field))
    return pa.field(field.name, type, True)


def with_added_fields(type: pa.DataType, given: pa.DataType) -> pa.DataType:
    """``type`` with the additional fields of ``given`` in structs, also inside lists. The added fields and their inner fields are optional.
    Everything else, including maps, is unchanged."""
    types = pa.types
    if types.is_struct(type) and types.is_struct(given):
        added = [as_optional(field) for field in given if field.name not in type.names]
        theirs = {field.name: field.type for field in given}
        return pa.struct([field.with_type(with_added_fields(field.type, theirs.get(field.name, field.type))) for field in type] + added)
    if types.is_list(type) and types.is_list(given):
        return pa.list_(type.value_field.with_type(with_added_fields(type.value_type, given.value_type)))
    return type


def reject_lost_fields(given: pa.Schema, schema: pa.Schema) -> None:
    """Raise DataException if a value has a field that its column lacks, because ``project`` would drop the field."""
    for name in lost_fields(given, schema):
        raise DataException(f"The table cannot take the field {name}: fields cannot be added within that map")


def lost_fields(given: pa.Schema, schema: pa.Schema) -> Iterator[str]:
    """The dotted paths of the fields of ``given`` that ``project`` drops: their columns, or the structs in these, lack them."""
    for field in given:
        if field.name not in schema.names:
            yield field.name
        else:
            yield from _lost_fields(field.type, schema.field(field.name).type, field.name)


def _lost_fields(given: pa.DataType, there: pa.DataType, name: str) -> Iterator[str]:
    if pa.types.is_struct(given) and pa.types.is_struct(there):
        for field in given:
            if field.name not in there.names:
                yield f"{name}.{field.name}"
            else:
                yield from _lost_fields(field.type, there[field.name].type, f"{name}.{field.name}")
    elif given.num_fields == there.num_fields == 1:  # a list, or a map (its entries have a key and a value)
        yield from _lost_fields(given.field(0).type, there.field(0).type, name)


def project(rows: pa.Table, schema: pa.Schema, count: int, *, decodes_base64: bool = False) -> pa.Table:
    """``rows`` as columns of ``schema``, also inside structs. Missing fields are null, and additional fields are dropped. With
    ``decodes_base64``, texts for columns of bytes are base64. Raises DataException for a value that does not fit, and for a null in a
    required column."""
    columns = []
    for field in schema:
        is_there = field.name in rows.column_names
        column = rows[field.name] if is_there else pa.chunked_array([pa.nulls(count, field.type)])
        columns.append(cast(column, rows.schema.field(field.name) if is_there else field, field, decodes_base64=decodes_base64))
    return pa.table(columns, schema=schema) if columns else pa.table({})


def cast(column: pa.ChunkedArray, given: pa.Field, field: pa.Field, *, decodes_base64: bool = False) -> pa.ChunkedArray:
    """``column``, the values of ``given``, in the type of ``field``. Raises DataException, which names the field."""
    try:
        found = column if column.type.equals(field.type) else _cast(column, given, field.type, decodes_base64)
    except (pa.ArrowException, DataException) as error:
        raise DataException(f"Column {field.name} ({field.type}) does not take a value of {column.type}: {error}") from error
    if not field.nullable and found.null_count:
        raise DataException(f"Column {field.name} is required, and a record has a null or lacks the field")
    return found


def _cast(column: pa.ChunkedArray, given: pa.Field, type: pa.DataType, decodes_base64: bool) -> pa.ChunkedArray:
    chunks = [convert(chunk, given, type, decodes_base64=decodes_base64).cast(type) for chunk in column.chunks]
    return pa.chunked_array(chunks, type)


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that identify a row: fields of the table, named by their dotted paths, and the table's names for fields of records. A
    flag shows whether texts for columns of bytes are base64."""

    fields: Sequence[pa.Field]
    names: Names
    decodes_base64: bool = False

    def of(self, rows: pa.Table, field: pa.Field) -> pa.ChunkedArray | None:
        """The values of a key's field. None if the rows have no such field."""
        given, column = field_at(rows.schema, field.name), column_at(rows, field.name)
        if given is None or column is None:
            return None
        return cast(column, given, field.with_nullable(True), decodes_base64=self.decodes_base64)


def field_at(fields: pa.Schema | pa.StructType, path: str) -> pa.Field | None:
    """The field with this name, or else the nested field with this dotted path, which is named by the path. None if neither exists."""
    if path in fields.names:
        return fields.field(path)
    first, _, rest = path.partition(".")
    if not rest or first not in fields.names or not pa.types.is_struct(fields.field(first).type):
        return None
    found = field_at(fields.field(first).type, rest)
    return None if found is None else found.with_name(path)


def column_at(rows: pa.Table, path: str) -> pa.ChunkedArray | None:
    """The values of ``field_at``."""
    if path in rows.column_names:
        return rows[path]
    if field_at(rows.schema, path) is None:
        return None
    first, _, rest = path.partition(".")
    struct = rows[first]
    flat = pa.Table.from_arrays(struct.flatten(), schema=pa.schema(list(struct.type)))
    return column_at(flat, rest)


def split_keys(batch: Batch, rows: pa.Table, columns: KeyColumns | None, first: int) -> tuple[pa.Table, pa.Table | None]:
    """The rows of the records with a value. If ``columns`` (the key columns) is given, also each record's key in the form for
    ``last_changes``. ``first`` is the number of earlier rows with values."""
    is_value = pc.is_valid(batch.value) if batch.value is not None else pa.nulls(len(batch), pa.bool_()).fill_null(False)
    kept = rows.filter(is_value)
    if columns is None:
        return kept, None
    keys = _key_columns(batch, rows, pa.chunked_array([is_value]), columns)
    numbers = pc.add(pc.cumulative_sum(is_value.cast(pa.int64())), first - 1)
    numbers = pc.if_else(is_value, numbers, pa.scalar(None, pa.int64()))
    return kept, pa.table([*keys, numbers], names=[*(field.name for field in columns.fields), ROW])


def _key_columns(batch: Batch, rows: pa.Table, is_value: pa.ChunkedArray, columns: KeyColumns) -> list[pa.ChunkedArray]:
    """The key columns of each record: fields of its value, or of its key if it has no value."""
    has_deletes = not pc.all(is_value).as_py()
    keys = _key_rows(batch, columns.names) if has_deletes else None
    found = []
    for field in columns.fields:
        column = columns.of(rows, field)
        column = pa.chunked_array([pa.nulls(len(batch), field.type)]) if column is None else column
        if has_deletes:
            column = pc.if_else(is_value, column, _key_column(batch, keys, field, columns))
        if column.null_count:
            raise DataException(f"The id column {field.name} of a record is null or absent, so its row cannot be identified")
        found.append(column)
    return found


def _key_rows(batch: Batch, names: Names) -> pa.Table | None:
    """The fields of the records' keys. None if keys are not structs."""
    key, schema = batch.key, batch.key_schema
    if key is None or schema is None or schema.type is not SchemaType.STRUCT or not schema.fields:
        return None
    return rename_fields(pa.Table.from_arrays(key.flatten(), schema=pa.schema(list(key.type))), names)


def _key_column(batch: Batch, keys: pa.Table | None, field: pa.Field, columns: KeyColumns) -> pa.ChunkedArray:
    column = None if keys is None else columns.of(keys, field)
    if column is None and batch.key is not None and len(columns.fields) == 1 and not pa.types.is_nested(batch.key.type):
        column = columns.of(pa.table([batch.key], names=[field.name]), field)
    if column is None:
        raise DataException(f"A record without a value deletes a row, and needs the id column {field.name} in its key")
    return column


def last_changes(keys: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Each key once, and the numbers of the rows to keep. ``keys`` has the key columns of records in order, and the column ``ROW``, which
    is null for a delete."""
    frame: Any = pl.from_arrow(keys)
    names = [name for name in keys.column_names if name != ROW]
    last = frame.unique(names, keep="last", maintain_order=True)
    return keys.schema.empty_table() if frame.is_empty() else last.select(names).to_arrow(), last[ROW].drop_nulls().to_arrow()


def without_keys(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows whose key columns are not among ``keys``."""
    columns = pa.table([column_at(rows, name) for name in keys.column_names], names=keys.column_names)
    there: Any = pl.from_arrow(columns.cast(keys.schema))
    wanted: Any = pl.from_arrow(keys)
    return rows.take(there.with_row_index(ROW).join(wanted, on=keys.column_names, how="anti", maintain_order="left")[ROW].to_arrow())
