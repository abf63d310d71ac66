"""Costs of a herder with a mirror in memory, and its routes: which days, which connectors, and who may see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, StaticPool, create_engine, insert
from starlette.requests import Request

from airflow_provider_connect.errors import BadRequestException, NotFoundException
from airflow_provider_connect.rest.access import OpenToAll, Right, User
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder import costs as herder_costs
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.cost import DAY_MS
from airflow_provider_connect.runtime.model.views import ServerView
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory
from airflow_provider_connect.runtime.sql_mirror.tables import batch, metadata
from tests.unit.herder.conftest import CONFIG, GivenErrors, MemoryBacking, NotedRuns, RunEnvironment


class OneReader(OpenToAll):
    """A user who may read the connector ``mine`` alone."""

    async def identify(self, request: Request) -> User:
        return "reader"

    def may(self, user: User, right: Right, connector: str) -> bool:
        return right is Right.READ and connector == "mine"

    def readable(self, user: User, connectors: Any) -> set[str]:
        return {"mine"} & set(connectors)


def run(connector: str, run_id: str, task: int, days_ago: int, **used: float) -> dict[str, object]:
    at = int(time.time() * 1000) - days_ago * DAY_MS
    numbers = {"records": 10, "bytes": 10**9, "seconds": 3600.0, "cpu_seconds": 360.0, **used}
    row = {"connector": connector, "task": task, "claim": f"id:{run_id}", "run": run_id, "type": "source", "ranges": "{}"}
    return {**row, **numbers, "first_ms": at, "last_ms": at}


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    metadata.create_all(engine)
    rows = [
        run("mine", "1", 0, 0),
        run("mine", "1", 1, 0),
        run("mine", "2", 0, 0),
        run("mine", "3", 0, 2),
        run("mine", "4", 0, 9),
        run("mine", "altered", 0, 0, records=0),
        run("theirs", "1", 0, 1),
    ]
    with engine.begin() as connection:
        connection.execute(insert(batch), rows)
    yield engine
    engine.dispose()


@pytest.fixture
def herder(engine: Engine) -> Iterator[Herder]:
    settings = WorkerSettings.of({"cost.cpu.hour": "0.1", "cost.task.hour": "0.02", "cost.gigabyte": "0.5", "cost.currency": "EUR"})
    recorded = RecordedHistory(engine.begin)
    with Herder(settings, NotedRuns(), probe=GivenErrors(), backing=MemoryBacking(settings), recorded=recorded) as herder:
        yield herder


def test_costs_are_by_connector_and_day(herder: Herder) -> None:
    found = herder.costs()
    assert [(each.connector, each.cost.runs, each.cost.records, each.cost.cpu_seconds, each.cost.money) for each in found.days] == [
        ("mine", 2, 30, 1080.0, 1.59),
        ("theirs", 1, 10, 360.0, 0.53),
        ("mine", 1, 10, 360.0, 0.53),
    ]
    assert (found.total.runs, found.total.bytes, found.total.money, found.prices.currency) == (4, 5 * 10**9, 2.65, "EUR")
    assert [each.day for each in found.days] == sorted((each.day for each in found.days), reverse=True)
    assert [each.connector for each in herder.costs(days=1).days] == ["mine"]
    assert len(herder.costs(days=10).days) == 4


def test_one_connector_has_its_runs_too(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    found = herder.connector_costs("mine")
    runs = [(each.run, each.cost.seconds, each.cost.money) for each in found.runs]
    assert runs == [("1", 7200.0, 1.06), ("2", 3600.0, 0.53), ("3", 3600.0, 0.53)]
    assert ([each.cost.runs for each in found.days], found.total.money, found.is_whole) == ([2, 1], 2.12, True)
    monkeypatch.setattr(herder_costs, "MOST_RUNS", 2)
    assert ([each.run for each in herder.connector_costs("mine").runs], herder.connector_costs("mine").is_whole) == (["1", "2"], False)


def test_a_connector_without_runs_costs_nothing_and_one_that_never_was_is_not_found(herder: Herder) -> None:
    with pytest.raises(NotFoundException, match="new not found"):
        herder.connector_costs("new")
    herder.create_connector("new", CONFIG)
    found = herder.connector_costs("new", days=366)
    assert (found.days, found.runs, found.total.runs, found.total.money) == ([], [], 0, 0.0)
    assert herder.connector_costs("theirs").total.runs == 1, "it was deleted"


@pytest.mark.parametrize("days", [0, -1, 367])
def test_days_are_bounded(herder: Herder, days: int) -> None:
    for ask in (lambda: herder.costs(days=days), lambda: herder.connector_costs("mine", days=days)):
        with pytest.raises(BadRequestException, match="'days' must be a number from 1 to 366"):
            ask()


def test_more_rows_than_an_answer_may_have_are_refused(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(herder_costs, "MOST_ROWS", 3)
    assert len(herder.costs().days) == 3
    with pytest.raises(BadRequestException, match="more than 3 rows: ask for fewer days"):
        herder.costs(days=10)


def test_without_a_mirror_there_are_no_costs() -> None:
    herder = RunEnvironment().herder
    for ask in (herder.costs, lambda: herder.connector_costs("c")):
        with pytest.raises(BadRequestException, match="keeps no record of runs"):
            ask()


def test_a_reader_sees_the_costs_of_connectors_that_may_be_read(herder: Herder) -> None:
    app = create_app(herder=lambda: herder, access=OneReader(), info=lambda: ServerView("1", "2", "3"))

    async def ask(*paths: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return [await client.get(path) for path in paths]

    refused = (f"/costs?days={text}" for text in ("x", "0", "9" * 30))
    all_costs, one, other, *wrong = asyncio.run(ask("/costs", "/connectors/mine/costs?days=1", "/connectors/theirs/costs", *refused))
    assert ({each["connector"] for each in all_costs.json()["days"]}, all_costs.json()["total"]["runs"]) == ({"mine"}, 3)
    assert "theirs" not in all_costs.text
    assert (one.status_code, one.json()["total"]["money"], len(one.json()["runs"])) == (200, 1.59, 2)
    assert other.status_code == 403
    assert {each.status_code for each in wrong} == {400}
