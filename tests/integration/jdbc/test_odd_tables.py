"""A table that cannot be read costs no other table: those that a pattern selects are left out with a note, and those that the config names
are refused by name. An error during the reading of a table fails the task when the other tables are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import refusal_of_topics
from tests.integration.jdbc.sinks import TargetDatabase
from tests.integration.jdbc.sources import Source

BULK: Final = {"mode": "bulk"}
NUMBERS: Final = {"mode": "incrementing", "incrementing.column.name": "id"}
ROUTED: Final = {"transforms": "route", "transforms.route.type": "RegexRouter"}
KEYED: Final = {"transforms": "key", "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey"}


def refusal(settings: dict[str, str]) -> Callable[[str], str]:
    return refusal_of_topics(WorkerSettings.of({"bootstrap.servers": "127.0.0.1:1"}), settings)


def orders(target: TargetDatabase, *more: str) -> None:
    target.run("CREATE TABLE orders (id bigint NOT NULL PRIMARY KEY)", "INSERT INTO orders VALUES (1)", *more)


@pytest.mark.parametrize("mode", [BULK, NUMBERS, NUMBERS | KEYED], ids=["bulk", "incrementing", "another-transformation"])
def test_a_table_whose_name_no_topic_can_have_is_left_out_with_the_remedy(target: TargetDatabase, mode: dict[str, str]) -> None:
    orders(target, 'CREATE TABLE "order items" (id bigint NOT NULL PRIMARY KEY)', 'INSERT INTO "order items" VALUES (2)')
    source = Source(target, mode, refusal_of_topic=refusal(mode))
    assert source.has_new_data() is True
    assert source.run() == [{"id": 1}]
    assert source.missing is not None
    assert source.missing.startswith("1 table is not read, and all others are: ")
    for words in ("order items", "Its topic would be x-order items", "table.exclude", "RegexRouter"):
        assert words in source.missing
    excluded = Source(target, {**mode, "table.exclude": "order items"}, refusal_of_topic=refusal(mode))
    assert (excluded.run(), excluded.missing) == ([{"id": 1}], None)


def test_a_table_whose_topic_a_transformation_may_rename_is_read(sqlite_target: TargetDatabase) -> None:
    orders(sqlite_target, 'CREATE TABLE "order items" (id bigint NOT NULL PRIMARY KEY)', 'INSERT INTO "order items" VALUES (2)')
    source = Source(sqlite_target, NUMBERS, refusal_of_topic=refusal(ROUTED))
    assert (sorted(row["id"] for row in source.run()), source.missing) == ([1, 2], None)


def test_a_table_without_the_columns_of_the_mode_is_left_out_unless_it_is_named(target: TargetDatabase) -> None:
    orders(target, "CREATE TABLE log (text varchar(10))", "INSERT INTO log VALUES ('a')")
    source = Source(target, NUMBERS)
    assert source.run() == [{"id": 1}]
    assert source.missing is not None
    assert "There is no such column in table" in source.missing
    assert (source.has_new_data(), source.missing is None) == (False, False), "the run has read all that can be read"
    with pytest.raises(ConfigException, match=r"There is no such column in table .*log"):
        Source(target, {**NUMBERS, "table.include": "log,orders"}).run()
    with pytest.raises(ConfigException, match=r"There is no such column in table .*log"):
        Source(target, {**NUMBERS, "table.include": "l.*"}).run()


def test_tables_of_two_schemas_with_one_topic_cost_no_other(postgresql_target: TargetDatabase) -> None:
    schema = postgresql_target.schema
    other = f"{schema}_other"
    orders(
        postgresql_target,
        "CREATE TABLE notes (id bigint NOT NULL PRIMARY KEY)",
        f"CREATE SCHEMA {other}",
        f"CREATE TABLE {other}.notes (id bigint NOT NULL PRIMARY KEY)",
    )
    source = Source(postgresql_target, {**NUMBERS, "schema.pattern": f"{schema}%"})
    assert source.run() == [{"id": 1}]
    assert source.missing is not None
    assert source.missing.startswith("2 tables are not read, and all others are: ")
    assert "one topic, x-notes" in source.missing


def test_a_value_that_cannot_be_read_costs_no_other_table(mariadb_target: TargetDatabase) -> None:
    """A byte that is no letter of the driver's latin1."""
    bad = ("CREATE TABLE {0} (id bigint PRIMARY KEY, word varchar(9) CHARACTER SET latin1)", "INSERT INTO {0} VALUES (1, _latin1 x'81')")
    orders(mariadb_target, *(statement.format("bad") for statement in bad))
    source = Source(TargetDatabase(f"{mariadb_target.url}?charset=latin1", "mariadb"), NUMBERS)
    rows: list[dict[str, object]] = []
    with pytest.raises(ConnectException, match=r"Reading table \S*bad: .* cannot decode") as raised:
        source.run(rows)
    assert not raised.value.retriable
    assert rows == [{"id": 1}]
    mariadb_target.run(*(statement.format("worse") for statement in bad), "INSERT INTO orders VALUES (2)")
    rows.clear()
    with pytest.raises(ConnectException, match=r"2 tables could not be read, all others were:\n.*table \S*bad.*\n.*table \S*worse"):
        source.run(rows)
    assert rows == [{"id": 2}]


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"table.include": "orders,shop.order items"}, "table.include"),
        ({"table.include": '"order items"', **KEYED}, "table.include"),
        ({"table.include": "o" * 260}, "table.include"),
        ({"topic.prefix": "shop: "}, "topic.prefix"),
        ({"table.include": "order items", **ROUTED}, None),
        ({"table.include": "order.*"}, None),
        ({"query": "SELECT 1 AS id", "topic.prefix": "x"}, None),
    ],
)
def test_names_in_a_config_that_no_topic_can_have_are_refused_by_their_setting(
    sqlite_target: TargetDatabase, config: dict[str, str], key: str | None
) -> None:
    errors = Source(sqlite_target, {**NUMBERS, **config}, refusal_of_topic=refusal(config)).validate()
    assert set(errors) == ({key} if key else set())
    for text in errors.values():
        assert "Topic name is invalid" in text
        assert "RegexRouter" in text
