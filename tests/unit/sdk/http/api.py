"""A REST API on loopback, whose answers a test decides."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(slots=True)
class Asked:
    """One request."""

    path: str
    params: dict[str, str]
    headers: dict[str, str]
    form: dict[str, str]

    def __str__(self) -> str:
        return self.path + ("?" if self.params else "") + "&".join(f"{name}={value}" for name, value in self.params.items())


@dataclass(slots=True)
class Answered:
    """``body``: bytes as they are, anything else as JSON."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Answers = Callable[[Asked], Any]


@dataclass(slots=True)
class Api:
    """``answer`` returns an ``Answered``, or its body. ``asked`` has the requests so far."""

    url: str
    answer: Answers
    asked: list[Asked] = field(default_factory=list)

    def targets(self) -> list[str]:
        return [str(each) for each in self.asked]


@contextmanager
def running() -> Iterator[Api]:
    api = Api("", lambda asked: Answered("nothing is here", 404))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            params, form = ({n: v[0] for n, v in parse_qs(text).items()} for text in (parts.query, body))
            asked = Asked(parts.path, params, {name.lower(): value for name, value in self.headers.items()}, form)
            api.asked.append(asked)
            given = api.answer(asked)
            answered = given if isinstance(given, Answered) else Answered(given)
            content = answered.body if isinstance(answered.body, bytes) else json.dumps(answered.body).encode()
            self.send_response(answered.status)
            for name, value in answered.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
