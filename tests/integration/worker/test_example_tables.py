"""The example DAGs of tables, as they are without any setting: a SQLite file, made by the command that the page shows, into another one."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.runtime.model.run import RunState
from tests.example_dags import configs_of, page_of
from tests.integration.worker.environment import RunEnvironment


def test_rows_new_rows_and_a_new_column_come_by_the_examples(
    environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("CONNECT_EXAMPLE_JDBC_URL", "CONNECT_EXAMPLE_JDBC_SINK_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(tmp_path))
    configs = configs_of(monkeypatch, "example_jdbc_source.py", "example_jdbc_sink.py")
    [create] = re.findall(r'sqlite3 /tmp/connect-demo/shop.db "(.*)"', page_of("example_jdbc_source.py"))

    def do(file: str, sql: str) -> list[Any]:
        with closing(sqlite3.connect(tmp_path / file)) as connection:
            rows = connection.execute(sql).fetchall()
            connection.commit()
        return rows

    def run(name: str) -> None:
        result = dataclasses.replace(environment, connector=name).run(configs[name])
        assert (result.state, result.error) == (RunState.DONE, None)

    do("shop.db", create)
    do("warehouse.db", "CREATE TABLE other (id INTEGER)")  # a database that is not there is not made
    changes = (
        "INSERT INTO orders (what, changed_at) VALUES ('tea', '2024-01-01 12:00:00'), ('cups', '2024-01-01 12:00:00.5')",
        "UPDATE orders SET what = 'green tea', changed_at = '2024-01-02 12:00:00' WHERE id = 1",
        "ALTER TABLE orders ADD amount INTEGER NOT NULL DEFAULT 1",
        "INSERT INTO orders (what, changed_at, amount) VALUES ('pots', '2024-01-03 12:00:00', 3)",
    )
    for change in changes:
        do("shop.db", change)
        if not change.startswith("ALTER"):
            run("example-jdbc-source")
            run("example-jdbc-sink")
    columns = "id, what, amount, julianday(changed_at)"
    rows = do("shop.db", f"SELECT {columns} FROM orders ORDER BY id")
    assert do("warehouse.db", f"SELECT {columns} FROM orders ORDER BY id") == rows
    assert [row[1] for row in rows] == ["green tea", "cups", "pots"]
