"""What records do to tables: by insert mode, primary key, deletes and types, on real databases."""

import datetime
from decimal import Decimal

import pytest

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
from tests.integration.jdbc.sinks import KEY, NOTE, UPSERT, Sink, TargetDatabase

CREATE = {"auto.create": "true"}
EVERYTHING = Schema.struct(
    {
        "a": INT8_SCHEMA,
        "b": INT16_SCHEMA,
        "c": INT32_SCHEMA,
        "d": INT64_SCHEMA,
        "e": FLOAT32_SCHEMA,
        "f": FLOAT64_SCHEMA,
        "g": BOOLEAN_SCHEMA,
        'odd "name" %s': STRING_SCHEMA,
        "i": BYTES_SCHEMA,
        "j": decimal_schema(3),
        "k": DATE_SCHEMA,
        "l": TIME_SCHEMA,
        "m": TIMESTAMP_SCHEMA,
    }
)
OPTIONAL = Schema.struct({field.name: field.schema.as_optional() for field in EVERYTHING.fields})
ROW = {
    "a": -1,
    "b": 2,
    "c": 3,
    "d": 2**62,
    "e": 0.5,
    "f": 1e100,
    "g": True,
    'odd "name" %s': "é'\"\\",
    "i": b"\x00\xff",
    "j": Decimal("-123456789012.125"),
    "k": datetime.date(1969, 12, 31),
    "l": datetime.time(23, 59, 59, 999000),
    "m": datetime.datetime(2020, 2, 29, 12, 30, 15, 250000, tzinfo=datetime.UTC),
}
LOCAL = datetime.datetime(2020, 2, 29, 13, 30, 15, 250000)
SQLITE = {"g": 1, "k": "1969-12-31", "l": "23:59:59.999", "m": "2020-02-29 13:30:15.250000"}


def test_a_value_of_each_type_arrives(target: TargetDatabase) -> None:
    sink = Sink(target, {**CREATE, "db.timezone": "Europe/Berlin"}, ("all",))
    sink.put([ROW, dict.fromkeys(ROW)], OPTIONAL, topic="all")
    sink.commit()
    names = ", ".join('"{}"'.format(name.replace('"', '""')) if name != "j" else "CAST(j AS VARCHAR(40))" for name in ROW)
    [row, nulls] = target.rows(f'SELECT {names} FROM "all" ORDER BY a IS NULL')
    assert nulls == (None,) * len(ROW)
    expected = {**ROW, "j": "-123456789012.125", "m": LOCAL} | (SQLITE if target.dialect == "sqlite" else {})
    assert dict(zip(ROW, row, strict=True)) == expected
    sink.end()


def test_values_go_into_columns_of_other_types(postgresql_target: TargetDatabase) -> None:
    target = postgresql_target
    target.run(
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        "CREATE DOMAIN short AS varchar(5) CHECK (value <> 'never')",
        "CREATE TABLE notes (id numeric(20,2), doc jsonb, made timestamptz, uid uuid, mood mood, word short, tags int[], small int2, "
        "big float8)",
    )
    schema = {"id": INT64_SCHEMA, "made": TIMESTAMP_SCHEMA, "small": INT64_SCHEMA, "big": INT32_SCHEMA}
    texts = {"doc": '{"a": 1}', "uid": "c7a1d5a0-0000-4000-8000-000000000001", "mood": "sad", "word": "word", "tags": "{1,2}"}
    value = {"id": 7, "made": ROW["m"], "small": 5, "big": 9, **texts}
    sink = Sink(target, {})
    sink.put([value], Schema.struct({**schema, **dict.fromkeys(texts, STRING_SCHEMA)}))
    sink.commit()
    [row] = target.rows(
        "SELECT id::text, made = '2020-02-29 12:30:15.25Z', small, big, doc->>'a', uid::text, mood::text, word::text, tags[2] FROM notes"
    )
    assert row == ("7.00", True, 5, 9.0, "1", texts["uid"], "sad", "word", 2)
    sink.end()


def test_inserts_of_one_key_are_rows_of_their_own(target: TargetDatabase) -> None:
    sink = Sink(target, CREATE)
    sink.put_notes((1, "a"), (1, "b"))
    sink.commit()
    sink.put_notes((1, "c"))
    sink.commit()
    assert sink.notes() == [(1, "a"), (1, "b"), (1, "c")]
    sink.end()


def test_the_position_in_kafka_can_be_the_key(target: TargetDatabase) -> None:
    sink = Sink(target, {**CREATE, "pk.mode": "kafka", "insert.mode": "upsert"})
    sink.put_notes((1, "a"), (1, "b"))
    sink.commit()
    rows = target.rows("SELECT __connect_topic, __connect_partition, __connect_offset, id, text FROM notes ORDER BY 3")
    assert rows == [("notes", 0, 0, 1, "a"), ("notes", 0, 1, 1, "b")]
    sink.end()


@pytest.mark.parametrize(
    "settings",
    [
        {"pk.mode": "record_key"},
        {"pk.mode": "record_key", "pk.fields": "id"},
        {"pk.mode": "record_value", "pk.fields": "id"},
    ],
    ids=str,
)
def test_the_last_change_of_a_key_holds(target: TargetDatabase, settings: dict[str, str]) -> None:
    sink = Sink(target, {**CREATE, "insert.mode": "upsert", **settings})
    sink.put_notes((1, "a"), (2, "a"), (1, "b"), (3, "a"), (1, "c"))
    sink.commit()
    sink.put_notes((2, "b"), (4, None))
    sink.put_notes((2, "c"), (2, None))
    sink.commit()
    assert sink.notes() == [(1, "c"), (2, None), (3, "a"), (4, None)]
    sink.end()


def test_a_key_of_a_single_value_gets_the_name_of_pk_fields(target: TargetDatabase) -> None:
    sink = Sink(target, {**UPSERT, "pk.fields": "number"})
    sink.put([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], keys=["x", "x"], key_schema=STRING_SCHEMA)
    sink.commit()
    assert target.rows("SELECT number, id, text FROM notes") == [("x", 2, "b")]
    sink.end()


def test_updates_change_only_rows_that_are_there(target: TargetDatabase) -> None:
    target.run("CREATE TABLE notes (id bigint PRIMARY KEY, text varchar(10), more varchar(10) NOT NULL)")
    target.run("INSERT INTO notes VALUES (1, 'old', 'm')")
    sink = Sink(target, {"insert.mode": "update", "pk.mode": "record_value", "pk.fields": "id"})
    sink.put_notes((1, "a"), (2, "a"), (1, "b"))
    sink.commit()
    assert target.rows("SELECT * FROM notes") == [(1, "b", "m")]
    sink.end()


def test_records_without_a_value_delete(target: TargetDatabase) -> None:
    sink = Sink(target, {**UPSERT, "delete.enabled": "true"})
    sink.put_deletes(9)  # of a table that there is not yet
    sink.put_notes((1, "a"), (2, "a"), (3, "a"), (4, "a"))
    sink.commit()
    sink.put_deletes(1, 2)
    sink.put_notes((2, "b"), (5, "a"))
    sink.put_deletes(5, 3, 9)
    sink.put([{"id": 4, "text": "b"}, None, None, {"id": 6, "text": "b"}], keys=[{"id": 4}, {"id": 4}, {"id": 6}, {"id": 6}])
    sink.commit()
    assert sink.notes() == [(2, "b"), (6, "b")]
    sink.end()


def test_inserts_and_deletes_of_one_key_come_in_their_order(target: TargetDatabase) -> None:
    sink = Sink(target, {**UPSERT, "insert.mode": "insert", "delete.enabled": "true"})
    sink.put_notes((1, "a"), (2, "a"))
    sink.commit()
    sink.put_deletes(1)
    sink.put_notes((1, "b"), (3, "a"))
    sink.put_deletes(3)
    sink.put_notes((3, "b"))
    sink.commit()
    assert sink.notes() == [(1, "b"), (2, "a"), (3, "b")]
    sink.end()


def test_only_the_wanted_fields_are_written(target: TargetDatabase) -> None:
    sink = Sink(target, {**UPSERT, "fields.whitelist": "text"})
    schema = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA, "secret": STRING_SCHEMA})
    sink.put([{"id": 1, "text": "a", "secret": "s"}], schema, keys=[{"id": 1}])
    sink.commit()
    assert target.rows("SELECT * FROM notes") == [(1, "a")]
    sink.end()


def test_topics_go_to_tables_by_format_and_pattern(target: TargetDatabase) -> None:
    topics = ("shop.eu.orders", "shop.eu.people")
    sink = Sink(target, {**CREATE, "table.name.format": "copy_${topic}", "table.name.pattern": r"shop\.\w+\.(.*)"}, topics)
    for topic in topics:
        sink.put([{"id": 1, "text": topic}], topic=topic)
    sink.commit()
    assert target.rows("SELECT text FROM copy_orders") == [(topics[0],)]
    assert target.rows("SELECT text FROM copy_people") == [(topics[1],)]
    sink.end()


def test_a_dot_in_the_name_is_between_schema_and_table(postgresql_target: TargetDatabase) -> None:
    target = postgresql_target
    [(schema,)] = target.rows("SELECT current_schema()::text")
    target.run(f"CREATE SCHEMA {schema}_other")
    sink = Sink(target, {**UPSERT, "table.name.format": f"{schema}_other.${{topic}}"})
    sink.put_notes((1, "a"), (1, "b"))
    sink.commit()
    assert target.rows(f"SELECT id, text FROM {schema}_other.notes") == [(1, "b")]
    sink.end()


def test_a_topic_with_dots_is_one_table_in_quotes(postgresql_target: TargetDatabase) -> None:
    target = postgresql_target
    [(schema,)] = target.rows("SELECT current_schema()::text")
    sink = Sink(target, {**CREATE, "table.name.format": f'"{schema}"."${{topic}}"'}, ("shop.eu.orders",))
    for text in ("a", "b"):  # created, then found again
        sink.put([{"id": 1, "text": text}], topic="shop.eu.orders")
        sink.commit()
    assert target.rows('SELECT text FROM "shop.eu.orders" ORDER BY text') == [("a",), ("b",)]
    sink.end()


def test_unquoted_names_are_as_the_database_folds_them(postgresql_target: TargetDatabase) -> None:
    sink = Sink(postgresql_target, {**UPSERT, "quote.sql.identifiers": "never", "table.name.format": "Notes"})
    schema = Schema.struct({"Id": INT64_SCHEMA, "Text": STRING_SCHEMA})
    for text in ("a", "b"):
        sink.put([{"Id": 1, "Text": text}], schema, keys=[{"Id": 1}], key_schema=Schema.struct({"Id": INT64_SCHEMA}))
        sink.commit()
    assert sink.notes() == [(1, "b")]
    sink.end()


def test_much_is_written_in_statements_of_the_batch_size(target: TargetDatabase) -> None:
    sink = Sink(target, {**UPSERT, "batch.size": "70"})
    for version in range(3):
        sink.put([{"id": number % 150, "text": f"{version} {number}"} for number in range(500)], keys=[{"id": n % 150} for n in range(500)])
    sink.commit()
    expected = {number % 150: f"2 {number}" for number in range(500)}
    assert dict(sink.notes()) == expected
    sink.end()


def test_keys_and_values_that_are_no_rows_are_named(target: TargetDatabase) -> None:
    assert KEY.fields[0].name == NOTE.fields[0].name
    for value, schema, key_schema, text in (
        (["x"], STRING_SCHEMA, None, "their value is STRING, not a struct"),
        ([{"id": 1, "text": "a"}], NOTE, None, "have no key with a schema"),
    ):
        sink = Sink(target, UPSERT)
        sink.put(value, schema, keys=None, key_schema=key_schema)
        with pytest.raises(Exception, match=text):
            sink.commit()
        sink.end()
