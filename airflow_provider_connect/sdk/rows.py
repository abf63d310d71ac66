"""Converts authors' rows and values to Arrow tables and columns. Knows nothing of cursors and topics.

Rows are a dict, a list of dicts, an Arrow table or record batch, or a list of record batches. They may also be a frame of polars, pandas or
any other library with Arrow's C stream. ``RowSchema`` is the schema of many such tables; it only widens. A field has no type, and is left
out, until a row has a value for it.
"""

from __future__ import annotations

import base64
import dataclasses
import types
import typing
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from itertools import chain
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import refuse_deep, schema_of
from airflow_provider_connect.data.columns import cast_to_schema, column_of, is_json
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException, DataException

Rows = Any  # see above
Values = Any  # rows, or a column: an Arrow array, a list of Python values, a series


class ClashException(DataException):
    """The values of a field have no common type. ``known`` is the type in earlier rows; None: only these rows clash."""

    def __init__(self, message: str, known: pa.DataType | None) -> None:
        super().__init__(message)
        self.known = known


class NoFieldsException(DataException):
    """No field has had a value yet, in these rows or earlier ones. ``table`` has the rows, as columns of nulls."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__("Rows have no field with a value")
        self.table = table


class RowSchema:
    """The schema of one source's rows. It is ``given`` and fixed, or it starts as ``remembered`` and widens with the rows.

    It widens as Arrow does: null to any type, integers to wider integers and to floats, structs by their fields."""

    def __init__(self, given: pa.Schema | None = None, *, remembered: pa.Schema | None = None, like: pa.Schema | None = None) -> None:
        """``like`` has types for values of dicts, because Python has no types such as narrow integers. A type applies if the values fit. A
        field that has no value yet is written with its type in ``like``; that type is not remembered."""
        self.known: pa.Schema = remembered or pa.schema([]) if given is None else given
        self.is_given = given is not None
        self._like = {} if like is None else {field.name: field.type for field in like}
        self._written = self._typed()

    def table(self, rows: Rows) -> pa.Table:
        """Widen the schema for ``rows``, and return the rows as a table of this schema.

        Raises ClashException, with field, types and row, for values without a common type. Raises NoFieldsException if no field has a type
        yet, and DataException for rows of another form."""
        table = self._table_of_dicts(_dicts(rows)) if _is_dicts(rows) else table_of(rows)
        if not self.is_given and not table.schema.equals(self.known):
            self._widen(table.schema)
        if not self._written.names and (len(rows) if _is_dicts(rows) else len(table)):  # a table without columns has no rows
            raise NoFieldsException(table) if len(table) else DataException("Rows have no field with a value")
        if not self.is_given and table.schema.equals(self._written):
            return table
        return _conformed(table, self._written)

    def _widen(self, found: pa.Schema) -> None:
        known = self.known
        for field in found:
            index = known.get_field_index(field.name)
            after = field if index < 0 else _widened(known.field(index), field)
            known = known.append(after) if index < 0 else known.set(index, after)
        if known.equals(self.known):
            return
        self.known = known
        self._written = self._typed()

    def _typed(self) -> pa.Schema:
        """The fields that have a type, at any depth."""
        filled = [field.with_type(_filled(field.type, self._like.get(field.name))) for field in self.known] if self._like else self.known
        fields = [typed for field in filled if (typed := _typed_field(field)) is not None]
        return self.known if fields == list(self.known) else pa.schema(fields)

    def _table_of_dicts(self, rows: list[dict[str, Any]]) -> pa.Table:
        names = dict.fromkeys(chain(self.known.names, () if self.is_given else chain.from_iterable(rows)))
        try:
            return pa.table({name: self._column(name, [row.get(name) for row in rows]) for name in names})
        except (TypeError, UnicodeError) as error:
            raise DataException(f"Invalid field name: {error}") from error

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        """Raises DataException with the row whose value does not fit."""
        index = self.known.get_field_index(name)
        known = None if index < 0 else self.known.field(index)
        try:
            if self.is_given and known is not None and pa.types.is_map(known.type):  # Arrow infers only structs from dicts
                return pa.array([value if value is None else list(value.items()) for value in values], type=known.type)
            found = _like(_inferred(values), self._like.get(name))
        except (pa.ArrowException, AttributeError, DataException, OverflowError, TypeError, ValueError) as error:
            if self.is_given and known is not None:
                return _cast_one_by_one(name, values, known.type)
            raise _clash(name, values, None, error) from error
        if known is not None and not self.is_given and not found.type.equals(known.type):
            try:
                _widened(known, pa.field(name, found.type))
            except DataException as error:
                raise _clash(name, values, known.type, error) from error
        return found


def table_of(rows: Rows) -> pa.Table:
    """Columns or a frame as a table. Dictionary, run-end and view types become plain, because other rows may not have them.

    Raises DataException for other forms, and for two columns with the same name."""
    try:
        table = _as_table(rows)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataException(f"Rows of type {type(rows).__qualname__} cannot be read: {error}") from error
    names = table.column_names
    if len(set(names)) < len(names):
        raise DataException(f"Two columns have the name {next(name for name in names if names.count(name) > 1)!r}")
    for index, column in enumerate(table.columns):
        plain = _plain(column)
        if plain is not column:
            table = table.set_column(index, table.field(index).with_type(plain.type), plain)
    return table


def _as_table(rows: Rows) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, list | tuple) and rows and all(isinstance(batch, pa.RecordBatch) for batch in rows):
        return pa.Table.from_batches(rows)
    if type(rows).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    raise DataException(
        f"Rows of type {type(rows).__qualname__} cannot be read; give a list of dicts, a dict, an Arrow table or record batches, or a frame"
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    types = pa.types
    if types.is_dictionary(column.type):  # its values may be views, which ``take`` does not support
        wanted = _without_view(column.type.value_type)
        return pa.chunked_array([chunk.dictionary.cast(wanted).take(chunk.indices) for chunk in column.chunks], type=wanted)
    if types.is_run_end_encoded(column.type):
        return _plain(pc.run_end_decode(column))
    wanted = _without_view(column.type)
    return column if wanted is column.type else column.cast(wanted)


def _without_view(type: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(type):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(type) else type


def column_and_schema(values: Values, given: Schema | None, *, schemaless: bool) -> tuple[pa.Array, Schema | None] | None:
    """``values`` as a column, with rows as structs, and its schema. None: ``values`` has another form.

    The schema is ``given``, or None if ``schemaless``, or otherwise the schema of the column's type. Raises DataException for values that
    do not fit."""
    column = _column_of(values, given, schemaless=schemaless)
    if column is None:
        return None
    schema = given
    if given is None and not schemaless and not pa.types.is_null(column.type) and not is_json(column.type):
        schema = schema_of(pa.field("column", column.type, nullable=column.null_count > 0))
    return cast_to_schema(column, schema), schema


def _column_of(values: Values, schema: Schema | None, *, schemaless: bool) -> pa.Array | pa.ChunkedArray | None:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, list | tuple) and not (values and isinstance(values[0], pa.RecordBatch)):
        return column_of(values, schema) if schema is not None or schemaless else _inferred_column(values)
    if isinstance(values, list | tuple | pa.Table | pa.RecordBatch) or type(values).__name__ == "DataFrame":
        return table_of(values).to_struct_array()
    try:
        if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__array__"):
            return pa.chunked_array(values)
        return pa.array(values) if hasattr(values, "__array__") else None  # a series or a numpy array
    except (pa.ArrowException, TypeError) as error:
        raise DataException(f"Values of type {type(values).__qualname__} cannot be read: {error}") from error


def _inferred_column(values: Sequence[Any]) -> pa.Array:
    """A column of the type that Arrow infers. Dicts become structs; None is null."""
    try:
        if not isinstance(next((value for value in values if value is not None), None), Mapping):
            return _inferred(values)
        structs = RowSchema().table([{} if value is None else value for value in values]).to_struct_array().combine_chunks()
    except (pa.ArrowException, OverflowError, TypeError, UnicodeError) as error:
        raise DataException(f"Values have no common type; give a schema, or schemaless=True: {error}") from error
    if None not in values:
        return structs
    return pa.StructArray.from_arrays(structs.flatten(), fields=list(structs.type), mask=pa.array([value is None for value in values]))


def _inferred(values: Sequence[Any]) -> pa.Array:
    """A column of the type that Arrow infers. Raises DataException if dates are mixed with times, because Arrow would drop the times."""
    found = pa.array(values)
    if found.type.num_fields:
        refuse_deep(found.type)
    if "date" in str(found.type) and _has_time(found.type, values):
        raise DataException("dates are mixed with a datetime that has a time of day")
    return found


def _has_time(type: pa.DataType, values: Iterable[Any]) -> bool:
    """Whether a value of a date type has a time of day."""
    there = [value for value in values if value is not None]
    if pa.types.is_struct(type):
        return any(_has_time(field.type, [value.get(field.name) for value in there]) for field in type)
    if pa.types.is_list(type):
        return _has_time(type.value_type, chain.from_iterable(there))
    return pa.types.is_date(type) and any(isinstance(value, datetime) and value.time() != time() for value in there)


def _like(found: pa.Array, type: pa.DataType | None) -> pa.Array:
    """``found`` cast to ``type`` if both are of one kind and all values fit; otherwise unchanged."""
    wanted = found.type if type is None else _retyped(found.type, type)
    try:
        return found if wanted.equals(found.type) else found.cast(wanted)
    except pa.ArrowException:
        return found


def _retyped(found: pa.DataType, like: pa.DataType) -> pa.DataType:
    """``like`` if both are of one kind, else ``found``. Fields without a value keep no type."""
    if pa.types.is_struct(found) and pa.types.is_struct(like):
        likes = {each.name: each for each in like}
        return pa.struct([likes[f.name].with_type(_retyped(f.type, likes[f.name].type)) if f.name in likes else f for f in found])
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_decimal, pa.types.is_time)
    return like if any(is_kind(found) and is_kind(like) for is_kind in kinds) else found


def _filled(type: pa.DataType, like: pa.DataType | None) -> pa.DataType:
    """``type``, with the types of ``like`` for fields without a value."""
    if like is None or pa.types.is_null(type):
        return type if like is None else like
    if not (pa.types.is_struct(type) and pa.types.is_struct(like)):
        return type
    likes = {each.name: each.type for each in like}
    return pa.struct([each.with_type(_filled(each.type, likes.get(each.name))) for each in type])


def _is_dicts(rows: Rows) -> bool:
    return isinstance(rows, list | tuple) and (not rows or isinstance(rows[0], Mapping))


def _dicts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    try:
        return [dict(row) for row in rows]
    except (TypeError, ValueError) as error:
        number = next((number for number, row in enumerate(rows) if not isinstance(row, Mapping)), 0)
        raise DataException(f"Row {number} is of type {type(rows[number]).__qualname__}; rows must be dicts") from error


def _cast_one_by_one(name: str, values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """A column of values without a common type, such as numbers and strings, each cast to ``type``. Raises DataException with the row."""
    found = []
    for index, value in enumerate(values):
        try:
            found.append(_inferred([value]).cast(type))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            kind = value.__class__.__name__
            raise DataException(f"Field {name!r} of row {index} is {value!r:.200} ({kind}), which does not fit {type}") from error
    return pa.concat_arrays(found)


def _widened(before: pa.Field, found: pa.Field) -> pa.Field:
    both = [pa.schema([before]), pa.schema([found])]
    try:
        if before.type != found.type:
            both = [pa.schema([each.with_type(_in_utc(each.type))]) for each in (before, found)]
        [field] = pa.unify_schemas(both, promote_options="permissive")
    except pa.ArrowException as error:
        raise ClashException(f"Field {before.name!r} has changed its type from {before.type} to {found.type}", before.type) from error
    return field


def _in_utc(type: pa.DataType) -> pa.DataType:
    """The type with all time zones replaced by UTC, because timestamps of different zones have no common Arrow type."""
    if pa.types.is_timestamp(type) and type.tz is not None:
        return pa.timestamp(type.unit, "UTC")
    if pa.types.is_struct(type):
        return pa.struct([each.with_type(_in_utc(each.type)) for each in type])
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(_in_utc(type.value_type)))
    return type


def _typed_field(field: pa.Field) -> pa.Field | None:
    types = pa.types
    if types.is_null(field.type):
        return None
    if types.is_struct(field.type):
        inner = [typed for each in field.type if (typed := _typed_field(each)) is not None]
        return field.with_type(pa.struct(inner)) if inner else None
    if types.is_list(field.type) or types.is_large_list(field.type):
        entry = _typed_field(field.type.value_field)
        return None if entry is None else field.with_type(pa.list_(entry))
    return field


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        index = table.schema.get_field_index(field.name)
        column = pa.nulls(table.num_rows, pa.null()) if index < 0 else table.column(index)
        if column.null_count and not field.nullable:
            row = column.to_pylist().index(None)
            raise DataException(f"Field {field.name!r} is required, but null or missing in row {row}")
        try:
            columns.append(column.cast(field.type))
        except (pa.ArrowException, OverflowError) as error:
            raise DataException(f"Field {field.name!r} of type {column.type} does not fit {field.type}: {error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def _clash(name: str, values: Sequence[Any], known: pa.DataType | None, error: Exception) -> DataException:
    """The exception that names the first row whose value does not fit the values of earlier rows."""
    if known is None:  # find the shortest prefix of the rows without a common type; its last row is the culprit
        index = bisect_left(range(len(values)), True, key=lambda last: not _fits(values[: last + 1], None))
        before = pa.array(values[:index]).type
        was = "which has no Arrow type" if pa.types.is_null(before) else f"but was {before} before"
    else:
        index = next((row for row, value in enumerate(values) if not _fits([value], known)), len(values))
        was = f"but was {known} before"
    if index == len(values):
        return DataException(f"Field {name!r} cannot be read: {error}")
    text = f"Field {name!r} of row {index} is {values[index]!r:.200} ({type(values[index]).__name__}), {was}"
    return DataException(text) if "no Arrow type" in was else ClashException(text, known)


def _fits(values: Sequence[Any], known: pa.DataType | None) -> bool:
    try:
        found = _inferred(values)
        if known is not None:
            _widened(pa.field("it", known), pa.field("it", found.type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError, DataException):
        return False
    return True


def arrow_schema_of(given: pa.Schema | type | None) -> pa.Schema | None:
    """The Arrow schema that an author gives, perhaps as a dataclass. Raises TypeError for a field whose type has no Arrow type."""
    if not isinstance(given, type):
        return given
    return pa.schema(_fields_of(given))


def _fields_of(dataclass: type) -> list[pa.Field]:
    hints = typing.get_type_hints(dataclass)
    return [_field_of(field.name, hints[field.name], f"{dataclass.__qualname__}.{field.name}") for field in dataclasses.fields(dataclass)]


def _field_of(name: str, hint: Any, title: str) -> pa.Field:
    alternatives = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    [plain, *others] = [each for each in alternatives if each is not types.NoneType]
    if typing.get_origin(plain) is list and not others:
        found = pa.list_(_field_of("item", typing.get_args(plain)[0], title))
    elif isinstance(plain, type) and dataclasses.is_dataclass(plain) and not others:
        found = pa.struct(_fields_of(plain))
    elif plain in _ALIASES and not others:
        found = pa.timestamp("ms", "UTC") if plain is datetime else pa.type_for_alias(_ALIASES[plain])
    else:
        raise TypeError(f"{title}: type {hint} has no Arrow type; give an Arrow schema")
    return pa.field(name, found, nullable=types.NoneType in alternatives)


_ALIASES: Final[Mapping[object, str]] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    bytes: "binary",
    date: "date32",
    time: "time32[ms]",
    datetime: "timestamp",
}


def encode_schema(schema: pa.Schema) -> str:
    """``schema`` as text (Arrow IPC, base64), for a source offset."""
    return base64.b64encode(schema.serialize()).decode()


def decode_schema(text: str) -> pa.Schema:
    """The inverse of ``encode_schema``. Raises ConnectException for other text."""
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (pa.ArrowException, ValueError, OSError, EOFError) as error:
        raise ConnectException(f"The schema in a source offset cannot be read: {error}. Reset the connector's offsets") from error
