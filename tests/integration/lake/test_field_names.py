"""Settings that hold at any depth: optional fields, names in another case or by a mapping, id columns and partitions within structs."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from airflow_provider_connect.data.records import SinkRecord
from airflow_provider_connect.data.schema import FLOAT64_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema, SchemaType, Struct
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.batch import Batch
from tests.integration.lake import test_delta_sink, test_iceberg_sink
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.delta_zombies import deliver as deliver_delta
from tests.integration.lake.notes import NOTE, batches, note
from tests.integration.lake.tables import table_of
from tests.integration.lake.test_iceberg_sink import UPSERT, config, deliver, ids
from tests.integration.lake.test_nested_fields import EVOLVE, nested, nested_schema

ANY_CASE: Final = {"iceberg.tables.schema-case-insensitive": "true"}
OPTIONAL: Final = {"iceberg.tables.schema-force-optional": "true"}
INNER: Final = Schema.struct({"x": STRING_SCHEMA, "list": Schema.array(STRING_SCHEMA), "map": Schema.map(STRING_SCHEMA, INT64_SCHEMA)})
DEEP: Final = Schema.struct(
    {"id": INT64_SCHEMA, "a": INNER, "list": Schema.array(INNER), "map": Schema.map(STRING_SCHEMA, INNER), "keys": Schema.map(INNER, INNER)}
)
_INNER: Final = Struct(INNER, {"x": "x", "list": ["y"], "map": {"k": 1}})
VALUE: Final[dict[str, Any]] = {"a": _INNER, "list": [_INNER], "map": {"k": _INNER}, "keys": {}}


def required(fields: list[pa.Field], path: str = "") -> list[str]:
    """The fields, at any depth, that may not be null, but for the keys of maps."""
    found = []
    for field in fields:
        name, type = f"{path}{field.name}", field.type
        found += [] if field.nullable else [name]
        if pa.types.is_map(type):
            keys = list(type.key_type) if pa.types.is_struct(type.key_type) else []
            found += required([*keys, type.item_field], f"{name}.")
        elif type.num_fields:
            found += required([type.field(index) for index in range(type.num_fields)], f"{name}.")
    return found


def required_of(table: Table) -> list[str]:
    return required(list(schema_to_pyarrow(table.schema(), include_field_ids=False)))


@pytest.mark.parametrize("is_new", [True, False], ids=["of a new table", "that come later"])
def test_columns_may_be_null_at_any_depth(tmp_path: Path, is_new: bool) -> None:
    settings = config(tmp_path) | OPTIONAL | EVOLVE[test_iceberg_sink]
    if not is_new:
        first = [{"id": 0, "s": Struct(Schema.struct({"y": STRING_SCHEMA}), {"y": "y"})}]
        deliver(settings, batches(first, Schema.struct({"id": INT64_SCHEMA, "s": Schema.struct({"y": STRING_SCHEMA})})))
    within = Schema.struct({"y": STRING_SCHEMA, "new": INNER})
    schema = Schema.struct({**{field.name: field.schema for field in DEEP.fields}, "s": within})
    value = {"id": 1, **VALUE, "s": Struct(within, {"y": "y", "new": _INNER})}
    deliver(settings, batches([value], schema, first=1), claim_epoch=2)
    assert required_of(table_of(tmp_path, "shop.notes")) == []


def test_without_the_setting_new_tables_have_the_fields_own_nullability(tmp_path: Path) -> None:
    deliver(config(tmp_path), batches([{"id": 1, **VALUE}], DEEP))
    found = required_of(table_of(tmp_path, "shop.notes"))
    assert found[:7] == ["id", "a", "a.x", "a.list", "a.list.element", "a.map", "a.map.value"]
    assert len(found) == 33


def test_a_field_that_must_be_there_stays_so_beside_optional_new_ones(tmp_path: Path) -> None:
    """The setting is about what is new."""
    deliver(config(tmp_path), batches([{"id": 1}], Schema.struct({"id": INT64_SCHEMA})))
    deliver(config(tmp_path) | OPTIONAL | EVOLVE[test_iceberg_sink], batches([{"id": 2, **VALUE}], DEEP, first=1), claim_epoch=2)
    assert required_of(table_of(tmp_path, "shop.notes")) == ["id"]


def test_columns_of_delta_may_be_null_at_any_depth(tmp_path: Path) -> None:
    settings = test_delta_sink.config(tmp_path) | EVOLVE[test_delta_sink]
    deliver_delta(settings, batches([{"id": 1, "a": _INNER}], Schema.struct({"id": INT64_SCHEMA, "a": INNER})))
    deliver_delta(settings, batches([{"id": 2, **VALUE}], DEEP, first=1), claim_epoch=2)
    assert required(list(pa.schema(DeltaTable(str(tmp_path / "notes")).schema().to_arrow()))) == []


# Names


UPPER: Final = nested_schema(X=STRING_SCHEMA.as_optional())
LOWER: Final = nested_schema(x=STRING_SCHEMA.as_optional())


def in_any_case(sink: ModuleType, folder: Path, **more: str) -> list[dict[str, Any]]:
    settings = sink.config(folder) | EVOLVE[sink] | more
    sink.deliver(settings, nested(LOWER, {"x": "1"}))
    field = UPPER.field("a")
    assert field is not None
    one = Struct(field.schema, {"X": "2"})
    values = [{"ID": 1, "A": one, "List": [one, one], "deep": {"OF": [one]}}]
    schema = Schema.struct(
        {
            "ID": INT64_SCHEMA,
            "A": field.schema,
            "List": Schema.array(field.schema),
            "deep": Schema.struct({"OF": Schema.array(field.schema)}),
        }
    )
    sink.deliver(settings, batches(values, schema, first=1), claim_epoch=2)
    if sink is test_delta_sink:
        return delta_rows(folder / "notes")
    return sorted(table_of(folder, "shop.notes").scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("sink", [test_iceberg_sink, test_delta_sink], ids=["iceberg", "delta"])
def test_fields_reach_columns_in_another_case_at_any_depth(tmp_path: Path, sink: ModuleType) -> None:
    found = in_any_case(sink, tmp_path, **(ANY_CASE if sink is test_iceberg_sink else {}))
    rows = [{"id": n, "a": {"x": t}, "list": [{"x": t}] * 2, "deep": {"of": [{"x": t}]}} for n, t in enumerate("12")]
    assert found == rows


@pytest.mark.parametrize("sink", [test_iceberg_sink, test_delta_sink], ids=["iceberg", "delta"])
@pytest.mark.parametrize("is_deep", [False, True], ids=["columns", "within a list"])
def test_two_fields_that_are_one_column_are_a_bad_record(tmp_path: Path, sink: ModuleType, is_deep: bool) -> None:
    two = Schema.struct({"x": STRING_SCHEMA, "X": STRING_SCHEMA})
    schema = Schema.struct({"id": INT64_SCHEMA, "list": Schema.array(two)}) if is_deep else two
    value = {"id": 1, "list": [Struct(two, {"x": "1", "X": "2"})]} if is_deep else {"x": "1", "X": "2"}
    path = r"list\." if is_deep else ""
    with pytest.raises(ConnectException, match=f"The fields {path}x and {path}X of a record are the same column of the table"):
        sink.deliver(sink.config(tmp_path) | (ANY_CASE if sink is test_iceberg_sink else {}), batches([value], schema))


def test_by_default_iceberg_has_columns_that_differ_in_case(tmp_path: Path) -> None:
    settings = config(tmp_path) | EVOLVE[test_iceberg_sink]
    deliver(settings, batches([{"x": "1", "X": "2"}], Schema.struct({"x": STRING_SCHEMA, "X": STRING_SCHEMA})))
    assert table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist() == [{"x": "1", "X": "2"}]


def records(values: list[dict[str, Any] | None], keys: list[dict[str, Any]], first: int = 0) -> list[Batch]:
    upper = Schema.struct({"ID": INT64_SCHEMA, "Text": STRING_SCHEMA.as_optional()}).as_optional()
    key = Schema.struct({"ID": INT64_SCHEMA})
    pairs = zip(keys, values, strict=True)
    return Batch.from_sink_records(SinkRecord("notes", 0, first + n, k, v, key, upper) for n, (k, v) in enumerate(pairs))


@pytest.mark.parametrize("sink", [test_iceberg_sink, test_delta_sink], ids=["iceberg", "delta"])
def test_keys_and_id_columns_are_found_in_another_case(tmp_path: Path, sink: ModuleType) -> None:
    settings = sink.config(tmp_path, **sink.UPSERT) | (ANY_CASE if sink is test_iceberg_sink else {})
    sink.deliver(settings, batches([note(1, "a"), note(2, "b"), note(3, "c")], NOTE))
    other = {"iceberg.tables.default-id-columns": "Id"} if sink is test_iceberg_sink else {"delta.table.id-columns": "Id"}
    changes = records([{"ID": 1, "Text": "new"}, None], [{"ID": 1}, {"ID": 2}], first=3)
    sink.deliver(settings | other, changes, claim_epoch=2)
    rows = delta_rows(tmp_path / "notes") if sink is test_delta_sink else table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [note(1, "new"), note(3, "c")]


def test_fields_reach_columns_by_the_tables_mapping_of_names(tmp_path: Path) -> None:
    deliver(config(tmp_path), nested(LOWER, {"x": "1"}))
    table = table_of(tmp_path, "shop.notes")
    with table.update_schema() as update:
        update.rename_column("a.x", "y")
        update.rename_column("id", "number")
    number, a, y, column, element, x = (
        table.schema().find_field(name).field_id for name in ("number", "a", "a.y", "list", "list.element", "list.element.x")
    )
    inner = {
        "field-id": column,
        "names": ["list"],
        "fields": [{"field-id": element, "names": ["element"], "fields": [{"field-id": x, "names": ["x"]}]}],
    }
    outer = [{"field-id": number, "names": ["number", "id"]}, {"field-id": a, "names": ["a"], "fields": [{"field-id": y, "names": ["x"]}]}]
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": json.dumps([*outer, inner])})
    deliver(config(tmp_path), nested(LOWER, {"x": "2"}, first=1), claim_epoch=2)
    found = {row["number"]: row for row in table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist()}
    assert found[1] == {"number": 1, "a": {"y": "2"}, "list": [{"x": "2"}] * 2, "deep": {"of": [{"x": "2"}]}}


# Columns within structs


KEY: Final = Schema.struct({"n": INT64_SCHEMA})
KEYED: Final = Schema.struct({"id": INT64_SCHEMA, "key": KEY})


def keyed(id: int, number: int) -> dict[str, Any]:
    return {"id": id, "key": Struct(KEY, {"n": number})}


def test_an_id_column_within_a_struct_identifies_rows(tmp_path: Path) -> None:
    settings = config(tmp_path, **UPSERT) | {"iceberg.tables.default-id-columns": "key.n"}
    deliver(settings, batches([keyed(1, 7), keyed(2, 8), keyed(3, 7)], KEYED))
    deliver(settings, batches([keyed(4, 8), keyed(5, 9)], KEYED, first=3), claim_epoch=2)
    assert ids(tmp_path) == [3, 4, 5]
    whole = Schema.struct({"key": KEY})
    tombstones = [SinkRecord("notes", 0, 5, {"key": Struct(KEY, {"n": 9})}, None, whole), SinkRecord("notes", 0, 6, 7, None, INT64_SCHEMA)]
    for number, tombstone in enumerate(tombstones, 3):
        deliver(settings, Batch.from_sink_records([tombstone]), claim_epoch=number)
    assert ids(tmp_path) == [4]


def test_a_partition_within_a_struct_selects_its_files(tmp_path: Path) -> None:
    settings = config(tmp_path) | ANY_CASE | {"iceberg.tables.default-partition-by": "Key.N"}
    deliver(settings, batches([keyed(1, 7), keyed(2, 8), keyed(3, 7)], KEYED))
    table = table_of(tmp_path, "shop.notes")
    assert [field.name for field in table.spec().fields] == ["key.n"]
    scan = table.scan(row_filter="key.n = 7")
    assert len(list(scan.plan_files())) == 1
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [1, 3]
    schema = Schema.struct({"v": Schema.struct({"x": FLOAT64_SCHEMA})})
    value = {"v": Struct(schema.fields[0].schema, {"x": -0.0})}
    with pytest.raises(ConnectException, match=r"v\.x of table \S+ cannot hold NaN or -0\.0"):
        deliver(config(tmp_path) | {"iceberg.tables": "shop.b", "iceberg.tables.default-partition-by": "v.x"}, batches([value], schema))


@pytest.mark.parametrize("column", ["list.element.x", "map.value.x", "keys.key.x"])
def test_a_partition_within_a_list_or_a_map_is_refused_as_a_setting(tmp_path: Path, column: str) -> None:
    with pytest.raises(ConfigException, match="A partition within a list or a map cannot be written"):
        deliver(config(tmp_path) | {"iceberg.tables.default-partition-by": column}, batches([{"id": 1, **VALUE}], DEEP))


def test_a_partition_of_delta_by_a_struct_is_refused_as_a_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match="cannot partition by struct"):
        deliver_delta(test_delta_sink.config(tmp_path) | {"delta.table.partition-by": "a"}, batches([{"id": 1, **VALUE}], DEEP))


IDENTIFIED: Final = {
    "a required column": ("id", {"id"}),
    "one within a struct": ("key.n", {"key.n"}),
    "two": ("id,key.n", {"id", "key.n"}),
    "one that may be null": ("maybe", set()),
    "a float": ("float", set()),
    "a struct": ("key", set()),
    "none": ("", set()),
}


@pytest.mark.parametrize(("columns", "found"), IDENTIFIED.values(), ids=IDENTIFIED)
def test_id_columns_of_a_new_table_identify_its_rows_for_others(tmp_path: Path, columns: str, found: set[str]) -> None:
    fields = {"id": INT64_SCHEMA, "key": KEY, "float": FLOAT64_SCHEMA, "maybe": INT64_SCHEMA.as_optional()}
    value = {"id": 1, "key": Struct(KEY, {"n": 1}), "float": 1.0, "maybe": 1}
    deliver(config(tmp_path) | {"iceberg.tables.default-id-columns": columns}, batches([value], Schema.struct(fields)))
    assert table_of(tmp_path, "shop.notes").schema().identifier_field_names() == found


def test_columns_that_identify_rows_for_others_stay_required(tmp_path: Path) -> None:
    """Another program has named them, and the config does not."""
    deliver(config(tmp_path), batches([keyed(1, 7)], KEYED))
    with table_of(tmp_path, "shop.notes").update_schema() as update:
        update.set_identifier_fields("key.n")
    inner = Schema.struct({"n": INT64_SCHEMA.as_optional()}).as_optional()
    schema = Schema.struct({"id": INT64_SCHEMA.as_optional(), "key": inner})
    deliver(
        config(tmp_path) | EVOLVE[test_iceberg_sink],
        batches([{"id": 2, "key": Struct(inner, {"n": 8})}], schema, first=1),
        claim_epoch=2,
    )
    assert required_of(table_of(tmp_path, "shop.notes")) == ["key", "key.n"]
    assert len(table_of(tmp_path, "shop.notes").scan().to_arrow()) == 2


def test_texts_whose_schema_is_named_uuid_are_uuids_as_in_apaches_sink(tmp_path: Path) -> None:
    named = Schema(SchemaType.STRING, name="uuid")
    schema = Schema.struct({"key": named, "list": Schema.array(named.as_optional())})
    texts = [str(uuid.UUID(int=number)) for number in (5, 2**128 - 1)]
    settings = config(tmp_path, **UPSERT) | {"iceberg.tables.default-id-columns": "key"}
    deliver(settings, batches([{"key": text, "list": [text, None]} for text in texts], schema))
    deliver(settings, batches([{"key": texts[0], "list": []}], schema, first=2), claim_epoch=2)
    table = table_of(tmp_path, "shop.notes")
    assert [str(table.schema().find_type(name)) for name in ("key", "list.element")] == ["uuid", "uuid"]
    found = {str(row["key"]): [each and str(each) for each in row["list"]] for row in table.scan().to_arrow().to_pylist()}
    assert found == {texts[0]: [], texts[1]: [texts[1], None]}
