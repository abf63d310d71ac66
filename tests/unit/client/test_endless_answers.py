"""Answers without end, packed a thousandfold or byte by byte: the clients of REST, of ``connect import`` and of a schema registry."""

from __future__ import annotations

import asyncio
import gzip
import resource
from collections.abc import Iterator
from types import SimpleNamespace

import httpx
import pytest

from airflow_provider_connect.cli.imports import import_connectors
from airflow_provider_connect.client.rest_client import AsyncConnectClient, ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.converters.registry import registry as registry_module
from airflow_provider_connect.converters.registry.registry import Registry
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException, UnavailableException
from airflow_provider_connect.sdk.http import bounded_body
from tests.endless_server import endless_server

SHORT_SECONDS = 0.5

ENDLESS = [("endless", "the body is larger than"), ("large", "the body is larger than"), ("bomb", "the body is larger than")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with endless_server() as found:
        yield found


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """No answer takes more than three times the limit, and the interpreter's own."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10


@pytest.mark.parametrize(("kind", "message"), ENDLESS)
def test_an_answer_of_connect_has_a_limit(url: str, kind: str, message: str) -> None:
    with (
        ConnectClient(Server.of(f"{url}/{kind}")) as client,
        pytest.raises(ConnectException, match=rf"GET http.*{kind}.*: {message}"),
    ):
        client.connectors()


def test_and_so_has_one_that_is_awaited(url: str) -> None:
    async def ask() -> None:
        async with AsyncConnectClient(Server.of(f"{url}/endless")) as client:
            await client.connectors()

    with pytest.raises(ConnectException, match="the body is larger than 67108864 bytes"):
        asyncio.run(ask())


def test_an_answer_that_comes_byte_by_byte_has_a_time(url: str) -> None:
    with (
        ConnectClient(Server.of(f"{url}/slow"), timeout_seconds=SHORT_SECONDS) as client,
        pytest.raises(RetriableException, match=r"GET http.*: the body has not arrived within"),
    ):
        client.connectors()


@pytest.mark.parametrize(("kind", "message"), ENDLESS)
def test_an_answer_of_a_registry_has_a_limit(url: str, kind: str, message: str) -> None:
    registry = Registry({"url": f"{url}/{kind}"})
    with pytest.raises(DataException, match=rf"The response of the schema registry for schema 7: GET http.*: {message} 16777216 bytes"):
        registry.schema(7)


def test_a_registry_that_answers_byte_by_byte_is_away(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_ANSWER_SECONDS", 0.3)
    with pytest.raises(UnavailableException, match="too slow, requesting schema 7"):
        Registry({"url": f"{url}/slow"}).schema(7)


def test_a_token_for_a_registry_has_a_limit(url: str) -> None:
    oauth = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "c",
        "bearer.auth.client.secret": "s",
        "bearer.auth.scope": "x",
        "bearer.auth.issuer.endpoint.url": f"{url}/endless",
        "bearer.auth.logical.cluster": "c",
        "bearer.auth.identity.pool.id": "p",
    }
    with pytest.raises((DataException, UnavailableException)):
        Registry({"url": url, "max.retries": 0, **oauth}).schema(7)


def test_a_packed_answer_is_unpacked_and_read() -> None:
    packed = gzip.compress(b'["a"]')

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "gzip"
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=_Pieces(packed))

    with ConnectClient(Server.of("http://connect:8083"), transport=httpx.MockTransport(answer)) as client:
        assert list(client.connectors()) == ["a"]


class _Pieces(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content[:10]
        yield self._content[10:]


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br"])
def test_other_packings_are_refused(encoding: str) -> None:
    with pytest.raises(ConnectException, match=f"the body is compressed as '{encoding}'; only gzip was requested"):
        bounded_body.BoundedBody(encoding, title="GET x")


def test_an_import_from_such_a_server_ends_by_name(url: str) -> None:
    nothing = dict.fromkeys(("create", "dags", "handover", "handback", "takeover", "application", "source_user", "source_url"))
    arguments = SimpleNamespace(**nothing, source=f"{url}/endless", names=[])
    with pytest.raises(ConnectException, match="the body is larger than"):
        import_connectors.__wrapped__(arguments, SimpleNamespace())  # type: ignore[attr-defined]
