"""Records of a few kilobytes that stand for gigabytes of values: they are refused before these are made, and found by halves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.codecs.avro.avro_type import parse_avro
from airflow_provider_connect.codecs.avro.connect_schemas import AvroRules
from airflow_provider_connect.codecs.avro.connect_schemas import connect_schema as connect_avro
from airflow_provider_connect.codecs.avro.decoder import decode_records as decode_avro
from airflow_provider_connect.codecs.protobuf.decoder import decode_records as decode_protobuf
from airflow_provider_connect.codecs.protobuf.encoder import encode_records as encode_protobuf
from airflow_provider_connect.codecs.protobuf.messages import parse_proto
from airflow_provider_connect.codecs.protobuf.schemas import ProtobufRules, connect_schema, proto_text
from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.data.columns import column_of, fill_nulls
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import DataException

ENTRIES = 4000
WIDE = 15_000


def wide_protobuf() -> str:
    """Types of few lines: fields of fields, 15,600 in all."""
    fields = "".join(f"int32 f{number} = {number};" for number in range(1, 151))
    inner = "".join(f"Leaf l{number} = {number};" for number in range(1, 101))
    return f'syntax = "proto3"; message Root {{ repeated Wide w = 1; }} message Wide {{ {inner} }} message Leaf {{ {fields} }}'


def protobuf_entries() -> Any:
    message = parse_proto(wide_protobuf(), {}).message((0,))
    return decode_protobuf(message, connect_schema(message), ProtobufRules(), pa.array([b"\x0a\x00" * ENTRIES], pa.binary()))


def avro_entries() -> Any:
    nothing = {"type": "fixed", "name": "F", "size": 0}
    fields = [{"name": f"f{number}", "type": "F" if number else nothing} for number in range(WIDE)]
    record = {"type": "record", "name": "R", "fields": fields}
    type = parse_avro(json.dumps({"type": "array", "items": record}))
    count = bytearray()
    number = 2 * ENTRIES
    while number > 127:
        count.append(number & 127 | 128)
        number >>= 7
    return decode_avro(type, connect_avro(type, AvroRules()), pa.array([bytes([*count, number]) + bytes(ENTRIES)], pa.binary()))


def json_schema(inner: str, *, items: bool) -> str:
    fields = ",".join(f'{{"field":"f{number}","optional":true,{inner}}}' for number in range(WIDE))
    struct = f'{{"type":"struct","fields":[{fields}]}}'
    return f'{{"type":"array","items":{struct}}}' if items else struct


def converted(schema: str, payloads: list[str]) -> Any:
    converter = JsonConverter()
    converter.configure({"schema.content": schema}, is_key=False)
    return converter.to_connect_column("t", pa.array([payload.encode() for payload in payloads], pa.binary()))


def json_entries() -> Any:
    return converted(json_schema('"type":"int64"', items=True), [f"[{','.join(['{}'] * ENTRIES)}]"])


def json_records() -> Any:
    return converted(json_schema('"type":"int64"', items=False), ["{}"] * ENTRIES)


def json_defaults() -> Any:
    schema = '{"type":"struct","fields":[{"field":"a","type":"string","optional":true,"default":"%s"}]}'
    return converted(schema % ("x" * 1_000_000), ["{}"] * ENTRIES)


def written_defaults() -> Any:
    return fill_nulls(pa.nulls(ENTRIES, pa.string()), STRING_SCHEMA.with_default("x" * 1_000_000))


def protobuf_defaults() -> Any:
    text = f'syntax = "proto2"; message R {{ optional string a = 1 [default = "{"x" * 1_000_000}"]; }}'
    message = parse_proto(text, {}).message((0,))
    rules = ProtobufRules(optional_for_proto2=False)
    return decode_protobuf(message, connect_schema(message, rules), rules, pa.array([b""] * ENTRIES, pa.binary()))


@pytest.mark.parametrize(
    "read", [protobuf_entries, avro_entries, json_entries, json_records, json_defaults, written_defaults, protobuf_defaults]
)
def test_records_that_stand_for_too_many_values_are_refused_before_these_are_made(read: Callable[[], Any]) -> None:
    with pytest.raises(DataException, match=r"bytes of memory; the limit is 268435456|entries of many fields without bytes"):
        read()


def test_defaults_of_usual_size_are_filled_in() -> None:
    column = pa.array([None, 5, None], pa.int64())
    assert fill_nulls(column, INT64_SCHEMA.with_default(7)).to_pylist() == [7, 5, 7]


def test_a_protobuf_record_with_usual_defaults_is_written() -> None:
    schema = Schema.struct({"a": STRING_SCHEMA.as_optional().with_default("x")})
    text, _ = proto_text(schema, ProtobufRules())
    message = parse_proto(text, {}).message((0,))
    written = encode_protobuf(message, schema, column_of([{"a": None}], schema), ProtobufRules(), b"")
    assert written.to_pylist() == [b"\x0a\x01x"]
