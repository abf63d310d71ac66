"""What an author's function yields, as Arrow tables of one schema that only widens. Knows nothing of cursors and topics.

Rows are a list of dicts, a single dict, an Arrow table or record batch, a list of record batches, or a frame of polars, pandas or any
other library with Arrow's C stream. A field whose values were all null so far has no type yet, and is left out until it has one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa

Rows = Any  # see above


class RowSchema:
    """The schema of one source's rows. It begins with what is ``given``, or with that of the first rows, and widens as Arrow does:
    null to any type, integers to wider ones and to floats, structs by their fields."""

    def __init__(self, given: pa.Schema | None = None, *, like: pa.Schema | None = None) -> None:
        """``like``: types that values of dicts keep where they fit, such as narrow integers, which Python does not have."""
        self.known: pa.Schema = pa.schema([]) if given is None else given
        self.is_given = given is not None
        self._like = {} if like is None else {field.name: field.type for field in like}
        self._written = _typed_part(self.known)

    def table(self, rows: Rows) -> pa.Table:
        """The rows as a table of the schema so far. Raises DataException for a clash, with field, types and row."""
        table = self._table_of_dicts([dict(row) for row in rows]) if _is_dicts(rows) else table_of(rows)
        if not table.schema.equals(self.known):
            self._widen(table.schema)
        return table if table.schema.equals(self._written) else _conformed(table, self._written)

    def _widen(self, found: pa.Schema) -> None:
        if self.is_given:
            return
        for field in found:
            index = self.known.get_field_index(field.name)
            before = self.known.field(index) if index >= 0 else None
            after = field if before is None else _widened(before, field)
            self.known = self.known.append(after) if before is None else self.known.set(index, after)
        self._written = _typed_part(self.known)

    def _table_of_dicts(self, rows: list[dict[str, Any]]) -> pa.Table:
        names = dict.fromkeys(chain(self.known.names, chain.from_iterable(rows)))
        if self.is_given:
            names = dict.fromkeys(self.known.names)
        return pa.table({name: self._column(name, [row.get(name) for row in rows]) for name in names})

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        """Raises DataException with the row whose value does not fit."""
        index = self.known.get_field_index(name)
        known = None if index < 0 else self.known.field(index)
        try:
            found = _like(pa.array(values), self._like.get(name))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise _clash(name, values, None, error) from error
        if known is not None and not self.is_given and not found.type.equals(known.type):
            try:
                _widened(known, pa.field(name, found.type))
            except DataException as error:
                raise _clash(name, values, known.type, error) from error
        return found


def table_of(rows: Rows) -> pa.Table:
    """Columns as a table. Raises DataException for what is neither columns nor a frame."""
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


def _like(found: pa.Array, type: pa.DataType | None) -> pa.Array:
    """As ``type``, which is wider or narrower but of the same kind, if all values fit."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_decimal, pa.types.is_time, pa.types.is_struct)
    if type is None or not (pa.types.is_null(found.type) or any(is_kind(type) and is_kind(found.type) for is_kind in kinds)):
        return found
    try:
        return found.cast(type)
    except pa.ArrowException:
        return found


def _is_dicts(rows: Rows) -> bool:
    return isinstance(rows, list | tuple) and (not rows or isinstance(rows[0], Mapping))


def _widened(before: pa.Field, found: pa.Field) -> pa.Field:
    try:
        [field] = pa.unify_schemas([pa.schema([before]), pa.schema([found])], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataException(f"Field {before.name!r} was {before.type} before, and is {found.type} now") from error
    return field


def _typed_part(schema: pa.Schema) -> pa.Schema:
    """The schema without fields of type null, at any depth."""
    fields = [typed for field in schema if (typed := _typed_field(field)) is not None]
    return schema if len(fields) == len(schema) and all(map(pa.Field.equals, fields, schema)) else pa.schema(fields)


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
        if index < 0:
            if not field.nullable:
                raise DataException(f"Field {field.name!r} is required, and is missing")
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        try:
            columns.append(table.column(index).cast(field.type))
        except (pa.ArrowException, OverflowError) as error:
            found = table.schema.field(index).type
            raise DataException(f"Field {field.name!r} of type {found} does not fit {field.type}: {error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def _clash(name: str, values: Sequence[Any], known: pa.DataType | None, error: Exception) -> DataException:
    """Names the first row that does not fit what came before it."""
    if known is None:  # the rows differ among themselves: the shortest run of rows that has no type ends with the row
        index = bisect_left(range(len(values)), True, key=lambda last: not _fits(values[: last + 1], None))
        was = "and the rows before it have another type"
    else:
        index = next((row for row, value in enumerate(values) if not _fits([value], known)), len(values))
        was = f"and was {known} before"
    if index == len(values):
        return DataException(f"Field {name!r} cannot be read: {error}")
    return DataException(f"Field {name!r} of row {index} is {values[index]!r} ({type(values[index]).__name__}), {was}")


def _fits(values: Sequence[Any], known: pa.DataType | None) -> bool:
    try:
        found = pa.array(values)
        if known is not None:
            _widened(pa.field("it", known), pa.field("it", found.type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError, DataException):
        return False
    return True
