"""AvroConverter with a real registry: its suite, ids in one batch, subjects, the latest schema, references, and what is refused."""

from __future__ import annotations

import dataclasses
import io
import json
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema as RegistrySchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient

from airflow_provider_connect.converters.registry.avro_converter import AvroConverter
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema, Struct
from airflow_provider_connect.errors import DataException, UnavailableException
from airflow_provider_connect.sdk.testing import ConverterSuite
from tests.contract.test_builtin_plugins import VALUES
from tests.integration.registry.conftest import configured
from tests.registry_server import RegistryServer
from tests.waiting import HANG_SECONDS

ORDER = Schema.struct({"id": INT64_SCHEMA, "what": STRING_SCHEMA.as_optional()}, name="shop.Order", version=1)
LATER = Schema.struct(
    {"id": INT64_SCHEMA, "what": STRING_SCHEMA.as_optional(), "n": INT32_SCHEMA.as_optional()}, name="shop.Order", version=1
)


def orders(schema: Schema, *ids: int) -> pa.Array:
    return column_of([Struct(schema, {"id": id, "what": f"order {id}"}) for id in ids], schema)


@pytest.fixture
def client(registry: RegistryServer) -> SchemaRegistryClient:
    return SchemaRegistryClient(registry.client_settings)


class TestAvroConverter(ConverterSuite):
    bad_data: ClassVar[Sequence[bytes]] = (b"", b"\0\0\0", b"\x01\0\0\0\x01\x02", b"\0\x7f\xff\xff\xff\x02")
    bad_values: ClassVar[Sequence[tuple[Schema | None, Any]]] = ((STRING_SCHEMA, None), (INT32_SCHEMA, "x"), (None, {"a": 1}))

    @pytest.fixture(autouse=True)
    def server(self, registry: RegistryServer) -> None:
        self.url = registry.url

    def converter(self) -> AvroConverter:
        return configured(AvroConverter, self.url)

    def values(self) -> Sequence[tuple[Schema | None, Any]]:
        """With a version of their own: others take the registry's."""
        versioned = [(dataclasses.replace(schema, version=1), value) for schema, value in VALUES if schema is not None]
        return [(schema, Struct(schema, value.as_dict()) if isinstance(value, Struct) else value) for schema, value in versioned]

    def read_back(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        return (None, None) if value is None else (schema, value)


def test_records_are_those_of_confluents_wire_format(registry: RegistryServer, client: SchemaRegistryClient, unique: str) -> None:
    converter = configured(AvroConverter, registry.url)
    [record] = converter.from_connect_column(unique, ORDER, orders(ORDER, 7)).to_pylist()
    registered = client.get_latest_version(f"{unique}-value")
    assert record[:5] == b"\0" + int(registered.schema_id or 0).to_bytes(4, "big")
    schema: Any = fastavro.parse_schema(json.loads(registered.schema.schema_str or ""))
    assert fastavro.schemaless_reader(io.BytesIO(record[5:]), schema, None) == {"id": 7, "what": "order 7"}


def test_a_batch_may_hold_several_schemas_and_tombstones(registry: RegistryServer, unique: str) -> None:
    converter = configured(AvroConverter, registry.url)
    old = converter.from_connect_column(unique, ORDER, orders(ORDER, 0, 1, 2)).to_pylist()
    new = converter.from_connect_column(unique, LATER, orders(LATER, 3, 4)).to_pylist()
    mixed = [old[0], old[1], None, new[0], old[2], new[1], None]
    runs = configured(AvroConverter, registry.url).to_connect_column(unique, pa.array(mixed, pa.binary()))
    assert [(run.length, run.schema) for run in runs] == [(2, ORDER), (1, None), (1, LATER), (1, ORDER), (1, LATER), (1, None)]
    found = [value for run in runs for value in values_of(run.column, run.schema)]
    assert [value and value["id"] for value in found] == [0, 1, None, 3, 2, 4, None]


def test_the_broken_record_of_a_mixed_batch_is_named(registry: RegistryServer, unique: str) -> None:
    converter = configured(AvroConverter, registry.url)
    old = converter.from_connect_column(unique, ORDER, orders(ORDER, 0, 1)).to_pylist()
    new = converter.from_connect_column(unique, LATER, orders(LATER, 3)).to_pylist()
    for broken in (new[0] + b"\0", b"\0\0", b'{"id":1}'):
        with pytest.raises(DataException) as caught:
            converter.to_connect_column(unique, pa.array([old[0], None, new[0], broken, old[1]], pa.binary()))
        assert caught.value.record == 3


def test_records_without_a_schema_are_found_before_any_is_read(registry: RegistryServer, unique: str) -> None:
    converter = configured(AvroConverter, registry.url)
    good = converter.from_connect_column(unique, ORDER, orders(ORDER, 0, 1)).to_pylist()
    unknown = b"\0" + (99999999).to_bytes(4, "big") + b"x"
    column = pa.array([b"before", good[0], unknown, None, b"\0\0", unknown, b'{"id":1}', good[1]], pa.binary()).slice(1)
    found = converter.find_invalid_rows(unique, column)
    assert {row: str(error).split(":")[0] for row, error in found.items()} == {
        1: "The schema registry refuses schema 99999999",
        4: "The schema registry refuses schema 99999999",
        3: "The record is shorter than the 5 bytes of a schema id. Check who writes the topic.",
        5: "The record does not start with the zero byte of a schema registry's format. Check who writes the topic.",
    }
    assert converter.find_invalid_rows(unique, column.slice(0, 0)) == {}


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TopicNameStrategy", "{}-value"), ("RecordNameStrategy", "shop.Order"), ("TopicRecordNameStrategy", "{}-shop.Order")],
)
def test_subjects_are_named_by_the_strategy(
    registry: RegistryServer, client: SchemaRegistryClient, unique: str, strategy: str, subject: str
) -> None:
    names = (strategy, f"io.confluent.kafka.serializers.subject.{strategy}")
    written = [
        configured(AvroConverter, registry.url, value_subject_name_strategy=name).from_connect_column(unique, ORDER, orders(ORDER, 1))
        for name in names
    ]
    assert written[0].equals(written[1])
    number = int.from_bytes(written[0][0].as_py()[1:5], "big")
    assert subject.format(unique) in [each.subject for each in client.get_schema_versions(number)]


def test_a_key_has_a_subject_of_its_own_and_a_strategy_by_names_needs_records(
    registry: RegistryServer, client: SchemaRegistryClient, unique: str
) -> None:
    configured(AvroConverter, registry.url, is_key=True).from_connect_column(unique, INT64_SCHEMA, pa.array([1]))
    assert client.get_versions(f"{unique}-key") == [1]
    by_name = configured(AvroConverter, registry.url, value_subject_name_strategy="RecordNameStrategy")
    with pytest.raises(DataException, match=f"RecordNameStrategy needs the name of a record, but the values of topic {unique}"):
        by_name.from_connect_column(unique, INT64_SCHEMA, pa.array([1]))


def test_the_registrys_version_is_that_of_schemas_without_one(registry: RegistryServer, unique: str) -> None:
    converter = configured(AvroConverter, registry.url)
    without = [dataclasses.replace(schema, version=None) for schema in (ORDER, LATER)]
    for number, schema in enumerate(without, 1):
        written = converter.from_connect_column(unique, schema, orders(schema, 1))
        assert converter.to_connect_column(unique, written)[0].schema == dataclasses.replace(schema, version=number)


def test_without_registration_the_schema_must_be_there(registry: RegistryServer, unique: str) -> None:
    reading = configured(AvroConverter, registry.url, auto_register_schemas="false")
    with pytest.raises(DataException, match=f"refuses a schema of subject {unique}-value: .*404"):
        reading.from_connect_column(unique, ORDER, orders(ORDER, 1))
    written = configured(AvroConverter, registry.url).from_connect_column(unique, ORDER, orders(ORDER, 1))
    assert reading.from_connect_column(unique, ORDER, orders(ORDER, 1)).equals(written)


def test_an_incompatible_schema_is_refused_with_the_registrys_words(
    registry: RegistryServer, client: SchemaRegistryClient, unique: str
) -> None:
    converter = configured(AvroConverter, registry.url)
    converter.from_connect_column(unique, ORDER, orders(ORDER, 1))
    client.set_compatibility(f"{unique}-value", "BACKWARD")
    required = Schema.struct({"id": INT64_SCHEMA, "must": STRING_SCHEMA}, name="shop.Order", version=1)
    column = column_of([Struct(required, {"id": 1, "must": "x"})], required)
    with pytest.raises(DataException, match=f"refuses a schema for subject {unique}-value: .*409"):
        converter.from_connect_column(unique, required, column)
    converter.from_connect_column(unique, LATER, orders(LATER, 1))  # a field that may be null is compatible


def test_the_latest_schema_of_the_subject_is_written_by(registry: RegistryServer, client: SchemaRegistryClient, unique: str) -> None:
    latest = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "what", "type": ["null", "string"]},
            {"name": "id", "type": "long"},
            {"name": "n", "type": "int", "default": 4},
        ],
    }
    number = client.register_schema(f"{unique}-value", RegistrySchema(json.dumps(latest), "AVRO"))
    converter = configured(AvroConverter, registry.url, auto_register_schemas="false", use_latest_version="true")
    [record] = converter.from_connect_column(unique, ORDER, orders(ORDER, 9)).to_pylist()
    assert record[:5] == b"\0" + number.to_bytes(4, "big")
    parsed: Any = fastavro.parse_schema(latest)
    assert fastavro.schemaless_reader(io.BytesIO(record[5:]), parsed, None) == {"what": "order 9", "id": 9, "n": 4}
    client.set_compatibility(f"{unique}-value", "FULL")
    other = Schema.struct({"id": STRING_SCHEMA}, name="shop.Order")
    with pytest.raises(DataException, match="not compatible with the latest of subject"):
        converter.from_connect_column(unique, other, column_of([{"id": "x"}], other))


def test_schemas_may_refer_to_others(registry: RegistryServer, client: SchemaRegistryClient, unique: str) -> None:
    place = {"type": "record", "name": "Place", "namespace": unique.replace("-", "_"), "fields": [{"name": "x", "type": "int"}]}
    full = f"{place['namespace']}.Place"
    client.register_schema(full, RegistrySchema(json.dumps(place), "AVRO"))
    route = {"type": "record", "name": "Route", "fields": [{"name": "to", "type": full}, {"name": "back", "type": ["null", full]}]}
    number = client.register_schema(f"{unique}-value", RegistrySchema(json.dumps(route), "AVRO", [SchemaReference(full, full, 1)]))
    data = b"\0" + number.to_bytes(4, "big") + b"\x06\x02\x08"
    [run] = configured(AvroConverter, registry.url).to_connect_column(unique, pa.array([data], pa.binary()))
    assert run.column.to_pylist() == [{"to": {"x": 3}, "back": {"x": 4}}]


def test_an_unknown_id_and_another_kind_of_schema_are_refused(registry: RegistryServer, client: SchemaRegistryClient, unique: str) -> None:
    converter = configured(AvroConverter, registry.url)
    with pytest.raises(DataException, match=r"refuses schema 99999999: .*404"):
        converter.to_connect_column(unique, pa.array([b"\0" + (99999999).to_bytes(4, "big") + b"x"]))
    number = client.register_schema(
        f"{unique}-value", RegistrySchema('{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}', "JSON")
    )
    with pytest.raises(DataException, match="has the type JSON, but AvroConverter reads AVRO"):
        converter.to_connect_column(unique, pa.array([b"\0" + number.to_bytes(4, "big") + b"{}"]))


def test_a_registry_that_is_away_is_asked_again_later(free_port: int) -> None:
    away = f"http://127.0.0.1:{free_port}"
    converter = configured(AvroConverter, away, max_retries="2", retries_wait_ms="200", retries_max_wait_ms="400")
    started = time.monotonic()
    with pytest.raises(UnavailableException, match="The schema registry is unavailable, requesting schema 1: "):
        converter.to_connect_column("t", pa.array([b"\0\0\0\0\x01x"]))
    assert time.monotonic() - started < HANG_SECONDS
    with pytest.raises(UnavailableException, match="unavailable"):
        converter.from_connect_column("t", INT64_SCHEMA, pa.array([1]))


def test_the_next_address_is_asked_where_one_is_away(registry: RegistryServer, free_port: int, unique: str) -> None:
    both = f"http://127.0.0.1:{free_port},{registry.url}"
    assert len(configured(AvroConverter, both, max_retries="0").from_connect_column(unique, INT64_SCHEMA, pa.array([1]))) == 1
