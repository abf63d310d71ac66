"""JdbcSink into views: of one table, with renamed and left-out columns, a condition, and another view below; and into views that databases
do not write to."""

import pytest

from airflow_provider_connect.errors import ConfigException
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase


@pytest.fixture(params=["postgresql", "mariadb"])
def target(request: pytest.FixtureRequest) -> TargetDatabase:
    found: TargetDatabase = request.getfixturevalue(f"{request.param}_target")
    found.run(
        "CREATE TABLE kept (number bigint PRIMARY KEY, body varchar(9), code integer DEFAULT 7)",
        "CREATE VIEW below AS SELECT k.number, k.body FROM kept k",
        "CREATE VIEW notes (id, text) AS SELECT number, body FROM below WHERE number < 100 WITH CHECK OPTION",
    )
    return found


def kept(target: TargetDatabase) -> list[tuple[int, str, int]]:
    return target.rows("SELECT number, body, code FROM kept ORDER BY number")


def test_upserts_and_deletes_pass_through_a_view(target: TargetDatabase) -> None:
    sink = Sink(target, {**UPSERT, "delete.enabled": "true"})
    sink.put_notes((1, "a"), (2, "b"), (1, "c"))
    sink.commit()
    sink.put_notes((2, "d"), (3, "e"))
    sink.put_deletes(1)
    sink.commit()
    assert kept(target) == [(2, "d", 7), (3, "e", 7)]
    sink.end()


@pytest.mark.parametrize("mode", ["insert", "update"])
def test_inserts_and_updates_pass_through_a_view(target: TargetDatabase, mode: str) -> None:
    target.run("INSERT INTO kept VALUES (1, 'old', 5)")
    sink = Sink(target, {"insert.mode": mode, "pk.mode": "record_key"})
    sink.put_notes((1 if mode == "update" else 2, "new"))
    sink.commit()
    assert kept(target) == ([(1, "new", 5)] if mode == "update" else [(1, "old", 5), (2, "new", 7)])
    sink.end()


def test_rows_that_a_views_check_option_refuses_are_bad_records(target: TargetDatabase) -> None:
    sink = Sink(target, UPSERT, reported=(reported := Reported()))
    sink.put_notes((1, "a"), (700, "b"), (2, "c"))
    sink.commit()
    assert reported.errors.keys() == {1}
    assert kept(target) == [(1, "a", 7), (2, "c", 7)]
    sink.end()


def test_an_upsert_in_mariadb_changes_the_row_of_its_key_alone(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run(
        "CREATE TABLE kept (id bigint PRIMARY KEY, text varchar(9) UNIQUE)",
        "INSERT INTO kept VALUES (0, 'taken')",
        "CREATE VIEW notes AS SELECT * FROM kept",
    )
    sink = Sink(mariadb_target, UPSERT, reported=(reported := Reported()))
    sink.put_notes((1, "taken"), (2, "two"))
    sink.commit()
    assert reported.errors.keys() == {0}
    assert sink.notes() == [(0, "taken"), (2, "two")]
    sink.end()


@pytest.mark.parametrize("code", ["int NOT NULL DEFAULT 5 UNIQUE", "varchar(9) AS (left(text, 1)) PERSISTENT UNIQUE"])
@pytest.mark.parametrize("selected", ["id, text", "*"])
def test_a_row_that_is_equal_in_a_column_that_records_or_a_view_leave_out_is_not_changed(
    mariadb_target: TargetDatabase, code: str, selected: str
) -> None:
    mariadb_target.run(
        f"CREATE TABLE kept (id bigint PRIMARY KEY, text varchar(9), code {code}, other int UNIQUE)",
        f"CREATE VIEW below AS SELECT {selected} FROM kept",
        "CREATE VIEW notes AS SELECT id, text FROM below",
    )
    sink = Sink(mariadb_target, UPSERT, reported=(reported := Reported()))
    sink.put_notes((1, "same"))
    sink.commit()
    sink.put_notes((2, "same"), (1, "same"))
    sink.commit()
    assert reported.errors.keys() == {1}
    assert sink.notes() == [(1, "same")]
    sink.end()


@pytest.mark.parametrize("product", ["postgresql", "mariadb", "sqlite"])
@pytest.mark.parametrize("select", ["id, max(text) AS text FROM kept GROUP BY id", "other AS id, text FROM kept"])
def test_an_upsert_into_another_view_is_refused_with_what_to_do(request: pytest.FixtureRequest, product: str, select: str) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{product}_target")
    target.run("CREATE TABLE kept (id bigint PRIMARY KEY, other bigint, text varchar(9))", f"CREATE VIEW notes AS SELECT {select}")
    sink = Sink(target, UPSERT)
    sink.put_notes((1, "a"))
    with pytest.raises(ConfigException, match=r"Table .*notes has no primary key .*Write to the view's own table\."):
        sink.commit()
    sink.end()


def test_exactly_once_refuses_a_view_of_a_table_without_transactions(mariadb_target: TargetDatabase) -> None:
    mariadb_target.run(
        "CREATE TABLE kept (id bigint PRIMARY KEY, text varchar(9)) ENGINE=MyISAM", "CREATE VIEW notes AS SELECT id, text FROM kept"
    )
    sink = Sink(mariadb_target, UPSERT)
    sink.put_notes((1, "a"))
    with pytest.raises(ConfigException, match="kept is of engine MyISAM"):
        sink.commit()
    sink.end()
