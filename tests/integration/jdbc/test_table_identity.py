"""Tables whose numbers begin again below a source's offset and pass it: they are named, and no row is skipped silently."""

from __future__ import annotations

import uuid
from typing import Any, Final

import pytest

from airflow_provider_connect.connectors.jdbc.source import shares
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from tests.integration.jdbc.changes_under_readers import BEFORE, change_once
from tests.integration.jdbc.sinks import TargetDatabase
from tests.integration.jdbc.sources import Source
from tests.reaching import reaching

NUMBERS: Final = {"mode": "incrementing", "incrementing.column.name": "id"}
CREATED: Final = {
    "serial": "CREATE TABLE orders (id bigserial PRIMARY KEY, n int)",
    "identity": "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int)",
    "partitioned": "CREATE TABLE orders (id bigserial PRIMARY KEY, n int) PARTITION BY RANGE (id);"
    "CREATE TABLE orders_all PARTITION OF orders DEFAULT",
}
RESTART: Final = "TRUNCATE orders RESTART IDENTITY"
ADVICE: Final = (
    "orders was created again or restored, or its sequence was restarted or altered, since it was read up to 30: it is not read. To read "
    "it from its beginning, reset its offset; to go on, set the offset again, without table_id"
)


def insert(target: TargetDatabase, count: int, table: str = "orders") -> None:
    target.run(f"INSERT INTO {table} (n) SELECT n FROM generate_series(1, {count}) n")


def read(target: TargetDatabase, created: str = CREATED["serial"], **settings: str) -> Source:
    """A source that has read 30 rows of the table."""
    target.run(*created.split(";"))
    insert(target, 30)
    source = Source(target, NUMBERS | settings)
    assert len(source.run()) == 30
    assert source.has_new_data() is False
    assert source.missing is None
    return source


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def partition(target: TargetDatabase) -> dict[str, str]:
    return {"protocol": "1", "table": f"postgres.{target.schema}.orders"}


def set_offset(source: Source, offset: dict[str, object]) -> None:
    assert reaching(JdbcSourceConnector()).alter_offsets(NUMBERS, [(partition(source.target), offset)])
    source.offsets[str(partition(source.target))] = offset


def again(created: str) -> str:
    return f"DROP TABLE orders;{created}"


@pytest.mark.parametrize(
    ("created", "replaced"),
    [
        *((created, RESTART) for created in CREATED.values()),
        *((created, again(created)) for created in CREATED.values()),
        (CREATED["serial"], "DELETE FROM orders;ALTER SEQUENCE orders_id_seq RESTART"),
    ],
)
def test_a_table_that_was_filled_again_beyond_its_offset_is_named_and_not_read(
    postgresql_target: TargetDatabase, created: str, replaced: str
) -> None:
    source = read(postgresql_target, created)
    postgresql_target.run(*replaced.split(";"))
    insert(postgresql_target, 40)
    assert source.has_new_data() is False
    assert ADVICE in str(source.missing)
    postgresql_target.run("CREATE TABLE others (id bigserial PRIMARY KEY, n int)")
    insert(postgresql_target, 3, "others")
    assert source.has_new_data() is True
    assert ADVICE in str(source.missing)
    assert ids(source.run()) == [1, 2, 3], "the other table is read"
    assert ADVICE in str(source.missing)


def test_after_a_restart_an_offset_that_is_set_or_reset_goes_on(postgresql_target: TargetDatabase) -> None:
    source = read(postgresql_target)
    postgresql_target.run(RESTART)
    insert(postgresql_target, 40)
    set_offset(source, dict(source.offsets[str(partition(postgresql_target))]))
    assert source.run() == [], "the whole old offset is the old table's"
    set_offset(source, {"incrementing": 35})
    assert source.has_new_data() is True
    assert ids(source.run()) == [36, 37, 38, 39, 40]
    postgresql_target.run(RESTART)
    insert(postgresql_target, 50)
    assert source.run() == []
    source.offsets.clear()
    assert source.has_new_data() is True
    assert ids(source.run()) == list(range(1, 51))
    assert source.has_new_data() is False
    assert source.missing is None


@pytest.mark.parametrize(
    "change",
    [
        "VACUUM FULL orders",
        "CLUSTER orders USING orders_pkey",
        "ALTER TABLE orders ADD COLUMN word text DEFAULT 'x'",
        "ALTER TABLE orders ALTER COLUMN n TYPE bigint",
        "TRUNCATE orders",
        "ALTER TABLE orders RENAME TO away;CREATE VIEW orders AS SELECT * FROM away;DROP VIEW orders;ALTER TABLE away RENAME TO orders",
        "SELECT setval('orders_id_seq', 50);SELECT setval('orders_id_seq', 30)",
        "ALTER TABLE orders ALTER COLUMN id TYPE numeric",
        "ALTER SEQUENCE orders_id_seq RENAME TO other",
    ],
)
def test_other_changes_of_a_table_do_not_stop_reading(postgresql_target: TargetDatabase, change: str) -> None:
    source = read(postgresql_target)
    postgresql_target.run(*change.split(";"))
    insert(postgresql_target, 2)
    assert source.has_new_data() is True
    assert ids(source.run()) == [31, 32]


@pytest.mark.parametrize(
    ("created", "change"),
    [
        (CREATED["serial"], "ALTER SEQUENCE orders_id_seq CACHE 5"),
        (CREATED["identity"], "ALTER TABLE orders ALTER COLUMN id TYPE bigint"),
    ],
)
def test_a_sequence_that_was_altered_is_taken_for_a_restarted_one(postgresql_target: TargetDatabase, created: str, change: str) -> None:
    """Its last number, which would show the difference, cannot be read with the right to read the table."""
    source = read(postgresql_target, created)
    postgresql_target.run(change)
    insert(postgresql_target, 2)
    assert source.has_new_data() is False
    assert ADVICE in str(source.missing)
    set_offset(source, {"incrementing": 30})
    assert ids(source.run()) == [31, 32]
    assert source.missing is None


def test_a_sequence_that_a_column_gets_later_is_adopted(postgresql_target: TargetDatabase) -> None:
    source = read(postgresql_target, "CREATE SEQUENCE s;CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT nextval('s'), n int)")
    postgresql_target.run("ALTER SEQUENCE s OWNED BY orders.id")
    insert(postgresql_target, 2)
    assert ids(source.run()) == [31, 32]
    postgresql_target.run(RESTART)
    insert(postgresql_target, 40)
    assert source.run() == []


def test_an_offset_without_identity_adopts_it_with_the_next_rows(postgresql_target: TargetDatabase) -> None:
    source = read(postgresql_target)
    set_offset(source, {"incrementing": 30})
    postgresql_target.run(again(CREATED["serial"]))
    insert(postgresql_target, 31)
    assert ids(source.run()) == [31]
    postgresql_target.run(RESTART)
    insert(postgresql_target, 40)
    assert source.run() == []


def test_a_table_that_is_emptied_while_a_run_waits_is_left(
    postgresql_target: TargetDatabase, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    source = read(postgresql_target)
    insert(postgresql_target, 1)

    def refill() -> None:
        postgresql_target.run(RESTART)
        insert(postgresql_target, 40)

    change_once(monkeypatch, BEFORE, refill)
    assert source.run() == []
    assert ADVICE in caplog.text


def test_a_table_in_ranges_is_named_too(postgresql_target: TargetDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "SIZE", 10)
    postgresql_target.run(CREATED["serial"])
    insert(postgresql_target, 30)
    source = Source(postgresql_target, NUMBERS)
    assert sorted(ids(source.run(max_tasks=4))) == list(range(1, 31))
    assert len(source.offsets) == 3, "ranges"
    postgresql_target.run(RESTART)
    insert(postgresql_target, 40)
    assert source.has_new_data() is False
    assert ADVICE in str(source.missing)
    assert source.run() == []
    set_offset(source, {"incrementing": 35})
    assert ids(source.run()) == [36, 37, 38, 39, 40]


def test_a_table_in_ranges_that_is_not_emptied_is_folded(postgresql_target: TargetDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "SIZE", 10)
    postgresql_target.run(CREATED["serial"])
    insert(postgresql_target, 30)
    source = Source(postgresql_target, NUMBERS)
    source.run(max_tasks=4)
    insert(postgresql_target, 2)
    assert ids(source.run()) == [31, 32]
    postgresql_target.run(RESTART)
    insert(postgresql_target, 40)
    assert source.run() == []


def test_late_rows_of_another_table_start_no_run(postgresql_target: TargetDatabase) -> None:
    source = read(postgresql_target, **{"incrementing.overlap": "5"})
    postgresql_target.run(RESTART)
    insert(postgresql_target, 28)
    assert source.has_new_data() is False
    assert ADVICE in str(source.missing)
    assert source.run() == []


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_rows_with_later_times_are_read_from_any_table(postgresql_target: TargetDatabase, mode: str) -> None:
    created = "CREATE TABLE orders (id bigserial PRIMARY KEY, n int, at timestamptz NOT NULL DEFAULT clock_timestamp())"
    source = read(postgresql_target, created, mode=mode, **{"timestamp.column.name": "at"})
    for replaced in (RESTART, again(created)):
        postgresql_target.run(*replaced.split(";"))
        insert(postgresql_target, 40)
        assert source.has_new_data() is True
        assert ids(source.run()) == list(range(1, 41))


def test_the_right_to_read_the_table_is_enough(postgresql_target: TargetDatabase) -> None:
    user = f"reader_{uuid.uuid4().hex[:12]}"
    schema = postgresql_target.schema
    postgresql_target.run(
        CREATED["serial"], f"CREATE ROLE {user} LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO {user}", f"GRANT SELECT ON orders TO {user}"
    )
    insert(postgresql_target, 30)
    try:
        source = Source(TargetDatabase(postgresql_target.url.replace("connect@", f"{user}@"), "postgresql"), NUMBERS)
        assert len(source.run()) == 30
        postgresql_target.run(RESTART)
        insert(postgresql_target, 40)
        assert source.has_new_data() is False
        assert ADVICE in str(source.missing)
    finally:
        postgresql_target.run(f"DROP OWNED BY {user}", f"DROP ROLE {user}")
