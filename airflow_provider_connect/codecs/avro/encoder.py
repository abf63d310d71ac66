"""Columns → Avro's binary encoding. Each field is written for all records in one step, then the fields of each record are joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.codecs.avro.avro_type import AvroField, AvroType
from airflow_provider_connect.codecs.avro.connect_schemas import (
    DEFAULT_RULES,
    UNION,
    AvroRules,
    branch_name,
    connect_schema,
)
from airflow_provider_connect.codecs.json.base64_column import decimal_bytes
from airflow_provider_connect.codecs.record_bytes import Pieces, join_pieces, to_zigzag
from airflow_provider_connect.data.arrow import np, pa, pc
from airflow_provider_connect.data.columns import column_of, fill_nulls
from airflow_provider_connect.data.expansion import check_bytes
from airflow_provider_connect.data.schema import DECIMAL, Schema, SchemaType
from airflow_provider_connect.errors import DataException

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class AvroWriting:
    """The options for fields with a default. ``keeps_nulls``: null stays null if a field allows both null and its default."""

    rules: AvroRules = DEFAULT_RULES
    keeps_nulls: bool = False


def encode_records(type: AvroType, schema: Schema, column: pa.Array, writing: AvroWriting) -> pa.Array:
    """The Avro datum of each value of a column of ``schema``, as a binary column.

    Fields are matched by name. A field of ``type`` that is not in ``schema`` gets its default. Raises DataException if such a field has no
    default, if types differ, and for a null that ``type`` does not allow."""
    return join_pieces(_pieces(type, schema, column, _Written(writing, "the value"))).column()


@dataclass(frozen=True, slots=True)
class _Written:
    writing: AvroWriting
    location: str  # for messages

    def field(self, name: str) -> _Written:
        return _Written(self.writing, f"field {name} of {self.location}")

    def mismatch(self, type: AvroType, schema: Schema) -> DataException:
        return DataException(
            f"Cannot write {self.location}, of type {schema.name or schema.type.name}, as Avro's {type.name or type.kind}: "
            "the schema in the registry has another type"
        )


def _pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    if column.null_count and schema.default is not None and not (written.writing.keeps_nulls and schema.optional):
        column = fill_nulls(column, schema)
    if type.kind == "union":
        return _union_pieces(type, schema, column, written)
    if column.null_count and type.kind != "null":
        raise DataException(f"Found null for {written.location}, which is required in Avro's schema")
    return _WRITERS[type.kind](type, schema, column, written)


def _null_pieces(_type: AvroType, _schema: Schema, column: pa.Array, _written: _Written) -> list[Pieces]:
    return [Pieces.repeated(b"", len(column))]


def _number_pieces(dtype: str, *kinds: SchemaType) -> _Writer:
    def write(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
        if schema.type not in kinds:
            raise written.mismatch(type, schema)
        return [Pieces.of_numbers(_numpy(column.cast(pa.from_numpy_dtype(dtype))))]

    return write


def _numpy(column: pa.Array) -> NDArray[Any]:
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


_NARROW: Final = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32)


def _integer_pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    if schema.type not in (_NARROW if type.kind == "int" else (*_NARROW, SchemaType.INT64)):
        raise written.mismatch(type, schema)
    if schema.logical_name is not None:
        column = column.view(f"int{column.type.bit_width}")
    return [_varints(_numpy(column.cast("int64")))]


def _varints(values: NDArray[np.int64]) -> Pieces:
    return Pieces.of_varints(to_zigzag(values))


def _text_pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    if schema.type not in (SchemaType.STRING, SchemaType.BYTES):
        raise written.mismatch(type, schema)
    found = Pieces.of(decimal_bytes(column) if schema.logical_name == DECIMAL else column)
    return [_varints(found.lengths), found]


def _fixed_pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    if schema.type is not SchemaType.BYTES:
        raise written.mismatch(type, schema)
    if schema.logical_name == DECIMAL:
        width = column.type.byte_width
        stored = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, width)[column.offset : column.offset + len(column), ::-1]
        sign = (stored[:, :1] >> 7) * np.uint8(255)
        kept = np.hstack([np.repeat(sign, max(type.size - width, 0), axis=1), stored[:, max(width - type.size, 0) :]])
        if (stored[:, : max(width - type.size, 0)] != sign).any():
            raise DataException(f"A decimal of {written.location} has more than {type.size} bytes")
        return [Pieces(np.arange(len(column) + 1) * type.size, pa.py_buffer(np.ascontiguousarray(kept)))]
    found = Pieces.of(column)
    if (found.lengths != type.size).any():
        raise DataException(f"Values of {written.location} must have {type.size} bytes, as Avro's {type.name}")
    return [found]


def _enum_pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    if schema.type is not SchemaType.STRING:
        raise written.mismatch(type, schema)
    numbers = pc.index_in(column, pa.array(type.symbols, pa.string()))
    if numbers.null_count:
        unknown = column.filter(numbers.is_null())[0].as_py()
        raise DataException(f"Avro's enum {type.name}, for {written.location}, has no symbol {unknown!r:.80}")
    return [_varints(_numpy(numbers.cast("int64")))]


def _record_pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    if schema.type is not SchemaType.STRUCT:
        raise written.mismatch(type, schema)
    name_of = written.writing.rules.name
    columns = {name_of(field.name): (field.schema, child) for field, child in zip(schema.fields, column.flatten(), strict=True)}
    pieces: list[Pieces] = []
    for each in type.fields:
        inner = columns.get(each.name) or _default_column(each, len(column), written)
        pieces += _pieces(each.type, *inner, written.field(each.name))
    return pieces or [Pieces.repeated(b"", len(column))]


def _default_column(field: AvroField, count: int, written: _Written) -> tuple[Schema, pa.Array]:
    if "default" not in field.attributes:
        raise DataException(
            f"The schema in the registry has a field {field.name} that the records have not, and it has no default. "
            f"Give {written.location} that field, or register a schema without it."
        )
    schema = connect_schema(AvroType("record", name="r", fields=(field,)), written.writing.rules).fields[0].schema
    default = column_of([schema.default], schema.as_optional())
    check_bytes(default.nbytes * count, f"The default of the field {field.name}, {default.nbytes} bytes in {count} records,")
    return schema, pa.repeat(default[0], count)


def _union_pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    branches = type.value_branches
    if schema.name == UNION and schema.type is SchemaType.STRUCT and len(branches) > 1:
        return _branch_pieces(type, schema, column, written)
    number, branch = next(((n, b) for n, b in branches if len(branches) > 1 and _fits(b, schema)), branches[0])
    if not column.null_count:
        return [Pieces.repeated(bytes([2 * number]), len(column)), *_pieces(branch, schema, column, written)]
    if type.null_branch is None:
        raise DataException(f"Found null for {written.location}, and Avro's union has no null")
    is_valid = _numpy(column.is_valid())
    numbers = np.where(is_valid, 2 * number, 2 * type.null_branch).astype(np.uint8)
    dense = column.drop_null()
    inner = _pieces(branch, schema, dense, written) if len(dense) else []
    return [Pieces.of_numbers(numbers), *(piece.spread(is_valid) for piece in inner)]


def _fits(type: AvroType, schema: Schema) -> bool:
    """Whether values of ``schema`` belong to this branch of a union."""
    own = connect_schema(type)
    return own.type is schema.type and (type.kind != "record" or schema.name in (None, own.name))


def _branch_pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    """The pieces of a struct that has a field for each branch. One of these fields has a value."""
    fields = {field.name: (field.schema, child) for field, child in zip(schema.fields, column.flatten(), strict=True)}
    numbers = np.full(len(column), -1, np.int64)
    pieces: list[Pieces] = []
    for number, branch in type.value_branches:
        inner, child = fields.get(branch_name(branch, written.writing.rules), (None, None))
        if inner is None or child is None or child.null_count == len(child):
            continue
        is_valid = _numpy(child.is_valid()) & (numbers < 0)
        numbers[is_valid] = number
        dense = child.filter(pa.array(is_valid))
        pieces += [piece.spread(is_valid) for piece in _pieces(branch, inner, dense, written)] if len(dense) else []
    if type.null_branch is not None:
        numbers[_numpy(column.is_null())] = type.null_branch
    if (numbers < 0).any():
        raise DataException(f"No branch of the union in {written.location} has a value")
    return [_varints(numbers), *pieces]


def _array_pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    assert type.items is not None
    if schema.type is SchemaType.MAP and schema.key_schema is not None and schema.value_schema is not None:
        entry = Schema.struct({"key": schema.key_schema, "value": schema.value_schema})
        entries = pa.StructArray.from_arrays(_entries(column), names=["key", "value"])
        return _blocks(column, join_pieces(_pieces(type.items, entry, entries, written)))
    if schema.type is not SchemaType.ARRAY or schema.value_schema is None:
        raise written.mismatch(type, schema)
    return _blocks(column, join_pieces(_pieces(type.items, schema.value_schema, column.flatten(), written)))


def _map_pieces(type: AvroType, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    assert type.items is not None
    if schema.type is not SchemaType.MAP or schema.key_schema is None or schema.value_schema is None:
        raise written.mismatch(type, schema)
    keys, values = _entries(column)
    of_keys = _text_pieces(AvroType("string"), schema.key_schema, keys, written)
    return _blocks(column, join_pieces([*of_keys, *_pieces(type.items, schema.value_schema, values, written)]))


def _entries(column: pa.Array) -> list[pa.Array]:
    """Keys and values of a column of maps."""
    first, last = column.offsets[0].as_py(), column.offsets[len(column)].as_py()
    return [column.keys.slice(first, last - first), column.items.slice(first, last - first)]


def _blocks(column: pa.Array, entries: Pieces) -> list[Pieces]:
    """The pieces of lists: one block with the entries, if there are any, and the empty block at the end."""
    offsets = _numpy(column.offsets).astype(np.int64)
    counts = np.diff(offsets)
    has_entries = counts > 0
    return [
        _varints(counts[has_entries]).spread(has_entries),
        entries.grouped(offsets - offsets[0]),
        Pieces.repeated(b"\0", len(column)),
    ]


_Writer = Callable[[AvroType, Schema, "pa.Array", _Written], list[Pieces]]
_WRITERS: Final[dict[str, _Writer]] = {
    "null": _null_pieces,
    "boolean": _number_pieces("uint8", SchemaType.BOOLEAN),
    "int": _integer_pieces,
    "long": _integer_pieces,
    "float": _number_pieces("float32", SchemaType.FLOAT32),
    "double": _number_pieces("float64", SchemaType.FLOAT32, SchemaType.FLOAT64),
    "bytes": _text_pieces,
    "string": _text_pieces,
    "fixed": _fixed_pieces,
    "enum": _enum_pieces,
    "record": _record_pieces,
    "array": _array_pieces,
    "map": _map_pieces,
}
