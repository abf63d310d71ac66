"""Connect's schemas ↔ Protobuf's, as Confluent's Java converter has them, and values by each of its settings."""

from __future__ import annotations

import base64
import dataclasses
import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from airflow_provider_connect.codecs.protobuf.decoder import decode_records
from airflow_provider_connect.codecs.protobuf.encoder import encode_records
from airflow_provider_connect.codecs.protobuf.messages import parse_proto
from airflow_provider_connect.codecs.protobuf.schemas import ProtobufRules, connect_schema, proto_text
from airflow_provider_connect.codecs.record_bytes import Pieces
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import DataException, SchemaException

RULES = ProtobufRules()
PREFIX = "io.confluent.connect.protobuf"
PLACE = Schema.struct({"x": INT32_SCHEMA, "name": STRING_SCHEMA.as_optional()}, name="shop.Place")
ORDER = Schema.struct(
    {
        "id": INT64_SCHEMA,
        "tiny": INT8_SCHEMA,
        "small": INT16_SCHEMA.as_optional(),
        "f": FLOAT32_SCHEMA,
        "d": FLOAT64_SCHEMA,
        "paid": BOOLEAN_SCHEMA,
        "raw": BYTES_SCHEMA.as_optional(),
        "price": decimal_schema(2).as_optional(),
        "day": DATE_SCHEMA.as_optional(),
        "time": TIME_SCHEMA.as_optional(),
        "at": TIMESTAMP_SCHEMA.as_optional(),
        "place": PLACE.as_optional(),
        "words": Schema.array(STRING_SCHEMA, optional=True),
        "places": Schema.array(PLACE, optional=True),
        "counts": Schema.map(STRING_SCHEMA, INT64_SCHEMA, optional=True, name="counts"),
    },
    name="shop.Order",
)
VALUES: dict[str, Any] = {
    "id": -5,
    "tiny": -3,
    "small": 300,
    "f": 0.5,
    "d": -1.25,
    "paid": True,
    "raw": b"\0\xff",
    "price": Decimal("-12.30"),
    "day": datetime.date(1969, 2, 28),
    "time": datetime.time(23, 59, 58, 7000),
    "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, datetime.UTC),
    "place": {"x": 1, "name": "here"},
    "words": ["a", ""],
    "places": [Struct(PLACE, {"x": 0, "name": None}), Struct(PLACE, {"x": 2, "name": "b"})],
    "counts": {"k": 1, "l": -1},
}


def tagged(number: int, schema: Schema, **parameters: str) -> Schema:
    """A field as it is read back: optional, with its number."""
    return dataclasses.replace(schema, optional=True, parameters={**(schema.parameters or {}), **parameters, f"{PREFIX}.Tag": str(number)})


def round_trip(schema: Schema, values: list[Any], rules: ProtobufRules = RULES) -> tuple[Schema, list[Any], list[bytes]]:
    """Written with the schema's own message and read: the schema then, plain values, and the bytes."""
    text, name = proto_text(schema, rules)
    file = parse_proto(text, {})
    message = file.message(file.indexes(name) or ())
    written = encode_records(message, schema, column_of(values, schema), rules)
    read = connect_schema(message, rules)
    return read, [plain(each) for each in values_of(decode_records(message, read, rules, written), read)], written.to_pylist()


def plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: plain(value.get_without_default(name)) for name in value}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def read_schema(text: str, rules: ProtobufRules = RULES, indexes: tuple[int, ...] = (0,)) -> Schema:
    return connect_schema(parse_proto(text, {}).message(indexes), rules)


def read(text: str, data: bytes, rules: ProtobufRules = RULES) -> Any:
    message = parse_proto(text, {}).message((0,))
    schema = connect_schema(message, rules)
    return plain(values_of(decode_records(message, schema, rules, pa.array([data], pa.binary())), schema)[0])


def test_the_text_has_the_javas_types_names_and_metadata() -> None:
    assert proto_text(ORDER) == (
        """syntax = "proto3";
package shop;

import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
import "google/protobuf/timestamp.proto";

message Order {
  int64 id = 1;
  int32 tiny = 2 [(confluent.field_meta) = { params: [{ key: "connect.type", value: "int8" }] }];
  int32 small = 3 [(confluent.field_meta) = { params: [{ key: "connect.type", value: "int16" }] }];
  float f = 4;
  double d = 5;
  bool paid = 6;
  bytes raw = 7;
  .confluent.type.Decimal price = 8 [(confluent.field_meta) = { params: [{ key: "scale", value: "2" }] }];
  .google.type.Date day = 9;
  .google.type.TimeOfDay time = 10;
  .google.protobuf.Timestamp at = 11;
  Place place = 12;
  repeated string words = 13;
  repeated Place places = 14;
  repeated countsEntry counts = 15;
  message Place {
    int32 x = 1;
    string name = 2;
  }
  message countsEntry {
    string key = 1;
    int64 value = 2;
  }
}
""",
        "shop.Order",
    )


def test_all_types_come_back_with_their_tags() -> None:
    schema, values, _ = round_trip(ORDER, [Struct(ORDER, VALUES), Struct(ORDER, {**VALUES, "place": None, "price": None})])
    place = Schema.struct({"x": tagged(1, INT32_SCHEMA), "name": tagged(2, STRING_SCHEMA)}, name="Place")
    assert schema == Schema.struct(
        {
            **{each.name: tagged(number, each.schema) for number, each in enumerate(ORDER.fields[:11], 1)},
            "place": tagged(12, place),
            "words": tagged(13, Schema.array(STRING_SCHEMA.as_optional())),
            "places": tagged(14, Schema.array(place.as_optional())),
            "counts": tagged(15, Schema.map(tagged(1, STRING_SCHEMA), tagged(2, INT64_SCHEMA), name="counts")),
        },
        name="Order",
    )
    assert values[0] == plain({**VALUES, "places": [{"x": 0, "name": ""}, {"x": 2, "name": "b"}]})
    assert (values[1]["place"], values[1]["price"]) == (None, None)


def test_what_is_null_is_not_written_and_scalars_come_back_as_their_default() -> None:
    schema = Schema.struct({"a": INT32_SCHEMA.as_optional(), "b": STRING_SCHEMA.as_optional(), "c": PLACE.as_optional()}, name="N")
    null = Struct(schema, {"a": None, "b": None, "c": None})
    assert round_trip(schema, [null])[1:] == ([{"a": 0, "b": "", "c": None}], [b""])
    for rules in (ProtobufRules(optional_for_nullables=True), ProtobufRules(wrapper_for_nullables=True)):
        values = [null, Struct(schema, {"a": 0, "b": "", "c": {"x": 0, "name": None}})]
        _, found, written = round_trip(schema, values, rules)
        assert found == [plain(each) for each in values]
        assert written[0] == b""
    assert "optional int32 a = 1;" in proto_text(schema, ProtobufRules(optional_for_nullables=True))[0]
    assert ".google.protobuf.Int32Value a = 1;" in proto_text(schema, ProtobufRules(wrapper_for_nullables=True))[0]


@pytest.mark.parametrize("value", [STRING_SCHEMA, INT64_SCHEMA, PLACE], ids=["text", "number", "struct"])
@pytest.mark.parametrize("rules", [RULES, ProtobufRules(optional_for_nullables=True), ProtobufRules(wrapper_for_nullables=True)])
def test_a_null_in_a_map_is_refused_because_it_would_be_read_as_a_default(value: Schema, rules: ProtobufRules) -> None:
    schema = Schema.struct({"m": Schema.map(STRING_SCHEMA, value.as_optional(), optional=True, name="m")}, name="M")
    whole, null = [Struct(schema, {"m": {}}), Struct(schema, {"m": None})], Struct(schema, {"m": {"k": None}})
    assert round_trip(schema, whole, rules)[1] == [{"m": {}}, {"m": {}}]
    with pytest.raises(DataException, match="null as a key or value in field m of the value, and Protobuf's maps have no nulls"):
        round_trip(schema, [*whole, null], rules)


def test_a_null_in_a_map_is_the_default_of_its_schema() -> None:
    value = dataclasses.replace(INT64_SCHEMA, optional=True, default=7)
    schema = Schema.struct({"m": Schema.map(STRING_SCHEMA, value, name="m")}, name="M")
    assert round_trip(schema, [Struct(schema, {"m": {"k": None}})])[1] == [{"m": {"k": 7}}]


def test_what_may_be_null_follows_the_settings() -> None:
    text = 'syntax = "proto3"; message M { int32 a = 1; optional int32 b = 2; M2 c = 3; repeated int32 d = 4; } message M2 { int32 x = 1; }'

    def optional(rules: ProtobufRules) -> list[str]:
        return [each.name for each in read_schema(text, rules).fields if each.schema.optional]

    assert optional(ProtobufRules()) == ["a", "b", "c", "d"]
    assert optional(ProtobufRules(optional_for_nullables=True)) == ["b", "c", "d"]
    assert optional(ProtobufRules(wrapper_for_nullables=True)) == ["c", "d"]
    assert read(text, b"") == {"a": 0, "b": None, "c": None, "d": []}
    assert read(text, b"", ProtobufRules(structs_for_nulls=True)) == {"a": 0, "b": 0, "c": {"x": 0}, "d": []}


def test_proto2_has_defaults_and_optional_fields() -> None:
    text = """syntax = "proto2"; message M {
              optional int32 a = 1 [default = 7]; required string s = 2; optional string t = 3 [default = "x"];
              enum E { A = 2; B = 1; } optional E e = 4; optional uint64 big = 5 [default = 18446744073709551615]; }"""
    assert read(text, b"\x12\x01z") == {"a": None, "s": "z", "t": None, "e": None, "big": None}
    rules = ProtobufRules(optional_for_proto2=False)
    assert read(text, b"\x12\x01z", rules) == {"a": 7, "s": "z", "t": "x", "e": "A", "big": -1}
    assert read(text, b"\x20\x09\x12\x01z\x20\x01", rules)["e"] == "B"
    assert read(text, b"\x20\x09", rules)["e"] == "A"  # a closed enum: the number is unknown


def test_enums_are_strings_or_numbers() -> None:
    text = 'syntax = "proto3"; package p; message M { E e = 1; repeated E more = 2; enum E { A = 0; B = 5; } }'
    parameters = {f"{PREFIX}.Enum": "E", f"{PREFIX}.Enum.A": "0", f"{PREFIX}.Enum.B": "5"}
    string = Schema.struct(
        {
            "e": tagged(1, dataclasses.replace(STRING_SCHEMA, name="E", parameters=parameters)),
            "more": tagged(2, Schema.array(dataclasses.replace(STRING_SCHEMA, name="E", parameters=parameters, optional=True))),
        },
        name="M",
    )
    assert read_schema(text) == string
    assert read(text, b"\x08\x05\x12\x03\x00\x05\x07") == {"e": "B", "more": ["A", "B", "UNKNOWN_ENUM_VALUE_E_7"]}
    rules = ProtobufRules(enums_are_numbers=True, has_full_names=True)
    assert read(text, b"\x08\x05\x12\x02\x00\x07", rules) == {"e": 5, "more": [0, 7]}
    assert [each.name for each in (read_schema(text, rules), read_schema(text, rules).fields[0].schema)] == ["p.M", "p.M.E"]
    for schema, values in ((string, {"e": "B", "more": ["A"]}), (read_schema(text, rules), {"e": 5, "more": [0]})):
        assert round_trip(schema, [Struct(schema, values)])[2] == [b"\x08\x05\x12\x01\x00"]
    with pytest.raises(DataException, match=r"enum M\.E, for field e of the value, has no symbol 'X'"):
        round_trip(string, [Struct(string, {"e": "X", "more": []})])


def test_oneofs_are_structs_of_which_one_field_has_a_value() -> None:
    text = """syntax = "proto3"; import "google/protobuf/wrappers.proto";
              message M { int32 a = 1; oneof choice { string s = 2; int32 n = 3; google.protobuf.StringValue w = 4; } }"""
    schema = read_schema(text)
    union = schema.fields[0].schema
    assert [each.name for each in schema.fields] == ["choice_0", "a"]
    assert (union.name, [each.name for each in union.fields]) == (f"{PREFIX}.Union.choice", ["s", "n", "w"])
    assert read(text, b"\x12\x01x\x18\x00") == {"choice_0": {"s": None, "n": 0, "w": None}, "a": 0}
    assert read(text, b"\x08\x01") == {"choice_0": None, "a": 1}
    assert read(text, b"\x18\x07", ProtobufRules(flattens_unions=True)) == {"s": None, "n": 7, "w": None, "a": 0}
    assert read(text, b"\x18\x07", ProtobufRules(indexes_unions=False)) == {"choice": {"s": None, "n": 7, "w": None}, "a": 0}
    values = [Struct(schema, {"choice_0": {"n": 0}, "a": 1}), Struct(schema, {"choice_0": {"s": "x"}, "a": 0}), Struct(schema, {"a": 2})]
    assert round_trip(schema, values)[2] == [b"\x08\x01\x18\x00", b"\x12\x01x", b"\x08\x02"]
    rules = ProtobufRules(wrapper_for_nullables=True)
    wrapped = read_schema(text, rules)
    assert "oneof choice {\n    string s = 2;\n    int32 n = 3;\n    .google.protobuf.StringValue w = 4;" in proto_text(wrapped, rules)[0]
    assert round_trip(wrapped, [Struct(wrapped, {"choice_0": {"w": ""}, "a": 0})], rules)[2] == [b"\x22\x00"]
    with pytest.raises(DataException, match="No field of the union in field choice_0 of the value has a value"):
        round_trip(schema, [Struct(schema, {"choice_0": {}, "a": 1})])


@pytest.mark.parametrize(
    ("schema", "value", "data"),
    [
        (STRING_SCHEMA, "x", b"\x0a\x01x"),
        (INT32_SCHEMA, 0, b""),
        (INT64_SCHEMA, 5, b"\x08\x05"),
        (BOOLEAN_SCHEMA, True, b"\x08\x01"),
        (FLOAT64_SCHEMA, -0.0, b"\x09" + b"\0" * 7 + b"\x80"),
        (BYTES_SCHEMA, b"", b""),
    ],
)
def test_a_value_that_is_no_struct_is_a_wrapper(schema: Schema, value: Any, data: bytes) -> None:
    assert round_trip(schema, [value]) == (schema, [value], [data])
    rules = ProtobufRules(unwraps_values=False)
    assert round_trip(schema, [value], rules)[1:] == ([{"value": value}], [data])


def test_unnamed_schemas_get_names_and_numbers_keep_their_kind() -> None:
    inner = Schema.struct({"a": dataclasses.replace(INT32_SCHEMA, parameters={f"{PREFIX}.Type": "sint32"})})
    kinds = {
        kind: dataclasses.replace(INT64_SCHEMA, parameters={f"{PREFIX}.Type": kind})
        for kind in ("uint32", "fixed32", "uint64", "sint64", "fixed64", "sfixed64")
    }
    schema = Schema.struct({"inner": inner, "map": Schema.map(INT32_SCHEMA, inner), **kinds})
    text, name = proto_text(schema)
    assert name == "ConnectDefault1"
    assert "  ConnectDefault2 inner = 1;\n  repeated ConnectDefault3Entry map = 2;\n  uint32 uint32 = 3;" in text
    value = {"inner": {"a": -1}, "map": {7: Struct(inner, {"a": 9})}, **dict.fromkeys(kinds, 4_000_000_000)}
    read, values, _ = round_trip(schema, [Struct(schema, value)])
    assert values == [plain({**value, "map": {7: {"a": 9}}})]
    assert {each.name: (each.schema.parameters or {}).get(f"{PREFIX}.Type") for each in read.fields[2:]} == {kind: kind for kind in kinds}


def test_names_that_protobuf_cannot_have_are_refused_or_scrubbed() -> None:
    for name in ("a-b", "1a", "a = 1; } message X {", ""):
        schema = Schema.struct({name: INT32_SCHEMA})
        with pytest.raises(DataException, match=r"Protobuf cannot have the field .*set scrub\.invalid\.names=true"):
            proto_text(schema)
    schema = Schema.struct({"a-b": INT32_SCHEMA, "1a": INT32_SCHEMA, "_c": INT32_SCHEMA, "é": INT32_SCHEMA}, name="my shop.a/b")
    rules = ProtobufRules(scrubs_names=True)
    text, name = proto_text(schema, rules)
    assert name == "my_shop.a_2Fb"
    assert [line.split()[1] for line in text.splitlines() if "int32" in line] == ["a_b", "x1a", "x_c", "_C3_A9"]
    assert round_trip(schema, [Struct(schema, {"a-b": 1, "1a": 2, "_c": 3, "é": 4})], rules)[2] == [b"\x08\x01\x10\x02\x18\x03\x20\x04"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (DATE_SCHEMA, "cannot be of type org.apache.kafka.connect.data.Date. Put it into a struct"),
        (Schema.array(INT32_SCHEMA), "cannot be of type ARRAY"),
        (Schema.struct({"a": Schema.array(Schema.array(INT32_SCHEMA))}), "no arrays of arrays, maps or unions, as field a is"),
        (Schema.struct({"a": Schema.map(STRING_SCHEMA, Schema.array(INT32_SCHEMA))}), "no maps of arrays or unions"),
        (
            Schema.struct({"a": Schema.struct({}, name="x.P"), "b": Schema.struct({"c": INT32_SCHEMA}, name="y.P")}),
            "Two different schemas in one struct are named P",
        ),
        (Schema.struct({"a": dataclasses.replace(INT32_SCHEMA, parameters={f"{PREFIX}.Tag": "1; x"})}), "must be an integer, got '1; x'"),
    ],
)
def test_what_protobuf_has_no_type_for_is_refused(schema: Schema, message: str) -> None:
    with pytest.raises(DataException, match=message):
        proto_text(schema)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "protoc refuses the schema: line 1:1: Expected top-level statement"),
        ('syntax = "proto3"; message A { B b = 1; } message B { A a = 1; }', "The message A holds itself, and columns have no such type"),
        ('syntax = "proto3"; import "../etc/passwd"; message A { }', "protoc refuses the schema: "),
        ('syntax = "proto3"; import "/etc/passwd"; message A { }', "protoc refuses the schema: "),
        ('syntax = "proto2"; message A { optional group G = 1 { } }', r"The field A.g is a group"),
        ('syntax = "proto3"; enum A { B = 0; }', "The schema has no message with the indexes"),
        (
            'syntax = "proto3"; message M0 { int32 a = 1; } '
            + " ".join(f"message M{n} {{ M{n - 1} a = 1; M{n - 1} b = 2; }}" for n in range(1, 40)),
            "more than 20000 fields, each type counted",
        ),
        ("//" + "x" * (5 << 20), "more than 4194304 characters"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    indexes = (39 if "M39" in text else 0,)
    with pytest.raises(SchemaException, match=message):
        connect_schema(parse_proto(text, {}).message(indexes))


def test_a_hundred_levels_are_read_and_written_and_no_more() -> None:
    chain = 'syntax = "proto3"; message M1 { int32 a = 1; } ' + " ".join(f"message M{n} {{ M{n - 1} a = 1; }}" for n in range(2, 102))
    file = parse_proto(chain, {})
    with pytest.raises(SchemaException, match="Messages have more than 100 levels"):
        file.message((100,))
    message, data = file.message((99,)), b"\x08\x05"
    for _ in range(99):
        data = b"\x0a" + Pieces.of_varints(np.array([len(data)], np.uint64)).data.to_pybytes() + data
    schema = connect_schema(message)
    column = decode_records(message, schema, RULES, pa.array([data], pa.binary()))
    assert encode_records(message, schema, column, RULES).to_pylist() == [data]
    assert proto_text(schema)[1] == "M100"


def test_references_are_found_by_name_and_bad_names_are_refused() -> None:
    text = 'syntax = "proto3"; import "a/b.proto"; message M { p.Q q = 1; }'
    referred = 'syntax = "proto3"; package p; message Q { int32 x = 1; }'
    assert parse_proto(text, {"a/b.proto": referred}).message((0,)).fields[0].message is not None
    for name in ("../x.proto", "/x.proto", "a//b", "", "a\\b", "x" * 200):
        with pytest.raises(SchemaException, match="is no name of a Protobuf file"):
            parse_proto(text, {name: referred})
    with pytest.raises(SchemaException, match="cannot be used together"):
        parse_proto(text, {"a/b.proto": referred, "a/b.proto/c": referred})


def test_a_schema_may_be_a_descriptor_in_base64() -> None:
    file = FileDescriptorProto(name="other.proto", syntax="proto3", message_type=[{"name": "M", "field": [{"name": "a", "number": 3}]}])
    file.message_type[0].field[0].type, file.message_type[0].field[0].label = 5, 1
    message = parse_proto(base64.b64encode(file.SerializeToString()).decode(), {}).message((0,))
    assert [(each.name, each.number, each.kind) for each in message.fields] == [("a", 3, "int32")]


def test_decimals_of_other_scales_are_read_where_they_fit() -> None:
    text = """syntax = "proto3"; import "confluent/type/decimal.proto"; import "confluent/meta.proto";
              message M { confluent.type.Decimal d = 1 [(confluent.field_meta) = { params: [ { key: "scale", value: "2" } ] }]; }"""
    assert read(text, b"\x0a\x07\x0a\x01\x05\x10\x01\x18\x01") == {"d": Decimal("0.50")}
    assert read(text, b"\x0a\x00") == {"d": Decimal("0.00")}
    with pytest.raises(DataException, match=r"scale in the schema's confluent\.field_meta must be large enough"):
        read(text, b"\x0a\x05\x0a\x01\x05\x18\x03")
    wide = decimal_schema(0, parameters={"scale": "0", "connect.decimal.precision": "60"})
    schema = Schema.struct({"d": wide})
    value = Decimal(10) ** 55 + 7
    assert round_trip(schema, [Struct(schema, {"d": value})])[1] == [{"d": value}]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("google.type.Date", b"\x08\xe7\x0f\x10\x02\x18\x1d"),
        ("google.type.Date", b""),
        ("google.type.TimeOfDay", b"\x08\x18"),
        ("google.protobuf.Timestamp", b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ],
)
def test_dates_and_times_that_are_none_are_refused(kind: str, data: bytes) -> None:
    imports = "".join(
        f'import "{file}";' for file in ("google/type/date.proto", "google/type/timeofday.proto", "google/protobuf/timestamp.proto")
    )
    with pytest.raises(DataException, match="The record cannot be read: a "):
        read(f'syntax = "proto3"; {imports} message M {{ {kind} d = 1; }}', bytes([10, len(data)]) + data)
