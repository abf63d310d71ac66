"""Fields within structs, lists and maps that come later, in tables of both sinks."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from airflow_provider_connect.data.schema import FLOAT64_SCHEMA, INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema, Struct
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.batch import Batch
from tests.integration.lake import test_delta_sink, test_iceberg_sink
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.notes import batches
from tests.integration.lake.tables import table_of

TEXT: Final = STRING_SCHEMA.as_optional()
EVOLVE: Final = {
    test_iceberg_sink: {"iceberg.tables.evolve-schema-enabled": "true"},
    test_delta_sink: {"delta.table.evolve-schema-enabled": "true"},
}
both_sinks = pytest.mark.parametrize("sink", [test_iceberg_sink, test_delta_sink], ids=["iceberg", "delta"])


def nested_schema(**inner: Schema) -> Schema:
    """The same struct as a field, in a list, and in a list within a struct."""
    one = Schema.struct(inner)
    deep = Schema.struct({"of": Schema.array(one)})
    return Schema.struct({"id": INT64_SCHEMA, "a": one, "list": Schema.array(one), "deep": deep})


def nested(schema: Schema, *inner: dict[str, Any], first: int = 0) -> list[Batch]:
    """Records from offset ``first`` on, each with four structs of the values ``inner``, and the ``id`` of its offset."""
    field = schema.field("a")
    assert field is not None
    values = []
    for id, each in enumerate(inner, first):
        one = Struct(field.schema, each)
        values.append({"id": id, "a": one, "list": [one, one], "deep": {"of": [one]}})
    return batches(values, schema, first=first)


OLD: Final = nested_schema(x=TEXT)
NEW: Final = nested_schema(x=TEXT, y=Schema.struct({"z": TEXT}))


def write_nested(sink: ModuleType, folder: Path, **more: str) -> None:
    """A row of the old struct, one of the new, and one of the old again."""
    settings = sink.config(folder, **more) | EVOLVE[sink]
    sink.deliver(settings, nested(OLD, {"x": "1"}))
    sink.deliver(settings, nested(NEW, {"x": "2", "y": {"z": "new"}}, first=1), claim_epoch=2)
    sink.deliver(settings, nested(OLD, {"x": "3"}, first=2), claim_epoch=3)


def found(sink: ModuleType, folder: Path) -> list[list[dict[str, Any]]]:
    """The structs of each row in the table, by its id."""
    if sink is test_delta_sink:
        rows = delta_rows(folder / "notes")
    else:
        rows = sorted(table_of(folder, "shop.notes").scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    return [[row["a"], *row["list"], *row["deep"]["of"]] for row in rows]


@both_sinks
@pytest.mark.parametrize("is_upsert", [False, True], ids=["append", "upsert"])
def test_fields_at_any_depth_are_added(tmp_path: Path, sink: ModuleType, is_upsert: bool) -> None:
    write_nested(sink, tmp_path, **(sink.UPSERT if is_upsert else {}))
    assert found(sink, tmp_path) == [
        [{"x": "1", "y": None}] * 4,
        [{"x": "2", "y": {"z": "new"}}] * 4,
        [{"x": "3", "y": None}] * 4,
    ]


@both_sinks
def test_fields_of_two_batches_of_one_commit_are_added(tmp_path: Path, sink: ModuleType) -> None:
    records = [*nested(OLD, {"x": "1"}), *nested(NEW, {"x": "2", "y": {"z": "new"}}, first=1)]
    sink.deliver(sink.config(tmp_path) | EVOLVE[sink], records)
    assert found(sink, tmp_path) == [[{"x": "1", "y": None}] * 4, [{"x": "2", "y": {"z": "new"}}] * 4]


@both_sinks
def test_without_evolution_other_fields_are_left_out_at_any_depth(tmp_path: Path, sink: ModuleType) -> None:
    sink.deliver(sink.config(tmp_path), nested(OLD, {"x": "1"}))
    sink.deliver(sink.config(tmp_path), nested(NEW, {"x": "2", "y": {"z": "new"}}, first=1), claim_epoch=2)
    assert found(sink, tmp_path) == [[{"x": "1"}] * 4, [{"x": "2"}] * 4]


@both_sinks
def test_a_renamed_field_becomes_another_field(tmp_path: Path, sink: ModuleType) -> None:
    settings = sink.config(tmp_path) | EVOLVE[sink]
    sink.deliver(settings, nested(OLD, {"x": "1"}))
    sink.deliver(settings, nested(nested_schema(w=TEXT), {"w": "2"}, first=1), claim_epoch=2)
    assert found(sink, tmp_path) == [[{"x": "1", "w": None}] * 4, [{"x": None, "w": "2"}] * 4]


def of_map(key: Schema, value: Schema, first: int, **entries: Any) -> list[Batch]:
    schema = Schema.struct({"id": INT64_SCHEMA, "map": Schema.map(key, value)})
    return batches([{"id": first, "map": entries}], schema, first=first)


@both_sinks
@pytest.mark.parametrize("part", ["key", "value"])
def test_within_a_map_only_iceberg_adds_fields_and_only_to_values(tmp_path: Path, sink: ModuleType, part: str) -> None:
    settings = sink.config(tmp_path) | EVOLVE[sink]
    old, new = Schema.struct({"x": TEXT}), Schema.struct({"x": TEXT, "y": TEXT})
    if part == "key":
        first, second = of_map(old, STRING_SCHEMA, 0), of_map(new, STRING_SCHEMA, 1)
    else:
        first = of_map(STRING_SCHEMA, old, 0, k=Struct(old, {"x": "1"}))
        second = of_map(STRING_SCHEMA, new, 1, k=Struct(new, {"x": "2", "y": "new"}))
    sink.deliver(settings, first)
    if sink is test_iceberg_sink and part == "value":
        sink.deliver(settings, second, claim_epoch=2)
        rows = sorted(table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist(), key=lambda row: row["id"])
        assert [row["map"] for row in rows] == [[("k", {"x": "1", "y": None})], [("k", {"x": "2", "y": "new"})]]
        return
    with pytest.raises(ConnectException, match=rf"map\.{part}\.y: fields cannot be added within that map"):
        sink.deliver(settings, second, claim_epoch=2)


def test_iceberg_widens_fields_at_any_depth(tmp_path: Path) -> None:
    settings = test_iceberg_sink.config(tmp_path) | EVOLVE[test_iceberg_sink]
    narrow, wide = nested_schema(x=INT32_SCHEMA), nested_schema(x=INT64_SCHEMA.as_optional(), y=FLOAT64_SCHEMA)
    test_iceberg_sink.deliver(settings, nested(narrow, {"x": 1}))
    test_iceberg_sink.deliver(settings, nested(wide, {"x": 2**40, "y": 1.5}, {"x": None, "y": 2.5}, first=1), claim_epoch=2)
    assert found(test_iceberg_sink, tmp_path) == [
        [{"x": 1, "y": None}] * 4,
        [{"x": 2**40, "y": 1.5}] * 4,
        [{"x": None, "y": 2.5}] * 4,
    ]


def test_iceberg_refuses_a_record_that_lacks_a_required_inner_field(tmp_path: Path) -> None:
    settings = test_iceberg_sink.config(tmp_path) | EVOLVE[test_iceberg_sink]
    test_iceberg_sink.deliver(settings, nested(nested_schema(x=INT64_SCHEMA), {"x": 1}))
    records = nested(nested_schema(y=INT64_SCHEMA), {"y": 1}, first=1)
    with pytest.raises(ConnectException, match="non-nullable out field `x`"):
        test_iceberg_sink.deliver(settings, records, claim_epoch=2)
