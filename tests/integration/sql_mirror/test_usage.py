"""What runs have used, summed by real databases: the same everywhere, and without reading rows of other days."""

from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from airflow_provider_connect.runtime.model.cost import DAY_MS, DayUsage, RunUsage, Span, Usage
from airflow_provider_connect.runtime.sql_mirror import recorded_history
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory
from airflow_provider_connect.runtime.sql_mirror.tables import batch

DAY = 20_000
SPAN = Span(DAY - 1, DAY)
START, END = (DAY - 1) * DAY_MS, (DAY + 1) * DAY_MS
GIGABYTES = 3 * 10**12


def row(connector: str, run: str, at: int, *, task: int = 0, claim: str = "id:1", **used: float) -> dict[str, object]:
    numbers = {"records": 10, "bytes": GIGABYTES, "seconds": 1.5, "cpu_seconds": 0.25, **used}
    common = {"connector": connector, "run": run, "task": task, "claim": claim, "type": "sink", "ranges": "{}"}
    return {**common, **numbers, "first_ms": at, "last_ms": at}


def fill(database: Engine, rows: list[dict[str, object]]) -> RecordedHistory:
    with database.begin() as connection:
        connection.execute(batch.insert(), rows)
    return RecordedHistory(database.begin)


@pytest.fixture
def recorded(database: Engine) -> RecordedHistory:
    return fill(
        database,
        [
            row("orders", "before", START - 1, claim="id:0"),
            row("orders", "one", START),
            row("orders", "one", START + DAY_MS - 1, claim="id:2"),
            row("orders", "one", START + DAY_MS, task=1, claim="id:2"),
            row("orders", "two", END - 1, claim="id:3", records=0),
            row("orders", "after", END, claim="id:4"),
            row("orders", "altered", START + 5, claim="id:5", records=0),
            row("Orders", "one", START),
            row("gone", "before", START - 1),
        ],
    )


def test_usage_by_connector_and_day(recorded: RecordedHistory) -> None:
    assert recorded.connectors_used(SPAN) == ["Orders", "orders"]
    found = recorded.usage_by_day(["Orders", "orders", "gone", "none"], SPAN, most=10)
    assert sorted(found, key=lambda each: (each.connector, each.day)) == [
        DayUsage("Orders", DAY - 1, Usage(1, 10, GIGABYTES, 1.5, 0.25)),
        DayUsage("orders", DAY - 1, Usage(1, 20, 2 * GIGABYTES, 3.0, 0.5)),
        DayUsage("orders", DAY, Usage(2, 10, 2 * GIGABYTES, 3.0, 0.5)),
    ]
    assert {type(number) for each in found for number in (each.day, each.used.records, each.used.bytes)} == {int}, "and no decimals"
    assert recorded.usage_by_day([], SPAN, most=10) == []


def test_usage_by_run(recorded: RecordedHistory) -> None:
    two, one = recorded.usage_by_run("orders", SPAN, most=10)
    assert two == RunUsage("two", END - 1, Usage(1, 0, GIGABYTES, 1.5, 0.25))
    assert one == RunUsage("one", START + DAY_MS, Usage(1, 30, 3 * GIGABYTES, 4.5, 0.75))
    assert recorded.usage_by_run("orders", SPAN, most=1) == [two]


def test_rows_are_bounded_over_all_queries(database: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_history, "CONNECTORS_AT_ONCE", 2)
    names = [f"c{number}" for number in range(5)]
    recorded = fill(database, [row(name, "one", START) for name in names])
    assert [len(recorded.usage_by_day(names, SPAN, most=most)) for most in (1, 2, 3, 5, 9)] == [1, 2, 3, 5, 5]


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_the_index_of_connector_and_time_is_used(database: Engine) -> None:
    rows = [row(f"c{number % 20}", f"r{number}", number * DAY_MS // 10, claim=f"id:{number}") for number in range(20_000)]
    recorded, span = fill(database, rows), Span(1999, 2005)
    sent: list[tuple[str, Any]] = []
    with database.connect() as connection:
        if database.dialect.name == "postgresql":
            connection.execute(text("analyze connect_batch"))
            connection.commit()
    event.listen(database, "before_cursor_execute", lambda _connection, _cursor, statement, values, *_: sent.append((statement, values)))
    recorded.usage_by_day(["c1", "c2"], span, most=10)
    recorded.usage_by_run("c1", span, most=10)
    explain = "explain query plan" if database.dialect.name == "sqlite" else "explain"
    with database.connect() as connection:
        plans = [str(list(connection.exec_driver_sql(f"{explain} {statement}", values))) for statement, values in sent[:2]]
    assert ["connect_batch_run" in plan for plan in plans] == [True, True], plans
