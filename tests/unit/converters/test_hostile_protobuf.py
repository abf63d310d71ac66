"""Schemas and records of Protobuf that strangers have written: what they cost, and which error they end in."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldOptions
from google.protobuf.message_factory import GetMessageClass

from airflow_provider_connect.codecs.protobuf.decoder import decode_records
from airflow_provider_connect.codecs.protobuf.fields import scan
from airflow_provider_connect.codecs.protobuf.messages import ProtoMessage, parse_proto
from airflow_provider_connect.codecs.protobuf.schemas import ProtobufRules, connect_schema
from airflow_provider_connect.codecs.record_bytes import Cursor
from airflow_provider_connect.errors import DataException, SchemaException

SYNTAX = 'syntax = "proto3";\n'
LISTS = f"""{SYNTAX}
message Lists {{
  repeated int64 whole = 1 [packed = false];
  repeated fixed32 four = 2 [packed = false];
  repeated double eight = 3 [packed = false];
  repeated string text = 4;
  repeated Inner inner = 1000;
  repeated int32 packed = 6;
  bytes rest = 7;
}}
message Inner {{ int32 x = 1; }}
"""
SCALARS = ("whole", "four", "eight", "text", "packed")


def message(text: str) -> ProtoMessage:
    return parse_proto(text, {}).message((0,))


def read(found: ProtoMessage, *records: bytes) -> Any:
    return decode_records(found, connect_schema(found), ProtobufRules(), pa.array(records, pa.binary())).to_pylist()


def lists(found: ProtoMessage, count: int) -> Any:
    """A record of long lists, as google.protobuf writes it."""
    record = GetMessageClass(found.descriptor)()
    record.whole.extend([0, 1, -1, 300, 1 << 40][number % 5] for number in range(count))
    record.four.extend(range(count))
    record.eight.extend(number / 3 for number in range(count))
    record.text.extend("é" * (number % 200) for number in range(count))
    record.packed.extend(range(-1, count - 1))
    for number in range(count):
        record.inner.add().x = number % 3
    return record


def test_long_lists_are_the_ones_that_were_written() -> None:
    found = message(LISTS)
    given = [lists(found, count) for count in (0, 1, 64, 65, 66, 500, 500)]
    for record, values in zip(given, read(found, *(each.SerializeToString() for each in given)), strict=True):
        assert {name: values[name] for name in SCALARS} == {name: list(getattr(record, name)) for name in SCALARS}
        assert [each["x"] for each in values["inner"]] == [each.x for each in record.inner]


def test_a_list_of_a_few_records_is_not_read_in_a_step_for_each_entry() -> None:
    """Else a record of a megabyte takes seconds of CPU time."""
    found = message(LISTS)
    record = b"\x08\x01" * 100_000
    fields, _ = scan(found, Cursor.of(pa.array([record, record], pa.binary())))
    assert len(fields["whole"].pieces) < 100
    assert sum(len(owners) for owners, _, _ in fields["whole"].pieces) == 200_000


@pytest.mark.parametrize(
    "end", [b"\x08", b"\x08\xff", b"\x08" + b"\xff" * 11, b"\x15\1\2\3", b"\x22\x05abc", b"\x22" + b"\xff" * 9 + b"\x01", b"\xc2\x3e\x7f"]
)
def test_a_long_list_that_is_cut_off_is_its_records_fault(end: bytes) -> None:
    found = message(LISTS)
    for start in (b"\x08\x01" * 200, b"\x15abcd" * 200, b"\x22\x00" * 200, b"\xc2\x3e\x00" * 200):
        with pytest.raises(DataException) as error:
            read(found, start, start + end)
        assert error.value.record == 1


def test_short_lists_are_found_among_much_else() -> None:
    found = message(LISTS)
    record = GetMessageClass(found.descriptor)(packed=[1, 300, -1], rest=b"\x01" * 100_000).SerializeToString()
    values = read(found, record, b"", record)
    assert [each["packed"] for each in values] == [[1, 300, -1], [], [1, 300, -1]]


def test_symbols_count_in_each_field_that_has_the_enum() -> None:
    """Each has them as parameters of its own: 300 kB of text would be gigabytes."""
    symbols = "".join(f"A{number} = {number};" for number in range(20_000))
    fields = "".join(f"E f{number} = {number + 1};" for number in range(30))
    assert len(message(f"{SYNTAX}message M {{ E e = 1; }} enum E {{ {symbols} }}").fields) == 1
    with pytest.raises(SchemaException, match="too long"):
        message(f"{SYNTAX}message M {{ {fields} }} enum E {{ {symbols} }}")


def test_a_long_name_counts_wherever_it_is_used() -> None:
    name, fields = "N" * 10_000, "".join(f"Outer f{number} = {number + 1};" for number in range(100))
    inner = "".join(f"{name} f{number} = {number + 1};" for number in range(100))
    assert message(f"{SYNTAX}message Outer {{ {inner} }} message {name} {{ int32 x = 1; }}").fields
    with pytest.raises(SchemaException, match="too long"):
        message(f"{SYNTAX}message M {{ {fields} }} message Outer {{ {inner} }} message {name} {{ int32 x = 1; }}")


def test_a_oneof_for_each_of_thousands_of_fields() -> None:
    found = message(f"{SYNTAX}message M {{ {''.join(f'oneof o{n} {{ int32 f{n} = {n + 1}; }}' for n in range(3000))} }}")
    schema = connect_schema(found)
    assert schema.fields[2999].name == "o2999_2999"
    assert [each.name for each in schema.fields[2999].schema.fields] == ["f2999"]


@pytest.mark.parametrize(
    "body",
    [
        "message M {} // \ud800",
        "message M { int32 a = 1 [(field_meta) = '\\n\\377\\377\\377']; } "
        + "extend google.protobuf.FieldOptions { bytes field_meta = 1088; }",
        "message M { " + "".join(f"oneof o{number} {{ int32 f{number} = {number + 1}; }}" for number in range(18_000)) + " }",
    ],
    ids=["half a character", "options that are none", "too many oneofs"],
)
def test_what_google_protobuf_does_not_take_is_a_schemas_fault(body: str) -> None:
    assert import_module("confluent_kafka.schema_registry.confluent.meta_pb2").field_meta.containing_type is FieldOptions.DESCRIPTOR
    with pytest.raises(SchemaException):
        message(f'{SYNTAX}import "google/protobuf/descriptor.proto"; {body}')


@pytest.mark.parametrize("name", ["/etc/passwd", "../known", "sources/a.proto", "connect-schema.proto", "./a.proto", "a/../../known"])
def test_no_import_reaches_a_file(name: str) -> None:
    with pytest.raises(SchemaException) as error:
        message(f'{SYNTAX}import "{name}"; message M {{}}')
    assert "root:" not in str(error.value)
    with pytest.raises(SchemaException):
        parse_proto(f'{SYNTAX}import "a.proto"; message M {{}}', {"a.proto": f'{SYNTAX}import "{name}";'})


def test_two_schemas_of_one_process_may_have_the_same_names() -> None:
    first, second = message(f"{SYNTAX}message M {{ int32 a = 1; }}"), message(f"{SYNTAX}message M {{ string a = 1; }}")
    assert read(first, b"\x08\x05") == [{"a": 5}]
    assert read(second, b"\x0a\x01x") == [{"a": "x"}]
