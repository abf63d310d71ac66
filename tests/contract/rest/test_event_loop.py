"""No request holds the event loop: what is measured is the processor time that its thread takes between two of its turns.

Processor time of that one thread, and not the clock: how busy the machine is matters little. A request that holds the loop does so each
time it is asked; what the thread did besides (the collector, the kernel's work on its pages) does not come three times.
"""

import asyncio
import contextlib
import gc
import gzip
import http.client
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from airflow_provider_connect.rest import page
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.bodies import MOST_BYTES
from airflow_provider_connect.rest.server import RestListener, RestServer
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.verbs import VERBS, Verb
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from tests.samples import sample
from tests.waiting import HANG_SECONDS

MOST_SECONDS = 0.05
TIMES = 10
PREFIX = "/connect"
JSON = {"Content-Type": "application/json"}


@dataclass
class Loop:
    """A server whose event loop is watched."""

    url: str = ""
    turns: list[float] = field(default_factory=list)

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Status and body of the answer; while it was made, no turn of the loop took longer than it may, or not each of ten times."""
        longest = []
        for _ in range(TIMES):
            try:
                answer = self._asked(method, path, body, headers)
            except ConnectionResetError:  # a refusal that came before all was sent may be lost with the connection
                continue
            longest.append(max(self.turns, default=0.0))
            if 0 < longest[-1] < MOST_SECONDS:
                return answer
        raise AssertionError(f"{method} {path[:80]} held the loop for {longest} s")

    def _asked(self, method: str, path: str, body: bytes | None, headers: dict[str, str] | None) -> tuple[int, bytes]:
        self.turns.clear()
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=HANG_SECONDS)
        try:
            with contextlib.suppress(BrokenPipeError):  # a refusal may come before the whole body is sent
                connection.request(method, PREFIX + path, body, {**({} if body is None else JSON), **(headers or {})})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        time.sleep(0.02)
        return response.status, answer

    @asynccontextmanager
    async def watched(self, app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(self._watch())
        yield
        task.cancel()

    async def _watch(self) -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            self.turns.append(now - before)
            before = now


@pytest.fixture(scope="module")
def loop(herder: Herder) -> Iterator[Loop]:
    """The app mounted and compressed as Airflow's API server does it."""
    loop = Loop()
    outer = FastAPI(lifespan=loop.watched)
    outer.mount(PREFIX, create_app(herder=lambda: herder, access=OpenToAll(), info=lambda: server_info(herder.settings), has_page=True))
    outer.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    with RestServer(outer, RestListener(port=0)) as server:
        loop.url = server.url
        loop.ask("GET", "/connectors")
        gc.freeze()  # the collector may run in the loop's thread, and would go through all that the tests themselves have loaded
        yield loop
        gc.unfreeze()


def filled(before: bytes, piece: bytes, after: bytes) -> bytes:
    """As long as a body may be."""
    return before + piece * ((MOST_BYTES - len(before) - len(after)) // len(piece)) + after


ENTRY = b'{"partition":{"a":1},"offset":null},'
BODIES = {
    "nested objects": b'{"a":' * 150_000 + b"1" + b"}" * 150_000,
    "nested arrays": filled(b"", b"[", b""),
    "nested partitions": b'{"offsets":[{"partition":' + b'{"a":' * 30 + b"1" + b"}" * 30 + b"}]}",
    "many keys": json.dumps({f"k{number}": "v" for number in range(60_000)}).encode(),
    "many short keys": json.dumps({f"{number:x}": 0 for number in range(100_000)}, separators=(",", ":")).encode(),
    "a config of many keys": json.dumps({"name": "x", "config": {f"{number:x}": "" for number in range(80_000)}}).encode(),
    "hidden values": json.dumps({f"p{number}": "[hidden]" for number in range(50_000)}).encode(),
    "a whole number": filled(b'{"a":', b"9", b"}"),
    "a fraction": filled(b'{"offsets":[{"partition":{"a":0.', b"9", b"}}]}"),
    "an exponent": filled(b'{"offsets":[{"partition":{"a":1e', b"9", b"}}]}"),
    "escapes": filled(b'{"a":"', b"\\u0061", b'"}'),
    "half pairs": filled(b'{"a":"', b"\\ud800", b'"}'),
    "a text": filled(b'{"connector.class":"', b"x", b'"}'),
    "white space": filled(b"{", b" ", b"}"),
    "lines": filled(b"{", b"\n", b"x"),
    "many offsets": filled(b'{"offsets":[', ENTRY, b'{"partition":{"a":1}}]}'),
    "aliases": b'{"connector.class":"FileStreamSource","transforms":"' + b"a," * 100_000 + b'"}',
    "no UTF-8": filled(b'{"a":"', b"\xc3\xa4", b"\xff"),
    "not the end of it": filled(b'{"a":"', b'","b":"', b""),
}
FEW = ("nested objects", "many keys", "not the end of it")
"""For verbs that read no body."""

CHANGES = [verb for verb in VERBS.values() if verb.method in ("POST", "PUT", "PATCH")]
READS = [
    *(verb.path for verb in VERBS.values() if verb.method == "GET"),
    *("/metrics", "/openapi.json"),
    *(route.path for router in (page.router, page.page_router) for route in router.routes if isinstance(route, Route)),
]


def path_of(path: str, connector: str) -> str:
    """Of a verb or a route. A parameter of a new kind gets its value here."""
    return path.format_map({"connector": connector, "task": "0", "plugin": "FileStreamSource", "logger": "no.such.logger"})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("verb", sample(CHANGES, *range(0, len(CHANGES), 4)), ids=lambda verb: verb.name)
def test_no_body_holds_the_loop(loop: Loop, verb: Verb) -> None:
    described = json.loads(loop.ask("GET", "/openapi.json")[1])["paths"][verb.path][verb.method.lower()]
    for name in BODIES if "requestBody" in described else FEW:
        status, answer = loop.ask(verb.method, path_of(verb.path, "nobody"), BODIES[name])
        assert 400 <= status < 500 or verb.name in ("validate", "preview", "reset_active_topics"), (name, status, answer[:200])


def test_no_read_holds_the_loop(loop: Loop) -> None:
    """Each with a connector's name and a query as long as they may be."""
    number = "9" * 400
    for path in READS:
        asked = f"{path_of(path, '%41' * 1000)}?limit={number}&before={number}&dag={number}&expand=info&{'a&' * 100}"
        status, answer = loop.ask("GET", asked, headers={"Accept": "*/*"})
        assert status in (200, 400, 404), (path, status, answer[:200])


def test_no_path_query_or_header_holds_the_loop(loop: Loop) -> None:
    assert loop.ask("GET", "/connectors/" + "%41" * 2500 + "/status")[0] == 404
    assert loop.ask("GET", "/connectors/" + "a/" * 3500)[0] == 404
    assert loop.ask("GET", "/" + "a" * 30_000)[0] == 414
    assert loop.ask("GET", "/connectors?" + "expand=info&" * 600)[0] == 200
    assert loop.ask("GET", "/connectors?" + "a&" * 900)[0] == 200
    assert loop.ask("GET", "/connectors?" + "a&" * 4000)[0] == 414
    assert loop.ask("GET", "/connectors?" + "a&" * 15_000)[0] == 414
    assert loop.ask("GET", "/connectors", headers={"Accept": "a," * 14_000})[0] == 406
    assert loop.ask("GET", "/connectors", headers={"Cookie": "a=b;" * 12_000})[0] == 431
    assert loop.ask("GET", "/connectors", headers={f"X-{number}": "x" for number in range(90)})[0] == 200


def test_a_body_is_refused_when_it_is_known_to_be_too_long(loop: Loop) -> None:
    """By its declared length before any of it is sent, and without one at the first byte too many."""
    address = urlsplit(loop.url)
    chunks = (b"10000\r\n" + b" " * 65536 + b"\r\n") * 16 + b"1\r\n \r\n"
    for head, sent in ((b"Content-Length: 1048577\r\n", b""), (b"Transfer-Encoding: chunked\r\n", chunks)):
        with socket.create_connection((address.hostname, address.port or 80), timeout=HANG_SECONDS) as client:
            client.sendall(
                b"PUT /connect/connectors/x/config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + head + b"\r\n"
            )
            client.sendall(sent)
            response = http.client.HTTPResponse(client)
            response.begin()
            answer = json.loads(response.read())
        assert response.status == 413
        assert answer == {"error_code": 413, "message": "The body is longer than 1048576 bytes"}


def test_a_body_of_the_greatest_length_is_taken(loop: Loop) -> None:
    body = filled(b"{" + b",".join(b'"k%d":"%s"' % (number, b"x" * 250_000) for number in range(4)) + b',"a":"', b"x", b'"}')
    assert len(body) == MOST_BYTES
    assert loop.ask("PATCH", "/connectors/nobody/config", body)[0] == 404


def test_slow_clients_delay_no_other_client(loop: Loop) -> None:
    address = urlsplit(loop.url)
    clients = [socket.create_connection((address.hostname, address.port or 80), timeout=HANG_SECONDS) for _ in range(30)]
    try:
        for client in clients:
            client.sendall(b"PUT /connect/connectors/x/config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n")
            client.sendall(b"Content-Type: application/json\r\n\r\n{")
        assert loop.ask("GET", "/connectors")[0] == 200
        assert loop.ask("PUT", "/connectors/nobody/pause", b"")[0] == 404
    finally:
        for client in clients:
            client.close()


def test_no_answer_holds_the_loop(loop: Loop, herder: Herder) -> None:
    config = {"connector.class": "FileStreamSource", "topic": "t", "file": "/tmp/none"}
    loggers = [logging.getLogger(f"no.such.logger.{number}") for number in range(2000)]
    names = [f"large-{number}" for number in range(12)]
    for name in names:
        herder.create_connector(name, {**config, **{f"k{number}": "v" * 60 for number in range(4000)}}, TargetState.STOPPED)
    try:
        for path in (*(path_of(each, "large-0") for each in READS), "/connectors?expand=info&expand=status"):
            for encoding in ("identity", "gzip"):
                status, answer = loop.ask("GET", path, headers={"Accept-Encoding": encoding, "Accept": "*/*"})
                assert status < 500, (path, status, answer[:200])
        for encoding in ("identity", "gzip"):
            answer = loop.ask("GET", "/connectors/large-0/config", headers={"Accept-Encoding": encoding})[1]
            assert len(json.loads(gzip.decompress(answer) if encoding == "gzip" else answer)) == 4004
        whole = json.loads(loop.ask("GET", "/connectors?expand=info")[1])
        assert len(whole["large-3"]["info"]["config"]) == 4004
    finally:
        for name in names:
            herder.delete_connector(name)
    assert len(loggers) == 2000
