"""Columns that have another type than the records: what becomes wider with nothing lost, what is refused, who else changes the table."""

import datetime
import re
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.database.database import open_database
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase, opened
from tests.integration.jdbc.test_sink_tables import EVOLVE, note
from tests.waiting import HANG_SECONDS

READS = 300
INSTANT = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)
TWO, FOUR = decimal_schema(2), decimal_schema(4)
# the column, what is in it, the schema of what comes, that, and the type of the column then in PostgreSQL and MariaDB
WIDER: dict[str, tuple[str, str, Schema, Any, str, str]] = {
    "int2 to int4": ("smallint", "5", INT32_SCHEMA, 2**31 - 1, "integer", "int(11)"),
    "int4 to int8": ("integer", "5", INT64_SCHEMA, 2**62, "bigint", "bigint(20)"),
    "float4 to float8": ("real", "1.5", FLOAT64_SCHEMA, 1.1, "double precision", "double"),
    "int4 to float8": ("integer", "5", FLOAT64_SCHEMA, 1.1, "double precision", "double"),
    "int2 to float4": ("smallint", "5", FLOAT32_SCHEMA, 1.5, "double precision", "double"),
    "int8 to numeric": ("bigint", str(2**62), TWO, Decimal("9999999999999999999.25"), "numeric", "decimal(65,2)"),
    "more digits": ("decimal(6,2)", "1.25", FOUR, Decimal("12345678.1234"), "numeric", "decimal(65,4)"),
    "date to timestamp": ("date", "'2024-02-28'", TIMESTAMP_SCHEMA, INSTANT, "timestamp without time zone", "datetime(3)"),
}
REFUSED: dict[str, tuple[str, Schema, Any]] = {
    "text to integer": ("text", INT32_SCHEMA, 5),
    "boolean to timestamp": ("boolean", TIMESTAMP_SCHEMA, INSTANT),
    "date to time": ("time", DATE_SCHEMA, INSTANT.date()),
    "int8 to float8": ("bigint", FLOAT64_SCHEMA, 1.1),
    "integer to text": ("integer", STRING_SCHEMA, "five"),
    "integer to boolean": ("boolean", INT32_SCHEMA, 5),
    "text to numeric": ("text", TWO, Decimal("1.25")),
    "bytes to text": ("bytea", STRING_SCHEMA, "a"),
}
DECLARED = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'n' AND attrelid = 'notes'::regclass"


def put(sink: Sink, id: int, schema: Schema, value: Any, *, topic: str = "notes") -> None:
    """One record with the field ``n``, committed."""
    sink.put([{"id": id, "text": None, "n": value}], note(n=schema), keys=[{"id": id}], topic=topic)
    sink.commit()


@pytest.mark.parametrize("case", WIDER)
@pytest.mark.parametrize("dialect", ["postgresql", "mariadb"])
def test_columns_become_wider_with_nothing_lost(request: pytest.FixtureRequest, dialect: str, case: str) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    column, there, schema, value, postgresql, mariadb = WIDER[case]
    column = column.replace("real", "float") if dialect == "mariadb" else column
    target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, text varchar(9), n {column} NOT NULL DEFAULT {there})")
    target.run("INSERT INTO notes (id) VALUES (1)")
    sink = Sink(target, EVOLVE)
    put(sink, 2, schema, value)
    sink.end()
    target.run("INSERT INTO notes (id) VALUES (3)")  # the default is still there
    is_text = dialect == "postgresql" and postgresql == "numeric"
    found = [row[0] for row in target.rows(f"SELECT {'n::text' if is_text else 'n'} FROM notes ORDER BY id")]
    came = value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value
    old = datetime.datetime(2024, 2, 28) if column == "date" else Decimal(there)
    assert [Decimal(each) if is_text else each for each in found] == [old, came, old]
    if dialect == "postgresql":
        assert target.rows(DECLARED) == [(postgresql,)]
    else:
        [row] = target.rows("SHOW COLUMNS FROM notes LIKE 'n'")
        assert (row[1], row[2]) == (mariadb, "NO")


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_lose_something_is_refused_by_table_column_and_types(postgresql_target: TargetDatabase, case: str) -> None:
    column, schema, value = REFUSED[case]
    postgresql_target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, text text, n {column})")
    sink = Sink(postgresql_target, EVOLVE)
    with pytest.raises(ConnectException) as raised:
        put(sink, 1, schema, value)
    words = str(raised.value)
    assert "Column n of table " in words
    assert all(part in words for part in ("notes is", column, str(schema.name or schema.type.name), "Change the column's type")), words
    sink.end()


def test_without_auto_evolve_the_setting_is_named(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, text text, n integer)")
    sink = Sink(postgresql_target, UPSERT)
    with pytest.raises(
        ConfigException, match=r"auto\.evolve: Column n of table .*notes is integer, which accepts no values of type .*Decimal"
    ):
        put(sink, 1, TWO, Decimal("1.25"))
    sink.end()


def test_integers_become_decimals_in_sqlite_as_they_are(sqlite_target: TargetDatabase) -> None:
    sqlite_target.run("CREATE TABLE notes (id integer PRIMARY KEY, text text, n integer, d date)")
    sink = Sink(sqlite_target, EVOLVE)
    put(sink, 1, INT32_SCHEMA, 5)
    put(sink, 2, TWO, Decimal("1.25"))
    assert sqlite_target.rows("SELECT cast(n AS text) FROM notes ORDER BY id") == [("5",), ("1.25",)]
    sink.put([{"id": 1, "text": None, "d": INSTANT}], note(d=TIMESTAMP_SCHEMA), keys=[{"id": 1}])
    with pytest.raises(ConnectException, match="Column d of table notes is date"):
        sink.commit()
    sink.end()


def test_a_definition_keeps_its_parts_besides_the_type(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run(
        "CREATE TABLE notes (id int PRIMARY KEY, text text, n smallint unsigned DEFAULT 7 COMMENT 'it''s, a number' CHECK (n > 1))"
    )
    sink = Sink(mariadb_target, EVOLVE)
    put(sink, 1, INT64_SCHEMA, 2**40)
    [(_, definition)] = mariadb_target.rows("SHOW CREATE TABLE notes")
    assert "`n` bigint(20) DEFAULT 7 COMMENT 'it''s, a number' CHECK (`n` > 1)" in definition
    assert "`id` bigint(20) NOT NULL" in definition
    sink.end()


def test_a_change_that_the_database_refuses_reports_what_was_tried(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, text text, n integer)", "CREATE VIEW seen AS SELECT n FROM notes")
    sink = Sink(postgresql_target, EVOLVE)
    with pytest.raises(
        ConnectException, match=r'Table notes cannot be changed .*ALTER COLUMN "n" TYPE BIGINT.*view.*make the change yourself'
    ) as raised:
        put(sink, 1, INT64_SCHEMA, 2**40)
    assert type(raised.value) is ConnectException, "no failure of a record"
    sink.end()


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize(("schema", "value"), [(INT64_SCHEMA, 2**40), (TWO, Decimal("1.25")), (FLOAT64_SCHEMA, 1.25)])
def test_a_task_that_goes_on_with_narrow_records_sees_what_another_has_changed(
    postgresql_target: TargetDatabase, mode: str, schema: Schema, value: Any
) -> None:
    settings = {**EVOLVE, "insert.mode": mode, "table.name.format": "notes"}
    narrow, wide = (Sink(postgresql_target, settings, (topic,)) for topic in ("narrow", "wide"))
    put(narrow, 1, INT32_SCHEMA, 11, topic="narrow")
    put(wide, 2, schema, value, topic="wide")
    put(narrow, 3, INT32_SCHEMA, 13, topic="narrow")
    postgresql_target.run("ALTER TABLE notes ALTER COLUMN n TYPE numeric(30,3)")
    put(narrow, 4, INT32_SCHEMA, 14, topic="narrow")
    put(wide, 5, schema, value, topic="wide")
    found = [float(row[0]) for row in postgresql_target.rows("SELECT n::text FROM notes ORDER BY id")]
    assert found == [11, value, 13, 14, value]
    for sink in (narrow, wide):
        sink.end()


def test_a_column_never_becomes_narrower_again(postgresql_target: TargetDatabase) -> None:
    settings = {**EVOLVE, "table.name.format": "notes"}
    late, early = (Sink(postgresql_target, settings, (topic,)) for topic in ("late", "early"))
    put(late, 1, INT16_SCHEMA, 1, topic="late")
    put(early, 2, TWO, Decimal("1.25"), topic="early")
    put(late, 3, INT64_SCHEMA, 2**40, topic="late")  # it knows a smallint, which would become a bigint
    put(late, 4, TWO, Decimal("1.50"), topic="late")
    found = [Decimal(row[0]) for row in postgresql_target.rows("SELECT n::text FROM notes ORDER BY id")]
    assert found == [1, Decimal("1.25"), 2**40, Decimal("1.50")]
    for sink in (late, early):
        sink.end()


@pytest.mark.parametrize(
    "turns",
    [
        ((INT32_SCHEMA, 5), (INT64_SCHEMA, 2**60)),
        ((INT64_SCHEMA, 5), (TWO, Decimal("0.25"))),
        ((INT32_SCHEMA, 5), (FLOAT64_SCHEMA, 0.1)),
        ((FLOAT32_SCHEMA, 0.5), (FLOAT64_SCHEMA, 0.1)),
        ((TWO, Decimal("0.25")), (FOUR, Decimal("0.0625"))),
        ((DATE_SCHEMA, INSTANT.date()), (TIMESTAMP_SCHEMA, INSTANT)),
    ],
)
@pytest.mark.parametrize("dialect", ["postgresql", "mariadb"])
def test_old_and_new_records_by_turns_in_one_transaction(
    request: pytest.FixtureRequest, dialect: str, turns: tuple[tuple[Schema, Any], tuple[Schema, Any]]
) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    sink = Sink(target, EVOLVE)
    for id, (schema, value) in enumerate(2 * turns):
        sink.put([{"id": id, "text": None, "n": value}], note(n=schema), keys=[{"id": id}])
    sink.commit()
    sink.end()
    (_, old), (_, new) = turns
    shown = "cast(n AS char(40))" if isinstance(new, Decimal) else "n"
    found = [Decimal(row[0]) if isinstance(new, Decimal) else row[0] for row in target.rows(f"SELECT {shown} FROM notes ORDER BY id")]
    if isinstance(new, datetime.datetime):
        old, new = datetime.datetime(2024, 2, 29), new.replace(tzinfo=None)
    assert found == [old, new, old, new]


@pytest.mark.parametrize("column", ["timestamptz", "timestamp"])
def test_days_in_a_column_of_timestamps_begin_in_the_zone_of_the_config(postgresql_target: TargetDatabase, column: str) -> None:
    postgresql_target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, text text, n {column})")
    sink = Sink(postgresql_target, {**UPSERT, "db.timezone": "Europe/Berlin"})
    put(sink, 1, DATE_SCHEMA, INSTANT.date())
    sink.end()
    zone = "AT TIME ZONE 'Europe/Berlin'" if column == "timestamptz" else ""
    assert postgresql_target.rows(f"SELECT n {zone} FROM notes") == [(datetime.datetime(2024, 2, 29),)]


@pytest.mark.parametrize("dialect", ["postgresql", "mariadb"])
def test_several_tasks_make_one_column_wider_at_a_time(request: pytest.FixtureRequest, dialect: str) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    sinks = [Sink(target, {**EVOLVE, "table.name.format": "notes"}, (f"t{number}",)) for number in range(4)]
    steps: list[tuple[Schema, Any]] = [(INT16_SCHEMA, 5), (INT32_SCHEMA, 2**30), (INT64_SCHEMA, 2**60), (TWO, Decimal("0.25"))]

    def run(number: int) -> None:
        for step, (schema, value) in enumerate(steps):
            put(sinks[number], 10 * number + step, schema, value, topic=f"t{number}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4)))
    found = [Decimal(row[0]) for row in target.rows("SELECT cast(n AS char(40)) FROM notes ORDER BY id")]
    assert found == [value for _ in sinks for _, value in steps]
    for sink in sinks:
        sink.end()


def test_a_boolean_goes_into_a_number_but_not_back(postgresql_target: TargetDatabase) -> None:
    sink = Sink(postgresql_target, EVOLVE)
    put(sink, 1, INT32_SCHEMA, 5)
    put(sink, 2, BOOLEAN_SCHEMA, True)
    assert postgresql_target.rows("SELECT n FROM notes ORDER BY id") == [(5,), (1,)]
    sink.end()


@pytest.mark.parametrize("rights", ["INSERT", "INSERT (id, text)"])
def test_a_user_who_may_do_no_more_than_insert(postgresql_target: TargetDatabase, rights: str) -> None:
    """What a table is locked with takes no more rights than writing does."""
    schema, role = postgresql_target.url.rpartition("=")[2], f"clerk_{uuid.uuid4().hex[:8]}"
    postgresql_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, text text)", f"CREATE ROLE {role} LOGIN")
    postgresql_target.run(f"GRANT USAGE ON SCHEMA {schema} TO {role}", f"GRANT {rights} ON notes TO {role}")
    sink = Sink(postgresql_target, {"connection.user": role, "insert.mode": "insert"}, exactly_once=False)
    sink.put_notes((1, "a"), (2, "b"))
    sink.commit()
    assert sink.notes() == [(1, "a"), (2, "b")]
    sink.end()
    postgresql_target.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_bad_records_before_and_after_a_change_are_the_only_ones_left_out(postgresql_target: TargetDatabase, mode: str) -> None:
    postgresql_target.run("CREATE TABLE notes (id bigint PRIMARY KEY CHECK (id % 10 <> 3), text text, n integer)")
    sink = Sink(postgresql_target, {**EVOLVE, "insert.mode": mode}, reported=(reported := Reported()))
    steps: list[tuple[Schema, Any]] = [
        (INT32_SCHEMA, 5),
        (INT64_SCHEMA, 2**40),
        (INT32_SCHEMA, 6),
        (TWO, Decimal("0.25")),
        (INT32_SCHEMA, 7),
    ]
    for step, (schema, value) in enumerate(steps):
        ids = range(20 * step, 20 * step + 20)
        sink.put([{"id": id, "text": None, "n": value} for id in ids], note(n=schema), keys=[{"id": id} for id in ids])
        if step % 2:
            sink.commit()
    sink.commit()
    postgresql_target.run("ALTER TABLE notes ALTER n TYPE numeric(30,2), ADD more text, DROP text")
    sink.put([{"id": id, "text": "t", "n": 8} for id in range(100, 120)], note(n=INT32_SCHEMA), keys=[{"id": id} for id in range(100, 120)])
    sink.commit()
    sink.end()
    good = [id for id in range(120) if id % 10 != 3]
    assert sorted(reported.errors) == [id for id in range(120) if id % 10 == 3]
    found = [(row[0], Decimal(row[1])) for row in postgresql_target.rows("SELECT id, n::text FROM notes ORDER BY id")]
    assert found == [(id, Decimal([*(value for _, value in steps), 8][id // 20])) for id in good]


@pytest.mark.parametrize(
    ("column", "schema", "value"),
    [("varchar(5)", STRING_SCHEMA, "too long"), ("numeric(6,2)", TWO, Decimal("123456789.25")), ("smallint", INT32_SCHEMA, 2**20)],
)
@pytest.mark.parametrize("dialect", ["postgresql", "mariadb"])
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_value_beyond_the_limit_of_a_column_is_refused_by_its_name(
    request: pytest.FixtureRequest, mode: str, dialect: str, *, column: str, schema: Schema, value: Any
) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, text varchar(9), n {column})")
    sink = Sink(target, {**UPSERT, "insert.mode": mode}, reported=(reported := Reported()))
    put(sink, 1, schema, value)
    sink.end()
    assert re.search(r"Table notes refuses the record at offset 0 of notes-0: .*column '?n\b", reported.errors[0]), reported.errors


def test_a_table_is_read_whole_while_another_task_changes_it(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, n int)")
    ended = threading.Event()

    def change() -> None:
        with closing(open_database(parse_url(mariadb_target.url).within(ALL_ALLOWED))) as database:
            while not ended.is_set():
                for kind in ("bigint", "int"):
                    database.execute(f"ALTER TABLE notes MODIFY n {kind}")

    with ThreadPoolExecutor(1) as threads, closing(opened(mariadb_target)) as store:
        changing = threads.submit(change)
        try:
            for _ in range(READS):
                store.begin()
                table = store.read_table(TableName("notes"))
                store.commit()
                assert table is not None
                assert (set(table.columns), table.unique) == ({"id", "n"}, (frozenset({"id"}),))
        finally:
            ended.set()
        changing.result(HANG_SECONDS)
