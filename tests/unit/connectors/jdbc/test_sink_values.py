"""The sink's rules over plain values: settings that contradict, tables of topics, which changes of a key count."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.registry import dialect_of
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.connectors.jdbc.sink.layout import Records, build_layout, location_of
from airflow_provider_connect.connectors.jdbc.sink.settings import InsertMode, SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.store import table_name
from airflow_provider_connect.connectors.jdbc.sink.tables import effect_of
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from tests.reaching import reaching

URL = {"connection.url": "jdbc:postgresql://db/shop"}


def settings(**more: str) -> SinkSettings:
    config = URL | {name.replace("_", "."): value for name, value in more.items()}
    return SinkSettings.of(JdbcSinkConnector.config_def.parse(config))


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"insert.mode": "upsert"}, "pk.mode"),
        ({"insert.mode": "UPDATE", "pk.mode": "None"}, "pk.mode"),
        ({"insert.mode": "replace"}, "insert.mode"),
        ({"delete.enabled": "true"}, "delete.enabled"),
        ({"delete.enabled": "true", "pk.mode": "record_value"}, "delete.enabled"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "pk.fields"),
        ({"pk.mode": "record_key", "pk.fields": "a,a"}, "pk.fields"),
        ({"db.timezone": "Mars/North"}, "db.timezone"),
        ({"table.name.pattern": "("}, "table.name.pattern"),
        ({"table.name.format": ""}, "table.name.format"),
        ({"batch.size": "0"}, "batch.size"),
        ({"quote.sql.identifiers": "sometimes"}, "quote.sql.identifiers"),
        ({"connection.url": "jdbc:mysql://db/shop?allowLoadLocalInfile=true"}, "connection.url"),
        ({"connection.url": "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://x'"}, "connection.url"),
    ],
)
def test_wrong_settings_are_refused_by_name(config: dict[str, str], key: str) -> None:
    found = {value.name: value.errors for value in reaching(JdbcSinkConnector()).validate(URL | config) if value.errors}
    assert list(found) == [key]
    assert all(f"for configuration {key}: " in error for error in found[key])
    with pytest.raises(ConfigException):
        SinkSettings.of(JdbcSinkConnector.config_def.parse(URL | config))


@pytest.mark.parametrize(
    ("format", "pattern", "topic", "table"),
    [
        ("${topic}", "", "orders", "orders"),
        ("kafka_${topic}_v1", "", "orders", "kafka_orders_v1"),
        ("${topic}", r"shop\.(.*)", "shop.orders", "orders"),
        ("copy.${topic}", r"(?:shop|mall)\.(\w+)\..*", "mall.orders.eu", "copy.orders"),
        ("all", "shop.*", "shop.orders", "all"),
    ],
)
def test_the_table_of_a_topic(format: str, pattern: str, topic: str, table: str) -> None:
    assert settings(table_name_format=format, table_name_pattern=pattern).table_of(topic) == table


@pytest.mark.parametrize(
    ("dialect", "text", "name"),
    [
        ("postgresql", "orders", TableName("orders")),
        ("postgresql", "shop.orders", TableName("orders", "shop")),
        ("postgresql", "db.shop.orders", TableName("orders", "shop", "db")),
        ("mariadb", "shop.orders", TableName("orders", None, "shop")),
        ("sqlite", "shop.orders", TableName("shop.orders")),
    ],
)
def test_names_with_dots(dialect: str, text: str, name: TableName) -> None:
    assert table_name(text, DatabaseUrl(dialect_of(dialect), database="db"), dialect_of(dialect)) == name


@pytest.mark.parametrize(
    ("changes", "mode", "deleted", "written"),
    [
        ("a1 b1 a2", "upsert", None, [1, 2]),
        ("a1 b1", "upsert", None, None),
        ("a1 a2", "insert", None, None),
        ("a1 b1 a-", "upsert", [2], [1]),
        ("a1 a- a2 b1 a3", "upsert", [1], [3, 4]),
        ("a1 a- a2 b1 a3", "insert", [1], [2, 3, 4]),
        ("a- a- b1", "update", [1], [2]),
    ],
)
def test_which_changes_of_a_key_count(changes: str, mode: str, deleted: list[int] | None, written: list[int] | None) -> None:
    keys = pa.table({"k": [change[0] for change in changes.split()], "l": [1] * len(changes.split())})
    deletes = pa.chunked_array([[change[1] == "-" for change in changes.split()]])
    for columns in (["k"], ["k", "l"]):
        effect = effect_of(keys.select(columns), deletes if "-" in changes else None, InsertMode(mode))
        assert (effect.deleted and effect.deleted.to_pylist(), effect.written and effect.written.to_pylist()) == (deleted, written)


def batch(values: list[Any], first: int, partition: int = 0) -> Batch:
    schema = Schema.struct({"id": INT64_SCHEMA, "word": STRING_SCHEMA})
    column = column_of(values, schema)
    return KafkaBatch("t", column, value_schema=schema, kafka_partition=partition, first_offset=first, next_offset=first + len(values))


def test_records_are_sliced_and_found_across_batches() -> None:
    rows = [{"id": number, "word": f"w{number}"} for number in range(10)]
    records = Records([batch(rows[:4], 100), batch([], 104), batch(rows[4:5], 7, 1), batch(rows[5:], 104)])
    layout = build_layout(settings(pk_mode="kafka", fields_whitelist="word"), records.batches[0], str)
    assert layout.keys == ("__connect_topic", "__connect_partition", "__connect_offset")
    assert records.slice(3, 7).table(layout)["__connect_offset"].to_pylist() == [103, 7, 104, 105]
    assert records.slice(3, 7).table(layout)["word"].to_pylist() == ["w3", "w4", "w5", "w6"]
    assert [location_of(records.record(index)) for index in (0, 3, 4, 9)] == [
        (TopicPartition("t", 0), 100),
        (TopicPartition("t", 0), 103),
        (TopicPartition("t", 1), 7),
        (TopicPartition("t", 0), 108),
    ]


@pytest.mark.parametrize(
    ("schema", "value", "postgresql", "mariadb"),
    [
        (STRING_SCHEMA, "it's \\", "'it''s \\'", "'it''s \\\\'"),
        (BOOLEAN_SCHEMA, True, "TRUE", "1"),
        (BYTES_SCHEMA, b"\x00\xff", "'\\x00ff'", "X'00ff'"),
        (decimal_schema(2), Decimal("1E+3"), "1000", "1000"),
        (DATE_SCHEMA, datetime.date(2020, 2, 29), "'2020-02-29'", "'2020-02-29'"),
        (TIMESTAMP_SCHEMA, datetime.datetime(2020, 2, 29, tzinfo=datetime.UTC), "'2020-02-29 00:00:00'", "'2020-02-29 00:00:00'"),
    ],
)
def test_defaults_as_sql(schema: Schema, value: object, postgresql: str, mariadb: str) -> None:
    assert [dialect_of(name).literal(schema, value) for name in ("postgresql", "mariadb")] == [postgresql, mariadb]
