"""Connect's schemas as Avro's and back: the table of Confluent's rules."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from airflow_provider_connect.codecs.avro.avro_type import parse_avro
from airflow_provider_connect.codecs.avro.connect_schemas import AvroRules, avro_schema_text, connect_schema
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
    decimal_schema,
)
from airflow_provider_connect.errors import DataException, SchemaException

KAFKA = "org.apache.kafka.connect.data"
CONFLUENT = "io.confluent.connect.avro"


def logical(word: str, name: str, logical_type: str, **default: Any) -> dict[str, Any]:
    attributes = {f"connect.{key}": value for key, value in default.items()}
    return {"type": word, "connect.version": 1, **attributes, "connect.name": f"{KAFKA}.{name}", "logicalType": logical_type}


DECIMAL = {
    "type": "bytes",
    "scale": 2,
    "precision": 64,
    "connect.version": 1,
    "connect.parameters": {"scale": "2"},
    "connect.name": f"{KAFKA}.Decimal",
    "logicalType": "decimal",
}
ENTRY = Schema.map(INT32_SCHEMA, STRING_SCHEMA)
TABLE: list[tuple[Schema, Any]] = [
    (INT8_SCHEMA, {"type": "int", "connect.type": "int8"}),
    (INT16_SCHEMA, {"type": "int", "connect.type": "int16"}),
    (INT32_SCHEMA, "int"),
    (INT64_SCHEMA, "long"),
    (FLOAT32_SCHEMA, "float"),
    (FLOAT64_SCHEMA, "double"),
    (BOOLEAN_SCHEMA, "boolean"),
    (STRING_SCHEMA, "string"),
    (BYTES_SCHEMA, "bytes"),
    (STRING_SCHEMA.as_optional(), ["null", "string"]),
    (INT32_SCHEMA.as_optional().with_default(7), [{"type": "int", "connect.default": 7}, "null"]),
    (DATE_SCHEMA, logical("int", "Date", "date")),
    (TIME_SCHEMA, logical("int", "Time", "time-millis")),
    (TIMESTAMP_SCHEMA.as_optional(), ["null", logical("long", "Timestamp", "timestamp-millis")]),
    (decimal_schema(2), DECIMAL),
    (
        decimal_schema(2, default=Decimal("-1.28")),
        {
            name: value
            for key in DECIMAL
            for name, value in ([("connect.default", "\x80")] if key == "connect.name" else []) + [(key, DECIMAL[key])]
        },
    ),
    (DATE_SCHEMA.with_default(datetime.date(1970, 1, 3)), logical("int", "Date", "date", default=2)),
    (Schema.array(STRING_SCHEMA.as_optional()), {"type": "array", "items": ["null", "string"]}),
    (Schema.map(STRING_SCHEMA, INT64_SCHEMA), {"type": "map", "values": "long"}),
    (
        ENTRY,
        {
            "type": "array",
            "items": {
                "type": "record",
                "name": "MapEntry",
                "namespace": CONFLUENT,
                "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
            },
        },
    ),
    (
        Schema.struct({"id": INT32_SCHEMA, "note": STRING_SCHEMA.as_optional()}),
        {
            "type": "record",
            "name": "ConnectDefault",
            "namespace": CONFLUENT,
            "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
        },
    ),
    (
        Schema.struct({"n": INT32_SCHEMA.with_default(5)}, name="shop.Order", version=3, doc="An order.", parameters={"a": "b"}),
        {
            "type": "record",
            "name": "Order",
            "namespace": "shop",
            "fields": [{"name": "n", "type": {"type": "int", "connect.default": 5}, "default": 5}],
            "connect.doc": "An order.",
            "connect.version": 3,
            "connect.parameters": {"a": "b"},
            "connect.name": "shop.Order",
        },
    ),
]


@pytest.mark.parametrize(("schema", "expected"), TABLE)
def test_schemas_are_written_as_confluents_converter_does_and_come_back(schema: Schema, expected: Any) -> None:
    text = avro_schema_text(schema)
    assert json.dumps(json.loads(text)) == json.dumps(expected), "the order of the attributes counts too"
    assert connect_schema(parse_avro(text)) == schema
    assert fastavro.parse_schema(json.loads(text))


def test_a_record_that_is_used_twice_is_named_the_second_time() -> None:
    place = Schema.struct({"x": INT32_SCHEMA}, name="a.Place")
    both = Schema.struct({"from": place, "to": place.as_optional()}, name="a.Route")
    written = json.loads(avro_schema_text(both))
    assert written["fields"][1] == {"name": "to", "type": ["null", "Place"], "default": None}
    assert connect_schema(parse_avro(json.dumps(written))) == both


def test_two_records_of_one_name_are_refused_and_unnamed_ones_are_numbered() -> None:
    one, other = Schema.struct({"x": INT32_SCHEMA}, name="P"), Schema.struct({"y": INT32_SCHEMA}, name="P")
    with pytest.raises(DataException, match=r"^Two different schemas are named P"):
        avro_schema_text(Schema.struct({"a": one, "b": other}, name="Q"))
    unnamed = Schema.struct({"a": Schema.struct({"x": INT32_SCHEMA}), "b": Schema.struct({"y": INT32_SCHEMA})})
    assert connect_schema(parse_avro(avro_schema_text(unnamed))) == unnamed


def test_without_metadata_only_avros_own_words_are_written() -> None:
    schema = Schema.struct({"i": INT8_SCHEMA, "d": decimal_schema(1)}, name="a.R", version=2, doc="d")
    fields = [{"name": "i", "type": "int"}, {"name": "d", "type": {"type": "bytes", "scale": 1, "precision": 64, "logicalType": "decimal"}}]
    written = json.loads(avro_schema_text(schema, AvroRules(has_metadata=False)))
    assert written == {"type": "record", "name": "R", "namespace": "a", "fields": fields}


def test_names_are_scrubbed_only_when_asked_for() -> None:
    schema = Schema.struct({"a-b": INT32_SCHEMA, "2nd": INT32_SCHEMA, "ok": INT32_SCHEMA}, name="my-shop.1st")
    written = json.loads(avro_schema_text(schema, AvroRules(scrubs_names=True)))
    assert [field["name"] for field in written["fields"]] == ["a_b", "x2nd", "ok"]
    assert (written["namespace"], written["name"]) == ("my_shop", "x1st")
    assert '"a-b"' in avro_schema_text(schema)


ENUM = {"type": "enum", "name": "Suit", "namespace": "g", "doc": "of cards", "symbols": ["SPADES", "HEARTS"], "default": "HEARTS"}
FIXED = {"type": "fixed", "name": "g.Hash", "size": 4}
UNION = ["null", "int", "string", {"type": "record", "name": "g.R", "fields": [{"name": "x", "type": "int"}]}]


def test_enums_are_strings_that_come_back_as_enums_when_asked_for() -> None:
    schema = connect_schema(parse_avro(json.dumps(ENUM)))
    assert schema == Schema(
        STRING_SCHEMA.type,
        name="g.Suit",
        parameters={
            f"{CONFLUENT}.Enum": "g.Suit",
            f"{CONFLUENT}.Enum.SPADES": "SPADES",
            f"{CONFLUENT}.Enum.HEARTS": "HEARTS",
            f"{CONFLUENT}.enum.doc.Suit": "of cards",
            f"{CONFLUENT}.enum.default.Suit": "HEARTS",
        },
    )
    again = json.loads(avro_schema_text(schema, AvroRules(keeps_enums=True)))
    assert {name: again[name] for name in ENUM} == ENUM
    assert json.loads(avro_schema_text(schema))["type"] == "string"


def test_unions_are_structs_with_a_field_for_each_branch() -> None:
    schema = connect_schema(parse_avro(json.dumps(UNION)))
    assert (schema.name, schema.optional) == (f"{CONFLUENT}.Union", True)
    assert [(field.name, field.schema.optional) for field in schema.fields] == [("int", True), ("string", True), ("R", True)]
    enhanced = AvroRules(keeps_enums=True)
    assert connect_schema(parse_avro(json.dumps(UNION)), enhanced).fields[2].name == "g.R"
    assert [branch.kind for branch in parse_avro(avro_schema_text(schema)).branches] == ["null", "int", "string", "record"]
    two = json.dumps([{"type": "fixed", "name": "A", "size": 1}, {"type": "fixed", "name": "B", "size": 1}])
    with pytest.raises(SchemaException, match="Two branches of an Avro union are named fixed"):
        connect_schema(parse_avro(two))


def test_a_default_of_many_digits_keeps_each() -> None:
    schema = Schema.struct({"n": decimal_schema(2, default=Decimal("12345678901234567890123456789012345678.25"))})
    assert connect_schema(parse_avro(avro_schema_text(schema))) == schema


def test_fixed_types_docs_and_defaults_are_parameters() -> None:
    fields = [
        {"name": "h", "type": FIXED},
        {"name": "n", "type": "int", "default": 3, "doc": "a number"},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]
    schema = connect_schema(parse_avro(json.dumps({"type": "record", "name": "R", "doc": "all", "fields": fields})))
    assert schema.parameters == {f"{CONFLUENT}.record.doc": "all", f"{CONFLUENT}.field.doc.n": "a number"}
    hash, number, micros = (field.schema for field in schema.fields)
    assert hash == Schema(BYTES_SCHEMA.type, name="g.Hash", parameters={"connect.fixed.size": "4"})
    assert number == Schema(INT32_SCHEMA.type, default=3, parameters={f"{CONFLUENT}.field.default": "true"})
    assert micros == INT64_SCHEMA, "as Confluent's converter reads it: Connect's timestamps have milliseconds"
    assert parse_avro(avro_schema_text(schema)).fields[0].type.size == 4


def test_the_registrys_version_is_used_where_the_schema_has_none() -> None:
    assert connect_schema(parse_avro('"string"'), version=4).version == 4
    assert connect_schema(parse_avro('{"type":"string","connect.version":2}'), version=4).version == 2


def test_references_are_types_of_other_schemas() -> None:
    place = '{"type":"record","name":"a.Place","fields":[{"name":"x","type":"int"}]}'
    route = '{"type":"record","name":"Route","namespace":"a","fields":[{"name":"to","type":"Place"}]}'
    schema = connect_schema(parse_avro(route, [place]))
    assert schema.fields[0].schema == Schema.struct({"x": INT32_SCHEMA}, name="a.Place")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 200 + "]" * 200, "levels"),
        ('{"type":"enum","name":"E"}', "has no symbols"),
        ('{"type":"fixed","name":"F","size":-1}', "has no size"),
        ('{"type":"record","name":"R","fields":[{"type":"int"}]}', "no list of named fields"),
        ('{"type":"record","fields":[]}', "has no name"),
        ('{"type":"record","name":"R","fields":[{"name":"r","type":["null","R"]}]}', "lies within itself"),
        ('{"type":"wonder"}', "no type wonder"),
        ("5", "no type 5"),
        ('{"type":"array"}', "Not an Avro type"),
    ],
)
def test_what_is_no_schema_or_has_no_columns_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaException, match=reason):
        parse_avro(text)


def test_null_alone_has_no_schema() -> None:
    with pytest.raises(SchemaException, match="null alone"):
        connect_schema(parse_avro('"null"'))
