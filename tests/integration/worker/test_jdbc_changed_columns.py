"""Columns of a source's table that change while a run reads it, on a real PostgreSQL."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.batch import Batch
from tests.integration.jdbc.changes_under_readers import BEFORE, BETWEEN, change_once
from tests.integration.worker.test_jdbc_source import ALL_MODES, Shop, polled, shop, started
from tests.waiting import HANG_SECONDS, wait_until

__all__ = ["shop"]
MODES = ("bulk", *ALL_MODES)


def rows_of(pages: list[Batch]) -> list[dict[str, Any]]:
    return [row for page in pages if page.value is not None for row in page.value.to_pylist()]


@pytest.mark.parametrize("mode", MODES)
def test_columns_that_come_with_a_transaction_that_is_waited_for(shop: Shop, mode: str) -> None:
    """The run has read the table, then waits for who changes and fills it: the new rows are whole, the gone column is not missed."""
    shop.make_orders()
    shop.do("INSERT INTO orders (word) VALUES ('first')")
    task = started(shop.config(mode=mode))
    late, found, polled_once = shop.connect(), list[Batch](), threading.Event()
    late.cursor().execute("ALTER TABLE orders ADD extra int NOT NULL DEFAULT 7, DROP word; INSERT INTO orders (extra) VALUES (5)")

    def read() -> None:
        while (page := task.poll()) is not None:
            polled_once.set()  # where it does not wait within its first statement
            found.extend([page] if isinstance(page, Batch) else [])

    reading = threading.Thread(target=read)
    reading.start()
    blocked = (
        "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE NOT l.granted AND n.nspname = '{shop.name}'"
    )
    wait_until(lambda: polled_once.is_set() or shop.do(blocked) != [(0,)])
    late.commit()
    late.close()
    reading.join(HANG_SECONDS)
    assert not reading.is_alive()
    task.stop()
    rows = rows_of(found)
    assert [(row["id"], row["extra"]) for row in rows] == [(1, 7), (2, 5)]
    assert all("word" not in row for row in rows)


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "added": ("ALTER TABLE orders ADD extra int DEFAULT 7", {"id": 1, "n": 5, "extra": 7}),
    "dropped": ("ALTER TABLE orders DROP n", {"id": 1}),
    "renamed": ("ALTER TABLE orders RENAME n TO m", {"id": 1, "m": 5}),
    "widened": ("ALTER TABLE orders ALTER n TYPE bigint; UPDATE orders SET n = 1099511627776", {"id": 1, "n": 2**40}),
    "made a text": ("ALTER TABLE orders ALTER n TYPE text; UPDATE orders SET n = 'five'", {"id": 1, "n": "five"}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("instant", [BEFORE, BETWEEN])
def test_a_table_that_changes_under_a_reader(shop: Shop, monkeypatch: pytest.MonkeyPatch, instant: str, change: str) -> None:
    statement, row = CHANGES[change]
    shop.do("CREATE TABLE orders (id int PRIMARY KEY, n int); INSERT INTO orders VALUES (1, 5)")
    change_once(monkeypatch, instant, lambda: shop.do(statement))
    found = rows_of(polled(started(shop.config(mode="incrementing"))))
    late_column = instant == BETWEEN and change == "added"  # which the next run sees
    assert found == [{key: value for key, value in row.items() if not late_column or key != "extra"}]


@pytest.mark.parametrize("query", ["", "SELECT * FROM {}.orders"])
def test_columns_that_change_while_the_connection_is_lost(shop: Shop, query: str) -> None:
    shop.do("CREATE TABLE orders (id int PRIMARY KEY, word text, n int)")
    shop.do("INSERT INTO orders SELECT n, repeat('x', 500), n FROM generate_series(1, 60000) n")
    config = shop.config(mode="incrementing", connection_backoff_ms="10", query=query.format(shop.name))
    config["connection.url"] += "?application_name=changed"
    kill = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'changed'"

    def between(page: int) -> None:
        if page == 1:
            shop.do(kill)
            shop.do("ALTER TABLE orders DROP word, ADD extra int DEFAULT 7, ALTER n TYPE bigint")

    rows = rows_of(polled(started(config), between))
    assert sorted(row["id"] for row in rows) == list(range(1, 60001))
    assert rows[-1] == {"id": 60000, "n": 60000, "extra": 7}


def test_a_key_column_that_goes_while_a_run_waits_is_named(shop: Shop) -> None:
    shop.make_orders()
    late = shop.connect()
    late.cursor().execute("INSERT INTO orders (word) VALUES ('late')")
    task = started(shop.config(mode="timestamp"))
    assert task.poll() == ()
    late.commit()
    late.close()
    shop.do("ALTER TABLE orders RENAME at TO moment")
    with pytest.raises(
        ConfigException, match=r"timestamp\.column\.name: There is no such column in table .*Its columns are: id, word, moment"
    ):
        polled(task)
