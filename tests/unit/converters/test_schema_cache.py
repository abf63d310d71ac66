"""What a converter keeps of schemas: few large ones, or many small ones."""

import json

import pyarrow as pa
import pytest

from airflow_provider_connect.converters import schema_cache
from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.converters.schema_cache import MOST_FIELDS, SchemaCache
from airflow_provider_connect.data.schema import STRING_SCHEMA, Schema


def struct_of(number: int, fields: int) -> Schema:
    return Schema.struct({f"f{index}": STRING_SCHEMA for index in range(fields)}, name=f"s{number}")


def test_the_oldest_go_by_number_and_by_size_and_the_newest_stays() -> None:
    made: list[int] = []

    def make(number: int, fields: int) -> Schema:
        made.append(number)
        return struct_of(number, fields)

    cache = SchemaCache[Schema](make, 3)
    for number in (1, 2, 3, 1, 4, 1, 2):
        assert cache(number, 5).name == f"s{number}"
    assert made == [1, 2, 3, 4, 2], "1 was used last when 4 came"
    assert cache.fields == 3 * 7  # the struct, its fields, and one for the entry
    by_size = SchemaCache[Schema](make, 1000)
    for number in range(30):
        by_size(number, 19_000)
        assert by_size.fields <= MOST_FIELDS
    made.clear()
    by_size(29, 19_000)
    by_size(0, 19_000)
    assert made == [0]
    alone = SchemaCache[str](lambda text: text, 10)
    assert alone("x" * 100 * MOST_FIELDS) is alone("x" * 100 * MOST_FIELDS)


def test_a_thousand_schemas_of_json_records_are_not_kept_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_cache, "MOST_FIELDS", 10_000)
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    fields = [{"type": "int8", "optional": True, "field": f"f{index}"} for index in range(750)]
    for number in range(16):
        schema = {"type": "struct", "name": f"s{number}", "optional": True, "fields": fields}
        record = json.dumps({"schema": schema, "payload": None}, separators=(",", ":")).encode()
        (run,) = converter.to_connect_column("t", pa.array([record], pa.binary()))
        assert run.schema is not None
        assert run.schema.name == f"s{number}"
        converter.from_connect_column("t", run.schema, run.column)
    assert 5_000 < converter._schema_of.fields <= 10_000
    assert 5_000 < converter._envelope.fields <= 10_000
