"""JsonSchemaConverter with a real registry: its suite, the table of Confluent's rules, and schemas that others have written."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, ClassVar

import jsonschema  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema as RegistrySchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient

from airflow_provider_connect.converters.registry.json_schema_converter import JsonSchemaConverter
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema, SchemaType, Struct
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.testing import ConverterSuite
from tests.contract.test_builtin_plugins import VALUES
from tests.integration.registry.conftest import configured
from tests.registry_server import RegistryServer

ORDER = Schema.struct({"id": INT64_SCHEMA, "what": STRING_SCHEMA.as_optional()}, name="shop.Order", version=1)


class TestJsonSchemaConverter(ConverterSuite):
    bad_data: ClassVar[Sequence[bytes]] = (b"", b"\0\0\0", b"{}", b"\0\x7f\xff\xff\xff{}")
    bad_values: ClassVar[Sequence[tuple[Schema | None, Any]]] = (
        (STRING_SCHEMA, None),
        (INT32_SCHEMA, "x"),
        (None, {"a": 1}),
        (Schema.map(INT32_SCHEMA, STRING_SCHEMA), {1: "a"}),
    )

    @pytest.fixture(autouse=True)
    def server(self, registry: RegistryServer) -> None:
        self.url = registry.url

    def converter(self) -> JsonSchemaConverter:
        return configured(JsonSchemaConverter, self.url, is_key=True)

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        """With a version of their own: others take the registry's."""
        versioned = [(dataclasses.replace(schema, version=1), value) for schema, value in VALUES if schema is not None]
        kept = [(schema, value) for schema, value in versioned if schema.key_schema is None or schema.key_schema == STRING_SCHEMA]
        return [(schema, Struct(schema, value.as_dict()) if isinstance(value, Struct) else value) for schema, value in kept]

    def read_back(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        return (None, None) if value is None else (schema, value)


class TestJsonSchemaConverterWithNumericDecimals(TestJsonSchemaConverter):
    def converter(self) -> JsonSchemaConverter:
        return configured(JsonSchemaConverter, self.url, is_key=True, decimal_format="NUMERIC")


def test_schemas_have_confluents_attributes_and_values_are_valid(registry: RegistryServer, unique: str) -> None:
    client = SchemaRegistryClient(registry.client_settings)
    converter = configured(JsonSchemaConverter, registry.url, object_additional_properties="false")
    schema = dataclasses.replace(ORDER, doc="An order.", parameters={"a": "b"})
    column = column_of([Struct(schema, {"id": 7, "what": "tea"}), Struct(schema, {"id": 8})], schema)
    [first, second] = converter.from_connect_column(unique, schema, column).to_pylist()
    registered = client.get_latest_version(f"{unique}-value")
    assert (first[:5], registered.schema.schema_type) == (b"\0" + int(registered.schema_id or 0).to_bytes(4, "big"), "JSON")
    found = json.loads(registered.schema.schema_str or "")
    assert found == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "id": {"type": "integer", "connect.type": "int64", "connect.index": 0},
            "what": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
        },
        "additionalProperties": False,
        "title": "shop.Order",
        "connect.version": 1,
        "description": "An order.",
        "connect.parameters": {"a": "b"},
    }
    for record in (first, second):
        jsonschema.validate(json.loads(record[5:]), found)
    assert json.loads(second[5:]) == {"id": 8, "what": None}


def read(registry: RegistryServer, topic: str, schema: Any, *texts: bytes, **settings: str) -> tuple[Schema, list[Any]]:
    """Records of a schema that another program has registered."""
    client = SchemaRegistryClient(registry.client_settings)
    text = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#"} | schema)
    number = client.register_schema(f"{topic}-value", RegistrySchema(text, "JSON"))
    column = pa.array([b"\0" + number.to_bytes(4, "big") + each for each in texts], pa.binary())
    [run] = configured(JsonSchemaConverter, registry.url, **settings).to_connect_column(topic, column)  # type: ignore[arg-type]
    assert run.schema is not None
    return run.schema, values_of(run.column, run.schema)


def test_schemas_of_others_are_read(registry: RegistryServer, unique: str) -> None:
    schema = {
        "title": "Order",
        "type": "object",
        "required": ["id"],
        "definitions": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
        "properties": {
            "id": {"type": "integer"},
            "suit": {"enum": ["SPADES", "HEARTS"]},
            "to": {"$ref": "#/definitions/place"},
            "words": {"type": "array", "items": {"type": ["null", "string"]}},
            "flag": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        },
    }
    text = b'{"flag":null,"id":5,"more":1,"suit":"HEARTS","to":{"x":1.5},"words":["a",null]}'
    found, [value, other] = read(registry, unique, schema, text, b'{"id":6}', use_optional_for_nonrequired="true")
    kinds = {field.name: (field.schema.type, field.schema.optional) for field in found.fields}
    assert kinds == {
        "id": (SchemaType.INT64, False),
        "suit": (SchemaType.STRING, True),
        "to": (SchemaType.STRUCT, True),
        "words": (SchemaType.ARRAY, True),
        "flag": (SchemaType.BOOLEAN, True),
    }
    assert (value["id"], value["suit"], value["to"]["x"], value["words"], value["flag"]) == (5, "HEARTS", 1.5, ["a", None], None)
    assert (other["id"], other["to"]) == (6, None)


def test_schemas_may_refer_to_others(registry: RegistryServer, unique: str) -> None:
    client = SchemaRegistryClient(registry.client_settings)
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    place = json.dumps({**draft, "type": "object", "properties": {"x": {"type": "integer"}}})
    client.register_schema(f"{unique}-place", RegistrySchema(place, "JSON"))
    route = json.dumps({**draft, "type": "object", "properties": {"to": {"$ref": "place.json"}}})
    reference = SchemaReference("place.json", f"{unique}-place", 1)
    number = client.register_schema(f"{unique}-value", RegistrySchema(route, "JSON", [reference]))
    column = pa.array([b"\0" + number.to_bytes(4, "big") + b'{"to":{"x":3}}'], pa.binary())
    [run] = configured(JsonSchemaConverter, registry.url).to_connect_column(unique, column)
    assert run.column.to_pylist() == [{"to": {"x": 3}}]


def test_the_broken_record_of_a_batch_is_named(registry: RegistryServer, unique: str) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    with pytest.raises(DataException) as caught:
        read(registry, unique, schema, b'{"id":1}', b'{"id":2}', b'{"id":', b'{"id":4}')
    assert caught.value.record == 2


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "combines 2 others has no columns"),
        ({"type": ["string", "integer"]}, "of the types"),
        ({"$ref": "#/definitions/none"}, "has no #/definitions/none"),
        ({"definitions": {"a": {"type": "array", "items": {"$ref": "#/definitions/a"}}}, "$ref": "#/definitions/a"}, "within itself"),
        ({"type": "object", "properties": {"a": {}}}, "of the type None has no columns"),
    ],
)
def test_what_has_no_columns_is_refused(registry: RegistryServer, unique: str, schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataException, match=reason):
        read(registry, unique, schema, b"1")
