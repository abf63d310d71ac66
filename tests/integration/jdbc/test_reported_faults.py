"""Faults of JDBC connectors that their users have reported, tried on real servers."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from airflow_provider_connect.data.schema import BOOLEAN_SCHEMA, INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import ConnectException
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase
from tests.integration.jdbc.sources import Source

USER = Schema.struct({"id": INT64_SCHEMA, "email": STRING_SCHEMA, "phone": STRING_SCHEMA.as_optional()})
ALL = ("postgresql", "mariadb", "sqlite")


@pytest.fixture(params=ALL)
def any_target(request: pytest.FixtureRequest) -> TargetDatabase:
    found: TargetDatabase = request.getfixturevalue(f"{request.param}_target")
    return found


def users(*rows: tuple[int, str, str | None]) -> dict[str, Any]:
    return {
        "values": [{"id": id, "email": email, "phone": phone} for id, email, phone in rows],
        "schema": USER,
        "keys": [{"id": row[0]} for row in rows],
    }


def test_an_upsert_changes_no_row_of_another_key(any_target: TargetDatabase) -> None:
    """MySQL's ON DUPLICATE KEY UPDATE takes the row of any unique index, so that a new user replaced another of the same address."""
    any_target.run(
        "CREATE TABLE notes (id bigint PRIMARY KEY, email varchar(40) NOT NULL, phone varchar(40), UNIQUE (email))",
        "INSERT INTO notes VALUES (2, 'a@x', 'old'), (3, 'c@x', 'old')",
    )
    reported = Reported()
    sink = Sink(any_target, UPSERT, reported=reported)
    sink.put(**users((44, "a@x", "new"), (3, "c@x", "new"), (5, "e@x", None), (5, "f@x", "2"), (6, "g@x", None)))
    sink.commit()
    sink.end()
    assert any_target.rows("SELECT id, email, phone FROM notes ORDER BY id") == [
        (2, "a@x", "old"),
        (3, "c@x", "new"),
        (5, "f@x", "2"),
        (6, "g@x", None),
    ]
    assert list(reported.errors) == [0]


def test_an_address_that_moves_from_one_key_to_another_is_no_conflict(any_target: TargetDatabase) -> None:
    any_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, email varchar(40) NOT NULL, phone varchar(40), UNIQUE (email))")
    sink = Sink(any_target, UPSERT)
    sink.put(**users((1, "a@x", None)))
    sink.commit()
    sink.put(**users((1, "b@x", None), (2, "a@x", None)))
    sink.commit()
    sink.end()
    assert any_target.rows("SELECT id, email FROM notes ORDER BY id") == [(1, "b@x"), (2, "a@x")]


def test_a_text_that_is_too_long_is_not_cut_whatever_the_servers_mode_is(mariadb_target: TargetDatabase) -> None:
    """As the JDBC drivers do, which make their sessions strict."""
    mariadb_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, text varchar(3))")
    [(before,)] = mariadb_target.rows("SELECT @@GLOBAL.sql_mode")
    mariadb_target.run("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES'")
    try:
        reported = Reported()
        sink = Sink(mariadb_target, UPSERT, reported=reported)
        sink.put_notes((1, "abc"), (2, "abcd"), (3, "a\\"))
        sink.commit()
        sink.end()
    finally:
        mariadb_target.run(f"SET GLOBAL sql_mode = '{before}'")
    assert sink.notes() == [(1, "abc"), (3, "a\\")]
    assert list(reported.errors) == [1]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_table_with_nothing_but_its_key(any_target: TargetDatabase, mode: str) -> None:
    key = Schema.struct({"id": INT64_SCHEMA})
    sink = Sink(any_target, {**UPSERT, "insert.mode": mode})
    sink.put([{"id": 1}, {"id": 2}], key, keys=[{"id": 1}, {"id": 2}])
    if mode == "upsert":
        sink.put([{"id": 2}, {"id": 1}], key, keys=[{"id": 2}, {"id": 1}])
    sink.commit()
    sink.end()
    assert any_target.rows("SELECT id FROM notes ORDER BY id") == [(1,), (2,)]


def test_columns_that_the_database_fills_itself(postgresql_target: TargetDatabase) -> None:
    """An identity that is always generated takes no value of a record: the error names it, and a table without the field works."""
    postgresql_target.run(
        "CREATE TABLE notes (n int GENERATED ALWAYS AS IDENTITY, id bigint PRIMARY KEY, text text, "
        "upper text GENERATED ALWAYS AS (upper(text)) STORED)"
    )
    sink = Sink(postgresql_target, UPSERT)
    sink.put_notes((1, "a"), (2, "b"))
    sink.put_notes((1, "c"))
    sink.commit()
    sink.end()
    assert postgresql_target.rows("SELECT id, upper FROM notes ORDER BY id") == [(1, "C"), (2, "B")]
    both = Schema.struct({"id": INT64_SCHEMA, "upper": STRING_SCHEMA})
    sink = Sink(postgresql_target, UPSERT)
    sink.put([{"id": 3, "upper": "x"}], both, keys=[{"id": 3}])
    with pytest.raises(ConnectException, match="upper"):
        sink.commit()


def test_an_upsert_into_a_partitioned_table(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run(
        "CREATE TABLE notes (id bigint PRIMARY KEY, text text) PARTITION BY RANGE (id)",
        "CREATE TABLE notes_a PARTITION OF notes FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE notes_b PARTITION OF notes FOR VALUES FROM (10) TO (20)",
    )
    reported = Reported()
    sink = Sink(postgresql_target, UPSERT, reported=reported)
    sink.put_notes((1, "a"), (11, "b"), (30, "none"), (1, "c"))
    sink.commit()
    sink.end()
    assert sink.notes() == [(1, "c"), (11, "b")]
    assert list(reported.errors) == [2]


def test_a_view_that_can_be_written(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE kept (id bigint PRIMARY KEY, text text, at timestamptz DEFAULT now())")
    postgresql_target.run("CREATE VIEW notes AS SELECT id, text FROM kept")
    sink = Sink(postgresql_target, {"insert.mode": "insert", "pk.mode": "none"})
    sink.put_notes((1, "a"), (2, "b"))
    sink.commit()
    sink.end()
    assert sink.notes() == [(1, "a"), (2, "b")]


def test_mysqls_own_types_take_values(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, j json, e enum('a','b'), s set('x','y'), b bit(1), y year)")
    schema = Schema.struct(
        {"id": INT64_SCHEMA, "j": STRING_SCHEMA, "e": STRING_SCHEMA, "s": STRING_SCHEMA, "b": BOOLEAN_SCHEMA, "y": INT32_SCHEMA}
    )
    reported = Reported()
    sink = Sink(mariadb_target, UPSERT, reported=reported)
    good = {"id": 1, "j": '{"a": 1}', "e": "b", "s": "x,y", "b": True, "y": 2026}
    sink.put([good, {**good, "id": 2, "j": "{"}, {**good, "id": 3, "e": "c"}], schema, keys=[{"id": n} for n in (1, 2, 3)])
    sink.commit()
    sink.end()
    assert mariadb_target.rows("SELECT id, j, e, s, b + 0, y FROM notes") == [(1, '{"a": 1}', "b", "x,y", 1, 2026)]
    assert list(reported.errors) == [1, 2]


def test_a_date_is_the_same_day_in_every_zone(any_target: TargetDatabase) -> None:
    any_target.run("CREATE TABLE days (id int PRIMARY KEY, day date)", "INSERT INTO days VALUES (1, '2026-03-29'), (2, '1900-01-01')")
    for zone in ("UTC", "Pacific/Kiritimati", "America/New_York"):
        found = Source(any_target, {"mode": "bulk", "db.timezone": zone, "table.include": "days"}).run()
        assert [row["day"] for row in found] == [datetime.date(2026, 3, 29), datetime.date(1900, 1, 1)]


def test_a_column_that_is_null_in_every_row(any_target: TargetDatabase) -> None:
    """MySQL's driver shows no types, so that a page of it had a column of none."""
    times = "datetime" if any_target.dialect == "mariadb" else "timestamp"
    types = {"d": "date", "t": "time", "at": times, "n": "decimal(5,2)", "i": "int", "s": "varchar(9)", "x": "double precision"}
    any_target.run(
        f"CREATE TABLE empty (id int PRIMARY KEY, {', '.join(map(' '.join, types.items()))})", "INSERT INTO empty (id) VALUES (1)"
    )
    assert Source(any_target, {"mode": "bulk"}).run() == [{"id": 1, **dict.fromkeys(types)}]


ODD = {"postgresql": '"{}"', "mariadb": "`{}`", "sqlite": "`{}`"}


@pytest.mark.parametrize("name", ["my-table", "select", "a b", "ä", "100%", "it's"])
def test_names_of_tables_and_columns_that_are_no_words(any_target: TargetDatabase, name: str) -> None:
    quoted = ODD[any_target.dialect].format(name)
    any_target.run(f"CREATE TABLE {quoted} ({quoted} bigint NOT NULL PRIMARY KEY, x int)", f"INSERT INTO {quoted} VALUES (1, 5), (2, 6)")
    source = Source(any_target, {"mode": "incrementing", "incrementing.column.name": name, "incrementing.overlap": "1"})
    assert source.run() == [{name: 1, "x": 5}, {name: 2, "x": 6}]
    assert source.has_new_data() is False


def test_bits_and_unsigned_numbers_of_mysql(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run(
        "CREATE TABLE odd (id bigint unsigned PRIMARY KEY, b8 bit(8), b64 bit(64), t tinyint unsigned, i int unsigned, y year)",
        "INSERT INTO odd VALUES (9223372036854775807, b'00000101', 1, 255, 4294967295, 2026)",
    )
    source = Source(mariadb_target, {"mode": "incrementing", "incrementing.column.name": "id"})
    [row] = source.run()
    assert (row["id"], row["t"], row["i"], row["y"]) == (2**63 - 1, 255, 2**32 - 1, 2026)
    assert (row["b8"], row["b64"]) == (b"\x05", b"\x00" * 7 + b"\x01")
    mariadb_target.run("INSERT INTO odd (id) VALUES (18446744073709551615)")
    with pytest.raises(ConnectException, match=r"18446744073709551615"):
        source.run()


def test_types_of_postgresql_that_connect_has_not_are_texts_and_none_is_left_out(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run(
        "CREATE TYPE mood AS ENUM ('ok', 'bad')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE TABLE odd (id int PRIMARY KEY, m mood, ms mood[], p positive, r int4range, b bit varying(5), i interval, n inet, c money, "
        "t tsvector, g point, h jsonb)",
        "INSERT INTO odd VALUES (1, 'ok', '{ok,bad}', 5, '[1,5)', B'101', '1 day', '10.0.0.1/8', 5, 'a b', '(1,2)', '{\"a\": 1}')",
    )
    [row] = Source(postgresql_target, {"mode": "bulk"}).run()
    assert row == {
        **{"id": 1, "m": "ok", "ms": "{ok,bad}", "p": 5, "r": "[1,5)", "b": "101", "i": "1 day", "n": "10.0.0.1/8", "c": "$5.00"},
        **{"t": "'a' 'b'", "g": "(1,2)", "h": '{"a": 1}'},
    }
