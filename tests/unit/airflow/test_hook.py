"""Which server a Connection means, and what operators make of what users give them. The verbs are tested on real servers."""

import asyncio
import json
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.triggers.base import TriggerEvent

from airflow_provider_connect.client.conditions import Verdict
from airflow_provider_connect.client.conversation import ServerException, UnreachableException
from airflow_provider_connect.errors import BadRequestException, ConfigException, NotFoundException, UnauthorizedException
from airflow_provider_connect.hooks.airflow_settings import properties_of
from airflow_provider_connect.hooks.connect import ConnectHook, own_url, rest_server
from airflow_provider_connect.operators.config import CreateConnectorOperator, config_texts, is_same
from airflow_provider_connect.operators.control import offset_views
from airflow_provider_connect.triggers.connect import ConnectTrigger

OWN = "http://localhost:8080/connect"


def connection(*, extra: dict[str, Any] | None = None, **fields: Any) -> Connection:
    return Connection(conn_id="c", conn_type="connect", extra=json.dumps(extra or {}), **fields)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"host": "http://connect:8083"}, ("http://connect:8083", None, "", None)),
        ({"host": "http://connect", "port": 8083, "login": "me", "password": "x"}, ("http://connect:8083", "me", "x", None)),
        ({"host": "https://connect:1/base/", "port": 8083}, ("https://connect:1/base", None, "", None)),
        ({"host": "http://[::1]", "port": 8083}, ("http://[::1]:8083", None, "", None)),
        ({"extra": {"rest.url": "http://connect:1"}, "login": "me", "password": "x"}, ("http://connect:1", "me", "x", None)),
        ({"host": "kafka:9092", "login": "sasl", "extra": {"rest.url": "http://connect:1"}}, ("http://connect:1", None, "", None)),
        (
            {"host": "kafka:9092", "login": "sasl", "extra": {"rest": {"url": "http://connect:1", "login": "me", "password": "x"}}},
            ("http://connect:1", "me", "x", None),
        ),
        ({"host": "http://connect", "extra": {"rest.token": "t"}}, ("http://connect", None, "", "t")),
    ],
)
def test_a_connection_with_a_url(given: dict[str, Any], expected: tuple[object, ...]) -> None:
    server = rest_server(connection(**given))
    assert (server.url, server.login, server.password, server.token) == expected


@pytest.mark.parametrize("given", [{}, {"host": "kafka:9092", "login": "sasl", "password": "x"}])
def test_without_a_url_it_is_airflows_own_server(given: dict[str, Any]) -> None:
    server = rest_server(connection(**given))
    assert (server.url, server.login) == (own_url(), None)
    assert rest_server(None).url == own_url()


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({}, OWN),
        ({"API__BASE_URL": "https://airflow.example.com/base/"}, "https://airflow.example.com/base/connect"),
        ({"API__BASE_URL": "/base"}, "http://localhost:8080/base/connect"),
        (
            {"API__BASE_URL": "https://public", "CORE__EXECUTION_API_SERVER_URL": "http://api:8080/base/execution/"},
            "http://api:8080/base/connect",
        ),
    ],
)
def test_where_airflows_own_server_is(monkeypatch: pytest.MonkeyPatch, options: dict[str, str], url: str) -> None:
    for option, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__{option}", value)
    assert own_url() == url


def test_a_url_and_its_login_are_no_worker_settings() -> None:
    given = {"rest.url": "http://c", "rest.password": "x", "bootstrap.servers": "kafka:1"}
    assert properties_of(connection(host="http://connect", login="me", password="x", extra=given)) == {"bootstrap.servers": "kafka:1"}
    assert properties_of(connection(host="kafka:9092", extra={"rest.url": "http://c"}))["bootstrap.servers"] == "kafka:9092"


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigException, match="http://connect:8083"):
        rest_server(connection(extra={"rest.url": "connect"}))


def test_a_connection_that_is_missing_is_named() -> None:
    with pytest.raises(NotFoundException, match="Connection nowhere does not exist"):
        ConnectHook("nowhere").connectors()


def test_the_test_button_reports_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", json.dumps({"conn_type": "connect", "host": "http://127.0.0.1:1"}))
    is_well, message = ConnectHook("away").test_connection()
    assert not is_well
    assert "http://127.0.0.1:1" in message


def test_configs_are_texts() -> None:
    assert config_texts({"a": 1, "b": True, "c": "x"}) == {"a": "1", "b": "true", "c": "x"}
    with pytest.raises(BadRequestException, match="Configuration a is None"):
        config_texts({"a": None})


@pytest.mark.parametrize(
    ("known", "is_equal"),
    [
        ({"a": "1", "name": "c"}, True),
        ({"a": "[hidden]", "name": "c"}, True),
        ({"a": "2", "name": "c"}, False),
        ({"a": "1", "b": "2", "name": "c"}, False),
    ],
)
def test_a_config_is_the_same_as_far_as_it_is_shown(known: dict[str, str], is_equal: bool) -> None:
    assert is_same(known, "c", {"a": "1"}) == is_equal


@pytest.mark.parametrize(
    "offsets", [{}, "x", [1], [{"partition": {}}], [{"partition": 1, "offset": None}], [{"partition": {}, "offset": 3}]]
)
def test_offsets_of_another_shape_are_refused(offsets: object) -> None:
    with pytest.raises(BadRequestException, match="offsets must be a list"):
        offset_views(offsets)


def test_a_rendered_secret_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    monkeypatch.setattr("airflow_provider_connect.operators.config.mask_secret", masked.append)
    config = {"connector.class": "X", "db.password": "{{ 'ge' ~ 'heim' }}", "other.password": "${file:/x:y}"}
    operator = CreateConnectorOperator(task_id="t", connector="c", config=config)
    operator.render_template_fields({})
    assert operator.config["db.password"] == "geheim"
    assert masked == ["geheim"]


class Restarting:
    """A server that is away for a while: what it raises, then the answer."""

    def __init__(self, *answers: Exception | Verdict) -> None:
        self.answers = list(answers)

    async def __aenter__(self) -> "Restarting":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def look(self, _: object) -> Verdict:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("outage", [UnreachableException("no answer, tried 12 times"), ServerException("starting", 500)])
def test_a_deferred_wait_goes_on_while_the_server_is_away(monkeypatch: pytest.MonkeyPatch, outage: Exception) -> None:
    server = Restarting(outage, outage, Verdict(False, "RUNNING"), outage, Verdict(True, "it is gone"))
    monkeypatch.setattr("airflow_provider_connect.hooks.connect.AsyncConnectHook", lambda _: server)
    (event,) = asyncio.run(_events(ConnectTrigger({"kind": "IsGone", "connector": "c"}, "conn", 0.0)))
    assert event.payload == {"status": "met", "text": "it is gone"}


def test_a_deferred_wait_ends_with_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Restarting(UnauthorizedException("answers 401"))
    monkeypatch.setattr("airflow_provider_connect.hooks.connect.AsyncConnectHook", lambda _: server)
    (event,) = asyncio.run(_events(ConnectTrigger({"kind": "IsGone", "connector": "c"}, "conn", 0.0)))
    assert event.payload == {"status": "error", "text": "answers 401"}


async def _events(trigger: ConnectTrigger) -> list[TriggerEvent]:
    return [event async for event in trigger.run()]


def test_a_trigger_is_made_anew_from_what_it_serializes(monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = ConnectTrigger({"kind": "IsGone", "connector": "c"}, "conn", 1.5, 3.0)
    path, arguments = trigger.serialize()
    assert path == "airflow_provider_connect.triggers.connect.ConnectTrigger"
    json.dumps(arguments)
    assert ConnectTrigger(**arguments).serialize() == (path, arguments)
