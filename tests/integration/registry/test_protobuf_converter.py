"""ProtobufConverter with a real registry: its suite, message indexes, subjects, the latest schema, references, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema as RegistrySchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.type import date_pb2

from airflow_provider_connect.converters.registry.protobuf_converter import ProtobufConverter
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    FLOAT64_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import DataException, UnavailableException
from airflow_provider_connect.sdk.testing import ConverterSuite
from tests.integration.registry.conftest import configured
from tests.registry_server import RegistryServer

ORDER = Schema.struct({"id": INT64_SCHEMA, "what": STRING_SCHEMA.as_optional()}, name="market.Order")
LATER = Schema.struct({"id": INT64_SCHEMA, "what": STRING_SCHEMA.as_optional(), "n": INT32_SCHEMA.as_optional()}, name="market.Order")
SEVERAL = """syntax = "proto3";
package market;
message First { int32 a = 1; }
message Second { string b = 1; message Inner { int64 c = 1; } }
"""


def orders(schema: Schema, *ids: int) -> pa.Array:
    return column_of([Struct(schema, {"id": id, "what": f"order {id}"}) for id in ids], schema)


def registered(record: bytes) -> int:
    return int.from_bytes(record[1:5], "big")


@pytest.fixture
def client(registry: RegistryServer) -> SchemaRegistryClient:
    return SchemaRegistryClient(registry.client_settings)


class TestProtobufConverter(ConverterSuite):
    bad_data: ClassVar[Sequence[bytes]] = (b"", b"\0\0\0", b"\x01\0\0\0\x01\0", b"\0\0\0\0\x01", b"\0\x7f\xff\xff\xff\0")
    bad_values: ClassVar[Sequence[tuple[Schema | None, Any]]] = (
        (STRING_SCHEMA, None),
        (INT32_SCHEMA, "x"),
        (None, {"a": 1}),
        (TIMESTAMP_SCHEMA, None),
        (Schema.array(INT32_SCHEMA), [1]),
    )

    @pytest.fixture(autouse=True)
    def server(self, registry: RegistryServer) -> None:
        self.url = registry.url

    def converter(self) -> ProtobufConverter:
        """By names: this registry has one kind of schema a subject, and other suites write to the same topic."""
        return configured(ProtobufConverter, self.url, value_subject_name_strategy="RecordNameStrategy")

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        priced = Schema.struct({"id": INT64_SCHEMA, "price": decimal_schema(2).as_optional()}, name="market.Priced")
        scalars = [(INT64_SCHEMA, 7), (STRING_SCHEMA, "tea"), (BOOLEAN_SCHEMA, True), (FLOAT64_SCHEMA, -0.5)]
        return [*scalars, (ORDER, Struct(ORDER, {"id": 1, "what": "tea"})), (priced, Struct(priced, {"id": 2, "price": None}))]

    def read_back(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        """With the tags and the version of the registered schema."""
        assert schema is not None
        found = self.converter().to_connect_data("t", self.converter().from_connect_data("t", schema, value))
        return found.schema, found.value


def test_records_are_those_of_confluents_own_serializer(registry: RegistryServer, client: SchemaRegistryClient, unique: str) -> None:
    context = SerializationContext(unique, MessageField.VALUE)
    theirs = ProtobufSerializer(date_pb2.Date, client, {"use.deprecated.format": False})(date_pb2.Date(year=2024, day=3), context)
    [run] = configured(ProtobufConverter, registry.url).to_connect_column(unique, pa.array([theirs], pa.binary()))
    assert run.column.to_pylist() == [{"year": 2024, "month": 0, "day": 3}]
    schema = Schema.struct(dict.fromkeys(("year", "month", "day"), INT32_SCHEMA), name="google.type.Date")
    column = column_of([Struct(schema, {"year": 1, "month": 2, "day": 3})], schema)
    [ours] = configured(ProtobufConverter, registry.url).from_connect_column(f"{unique}-own", schema, column).to_pylist()
    assert ours[5:] == b"\0\x08\x01\x10\x02\x18\x03"
    assert date_pb2.Date.FromString(ours[6:]) == date_pb2.Date(year=1, month=2, day=3)


def test_each_message_of_a_schema_is_read_by_its_indexes(registry: RegistryServer, client: SchemaRegistryClient, unique: str) -> None:
    number = client.register_schema(f"{unique}-value", RegistrySchema(SEVERAL, "PROTOBUF"))
    head = b"\0" + number.to_bytes(4, "big")
    bodies = (b"\0\x08\x05", b"\x02\x02\x0a\x01x", b"\x04\x02\0\x08\x07", b"\x02\0\x08\x06", b"\x02\x82\0\x0a\x01y")
    records = [head + body for body in bodies]
    runs = configured(ProtobufConverter, registry.url).to_connect_column(unique, pa.array([*records, None, records[0]], pa.binary()))
    found = [(run.schema and run.schema.name, value) for run in runs for value in run.column.to_pylist()]
    assert [value for _, value in found] == [{"a": 5}, {"b": "x"}, {"c": 7}, {"a": 6}, {"b": "y"}, None, {"a": 5}]
    assert [name for name, _ in found] == ["First", "Second", "Inner", "First", "Second", None, "First"]
    assert {run.schema.version for run in runs if run.schema} == {1}


def test_what_is_no_record_is_found_before_any_is_read(registry: RegistryServer, client: SchemaRegistryClient, unique: str) -> None:
    number = client.register_schema(f"{unique}-value", RegistrySchema(SEVERAL, "PROTOBUF"))
    head = b"\0" + number.to_bytes(4, "big")
    bodies = [b"\0", b"", b"\x02", b"\x02\x10\0", b"\x01", b"\x04\x02", b"\xff" * 20, b"\x80", b"\0\x08"]
    column = pa.array([b"", *(head + body for body in bodies), None], pa.binary())
    converter = configured(ProtobufConverter, registry.url)
    found = {row: str(error).split(".")[0] for row, error in converter.find_invalid_rows(unique, column).items()}
    assert found.pop(0).startswith("The record is shorter than the 5 bytes")
    assert found.pop(4).endswith("The schema has no message with the indexes [8]")
    assert set(found) == {2, 3, 5, 6, 7, 8}
    assert set(found.values()) == {"The record has no message indexes after its schema id"}
    with pytest.raises(DataException, match="it ends within a value") as caught:
        converter.to_connect_column(unique, column.take([1, 10, 9]))
    assert caught.value.record == 2


def test_a_batch_may_hold_several_schemas_and_tombstones(registry: RegistryServer, unique: str) -> None:
    converter = configured(ProtobufConverter, registry.url)
    old = converter.from_connect_column(unique, ORDER, orders(ORDER, 0, 1)).to_pylist()
    new = converter.from_connect_column(unique, LATER, orders(LATER, 3)).to_pylist()
    runs = configured(ProtobufConverter, registry.url).to_connect_column(unique, pa.array([old[0], None, new[0], old[1]], pa.binary()))
    assert [run.schema and (run.schema.version, len(run.schema.fields)) for run in runs] == [(1, 2), None, (2, 3), (1, 2)]
    found = [value for run in runs for value in values_of(run.column, run.schema)]
    assert [value and value["id"] for value in found] == [0, None, 3, 1]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TopicNameStrategy", "{}-value"), ("RecordNameStrategy", "market.Order"), ("TopicRecordNameStrategy", "{}-market.Order")],
)
def test_subjects_are_named_by_the_strategy(
    registry: RegistryServer, client: SchemaRegistryClient, unique: str, strategy: str, subject: str
) -> None:
    converter = configured(ProtobufConverter, registry.url, value_subject_name_strategy=strategy)
    [record] = converter.from_connect_column(unique, ORDER, orders(ORDER, 1)).to_pylist()
    assert subject.format(unique) in [each.subject for each in client.get_schema_versions(registered(record))]


def test_the_latest_schema_of_the_subject_is_written_by(registry: RegistryServer, client: SchemaRegistryClient, unique: str) -> None:
    messages = "message Other { int32 x = 1; }\nmessage Order { string what = 7; int64 id = 3; bool more = 1; }\n"
    latest = f'syntax = "proto3";\npackage market;\n{messages}'
    number = client.register_schema(f"{unique}-value", RegistrySchema(latest, "PROTOBUF"))
    converter = configured(
        ProtobufConverter, registry.url, auto_register_schemas="false", use_latest_version="true", latest_compatibility_strict="false"
    )
    assert converter.from_connect_column(unique, LATER, orders(LATER, 9)).to_pylist() == [
        b"\0" + number.to_bytes(4, "big") + b"\x02\x02" + b"\x18\x09" + b"\x3a\x07order 9"
    ]
    other = Schema.struct({"id": STRING_SCHEMA}, name="market.Order")
    with pytest.raises(DataException, match="Cannot write field id of the value, of type STRING, as Protobuf's int64"):
        converter.from_connect_column(unique, other, column_of([Struct(other, {"id": "x"})], other))


def test_schemas_may_refer_to_others(registry: RegistryServer, client: SchemaRegistryClient, unique: str) -> None:
    name = f"{unique}/place.proto"
    client.register_schema(
        f"{unique}-place", RegistrySchema('syntax = "proto3";\npackage p;\nmessage Place { int32 x = 1; }\n', "PROTOBUF")
    )
    route = f'syntax = "proto3";\nimport "{name}";\nmessage Route {{ p.Place to = 1; repeated p.Place by = 2; }}\n'
    reference = SchemaReference(name, f"{unique}-place", 1)
    number = client.register_schema(f"{unique}-value", RegistrySchema(route, "PROTOBUF", [reference]))
    data = b"\0" + number.to_bytes(4, "big") + b"\0" + b"\x0a\x02\x08\x03" + b"\x12\x02\x08\x04" + b"\x12\x00"
    [run] = configured(ProtobufConverter, registry.url).to_connect_column(unique, pa.array([data], pa.binary()))
    assert run.column.to_pylist() == [{"to": {"x": 3}, "by": [{"x": 4}, {"x": 0}]}]


def test_an_unknown_id_another_kind_and_a_registry_that_is_away(
    registry: RegistryServer, client: SchemaRegistryClient, unique: str, free_port: int
) -> None:
    converter = configured(ProtobufConverter, registry.url)
    with pytest.raises(DataException, match=r"refuses schema 99999999: .*404"):
        converter.to_connect_column(unique, pa.array([b"\0" + (99999999).to_bytes(4, "big") + b"\0"]))
    number = client.register_schema(f"{unique}-value", RegistrySchema('"string"', "AVRO"))
    with pytest.raises(DataException, match="has the type AVRO, but ProtobufConverter reads PROTOBUF"):
        converter.to_connect_column(unique, pa.array([b"\0" + number.to_bytes(4, "big") + b"\0"]))
    away = configured(ProtobufConverter, f"http://127.0.0.1:{free_port}", max_retries="0")
    with pytest.raises(UnavailableException, match="The schema registry is unavailable"):
        away.to_connect_column("t", pa.array([b"\0\0\0\0\x01\0"]))
    with pytest.raises(UnavailableException, match="The schema registry is unavailable"):
        away.from_connect_column("t", INT64_SCHEMA, pa.array([1]))


def test_names_that_protobuf_cannot_have_are_refused_before_anything_is_registered(
    registry: RegistryServer, client: SchemaRegistryClient, unique: str
) -> None:
    schema = Schema.struct({"a-b": INT32_SCHEMA}, name="x")
    column = column_of([Struct(schema, {"a-b": 1})], schema)
    with pytest.raises(DataException, match=r"Protobuf cannot have the field 'a-b'.*scrub\.invalid\.names=true"):
        configured(ProtobufConverter, registry.url).from_connect_column(unique, schema, column)
    assert f"{unique}-value" not in client.get_subjects()
    configured(ProtobufConverter, registry.url, scrub_invalid_names="true").from_connect_column(unique, schema, column)
    assert f"{unique}-value" in client.get_subjects()
