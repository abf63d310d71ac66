"""Columns → JSON text, byte for byte as Connect's JsonConverter writes it, without a Python object per value where possible.

The text of a column consists of pieces: literals, and Arrow string columns that hold the text between the literals. One join at the end
creates the records. Arrow cannot create the text of some values (numbers with an exponent, text with escapes). Only such values are
converted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from airflow_provider_connect.codecs.json.base64_column import base64_text, decimal_bytes
from airflow_provider_connect.codecs.json.values import JsonRules, write_value
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.java_text import double_texts
from airflow_provider_connect.data.json_text import quoted
from airflow_provider_connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType

Pieces = list["str | pa.StringArray"]

_LEAST_PRINTABLE, _FOUR_BYTES = 0x20, 0xF0  # first bytes in UTF-8
_TEXT_TO_ESCAPE: Final = '[\\x00-\\x1f"\\\\\\x{10000}-\\x{10ffff}]'


def column_text(schema: Schema, column: pa.Array, rules: JsonRules, *, before: str = "", after: str = "") -> pa.Array:
    """The JSON of each value between two literals, as a string column without nulls. Raises DataException for a null that is not
    allowed."""
    return joined([before, *column_pieces(schema, column, rules), after], len(column))


def joined(pieces: Pieces, count: int) -> pa.Array:
    """The pieces of each row, joined to one string column of ``count`` rows."""
    merged: Pieces = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if all(isinstance(piece, str) for piece in merged):
        return pa.repeat(pa.scalar("".join(str(piece) for piece in merged), pa.string()), count)
    return pc.binary_join_element_wise(*merged, "")


def column_pieces(schema: Schema, column: pa.Array, rules: JsonRules) -> Pieces:
    """The parts of the column's text."""
    if column.null_count:
        dense = column.drop_null()
        null_text = pa.scalar(write_value(schema, None, rules), pa.string())
        if not len(dense):
            return [null_text.as_py()]
        texts = joined(_dense_pieces(schema, dense, rules), len(dense))
        return [pc.replace_with_mask(pa.repeat(null_text, len(column)), column.is_valid(), texts)]
    return _dense_pieces(schema, column, rules)


def _dense_pieces(schema: Schema, column: pa.Array, rules: JsonRules) -> Pieces:
    logical = schema.logical_name
    if logical == DECIMAL:
        return _decimal_pieces(schema, column, rules)
    if logical is not None:
        return [column.cast(pa.type_for_alias(_NUMBERS_BENEATH[logical])).cast(pa.string())]
    write = _PIECES.get(schema.type)
    if write is not None:
        return write(schema, column, rules)
    return [column.cast(pa.string())]  # integers and booleans


_NUMBERS_BENEATH: Final = {DATE: "int32", TIME: "int32", TIMESTAMP: "int64"}


def _string_pieces(_schema: Schema, column: pa.Array, _rules: JsonRules) -> Pieces:
    if is_clean(data_of(column)):
        return ['"', column, '"']
    marked = pc.match_substring_regex(column, _TEXT_TO_ESCAPE)
    escaped = [quoted(text)[1:-1] for text in column.filter(marked).to_pylist()]
    return ['"', pc.replace_with_mask(column, marked, pa.array(escaped, pa.string())), '"']


def data_of(column: pa.Array) -> pa.Buffer:
    """The bytes of all values of a string or binary column without nulls, in order."""
    offsets = memoryview(column.buffers()[1]).cast("i")
    first, last = offsets[column.offset], offsets[column.offset + len(column)]
    return column.buffers()[2].slice(first, last - first) if last > first else pa.py_buffer(b"")


def is_clean(data: pa.Buffer) -> bool:
    """Whether UTF-8 text needs no escapes in JSON: no control characters, quotes, backslashes, or characters beyond the basic plane."""
    if not data.size:
        return True
    codes = pc.min_max(pa.Array.from_buffers(pa.uint8(), data.size, [None, data])).as_py()
    if codes["min"] < _LEAST_PRINTABLE or codes["max"] >= _FOUR_BYTES:
        return False
    text = data.to_pybytes()
    return b'"' not in text and b"\\" not in text


def _float_pieces(_schema: Schema, column: pa.Array, _rules: JsonRules) -> Pieces:
    text = double_texts(column)
    is_number = pc.is_finite(column)
    if not pc.all(is_number).as_py():
        text = pc.if_else(is_number, text, pc.binary_join_element_wise('"', text, '"', ""))
    return [text]


def _bytes_pieces(_schema: Schema, column: pa.Array, _rules: JsonRules) -> Pieces:
    return ['"', base64_text(column), '"']


def _decimal_pieces(_schema: Schema, column: pa.Array, rules: JsonRules) -> Pieces:
    return [column.cast(pa.string())] if rules.is_numeric else ['"', base64_text(decimal_bytes(column)), '"']


def _struct_pieces(schema: Schema, column: pa.Array, rules: JsonRules) -> Pieces:
    pieces: Pieces = ["{"]
    for field, child in zip(schema.fields, column.flatten(), strict=True):
        pieces += [f"{',' if field.index else ''}{quoted(field.name)}:", *column_pieces(field.schema, child, rules)]
    return [*pieces, "}"]


def _array_pieces(schema: Schema, column: pa.Array, rules: JsonRules) -> Pieces:
    assert schema.value_schema is not None
    entries = column.flatten()
    texts = joined(column_pieces(schema.value_schema, entries, rules), len(entries))
    return ["[", _rejoined(column, texts), "]"]


def _map_pieces(schema: Schema, column: pa.Array, rules: JsonRules) -> Pieces:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    first, last = column.offsets[0].as_py(), column.offsets[len(column)].as_py()
    keys = column_pieces(schema.key_schema, column.keys.slice(first, last - first), rules)
    values = column_pieces(schema.value_schema, column.items.slice(first, last - first), rules)
    if schema.key_schema.type is SchemaType.STRING:
        return ["{", _rejoined(column, joined([*keys, ":", *values], last - first)), "}"]
    return ["[", _rejoined(column, joined(["[", *keys, ",", *values, "]"], last - first)), "]"]


def _rejoined(column: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of the entries of each list or map, separated by commas."""
    offsets = column.offsets
    lists = pa.ListArray.from_arrays(pc.subtract(offsets, offsets[0]), texts)
    return pc.binary_join(lists, ",")


_PIECES: Final[dict[SchemaType, Callable[[Schema, pa.Array, JsonRules], Pieces]]] = {
    SchemaType.STRING: _string_pieces,
    SchemaType.FLOAT32: _float_pieces,
    SchemaType.FLOAT64: _float_pieces,
    SchemaType.BYTES: _bytes_pieces,
    SchemaType.STRUCT: _struct_pieces,
    SchemaType.ARRAY: _array_pieces,
    SchemaType.MAP: _map_pieces,
}


def texts_of(values: Iterable[str | None]) -> pa.Array:
    """JSON texts that were created one by one, as a column of the bytes for the topic."""
    return pa.array([None if text is None else text.encode() for text in values], type=pa.binary())
