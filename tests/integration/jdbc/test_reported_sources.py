"""Rows that JDBC connectors of others have lost, doubled or changed, by their users' reports, on real databases. Each names its report."""

from __future__ import annotations

import datetime
import logging
from decimal import Decimal
from typing import Any, Final

import pytest

from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import INT8_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, TIMESTAMP_SCHEMA, Schema, decimal_schema
from airflow_provider_connect.errors import ConfigException, ConnectException
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase
from tests.integration.jdbc.sources import Source
from tests.reaching import reaching

TIMES: Final = {"mode": "timestamp", "timestamp.column.name": "at"}
NUMBERS: Final = {"mode": "incrementing", "incrementing.column.name": "id"}
BOTH: Final = TIMES | NUMBERS | {"mode": "timestamp+incrementing"}
BERLIN: Final = {"db.timezone": "Europe/Berlin"}
DATETIME: Final = {"postgresql": "timestamp", "mariadb": "datetime(6)", "sqlite": "timestamp"}


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def any_target(request: pytest.FixtureRequest) -> TargetDatabase:
    found: TargetDatabase = request.getfixturevalue(f"{request.param}_target")
    return found


@pytest.fixture(params=["postgresql", "mariadb"])
def server_target(request: pytest.FixtureRequest) -> TargetDatabase:
    found: TargetDatabase = request.getfixturevalue(f"{request.param}_target")
    return found


def notes(target: TargetDatabase, *rows: tuple[int, str]) -> None:
    """A table of numbers and times."""
    target.run(f"CREATE TABLE notes (id bigint NOT NULL PRIMARY KEY, at {DATETIME[target.dialect]} NOT NULL)")
    add(target, *rows)


def add(target: TargetDatabase, *rows: tuple[int, str]) -> None:
    target.run(*(f"INSERT INTO notes VALUES ({id}, '{at}')" for id, at in rows))


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


@pytest.mark.parametrize("mode", [TIMES, BOTH])
def test_rows_of_the_epoch_and_before_are_read(any_target: TargetDatabase, mode: dict[str, str]) -> None:
    """confluentinc/kafka-connect-jdbc 541: a first run began behind 1970-01-01; 640: so did each later one, behind its own bound."""
    notes(any_target, (-7, "1000-01-01 00:00:00"), (0, "1969-12-31 23:59:59"), (1, "1970-01-01 00:00:00"), (2, "1970-01-01 00:00:01"))
    source = Source(any_target, mode)
    assert ids(source.run()) == [-7, 0, 1, 2]
    add(any_target, (3, "1970-01-01 00:00:02"))
    assert ids(source.run()) == [3]
    assert source.has_new_data() is False


def test_numbers_below_one_are_read(any_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 242: a first run began behind -1."""
    notes(any_target, *((id, "2026-01-01 00:00:00") for id in (-5, -1, 0, 1)))
    source = Source(any_target, NUMBERS)
    assert ids(source.run()) == [-5, -1, 0, 1]
    assert source.run() == []


def test_a_column_is_found_in_another_case(any_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 664, 1005: nothing was read, without a message."""
    any_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)")
    any_target.run("INSERT INTO notes (id) VALUES (1)")
    past = {"postgresql": "at - interval '1 hour'", "mariadb": "at - INTERVAL 1 HOUR", "sqlite": "datetime(at, '-1 hour')"}
    any_target.run(f"UPDATE notes SET at = {past[any_target.dialect]}")
    assert ids(Source(any_target, TIMES | {"timestamp.column.name": "AT"}).run()) == [1]


def test_a_cursor_is_not_rounded(server_target: TargetDatabase) -> None:
    """airbytehq/airbyte 9915 (up to the second), logstash-plugins/logstash-input-jdbc 140, 260 (down to it)."""
    notes(server_target, (1, "2022-01-28 10:30:33.614999"), (2, "2022-01-28 10:30:33.999999"))
    source = Source(server_target, TIMES)
    assert ids(source.run()) == [1, 2]
    assert source.run() == []
    add(server_target, (3, "2022-01-28 10:30:34"), (4, "2022-01-28 10:30:33.999998"))
    assert ids(source.run()) == [3]


def test_a_later_instant_in_another_zone_is_later(postgresql_target: TargetDatabase) -> None:
    """airbytehq/airbyte 7962: texts of times with zones were compared."""
    postgresql_target.run(
        "CREATE TABLE notes (id bigint PRIMARY KEY, at timestamptz NOT NULL)",
        "INSERT INTO notes VALUES (1, '2021-11-11 09:00:00+07')",
    )
    source = Source(postgresql_target, TIMES)
    assert ids(source.run()) == [1]
    postgresql_target.run("INSERT INTO notes VALUES (2, '2021-11-11 02:30:00+00'), (3, '2021-11-11 08:59:59+07')")
    assert ids(source.run()) == [2]


def test_the_bound_of_a_run_has_the_zone_of_the_columns(server_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 1397, airbytehq/airbyte 83778: the end of what is read was in another zone than its beginning."""
    now = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=3))).replace(tzinfo=None)
    minute = datetime.timedelta(minutes=1)
    notes(server_target, (1, str(now - minute)), (2, str(now + minute)))
    source = Source(server_target, TIMES | {"db.timezone": "Africa/Nairobi"})
    [row] = source.run()
    assert row["id"] == 1
    assert abs(row["at"].replace(tzinfo=None) - (now - minute) + datetime.timedelta(hours=3)) < datetime.timedelta(milliseconds=1)


def test_local_times_that_are_twice_or_never_are_read(server_target: TargetDatabase) -> None:
    """logstash-plugins/logstash-input-jdbc 121, 390: the rest of the rows was lost behind an exception."""
    notes(server_target, (1, "2025-03-30 02:30:00"), (2, "2025-10-26 02:30:00"), (3, "2025-10-26 03:30:00"))
    source = Source(server_target, TIMES | BERLIN)
    rows = source.run()
    assert ids(rows) == [1, 2, 3]
    assert rows[2]["at"] == datetime.datetime(2025, 10, 26, 2, 30, tzinfo=datetime.UTC)
    assert source.run() == []


@pytest.mark.parametrize("mode", [TIMES, BOTH])
def test_a_clock_that_went_back_is_named_with_its_remedy(
    server_target: TargetDatabase, mode: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The hour that comes twice: its second rows lie before the cursor, and no run reads them."""
    notes(server_target, (1, "2025-10-26 02:50:00"))
    source, overlapping = Source(server_target, mode | BERLIN), Source(server_target, mode | BERLIN | {"timestamp.overlap.ms": "3600000"})
    for each in (source, overlapping):
        assert ids(each.run()) == [1]
    assert not caplog.records
    add(server_target, (2, "2025-10-26 02:10:00"), (3, "2025-10-26 03:01:00"))
    with caplog.at_level(logging.WARNING):
        assert ids(source.run()) == [3]
    assert "2025-10-26 02:50:00" in caplog.text
    assert "timestamp.overlap.ms" in caplog.text
    assert ids(overlapping.run()) == [2, 3]
    caplog.clear()
    assert source.run() == []
    assert not caplog.records


def test_an_unsigned_number_above_int64_is_named_and_read_as_text(mariadb_target: TargetDatabase) -> None:
    """apache/flink-cdc 2401, 4117: such a key was read without end; 798: as another number."""
    mariadb_target.run("CREATE TABLE notes (id bigint unsigned PRIMARY KEY)", f"INSERT INTO notes VALUES (1), ({2**63 + 5})")
    with pytest.raises(ConnectException, match=f"notes.*id.*{2**63 + 5}|id.*notes.*{2**63 + 5}") as raised:
        Source(mariadb_target, NUMBERS).run()
    assert "columns.as.text" in str(raised.value)
    assert Source(mariadb_target, {"mode": "bulk", "columns.as.text": "id"}).run() == [{"id": "1"}, {"id": str(2**63 + 5)}]


def test_a_tinyint_of_one_digit_keeps_its_number(mariadb_target: TargetDatabase) -> None:
    """apache/paimon 1420: 21 became true, as by the driver's default here."""
    mariadb_target.run("CREATE TABLE notes (id int PRIMARY KEY, flag tinyint(1))", "INSERT INTO notes VALUES (1, 21), (2, -128), (3, NULL)")
    source = Source(mariadb_target, {"mode": "bulk", "connection.url": f"{mariadb_target.url}?tinyInt1isBit=false"})
    assert [row["flag"] for row in source.run()] == [21, -128, None]
    [schema] = source.schemas.values()
    field = schema.field("flag")
    assert field is not None
    assert field.schema == INT8_SCHEMA.as_optional()


def test_numbers_that_are_filled_with_zeros_are_numbers(mariadb_target: TargetDatabase) -> None:
    """apache/flink-cdc 1462."""
    mariadb_target.run("CREATE TABLE notes (id int(8) unsigned zerofill PRIMARY KEY, price decimal(6,2) zerofill)")
    mariadb_target.run("INSERT INTO notes VALUES (7, 1.5), (4294967295, 0)")
    source = Source(mariadb_target, NUMBERS)
    assert source.run() == [{"id": 7, "price": Decimal("1.50")}, {"id": 4294967295, "price": Decimal("0.00")}]
    [schema] = source.schemas.values()
    field = schema.field("id")
    assert field is not None
    assert field.schema == INT64_SCHEMA


def test_rows_without_a_cursor_are_refused_before_the_others_are_read(server_target: TargetDatabase) -> None:
    """airbytehq/airbyte 16567: they were never read."""
    server_target.run(
        f"CREATE TABLE notes (id bigint PRIMARY KEY, at {DATETIME[server_target.dialect]} NULL)", "INSERT INTO notes VALUES (1, NULL)"
    )
    with pytest.raises(ConfigException, match=r"Column at of table .*notes may be null"):
        Source(server_target, TIMES).run()


QUERIES: Final = (
    "SELECT * FROM notes WHERE id < 3",  # confluentinc/kafka-connect-jdbc 566
    "SELECT id AS id, at AS at FROM notes AS n WHERE n.id < 3",  # 248
    "SELECT id, at FROM notes WHERE id = 1 UNION SELECT id, at FROM notes WHERE id = 2",  # pull request 1666
    "SELECT id, at FROM notes WHERE id < 3 GROUP BY id, at HAVING count(*) = 1 ORDER BY id DESC",
    "SELECT id, at FROM notes WHERE id < 3 -- without the third",
    "SELECT id, at FROM notes WHERE 'a%b:c' LIKE 'a%' AND id < 3 AND ':id' <> '%s' /* 100% :x */",
    "WITH few AS (SELECT id, at FROM notes WHERE id < 3) SELECT * FROM few",
    "SELECT id, at FROM notes WHERE id < 3;",  # 489, bzkf/onco-analytics-on-fhir 157
    "SELECT id, at FROM notes WHERE id < 3 ; \n",
)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("mode", [{"mode": "bulk"}, NUMBERS, BOTH])
def test_a_query_may_have_its_own_clauses(any_target: TargetDatabase, mode: dict[str, str], query: str) -> None:
    """Where others append their condition to the text, it is no SQL any more, and each run fails."""
    notes(any_target, *((id, "2026-01-01 00:00:00") for id in (1, 2, 3)))
    source = Source(any_target, mode | {"query": query})
    assert sorted(ids(source.run())) == [1, 2]
    if mode["mode"] != "bulk":
        assert source.run() == []


def test_a_name_with_its_table_is_refused_with_the_names_that_there_are(any_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 439, 691."""
    notes(any_target, (1, "2026-01-01 00:00:00"))
    with pytest.raises(ConfigException, match=r"n\.id for configuration incrementing\.column\.name: .*Its columns are: id, at"):
        Source(any_target, NUMBERS | {"incrementing.column.name": "n.id", "query": "SELECT n.id, n.at FROM notes n"}).run()


def test_an_instant_of_a_server_in_another_zone_is_that_instant(mariadb_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 1447, 103, mferretti/SeedStream 218: hours off, or read hours later."""
    [(zone,)] = mariadb_target.rows("SELECT @@GLOBAL.time_zone")
    mariadb_target.run("SET GLOBAL time_zone = '+09:00'")
    try:
        mariadb_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, at timestamp NOT NULL)")
        mariadb_target.run("INSERT INTO notes VALUES (1, FROM_UNIXTIME(UNIX_TIMESTAMP() - 60))")
        [row] = Source(mariadb_target, TIMES).run()
        assert abs((datetime.datetime.now(datetime.UTC) - row["at"]).total_seconds() - 60) < 30
        instant = datetime.datetime(2024, 6, 15, 10, 30, tzinfo=datetime.UTC)
        sink = Sink(mariadb_target, {"insert.mode": "insert", "pk.mode": "none"})
        sink.put([{"id": 2, "at": instant}], Schema.struct({"id": INT64_SCHEMA, "at": TIMESTAMP_SCHEMA}), key_schema=None)
        sink.commit()
        sink.end()
        assert mariadb_target.rows("SELECT UNIX_TIMESTAMP(at) FROM notes WHERE id = 2") == [(int(instant.timestamp()),)]
    finally:
        mariadb_target.run(f"SET GLOBAL time_zone = '{zone}'")


def test_a_table_that_changes_under_a_sink_costs_no_record(server_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 69 ("cached plan must not change result type"), 1193 (columns that are there were missing)."""
    text = {"postgresql": "ALTER TABLE notes ALTER text TYPE varchar(90)", "mariadb": "ALTER TABLE notes MODIFY text varchar(90)"}
    sink = Sink(server_target, UPSERT | {"auto.evolve": "false"})
    sink.put_notes((1, "a"))
    sink.commit()
    server_target.run(text[server_target.dialect], "ALTER TABLE notes ADD COLUMN more bigint")
    sink.put_notes((1, "b"), (2, "b"))
    sink.commit()
    wide = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional(), "more": INT64_SCHEMA.as_optional()})
    sink.put([{"id": 3, "text": "c", "more": 7}], wide, keys=[{"id": 3}])
    sink.commit()
    sink.end()
    assert server_target.rows("SELECT id, text, more FROM notes ORDER BY id") == [(1, "b", None), (2, "b", None), (3, "c", 7)]


def test_a_number_keeps_its_scale(server_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 450: 60 became 0.00060."""
    sink = Sink(server_target, UPSERT)
    schema = Schema.struct({"id": INT64_SCHEMA, "price": decimal_schema(5)})
    sink.put([{"id": 1, "price": Decimal("60.00000")}, {"id": 2, "price": Decimal("-0.00001")}], schema, keys=[{"id": 1}, {"id": 2}])
    sink.commit()
    sink.end()
    assert [Decimal(price) for (price,) in server_target.rows("SELECT price FROM notes ORDER BY id")] == [Decimal(60), Decimal("-0.00001")]


def test_a_row_that_gets_another_key_is_there_once(server_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 1421, debezium/debezium-connector-jdbc pull request 43: as flattened records do it, in one batch."""
    sink = Sink(server_target, UPSERT | {"delete.enabled": "true"})
    values = [{"id": 1, "text": "a"}, None, {"id": 2, "text": "a"}, None, {"id": 2, "text": "b"}, {"id": 3, "text": "c"}, None]
    sink.put(values, keys=[{"id": id} for id in (1, 1, 2, 2, 2, 3, 3)])
    sink.commit()
    sink.end()
    assert sink.notes() == [(2, "b")]


def test_values_without_a_schema_are_bad_records_that_say_so(server_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 1102, 946: "Unknown schema type: null", a HashMap."""
    reported = Reported()
    sink = Sink(server_target, UPSERT, reported=reported)
    sink.put([{"id": 1}], None, keys=[{"id": 1}])
    sink.commit()
    sink.end()
    assert list(reported.errors) == [0]
    assert "schemas.enable" in reported.errors[0]


def test_rows_of_a_partitioned_table_are_read_once(postgresql_target: TargetDatabase) -> None:
    """confluentinc/kafka-connect-jdbc 1092, apache/seatunnel 10593: none of them, or its parts alone, or both."""
    postgresql_target.run(
        "CREATE TABLE notes (id bigint, at timestamp NOT NULL, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE notes_1 PARTITION OF notes FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE notes_2 PARTITION OF notes FOR VALUES FROM (10) TO (20)",
        "INSERT INTO notes VALUES (1, '2026-01-01'), (11, '2026-01-02')",
    )
    source = Source(postgresql_target, NUMBERS)
    assert ids(source.run()) == [1, 11]
    assert list(source.schemas) == ["x-notes"]
    with pytest.raises(ConfigException, match="no such table"):
        Source(postgresql_target, NUMBERS | {"table.include": "notes_2"}).run()


@pytest.mark.parametrize("settings", [{"insert.mode": "insert", "pk.mode": "none"}, UPSERT])
def test_rows_that_a_trigger_puts_elsewhere_are_delivered(postgresql_target: TargetDatabase, settings: dict[str, str]) -> None:
    """confluentinc/kafka-connect-jdbc 449: the database counts no row, and each run failed."""
    postgresql_target.run(
        "CREATE TABLE notes (id bigint PRIMARY KEY, text varchar(40))",
        "CREATE TABLE notes_1 (LIKE notes)",
        "CREATE FUNCTION put_elsewhere() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO notes_1 VALUES (NEW.*); RETURN NULL; END $$",
        "CREATE TRIGGER elsewhere BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION put_elsewhere()",
    )
    sink = Sink(postgresql_target, settings)
    sink.put_notes((1, "a"), (2, "b"))
    sink.commit()
    sink.end()
    assert postgresql_target.rows("SELECT id, text FROM notes_1 ORDER BY id") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("mode", ["upsert", "update"])
def test_positions_of_a_topic_that_was_created_anew_replace_no_row(server_target: TargetDatabase, mode: str) -> None:
    """confluentinc/kafka-connect-elasticsearch 101, 374: what has its position in Kafka for its identity is another topic's then."""
    settings = UPSERT | {"pk.mode": "kafka"}
    first = Sink(server_target, settings, topic_ids={"notes": "first"})
    first.put_notes((1, "a"), (2, "b"))
    first.commit()
    first.end()
    with pytest.raises(
        ConfigException, match=r"pk\.mode.*notes-0 was another topic \(id first; it was created anew\).*reset the connector's offsets"
    ):
        Sink(server_target, settings | {"insert.mode": mode}, claim_epoch=2, topic_ids={"notes": "second"})
    assert first.notes() == [(1, "a"), (2, "b")]
    config = {"name": "sink", "connection.url": server_target.url, **settings}
    assert reaching(JdbcSinkConnector()).alter_offsets(config, {TopicPartition("notes", 0): None})
    elsewhere = Sink(server_target, settings | {"table.name.format": "again"}, claim_epoch=3, topic_ids={"notes": "second"})
    elsewhere.put_notes((3, "c"))
    elsewhere.commit()
    elsewhere.end()
    assert server_target.rows("SELECT id FROM again") == [(3,)]


def test_a_table_that_begins_anew_is_named_until_its_offset_is_reset(any_target: TargetDatabase, caplog: pytest.LogCaptureFixture) -> None:
    """confluentinc/kafka-connect-jdbc 408, 1086: rows with numbers that were read before, in a table that was emptied or is another."""
    notes(any_target, *((id, "2026-01-01 00:00:00") for id in range(1, 6)))
    source = Source(any_target, NUMBERS)
    assert ids(source.run()) == [1, 2, 3, 4, 5]
    any_target.run("DELETE FROM notes")
    assert source.has_new_data() is False
    add(any_target, (1, "2026-01-02 00:00:00"), (2, "2026-01-02 00:00:00"))
    connector = source._connector()
    assert connector.has_new_data(connector.config, source._offset) is False
    text = str(connector.missing)
    assert "The greatest number of column id in table " in text
    assert " is 2, but it was read up to 5: rows up to that number are not read" in text
    assert source.run() == []
    assert text in caplog.text
    source.offsets.clear()
    assert ids(source.run()) == [1, 2]
