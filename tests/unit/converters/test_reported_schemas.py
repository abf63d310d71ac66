"""Schemas and records at which converters of others fail or change values, as their users reported it. Each names its report."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from airflow_provider_connect.codecs.avro.avro_type import parse_avro
from airflow_provider_connect.codecs.avro.connect_schemas import avro_schema_text, connect_schema
from airflow_provider_connect.codecs.avro.decoder import decode_records
from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import values_of
from airflow_provider_connect.data.schema import INT8_SCHEMA, INT16_SCHEMA, INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import DataException, SchemaException
from tests.unit.connectors.filesystem.test_formats import written
from tests.unit.converters.test_protobuf_schemas import plain, read, round_trip

SUB = {"type": "record", "name": "SubRecord", "fields": [{"name": "val", "type": "int"}]}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Event", "namespace": "com.mycompany", "fields": list(fields)}


def of_avro(node: dict[str, Any], *values: dict[str, Any]) -> tuple[Schema, list[Any]]:
    """The Connect schema of an Avro schema, and records that fastavro has written as they are read."""
    type = parse_avro(json.dumps(node))
    schema = connect_schema(type)
    rows = []
    for value in values:
        data = io.BytesIO()
        fastavro.schemaless_writer(data, fastavro.parse_schema(node), value)
        rows.append(data.getvalue())
    return schema, [plain(each) for each in values_of(decode_records(type, schema, pa.array(rows, pa.binary())), schema)]


def in_a_file(schema: Schema, *values: dict[str, Any]) -> list[Any]:
    """Written into an Avro file by us, read by fastavro."""
    data = written(file_format("avro", None, {}), schema, pa.array(values, arrow_type(schema)))
    return list(fastavro.reader(io.BytesIO(data)))


def test_a_record_that_is_used_twice_may_have_a_text_of_its_own_each_time() -> None:
    """confluentinc/kafka-connect-storage-cloud 239: "Can't redefine"."""
    fields = [{"name": name, "type": type, "doc": f"Comment {name}"} for name, type in (("screen", SUB), ("viewport", "SubRecord"))]
    value = {"screen": {"val": 1}, "viewport": {"val": 2}}
    schema, rows = of_avro(record(*fields), value)
    assert rows == [value]
    assert in_a_file(schema, value) == [value]


def test_structs_without_names_within_one_another_are_written() -> None:
    """blueapron/kafka-connect-protobuf-converter 20, confluentinc/schema-registry 3101, mmolimar/kafka-connect-fs 87: the same."""
    deep = Schema.struct(
        {"a": Schema.struct({"b": Schema.struct({"n": INT64_SCHEMA})}), "c": Schema.array(Schema.struct({"t": STRING_SCHEMA}))}
    )
    value = {"a": {"b": {"n": 1}}, "c": [{"t": "x"}]}
    assert in_a_file(deep, value) == [value]
    read_back = connect_schema(parse_avro(avro_schema_text(deep)))
    assert read_back.field("c") is not None


def test_records_of_one_name_with_other_fields_are_refused_by_name() -> None:
    """The same, where Avro has no way to write them."""
    first, second = (Schema.struct(fields, name="x.Value") for fields in ({"a": INT64_SCHEMA}, {"b": STRING_SCHEMA}))
    schema = Schema.struct({"before": first, "after": second}, name="x.Envelope")
    value = {"before": {"a": 1}, "after": {"b": "2"}}
    with pytest.raises(DataException, match=r"Two different schemas are named x\.Value"):
        in_a_file(schema, value)


@pytest.mark.parametrize(
    ("node", "value"),
    [
        # confluentinc/schema-registry 2037
        (
            {
                "name": "f",
                "type": {"type": "array", "items": {**SUB, "fields": [{"name": "v", "type": ["null", "string"], "default": None}]}},
                "default": [{"v": None}],
            },
            {"f": [{"v": None}, {"v": "x"}]},
        ),
        # Aiven-Open/s3-connector-for-apache-kafka 256
        ({"name": "f", "type": ["string"], "default": "UNKNOWN"}, {"f": "x"}),
        # awslabs/aws-glue-schema-registry 307, confluentinc/schema-registry 1882
        (
            {
                "name": "f",
                "type": {**SUB, "fields": [{"name": "de", "type": "string"}, {"name": "en", "type": ["null", "string"]}]},
                "default": {"de": "", "en": None},
            },
            {"f": {"de": "x", "en": None}},
        ),
        # Azure/azure-schema-registry-for-kafka 76
        ({"name": "f", "type": ["null", "string"], "default": None}, {"f": None}),
        # confluentinc/schema-registry 1693
        ({"name": "f", "type": ["string", "null"], "default": "x"}, {"f": None}),
    ],
)
def test_defaults_of_avro(node: dict[str, Any], value: dict[str, Any]) -> None:
    _, rows = of_avro(record(node), value)
    [found] = rows
    assert found in (value, {"f": {"string": "x"}})


ONE = """syntax = "proto3";
message Outer { string id = 1; Inner inner = 2; repeated Inner more = 3; }
message Inner { oneof kind { bool flag = 1; int64 number = 2; string text = 3; } }
"""


def test_a_choice_within_a_message_has_what_was_set_even_where_that_is_its_default() -> None:
    """awslabs/aws-glue-schema-registry 347 (a nested oneof had required fields), blueapron/kafka-connect-protobuf-converter 10 (false)."""
    data = bytes.fromhex("0a0178120208001a0210001a021a001a00")
    found = read(ONE, data)
    assert found["inner"] == {"kind_0": {"flag": False, "number": None, "text": None}}
    assert [each["kind_0"] for each in found["more"]][:2] == [
        {"flag": None, "number": 0, "text": None},
        {"flag": None, "number": None, "text": ""},
    ]


def test_small_integers_and_nulls_of_protobuf_stay() -> None:
    """Apicurio/apicurio-registry 9218: nulls became 0, INT8 and INT16 wider."""
    schema = Schema.struct({"tiny": INT8_SCHEMA, "small": INT16_SCHEMA.as_optional(), "text": STRING_SCHEMA.as_optional()}, name="x.Small")
    from airflow_provider_connect.codecs.protobuf.schemas import ProtobufRules

    found, values, _ = round_trip(schema, [{"tiny": -1, "small": None, "text": None}], ProtobufRules(optional_for_nullables=True))
    assert values == [{"tiny": -1, "small": None, "text": None}]
    assert [each.schema.type for each in found.fields] == [each.schema.type for each in schema.fields]


@pytest.mark.parametrize("inner", [Schema.array(INT32_SCHEMA), Schema.map(STRING_SCHEMA, INT32_SCHEMA)])
def test_lists_of_lists_are_refused_by_protobuf_with_their_field(inner: Schema) -> None:
    """Apicurio/apicurio-registry 9218: an exception without a name."""
    schema = Schema.struct({"lists": Schema.array(inner)}, name="x.Lists")
    with pytest.raises((DataException, SchemaException), match="lists"):
        round_trip(schema, [{"lists": []}])
