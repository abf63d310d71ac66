"""Polls of a source of SQLite's, without a broker."""

import sqlite3
from pathlib import Path

import pytest

from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.testing import MemoryConnectorContext, MemorySourceContext
from tests.columns import there
from tests.unit.connectors.jdbc.test_late_rows import BOTH, TIMES, Table


@pytest.mark.parametrize("mode", ["bulk", "incrementing"])
def test_a_value_that_no_record_can_hold_ends_the_task_whatever_is_tolerated(tmp_path: Path, mode: str) -> None:
    """A DataException would mean the task has gone on behind it: with errors.tolerance=all it would be polled again, read the same page
    again, and a bulk read would begin anew and send the first rows again, without end."""
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, price DECIMAL(6, 2))")
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(number, "NaN" if number == 15 else "1.50") for number in range(1, 31)])
    config = {"name": "shop", "connection.url": f"jdbc:sqlite:{file}", "mode": mode, "topic.prefix": "x-", "batch.max.rows": "5"}
    config |= {"incrementing.column.name": "id"} if mode == "incrementing" else {}
    connector = JdbcSourceConnector()
    connector.allowed_paths = AllowedPaths(("/",))
    connector.initialize(MemoryConnectorContext())
    connector.start(connector.config_def.parse(config))
    [of_task] = connector.task_configs(1)
    task = connector.task_class()
    task.allowed_paths = connector.allowed_paths
    task.initialize(MemorySourceContext(of_task))
    task.start(connector.task_config(of_task))
    rows: list[int] = []

    def read_all() -> None:
        while (polled := task.poll()) is not None:
            rows.extend(
                row["id"] for piece in ([polled] if isinstance(polled, Batch) else polled) for row in there(piece.value).to_pylist()
            )

    with pytest.raises(ConnectException, match=r"Column price of table .*: the value NaN does not fit a Dec.* columns\.as\.text") as raised:
        read_all()
    task.stop()
    assert rows == list(range(1, 11))
    assert not isinstance(raised.value, DataException)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"mode": "incrementing", "rows.from": "5", "rows.to": "9"}, [5, 6, 7, 8]),
        ({"mode": "incrementing", "rows.from": "28"}, [28, 29, 30]),
        ({"mode": "incrementing", "rows.to": "3"}, [1, 2]),
        ({"mode": "incrementing", "rows.from": "31"}, []),
        ({"mode": "timestamp", "rows.from": "2026-01-05T00:00:00Z", "rows.to": "2026-01-07T00:00:00Z"}, [5, 6]),
        ({"mode": "timestamp+incrementing", "rows.from": "2026-01-29T01:00:00+01:00"}, [29, 30]),
        ({"mode": "incrementing", "rows.from": "5", "rows.to": "7", "query": "SELECT * FROM orders WHERE id <> 5"}, [6]),
    ],
)
def test_only_rows_of_the_range_are_read(tmp_path: Path, more: dict[str, str], expected: list[int]) -> None:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, at TIMESTAMP NOT NULL)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(day, f"2026-01-{day:02d} 00:00:00") for day in range(1, 31)])
    config = {"name": "shop", "connection.url": f"jdbc:sqlite:{file}", "topic.prefix": "x-", "batch.max.rows": "2", **more}
    config |= {"incrementing.column.name": "id", "timestamp.column.name": "at"}
    connector = JdbcSourceConnector()
    connector.allowed_paths = AllowedPaths(("/",))
    connector.initialize(MemoryConnectorContext())
    connector.start(connector.config_def.parse(config))
    assert connector.has_new_data(connector.config_def.parse(config), lambda _: None) is bool(expected)
    [of_task] = connector.task_configs(1)
    task = connector.task_class()
    task.allowed_paths = connector.allowed_paths
    task.initialize(MemorySourceContext(of_task))
    task.start(connector.task_config(of_task))
    rows: list[int] = []
    while (polled := task.poll()) is not None:
        for piece in [polled] if isinstance(polled, Batch) else polled:
            rows += [row["id"] for row in there(piece.value).to_pylist()]
    task.stop()
    assert rows == expected


@pytest.mark.parametrize("config", [TIMES, BOTH, {**TIMES, "query": "SELECT * FROM orders"}], ids=["time", "both", "query"])
def test_a_first_run_from_now_notes_its_time_though_there_is_no_row(tmp_path: Path, config: dict[str, str]) -> None:
    """Otherwise the run that finds the first row would begin at its own time, after that row."""
    table = Table(tmp_path / "shop.db", {**config, "timestamp.overlap.ms": "0", "timestamp.initial": "-1"})
    assert table.has_new_data() is True
    assert table.run() == []
    [offset] = table.offsets.values()
    assert offset["timestamp"] > 0
    assert table.has_new_data() is False
    if "query" not in config:
        table.do("CREATE TABLE payments (id INTEGER PRIMARY KEY NOT NULL, at TIMESTAMP NOT NULL)")
        assert table.has_new_data() is True
