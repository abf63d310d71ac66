"""Pages of the history on real databases: the same everywhere, and read without the texts that are not in them."""

import json
import random
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.model.history import MOST_PAGE_BYTES, page_of
from airflow_provider_connect.runtime.sql_mirror.changes import Kind
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory
from airflow_provider_connect.runtime.sql_mirror.tables import history

ORIGIN = {"at_ms": 0, "topic": "configs", "topic_partition": 0, "topic_offset": 0}
LENGTHS = [(0, 300_000), (300_000, 200_000), (200_000, 17), (17, None), (None, MOST_PAGE_BYTES + 1), (MOST_PAGE_BYTES + 1, 5), (5, 6)] * 3


def _text(length: int | None) -> str | None:
    """JSON that does not compress; None: nothing."""
    return None if length is None else json.dumps(random.Random(length).randbytes(length // 2 + 1).hex()[:length])


def _fill(database: Engine) -> list[tuple[int, int]]:
    """Number and bytes of each line, the newest first."""
    rows = [{"id": number, "old": _text(old), "new": _text(new)} for number, (old, new) in enumerate(LENGTHS, 1)]
    common = {"connector": "orders", "kind": str(Kind.CONFIG), "subject": "orders", **ORIGIN}
    with database.begin() as connection:
        for row in rows:
            connection.execute(history.insert().values(**common, **row))
    return [(int(str(row["id"])), len("orders") + sum(len(str(row[key] or "")) for key in ("old", "new"))) for row in reversed(rows)]


@pytest.mark.parametrize("limit", [2, 1000])
def test_pages_have_the_lines_that_fit(database: Engine, limit: int) -> None:
    left, recorded = _fill(database), RecordedHistory(database.begin)
    before: int | None = None
    while left:
        numbers, next_before = page_of(left[: limit + 1], limit)
        page = recorded.config_lines("orders", limit=limit, before=before)
        assert ([line.id for line in page.lines], page.next_before) == (list(numbers), next_before)
        left, before = left[len(numbers) :], next_before
    assert before is None


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_postgresql_counts_bytes_without_reading_texts(database: Engine, postgres: PostgresServer) -> None:
    """The texts lie in some thousand blocks of their own."""
    _fill(database)
    sent: list[tuple[str, Any]] = []
    event.listen(database, "before_cursor_execute", lambda _connection, _cursor, statement, values, *_: sent.append((statement, values)))
    RecordedHistory(database.begin).config_lines("orders", limit=1000)
    statement, values = sent[0]
    with database.connect() as connection:
        [plan] = connection.exec_driver_sql(f"explain (analyze, buffers, format json) {statement}", values).scalar_one()
        assert connection.scalar(text("select pg_table_size('connect_history') / 8192")) > 500
    assert plan["Plan"]["Actual Rows"] == len(LENGTHS)
    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 100
