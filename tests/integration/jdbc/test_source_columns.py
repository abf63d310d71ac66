"""Columns that change between a reader's check of a table and its statement, in databases that are read row by row or keep one file."""

from typing import Any

import pytest

from tests.integration.jdbc.changes_under_readers import BEFORE, BETWEEN, change_once
from tests.integration.jdbc.sinks import TargetDatabase
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
