"""Avro's binary encoding in columns, against fastavro record by record."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.codecs.avro.avro_type import parse_avro
from airflow_provider_connect.codecs.avro.connect_schemas import AvroRules, connect_schema
from airflow_provider_connect.codecs.avro.decoder import decode_records
from airflow_provider_connect.codecs.avro.encoder import AvroWriting, encode_records
from airflow_provider_connect.codecs.record_bytes import Cursor, Pieces, from_zigzag, to_zigzag
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.schema import INT32_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import DataException

WRITING = AvroWriting(keeps_nulls=True)
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}, {"name": "s", "type": ["null", "string"]}]}
FIELDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "bool": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-100, 100))),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "text": ("string", st.text(max_size=20)),
    "bytes": ("bytes", st.binary(max_size=20)),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, st.binary(min_size=3, max_size=3)),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")),
    "maybe": (["null", "long"], st.one_of(st.none(), st.integers(-(2**40), 2**40))),
    "last null": (["string", "null"], st.one_of(st.none(), st.text(max_size=5))),
    "numbers": ({"type": "array", "items": "long"}, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)),
    "doubles": ({"type": "array", "items": "double"}, st.lists(st.floats(allow_nan=False), max_size=5)),
    "words": ({"type": "array", "items": "string"}, st.lists(st.text(max_size=9), max_size=4)),
    "optional words": ({"type": "array", "items": ["null", "string"]}, st.lists(st.one_of(st.none(), st.text(max_size=9)), max_size=4)),
    "lists": (
        {"type": "array", "items": {"type": "array", "items": "int"}},
        st.lists(st.lists(st.integers(-5, 5), max_size=3), max_size=3),
    ),
    "map": (
        {"type": "map", "values": ["null", "int"]},
        st.dictionaries(st.text(max_size=3), st.one_of(st.none(), st.integers(-9, 9)), max_size=3),
    ),
    "place": (PLACE, st.fixed_dictionaries({"x": st.integers(-9, 9), "s": st.one_of(st.none(), st.text(max_size=3))})),
    "maybe place": (["null", PLACE], st.one_of(st.none(), st.fixed_dictionaries({"x": st.integers(-9, 9), "s": st.none()}))),
}


def avro_bytes(schema: Any, values: list[Any]) -> list[bytes]:
    parsed, found = fastavro.parse_schema(schema), []
    for value in values:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, value)
        found.append(buffer.getvalue())
    return found


def plain(column: pa.Array) -> list[Any]:
    """The values of a column as fastavro has them: maps are dicts."""
    return [_plain(column.type, value) for value in column.to_pylist()]


def _plain(type: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_map(type):
        return {key: _plain(type.item_type, entry) for key, entry in value}
    if pa.types.is_struct(type):
        return {field.name: _plain(field.type, value[field.name]) for field in type}
    return [_plain(type.value_type, entry) for entry in value] if pa.types.is_list(type) else value


@pytest.mark.parametrize("name", FIELDS)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_columns_are_fastavros_records(name: str, data: st.DataObject) -> None:
    kind, values_of_kind = FIELDS[name]
    schema = {"type": "record", "name": "R", "fields": [{"name": "before", "type": "int"}, {"name": "f", "type": kind}]}
    values = data.draw(st.lists(values_of_kind, max_size=12))
    records = [{"before": n - 5, "f": value} for n, value in enumerate(values)]
    written = avro_bytes(schema, records)
    type = parse_avro(json.dumps(schema))
    own = connect_schema(type, AvroRules(keeps_enums=True))
    column = decode_records(type, own, pa.array([b"before", *(b"head" + each for each in written)], pa.binary()).slice(1), 4)
    column.validate(full=True)
    assert plain(column) == records
    again = encode_records(type, own, column, WRITING)
    assert decode_records(type, own, again).equals(column)
    assert again.to_pylist() == written
    part = column.slice(len(column) // 2)
    assert encode_records(type, own, part, WRITING).to_pylist() == again.slice(len(column) // 2).to_pylist()


UNION = ["null", "int", "string", PLACE]


def test_unions_of_several_types() -> None:
    values: list[Any] = [None, 5, "text", {"x": 1, "s": None}, None, -7, ""]
    written = avro_bytes(UNION, values)
    type = parse_avro(json.dumps(UNION))
    schema = connect_schema(type)
    column = decode_records(type, schema, pa.array(written, pa.binary()))
    none = {"int": None, "string": None, "Place": None}
    assert column.to_pylist() == [
        None,
        none | {"int": 5},
        none | {"string": "text"},
        none | {"Place": {"x": 1, "s": None}},
        None,
        none | {"int": -7},
        none | {"string": ""},
    ]
    assert encode_records(type, schema, column, WRITING).to_pylist() == written


def test_lists_in_several_blocks_and_blocks_with_their_size() -> None:
    for items, entry in (("long", b"\x02"), ("string", b"\x02a")):
        type = parse_avro(json.dumps({"type": "array", "items": items}))
        sized = b"\x03" + bytes([4 * len(entry)]) + entry * 2  # a count of -2, and the size in bytes
        records = [b"\x02" + entry + b"\x04" + entry * 2 + b"\x00", sized + b"\x02" + entry + b"\x00", b"\x00"]
        found = decode_records(type, connect_schema(type), pa.array(records, pa.binary())).to_pylist()
        assert [len(each) for each in found] == [3, 3, 0]


def test_decimals_in_bytes_and_in_fixed_types() -> None:
    attributes = {"logicalType": "decimal", "precision": 9, "scale": 2}
    for kind in ({"type": "bytes", **attributes}, {"type": "fixed", "name": "D", "size": 5, **attributes}):
        values = [Decimal("1.00"), Decimal("-1.28"), Decimal("0.00"), Decimal("12345.67"), Decimal("-9999999.99")]
        written = avro_bytes(kind, values)
        type = parse_avro(json.dumps(kind))
        schema = connect_schema(type)
        column = decode_records(type, schema, pa.array(written, pa.binary()))
        assert column.to_pylist() == values
        assert decode_records(type, schema, encode_records(type, schema, column, WRITING)).equals(column)
    small = parse_avro(json.dumps({"type": "fixed", "name": "D", "size": 1, **attributes}))
    with pytest.raises(DataException, match="more than 1 bytes"):
        encode_records(small, schema, column, WRITING)


ORDERS = Schema.struct({"id": INT32_SCHEMA, "what": STRING_SCHEMA.as_optional()}, name="Order")


def written_by(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Orders as they are written by a schema of the registry, and read by fastavro."""
    schema = {"type": "record", "name": "Order", "fields": fields}
    column = column_of([{"id": 1, "what": "tea"}, {"id": 2, "what": None}], ORDERS)
    written = encode_records(parse_avro(json.dumps(schema)), ORDERS, column, WRITING).to_pylist()
    parsed: Any = fastavro.parse_schema(schema)
    return [fastavro.schemaless_reader(io.BytesIO(record), parsed, None) for record in written]  # type: ignore[misc]


def test_another_schema_of_the_registry_orders_fills_and_leaves_out_fields() -> None:
    what, id = {"name": "what", "type": ["null", "string"]}, {"name": "id", "type": "long"}
    assert written_by([what, id]) == [{"what": "tea", "id": 1}, {"what": None, "id": 2}]
    assert written_by([id, {"name": "n", "type": "int", "default": 4}]) == [{"id": 1, "n": 4}, {"id": 2, "n": 4}]
    assert written_by([id, {"name": "n", "type": ["null", "int"], "default": None}]) == [{"id": 1, "n": None}, {"id": 2, "n": None}]


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ({"name": "n", "type": "int"}, "has a field n that the records have not"),
        ({"name": "id", "type": "string"}, "Cannot write field id of the value, of type INT32, as Avro's string"),
        ({"name": "what", "type": "string"}, "Found null for field what of the value"),
        ({"name": "what", "type": {"type": "enum", "name": "W", "symbols": ["cups"]}}, "has no symbol 'tea'|Found null"),
    ],
)
def test_records_that_a_schema_of_the_registry_does_not_take_are_refused(field: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataException, match=reason):
        written_by([field])


BROKEN = [
    ('"long"', b"\xff" * 9 + b"\x02", "more than 64 bits"),
    ('"int"', b"\x80\x80\x80\x80\x20", "more than 32 bits"),
    ('"boolean"', b"\x02", "neither 0 nor 1"),
    ('"string"', b"\x06ab", "ends within a value"),
    ('"string"', b"\x05", "ends within a value"),
    ('"bytes"', b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "ends within a value"),
    ('"string"', b"\x02\xff", "UTF-8"),
    ('"double"', b"1234567", "ends within a value"),
    ('"int"', b"", "ends within a value"),
    ('"int"', b"\x02\x02", "bytes are left"),
    ('["null","int"]', b"\x04", "no branch"),
    ('{"type":"enum","name":"E","symbols":["A"]}', b"\x02", "no symbol"),
    ('{"type":"array","items":{"type":"record","name":"N","fields":[]}}', b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", "more entries"),
    ('{"type":"array","items":"double"}', b"\x0212345678", "ends within a value"),
    ('{"type":"array","items":"long"}', b"\x06\x02\x02\x80", "ends within"),
    ('{"type":"map","values":"int"}', b"\x02\x02a\x02", "ends within a value"),
]


@pytest.mark.parametrize(("schema", "record", "reason"), BROKEN)
def test_a_broken_record_is_named_and_never_read_beyond(schema: str, record: bytes, reason: str) -> None:
    type = parse_avro(schema)
    with pytest.raises(DataException, match=reason):
        decode_records(type, connect_schema(type), pa.array([record], pa.binary()))
    good = {'"long"': b"\x02", '"string"': b"\x02a"}.get(schema)
    if good is not None and "UTF-8" not in reason:
        with pytest.raises(DataException) as caught:
            decode_records(type, connect_schema(type), pa.array([good, good, record, good], pa.binary()))
        assert caught.value.record == 2


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_random_bytes_are_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    fields = [
        {"name": f"f{n}", "type": kind} for n, kind in enumerate(["long", "string", ["null", "int"], {"type": "array", "items": "string"}])
    ]
    type = parse_avro(json.dumps({"type": "record", "name": "R", "fields": fields}))
    records = [chance.randbytes(chance.randrange(12)) for _ in range(5)]
    try:
        decode_records(type, connect_schema(type), pa.array(records, pa.binary())).validate(full=True)
    except DataException:
        return


@settings(deadline=None)
@given(numbers=st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_of_any_length(numbers: list[int]) -> None:
    values = np.array([0, -1, 63, 64, 2**63 - 1, -(2**63), *numbers], np.int64)
    column = Pieces.of_varints(to_zigzag(values)).column()
    assert (Cursor.of(column).signed() == values).all()
    assert (from_zigzag(to_zigzag(values)) == values).all()
