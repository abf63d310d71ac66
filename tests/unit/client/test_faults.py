"""What a client does when the way to the server, or the server, is not well. Everything else is tested on real servers."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from airflow_provider_connect.cli.connection import client_of
from airflow_provider_connect.client.conversation import RetryLimits, ServerException, UnreachableException
from airflow_provider_connect.client.rest_client import AsyncConnectClient, ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.errors import (
    AlreadyExistsException,
    BadRequestException,
    ConfigException,
    ConflictException,
    ConnectException,
    ForbiddenException,
    NotFoundException,
    UnauthorizedException,
)

QUICK = RetryLimits(seconds=5, first_wait_seconds=0.001, longest_wait_seconds=0.002)
QUICK_END = RetryLimits(seconds=0.05, first_wait_seconds=0.001, longest_wait_seconds=0.002)
Reply = httpx.Response | Exception


class Wire:
    """Gives one reply after the other, the last one again and again, and keeps the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.requests = list(replies), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)


def ask_in_turn(wire: Wire, verb: str, arguments: tuple[Any, ...], limits: RetryLimits, url: str) -> object:
    with ConnectClient(Server.of(url), retry=limits, transport=httpx.MockTransport(wire)) as client:
        return getattr(client, verb)(*arguments)


def ask_in_a_loop(wire: Wire, verb: str, arguments: tuple[Any, ...], limits: RetryLimits, url: str) -> object:
    async def ask() -> object:
        async with AsyncConnectClient(Server.of(url), retry=limits, transport=httpx.MockTransport(wire)) as client:
            return await getattr(client, verb)(*arguments)

    return asyncio.run(ask())


@pytest.fixture(params=[ask_in_turn, ask_in_a_loop], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Callable[..., object]:
    """Asks a wire, by the client and by its twin."""

    def asked(wire: Wire, verb: str, *arguments: Any, limits: RetryLimits = QUICK, url: str = "http://connect:8083") -> object:
        return request.param(wire, verb, arguments, limits, url)

    return asked


Ask = Callable[..., object]


def error(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error_code": status, "message": message})


NAMES = httpx.Response(200, json=["a"])
DONE = httpx.Response(204)
REFUSED = httpx.ConnectError("Connection refused")
BROKEN = httpx.ReadError("connection reset")
REBALANCE = error(409, "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)")
EXPECTED = error(500, "Request cannot be completed because a rebalance is expected")


@pytest.mark.parametrize("fault", [REFUSED, BROKEN, httpx.ReadTimeout("slow"), REBALANCE, EXPECTED, httpx.Response(503), error(502, "x")])
def test_a_passing_fault_is_tried_again(ask: Ask, fault: Reply) -> None:
    wire = Wire(fault, fault, NAMES)
    assert ask(wire, "connectors") == ["a"]
    assert len(wire.requests) == 3


def test_a_creation_whose_answer_was_lost_is_not_sent_again(ask: Ask) -> None:
    wire = Wire(BROKEN)
    with pytest.raises(UnreachableException, match="Whether the server carried it out is not known"):
        ask(wire, "create_connector", "a", {})
    assert len(wire.requests) == 1


def test_a_creation_that_never_left_is_sent_again(ask: Ask) -> None:
    wire = Wire(REFUSED, httpx.Response(201, json={"name": "a", "config": {}, "tasks": [], "type": "source"}))
    ask(wire, "create_connector", "a", {})
    assert len(wire.requests) == 2


def test_a_deletion_whose_answer_was_lost_has_been_done_when_nothing_is_left(ask: Ask) -> None:
    assert ask(Wire(BROKEN, error(404, "Connector a not found")), "delete_connector", "a") is None


def test_a_deletion_of_nothing_is_refused(ask: Ask) -> None:
    with pytest.raises(NotFoundException, match=r"^Connector a not found$"):
        ask(Wire(REFUSED, error(404, "Connector a not found")), "delete_connector", "a")


@pytest.mark.parametrize("fault", [REFUSED, BROKEN, REBALANCE])
def test_trying_ends_with_the_limit(ask: Ask, fault: Reply) -> None:
    wire = Wire(fault)
    with pytest.raises(ConnectException):
        ask(wire, "connectors", limits=RetryLimits(seconds=0))
    assert len(wire.requests) == 1


def test_a_user_is_notified_once_that_a_request_without_an_answer_is_retried(capsys: pytest.CaptureFixture[str]) -> None:
    """By the clients of commands: the user of ``airflow connect import`` would else wait for half a minute without a word."""
    with client_of(f"http://me:geheim@127.0.0.1:{free_ports(1)[0]}", None, QUICK_END) as client, pytest.raises(UnreachableException):
        client.connectors()
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 1
    assert re.fullmatch(
        r"GET http://127\.0\.0\.1:\d+/connectors has no answer: .*Connection refused\. It is retried for up to 0\.05 seconds", shown[0]
    )


def test_a_user_is_not_notified_of_a_rebalance() -> None:
    notices: list[str] = []
    transport = httpx.MockTransport(Wire(REBALANCE, NAMES))
    with ConnectClient(Server.of("http://connect"), retry=QUICK, transport=transport, notify=notices.append) as client:
        assert client.connectors() == ["a"]
    assert notices == []


def test_an_unreachable_server_is_named_without_its_password(ask: Ask) -> None:
    with pytest.raises(UnreachableException, match=r"GET http://connect:1/x/connectors .*Connection refused") as raised:
        ask(Wire(REFUSED), "connectors", limits=RetryLimits(seconds=0), url="http://me:geheim@connect:1/x/")
    assert "geheim" not in raised.value.message


@pytest.mark.parametrize(
    ("reply", "exception", "message"),
    [
        (error(400, "No"), BadRequestException, "No"),
        (error(404, "Connector a not found"), NotFoundException, "Connector a not found"),
        (error(404, "HTTP 404 Not Found"), NotFoundException, "GET http://connect:8083/connectors: HTTP 404 Not Found"),
        (httpx.Response(404, json={"detail": "Not Found"}), NotFoundException, "GET http://connect:8083/connectors: Not Found"),
        (error(409, "Connector a already exists"), AlreadyExistsException, "Connector a already exists"),
        (error(409, "It is defined in a.py"), ConflictException, "It is defined in a.py"),
        (error(500, "Broken"), ServerException, "Broken"),
        (httpx.Response(401, text="User cannot access the resource."), UnauthorizedException, "User cannot access the resource"),
        (httpx.Response(403, json={"detail": "Forbidden"}), ForbiddenException, "connectors: Forbidden"),
        (httpx.Response(404, text="<html>no</html>"), ServerException, "<html>no</html>"),
        (httpx.Response(302, headers={"Location": "/login"}), ServerException, "answers 302"),
        (httpx.Response(200, text="<html>hello</html>"), ServerException, "check the address"),
        (httpx.Response(200, json={"a": 1}), ServerException, "expected a list"),
    ],
)
def test_a_refusal_is_raised_at_once(ask: Ask, reply: httpx.Response, exception: type[Exception], message: str) -> None:
    wire = Wire(reply)
    with pytest.raises(exception) as raised:
        ask(wire, "connectors")
    assert message in str(raised.value)
    assert len(wire.requests) == 1


def test_an_unhealthy_worker_is_an_answer(ask: Ask) -> None:
    health = ask(Wire(httpx.Response(503, json={"status": "starting", "message": "Worker is still starting up."})), "health")
    assert getattr(health, "status", None) == "starting"


def test_names_are_one_segment_of_the_path(ask: Ask) -> None:
    wire = Wire(DONE)
    ask(wire, "pause", "a/b c?#%ä", url="http://connect:8083/connect/")
    assert wire.requests[0].url.raw_path == b"/connect/connectors/a%2Fb%20c%3F%23%25%C3%A4/pause"


@pytest.mark.parametrize("name", ["", ".", "..", None])
def test_a_name_that_would_be_another_path_is_not_sent(ask: Ask, name: str | None) -> None:
    wire = Wire(DONE)
    with pytest.raises(BadRequestException, match="is not a valid name of a connector"):
        ask(wire, "delete_connector", name)
    assert wire.requests == []


@pytest.mark.parametrize(
    ("url", "arguments", "header"),
    [
        ("http://connect", {}, None),
        ("http://me:p%40ss@connect", {}, "Basic bWU6cEBzcw=="),
        ("http://x:y@connect", {"login": "me", "password": "p@ss"}, "Basic bWU6cEBzcw=="),
        ("http://connect", {"token": "abc"}, "Bearer abc"),
    ],
)
def test_who_calls(url: str, arguments: dict[str, str], header: str | None) -> None:
    wire = Wire(NAMES)
    with ConnectClient(Server.of(url, **arguments), transport=httpx.MockTransport(wire)) as client:
        client.connectors()
    assert wire.requests[0].headers.get("Authorization") == header
    assert "p@ss" not in repr(client.server)


@pytest.mark.parametrize("url", ["connect:8083", "ftp://connect", "http://", "http://u:geheim@connect:x", "http://c/?a=1", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigException) as raised:
        Server.of(url)
    assert "geheim" not in raised.value.message


def test_certificates_that_cannot_be_read_are_named() -> None:
    with pytest.raises(ConfigException, match=r"/nowhere/ca\.pem"):
        ConnectClient(Server.of("https://connect", ca_file="/nowhere/ca.pem"))


def test_waits_double_up_to_the_longest() -> None:
    limits = RetryLimits(seconds=30, first_wait_seconds=1, longest_wait_seconds=5)
    assert [limits.wait(attempt, 0.0) for attempt in range(5)] == [1, 2, 4, 5, 5]
    assert limits.wait(9999, 1.0) == 2.5
