"""Protobuf's binary encoding → columns. All records of a batch are read together, field by field.

google.protobuf first converts rare forms (a message in two parts, groups) to the usual form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.codecs.json.base64_column import decimals_of
from airflow_provider_connect.codecs.protobuf.fields import (
    BYTES,
    FIXED_TYPES,
    FoundField,
    UnusualError,
    numbers_of,
    scan,
    wire_type,
)
from airflow_provider_connect.codecs.protobuf.messages import ProtoEnum, ProtoField, ProtoMessage
from airflow_provider_connect.codecs.protobuf.schemas import ProtobufRules, is_union, wrapped_kind
from airflow_provider_connect.codecs.record_bytes import Cursor, spread
from airflow_provider_connect.data.arrow import np, pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.expansion import check_bytes
from airflow_provider_connect.data.schema import DATE, DECIMAL, TIME, Schema, SchemaType, check_rows
from airflow_provider_connect.errors import DataException

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of years 1 to 9999


def decode_records(message: ProtoMessage, schema: Schema, rules: ProtobufRules, column: pa.Array, skipped: int = 0) -> pa.Array:
    """Decode a binary column without nulls to a column of ``schema``. Each value is ``skipped`` bytes, followed by a ``message``.

    ``schema`` is ``connect_schema`` of ``message``. Raises DataException, whose ``record`` is the index of the first broken record."""
    if not len(column):
        return pa.array([], arrow_type(schema))
    try:
        return _record_values(message, schema, _Reading(rules), Cursor.of(column, skipped))
    except UnusualError:
        usual = _usual(message, column, skipped)
    try:
        return _record_values(message, schema, _Reading(rules, is_usual=True), Cursor.of(usual))
    except UnusualError as error:
        raise DataException(f"Records of {message.full_name} cannot be read: {error}") from None


def _usual(message: ProtoMessage, column: pa.Array, skipped: int) -> pa.Array:
    """The records in the form that google.protobuf writes, without unknown fields."""
    new = import_module("google.protobuf.message_factory").GetMessageClass(message.descriptor)
    written = []
    for number, data in enumerate(column.to_pylist()):
        record = new()
        try:
            record.ParseFromString(data[skipped:])
            record.DiscardUnknownFields()
            written.append(record.SerializePartialToString(deterministic=True))
        except Exception as error:  # DecodeError, or another error of the library for invalid bytes
            failure = DataException(f"The record cannot be read: {error}")
            failure.record = number
            raise failure from None
    return pa.array(written, pa.binary())


@dataclass(frozen=True, slots=True)
class _Reading:
    rules: ProtobufRules
    is_usual: bool = False
    """Whether google.protobuf wrote the records."""
    fills: bool = False
    """Whether missing fields get their default, as in an entry of a map."""


def _record_values(message: ProtoMessage, schema: Schema, reading: _Reading, cursor: Cursor) -> pa.Array:
    if schema.type is not SchemaType.STRUCT:
        return _wrapped_values(message, schema, reading, cursor)
    return _struct_values(message, schema, reading, cursor)


# Columns


def _struct_values(message: ProtoMessage, schema: Schema, reading: _Reading, cursor: Cursor) -> pa.Array:
    check_rows(schema, len(cursor))
    found, winners = scan(message, cursor)
    columns = []
    for each in schema.fields:
        if is_union(each.schema) and each.name not in found:
            columns.append(_union_values(each.schema, found, winners, reading, cursor))
        else:
            columns.append(_field_values(found[each.name], each.schema, winners, reading, cursor))
    return _struct(schema, columns, len(cursor))


def _struct(schema: Schema, columns: list[pa.Array], count: int, is_null: NDArray[np.bool_] | None = None) -> pa.Array:
    if not columns:
        return pa.array([{}] * count, pa.struct([]))
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(schema)), mask=None if is_null is None else pa.array(is_null))


def _union_values(
    schema: Schema, found: Mapping[str, FoundField], winners: Mapping[str, NDArray[np.int64]], reading: _Reading, cursor: Cursor
) -> pa.Array:
    columns = [_field_values(found[each.name], each.schema, winners, reading, cursor) for each in schema.fields]
    oneof = found[schema.fields[0].name].field.oneof
    assert oneof is not None
    return _struct(schema, columns, len(cursor), winners[oneof] == 0)


def _field_values(
    found: FoundField, schema: Schema, winners: Mapping[str, NDArray[np.int64]], reading: _Reading, cursor: Cursor
) -> pa.Array:
    field = found.field
    if field.is_repeated:
        return _repeated_values(found, schema, reading, cursor)
    has = found.has if field.oneof is None else winners[field.oneof] == field.number
    if field.oneof is None and (reading.fills or reading.rules.structs_for_nulls or not reading.rules.may_be_unset(field)):
        is_valid = np.ones(len(cursor), np.bool_)
    else:
        is_valid = has
    if found.numbers is not None:
        return _number_values(field, schema, found.numbers, is_valid, reading)
    assert found.starts is not None
    assert found.ends is not None
    if field.kind != "message":
        texts = _texts(schema, cursor.spans(found.starts, found.ends))
        if field.default and not has.all():
            check_bytes(len(field.default) * int(np.count_nonzero(~has)), f"The default of the field {field.name}")
            texts = pc.if_else(pa.array(has), texts, pa.scalar(field.default, texts.type))
        return _masked(texts, is_valid)
    rows = np.flatnonzero(is_valid)
    part = Cursor(cursor.data, found.starts[rows], found.ends[rows], cursor.records[rows])
    return spread(_message_values(field, schema, reading, part), is_valid)


def _masked(column: pa.Array, is_valid: NDArray[np.bool_]) -> pa.Array:
    if is_valid.all():
        return column
    return pc.if_else(pa.array(is_valid), column, pa.scalar(None, column.type))


def _texts(schema: Schema, found: pa.Array) -> pa.Array:
    if schema.type is not SchemaType.STRING:
        return found
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise DataException(f"A string is not UTF-8: {error}") from error


def _number_values(field: ProtoField, schema: Schema, numbers: NDArray[Any], is_valid: NDArray[np.bool_], reading: _Reading) -> pa.Array:
    mask = None if is_valid.all() else ~is_valid
    if field.enum is None:
        return pa.array(numbers.astype(arrow_type(schema).to_pandas_dtype(), copy=False), mask=mask)
    if field.enum.is_closed and not reading.is_usual and not np.isin(numbers, [number for _, number in field.enum.numbers]).all():
        raise UnusualError("an enum has a number without a symbol")
    if schema.type is not SchemaType.STRING:
        return pa.array(numbers.astype(np.int32), mask=mask)
    return _masked(_symbols(field.enum, numbers), is_valid)


def _symbols(enum: ProtoEnum, numbers: NDArray[Any]) -> pa.Array:
    symbols = {number: symbol for symbol, number in reversed(enum.numbers)}
    present, which = np.unique(numbers, return_inverse=True)
    words = [symbols.get(number, f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}") for number in present.tolist()]
    return pa.array(words, pa.string()).take(pa.array(which))


def _message_values(field: ProtoField, schema: Schema, reading: _Reading, cursor: Cursor) -> pa.Array:
    """The values of messages, one in each row."""
    if not len(cursor):
        return pa.array([], arrow_type(schema))
    assert field.message is not None
    inner = _Reading(reading.rules, reading.is_usual)
    if schema.logical_name is not None:
        return _logical_values(field.message, schema, cursor)
    if schema.type is not SchemaType.STRUCT and wrapped_kind(field.message) is not None:
        return _wrapped_values(field.message, schema, inner, cursor)
    return _struct_values(field.message, schema, inner, cursor)


def _wrapped_values(message: ProtoMessage, schema: Schema, reading: _Reading, cursor: Cursor) -> pa.Array:
    found, winners = scan(message, cursor)
    return _field_values(found["value"], schema, winners, _Reading(reading.rules, reading.is_usual, fills=True), cursor)


def _repeated_values(found: FoundField, schema: Schema, reading: _Reading, cursor: Cursor) -> pa.Array:
    owners, starts, ends = (
        np.concatenate([each[number] for each in found.pieces] or [np.zeros(0, np.int64)]).astype(np.int64) for number in range(3)
    )
    if len(found.pieces) > 1:
        order = np.argsort(owners, kind="stable")
        owners, starts, ends = owners[order], starts[order], ends[order]
    part = Cursor(cursor.data, starts, ends, cursor.records[owners])
    if schema.type is SchemaType.MAP:
        entries = _entries(found.field, schema, reading, part)
        owners, entries = _last_of_each_key(owners, entries)
    else:
        assert schema.value_schema is not None
        if found.field.kind == "message":
            entries = _message_values(found.field, schema.value_schema, reading, part)
        elif wire_type(found.field.kind) == BYTES:
            entries = _texts(schema.value_schema, part.spans(starts, ends))
        else:
            numbers, counts = _packed_numbers(found.field.kind, part)
            owners = np.repeat(owners, counts)
            entries = _number_values(found.field, schema.value_schema, numbers, np.ones(len(numbers), np.bool_), reading)
    offsets = np.zeros(len(cursor) + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=len(cursor)), out=offsets[1:])
    return pa.Array.from_buffers(arrow_type(schema), len(cursor), [None, pa.py_buffer(offsets)], children=[entries])


def _entries(field: ProtoField, schema: Schema, reading: _Reading, part: Cursor) -> pa.Array:
    assert field.message is not None
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    entry = Schema.struct({"key": schema.key_schema, "value": schema.value_schema})
    wanted = arrow_type(schema)
    values = _struct_values(field.message, entry, _Reading(reading.rules, reading.is_usual, fills=True), part)
    return pa.StructArray.from_arrays(values.flatten(), fields=[wanted.key_field, wanted.item_field])


def _last_of_each_key(owners: NDArray[np.int64], entries: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    if len(owners) < 2 or pa.types.is_nested(entries.type.field(0).type):
        return owners, entries
    codes = entries.field(0).dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = owners * len(owners) + codes
    _, first = np.unique(pairs[::-1], return_index=True)
    if len(first) == len(pairs):
        return owners, entries
    kept = np.sort(len(pairs) - 1 - first)
    return owners[kept], entries.take(pa.array(kept))


def _packed_numbers(kind: str, part: Cursor) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The consecutive numbers in each row, and their count per row."""
    sizes = part.ends - part.at
    if kind in FIXED_TYPES:
        width = np.dtype(FIXED_TYPES[kind]).itemsize
        part.fail_where(sizes % width != 0, "it ends within a list of numbers")
        counts = sizes // width
        entries, number = _repeated_rows(part, counts)
        entries.at = entries.at + number * width
        return entries.numbers(FIXED_TYPES[kind]), counts
    part.fail_where((sizes > 0) & (part.data[part.ends - 1] >= 0x80), "it ends within a list of numbers")
    stops = _last_bytes(part, sizes)
    first = np.searchsorted(stops, part.at)
    counts = np.searchsorted(stops, part.ends) - first
    entries, number = _repeated_rows(part, counts)
    entries.at = np.where(number == 0, entries.at, stops[np.repeat(first, counts) + number - 1] + 1)
    return (numbers_of(kind, entries.varints()) if len(entries) else np.zeros(0, np.int64)), counts


def _last_bytes(part: Cursor, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions of the last byte of each variable-length integer. The time is proportional to the bytes of the rows, not to all data,
    because a schema may have thousands of lists."""
    total = int(sizes.sum())
    if not total:
        return np.zeros(0, np.int64)
    first, end = int(part.at[0]), int(part.ends.max())
    if total * 8 > end - first:
        return np.flatnonzero(part.data[first:end] < 0x80) + first
    every = np.arange(total) + np.repeat(part.at - np.cumsum(sizes) + sizes, sizes)
    return every[part.data[every] < 0x80]


def _repeated_rows(part: Cursor, counts: NDArray[np.int64]) -> tuple[Cursor, NDArray[np.int64]]:
    """Each row, repeated for each of its entries, and the number of each entry within its row."""
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return part.part(np.repeat(np.arange(len(part)), counts)), number


# Connect's logical types


def _logical_values(message: ProtoMessage, schema: Schema, cursor: Cursor) -> pa.Array:
    found, _ = scan(message, cursor)
    numbers = {name: each.numbers for name, each in found.items() if each.numbers is not None}
    if schema.logical_name == DECIMAL:
        value = found["value"]
        return _decimals(cursor, cursor.spans(*_spans(value)), numbers["scale"], arrow_type(schema))
    if schema.logical_name == DATE:
        return pa.array(_days(cursor, numbers).astype(np.int32)).view(pa.date32())
    if schema.logical_name == TIME:
        hours, minutes, seconds = (numbers[name] for name in ("hours", "minutes", "seconds"))
        nanos = numbers["nanos"]
        is_wrong = (hours < 0) | (hours > 23) | (minutes < 0) | (minutes > 59) | (seconds < 0) | (seconds > 59)
        cursor.fail_where(is_wrong | (nanos < 0) | (nanos > 999_999_999), "a time of the day is none")
        millis = ((hours * 60 + minutes) * 60 + seconds) * 1000 + nanos // 1_000_000
        return pa.array(millis.astype(np.int32)).view(pa.time32("ms"))
    seconds, nanos = numbers["seconds"], numbers["nanos"]
    is_wrong = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND) | (nanos < 0) | (nanos > 999_999_999)
    cursor.fail_where(is_wrong, "a timestamp is not of the years 1 to 9999")
    return pa.array(seconds * 1000 + nanos // 1_000_000).view(arrow_type(schema))


def _spans(found: FoundField) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    assert found.starts is not None
    assert found.ends is not None
    return found.starts, found.ends


def _days(cursor: Cursor, numbers: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    year, month, day = (numbers[name] for name in ("year", "month", "day"))
    is_wrong = (year < 1) | (year > 9999) | (month < 1) | (month > 12) | (day < 1) | (day > 31)
    cursor.fail_where(is_wrong, "a date has no such year, month or day")
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    cursor.fail_where(days.astype("datetime64[M]") != months, "a date has no such year, month or day")
    found: NDArray[np.int64] = days.astype(np.int64)
    return found


def _decimals(cursor: Cursor, unscaled: pa.Array, scales: NDArray[np.int64], wanted: pa.DataType) -> pa.Array:
    """The decimals in the column's scale. Each value has its own scale, but must be exact in the column's scale."""
    cursor.fail_where(np.abs(scales) > 76, "a decimal has a scale beyond 76")
    unscaled = pc.if_else(pc.equal(pc.binary_length(unscaled), 0), pa.scalar(b"\0"), unscaled)
    found, which = [], []
    for scale in np.unique(scales).tolist():
        rows = np.flatnonzero(scales == scale)
        try:
            given = decimals_of(unscaled.take(pa.array(rows)), pa.decimal256(76, scale) if scale != wanted.scale else wanted)
            found.append(given if scale == wanted.scale else given.cast(wanted))
        except pa.ArrowException as error:
            reason = f"a decimal does not fit {wanted}; the scale in the schema's confluent.field_meta must be large enough ({error})"
            failure = DataException(f"The record cannot be read: {reason}")
            failure.record = int(cursor.records[rows[0]]) if len(rows) == 1 else None
            raise failure from error
        which.append(rows)
    if len(found) == 1:
        return found[0]
    return pa.concat_arrays(found).take(pa.array(np.argsort(np.concatenate(which))))
