"""Keys that the database holds equal though they are written in different ways: batches have the result of record by record."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.data.schema import (
    DATE_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from tests.integration.jdbc.sinks import Reported, Sink, TargetDatabase, opened
from tests.samples import sample

UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true"}
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
IN_TEXT = {
    "char(3)": ("a", "a  ", "ab", "ab ", "b"),
    "varchar(3)": ("abc", "abc  ", "abd", "b", "b  "),
    "uuid": (UUID, UUID.upper(), f"{{{UUID}}}", UUID.replace("-", ""), UUID.replace("a0", "b0")),
    "timestamptz": ("2020-01-01 00:00Z", "2020-01-01 01:00+01", "2019-12-31 20:00-04", "2020-01-02 00:00Z"),
    "timestamp(0)": ("2020-01-01 00:00:00.4", "2020-01-01 00:00:00.3", "2020-01-01", "2020-01-01 00:00:01"),
    "date": ("2020-01-01", "20200101", "2020-01-01 12:00", "2020-01-02"),
    "numeric": ("1.0", "1.00", "1", "1e0", "2"),
    "float8": ("0", "-0", "NaN", "nan", "1", "1.0"),
    "ci": ("Anna", "ANNA", "anna", "Bert", "bert"),
}
CASE_INSENSITIVE = (  # as the extension citext has it
    "CREATE TYPE ci",
    "CREATE FUNCTION ci_in(cstring) RETURNS ci LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
    "CREATE FUNCTION ci_out(ci) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout'",
    "CREATE TYPE ci (INPUT = ci_in, OUTPUT = ci_out, LIKE = text, CATEGORY = 'S')",
    "CREATE CAST (ci AS text) WITHOUT FUNCTION AS IMPLICIT",
    "CREATE CAST (text AS ci) WITHOUT FUNCTION AS ASSIGNMENT",
    "CREATE FUNCTION ci_cmp(ci, ci) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT bttextcmp(lower($1::text), lower($2::text))'",
    *(
        f"CREATE FUNCTION ci_{name}(ci, ci) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT lower($1::text) {sign} lower($2::text)'"
        for name, sign in (("lt", "<"), ("le", "<="), ("eq", "="), ("ge", ">="), ("gt", ">"))
    ),
    *(
        f"CREATE OPERATOR {sign} (LEFTARG = ci, RIGHTARG = ci, FUNCTION = ci_{name})"
        for name, sign in (("lt", "<"), ("le", "<="), ("eq", "="), ("ge", ">="), ("gt", ">"))
    ),
    "CREATE OPERATOR CLASS ci_ops DEFAULT FOR TYPE ci USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, "
    "OPERATOR 5 >, FUNCTION 1 ci_cmp(ci, ci)",
)
Change = tuple[Any, str | None]


def key_of(schema: Schema) -> Schema:
    return Schema.struct({"k": schema})


def put(sink: Sink, schema: Schema, changes: list[Change]) -> None:
    rows = [None if text is None else {"k": key, "text": text} for key, text in changes]
    sink.put(
        rows,
        Schema.struct({"k": schema, "text": STRING_SCHEMA.as_optional()}),
        keys=[{"k": key} for key, _ in changes],
        key_schema=key_of(schema),
    )


def both_ways(
    target: TargetDatabase, schema: Schema, changes: list[Change], settings: Mapping[str, str], before: tuple[str, ...]
) -> list[list[Any]]:
    """The rows after the changes, in one batch and one by one."""
    found = []
    for order, size in enumerate((1000, 1), 1):
        target.run("DELETE FROM notes", "DROP TABLE IF EXISTS connect_sink_offsets", *before)
        sink = Sink(target, {**settings, "batch.size": str(size)}, claim_epoch=order, reported=(reported := Reported()))
        for piece in [changes] if size > 1 else [[change] for change in changes]:
            put(sink, schema, piece)
        sink.commit()
        sink.end()
        as_text = {"postgresql": "k::text", "mariadb": "CAST(k AS CHAR)", "sqlite": "CAST(k AS TEXT)"}[target.dialect]
        assert reported.errors == {}
        found.append(target.rows(f"SELECT {as_text}, text FROM notes ORDER BY text, 1"))
    return found


def random_changes(keys: tuple[Any, ...], seed: int, *, count: int = 60) -> list[Change]:
    chance = random.Random(seed)
    return [(chance.choice(keys), None if chance.random() < 0.3 else f"text {number}") for number in range(count)]


@pytest.mark.parametrize("type", IN_TEXT)
@pytest.mark.parametrize("mode", sample(["upsert", "update", "upsert without deletes"], 0))
def test_texts_that_are_one_key_for_postgresql(postgresql_target: TargetDatabase, type: str, mode: str) -> None:
    if type == "ci":
        postgresql_target.run(*CASE_INSENSITIVE)
    postgresql_target.run(f"CREATE TABLE notes (k {type} PRIMARY KEY, text text)")
    keys = IN_TEXT[type]
    before = tuple(f"INSERT INTO notes VALUES ('{key}', 'before') ON CONFLICT DO NOTHING" for key in keys[::2])
    changes = random_changes(keys, seed=1)
    if mode == "upsert without deletes":
        changes = [(key, text or "set") for key, text in changes]
    together, apart = both_ways(postgresql_target, STRING_SCHEMA, changes, {**UPSERT, "insert.mode": mode.partition(" ")[0]}, before)
    assert together == apart
    assert len(together) < len(keys)


@pytest.mark.parametrize("type", ["char(3)", "varchar(3)", "uuid", "ci"])
def test_a_delete_takes_what_an_insert_of_the_same_batch_has_written(postgresql_target: TargetDatabase, type: str) -> None:
    if type == "ci":
        postgresql_target.run(*CASE_INSENSITIVE)
    postgresql_target.run(f"CREATE TABLE notes (k {type} PRIMARY KEY, text text)")
    first, second, *_ = IN_TEXT[type]
    changes: list[Change] = [(first, "gone"), (second, None), (second, "there")]
    found = both_ways(postgresql_target, STRING_SCHEMA, changes, {**UPSERT, "insert.mode": "insert"}, ())
    assert [[text for _, text in rows] for rows in found] == [["there"], ["there"]]


@pytest.mark.parametrize("type", ["char(3)", "varchar(3)", "bit(3)"])
def test_a_key_that_is_too_long_is_no_shorter_one(postgresql_target: TargetDatabase, type: str) -> None:
    """A cast cuts it off: then its delete takes another row away, and its update changes one."""
    postgresql_target.run(f"CREATE TABLE notes (k {type} PRIMARY KEY, text text)", "INSERT INTO notes VALUES ('101', 'stays')")
    for order, mode in enumerate(("upsert", "update"), 1):
        sink = Sink(postgresql_target, {**UPSERT, "insert.mode": mode}, claim_epoch=order, reported=Reported())
        put(sink, STRING_SCHEMA, [("1011", None), ("1010", "changed")])
        sink.commit()
        sink.end()
    assert postgresql_target.rows("SELECT k::text, text FROM notes") == [("101", "stays")]


def test_numbers_and_times_that_the_column_rounds_are_one_key(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE notes (k numeric(6,1) PRIMARY KEY, text text)")
    numbers = tuple(Decimal(text) for text in ("1.01", "1.04", "1.06", "1.10", "2.00"))
    together, apart = both_ways(postgresql_target, decimal_schema(2), random_changes(numbers, seed=2), UPSERT, ())
    assert together == apart
    postgresql_target.run("DROP TABLE notes", "CREATE TABLE notes (k timestamp PRIMARY KEY, text text)")
    fold = datetime(2020, 10, 25, 0, 30, tzinfo=UTC)  # 02:30 in Berlin, and an hour later again
    times = (fold, fold + timedelta(hours=1), fold + timedelta(hours=2))
    zone = {**UPSERT, "db.timezone": "Europe/Berlin"}
    together, apart = both_ways(postgresql_target, TIMESTAMP_SCHEMA, random_changes(times, seed=3), zone, ())
    assert together == apart
    days = (date(2020, 1, 1), date(2020, 1, 2))
    together, apart = both_ways(postgresql_target, DATE_SCHEMA, random_changes(days, seed=4), zone, ())
    assert together == apart


@pytest.mark.parametrize("collation", ["NOCASE", "RTRIM", "BINARY"])
def test_collations_of_sqlite(sqlite_target: TargetDatabase, collation: str) -> None:
    sqlite_target.run(f"CREATE TABLE notes (k text COLLATE {collation} PRIMARY KEY, text text)")
    keys = ("Anna", "ANNA", "anna ", "Bert", "bert", "Bert ")
    together, apart = both_ways(sqlite_target, STRING_SCHEMA, random_changes(keys, seed=5), UPSERT, ())
    assert together == apart


def test_keys_that_mariadb_holds_equal(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run("CREATE TABLE notes (k varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, text varchar(40))")
    keys = ("Anna", "ANNA", "anna ", "Ännä", "Bert", "bert")
    together, apart = both_ways(mariadb_target, STRING_SCHEMA, random_changes(keys, seed=6), UPSERT, ())
    assert together == apart
    assert len(together) <= 2


def test_collations_that_hold_texts_equal_are_known_from_the_catalog(postgresql_target: TargetDatabase) -> None:
    """Few builds of PostgreSQL lack ICU; there such a collation cannot be made."""
    postgresql_target.run("CREATE TABLE notes (k text PRIMARY KEY, text text)")
    store = opened(postgresql_target)
    has_icu = bool(store.rows("SELECT 1 FROM pg_collation WHERE collprovider = 'i' AND collname = 'und-x-icu'"))
    table = store.read_table(TableName("notes"))
    store.close()
    assert table is not None
    assert not table.collations
    if not has_icu:
        pytest.skip("this build of PostgreSQL has no ICU, so that no collation can be made that holds texts equal")
    postgresql_target.run(
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "DROP TABLE notes",
        "CREATE TABLE notes (k text COLLATE ci PRIMARY KEY, text text)",
    )
    together, apart = both_ways(postgresql_target, STRING_SCHEMA, random_changes(IN_TEXT["ci"], seed=7), UPSERT, ())
    assert together == apart
    assert len(together) <= 2


def test_integers_are_compared_without_the_database(postgresql_target: TargetDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    postgresql_target.run("CREATE TABLE notes (k bigint PRIMARY KEY, text text)")
    monkeypatch.setattr("airflow_provider_connect.connectors.jdbc.sink.postgresql_stages.StageStatements.groups", None)
    together, apart = both_ways(postgresql_target, INT64_SCHEMA, random_changes((1, 2, 3), seed=8), UPSERT, ())
    assert together == apart
