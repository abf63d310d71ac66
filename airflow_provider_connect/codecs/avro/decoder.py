"""Avro's binary encoding → columns. All records of a batch are read together, field by field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_provider_connect.codecs.avro.avro_type import AvroType
from airflow_provider_connect.codecs.json.base64_column import decimals_of
from airflow_provider_connect.codecs.record_bytes import Cursor, spread
from airflow_provider_connect.data.arrow import np, pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.expansion import MOST_BYTES, check_bytes
from airflow_provider_connect.data.schema import DECIMAL, Schema, SchemaType, check_rows
from airflow_provider_connect.errors import DataException

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIXED_WIDTH: Final = {"boolean": 1, "float": 4, "double": 8}
_VARINTS: Final = frozenset({"int", "long", "enum"})


def decode_records(type: AvroType, schema: Schema, column: pa.Array, skipped: int = 0) -> pa.Array:
    """Decode a binary column without nulls to a column of ``schema``. Each value is ``skipped`` bytes, followed by an Avro datum of
    ``type``.

    ``schema`` is ``connect_schema`` of ``type``. Raises DataException, whose ``record`` is the index of the first broken record."""
    if not len(column):
        return pa.array([], arrow_type(schema))
    cursor = Cursor.of(column, skipped)
    values = _read(type, schema, cursor)
    cursor.fail_where(cursor.at != cursor.ends, "bytes are left behind the value; it was not written with this schema")
    return values


def _read(type: AvroType, schema: Schema, cursor: Cursor) -> pa.Array:
    if not len(cursor):
        return pa.array([], arrow_type(schema))
    return _READERS[type.kind](type, schema, cursor)


def _read_null(_type: AvroType, schema: Schema, cursor: Cursor) -> pa.Array:
    return pa.nulls(len(cursor), arrow_type(schema))


def _read_boolean(_type: AvroType, _schema: Schema, cursor: Cursor) -> pa.Array:
    values = cursor.numbers("u1")
    cursor.fail_where(values > 1, "a boolean is neither 0 nor 1")
    return pa.array(values.astype(np.bool_))


def _read_int(_type: AvroType, schema: Schema, cursor: Cursor) -> pa.Array:
    values, wanted = cursor.signed(), arrow_type(schema)
    width = wanted.bit_width
    limit = 1 << (min(width, 32) - 1)
    cursor.fail_where((values < -limit) | (values >= limit), f"an integer has more than {min(width, 32)} bits")
    return pa.array(values.astype(f"i{width // 8}")).view(wanted)


def _read_long(_type: AvroType, schema: Schema, cursor: Cursor) -> pa.Array:
    return pa.array(cursor.signed()).view(arrow_type(schema))


def _read_float(type: AvroType, _schema: Schema, cursor: Cursor) -> pa.Array:
    return pa.array(cursor.numbers("<f4" if type.kind == "float" else "<f8"))


def _read_bytes(type: AvroType, schema: Schema, cursor: Cursor) -> pa.Array:
    found = cursor.bytes(cursor.signed() if type.kind != "fixed" else type.size)
    if schema.logical_name != DECIMAL:
        return found
    try:
        return decimals_of(found, arrow_type(schema))
    except pa.ArrowException as error:
        raise DataException(f"A decimal does not fit {arrow_type(schema)}: {error}") from error


def _read_string(_type: AvroType, _schema: Schema, cursor: Cursor) -> pa.Array:
    try:
        return cursor.bytes(cursor.signed()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise DataException(f"A string is not UTF-8: {error}") from error


def _read_enum(type: AvroType, _schema: Schema, cursor: Cursor) -> pa.Array:
    numbers = cursor.signed()
    cursor.fail_where((numbers < 0) | (numbers >= len(type.symbols)), f"the enum {type.name} has no symbol of this number")
    symbols = pa.array(type.symbols, pa.string())
    lengths = pc.binary_length(symbols)
    if len(numbers) * pc.max(lengths).as_py() > MOST_BYTES:
        check_bytes(pc.sum(lengths.take(pa.array(numbers))).as_py(), f"Symbols of the enum {type.name}")
    return symbols.take(pa.array(numbers))


def _read_record(type: AvroType, schema: Schema, cursor: Cursor) -> pa.Array:
    check_rows(schema, len(cursor))
    columns = [_read(each.type, inner.schema, cursor) for each, inner in zip(type.fields, schema.fields, strict=True)]
    return _struct(schema, columns, len(cursor))


def _struct(schema: Schema, columns: list[pa.Array], count: int, is_null: NDArray[np.bool_] | None = None) -> pa.Array:
    mask = None if is_null is None else pa.array(is_null)
    if not columns:
        rows = pa.array([{}] * count, pa.struct([]))
        return rows if mask is None else pc.if_else(mask, pa.scalar(None, rows.type), rows)
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(schema)), mask=mask)


def _read_union(type: AvroType, schema: Schema, cursor: Cursor) -> pa.Array:
    numbers = cursor.signed()
    cursor.fail_where((numbers < 0) | (numbers >= len(type.branches)), "a union has no branch of this number")
    branches = type.value_branches
    if len(branches) == 1:  # one type that may be null
        return _read_branch(branches[0][1], schema, cursor, numbers == branches[0][0])
    columns = [
        _read_branch(branch, each.schema, cursor, numbers == number) for (number, branch), each in zip(branches, schema.fields, strict=True)
    ]
    return _struct(schema, columns, len(cursor), None if type.null_branch is None else numbers == type.null_branch)


def _read_branch(type: AvroType, schema: Schema, cursor: Cursor, has_it: NDArray[np.bool_]) -> pa.Array:
    if has_it.all():
        return _read(type, schema, cursor)
    if not has_it.any():
        return pa.nulls(len(cursor), arrow_type(schema))
    part = cursor.part(has_it)
    dense = _read(type, schema, part)
    cursor.follow(part, has_it)
    return spread(dense, has_it)


# Arrays and maps


def _read_array(type: AvroType, schema: Schema, cursor: Cursor) -> pa.Array:
    assert type.items is not None
    assert schema.value_schema is not None
    if schema.type is SchemaType.MAP:  # a map whose keys are not strings is an array of records
        assert schema.key_schema is not None
        entry = Schema.struct({"key": schema.key_schema, "value": schema.value_schema})
        return _lists(schema, cursor, lambda part: _read_record(_of(type.items), entry, part), fields=_fields(type.items))
    inner, values = type.items, schema.value_schema
    return _lists(schema, cursor, lambda part: _read(inner, values, part), stride=_stride(inner), fields=_fields(inner))


def _of(type: AvroType | None) -> AvroType:
    assert type is not None
    return type


def _read_map(type: AvroType, schema: Schema, cursor: Cursor) -> pa.Array:
    assert schema.value_schema is not None
    assert schema.key_schema is not None
    entry = Schema.struct({"key": schema.key_schema, "value": schema.value_schema})
    values = schema.value_schema

    def read_entry(part: Cursor) -> pa.Array:
        return _struct(entry, [_read_string(type, entry, part), _read(_of(type.items), values, part)], len(part))

    return _lists(schema, cursor, read_entry, fields=1 + _fields(type.items))


_Stride = int | None
_ReadEntries = Callable[[Cursor], "pa.Array"]
_VARINT_STRIDE: Final = 0
_FREE_VALUES: Final = 1_000_000
"""A list may have this many more values than its record has bytes, because null and empty values take no bytes."""


def _stride(type: AvroType) -> _Stride:
    """The width of each entry. 0: each entry is one variable-length integer. None: the width is unknown until the entry is read."""
    if type.kind in _VARINTS:
        return _VARINT_STRIDE
    return _FIXED_WIDTH.get(type.kind) or (type.size if type.kind == "fixed" else 0) or None


def _fields(type: AvroType | None) -> int:
    """The number of values that are read for each value of a type in its shortest encoding."""
    return 1 + sum(_fields(field.type) for field in type.fields) if type is not None else 1


def _lists(schema: Schema, cursor: Cursor, read: _ReadEntries, *, stride: _Stride = None, fields: int) -> pa.Array:
    """Read arrays or maps: blocks of entries, each after its count, and an empty block at the end. The n-th entries of all rows are read in
    one step."""
    rows = np.arange(len(cursor))
    found = _Entries(read)
    while len(rows):
        part = cursor.part(rows)
        counts = _block_counts(part)
        part.fail_where(counts * fields > _FREE_VALUES + part.ends - part.at, "a list has entries of many fields without bytes")
        if fields > 1:
            check_rows(schema, int(counts.sum()))
        if stride is None:
            found.read_steps(part, counts, rows)
        else:
            found.read_strided(part, counts, rows, stride)
        cursor.follow(part, rows)
        rows = rows[counts > 0]
    return found.column(schema, len(cursor))


def _block_counts(part: Cursor) -> NDArray[np.int64]:
    counts = part.signed()
    has_size = counts < 0
    if has_size.any():  # a negative count is followed by the block's size
        sized = part.part(has_size)
        sized.varints()
        part.follow(sized, has_size)
        counts = np.abs(counts)
    part.fail_where((counts > part.ends - part.at) | (counts < 0), "a list has more entries than the record has bytes")
    return counts


@dataclass(slots=True)
class _Entries:
    """The entries of lists in the order in which they are read: columns of entries, and the row to which each entry belongs."""

    read: _ReadEntries
    columns: list[pa.Array] = field(default_factory=list)
    owners: list[NDArray[np.int64]] = field(default_factory=list)

    def read_steps(self, part: Cursor, counts: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        for step in range(int(counts.max())):
            has_entry = counts > step
            entries = part.part(has_entry)
            self.columns.append(self.read(entries))
            self.owners.append(rows[has_entry])
            part.follow(entries, has_entry)

    def read_strided(self, part: Cursor, counts: NDArray[np.int64], rows: NDArray[np.int64], stride: int) -> None:
        """Read all entries of a block in one step, because the start of each entry is known."""
        owner = np.repeat(np.arange(len(part)), counts)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = part.part(owner)
        if stride == _VARINT_STRIDE:
            stops = np.append(np.flatnonzero(part.data < 0x80), len(part.data))
            last = np.minimum(np.searchsorted(stops, entries.at) + number, len(stops) - 1)
            entries.at = np.where(number == 0, entries.at, stops[last - 1] + 1)
        else:
            entries.at = entries.at + number * stride
        entries.fail_where(entries.at >= entries.ends, "it ends within a list")
        self.columns.append(self.read(entries))
        self.owners.append(rows[owner])
        is_last = np.cumsum(counts)[counts > 0] - 1
        part.at[counts > 0] = entries.at[is_last]

    def column(self, schema: Schema, count: int) -> pa.Array:
        """The lists of ``count`` rows."""
        wanted = arrow_type(schema)
        owner = np.concatenate(self.owners) if self.owners else np.zeros(0, np.int64)
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(owner, minlength=count), out=offsets[1:])
        if not len(owner):
            entries = pa.array([], _entries_type(wanted))
        else:
            entries = pa.concat_arrays(self.columns)
            if len(self.columns) > 1:
                entries = entries.take(pa.array(np.argsort(owner, kind="stable")))
        return pa.Array.from_buffers(wanted, count, [None, pa.py_buffer(offsets)], children=[entries])


def _entries_type(type: pa.DataType) -> pa.DataType:
    return pa.struct([type.key_field, type.item_field]) if pa.types.is_map(type) else type.value_type


_READERS: Final[dict[str, Callable[[AvroType, Schema, Cursor], pa.Array]]] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": _read_int,
    "long": _read_long,
    "float": _read_float,
    "double": _read_float,
    "bytes": _read_bytes,
    "fixed": _read_bytes,
    "string": _read_string,
    "enum": _read_enum,
    "record": _read_record,
    "union": _read_union,
    "array": _read_array,
    "map": _read_map,
}
