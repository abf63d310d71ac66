"""Cases of other projects' tests, as inputs and outcomes: Confluent's JDBC source (types, offsets, times), Debezium's JDBC sink."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException, ConnectException
from tests.integration.jdbc.sinks import KEY, NOTE, UPSERT, Reported, Sink, TargetDatabase
from tests.integration.jdbc.sources import Source

# Confluent's source: each type with NOT NULL, without it, and null

TYPES: dict[str, tuple[str, Schema, Any]] = {
    "boolean": ("false", BOOLEAN_SCHEMA, False),
    "smallint": ("1", INT16_SCHEMA, 1),
    "integer": ("1", INT32_SCHEMA, 1),
    "bigint": ("9223372036854775807", INT64_SCHEMA, 2**63 - 1),
    "real": ("1", FLOAT32_SCHEMA, 1.0),
    "double precision": ("1", FLOAT64_SCHEMA, 1.0),
    "char(5)": ("'a'", STRING_SCHEMA, "a    "),
    "varchar(5)": ("'a'", STRING_SCHEMA, "a"),
    "text": ("'a'", STRING_SCHEMA, "a"),
    "bytea": ("'a'", BYTES_SCHEMA, b"a"),
    "numeric(1)": ("1", decimal_schema(0), Decimal(1)),
    "numeric(10)": ("1234567891", decimal_schema(0), Decimal(1234567891)),
    "decimal(5,2)": ("123.45", decimal_schema(2), Decimal("123.45")),
    "date": ("'1977-02-13'", DATE_SCHEMA, datetime.date(1977, 2, 13)),
    "time": ("'23:03:20'", TIME_SCHEMA, datetime.time(23, 3, 20)),
    "timestamp": ("'1977-02-13 23:03:20'", TIMESTAMP_SCHEMA, datetime.datetime(1977, 2, 13, 23, 3, 20, tzinfo=datetime.UTC)),
}
OLD: dict[str, tuple[str, Schema, Any]] = {  # as in the Gregorian calendar, which is prolonged into the past
    "date": ("'0001-01-01'", DATE_SCHEMA, datetime.date(1, 1, 1)),
    "timestamp": ("'0001-01-01 12:34:56'", TIMESTAMP_SCHEMA, datetime.datetime(1, 1, 1, 12, 34, 56, tzinfo=datetime.UTC)),
}


@pytest.mark.parametrize("types", [TYPES, OLD], ids=["types", "old"])
def test_each_type_has_its_schema_and_value(postgresql_target: TargetDatabase, types: dict[str, tuple[str, Schema, Any]]) -> None:
    columns = [
        (f"{kind}{n}", f"{type_} {null}") for n, type_ in enumerate(types) for kind, null in (("r", "NOT NULL"), ("o", ""), ("n", ""))
    ]
    values = [value for text, _, _ in types.values() for value in (text, text, "NULL")]
    postgresql_target.run(
        f"CREATE TABLE t ({', '.join(f'{name} {type_}' for name, type_ in columns)})", f"INSERT INTO t VALUES ({', '.join(values)})"
    )
    source = Source(postgresql_target, {"mode": "bulk"})
    [row] = source.run()
    fields = {field.name: field.schema for field in source.schemas["x-t"].fields}
    for number, (type_, (_, schema, value)) in enumerate(types.items()):
        found = [(fields[f"{kind}{number}"], row[f"{kind}{number}"]) for kind in "ron"]
        assert found == [(schema, value), (schema.as_optional(), value), (schema.as_optional(), None)], type_


# Confluent's source: offsets that an older version wrote, and first runs

OLDER, NEWER = "{'table': 'orders'}", "{'protocol': '1', 'table': 'orders'}"
ROWS = (
    "CREATE TABLE orders (id integer NOT NULL PRIMARY KEY, at timestamp NOT NULL, other timestamp)",
    *(f"INSERT INTO orders VALUES ({n}, '2026-01-0{n} 00:00:00', NULL)" for n in (1, 2)),
    *(f"INSERT INTO orders VALUES ({n}, '2026-01-0{n} 00:00:00', '2026-02-0{n} 00:00:00')" for n in (3, 4, 5)),
)
BOTH_KEYS = {"incrementing.column.name": "id", "timestamp.column.name": "at"}


def offset(number: int, mode: str) -> dict[str, Any]:
    milliseconds = int(datetime.datetime(2026, 1, number, tzinfo=datetime.UTC).timestamp() * 1000)
    return {"incrementing": {"incrementing": number}, "timestamp": {"timestamp": milliseconds}}.get(
        mode, {"incrementing": number, "timestamp": milliseconds}
    )


@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("known", [{OLDER: 3}, {NEWER: 3}, {OLDER: 1, NEWER: 3}], ids=["older", "newer", "both"])
def test_offsets_of_each_version_are_gone_on_with(sqlite_target: TargetDatabase, mode: str, known: dict[str, int]) -> None:
    sqlite_target.run(*ROWS)
    source = Source(sqlite_target, {"mode": mode, **BOTH_KEYS}, {partition: offset(n, mode) for partition, n in known.items()})
    assert [row["id"] for row in source.run()] == [4, 5]
    assert set(source.offsets) == set(known) | {NEWER}


@pytest.mark.parametrize(
    ("initial", "expected"),
    [("-1", []), (str(offset(3, "timestamp")["timestamp"]), [4, 5]), (None, [1, 2, 3, 4, 5])],
    ids=["now", "a time", "the first row"],
)
@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_where_the_first_run_begins(sqlite_target: TargetDatabase, mode: str, initial: str | None, expected: list[int]) -> None:
    sqlite_target.run(*ROWS)
    config = {"mode": mode, **BOTH_KEYS, **({} if initial is None else {"timestamp.initial": initial})}
    assert [row["id"] for row in Source(sqlite_target, config).run()] == expected


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("dialect", ["postgresql", "mariadb", "sqlite"])
def test_of_several_timestamps_the_first_that_is_not_null_counts(request: pytest.FixtureRequest, dialect: str, mode: str) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    kind = "datetime" if dialect == "mariadb" else "timestamp"
    target.run(ROWS[0].replace("timestamp", kind), *ROWS[1:])
    config = {"mode": mode, "incrementing.column.name": "id", "timestamp.column.name": "OTHER,At"}
    source = Source(target, config)
    assert [row["id"] for row in source.run()] == [1, 2, 3, 4, 5]
    target.run("INSERT INTO orders VALUES (6, '2026-03-01 00:00:00', NULL), (7, '2026-03-01 00:00:00', '2026-01-01 00:00:00')")
    assert [row["id"] for row in source.run()] == [6]


def test_times_without_a_zone_are_of_the_zone_that_is_given(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run(*ROWS)
    source = Source(postgresql_target, {"mode": "timestamp", **BOTH_KEYS, "db.timezone": "America/Los_Angeles"})
    assert source.run()[0]["at"] == datetime.datetime(2026, 1, 1, 8, tzinfo=datetime.UTC)
    assert source.run() == []
    with pytest.raises(ConfigException, match=r"db\.timezone"):
        Source(postgresql_target, {"mode": "bulk", "db.timezone": "NoSuch/Zone"}).run()


def test_names_of_columns_by_case(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run(
        'CREATE TABLE orders (id int PRIMARY KEY, "AT" timestamp NOT NULL, "at" timestamp NOT NULL)',
        "INSERT INTO orders VALUES (1, '2026-01-02', '2026-01-01'), (2, '2026-01-01', '2026-01-02')",
    )
    for name, expected in (("AT", [2, 1]), ("at", [1, 2])):
        source = Source(postgresql_target, {"mode": "timestamp", "timestamp.column.name": name})
        assert [row["id"] for row in source.run()] == expected
    with pytest.raises(ConfigException, match=r"timestamp\.column\.name.*no such column"):
        Source(postgresql_target, {"mode": "timestamp", "timestamp.column.name": "At"}).run()


def test_a_bulk_source_and_a_query_read_everything_each_time(sqlite_target: TargetDatabase) -> None:
    sqlite_target.run(*ROWS)
    for more in ({}, {"query": "SELECT id FROM orders WHERE id <> 9"}):
        source = Source(sqlite_target, {"mode": "bulk", **more})
        assert [[row["id"] for row in source.run()] for _ in range(2)] == [[1, 2, 3, 4, 5]] * 2
    query = Source(sqlite_target, {"mode": "timestamp", **BOTH_KEYS, "query": "SELECT id, at FROM orders"})
    assert [[row["id"] for row in query.run()] for _ in range(2)] == [[1, 2, 3, 4, 5], []]
    with pytest.raises(ConfigException, match="query"):
        Source(sqlite_target, {"mode": "bulk", "query": "SELECT 1", "table.include": "orders"}).run()


# Debezium's sink

PK: dict[str, dict[str, str]] = {
    "none": {"pk.mode": "none"},
    "kafka": {"pk.mode": "kafka"},
    "record_key": {"pk.mode": "record_key"},
    "record_value": {"pk.mode": "record_value", "pk.fields": "id"},
}


def same_twice(
    target: TargetDatabase, mode: str, pk: str, *, created: bool = True, reported: Reported | None = None
) -> list[tuple[Any, ...]]:
    sink = Sink(target, {"insert.mode": mode, "auto.create": str(created).lower(), **PK[pk]}, reported=reported)
    sink.put_notes((1, "a"))
    sink.put_notes((1, "b"))
    sink.commit()
    sink.end()
    return sink.notes()


@pytest.mark.parametrize(("pk", "expected"), [("none", ["a", "b"]), ("kafka", ["a", "b"]), ("record_key", ["a"]), ("record_value", ["a"])])
def test_an_insert_of_one_key_twice(target: TargetDatabase, pk: str, expected: list[str]) -> None:
    reported = Reported()
    assert [text for _, text in same_twice(target, "insert", pk, reported=reported)] == expected
    assert list(reported.errors) == ([] if len(expected) == 2 else [1])


@pytest.mark.parametrize(("pk", "expected"), [("kafka", ["a", "b"]), ("record_key", ["b"]), ("record_value", ["b"])])
def test_an_upsert_of_one_key_twice(target: TargetDatabase, pk: str, expected: list[str]) -> None:
    assert [text for _, text in same_twice(target, "upsert", pk)] == expected


@pytest.mark.parametrize("pk", ["record_key", "record_value", "kafka"])
def test_an_update_changes_what_is_there(target: TargetDatabase, pk: str) -> None:
    assert same_twice(target, "update", pk) == []
    if pk != "kafka":
        target.run("INSERT INTO notes VALUES (1, 'old'), (2, 'other')")
        assert same_twice(target, "update", pk) == [(1, "b"), (2, "other")]


@pytest.mark.parametrize("mode", ["upsert", "update"])
def test_no_upsert_and_no_update_without_a_key(target: TargetDatabase, mode: str) -> None:
    with pytest.raises(ConfigException, match=r"pk\.mode"):
        same_twice(target, mode, "none")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (PK["none"], []),
        (PK["kafka"], ["__connect_topic", "__connect_partition", "__connect_offset"]),
        ({"pk.mode": "kafka", "pk.fields": "a,b,c"}, ["a", "b", "c"]),
        (PK["record_key"], ["id"]),
        (PK["record_value"], ["id"]),
        ({"pk.mode": "record_value", "pk.fields": "text,id"}, ["text", "id"]),
        ({"pk.mode": "record_value"}, ["id", "text"]),
    ],
)
def test_the_primary_key_of_a_table_that_is_made(postgresql_target: TargetDatabase, config: dict[str, str], expected: list[str]) -> None:
    sink = Sink(postgresql_target, {"auto.create": "true", **config})
    sink.put([{"id": 1, "text": "a"}], Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA}), keys=[{"id": 1}])
    sink.commit()
    sink.end()
    found = postgresql_target.rows(
        "SELECT a.attname::text FROM pg_constraint k CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY AS u(n, o) JOIN pg_attribute a "
        "ON a.attrelid = k.conrelid AND a.attnum = u.n WHERE k.conrelid = 'notes'::regclass AND k.contype = 'p' ORDER BY u.o"
    )
    assert sorted(name for (name,) in found) == sorted(expected)


def test_deletes_of_rows_that_are_and_are_not_there(target: TargetDatabase) -> None:
    sink = Sink(target, {**UPSERT, "delete.enabled": "true"})
    sink.put_deletes(9)
    sink.put_notes((1, "a"), (2, "b"))
    sink.put_deletes(1, 7)
    sink.put_notes((1, "again"))
    sink.put_deletes(2)
    sink.commit()
    sink.end()
    assert sink.notes() == [(1, "again")]


def test_deletes_by_a_part_of_the_key(target: TargetDatabase) -> None:
    key = Schema.struct({"id": INT64_SCHEMA, "more": INT64_SCHEMA})
    sink = Sink(target, {**UPSERT, "delete.enabled": "true", "pk.fields": "id"})
    sink.put([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], NOTE, keys=[{"id": 1, "more": 5}, {"id": 2, "more": 6}], key_schema=key)
    sink.put([None], NOTE, keys=[{"id": 1, "more": 9}], key_schema=key)
    sink.commit()
    sink.end()
    assert sink.notes() == [(2, "b")]


def test_a_delete_is_a_bad_record_where_deletes_are_off(target: TargetDatabase) -> None:
    reported = Reported()
    sink = Sink(target, UPSERT, reported=reported)
    sink.put_notes((1, "a"))
    sink.put_deletes(1)
    sink.commit()
    sink.end()
    assert (sink.notes(), list(reported.errors)) == ([(1, "a")], [1])


@pytest.mark.parametrize("mode", ["insert", "upsert", "update"])
def test_no_table_is_made_where_that_is_off(target: TargetDatabase, mode: str) -> None:
    with pytest.raises(ConnectException, match="There is no table notes"):
        same_twice(target, mode, "record_key", created=False)


def test_columns_come_and_stay(target: TargetDatabase) -> None:
    wide = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional(), "more": INT32_SCHEMA.as_optional()})
    sink = Sink(target, {**UPSERT, "auto.evolve": "true"})
    sink.put_notes((1, "a"))
    sink.put([{"id": 2, "text": "b", "more": 5}], wide, keys=[{"id": 2}])
    sink.put_notes((3, "c"))
    sink.commit()
    sink.end()
    assert target.rows("SELECT id, text, more FROM notes ORDER BY id") == [(1, "a", None), (2, "b", 5), (3, "c", None)]


def test_defaults_of_fields_are_those_of_the_columns(target: TargetDatabase) -> None:
    schema = Schema.struct(
        {
            "id": INT64_SCHEMA,
            "n": INT32_SCHEMA.with_default(5),
            "s": STRING_SCHEMA.with_default("it's"),
            "b": BOOLEAN_SCHEMA.with_default(True),
        }
    )
    sink = Sink(target, {"auto.create": "true", **PK["record_value"]})
    sink.put([{"id": 1, "n": 1, "s": "x", "b": False}], schema, keys=[{"id": 1}])
    sink.commit()
    sink.end()
    target.run("INSERT INTO notes (id) VALUES (2)")
    assert target.rows("SELECT id, n, s FROM notes WHERE b ORDER BY id") == [(2, 5, "it's")]


def test_a_null_is_not_the_default_where_the_field_may_be_null(target: TargetDatabase) -> None:
    schema = Schema.struct({"id": INT64_SCHEMA, "n": INT32_SCHEMA.with_default(5).as_optional()})
    sink = Sink(target, UPSERT)
    sink.put([{"id": 1, "n": None}, {"id": 2, "n": 3}], schema, keys=[{"id": 1}, {"id": 2}])
    sink.commit()
    sink.end()
    assert target.rows("SELECT id, n FROM notes ORDER BY id") == [(1, None), (2, 3)]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_fields_that_are_chosen(target: TargetDatabase, mode: str) -> None:
    three = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA, "secret": STRING_SCHEMA})
    sink = Sink(target, {**UPSERT, "insert.mode": mode, "fields.whitelist": "text"})
    sink.put([{"id": 1, "text": "a", "secret": "s"}], three, keys=[{"id": 1}])
    sink.commit()
    sink.end()
    assert target.rows("SELECT * FROM notes") == [(1, "a")]


@pytest.mark.parametrize(("format", "table"), [("${topic}", "a.b"), ("kept_${topic}", "kept_a.b"), ('"${topic}"', "a.b")])
def test_names_of_tables_from_topics(sqlite_target: TargetDatabase, format: str, table: str) -> None:
    sink = Sink(sqlite_target, {"auto.create": "true", "table.name.format": format}, topics=("a.b",))
    sink.put([{"id": 1, "text": "a"}], topic="a.b")
    sink.commit()
    sink.end()
    assert sqlite_target.rows(f"SELECT id FROM `{table}`") == [(1,)]


def test_a_key_field_that_is_not_there_is_named(target: TargetDatabase) -> None:
    reported = Reported()
    sink = Sink(target, {**UPSERT, "pk.fields": "id,none"}, reported=reported)
    sink.put([{"id": 1, "text": "a"}], NOTE, keys=[{"id": 1}], key_schema=KEY)
    sink.commit()
    assert "pk.fields names none" in reported.errors[0]
