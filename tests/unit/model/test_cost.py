"""Money by a table of prices, and the days of an answer."""

import json

import pytest

from airflow_provider_connect.runtime.model.cost import (
    DAY_MS,
    ConnectorCosts,
    Cost,
    Costs,
    DayUsage,
    Prices,
    RunUsage,
    Span,
    Usage,
    connector_costs,
    costs,
)
from airflow_provider_connect.runtime.model.view_json import of_json, to_json

USED = Usage(runs=2, records=30, bytes=5 * 10**8, seconds=7200.0, cpu_seconds=1800.0)
DAY = 20_000  # 2024-10-04
SPAN = Span(DAY - 1, DAY)
FOUND = [
    DayUsage("b", DAY, Usage(1, 10, 100, 0.1, 0.1)),
    DayUsage("a", DAY, Usage(1, 10, 100, 0.2, 0.2)),
    DayUsage("a", DAY - 1, Usage(2, 1, 1, 36.0, 3.6)),
]


@pytest.mark.parametrize(
    ("prices", "money"),
    [
        (Prices(), None),
        (Prices(currency="EUR"), None),
        (Prices(cpu_hour=0.04), 0.02),
        (Prices(task_hour=0.01), 0.02),
        (Prices(gigabyte=0.1), 0.05),
        (Prices(0.04, 0.01, 0.1), 0.09),
        (Prices(cpu_hour=1 / 3), 0.166667),
        (Prices(cpu_hour=1e-9), 0.0),
    ],
)
def test_money_is_the_sum_of_what_the_prices_name(prices: Prices, money: float | None) -> None:
    assert prices.cost(USED) == Cost(2, 30, 5 * 10**8, 7200.0, 1800.0, money)


def test_a_span_ends_with_the_day_of_now() -> None:
    now = DAY * DAY_MS + 5
    assert Span.until(now, 1) == Span(DAY, DAY)
    span = Span.until(now, 7)
    assert (span.first, span.last, span.first_ms, span.end_ms) == (DAY - 6, DAY, (DAY - 6) * DAY_MS, (DAY + 1) * DAY_MS)


def test_days_come_newest_first_and_the_total_is_theirs() -> None:
    found = costs(FOUND, SPAN, Prices(cpu_hour=1.0, currency="EUR"))
    assert (found.first_day, found.last_day) == ("2024-10-03", "2024-10-04")
    assert [(each.day, each.connector, each.cost.cpu_seconds) for each in found.days] == [
        ("2024-10-04", "a", 0.2),
        ("2024-10-04", "b", 0.1),
        ("2024-10-03", "a", 3.6),
    ]
    assert found.total == Cost(4, 21, 201, 36.3, 3.9, 0.001083), "of what was used, and no sum of what was rounded"


def test_runs_that_are_too_many_are_left_out_and_are_in_the_total() -> None:
    runs = [RunUsage(f"run-{number}", DAY * DAY_MS - number, Usage(1, 1, 1, 1.0, 1.0)) for number in range(3)]
    some = connector_costs(FOUND, runs, SPAN, Prices(), most_runs=2)
    assert ([run.run for run in some.runs], some.is_whole, some.total.runs) == (["run-0", "run-1"], False, 4)
    assert connector_costs(FOUND, runs, SPAN, Prices(), most_runs=3).is_whole


def test_answers_travel_as_json() -> None:
    found, prices = costs(FOUND, SPAN, Prices()), Prices(0.04, currency="€")
    assert of_json(Costs, json.loads(json.dumps(to_json(found)))) == found
    one = connector_costs(FOUND, [RunUsage("one", 1, USED)], SPAN, prices, most_runs=1)
    assert of_json(ConnectorCosts, json.loads(json.dumps(to_json(one)))) == one
    assert to_json(one)["runs"][0] == {
        "run": "one",
        "last_ms": 1,
        "cost": {"runs": 2, "records": 30, "bytes": 5 * 10**8, "seconds": 7200.0, "cpu_seconds": 1800.0, "money": 0.02},
    }
