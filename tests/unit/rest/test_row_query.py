"""The rows that the page asks for: by filters, in an order, a window of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from starlette.requests import Request

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.row_query import RowQuery
from airflow_provider_connect.rest.server import RestListener, RestServer
from airflow_provider_connect.runtime.model.page import AttemptView, ConnectorRow, PlanView, RunView
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.views import Health, HealthWord, ServerView
from tests.unit.herder.conftest import CONFIG, SINK, RunEnvironment

NEW = ConnectorRow("a-new", "connect.a-new", "sink", "org.x.Alpha", "2", None, {}, False, None)
RUN = RunView("run", 1, 7, 70, 1.0, 1.0, 1, 50)
ATTEMPT = AttemptView("run", "connect", -1, None, "running", 1, 1, None)
ROWS = [
    NEW,
    replace(
        NEW,
        name="B-runs",
        type="source",
        class_name="org.y.Beta",
        state="RUNNING",
        tasks={"RUNNING": 2},
        last_run=RUN,
        left=5,
        hours=[1, 2],
    ),
    replace(
        NEW, name="c-fails", state="RUNNING", tasks={"FAILED": 1}, health=Health(HealthWord.FAILING, "x"), plan=PlanView(9, "Ada", ["ETL"])
    ),
    replace(NEW, name="d-fails", state="FAILED", health=Health(HealthWord.FAILING, "y"), plan=PlanView(3, None, [])),
    replace(NEW, name="e-idle", state="PAUSED", health=Health(HealthWord.IDLE), left=0, plan=PlanView(1, "bob", [], ATTEMPT)),
]


def asked(text: str) -> RowQuery:
    return RowQuery.of(Request({"type": "http", "query_string": text.encode(), "headers": []}))


def names(text: str) -> str:
    """The first letters of the rows that fit, in the order that is asked for."""
    query = asked(text)
    found = sorted((row for row in ROWS if query.matches(row)), key=query.order, reverse=query.descends)
    return "".join(row.name[0] for row in found[query.window])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "aBcde"),
        ("dir=desc", "edcBa"),
        ("q=FAILS", "cd"),
        ("q=fails+ada", "c"),
        ("q=etl", "c"),
        ("q=beta", "B"),
        ("q=nothing", ""),
        ("state=FAILED", "cd"),
        ("state=RUNNING", "Bc"),
        ("type=source", "B"),
        ("health=failing", "cd"),
        ("health=attention", "cd"),
        ("health=idle", "e"),
        ("offset=1&limit=2", "Bc"),
        ("offset=4&limit=2", "e"),
        ("offset=9&limit=2", ""),
        ("limit=0", ""),
        ("sort=class", "acdeB"),
        ("sort=type&dir=desc", "Bacde"),
        ("sort=state", "adcBe"),
        ("sort=health", "cdeaB"),
        ("sort=tasks&dir=desc", "Bcade"),
        ("sort=lag&dir=desc", "Beacd"),
        ("sort=records&dir=desc", "Bacde"),
        ("sort=bytes&dir=desc", "Bacde"),
        ("sort=when&dir=desc", "Bacde"),
        ("sort=day&dir=desc", "Bacde"),
        ("sort=next", "edcaB"),
        ("sort=owner&dir=desc", "ecaBd"),
        ("sort=tags&dir=desc", "caBde"),
    ],
)
def test_rows_are_filtered_sorted_and_cut(text: str, expected: str) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sort=nothing", "sort is one of name, class, .*, not nothing"),
        ("limit=-1", "limit is a whole number, not -1"),
        ("offset=1e9", "offset is a whole number, not 1e9"),
        ("limit=9999999999", "limit is a whole number, not 9999999999"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(BadRequestException, match=message):
        asked(text)


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    environment = RunEnvironment()
    for number, config in enumerate((CONFIG, SINK, CONFIG)):
        environment.herder.create_connector(f"c{number}", config, TargetState.STARTED if number else TargetState.STOPPED)
    environment.run("c2", State.FAILED, connector=State.FAILED)
    app = create_app(herder=lambda: environment.herder, access=OpenToAll(), info=lambda: ServerView("1", "2", "3"))
    with RestServer(app, RestListener.of({}, port=0)) as server, httpx.Client(base_url=server.url) as client:
        yield client


def test_a_window_of_the_list_has_the_counts_of_the_whole(client: httpx.Client) -> None:
    answer = client.get("/ui/connectors?health=attention&limit=5").json()
    assert [row["name"] for row in answer.pop("connectors")] == ["c2"]
    states = answer.pop("states")
    assert answer == {
        "may_create": True,
        "may_administer": True,
        "may_read_all": True,
        "offset": 0,
        "matching": 1,
        "total": 3,
        "changeable": 3,
    }
    assert (states["FAILED"], sum(states.values())) == (1, 3)
    assert client.get("/ui/connectors?sort=x").status_code == 400


def test_names_are_of_all_connectors_with_a_mark_on_those_that_fit(client: httpx.Client) -> None:
    names = client.get("/ui/connector-names?q=c1").json()["connectors"]
    assert [(each["name"], each["matches"]) for each in names] == [("c0", False), ("c1", True), ("c2", False)]
    assert [each["state"] for each in names][2] == "FAILED"
