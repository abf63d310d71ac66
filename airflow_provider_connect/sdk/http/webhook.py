"""Requests that other systems send to a port. Each is answered when its record is committed.

Senders are strangers: size, number and duration of their requests are limited. uvicorn is imported when the port is opened.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk.config_type import Password
from airflow_provider_connect.sdk.required_packages import RequiredPackages
from airflow_provider_connect.sdk.task import SourceTaskContext

PACKAGES: Final = RequiredPackages("A webhook", ("uvicorn",), "http")
MOST_BYTES: Final = 128 << 10  # six times as many as JSON, Kafka's default max.message.bytes still accepts
MOST_PATH_BYTES: Final = 8 << 10
MOST_WAITING_BYTES: Final = 64 << 20
MOST_CONNECTIONS: Final = 256
BODY_SECONDS: Final = 30.0
HEAD_SECONDS: Final = 30.0
_METHODS: Final = ("POST", "PUT", "PATCH")
_MOST_IN_BATCH: Final = 500
_WAIT_SECONDS, _STEP_SECONDS = 0.5, 0.1
_BIND_SECONDS: Final = 10.0  # the task before this one may not have closed the port yet
_SHUTDOWN_SECONDS: Final = 1

_Scope = Mapping[str, Any]
_Receive = Callable[[], Awaitable[Mapping[str, Any]]]
_Send = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A received request. ``headers`` has lower-case names; of a repeated header, the last value. ``query`` has no question mark."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    answer: Future[bool] = field(default_factory=Future, repr=False, compare=False)
    """True: its record is committed. False: the task ends before that."""

    @property
    def text(self) -> str:
        """The body as UTF-8, with replacement characters for other bytes."""
        return self.body.decode(errors="replace")


def webhook(
    context: SourceTaskContext, port: int, *, host: str = "127.0.0.1", token: Password | None = None, most_bytes: int = MOST_BYTES
) -> Iterator[list[WebhookRequest]]:
    """Listen on ``port`` of the address ``host``, until the task has to end. Yields the requests that have arrived, and an empty list after
    half a second without one. What is yielded next by the caller has to be the records of these requests.

    Requests are POST, PUT or PATCH. With ``token``, they need the header ``Authorization: Bearer «token»``. The answer is 200 as soon as
    the record is committed; 503 if the task ends before that, or if too many requests wait: the sender has to repeat it, as after no
    answer. Refused requests get 401, 405, 408, 413 (the body has more than ``most_bytes``) or 414.

    Raises RetriableException if the port is in use.
    """
    if context.is_preview:
        return
    receiver = _Receiver(None if token is None else token.value, most_bytes)
    with _Server(receiver, host, port):
        try:
            while not context.stopping():
                requests = receiver.take(context.stopping)
                if requests:
                    context.after_commit(partial(_answer, requests))
                yield requests
        finally:
            receiver.close()


def _answer(requests: list[WebhookRequest]) -> None:
    for request in requests:
        if not request.answer.done():  # a sender may have gone
            request.answer.set_result(True)


class _Receiver:
    """The ASGI application, and the requests that it has received and not answered."""

    def __init__(self, token: str | None, most_bytes: int) -> None:
        self._token = token
        self._most_bytes = most_bytes
        self._arrived = SimpleQueue[WebhookRequest]()
        self._unanswered: set[Future[bool]] = set()
        self._lock = threading.Lock()
        self._bytes = 0
        self._is_closed = False

    def take(self, stopping: Callable[[], bool]) -> list[WebhookRequest]:
        """The requests that have arrived. Waits for the first."""
        until, requests = time.monotonic() + _WAIT_SECONDS, list[WebhookRequest]()
        while not requests and time.monotonic() < until and not stopping():
            with suppress(Empty):
                requests.append(self._arrived.get(timeout=_STEP_SECONDS))
        with suppress(Empty):
            while requests and len(requests) < _MOST_IN_BATCH:
                requests.append(self._arrived.get_nowait())
        return requests

    def close(self) -> None:
        """Answer all waiting requests with 503."""
        with self._lock:
            self._is_closed = True
            waiting = list(self._unanswered)
        for answer in waiting:
            with suppress(Exception):  # answered meanwhile
                answer.set_result(False)

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            return
        status = self._refusal(scope)
        if status is None:
            status = await self._received(scope, receive)
        headers = [(b"content-length", b"0")]
        if status == 503:
            headers.append((b"retry-after", b"1"))
        if status == 405:
            headers.append((b"allow", ", ".join(_METHODS).encode()))
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _refusal(self, scope: _Scope) -> int | None:
        """The status of a request that is refused without its body. None: it is accepted."""
        if self._token is not None:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self._token.encode()):
                return 401
        if scope["method"] not in _METHODS:
            return 405
        return 414 if len(scope["path"]) + len(scope["query_string"]) > MOST_PATH_BYTES else None

    async def _received(self, scope: _Scope, receive: _Receive) -> int:
        """Receive the body, and wait for the commit of the request's record. Returns the status of the answer."""
        body = bytearray()
        try:
            refusal = await self._refused_body(receive, body)
            return await self._committed(scope, bytes(body)) if refusal is None else refusal
        finally:
            self._reserve(-len(body))

    async def _refused_body(self, receive: _Receive, body: bytearray) -> int | None:
        """Receive the body into ``body``, whose bytes are then reserved. The status of a body that is refused. None: it is whole."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return 400  # the sender has gone
                    piece = message.get("body", b"")
                    if len(body) + len(piece) > self._most_bytes:
                        return 413
                    if not self._reserve(len(piece)):
                        return 503
                    body += piece
                    if not message.get("more_body", False):
                        return None
        return 408

    async def _committed(self, scope: _Scope, body: bytes) -> int:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        headers.pop("authorization", None)
        query = scope["query_string"].decode("latin-1")
        request = WebhookRequest(scope["method"], scope["path"], query, headers, body)
        with self._lock:
            if self._is_closed:
                return 503
            self._unanswered.add(request.answer)
        try:
            self._arrived.put(request)
            return 200 if await asyncio.wrap_future(request.answer) else 503
        finally:
            with self._lock:
                self._unanswered.discard(request.answer)

    def _reserve(self, size: int) -> bool:
        """Count bytes of bodies. False: too many are waiting, or the task ends."""
        with self._lock:
            if size > 0 and (self._is_closed or self._bytes + size > MOST_WAITING_BYTES):
                return False
            self._bytes += size
            return True


class _Server:
    """Serves ``receiver`` in a thread, while the context is open."""

    def __init__(self, receiver: _Receiver, host: str, port: int) -> None:
        if (reason := PACKAGES.reason()) is not None:
            raise ConnectException(reason)
        import uvicorn

        self._socket = _listening(host, port)
        config = uvicorn.Config(
            receiver,
            http=_bounded_protocol(),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name=f"webhook-{port}", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(_SHUTDOWN_SECONDS + 1)
        self._socket.close()


def _bounded_protocol() -> type[asyncio.Protocol]:
    """uvicorn's protocol with h11, which bounds the bytes of a request's head. uvicorn itself bounds neither the number of connections
    without a request nor the time in which a head has to arrive."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class BoundedProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > MOST_CONNECTIONS:
                transport.abort()
            else:
                self._look_again(object())

        def _look_again(self, before: object) -> None:
            self.loop.call_later(HEAD_SECONDS, self._close_idle, before)

        def _close_idle(self, before: object) -> None:
            """Close the connection if no request has begun since the last look, and none is being answered."""
            if self.transport.is_closing():
                return
            is_idle = self.cycle is None or self.cycle.response_complete
            if is_idle and self.cycle in (None, before):
                self.transport.close()
            else:
                self._look_again(self.cycle)

    return BoundedProtocol


def _listening(host: str, port: int) -> socket.socket:
    until = time.monotonic() + _BIND_SECONDS
    while True:
        try:
            return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            if time.monotonic() > until:
                raise RetriableException(f"Port {port} of {host} cannot be opened: {error}") from error
        time.sleep(_STEP_SECONDS)
