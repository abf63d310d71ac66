"""Who gets an answer from which route: a table of all that the app has, so that a new one is in it or refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

import httpx
import pytest
from starlette.requests import Request

from airflow_provider_connect.errors import ConnectException, UnauthorizedException
from airflow_provider_connect.rest.access import OpenToAll, Right, User
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.runtime.herder.herder import Herder
from tests.rest_routes import INTERNAL, routes

ALL = routes(has_page=True)
OF_ALL_USERS = {
    ("GET", path)
    for path in (
        "/",
        "/health",
        "/metrics",
        "/openapi.json",
        "/workers",
        "/costs",
        "/connectors",
        "/connector-plugins",
        "/connector-plugins/{plugin}/config",
        "/admin/loggers",
        "/admin/loggers/{logger}",
        "/ui",
        "/ui/connect.js",
        "/ui/host.js",
        "/ui/connectors",
        "/ui/connector-names",
        "/ui/connector-plugins",
    )
}
"""They concern no connector, or leave out of a list those that the user may not read."""
NAMES = {"{connector}": "c", "{task}": "0", "{plugin}": "P", "{logger}": "l"}
NO_JSON: Mapping[str, Any] = {"content": b"{not json", "headers": {"Content-Type": "application/json"}}


class Rights(OpenToAll):
    """A user with ``rights`` on each connector, and no others. None: no user at all."""

    def __init__(self, rights: Iterable[Right] | None) -> None:
        super().__init__()
        self._rights = None if rights is None else set(rights)

    async def identify(self, request: Request) -> User:
        if self._rights is None:
            raise UnauthorizedException("Not authenticated")
        return "user"

    def may(self, user: User, right: Right, connector: str) -> bool:
        return right in cast(set[Right], self._rights)

    def may_create_some(self, user: User) -> bool:
        return self.may(user, Right.CHANGE, "")

    def may_change_some(self, user: User) -> bool:
        return self.may(user, Right.CHANGE, "")

    def may_administer(self, user: User) -> bool:
        return False

    def may_read_all(self, user: User) -> bool:
        return self.may(user, Right.READ, "")


def statuses(rights: Iterable[Right] | None) -> tuple[dict[tuple[str, str], int], int]:
    """The answer's status of each route to a body that no route takes, and how often the herder was asked for."""
    asked = 0

    def herder() -> Herder:
        nonlocal asked
        asked += 1
        raise ConnectException("there is no herder")

    app = create_app(herder=herder, access=Rights(rights), info=cast(Any, None), has_page=True)

    async def ask() -> dict[tuple[str, str], int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return {(method, path): await status(client, method, path) for method, path in ALL}

    return asyncio.run(ask()), asked


async def status(client: httpx.AsyncClient, method: str, path: str) -> int:
    for placeholder, name in NAMES.items():
        path = path.replace(placeholder, name)
    return (await client.request(method, path, **({} if method == "GET" else NO_JSON))).status_code


def test_no_route_answers_without_a_user() -> None:
    found, asked = statuses(None)
    assert (set(found.values()), asked) == ({401}, 0)


@pytest.mark.parametrize(
    ("rights", "refused"),
    [
        ((), {route for route in ALL if route not in OF_ALL_USERS}),
        ((Right.READ,), {route for route in ALL if route[0] != "GET"}),
        ((Right.READ, Right.CHANGE), {("DELETE", "/connectors/{connector}"), ("PUT", "/admin/loggers/{logger}")}),
        ((Right.READ, Right.CHANGE, Right.DELETE), {("PUT", "/admin/loggers/{logger}")}),
    ],
    ids=["no right", "read", "change", "delete"],
)
def test_each_route_asks_for_its_right_before_it_reads_a_body(rights: tuple[Right, ...], refused: set[tuple[str, str]]) -> None:
    found, _ = statuses(rights)
    assert {route for route, status in found.items() if status == 403} == refused - set(INTERNAL)
    assert 401 not in found.values()
    assert {found[route] for route in INTERNAL} == {400}, "they lack the signature of a cluster"
