"""Protobuf's binary encoding in columns, against google.protobuf record by record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.codecs.protobuf.decoder import decode_records
from airflow_provider_connect.codecs.protobuf.encoder import encode_records
from airflow_provider_connect.codecs.protobuf.messages import ProtoMessage, parse_proto
from airflow_provider_connect.codecs.protobuf.schemas import ProtobufRules, connect_schema
from airflow_provider_connect.errors import DataException

RULES = ProtobufRules()
TEXT = """syntax = "proto3";
package t;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Every {
  int32 i32 = 1; int64 i64 = 2; uint32 u32 = 3; uint64 u64 = 4; sint32 s32 = 5; sint64 s64 = 6;
  fixed32 f32 = 7; fixed64 f64 = 8; sfixed32 sf32 = 9; sfixed64 sf64 = 10; float fl = 11; double db = 12;
  bool flag = 13; string text = 14; bytes data = 15; Kind kind = 16;
  optional int32 maybe = 17; optional string maybe_text = 18; Inner inner = 19;
  repeated int32 numbers = 20; repeated double doubles = 21; repeated string words = 22; repeated Inner inners = 23;
  repeated int64 loose = 24 [packed = false]; repeated Kind kinds = 25; repeated fixed32 fixeds = 26; repeated bool flags = 27;
  map<string, int64> counts = 28; map<int32, Inner> places = 29; map<string, Kind> kind_of = 34;
  oneof choice { string name = 30; int32 number = 31; Inner other = 32; bytes raw = 33; }
  google.protobuf.Timestamp at = 100; google.protobuf.StringValue wrapped = 2000;
  enum Kind { NONE = 0; SMALL = 1; LARGE = 300; NEGATIVE = -1; }
  message Inner { int32 x = 1; string s = 2; optional bool b = 3; repeated sint32 deep = 4; Deeper deeper = 5; }
  message Deeper { int64 y = 1; }
}
message Less { int32 i32 = 1; string text = 14; Every.Inner inner = 19; }
"""
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
I32 = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-3, 3))
I64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))
KIND = st.sampled_from([0, 1, 300, -1])
TEXTS, DATA, FLOATS = st.text(max_size=8), st.binary(max_size=8), st.floats(allow_nan=False, width=32)
INNER = st.fixed_dictionaries(
    {},
    optional={
        "x": I32,
        "s": TEXTS,
        "b": st.booleans(),
        "deep": st.lists(I32, max_size=3),
        "deeper": st.fixed_dictionaries({}, optional={"y": I64}),
    },
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("i32", "s32", "sf32", "maybe"), I32),
    **dict.fromkeys(("i64", "s64", "sf64"), I64),
    **dict.fromkeys(("u32", "f32"), U32),
    **dict.fromkeys(("u64", "f64"), U64),
    **dict.fromkeys(("fl", "db"), FLOATS),
    "flag": st.booleans(),
    "text": TEXTS,
    "maybe_text": TEXTS,
    "data": DATA,
    "kind": KIND,
    "inner": INNER,
    "numbers": st.lists(I32, max_size=4),
    "doubles": st.lists(FLOATS, max_size=3),
    "words": st.lists(TEXTS, max_size=4),
    "inners": st.lists(INNER, max_size=3),
    "loose": st.lists(I64, max_size=3),
    "kinds": st.lists(KIND, max_size=3),
    "fixeds": st.lists(U32, max_size=3),
    "flags": st.lists(st.booleans(), max_size=3),
    "counts": st.dictionaries(TEXTS, I64, max_size=3),
    "places": st.dictionaries(I32, INNER, max_size=3),
    "kind_of": st.dictionaries(TEXTS, KIND, max_size=2),
    "at": st.fixed_dictionaries(
        {}, optional={"seconds": st.integers(-(10**10), 10**10), "nanos": st.integers(0, 999).map(lambda n: n * 10**6)}
    ),
    "wrapped": st.fixed_dictionaries({}, optional={"value": TEXTS}),
}
CHOICE: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"name": TEXTS}),
    st.fixed_dictionaries({"number": I32}),
    st.fixed_dictionaries({"other": INNER}),
    st.fixed_dictionaries({"raw": DATA}),
)
RECORDS = st.tuples(st.fixed_dictionaries({}, optional=FIELDS), CHOICE).map(lambda both: both[0] | both[1])


@cache
def messages() -> tuple[ProtoMessage, ProtoMessage]:
    file = parse_proto(TEXT, {})
    return file.message((0,)), file.message((1,))


def new(message: ProtoMessage, values: dict[str, Any] | None = None) -> Any:
    """google.protobuf's own record of some values."""
    record = message_factory.GetMessageClass(message.descriptor)()
    fill(record, values or {})
    return record


def fill(record: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        field = record.DESCRIPTOR.fields_by_name[name]
        if isinstance(value, dict) and field.is_repeated:
            entries = getattr(record, name)
            for key, entry in value.items():
                if isinstance(entry, dict):
                    fill(entries[key], entry)
                else:
                    entries[key] = entry
        elif isinstance(value, dict):
            getattr(record, name).SetInParent()
            fill(getattr(record, name), value)
        elif isinstance(value, list) and field.message_type is not None:
            for entry in value:
                fill(getattr(record, name).add(), entry)
        elif isinstance(value, list):
            getattr(record, name).extend(value)
        else:
            setattr(record, name, value)


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def expected(record: Any) -> dict[str, Any]:
    """What Connect's Java converter reads from a record, by google.protobuf."""
    found: dict[str, Any] = {}
    for oneof in record.DESCRIPTOR.oneofs:
        if oneof.name.startswith("_"):
            continue
        chosen = record.WhichOneof(oneof.name)
        members = {each.name: value_of(each, getattr(record, each.name)) if each.name == chosen else None for each in oneof.fields}
        found[f"{oneof.name}_0"] = None if chosen is None else members
    for field in record.DESCRIPTOR.fields:
        if field.containing_oneof is not None and not field.containing_oneof.name.startswith("_"):
            continue
        if field.is_repeated or not field.has_presence or record.HasField(field.name):
            found[field.name] = values_of(field, getattr(record, field.name))
        else:
            found[field.name] = None
    return found


def values_of(field: Any, value: Any) -> Any:
    if not field.is_repeated:
        return value_of(field, value)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {key: value_of(inner, value[key]) for key in value}
    return [value_of(field, each) for each in value]


def value_of(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        symbol = field.enum_type.values_by_number.get(value)
        return f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_{value}" if symbol is None else symbol.name
    if field.message_type is None:
        return signed(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if field.message_type.name == "Timestamp":
        return value.seconds * 1000 + value.nanos // 1_000_000
    return expected(value)


def plain(type: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_map(type):
        return {key: plain(type.item_type, entry) for key, entry in value}
    if pa.types.is_struct(type):
        return {field.name: plain(field.type, value[field.name]) for field in type}
    return [plain(type.value_type, entry) for entry in value] if pa.types.is_list(type) else value


def numbered(column: pa.Array) -> list[Any]:
    """A column's values; timestamps are milliseconds, since Python has no such early years."""
    index = column.type.get_field_index("at")
    if index >= 0:
        children = column.flatten()
        children[index] = children[index].view(pa.int64())
        column = pa.StructArray.from_arrays(children, names=[field.name for field in column.type])
    return [plain(column.type, value) for value in column.to_pylist()]


def read(message: ProtoMessage, records: Sequence[bytes], rules: ProtobufRules = RULES) -> list[Any]:
    return numbered(decode_records(message, connect_schema(message, rules), rules, pa.array(records, pa.binary())))


def test_records_are_read_as_google_reads_them_and_written_back_to_the_byte() -> None:
    every, _ = messages()
    schema = connect_schema(every, RULES)

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(st.lists(RECORDS, min_size=1, max_size=6))
    def run(values: list[dict[str, Any]]) -> None:
        records = [new(every, each) for each in values]
        data = [each.SerializeToString(deterministic=True) for each in records]
        column = pa.array([b"before", *data], pa.binary()).slice(1)
        decoded = decode_records(every, schema, RULES, column)
        assert numbered(decoded) == [expected(each) for each in records]
        written = encode_records(every, schema, decoded, RULES).to_pylist()
        for theirs, ours, record in zip(data, written, records, strict=True):
            again = type(record).FromString(ours)
            assert again == record
            if not (record.counts or record.places or record.kind_of):  # maps have no order, and their defaults may be written
                assert ours == theirs

    run()


def test_fields_come_in_any_order_more_than_once_and_unknown() -> None:
    every, less = messages()
    full = new(every, {"i32": 5, "text": "last", "words": ["a", "b"], "numbers": [1, 2, 3], "inner": {"x": 7}, "number": 4})
    text, number = b"\x72\x05first", b"\x08\x09"
    data = full.SerializeToString()
    pieces = [number + data + b"\x08\x07", text + data, data + text, data[::1] + b"\xa0\x01\x2a", data + b"\x9a\x01\x02\x12\x00", data]
    records = [*pieces, b"", data + b"\xf2\x01\x01n" + b"\xf8\x01\x09", data + b"\xfa\xff\x01\x03abc"]
    assert read(every, records) == [expected(type(full).FromString(each)) for each in records]
    part = new(less)
    assert read(less, records) == [expected(type(part).FromString(each)) for each in records]


def test_two_parts_of_a_message_are_one_and_unknown_groups_are_left_out() -> None:
    every, _ = messages()
    record = new(every)
    parts = b"\x9a\x01\x02\x08\x05" + b"\x9a\x01\x04\x12\x02ab"
    group = b"\xa3\x3e\x08\x01\xa4\x3e"
    records = [parts, group + b"\x08\x03", b"\x08\x01"]
    assert read(every, records) == [expected(type(record).FromString(each)) for each in records]


def test_a_list_may_be_packed_in_part_and_a_key_twice() -> None:
    every, _ = messages()
    record = new(every)
    mixed = b"\xa0\x01\x01" + b"\xa2\x01\x03\x02\xac\x02" + b"\xa0\x01\x05" + b"\xc2\x01\x02\x07\x08" + b"\xa9\x01" + b"\0" * 8
    keys = b"\xe2\x01\x05\x0a\x01a\x10\x01" + b"\xe2\x01\x05\x0a\x01b\x10\x02" + b"\xe2\x01\x05\x0a\x01a\x10\x03" + b"\xe2\x01\x00"
    records = [mixed, keys, mixed + keys, b""]
    found = read(every, records)
    assert found == [expected(type(record).FromString(each)) for each in records]
    assert found[0]["numbers"] == [1, 2, 300, 5]
    assert found[1]["counts"] == {"a": 3, "b": 2, "": 0}


def test_numbers_of_more_than_32_bits_are_cut_as_google_cuts_them() -> None:
    every, _ = messages()
    record = new(every)
    long = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    records = [bytes([number << 3]) + value for number in (1, 2, 3, 4, 5, 6) for value in (long, b"\x80\x80\x80\x80\x18", b"\x81\x00")]
    records += [b"\x68" + long, b"\x68\x80\x00"]
    assert read(every, records) == [expected(type(record).FromString(each)) for each in records]


@pytest.mark.parametrize(
    "broken",
    [
        b"\x08",
        b"\x08\x80",
        b"\x72\x05abc",
        b"\x72\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x72\x02\xff\xfe",
        b"\x00\x01",
        b"\x0f\x01",
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x59\x00",
        b"\x9a\x01\x02\x08",
        b"\xa2\x01\x02\x01\x80",
        b"\xaa\x01\x07" + b"\0" * 7,
        b"\x80",
        b"\xa3\x3e\x08\x01",
        b"\xa4\x3e",
        b"\xa2\x06\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01",
    ],
)
def test_a_broken_record_is_refused_and_mostly_named(broken: bytes) -> None:
    every, _ = messages()
    good = new(every, {"i32": 1, "text": "x", "at": {"seconds": 3}}).SerializeToString()
    with pytest.raises(DataException) as caught:
        read(every, [good, good, broken, good])
    assert caught.value.record in (2, None)


def test_cut_and_changed_bytes_end_in_values_or_in_refusals() -> None:
    """As google.protobuf reads them, where it reads them."""
    every, _ = messages()
    record = new(every, {"i32": 5, "text": "tea", "words": ["a"], "numbers": [1, 300], "inner": {"x": 7}, "name": "n"})
    data = record.SerializeToString()
    changed = [data[:length] for length in range(len(data))]
    changed += [data[:n] + bytes([byte]) + data[n + 1 :] for n in range(len(data)) for byte in (0, 8, 0x7F, 0xFF, data[n] ^ 1)]
    refused = 0
    for each in changed:
        try:
            theirs = type(record).FromString(each)
        except DecodeError:
            theirs = None
        try:
            found = read(every, [data, each])[1]
        except DataException:
            refused += 1
            assert theirs is None, each
        else:
            assert theirs is not None, each
            assert found == expected(theirs), each
    assert 0 < refused < len(changed)
