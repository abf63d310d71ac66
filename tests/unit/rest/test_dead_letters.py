"""The body of a request for a replay, read strictly; the last replay as the page is shown it."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.rest.access import OpenToAll, Right, User
from airflow_provider_connect.rest.answers import HttpException
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.bodies import Body
from airflow_provider_connect.rest.dead_letters import ReplayBody
from airflow_provider_connect.rest.page_facts import NoRuns, Searches
from airflow_provider_connect.runtime.model.page import AttemptView
from airflow_provider_connect.runtime.model.replays import Replay, ReplayRequest
from airflow_provider_connect.runtime.model.views import ServerView
from tests.unit.herder.conftest import SINK, RunEnvironment


def body(value: Any) -> Body:
    return Body(json.dumps(value).encode(), "application/json")


def test_an_empty_body_asks_for_all_records() -> None:
    asked = ReplayBody.of(Body(b"", None))
    assert (asked.request(), asked.dry_run) == (ReplayRequest([], [], [], None, {}, {}), False)


def test_an_edit_names_what_it_replaces_alone() -> None:
    asked = ReplayBody.of(body({"edits": {"0:1": {"value": None}, "0:2": {"key": "k"}}, "topic": "t", "transforms": {"transforms": "a"}}))
    assert asked.request() == ReplayRequest([], [], [], "t", {"0:1": {"value": None}, "0:2": {"key": "k"}}, {"transforms": "a"})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"offset": []}, "offset"),
        ({"offsets": "0:1"}, "offsets"),
        ({"offsets": [1]}, "offsets"),
        ({"edits": {"0:1": {"value": 5}}}, "edits"),
        ({"edits": {"0:1": {"headers": "x"}}}, "edits"),
        ({"edits": {"0:1": "x"}}, "edits"),
        ({"transforms": {"transforms": ["a"]}}, "transforms"),
        ({"records": 0}, "records"),
        ({"records": 1001}, "records"),
        ({"dry_run": "yes"}, "dry_run"),
        ({"replay": "x" * 501}, "replay"),
        ({"offsets": ["0:1"] * 10_001}, "offsets"),
        ([], "JSON object"),
    ],
)
def test_another_shape_is_refused_by_name(given: Any, named: str) -> None:
    with pytest.raises(BadRequestException, match=named):
        ReplayBody.of(body(given))


class OneRun(NoRuns):
    """Each connector has a run that is named after it."""

    def attempts(self, connector: str) -> Sequence[AttemptView]:
        return [AttemptView(f"run-of-{connector}", "task", -1, None, "running", 1, 4, None)]


class SinkAlone(OpenToAll):
    """Who may read the sink and no other connector."""

    def may(self, user: User, right: Right, connector: str) -> bool:
        return connector == "mine"


def test_the_page_is_shown_the_last_replay_with_the_run_that_does_it() -> None:
    environment = RunEnvironment()
    environment.herder.create_connector("mine", SINK)

    def shown(connector: str, access: OpenToAll) -> httpx.Response:
        info = ServerView("1", "2", "3")
        app = create_app(herder=lambda: environment.herder, access=access, info=lambda: info, runs=OneRun())

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                return await client.get(f"/ui/connectors/{connector}/replay")

        return asyncio.run(send())

    none = {"replay": None, "connector": "mine-replay", "dag_id": "connect.mine-replay"}
    assert shown("mine", OpenToAll()).json() == {**none, "run": "run-of-mine-replay", "may_replay": True}
    assert shown("mine", SinkAlone()).json() == {**none, "run": None, "may_replay": False}
    assert shown("nothing", OpenToAll()).status_code == 404


def test_the_status_of_the_connector_that_replays_is_for_those_who_may_read_that(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = RunEnvironment()
    environment.herder.create_connector("mine", SINK)
    found = Replay("mine-replay", "1", "dlq", ["0:9"], 3, False, "FAILED", "Error: a line of a trace")
    monkeypatch.setattr(environment.herder, "dead_letter_replay", lambda _name: found)

    def shown(path: str, access: OpenToAll) -> Any:  # of JSON
        app = create_app(herder=lambda: environment.herder, access=access, info=lambda: ServerView("1", "2", "3"), runs=OneRun())

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                return await client.get(path)

        return asyncio.run(send()).json()

    for access, status in ((OpenToAll(), ("FAILED", "Error: a line of a trace")), (SinkAlone(), (None, None))):
        for state in (shown("/ui/connectors/mine/replay", access)["replay"], shown("/connectors/mine/dead-letters/replay", access)):
            assert (state["connector"], state["records"]) == ("mine-replay", 3)
            assert (state.get("state"), state.get("failure")) == status


def test_one_users_searches_of_dead_letters_keep_no_other_user_from_theirs() -> None:
    searches = Searches()
    with searches.start("anna"), searches.start("anna"):
        with pytest.raises(HttpException, match="for you already"), searches.start("anna"):
            pass
        with searches.start("ben"), searches.start(None), searches.start(""):
            pass
    with searches.start("anna"), ExitStack() as others:
        for number in range(7):
            others.enter_context(searches.start(f"user-{number}"))
        with pytest.raises(HttpException, match="Others are reading"), searches.start("one more"):
            pass
    with searches.start("one more"):
        pass


def test_a_replay_needs_the_right_on_the_connector_that_does_it() -> None:
    """Who may not change that could neither end what was started nor delete it."""
    environment = RunEnvironment()
    environment.herder.create_connector("mine", SINK)
    info = ServerView("1", "2", "3")

    def requested(access: OpenToAll) -> httpx.Response:
        app = create_app(herder=lambda: environment.herder, access=access, info=lambda: info, runs=OneRun())

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                return await client.post("/connectors/mine/dead-letters/replay", json={"dry_run": True})

        return asyncio.run(send())

    assert requested(SinkAlone()).status_code == 403
    assert requested(OpenToAll()).status_code != 403
