"""``airflow connect cost``: what is printed of days, runs and totals, with prices and without."""

import json
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli import costs as cost_commands
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.model.cost import (
    ConnectorCosts,
    Costs,
    DayUsage,
    Prices,
    RunUsage,
    Span,
    Usage,
    connector_costs,
    costs,
)

DAY = 20_000  # 2024-10-04
FOUND = [DayUsage("orders", DAY, Usage(2, 20, 10**9, 36.0, 3.6)), DayUsage("lines", DAY - 1, Usage(1, 5, 0, 1.0, 0.5))]
RUNS = [RunUsage("run-2", 2, Usage(1, 10, 10**9, 18.0, 1.8)), RunUsage("run-1", 1, Usage(1, 10, 0, 18.0, 1.8))]


class Connect:
    """A cluster with two connectors; ``asked`` is for how many days."""

    def __init__(self, prices: Prices | None = None, *, most_runs: int = 9) -> None:
        self.prices, self.most_runs = prices or Prices(0.0, 0.1, 0.5, "EUR"), most_runs
        self.asked: list[int] = []

    def costs(self, *, days: int) -> Costs:
        self.asked.append(days)
        return costs(FOUND, Span(DAY - days + 1, DAY), self.prices)

    def connector_costs(self, name: str, *, days: int) -> ConnectorCosts:
        self.asked.append(days)
        return connector_costs(FOUND[:1], RUNS, Span(DAY - days + 1, DAY), self.prices, most_runs=self.most_runs)


def run(connect: Connect, *words: str) -> None:
    """``airflow connect cost WORDS``, read by Airflow's own parser."""
    command: Any = cost_commands.cost
    command.__wrapped__(get_parser().parse_args(["connect", "cost", *words]), connect)


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_all_connectors_with_their_total(capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect()
    run(connect)
    assert lines(capsys) == [
        ["connector", "day", "runs", "records", "bytes", "task_seconds", "cpu_seconds", "cost"],
        ["orders", "2024-10-04", "2", "20", "1000000000", "36.0", "3.6", "0.501000", "EUR"],
        ["lines", "2024-10-03", "1", "5", "0", "1.0", "0.5", "0.000028", "EUR"],
        ["total", "-", "3", "25", "1000000000", "37.0", "4.1", "0.501028", "EUR"],
    ]
    assert connect.asked == [7]


def test_one_connector_by_day_and_by_run(capsys: pytest.CaptureFixture[str]) -> None:
    connect = Connect(Prices())
    run(connect, "orders", "--days", "31")
    assert lines(capsys) == [
        ["day", "runs", "records", "bytes", "task_seconds", "cpu_seconds"],
        ["2024-10-04", "2", "20", "1000000000", "36.0", "3.6"],
        ["total", "2", "20", "1000000000", "36.0", "3.6"],
    ]
    assert connect.asked == [31]
    run(Connect(Prices(), most_runs=1), "orders", "--runs")
    printed = capsys.readouterr()
    assert [line.split()[:2] for line in printed.out.splitlines()] == [["run", "runs"], ["run-2", "1"], ["total", "2"]]
    assert "oldest runs have no rows" in printed.err


def test_programs_get_the_whole_answer(capsys: pytest.CaptureFixture[str]) -> None:
    run(Connect(), "-o", "json")
    found = json.loads(capsys.readouterr().out)
    assert (found["prices"]["currency"], found["total"]["money"], len(found["days"])) == ("EUR", 0.501028, 2)
    run(Connect(), "orders", "-o", "json")
    assert [each["run"] for each in json.loads(capsys.readouterr().out)["runs"]] == ["run-2", "run-1"]


def test_runs_are_those_of_one_connector() -> None:
    with pytest.raises(BadRequestException, match="name it"):
        run(Connect(), "--runs")
