"""JdbcSink by SQLAlchemy, on a real MariaDB: what differs from one database to another."""

import datetime
from contextlib import closing
from decimal import Decimal

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.sink.sqlalchemy_store import has_other_unique
from airflow_provider_connect.data.schema import INT16_SCHEMA, INT64_SCHEMA
from airflow_provider_connect.errors import ConfigException, FencedException, RetriableException
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase, opened
from tests.integration.jdbc.test_sink_modes import LOCAL, OPTIONAL, ROW
from tests.integration.jdbc.test_sink_tables import note


@pytest.fixture
def target(mariadb_target: TargetDatabase) -> TargetDatabase:
    return mariadb_target


def test_a_value_of_each_type_arrives(target: TargetDatabase) -> None:
    sink = Sink(target, {"auto.create": "true", "db.timezone": "Europe/Berlin"}, ("all",))
    sink.put([ROW, dict.fromkeys(ROW)], OPTIONAL, topic="all")
    sink.commit()
    [row, nulls] = target.rows("SELECT * FROM `all` ORDER BY a IS NULL")
    time = datetime.timedelta(hours=23, minutes=59, seconds=59, milliseconds=999)
    assert dict(zip(ROW, row, strict=True)) == {**ROW, "g": 1, "j": Decimal("-123456789012.125"), "l": time, "m": LOCAL}
    assert nulls == (None,) * len(ROW)
    sink.end()


def test_changes_deletes_new_columns_and_wider_numbers(target: TargetDatabase) -> None:
    sink = Sink(target, {**UPSERT, "delete.enabled": "true", "auto.evolve": "true"})
    sink.put_notes((1, "a"), (2, "a"), (1, "b"), (3, "it's 100% \\ fine"))
    sink.put_deletes(2)
    sink.commit()
    for schema, number in ((INT16_SCHEMA, 5), (INT64_SCHEMA, 2**40)):
        sink.put([{"id": number, "text": "n", "n": number}], note(n=schema.as_optional()), keys=[{"id": number}])
        sink.commit()
    rows = [(1, "b", None), (3, "it's 100% \\ fine", None), (5, "n", 5), (2**40, "n", 2**40)]
    assert target.rows("SELECT id, text, n FROM notes ORDER BY id") == rows
    sink.end()
    updates = Sink(target, {"insert.mode": "update", "pk.mode": "record_key"}, claim_epoch=2)
    updates.put_notes((1, "c"), (9, "c"))
    updates.commit()
    assert target.rows("SELECT id, text FROM notes WHERE text = 'c'") == [(1, "c")]
    updates.end()


def test_bad_records_are_reported_and_the_others_written(target: TargetDatabase) -> None:
    target.run("CREATE TABLE notes (id int PRIMARY KEY, text varchar(9) NOT NULL, CHECK (id <> 7))")
    sink = Sink(target, UPSERT, reported=(reported := Reported()))
    sink.put_notes((1, "a"), (2, None), (2**40, "b"), (7, "c"), (8, "long text of a note"), (9, "d"))
    sink.commit()
    assert reported.errors.keys() == {1, 2, 3, 4}
    assert sink.notes() == [(1, "a"), (9, "d")]
    sink.end()


@pytest.mark.parametrize(
    "columns",
    [
        "code int NOT NULL DEFAULT 5 UNIQUE",
        "code int DEFAULT 5, UNIQUE (code, text)",
        "folded varchar(9) AS (left(text, 1)) PERSISTENT UNIQUE",
        "UNIQUE (text(1))",
    ],
    ids=["default", "default-of-a-part", "generated", "prefix"],
)
def test_a_row_that_is_equal_in_a_column_that_records_leave_out_is_not_changed(target: TargetDatabase, columns: str) -> None:
    target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, text varchar(9), {columns})")
    sink = Sink(target, UPSERT, reported=(reported := Reported()))
    sink.put_notes((1, "same"))
    sink.commit()
    sink.put_notes((2, "same"), (1, "same"))
    sink.commit()
    assert sink.notes() == [(1, "same")]
    assert reported.errors.keys() == {1}
    sink.end()


def test_a_key_of_which_an_index_has_only_the_beginning_is_refused(target: TargetDatabase) -> None:
    target.run("CREATE TABLE notes (id bigint, text varchar(9) NOT NULL, UNIQUE (text(1)))")
    sink = Sink(target, {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "text"})
    sink.put_notes((1, "one"))
    with pytest.raises(ConfigException, match="notes has no primary key or unique index of exactly these columns"):
        sink.commit()
    sink.end()


@pytest.mark.parametrize(
    ("columns", "has_others"),
    [
        ("number bigint AUTO_INCREMENT UNIQUE", False),
        ("code int UNIQUE", False),
        ("code int, UNIQUE (text, code)", False),
        ("code int NOT NULL DEFAULT 5 UNIQUE", True),
        ("UNIQUE (text)", True),
    ],
)
def test_one_statement_is_enough_where_no_other_row_can_be_equal(target: TargetDatabase, columns: str, has_others: bool) -> None:
    target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, text varchar(9), {columns})")
    with closing(opened(target)) as store:
        table = store.read_table(TableName("notes"))
        assert table is not None
        assert has_other_unique(table, ["id", "text"], ["id"]) is has_others


def test_an_older_claim_writes_nothing(target: TargetDatabase) -> None:
    older = Sink(target, UPSERT)
    older.put_notes((1, "old"))
    newer = Sink(target, UPSERT, claim_epoch=2)
    newer.put_notes((2, "new"))
    newer.commit()
    with pytest.raises(FencedException):
        older.commit()
    assert newer.notes() == [(2, "new")]
    assert Sink(target, UPSERT, claim_epoch=3).offsets == {"notes": 1}
    newer.end()
    older.end()


def test_rows_that_stay_locked_are_asked_for_again(target: TargetDatabase) -> None:
    target.run("CREATE TABLE notes (id bigint PRIMARY KEY)", "INSERT INTO notes VALUES (1)")
    with closing(opened(target)) as owner, closing(opened(target)) as other:
        other.execute("SET innodb_lock_wait_timeout = 0")
        assert owner.locked_rows("SELECT id FROM notes") == [(1,)]
        with pytest.raises(RetriableException, match="has ended the transaction"):
            other.locked_rows("SELECT id FROM notes")


def test_names_that_differ_in_case_have_offsets_of_their_own(target: TargetDatabase) -> None:
    """MariaDB's collations hold them equal, Kafka does not."""
    sink = Sink(target, {"auto.create": "true"}, ("notes", "Notes"))
    for topic in ("notes", "Notes"):
        sink.put([{"id": 1, "text": topic}], topic=topic)
    sink.commit()
    sink.end()
    other = Sink(target, {"auto.create": "true", "name": "SINK"}, ("notes",))
    assert other.offsets == {}
    other.end()
    assert Sink(target, {}, ("notes", "Notes"), claim_epoch=2).offsets == {"notes": 1, "Notes": 1}


def test_an_older_table_of_offsets_that_cannot_tell_names_apart_is_refused(target: TargetDatabase) -> None:
    Sink(target, {}).end()
    target.run("ALTER TABLE connect_sink_offsets CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    with pytest.raises(ConfigException, match="connector sink and topic notes equal those of connector SINK"):
        Sink(target, {"name": "SINK"})
    Sink(target, {}, claim_epoch=2).end()


@pytest.mark.parametrize("engine", ["MyISAM", "Aria"])
def test_a_table_without_transactions_is_refused_exactly_once(target: TargetDatabase, engine: str) -> None:
    target.run(f"CREATE TABLE notes (id bigint, text varchar(9)) ENGINE={engine}")
    sink = Sink(target, {})
    sink.put_notes((1, "a"))
    with pytest.raises(ConfigException, match=rf"notes is of engine {engine}, which has no transactions.*ENGINE=InnoDB"):
        sink.commit()
    again = Sink(target, {}, exactly_once=False)
    again.put_notes((1, "a"))
    again.commit()
    assert again.notes() == [(1, "a")]
    again.end()


def test_the_table_of_offsets_has_transactions_whatever_the_default(target: TargetDatabase) -> None:
    target.run("SET GLOBAL default_storage_engine=MyISAM")
    try:
        Sink(target, {}).end()
    finally:
        target.run("SET GLOBAL default_storage_engine=InnoDB")
    sql = "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'connect_sink_offsets'"
    assert target.rows(sql) == [("InnoDB",)]
