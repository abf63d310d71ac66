"""Columns → Protobuf's binary encoding. Each field is written for all records in one step, in the order of field numbers. Then the fields
are joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.codecs.json.base64_column import decimal_bytes
from airflow_provider_connect.codecs.protobuf.fields import BYTES, FIXED_TYPES, wire_type
from airflow_provider_connect.codecs.protobuf.messages import ProtoField, ProtoMessage
from airflow_provider_connect.codecs.protobuf.schemas import ProtobufRules, is_union, wrapped_kind
from airflow_provider_connect.codecs.record_bytes import Pieces, join_pieces, to_zigzag
from airflow_provider_connect.data.arrow import np, pa, pc
from airflow_provider_connect.data.columns import fill_nulls
from airflow_provider_connect.data.schema import DATE, DECIMAL, INT64_SCHEMA, TIME, Schema, SchemaType
from airflow_provider_connect.errors import DataException

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INTEGERS: Final = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)
_FLOATS: Final = {"float": (SchemaType.FLOAT32,), "double": (SchemaType.FLOAT32, SchemaType.FLOAT64)}
_RANGES: Final = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys(("uint32", "fixed32"), (0, (1 << 32) - 1)),
}


def encode_records(message: ProtoMessage, schema: Schema, column: pa.Array, rules: ProtobufRules, before: bytes = b"") -> pa.Array:
    """Encode a column of ``schema`` without nulls to a binary column. Each value is the bytes ``before``, followed by a ``message``.

    Fields are matched by name. Fields that are not in ``message`` are omitted, and fields that are not in ``schema`` are not set. Raises
    DataException if types differ."""
    written = _Written(rules, "the value")
    if schema.type is SchemaType.STRUCT and schema.logical_name is None:
        pieces = _message_pieces(message, schema, column, written)
    elif wrapped_kind(message) is not None:
        pieces = _field_pieces(message.fields[0], schema, column, written)
    else:
        raise written.mismatch(schema, message.full_name)
    return join_pieces([Pieces.repeated(before, len(column)), *pieces]).column()


@dataclass(frozen=True, slots=True)
class _Written:
    rules: ProtobufRules
    location: str  # for messages

    def field(self, name: str) -> _Written:
        return _Written(self.rules, f"field {name} of {self.location}")

    def mismatch(self, schema: Schema, kind: str) -> DataException:
        return DataException(
            f"Cannot write {self.location}, of type {schema.name or schema.type.name}, as Protobuf's {kind}: "
            "the schema in the registry has another type"
        )


def _numpy(column: pa.Array) -> NDArray[Any]:
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _message_pieces(message: ProtoMessage, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    """The pieces of structs without nulls."""
    columns: dict[str, tuple[Schema, pa.Array]] = {}
    for each, child in zip(schema.fields, column.flatten(), strict=True):
        values = _with_default(each.schema, child, written)
        if is_union(each.schema):
            columns |= _members(each.schema, values, written.field(each.name))
        else:
            columns[written.rules.name(each.name)] = each.schema, values
    pieces: list[Pieces] = []
    for field in sorted(message.fields, key=lambda each: each.number):
        if field.name in columns:
            pieces += _field_pieces(field, *columns[field.name], written.field(field.name))
    return pieces


def _with_default(schema: Schema, column: pa.Array, written: _Written) -> pa.Array:
    if column.null_count and schema.default is not None and not written.rules.keeps_nulls:
        return fill_nulls(column, schema)
    return column


def _members(schema: Schema, column: pa.Array, written: _Written) -> dict[str, tuple[Schema, pa.Array]]:
    """The fields of a union. Only the first field with a value is written."""
    is_left = _numpy(column.is_valid())
    found = {}
    for each, child in zip(schema.fields, column.flatten(), strict=True):
        has = _numpy(child.is_valid()) & is_left
        is_left &= ~has
        kept = child if child.null_count == int((~has).sum()) else pc.if_else(pa.array(has), child, pa.scalar(None, child.type))
        found[written.rules.name(each.name)] = each.schema, kept
    if is_left.any():
        raise DataException(f"No field of the union in {written.location} has a value")
    return found


def _tag(field: ProtoField, type: int) -> bytes:
    return bytes(Pieces.of_varints(np.array([field.number << 3 | type], np.uint64)).data)


def _field_pieces(field: ProtoField, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    """One value or list per row, with its tag. Null has no bytes, and neither has the default of a field without presence."""
    if field.is_repeated:
        return _repeated_pieces(field, schema, column, written)
    is_valid = _numpy(column.is_valid())
    dense = column.drop_null() if column.null_count else column
    if not len(dense):
        return []
    if field.kind == "message" or wire_type(field.kind) == BYTES:
        found = (
            join_pieces(_inner_pieces(field, schema, dense, written)) if field.kind == "message" else _text(field, schema, dense, written)
        )
        lengths = found.lengths
        if not field.has_presence and not lengths.all():
            is_valid[is_valid] = lengths > 0
            lengths = lengths[lengths > 0]
        header = Pieces.of_varints(lengths.view(np.uint64), _tag(field, BYTES)).spread(is_valid)
        return [header, found if len(found) == len(column) else found.spread(_numpy(column.is_valid()))]
    numbers = _numbers(field, schema, dense, written)
    if not field.has_presence and not (is_set := _bits(numbers) != 0).all():
        is_valid[is_valid] = is_set
        numbers = numbers[is_set]
    return [_number_pieces(numbers, _tag(field, wire_type(field.kind))).spread(is_valid)]


def _bits(numbers: NDArray[Any]) -> NDArray[Any]:
    """The bits of numbers. In this form, -0.0 differs from the default 0.0."""
    return numbers.view(f"u{numbers.dtype.itemsize}")


def _number_pieces(numbers: NDArray[Any], tag: bytes = b"") -> Pieces:
    return Pieces.of_varints(numbers, tag) if numbers.dtype == np.uint64 else Pieces.of_numbers(numbers, tag)


def _numbers(field: ProtoField, schema: Schema, column: pa.Array, written: _Written) -> NDArray[Any]:
    """The numbers of a scalar. Variable-length integers are uint64; other numbers have the type that is written."""
    kind = field.kind
    if kind == "bool":
        if schema.type is not SchemaType.BOOLEAN:
            raise written.mismatch(schema, kind)
        return _numpy(column).astype(np.uint64)
    if kind in _FLOATS:
        if schema.type not in _FLOATS[kind]:
            raise written.mismatch(schema, kind)
        return _numpy(column).astype(FIXED_TYPES[kind])
    if field.enum is not None and schema.type is SchemaType.STRING:
        return _enum_numbers(field, column, written).view(np.uint64)
    if schema.type not in _INTEGERS or schema.logical_name is not None:
        raise written.mismatch(schema, kind)
    numbers = _numpy(column.cast(pa.int64()))
    least, most = _RANGES.get(kind, (None, None))
    if kind in ("uint32", "fixed32") and schema.type is not SchemaType.INT64:
        numbers = numbers & 0xFFFFFFFF
    elif least is not None and most is not None and len(numbers) and (numbers.min() < least or numbers.max() > most):
        raise DataException(f"A number of {written.location} does not fit Protobuf's {kind}")
    if kind in FIXED_TYPES:
        return numbers.astype(FIXED_TYPES[kind])
    return to_zigzag(numbers) if kind.startswith("s") else numbers.view(np.uint64)


def _enum_numbers(field: ProtoField, column: pa.Array, written: _Written) -> NDArray[np.int64]:
    assert field.enum is not None
    symbols = [symbol for symbol, _ in field.enum.numbers]
    found = pc.index_in(column, pa.array(symbols, pa.string()))
    if found.null_count:
        unknown = column.filter(found.is_null())[0].as_py()
        raise DataException(f"Protobuf's enum {field.enum.full_name}, for {written.location}, has no symbol {unknown!r:.80}")
    numbers: NDArray[np.int64] = np.array([number for _, number in field.enum.numbers], np.int64)[_numpy(found)]
    return numbers


def _text(field: ProtoField, schema: Schema, column: pa.Array, written: _Written) -> Pieces:
    if schema.type is not (SchemaType.STRING if field.kind == "string" else SchemaType.BYTES) or schema.logical_name is not None:
        raise written.mismatch(schema, field.kind)
    return Pieces.of(column)


def _inner_pieces(field: ProtoField, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    """The fields of messages, one message in each row."""
    message = field.message
    assert message is not None
    empty = Pieces.repeated(b"", len(column))
    if schema.logical_name is not None:
        return [empty, *_logical_pieces(message, schema, column, written)]
    if schema.type is SchemaType.STRUCT:
        return [empty, *_message_pieces(message, schema, column, written)]
    if wrapped_kind(message) is None:
        raise written.mismatch(schema, message.full_name)
    return [empty, *_field_pieces(message.fields[0], schema, column, written)]


def _repeated_pieces(field: ProtoField, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    counts = _numpy(pc.fill_null(pc.list_value_length(column) if schema.type is SchemaType.ARRAY else _map_lengths(column, schema), 0))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    if not ends[-1]:
        return []
    if schema.type is SchemaType.MAP:
        inner, entries = _map_entries(schema, column, written)
        if not field.is_map:
            raise written.mismatch(schema, field.kind)
    elif schema.type is SchemaType.ARRAY and schema.value_schema is not None and not field.is_map:
        inner, entries = schema.value_schema, column.flatten()
    else:
        raise written.mismatch(schema, field.kind)
    if entries.null_count:
        raise DataException(f"Found null in {written.location}, and Protobuf's lists have no nulls")
    if wire_type(field.kind) != BYTES:
        numbers = _numbers(field, inner, entries, written)
        if not field.is_packed:
            return [_number_pieces(numbers, _tag(field, wire_type(field.kind))).grouped(ends)]
        found = _number_pieces(numbers).grouped(ends)
        has = counts > 0
        return [Pieces.of_varints(found.lengths[has].view(np.uint64), _tag(field, BYTES)).spread(has), found]
    values = (
        join_pieces(_inner_pieces(field, inner, entries, written)) if field.kind == "message" else _text(field, inner, entries, written)
    )
    header = Pieces.of_varints(values.lengths.view(np.uint64), _tag(field, BYTES))
    return [join_pieces([header, values]).grouped(ends)]


def _map_lengths(column: pa.Array, schema: Schema) -> pa.Array:
    if schema.type is not SchemaType.MAP:
        return pa.array(np.ones(len(column), np.int64))
    return pa.array(np.diff(_numpy(column.offsets).astype(np.int64)), mask=_numpy(column.is_null()))


def _map_entries(schema: Schema, column: pa.Array, written: _Written) -> tuple[Schema, pa.Array]:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    given = column.drop_null() if column.null_count else column
    first, last = given.offsets[0].as_py(), given.offsets[len(given)].as_py()
    keys, items = given.keys.slice(first, last - first), given.items.slice(first, last - first)
    items = _with_default(schema.value_schema, items, written)
    if keys.null_count or items.null_count:  # Protobuf reads a missing value as the default of its type, also with ``optional``
        raise DataException(f"Found null as a key or value in {written.location}, and Protobuf's maps have no nulls")
    entry = Schema.struct({"key": schema.key_schema, "value": schema.value_schema})
    return entry, pa.StructArray.from_arrays([keys, items], names=["key", "value"])


# Connect's logical types


def _logical_pieces(message: ProtoMessage, schema: Schema, column: pa.Array, written: _Written) -> list[Pieces]:
    parts = _logical_parts(schema, column)
    names = {field.name for field in message.fields}
    if not parts.keys() <= names:
        raise written.mismatch(schema, message.full_name)
    pieces: list[Pieces] = []
    for field in sorted(message.fields, key=lambda each: each.number):
        if field.name in parts:
            part = parts[field.name]
            kind = Schema(SchemaType.BYTES) if pa.types.is_binary(part.type) else INT64_SCHEMA
            pieces += _field_pieces(field, kind, part, written)
    return pieces


def _logical_parts(schema: Schema, column: pa.Array) -> Mapping[str, pa.Array]:
    """The fields of the message that represents a logical type."""
    if schema.logical_name == DECIMAL:
        precision = pc.utf8_length(pc.utf8_ltrim(_unscaled(column).cast(pa.string()), "-")).cast(pa.int64())
        return {"value": decimal_bytes(column), "precision": precision, "scale": pa.array(np.full(len(column), column.type.scale))}
    if schema.logical_name == DATE:
        days = _numpy(column.view(pa.int32())).astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        years = days.astype("datetime64[Y]")
        found = {
            "year": years.astype(np.int64) + 1970,
            "month": (months - years.astype("datetime64[M]")).astype(np.int64) + 1,
            "day": (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        }
        return {name: pa.array(values) for name, values in found.items()}
    if schema.logical_name == TIME:
        millis = _numpy(column.view(pa.int32())).astype(np.int64)
        seconds = millis // 1000
        found = {"hours": seconds // 3600, "minutes": seconds // 60 % 60, "seconds": seconds % 60, "nanos": millis % 1000 * 1_000_000}
        return {name: pa.array(values) for name, values in found.items()}
    millis = _numpy(column.view(pa.int64()))
    return {"seconds": pa.array(millis // 1000), "nanos": pa.array(millis % 1000 * 1_000_000)}


def _unscaled(column: pa.Array) -> pa.Array:
    """The same digits without a scale."""
    type = column.type
    whole = pa.decimal128(38, 0) if type.byte_width == 16 else pa.decimal256(76, 0)
    return pa.Array.from_buffers(whole, len(column), column.buffers(), offset=column.offset)
