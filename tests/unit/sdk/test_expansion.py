"""Small schemas that stand for large ones: each type counts as often as it is used, and one too many is refused before it is made."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from airflow_provider_connect.codecs.avro.avro_type import parse_avro
from airflow_provider_connect.codecs.json.connect_schemas import JsonSchemaRules, connect_schema_of_json
from airflow_provider_connect.codecs.json.values import JsonRules
from airflow_provider_connect.data.expansion import MOST_FIELDS
from airflow_provider_connect.data.schema import STRING_SCHEMA, Schema
from airflow_provider_connect.errors import SchemaException
from tests.waiting import HANG_SECONDS

DOUBLINGS = 24


def doubled_avro() -> None:
    """Each record has two fields of the one before."""
    inner: object = "string"
    for number in range(DOUBLINGS):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{number - 1}" if number else "string"}]
        inner = {"type": "record", "name": f"R{number}", "fields": fields}
    parse_avro(json.dumps(inner))


def many_symbols() -> None:
    """An enum of 1,000 symbols, which are parameters of each field that has it."""
    enum = {"type": "enum", "name": "E", "symbols": [f"s{number}" for number in range(1000)]}
    fields = [{"name": f"f{number}", "type": enum if number == 0 else "E"} for number in range(MOST_FIELDS // 20)]
    parse_avro(json.dumps({"type": "record", "name": "R", "fields": fields}))


def doubled_json() -> None:
    definitions: dict[str, object] = {"d0": {"type": "string"}}
    for number in range(1, DOUBLINGS):
        reference = {"$ref": f"#/definitions/d{number - 1}"}
        definitions[f"d{number}"] = {"type": "object", "properties": {"a": reference, "b": reference}}
    root = {"$ref": f"#/definitions/d{DOUBLINGS - 1}", "definitions": definitions}
    connect_schema_of_json(json.dumps(root), {}, JsonSchemaRules(JsonRules()))


def doubled_schema() -> None:
    schema = STRING_SCHEMA
    for _ in range(DOUBLINGS):
        schema = Schema.struct({"a": schema, "b": schema})


def doubled_maps() -> None:
    schema = Schema.struct({"a": STRING_SCHEMA})
    for _ in range(DOUBLINGS):
        schema = Schema.map(schema, schema)


@pytest.mark.parametrize("make", [doubled_avro, many_symbols, doubled_json, doubled_schema, doubled_maps])
def test_a_schema_that_stands_for_too_many_fields_is_refused_at_once(make: Callable[[], None]) -> None:
    started = time.monotonic()
    with pytest.raises(SchemaException, match=f"more than {MOST_FIELDS} fields, each type counted as often as it is used"):
        make()
    assert time.monotonic() - started < HANG_SECONDS, "what is refused would take hours"


def test_a_wide_schema_is_none_of_these() -> None:
    columns = Schema.struct({f"c{number}": STRING_SCHEMA for number in range(5000)})
    assert len(Schema.struct({"before": columns, "after": columns}).fields) == 2
