"""Columns of JSON text → typed columns, parsed by Arrow. The results are the same as Connect's. The reader refuses texts for which this is
not certain (``NotPlain``). The exact reader then reads those texts value by value.

The texts become one stream of documents. Each text is wrapped as ``{"v":…}`` on a separate line. So ``}`` and the start of a new object are
between two records. No JSON value can contain this sequence. If there are as many documents as records, each record is exactly one
document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final

from airflow_provider_connect.codecs.json.base64_column import bytes_of, decimals_of
from airflow_provider_connect.codecs.json.values import DAY_MS, JsonRules
from airflow_provider_connect.codecs.json.writer import data_of, is_clean
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.expansion import check_bytes
from airflow_provider_connect.data.json_text import MAX_DEPTH, MAX_NUMBER_LENGTH, SHORTEST_BEYOND, depth_of, may_have_long_number
from airflow_provider_connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, check_rows

_PREFIX: Final = b'{"v":'
_NO_JSON: Final = (b"NaN", b"Inf")
LETTER_OUTSIDE_STRINGS: Final = r'(?s)^(?:[^"NI]|"(?:[^"\\]|\\.)*")*[NI]'  # for RE2, which takes linear time
"""Matches JSON texts with an ``N`` or ``I`` outside strings, as in ``NaN`` and ``Infinity``. Python prints these words for floats, but they
are not valid JSON."""
_QUOTED_NUMBER: Final = re.compile(rb':\s*"[-+0-9.eE]+"')
_ROW: Final = re.compile(r"in row (\d+)$")
_BLOCK_BYTES: Final = (1 << 31) - 1


class NotPlain(Exception):
    """Arrow's parser cannot read these texts, or this schema. ``row`` is the index of the first such text, if the parser names it."""

    def __init__(self, row: int | None = None) -> None:
        super().__init__(row)
        self.row = row


def read_column(schema: Schema, texts: pa.Array, rules: JsonRules, *, after: bytes = b"") -> pa.Array:
    """The values of JSON texts (binary, no nulls), in the Arrow type of ``schema``.

    Each text ends with ``after``, which is not part of the value: the ``}`` of an envelope. Raises NotPlain.
    """
    wire = _wire_type(schema, rules)
    if schema.type is SchemaType.STRING:
        plain = _clean_strings(texts, after)
        if plain is not None:
            return plain
    data = _documents(texts, after)
    check_rows(schema, len(texts))
    for entries in _lists_of_structs(schema):
        check_rows(entries, min(data.count(b"{"), data.count(b",") + 1))
    _refuse_no_json(texts, data)
    _refuse_long_numbers(texts, data)
    if rules.is_numeric and _has_decimal(schema) and _QUOTED_NUMBER.search(data):
        raise NotPlain
    column = _parsed(data, pa.schema([pa.field("v", wire)]), "error")
    if len(column) != len(texts):
        raise NotPlain
    return _typed(schema, column, rules)


def _clean_strings(texts: pa.Array, after: bytes) -> pa.Array | None:
    """The strings without their quotation marks. None unless all texts are strings without escapes."""
    end = b'"' + after
    if not (pc.all(pc.starts_with(texts, b'"')).as_py() and pc.all(pc.ends_with(texts, end)).as_py()):
        return None
    inner = pc.binary_slice(texts, 1, -len(end))
    if not is_clean(data_of(inner)) or len(data_of(texts)) - len(data_of(inner)) != (1 + len(end)) * len(texts):
        return None
    try:
        return inner.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise NotPlain from error


def check_documents(texts: pa.Array) -> None:
    """Raises NotPlain unless each text (binary, no nulls) is exactly one JSON value, within the limits of ``json_text``."""
    data = _documents(texts, b"")
    _refuse_no_json(texts, data)
    _refuse_long_numbers(texts, data)
    nothing = pa.schema([pa.field("\0", pa.null())])
    # After a value, one form accepts a further field, and the other a further value. Only texts that fit both forms are valid.
    for documents in (data, _documents(texts, b"", _PREFIX + b"[", b"]}")):
        if len(_parsed(documents, nothing, "ignore")) != len(texts):
            raise NotPlain
    if _longest(texts) >= SHORTEST_BEYOND and depth_of(data) > MAX_DEPTH + 1:  # one level is the object around each text
        raise NotPlain(_first(texts, lambda text: depth_of(text) > MAX_DEPTH))


def json_column(texts: pa.Array) -> pa.Array:
    """A column of unchanged JSON texts (binary, no nulls). Each text is one JSON value. The text ``null`` becomes null. Raises NotPlain."""
    try:
        storage = texts.cast(pa.string())
    except pa.ArrowInvalid as error:  # not UTF-8
        raise NotPlain from error
    is_null = pc.equal(pc.ascii_trim_whitespace(storage), "null")
    return pa.ExtensionArray.from_storage(pa.json_(), pc.if_else(is_null, None, storage))


def _refuse_no_json(texts: pa.Array, data: bytes) -> None:
    """Raises NotPlain for words outside strings that the parser reads as numbers, but that are not JSON. Searching for a letter is faster
    than for a word, and searching for a word is faster than finding strings."""
    if not any(word[:1] in data and word in data for word in _NO_JSON):
        return
    row = pc.index(pc.match_substring_regex(texts, LETTER_OUTSIDE_STRINGS), True).as_py()
    if row >= 0:
        raise NotPlain(row)


def _refuse_long_numbers(texts: pa.Array, data: bytes) -> None:
    """Raises NotPlain if a number may be longer than allowed."""
    if _longest(texts) > MAX_NUMBER_LENGTH and may_have_long_number(data):
        raise NotPlain(_first(texts, may_have_long_number))


def _longest(texts: pa.Array) -> int:
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)


def _first(texts: pa.Array, test: Callable[[bytes], bool]) -> int | None:
    """The index of the first text that passes ``test``."""
    return next((index for index, text in enumerate(texts.to_pylist()) if test(text)), None)


def _documents(texts: pa.Array, after: bytes, prefix: bytes = _PREFIX, end: bytes = b"}") -> bytes:
    """Each text between ``prefix`` and ``end``. With ``after``, ``end`` is not added, because the texts already have their end."""
    end = b"" if after else end
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], type=pa.int32()), texts)
    separator = end + b"\n" + prefix
    return b"".join((prefix, pc.binary_join(lists, pa.scalar(separator, texts.type))[0].as_buffer(), end, b"\n"))


def _parsed(data: bytes, schema: pa.Schema, unexpected: str) -> pa.Array:
    reader = import_module("pyarrow.json")
    try:
        table = reader.read_json(
            pa.BufferReader(data),
            read_options=reader.ReadOptions(use_threads=False, block_size=min(len(data) + 1, _BLOCK_BYTES)),
            parse_options=reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except pa.ArrowInvalid as error:
        found = _ROW.search(str(error))
        raise NotPlain(int(found[1]) if found else None) from error
    column = table.column(0).combine_chunks()
    if not data.isascii():
        _refuse_broken_text(column)
    return column


def _refuse_broken_text(column: pa.Array) -> None:
    """Raises NotPlain for text that is not UTF-8, because the parser accepts such text."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise NotPlain from error


def _wire_type(schema: Schema, rules: JsonRules) -> pa.DataType:
    """The Arrow type of the JSON values. Raises NotPlain for maps, because maps are objects, and Arrow reads objects only as structs of
    known fields."""
    if schema.key_schema is not None:
        raise NotPlain
    if schema.value_schema is not None:
        return pa.list_(_wire_type(schema.value_schema, rules))
    if schema.type is SchemaType.STRUCT:
        return pa.struct([pa.field(field.name, _wire_type(field.schema, rules)) for field in schema.fields])
    logical = schema.logical_name
    if logical == DECIMAL and rules.is_numeric:
        return arrow_type(schema)
    if logical is not None and logical in _NUMBERS_BENEATH:
        return pa.type_for_alias(_NUMBERS_BENEATH[logical])
    return pa.string() if schema.type is SchemaType.BYTES else arrow_type(schema)


_NUMBERS_BENEATH: Final = {DATE: "int32", TIME: "int32", TIMESTAMP: "int64"}


def _lists_of_structs(schema: Schema) -> Iterator[Schema]:
    """The structs in lists. Their number is limited only by the size of the record."""
    if schema.value_schema is not None and schema.value_schema.type is SchemaType.STRUCT:
        yield schema.value_schema
    for inner in (*(field.schema for field in schema.fields), *([schema.value_schema] if schema.value_schema else [])):
        yield from _lists_of_structs(inner)


def _has_decimal(schema: Schema | None) -> bool:
    if schema is None:
        return False
    return schema.logical_name == DECIMAL or _has_decimal(schema.value_schema) or any(_has_decimal(f.schema) for f in schema.fields)


def _typed(schema: Schema, column: pa.Array, rules: JsonRules) -> pa.Array:
    """The column in the type of its schema. Nulls stay null, become the default, or are refused."""
    if not column.null_count:
        return _dense(schema, column, rules)
    dense = column.drop_null()
    values = _dense(schema, dense, rules)
    if schema.default is not None and rules.fills_defaults:
        default = column_of([schema.default], schema)
        check_bytes(default.nbytes * column.null_count, f"The default of {column.null_count} fields, {default.nbytes} bytes,")
        values = pa.concat_arrays([values, default])
        missing = pa.scalar(len(dense), pa.int64())
    elif schema.optional:
        missing = pa.scalar(None, pa.int64())
    else:
        raise NotPlain
    is_valid = column.is_valid()
    positions = pc.subtract(pc.cumulative_sum(is_valid.cast(pa.int64())), 1)
    return values.take(pc.if_else(is_valid, positions, missing))


def _dense(schema: Schema, column: pa.Array, rules: JsonRules) -> pa.Array:
    wanted, logical = arrow_type(schema), schema.logical_name
    if schema.type is SchemaType.STRUCT:
        children = [_typed(field.schema, child, rules) for field, child in zip(schema.fields, column.flatten(), strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(wanted)) if children else column.cast(wanted)
    if schema.value_schema is not None:
        entries = _typed(schema.value_schema, column.flatten(), rules)
        offsets = column.offsets
        return pa.ListArray.from_arrays(pc.subtract(offsets, offsets[0]), entries, type=wanted)
    if logical == DECIMAL and not rules.is_numeric:
        return _decimals(_bytes(column), wanted)
    if logical == TIME and not pc.all(pc.and_(pc.greater_equal(column, 0), pc.less_equal(column, DAY_MS))).as_py():
        raise NotPlain
    if schema.type is SchemaType.BYTES and logical is None:
        return _bytes(column)
    return column.cast(wanted)


def _bytes(column: pa.Array) -> pa.Array:
    data = bytes_of(column)
    if data is None:
        raise NotPlain
    return data


def _decimals(data: pa.Array, wanted: pa.DataType) -> pa.Array:
    try:
        return decimals_of(data, wanted)
    except pa.ArrowInvalid as error:
        raise NotPlain from error
