"""``/connectors/«c»/backfills`` of the app itself, over memory stores: who may, what is stored, and what no secret does."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.rest.access import OpenToAll, Right, User
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.runtime.model.views import ServerView
from tests.conftest import CHECKOUT
from tests.unit.herder.conftest import RunEnvironment

SOURCE = {
    "connector.class": "JdbcSource",
    "connection.url": "jdbc:postgresql://db/shop",
    "connection.password": "secret-4711",
    "mode": "incrementing",
    "incrementing.column.name": "id",
    "topic.prefix": "shop.",
}
RANGE = {"rows.from": "5", "rows.to": 9}


class SomeAccess(OpenToAll):
    """A user who may change ``mine`` alone, and read what begins so."""

    async def identify(self, request: Request) -> User:
        return "owner"

    def may(self, user: User, right: Right, connector: str) -> bool:
        return connector == "mine" if right is Right.CHANGE else connector.startswith("mine")

    def readable(self, user: User, connectors: Iterable[str]) -> set[str]:
        return {connector for connector in connectors if connector == "mine"}


def asked(environment: RunEnvironment, method: str, path: str, body: object = None, *, access: OpenToAll | None = None) -> httpx.Response:
    app = create_app(herder=lambda: environment.herder, access=access or OpenToAll(), info=lambda: ServerView("1", "2", "3"))

    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.request(method, path, json=body)

    return asyncio.run(send())


@pytest.fixture
def environment() -> RunEnvironment:
    environment = RunEnvironment()
    environment.herder.create_connector("mine", SOURCE)
    environment.runs.taken()
    return environment


def test_a_backfill_is_created_started_and_listed(environment: RunEnvironment) -> None:
    planned = asked(environment, "POST", "/connectors/mine/backfills", {"config": RANGE, "id": "one", "dry_run": True})
    assert (planned.status_code, environment.herder.connectors(), environment.runs.taken()) == (200, ["mine"], [])
    created = asked(environment, "POST", "/connectors/mine/backfills", {"config": RANGE, "id": "one"})
    expected: dict[str, Any] = {"name": "mine.backfill.one", "of": "mine", "state": "UNASSIGNED"}
    assert created.json() == planned.json() == {**expected, "is_done": None, "left": None, "ranges": []}
    assert (created.status_code, environment.runs.taken()) == (201, [("trigger", "mine.backfill.one", None)])
    stored = environment.herder.config_state().connector_config("mine.backfill.one") or {}
    assert {key: stored[key] for key in ("rows.from", "rows.to", "backfill.of", "backfill.changed", "airflow.schedule")} == {
        "rows.from": "5",
        "rows.to": "9",
        "backfill.of": "mine",
        "backfill.changed": "rows.from,rows.to",
        "airflow.schedule": "none",
    }
    listed = asked(environment, "GET", "/connectors/mine/backfills")
    assert listed.json() == [{**expected, "state": "RUNNING", "is_done": None, "left": None, "ranges": []}]
    again = asked(environment, "POST", "/connectors/mine/backfills", {"config": RANGE, "id": "one"})
    assert again.status_code == 409
    assert asked(environment, "GET", "/connectors/nothing/backfills").status_code == 404


def test_the_page_is_shown_backfills_with_what_may_be_done(environment: RunEnvironment) -> None:
    for number in ("one", "two"):
        asked(environment, "POST", "/connectors/mine/backfills", {"config": RANGE, "id": number})
    environment.herder.create_connector("other", SOURCE)
    shown = asked(environment, "GET", "/ui/connectors/mine/backfills").json()
    names = [(each["backfill"]["name"], each["dag_id"], each["may_delete"], each["last_run"]) for each in shown["backfills"]]
    assert names == [(f"mine.backfill.{number}", f"connect.mine.backfill.{number}", True, None) for number in ("two", "one")]
    assert (shown["may_create"], shown["of"]) == (True, None)
    of_backfill = asked(environment, "GET", "/ui/connectors/mine.backfill.one/backfills").json()
    assert of_backfill == {"backfills": [], "may_create": False, "of": "mine"}
    limited = asked(environment, "GET", "/ui/connectors/mine/backfills", access=SomeAccess()).json()
    assert limited == {"backfills": [], "may_create": False, "of": None}, "who may change one connector may create no other"
    assert asked(environment, "GET", "/ui/connectors/nothing/backfills").status_code == 404


def test_the_page_offers_the_settings_that_bound_a_source() -> None:
    text = (CHECKOUT / "ui" / "src" / "backfill-form.tsx").read_text()
    found = {name: tuple(re.findall('"([^"]+)"', names)) for name, names in re.findall(r"^  (\w+): \[([^]]*)\],$", text, re.MULTILINE)}
    classes = {"JdbcSource": JdbcSourceConnector, "FileSystemSource": FileSystemSourceConnector}
    assert found == {name: each.range_settings for name, each in classes.items()}


def test_a_backfill_needs_the_rights_on_both_connectors(environment: RunEnvironment) -> None:
    """Who may change one connector may create no other, also none that is named after it; and sees those alone that may be read."""
    access = SomeAccess()
    refused = asked(environment, "POST", "/connectors/mine/backfills", {"config": RANGE, "id": "one"}, access=access)
    assert (refused.status_code, refused.json()["message"]) == (403, "You may not change connector mine.backfill.one")
    assert asked(environment, "POST", "/connectors/other/backfills", {"config": RANGE}, access=access).status_code == 403
    assert environment.herder.connectors() == ["mine"]
    asked(environment, "POST", "/connectors/mine/backfills", {"config": RANGE, "id": "one"})
    assert asked(environment, "GET", "/connectors/mine/backfills", access=access).json() == []


def test_a_config_that_claims_to_be_a_backfill_of_another_connector_is_not_listed_as_one(environment: RunEnvironment) -> None:
    """Who may create a connector of any other name could otherwise report that a backfill is done."""
    environment.herder.create_connector("theirs", {**SOURCE, "backfill.of": "mine", "backfill.changed": ""})
    assert asked(environment, "GET", "/connectors/mine/backfills").json() == []


def test_a_secret_of_the_connector_goes_to_no_other_address(environment: RunEnvironment) -> None:
    moved = {"config": {**RANGE, "connection.url": "jdbc:postgresql://elsewhere/shop"}, "id": "one"}
    refused = asked(environment, "POST", "/connectors/mine/backfills", moved)
    assert (refused.status_code, "give the secret again" in refused.text, "4711" in refused.text) == (400, True, False)
    assert environment.herder.connectors() == ["mine"]
    asked(environment, "POST", "/connectors/mine/backfills", {"config": RANGE, "id": "one"})
    stored = environment.herder.config_state().connector_config("mine.backfill.one") or {}
    assert stored["connection.password"] == "secret-4711"
