"""Columns that change between a reader's check of a table and its statement, in databases that are read row by row or keep one file."""

from typing import Any

import pytest

from airflow_provider_connect.errors import ConnectException
from tests.integration.jdbc.changes_under_readers import BEFORE, BETWEEN, change_once
from tests.integration.jdbc.sinks import TargetDatabase
from tests.integration.jdbc.sources import Source
from tests.integration.worker.test_jdbc_source import polled, started

CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "added": ("ALTER TABLE orders ADD extra int DEFAULT 7", {"id": 1, "n": 5, "extra": 7}),
    "dropped": ("ALTER TABLE orders DROP COLUMN n", {"id": 1}),
    "renamed": ("ALTER TABLE orders RENAME COLUMN n TO m", {"id": 1, "m": 5}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("instant", [BEFORE, BETWEEN])
@pytest.mark.parametrize("dialect", ["mariadb", "sqlite"])
def test_a_table_that_changes_under_a_reader(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, dialect: str, instant: str, change: str
) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    statement, row = CHANGES[change]
    target.run("CREATE TABLE orders (id integer PRIMARY KEY, n int)", "INSERT INTO orders VALUES (1, 5)")
    change_once(monkeypatch, instant, lambda: target.run(statement))
    own = {"connection.url": target.url, "mode": "incrementing", "incrementing.column.name": "id", "topic.prefix": "shop-"}
    found = [each for page in polled(started(own)) if page.value is not None for each in page.value.to_pylist()]
    is_late = instant == BETWEEN and change == "added"  # which the next run sees
    assert found == [{key: value for key, value in row.items() if not is_late or key != "extra"}]


@pytest.mark.parametrize("declared", ["numeric", "numeric(20)", "numeric(38, 0)"])
def test_numbers_of_type_numeric_grow_as_any(postgresql_target: TargetDatabase, declared: str) -> None:
    """Their driver has a type of its own for them, which Arrow cannot compare."""
    postgresql_target.run(f"CREATE TABLE orders (id {declared} PRIMARY KEY)", "INSERT INTO orders VALUES (1.0), (2.00), (3)")
    for more in ({}, {"query": f"SELECT * FROM {postgresql_target.schema}.orders"}):
        source = Source(postgresql_target, {"mode": "incrementing", "incrementing.column.name": "id", "batch.max.rows": "2", **more})
        assert [int(row["id"]) for row in source.run()] == [1, 2, 3]
        assert [offset["incrementing"] for offset in source.offsets.values()] == [3]
        assert source.has_new_data() is False


def test_a_number_that_is_not_whole_is_named(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE orders (id numeric PRIMARY KEY)", "INSERT INTO orders VALUES (1), (2.5)")
    with pytest.raises(ConnectException, match=r"value 2\.5 of the incrementing column is not a whole number"):
        Source(postgresql_target, {"mode": "incrementing", "incrementing.column.name": "id"}).run()
