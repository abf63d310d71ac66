"""JSON Schemas of others (draft 7) as Connect's schemas: null branches in each of their forms, ``allOf``, references."""

import json
from typing import Any

import pytest

from airflow_provider_connect.codecs.json.connect_schemas import JsonSchemaRules, connect_schema_of_json
from airflow_provider_connect.codecs.json.values import JsonRules
from airflow_provider_connect.data.schema import BOOLEAN_SCHEMA, FLOAT64_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import SchemaException

PLAIN = JsonSchemaRules(JsonRules())
LENIENT = JsonSchemaRules(JsonRules(), optional_unless_required=True)
A_AND_B = Schema.struct({"a": INT64_SCHEMA, "b": STRING_SCHEMA})
A = {"type": "object", "properties": {"a": {"type": "integer"}}}
B = {"type": "object", "properties": {"b": {"type": "string"}}}


def read(node: Any, rules: JsonSchemaRules = PLAIN) -> Schema:
    return connect_schema_of_json(json.dumps(node), {}, rules)


def field(node: Any, rules: JsonSchemaRules = PLAIN) -> Schema:
    """Of a property within an object within an object."""
    outer = read({"type": "object", "properties": {"o": {"type": "object", "properties": {"f": node}}}}, rules).field("o")
    assert outer is not None
    found = outer.schema.field("f")
    assert found is not None
    return found.schema


@pytest.mark.parametrize("word", ["oneOf", "anyOf"])
@pytest.mark.parametrize(
    "null",
    [
        {"type": "null"},
        {"type": "null", "description": "not known"},
        {"title": "None", "type": "null"},
        {"type": ["null"]},
        {"const": None},
        {"enum": [None]},
    ],
)
def test_a_branch_that_only_null_fits_makes_the_other_optional(word: str, null: dict[str, Any]) -> None:
    for branches in ([null, {"type": "integer"}], [{"type": "integer"}, null]):
        assert field({word: branches}) == INT64_SCHEMA.as_optional()
        assert read({word: branches}) == INT64_SCHEMA.as_optional()


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ({"allOf": [A, B]}, A_AND_B),
        ({"allOf": [B], **A}, A_AND_B),
        ({"allOf": [A, {"allOf": [B, {"required": ["b"]}]}]}, A_AND_B),
        ({"allOf": [A, {"properties": {"b": {"type": "string"}}}]}, A_AND_B),
        ({"allOf": [{"type": "string"}, {"maxLength": 5}, {"minLength": 1}]}, STRING_SCHEMA),
        ({"type": "number", "allOf": [{"minimum": 3}]}, FLOAT64_SCHEMA),
        ({"allOf": [{"oneOf": [{"type": "null"}, {"type": "boolean"}]}]}, BOOLEAN_SCHEMA.as_optional()),
        ({"allOf": [{"type": "boolean"}, {"type": ["null", "boolean"]}]}, BOOLEAN_SCHEMA),
        ({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}, A_AND_B),
        ({"items": {"type": "integer"}}, Schema.array(INT64_SCHEMA)),
    ],
)
def test_a_schema_of_parts_has_what_its_parts_have(node: dict[str, Any], wanted: Schema) -> None:
    assert read(node) == wanted
    assert field(node) == wanted


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ({"enum": [1, 2]}, INT64_SCHEMA),
        ({"const": True}, BOOLEAN_SCHEMA),
        ({"enum": [1, 2.5]}, FLOAT64_SCHEMA),
        ({"enum": [6, None]}, INT64_SCHEMA.as_optional()),
    ],
)
def test_constants_have_the_type_of_their_values(node: dict[str, Any], wanted: Schema) -> None:
    """They were STRING, as which their values are null."""
    assert field(node) == wanted


def test_texts_and_null_are_an_optional_enum() -> None:
    found = field({"enum": ["a", None]})
    assert (found.type, found.optional) == (STRING_SCHEMA.type, True)


def test_parts_that_are_referred_to_are_merged_too() -> None:
    node = {"definitions": {"A": A, "B": B}, "allOf": [{"$ref": "#/definitions/A"}, {"$ref": "#/definitions/B"}, {"required": ["a"]}]}
    assert read(node) == A_AND_B
    assert read(node, LENIENT) == Schema.struct({"a": INT64_SCHEMA, "b": STRING_SCHEMA.as_optional()})


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"allOf": [A, {"type": "string"}]}, "its parts have STRUCT, STRING"),
        ({"allOf": [A, {"type": "object", "properties": {"a": {"type": "string"}}}]}, "two types for a"),
        ({"allOf": [{"minimum": 3}]}, "its parts have no type"),
        ({"allOf": []}, "its parts have no type"),
        ({"enum": [6, "foo", [], {"foo": 12}]}, "values of one scalar type are read"),
        ({"const": {"foo": "bar"}}, "values of one scalar type are read"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "combines 2 others"),
        ({"definitions": {"a": {"allOf": [{"$ref": "#/definitions/a"}]}}, "$ref": "#/definitions/a"}, "within itself"),
    ],
)
def test_what_has_no_columns_is_refused_with_its_reason(node: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaException, match=message):
        read(node)


@pytest.mark.parametrize(
    "pointer",
    ["#/definitions/tilde~0field", "#/definitions/slash~1field", "#/definitions/percent%25field", "#/definitions/list/0", "#/$defs/a"],
)
def test_pointers_name_parts_by_their_escapes_and_numbers(pointer: str) -> None:
    named = {"tilde~field": {"type": "integer"}, "slash/field": {"type": "integer"}, "percent%field": {"type": "integer"}}
    node = {"definitions": {**named, "list": [{"type": "integer"}]}, "$defs": {"a": {"type": "integer"}}, "$ref": pointer}
    assert read(node) == INT64_SCHEMA


STRUCT_A = Schema.struct({"a": INT64_SCHEMA})


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ({"type": "object", "additionalProperties": {"type": "integer"}}, Schema.map(STRING_SCHEMA, INT64_SCHEMA)),
        ({"type": "object", "properties": {}, "additionalProperties": A}, Schema.map(STRING_SCHEMA, STRUCT_A)),
        ({"allOf": [{"type": "object", "additionalProperties": {"type": "integer"}}]}, Schema.map(STRING_SCHEMA, INT64_SCHEMA)),
        ({"allOf": [A, {"type": "object", "additionalProperties": {"type": "integer"}}]}, STRUCT_A),
        ({"type": "object", "allOf": [A]}, STRUCT_A),
        ({"type": "object", "additionalProperties": False}, Schema.struct({})),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {}}, STRUCT_A),
    ],
)
def test_an_object_that_names_no_property_is_a_map(node: dict[str, Any], wanted: Schema, caplog: pytest.LogCaptureFixture) -> None:
    """Reported for Confluent's converter (schema-registry, pull request 4476): all that such objects hold is lost."""
    assert read(node) == wanted
    assert not caplog.records


@pytest.mark.parametrize(
    "more", [{"additionalProperties": {"type": "integer"}}, {"patternProperties": {"^x": {"type": "string"}}}, {"properties": {}}]
)
def test_properties_without_a_name_are_named_by_their_object(more: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """The same, of what no map can hold."""
    outer = {"type": "object", "title": "shop.Order", "properties": {"a": {"type": "integer"}, "o": {"type": "object", **A, **more}}}
    assert read(outer).field("o") is not None
    assert "shop.Order" in caplog.text
    assert "properties of o " in caplog.text
