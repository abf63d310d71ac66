"""Facts of the tests of Apache Iceberg's own sink for Kafka Connect that no other test here has (docs/contract.md §15)."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_provider_connect.connectors.lake.iceberg_partitions import partition_fields
from airflow_provider_connect.connectors.lake.iceberg_settings import CONFIG_DEF, PARTITION_BY, IcebergSettings
from airflow_provider_connect.connectors.lake.iceberg_sink import IcebergSinkConnector
from airflow_provider_connect.data.records import SinkRecord
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
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.batch import Batch
from tests.integration.lake.notes import batches
from tests.integration.lake.tables import catalog_of, table_of
from tests.integration.lake.test_iceberg_sink import config, deliver, ids

EVOLVE: Final = {"iceberg.tables.evolve-schema-enabled": "true"}

# Settings


def test_defaults(tmp_path: Path) -> None:
    settings = IcebergSettings.of(CONFIG_DEF.parse({"name": "x", "iceberg.tables": "a.b", **catalog_of(tmp_path)}))
    assert (settings.auto_create, settings.evolve, settings.force_optional, settings.ignores_case) == (False, False, False, False)
    assert (settings.config["iceberg.catalog"], settings.route_field, settings.tables[0].branch) == ("iceberg", None, "main")
    assert (settings.tables[0].id_columns, settings.tables[0].partition_by) == ((), ())


CONTRADICTIONS: Final = {
    "tables and dynamic tables": {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "x"},
    "dynamic tables without a field": {"iceberg.tables": "", "iceberg.tables.dynamic-enabled": "true"},
    "no table": {"iceberg.tables": ""},
}


@pytest.mark.parametrize("change", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_tables_are_named_once(tmp_path: Path, change: dict[str, str]) -> None:
    assert [error for value in IcebergSinkConnector().validate(config(tmp_path) | change) for error in value.errors]


@pytest.mark.parametrize(
    ("text", "columns"), [("", ()), ("a", ("a",)), ("a,b", ("a", "b")), ("a, b", ("a", "b")), (" a , b ,", ("a", "b"))]
)
def test_lists_of_columns(tmp_path: Path, text: str, columns: tuple[str, ...]) -> None:
    given = {"name": "x", "iceberg.tables": "a.b", "iceberg.table.a.b.id-columns": text, **catalog_of(tmp_path)}
    assert IcebergSettings.of(CONFIG_DEF.parse(given)).tables[0].id_columns == columns


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", []),
        ("a", [("a", "identity", None)]),
        ("a,b", [("a", "identity", None), ("b", "identity", None)]),
        ("bucket(a,4)", [("a", "bucket", 4)]),
        ("bucket(a, 4), truncate(b, 10)", [("a", "bucket", 4), ("b", "truncate", 10)]),
        ("a, bucket(b,4), c", [("a", "identity", None), ("b", "bucket", 4), ("c", "identity", None)]),
        ("years(a), month(b), days(c), hour(d)", [("a", "year", None), ("b", "month", None), ("c", "day", None), ("d", "hour", None)]),
    ],
)
def test_lists_of_partitions(text: str, fields: list[tuple[str, str, int | None]]) -> None:
    assert [(each.column, each.transform, each.number) for each in partition_fields(PARTITION_BY, text)] == fields


# New tables

TYPES: Final[dict[str, tuple[Schema, str]]] = {
    "int8": (INT8_SCHEMA, "int"),
    "int16": (INT16_SCHEMA, "int"),
    "int32": (INT32_SCHEMA, "int"),
    "int64": (INT64_SCHEMA, "long"),
    "float32": (FLOAT32_SCHEMA, "float"),
    "float64": (FLOAT64_SCHEMA, "double"),
    "boolean": (BOOLEAN_SCHEMA, "boolean"),
    "string": (STRING_SCHEMA, "string"),
    "bytes": (BYTES_SCHEMA, "binary"),
    "decimal": (decimal_schema(4), "decimal(38, 4)"),
    "date": (DATE_SCHEMA, "date"),
    "time": (TIME_SCHEMA, "time"),
    "timestamp": (TIMESTAMP_SCHEMA, "timestamptz"),
    "array": (Schema.array(STRING_SCHEMA), "list<string>"),
    "map": (Schema.map(STRING_SCHEMA, STRING_SCHEMA), "map<string, string>"),
}
AT: Final = datetime.datetime(2023, 5, 18, 11, 22, 33, tzinfo=datetime.UTC)


def test_types_and_partitions_of_a_new_table(tmp_path: Path) -> None:
    fields = {name: schema.as_optional() for name, (schema, _) in TYPES.items()}
    times = {f"at{n}": TIMESTAMP_SCHEMA for n in range(4)}
    spec = "year(at0), month(at1), day(at2), hour(at3), bucket(int32,4), truncate(string,2), boolean"
    value = {"int32": 7, "string": "abc", "boolean": True, **dict.fromkeys(times, AT)}
    deliver(config(tmp_path) | {"iceberg.tables.default-partition-by": spec}, batches([value], Schema.struct(fields | times)))
    table = table_of(tmp_path, "shop.notes")
    assert {name: str(table.schema().find_type(name)) for name in TYPES} == {name: type for name, (_, type) in TYPES.items()}
    found = [(field.name, str(field.transform)) for field in table.spec().fields]
    assert found == [
        *(("at0_year", "year"), ("at1_month", "month"), ("at2_day", "day"), ("at3_hour", "hour")),
        *(("int32_bucket", "bucket[4]"), ("string_truncate", "truncate[2]"), ("boolean", "identity")),
    ]
    assert [row["string"] for row in table.scan().to_arrow().to_pylist()] == ["abc"]


# Columns that come later: by the schema, where the values are null


def struct(**fields: Schema) -> Schema:
    return Schema.struct(fields).as_optional()


X: Final = INT32_SCHEMA.as_optional()
WITHIN_NULLS: Final[dict[str, tuple[Schema, Schema, dict[str, str]]]] = {
    "a struct": (struct(x=X), struct(x=X, y=X), {"v.y": "optional int"}),
    "a struct in a struct": (struct(s=struct(x=X)), struct(s=struct(x=X, y=X)), {"v.s.y": "optional int"}),
    "a list": (
        Schema.array(struct(x=X)).as_optional(),
        Schema.array(struct(x=X, y=X)).as_optional(),
        {"v.element.y": "optional int"},
    ),
    "a map": (
        Schema.map(STRING_SCHEMA, struct(x=X)).as_optional(),
        Schema.map(STRING_SCHEMA, struct(x=X, y=X)).as_optional(),
        {"v.value.y": "optional int"},
    ),
    "a wider type": (
        struct(x=X, f=FLOAT32_SCHEMA),
        struct(x=INT64_SCHEMA, f=FLOAT64_SCHEMA),
        {"v.x": "optional long", "v.f": "required double"},
    ),
    "an optional field": (struct(x=INT32_SCHEMA), struct(x=X), {"v.x": "optional int"}),
    "nothing new": (struct(x=INT32_SCHEMA), struct(x=INT32_SCHEMA), {"v.x": "required int"}),
    "a narrower type": (struct(x=INT64_SCHEMA), struct(x=INT32_SCHEMA), {"v.x": "required long"}),
}


@pytest.mark.parametrize("name", WITHIN_NULLS)
def test_columns_are_those_of_the_schema_where_values_are_null(tmp_path: Path, name: str) -> None:
    old, new, found = WITHIN_NULLS[name]
    for number, schema in enumerate((old, new)):
        rows = batches([{"id": number, "v": None}], Schema.struct({"id": INT64_SCHEMA, "v": schema}), first=number)
        deliver(config(tmp_path) | EVOLVE, rows, claim_epoch=number + 1)
    table = table_of(tmp_path, "shop.notes")
    fields = {path: table.schema().find_field(path) for path in found}
    assert {path: f"{'required' if each.required else 'optional'} {each.field_type}" for path, each in fields.items()} == found
    assert [row["v"] for row in table.scan().to_arrow().to_pylist()] == [None, None]


def test_an_empty_struct_that_gets_fields_later_costs_its_records_until_then(tmp_path: Path) -> None:
    """A oneof of Protobuf whose messages begin without fields."""
    settings = config(tmp_path) | EVOLVE
    with pytest.raises(Exception, match=r"no type for the field event \(a struct without fields\)"):
        deliver(settings, batches([{"id": 0, "event": None}], Schema.struct({"id": INT64_SCHEMA, "event": struct()})))
    schema = Schema.struct({"id": INT64_SCHEMA, "event": struct(x=X)})
    deliver(settings, batches([{"id": 1, "event": None}], schema, first=1), claim_epoch=2)
    assert ids(tmp_path) == [1]


def test_columns_have_the_tables_order_and_two_topics_share_a_table(tmp_path: Path) -> None:
    first = Schema.struct({"id": INT64_SCHEMA, "a": STRING_SCHEMA.as_optional(), "b": STRING_SCHEMA.as_optional()})
    other = Schema.struct({"b": STRING_SCHEMA.as_optional(), "c": X, "id": INT64_SCHEMA})
    given = [
        SinkRecord("one", 0, 0, None, {"id": 1, "a": "a", "b": "b"}, None, first),
        SinkRecord("two", 0, 0, None, {"b": "B", "c": 3, "id": 2}, None, other),
    ]
    deliver(config(tmp_path) | EVOLVE | {"topics": "one,two"}, Batch.from_sink_records(given))
    rows = sorted(table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": 1, "a": "a", "b": "b", "c": None}, {"id": 2, "a": None, "b": "B", "c": 3}]


def test_a_null_stays_null_where_its_field_has_a_default(tmp_path: Path) -> None:
    """A converter replaces it, or not (``replace.null.with.default``); the sink leaves what it gets."""
    with_default = Schema.of(STRING_SCHEMA.type, optional=True, default="default")
    deliver(config(tmp_path), batches([{"id": 1, "v": None}], Schema.struct({"id": INT64_SCHEMA, "v": with_default})))
    assert table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist() == [{"id": 1, "v": None}]


# Routes

INNER: Final = struct(to=STRING_SCHEMA.as_optional())
ROUTED: Final = {
    "iceberg.tables": "shop.a,shop.b",
    "iceberg.tables.route-field": "s.to",
    "iceberg.table.shop.a.route-regex": "a.*",
    "iceberg.table.shop.b.route-regex": "b",
}


def test_a_route_within_a_struct_that_is_null_reaches_no_table(tmp_path: Path) -> None:
    values: list[Any] = [None, Struct(INNER, {}), Struct(INNER, {"to": "abc"}), Struct(INNER, {"to": "b"}), Struct(INNER, {"to": "xb"})]
    schema = Schema.struct({"id": INT64_SCHEMA, "s": INNER})
    deliver(config(tmp_path) | ROUTED, batches([{"id": n, "s": value} for n, value in enumerate(values)], schema))
    assert (ids(tmp_path, "shop.a"), ids(tmp_path, "shop.b")) == ([2], [3])


@pytest.mark.parametrize("route", ["missing", "s.missing", "id.to"])
def test_a_route_that_no_record_has_reaches_no_table(tmp_path: Path, route: str) -> None:
    schema = Schema.struct({"id": INT64_SCHEMA, "s": INNER})
    rows = batches([{"id": 1, "s": Struct(INNER, {"to": "a"})}], schema)
    deliver(config(tmp_path) | ROUTED | {"iceberg.tables.route-field": route}, rows)
    assert (ids(tmp_path, "shop.a"), ids(tmp_path, "shop.b")) == ([], [])


def test_a_table_without_a_namespace_is_refused(tmp_path: Path) -> None:
    connector = IcebergSinkConnector()
    with pytest.raises(ConfigException, match=r"'notes' is not a table name: use namespace\.table"):
        connector.start(connector.config_def.parse(config(tmp_path) | {"iceberg.tables": "notes"}))
