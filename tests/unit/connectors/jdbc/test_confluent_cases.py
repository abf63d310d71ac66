"""The cases of Confluent's JDBC connector's tests, as inputs and outcomes: which columns records become, their types, settings, offsets."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.catalog.table_filter import TableFilter
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.registry import dialect_of
from airflow_provider_connect.connectors.jdbc.sink.layout import Layout, build_layout
from airflow_provider_connect.connectors.jdbc.sink.settings import CONFIG_DEF, SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.store import table_name
from airflow_provider_connect.connectors.jdbc.source.offset import SourceOffset
from airflow_provider_connect.data.columns import column_of
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
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch

URL = "jdbc:postgresql://something/db"
NAMED = Schema.struct({"name": STRING_SCHEMA})
FOUR = Schema.struct({f"field{number}": INT64_SCHEMA for number in (4, 2, 1, 3)})
MAP = Schema.map(INT64_SCHEMA, STRING_SCHEMA)
VALUES = {NAMED: {"name": "n"}, FOUR: dict.fromkeys(("field1", "field2", "field3", "field4"), 1), MAP: {1: "x"}, INT64_SCHEMA: 1}


def settings(**config: str) -> SinkSettings:
    given = {name.replace("_", "."): text for name, text in config.items()}
    return SinkSettings.of(CONFIG_DEF.parse({"connection.url": URL, "topics": "t", **given}))


def batch(key: Schema | None, value: Schema | None) -> Batch:
    sides: dict[str, Any] = {}
    for side, schema in (("key", key), ("value", value)):
        if schema is not None:
            sides |= {side: column_of([VALUES[schema]], schema), f"{side}_schema": schema}
    return KafkaBatch("t", kafka_partition=0, first_offset=0, **sides)


def layout(key: Schema | None, value: Schema | None, **config: str) -> Layout:
    return build_layout(settings(**config), batch(key, value), lambda name: name)


KAFKA = ["__connect_topic", "__connect_partition", "__connect_offset"]
LAYOUTS: list[tuple[dict[str, str], Schema | None, Schema | None, list[str], list[str]]] = [
    ({"pk_mode": "kafka"}, None, NAMED, KAFKA, ["name"]),
    (
        {"pk_mode": "kafka", "pk_fields": "a,b,c"},
        None,
        NAMED,
        ["a", "b", "c"],
        ["name"],
    ),
    ({"pk_mode": "none"}, None, NAMED, [], ["name"]),
    ({"pk_mode": "record_key", "pk_fields": "the_pk"}, INT64_SCHEMA, NAMED, ["the_pk"], ["name"]),
    ({"pk_mode": "RECORD_KEY", "pk_fields": "the_pk"}, INT64_SCHEMA, NAMED, ["the_pk"], ["name"]),
    ({"pk_mode": "record_key", "delete_enabled": "true"}, NAMED, None, ["name"], []),
    ({"pk_mode": "record_value", "pk_fields": "name"}, INT64_SCHEMA, NAMED, ["name"], []),
    (
        {"pk_mode": "record_value", "pk_fields": "field1", "fields_whitelist": "field2,field4"},
        None,
        FOUR,
        ["field1"],
        ["field4", "field2"],
    ),
    ({"pk_mode": "record_value", "pk_fields": "field4"}, None, FOUR, ["field4"], ["field2", "field1", "field3"]),
    ({"pk_mode": "record_key", "pk_fields": "field2,field3"}, FOUR, NAMED, ["field2", "field3"], ["name"]),
]


@pytest.mark.parametrize(("config", "key", "value", "keys", "others"), LAYOUTS)
def test_records_become_columns(
    config: dict[str, str], key: Schema | None, value: Schema | None, keys: list[str], others: list[str]
) -> None:
    found = layout(key, value, **config)
    assert [column.name for column in found.columns if column.is_key] == keys
    assert [column.name for column in found.columns if not column.is_key] == others
    if keys == KAFKA:
        assert [column.schema for column in found.columns[:3]] == [STRING_SCHEMA, INT32_SCHEMA, INT64_SCHEMA]


NOT_ROWS: list[tuple[dict[str, str], Schema | None, Schema | None, str]] = [
    ({"pk_mode": "record_value"}, INT64_SCHEMA, None, "null"),
    ({"pk_mode": "none"}, None, None, "null"),
    ({"pk_mode": "kafka"}, None, None, "null"),
    ({"pk_mode": "kafka"}, None, MAP, "MAP, not a struct"),
    ({"pk_mode": "none"}, None, INT64_SCHEMA, "INT64, not a struct"),
    ({"pk_mode": "record_key", "pk_fields": "pk1,pk2"}, INT64_SCHEMA, NAMED, "must be one name"),
    ({"pk_mode": "record_key"}, None, NAMED, "no key with a schema"),
    ({"pk_mode": "record_key"}, MAP, NAMED, "MAP"),
    ({"pk_mode": "record_key", "pk_fields": "nonexistent"}, NAMED, NAMED, "nonexistent"),
    ({"pk_mode": "record_value", "pk_fields": "nonexistent"}, INT64_SCHEMA, NAMED, "nonexistent"),
]


@pytest.mark.parametrize(("config", "key", "value", "message"), NOT_ROWS)
def test_what_is_no_row_is_refused(config: dict[str, str], key: Schema | None, value: Schema | None, message: str) -> None:
    with pytest.raises(DataException, match=message):
        layout(key, value, **config)


def test_a_key_that_is_a_map_has_no_column() -> None:
    found = layout(MAP, NAMED, pk_mode="record_key", pk_fields="id")
    with pytest.raises(ConnectException, match="MAP has no column type"):
        dialect_of("postgresql").column_type(found.columns[0].schema, is_key=True)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"connection.url": ""}, "connection.url"),
        ({"table.name.format": ""}, "table.name.format"),
        ({"pk.mode": "kafka", "pk.fields": "lone"}, "pk.fields"),
        ({"pk.mode": "invalid_mode"}, "pk.mode"),
        ({"delete.enabled": "true", "pk.mode": "kafka"}, "delete.enabled"),
        ({"delete.enabled": "true", "pk.mode": "none"}, "delete.enabled"),
        ({"insert.mode": "upsert", "pk.mode": "none"}, "pk.mode"),
        ({"insert.mode": "merge"}, "insert.mode"),
        ({"db.timezone": "Nowhere/Town"}, "db.timezone"),
    ],
)
def test_wrong_settings_are_refused_by_name(config: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigException, match=key.replace(".", r"\.")):
        SinkSettings.of(CONFIG_DEF.parse({"connection.url": URL, "topics": "t", **config}))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"auto_create": "true", "pk_mode": "kafka", "pk_fields": "kafka_topic,kafka_partition,kafka_offset"},
        {"delete_enabled": "TRUE", "pk_mode": "record_key"},
        {"delete_enabled": "true", "pk_mode": "RECORD_KEY"},
        {"delete_enabled": "FALSE", "pk_mode": "kafka"},
        {"insert_mode": "UPSERT", "pk_mode": "record_key"},
    ],
)
def test_right_settings_are_taken(config: dict[str, str]) -> None:
    assert settings(**config).delete_enabled == (config.get("delete_enabled", "").lower() == "true")


TYPES: list[tuple[Schema, str, str, str, str]] = [
    (INT8_SCHEMA, "SMALLINT", "TINYINT", "INTEGER", "SMALLINT"),
    (INT16_SCHEMA, "SMALLINT", "SMALLINT", "INTEGER", "SMALLINT"),
    (INT32_SCHEMA, "INTEGER", "INT", "INTEGER", "INTEGER"),
    (INT64_SCHEMA, "BIGINT", "BIGINT", "INTEGER", "BIGINT"),
    (FLOAT32_SCHEMA, "REAL", "FLOAT", "REAL", "REAL"),
    (FLOAT64_SCHEMA, "DOUBLE PRECISION", "DOUBLE", "REAL", "FLOAT"),
    (BOOLEAN_SCHEMA, "BOOLEAN", "TINYINT", "BOOLEAN", "BIT"),
    (STRING_SCHEMA, "TEXT", "LONGTEXT", "TEXT", "NVARCHAR(MAX)"),
    (BYTES_SCHEMA, "BYTEA", "LONGBLOB", "BLOB", "VARBINARY(MAX)"),
    (decimal_schema(0), "DECIMAL", "DECIMAL(65,0)", "DECIMAL(38,0)", "DECIMAL(38,0)"),
    (decimal_schema(4), "DECIMAL", "DECIMAL(65,4)", "DECIMAL(38,4)", "DECIMAL(38,4)"),
    (DATE_SCHEMA, "DATE", "DATE", "DATE", "DATE"),
    (TIME_SCHEMA, "TIME", "TIME(3)", "TIME", "TIME"),
    (TIMESTAMP_SCHEMA, "TIMESTAMP", "DATETIME(3)", "TIMESTAMP", "DATETIME2"),
]


@pytest.mark.parametrize(("schema", "postgresql", "mysql", "sqlite", "mssql"), TYPES)
def test_a_type_has_its_column(schema: Schema, postgresql: str, mysql: str, sqlite: str, mssql: str) -> None:
    found = [dialect_of(name).column_type(schema) for name in ("postgresql", "mysql", "sqlite", "mssql")]
    assert found == [postgresql, mysql, sqlite, mssql]


@pytest.mark.parametrize(
    ("schema", "value", "wanted"),
    [
        (DATE_SCHEMA, datetime.date(2001, 3, 15), "'2001-03-15'"),
        (TIME_SCHEMA, datetime.time(), "'00:00:00"),
        (TIMESTAMP_SCHEMA, datetime.datetime(2001, 3, 15, tzinfo=datetime.UTC), "'2001-03-15 00:00:00"),
        (INT32_SCHEMA, 42, "42"),
        (STRING_SCHEMA, "it's", "'it''s'"),
        (decimal_schema(2), Decimal("1.50"), "1.50"),
    ],
)
def test_a_default_is_a_literal(schema: Schema, value: Any, wanted: str) -> None:
    for name in ("postgresql", "mysql", "sqlite"):
        assert dialect_of(name).literal(schema, value).startswith(wanted)


def test_a_default_of_a_boolean_is_the_dialect_s() -> None:
    assert [dialect_of(name).literal(BOOLEAN_SCHEMA, True).upper() for name in ("postgresql", "mysql")] == ["TRUE", "1"]


@pytest.mark.parametrize(
    ("offset", "written"),
    [
        (SourceOffset(), {}),
        (SourceOffset(None, 100_000_000), {"timestamp": 100, "timestamp_nanos": 100_000_000}),
        (SourceOffset(1000), {"incrementing": 1000}),
        (SourceOffset(1000, 100_000_000), {"incrementing": 1000, "timestamp": 100, "timestamp_nanos": 100_000_000}),
        (SourceOffset(None, 1_234_567_123_456), {"timestamp": 1_234_567, "timestamp_nanos": 567_123_456}),
    ],
)
def test_an_offset_is_written_and_read(offset: SourceOffset, written: dict[str, object]) -> None:
    assert (offset.to_json(), SourceOffset.of(written)) == (written, offset)
    without_nanos = {name: value for name, value in written.items() if name != "timestamp_nanos"}
    assert SourceOffset.of(without_nanos).incrementing == offset.incrementing


TABLES = [TableName("users", "public", "db"), TableName("orders", "public", "db"), TableName("orders_old", "audit", "db")]


@pytest.mark.parametrize(
    ("include", "exclude", "wanted"),
    [
        ((), (), ["users", "orders", "orders_old"]),
        (("users",), (), ["users"]),
        (("public.users", "audit.orders_old"), (), ["users", "orders_old"]),
        ((), ("orders",), ["users", "orders_old"]),
        (("db.public.*",), (), ["users", "orders"]),
        ((".*orders.*",), (".*_old",), ["orders"]),
        (("nothing",), (), []),
    ],
)
def test_tables_are_chosen(include: tuple[str, ...], exclude: tuple[str, ...], wanted: list[str]) -> None:
    assert [table.table for table in TableFilter.of(include, exclude).chosen(TABLES)] == wanted


@pytest.mark.parametrize("pattern", ["database.schema(table.*", "database.schema[table.*"])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    for given in (((pattern,), ()), ((), (pattern,))):
        with pytest.raises(ConfigException, match="neither the name of a table nor a regular expression"):
            TableFilter.of(*given)


@pytest.mark.parametrize(
    ("product", "text", "wanted"),
    [
        ("postgresql", "p1.p2.p3", TableName("p3", "p2", "p1")),
        ("postgresql", '"p1"."p2"."p3"', TableName("p3", "p2", "p1")),
        ("postgresql", '"p1"."p3"', TableName("p3", "p1")),
        ("postgresql", '"p1.1.2.3"', TableName("p1.1.2.3")),
        ("postgresql", 'public."topic.with.dots"', TableName("topic.with.dots", "public")),
        ("postgresql", '"a""b"', TableName('a"b')),
        ("mysql", "`p1`.`p.2`", TableName("p.2", None, "p1")),
        ("mssql", "[p1].[p.2]", TableName("p.2", "p1")),
        ("mssql", "[p1.1.2.3]", TableName("p1.1.2.3")),
        ("sqlite", "`a.b`", TableName("a.b")),
        ("sqlite", "a.b", TableName("a.b")),
    ],
)
def test_a_name_in_quotes_has_its_dots(product: str, text: str, wanted: TableName) -> None:
    assert name_of(text, product) == wanted


def test_a_name_in_quotes_keeps_its_case() -> None:
    unquoting = dialect_of("postgresql", is_quoting=False)
    assert table_name("Public.Orders", DatabaseUrl(unquoting), unquoting) == TableName("orders", "public")
    assert table_name('Public."Orders"', DatabaseUrl(unquoting), unquoting) == TableName("Orders", "public")


@pytest.mark.parametrize("text", ['"p1"."p3".', '"a"."b"."c"."d"', '."a"', '"a".."b"'])
def test_a_name_that_ends_with_a_dot_is_refused(text: str) -> None:
    with pytest.raises(ConfigException, match=r"table\.name\.format"):
        name_of(text)


def name_of(text: str, product: str = "postgresql") -> TableName:
    dialect = dialect_of(product)
    return table_name(text, DatabaseUrl(dialect, database="p1"), dialect)


@pytest.mark.parametrize(
    ("product", "text", "part"),
    [
        ("postgresql", "p2.public.orders", "p2 is not the database of the connection"),
        ("postgresql", '"P1".public.orders', "P1 is not the database of the connection"),
        ("postgresql", "eu.p1.public.orders", "eu.p1 is not the database of the connection"),
        ("mysql", "eu.p1.orders", "eu is neither its database nor its table"),
    ],
)
def test_a_part_that_no_statement_can_have_is_refused(product: str, text: str, part: str) -> None:
    with pytest.raises(ConfigException, match=rf"table\.name\.format: {part}.* Set table\.name\.pattern"):
        name_of(text, product)
