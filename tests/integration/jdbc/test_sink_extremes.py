"""Values at the ends of their types' ranges and beyond: written as they are, or refused alone, never the end of the task."""

from __future__ import annotations

import pytest

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.schema import DATE_SCHEMA, INT64_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA, Schema
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.batch import KafkaBatch
from tests.integration.jdbc.sinks import KEY, Reported, Sink, TargetDatabase

INFINITY, MINUS_INFINITY = 9223372036825200000, -9223372036832400000  # as PostgreSQL's JDBC driver has them
MODES = {
    "insert": {"pk.mode": "record_key"},
    "upsert": {"insert.mode": "upsert", "pk.mode": "record_key"},
    "at once": {"pk.mode": "record_key", "batch.size": "1"},
}
TIMES = {
    INFINITY: "infinity",
    MINUS_INFINITY: "-infinity",
    -210866803200000: "4714-11-24 00:00:00 BC",
    -62135596800001: "0001-12-31 23:59:59.999 BC",
    253402300800000: "10000-01-01 00:00:00",
    9223372036854776: "294247-01-10 04:00:54.776",
    9224318015999999: "294276-12-31 23:59:59.999",
    0: "1970-01-01 00:00:00",
}
POISON = (9224318016000000, -210866803200001, INFINITY + 1, 2**63 - 1, -(2**63))


def put_numbers(sink: Sink, schema: Schema, numbers: list[int | None]) -> None:
    """Records with the numbers of a logical type's own integer type, under the ids 0, 1, …"""
    first = sink.offsets.get("notes", 0)
    ids = pa.array(range(first, first + len(numbers)), pa.int64())
    whole = pa.array(numbers, pa.int64()).cast(pa.int64() if schema is TIMESTAMP_SCHEMA else pa.int32()).cast(arrow_type(schema))
    value_schema = Schema.struct({"id": INT64_SCHEMA, "x": schema.as_optional()})
    value = pa.StructArray.from_arrays([ids, whole], fields=list(arrow_type(value_schema)))
    key = pa.StructArray.from_arrays([ids], fields=list(arrow_type(KEY)))
    last = first + len(numbers)
    sink.task.put(KafkaBatch("notes", value, key, value_schema, KEY, kafka_partition=0, first_offset=first, next_offset=last))
    sink.offsets["notes"] = last


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type", ["timestamp", "timestamptz"])
def test_far_timestamps_are_written_and_poison_is_refused_alone(postgresql_target: TargetDatabase, mode: str, type: str) -> None:
    postgresql_target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, x {type})")
    sink = Sink(postgresql_target, MODES[mode], reported=(reported := Reported()))
    numbers = [number for pair in zip(TIMES, [*POISON, None, None, None], strict=True) for number in pair]
    put_numbers(sink, TIMESTAMP_SCHEMA, numbers)
    put_numbers(sink, TIMESTAMP_SCHEMA, [0, 1])
    sink.commit()
    sink.end()
    found = dict(
        postgresql_target.rows(
            "SELECT id, (x AT TIME ZONE 'UTC')::text FROM notes" if type == "timestamptz" else "SELECT id, x::text FROM notes"
        )
    )
    expected = {2 * target: text for target, text in enumerate(TIMES.values())}
    bad = {2 * target + 1 for target in range(len(POISON))}
    nulls = {2 * target + 1: None for target in range(len(POISON), len(TIMES))}
    assert found == expected | nulls | {16: "1970-01-01 00:00:00", 17: "1970-01-01 00:00:00.001"}
    assert reported.errors.keys() == bad
    assert all("out of range" in error for error in reported.errors.values())


def test_far_times_in_a_time_zone_and_as_dates(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, x timestamp)")
    sink = Sink(postgresql_target, {"pk.mode": "record_key", "db.timezone": "Asia/Tokyo"}, reported=Reported())
    put_numbers(sink, TIMESTAMP_SCHEMA, [INFINITY, MINUS_INFINITY, 9223372036854776, 0])
    put_numbers(sink, DATE_SCHEMA, [2**31 - 1, -(2**31), 106751992, 0])
    sink.commit()
    sink.end()
    assert [row[0] for row in postgresql_target.rows("SELECT x::text FROM notes ORDER BY id")] == [
        *("infinity", "-infinity", "294247-01-10 13:00:54.776", "1970-01-01 09:00:00"),
        *("infinity", "-infinity", "294247-01-11 00:00:00", "1970-01-01 00:00:00"),
    ]


def test_dates_and_times_of_day_at_their_ends(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, x date)")
    sink = Sink(postgresql_target, {"pk.mode": "record_key"}, reported=(reported := Reported()))
    put_numbers(sink, DATE_SCHEMA, [2**31 - 1, -(2**31), -2440588, 2145042905, 2145042906, -2440589, None])
    sink.commit()
    found = [row[0] for row in postgresql_target.rows("SELECT x::text FROM notes ORDER BY id")]
    assert found == ["infinity", "-infinity", "4714-11-24 BC", "5874897-12-31", None]
    assert reported.errors.keys() == {4, 5}
    postgresql_target.run("DROP TABLE notes", "CREATE TABLE notes (id bigint PRIMARY KEY, x time)")
    sink.end()
    sink = Sink(postgresql_target, {"pk.mode": "record_key"}, claim_epoch=2, reported=(reported := Reported()))
    put_numbers(sink, TIME_SCHEMA, [86400000, 0, 86399999, -1, 86400001])
    sink.commit()
    sink.end()
    assert [row[0] for row in postgresql_target.rows("SELECT x::text FROM notes ORDER BY id")] == ["24:00:00", "00:00:00", "23:59:59.999"]
    assert reported.errors.keys() == {10, 11}


@pytest.mark.parametrize(
    ("type", "schema", "good", "bad"),
    [
        ("timestamp", TIMESTAMP_SCHEMA, [-62135596800000, 0, 253402300799999], [INFINITY, 253402300800000, -62135596800001]),
        ("date", DATE_SCHEMA, [-719162, 0, 2932896], [2**31 - 1, 2932897, -719163]),
        ("time", TIME_SCHEMA, [0, 86399999], [86400000, -1]),
    ],
)
def test_databases_without_such_values_refuse_them_alone(
    sqlite_target: TargetDatabase, type: str, schema: Schema, good: list[int], bad: list[int]
) -> None:
    sqlite_target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, x {type})")
    sink = Sink(sqlite_target, {"pk.mode": "record_key"}, reported=(reported := Reported()))
    put_numbers(sink, schema, [*good, *bad, good[0]])
    sink.commit()
    sink.end()
    assert [row[0] for row in sqlite_target.rows("SELECT id FROM notes ORDER BY id")] == [*range(len(good)), len(good) + len(bad)]
    assert reported.errors.keys() == set(range(len(good), len(good) + len(bad)))


@pytest.mark.parametrize("has_reporter", [True, False])
def test_an_exception_about_what_waits_never_blames_the_batch_at_hand(
    postgresql_target: TargetDatabase, monkeypatch: pytest.MonkeyPatch, has_reporter: bool
) -> None:
    """A DataException from ``put`` makes the framework leave out records of that very batch, as if nothing had been taken."""
    sink = Sink(postgresql_target, {"auto.create": "true", "batch.size": "2"}, reported=Reported() if has_reporter else None)
    sink.put_notes((1, "a"), (2, "a"))
    sink.commit()

    def broken(*_: object) -> None:
        raise DataException("of an earlier batch")

    monkeypatch.setattr("airflow_provider_connect.connectors.jdbc.sink.postgresql_store.PostgresqlStore._copy", broken)
    sink.put_notes((3, "a"), (4, "a"))  # written while the next one is put
    with pytest.raises(ConnectException, match="of an earlier batch") as raised:
        sink.put_notes((5, "a"), (6, "a"))
    assert not isinstance(raised.value, DataException)
    sink.end()
    assert sink.notes() == [(1, "a"), (2, "a")]
    assert Sink(postgresql_target, {}, claim_epoch=2).offsets == {"notes": 2}


def test_a_batch_that_cannot_be_rows_leaves_what_waits_as_it_is(postgresql_target: TargetDatabase) -> None:
    sink = Sink(postgresql_target, {"auto.create": "true"}, reported=(reported := Reported()))
    sink.put_notes((1, "a"), (2, "a"))
    sink.put([5, 6], INT64_SCHEMA)
    sink.put_notes((3, "a"))
    sink.commit()
    sink.end()
    assert sink.notes() == [(1, "a"), (2, "a"), (3, "a")]
    assert reported.errors.keys() == {2, 3}
    assert "cannot be rows: their value is INT64" in reported.errors[2]
