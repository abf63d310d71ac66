"""What every request passes before a route is asked: who sends it, whether there is such a path and method, which forms it speaks.

Everything that is refused on the way, and everything that fails behind it, is answered here, as JSON; nothing leaves a trace of Python.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence

from anyio.lowlevel import checkpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.rest.access import Access
from airflow_provider_connect.rest.answers import HttpException, error_answer
from airflow_provider_connect.rest.calls import USER
from airflow_provider_connect.rest.paths import MOST_BYTES, canonical_path

_SHOWN_PARAMETERS = ("expand", "includeTasks", "onlyFailed", "connectorsOnly", "version", "scope", "forward")
_MEDIA_TYPE = re.compile(r"\s*([\w!#$&^.+*-]+)/([\w!#$&^.+*-]+)\s*(;.*)?", re.DOTALL)
_JSON = (("application", "json"), ("application", "*"), ("*", "*"))
_SAFE = ("GET", "HEAD", "OPTIONS")
_MOST_HEADER_BYTES = 32 * 1024
_MOST_PARAMETERS = 1000
_PIECE = 64 * 1024
"""What is sent of an answer before others have their turn: what lies between here and the network, such as compression, has none."""

log = logging.getLogger(__name__)
requests = logging.getLogger("airflow_provider_connect.rest.requests")


class RequestChecks:
    """An ASGI middleware around the app that has ``routes``."""

    def __init__(self, app: ASGIApp, *, access: Access, routes: Sequence[BaseRoute]) -> None:
        self._app, self._access, self._routes = app, access, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, answer = time.perf_counter(), _Answer(send, is_head=scope["method"] == "HEAD")
        sent = dict(scope)
        try:
            _check_size(scope)
            await self._enter(scope, receive, answer)
        except (ConnectException, HttpException) as error:
            await answer.refuse(error, scope, receive)
        except Exception:
            log.exception("%s failed", _described(sent))
            await answer.refuse(HttpException(500, "The request failed; the log of this server says why"), scope, receive)
        finally:
            level = logging.DEBUG if sent["method"] in _SAFE else logging.INFO
            requests.log(level, "%s %s %.0f ms", _described(sent), answer.status, 1000 * (time.perf_counter() - started))

    async def _enter(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        request = Request(scope, receive)
        scope[USER] = await self._access.identify(request)
        root: str = scope.get("root_path", "")
        sent: bytes = scope.get("raw_path") or scope["path"].encode()
        path = canonical_path(sent, (root, root.removeprefix(scope.get("app_root_path", ""))))
        methods = self._methods(path)
        if not methods:
            raise HttpException(404)
        if scope["method"] not in methods:
            raise HttpException(405, headers={"Allow": ",".join(sorted(methods))})
        if scope["method"] == "OPTIONS":
            headers = {"Allow": ",".join(sorted(methods))}
            await Response(headers=headers, media_type="application/json")(scope, receive, answer)
            return
        _check_forms(request)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._app({**scope, "method": method, "path": root + path}, receive, answer)

    def _methods(self, path: str) -> set[str]:
        """What may be done with the resource at ``path``; nothing, where there is none."""
        routes = [route for route in self._routes if isinstance(route, Route) and route.path_regex.match(path)]
        methods = {method for route in routes for method in route.methods or ()}
        return methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set()) if methods else set()


def _check_size(scope: Scope) -> None:
    """Not every web server limits what it reads of a head, and all that follows looks at the whole. Raises HttpException 414 or 431."""
    length = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    if length > MOST_BYTES:
        raise HttpException(414, f"Path and query are {length} bytes long, and no more than {MOST_BYTES} are read")
    parameters = scope["query_string"].count(b"&") + 1
    if parameters > _MOST_PARAMETERS:
        raise HttpException(414, f"The query has {parameters} parameters, and no more than {_MOST_PARAMETERS} are read")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > _MOST_HEADER_BYTES:
        raise HttpException(431, f"The headers are longer than {_MOST_HEADER_BYTES} bytes")


def _check_forms(request: Request) -> None:
    """Kafka Connect looks at the form of a body whether a verb takes one or not. Raises HttpException 400, 415 or 406."""
    given = request.headers.get("content-type")
    if given is not None:
        media_type = _MEDIA_TYPE.fullmatch(given)
        if media_type is None:
            raise HttpException(400, f"'{given}' is no Content-Type")
        if (media_type[1].lower(), media_type[2].lower()) not in _JSON:
            raise HttpException(415)
    wanted = [found for part in request.headers.get("accept", "").split(",") if (found := part.partition(";")[0].strip().lower())]
    if wanted and not any(tuple(one.split("/", 1)) in _JSON for one in wanted):
        raise HttpException(406)


class _Answer:
    """Sends an answer piece by piece, the head of it alone for HEAD, and remembers its status."""

    def __init__(self, send: Send, *, is_head: bool) -> None:
        self._send, self._is_head = send, is_head
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self._is_head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        rest = memoryview(message.get("body", b""))
        while len(rest) > _PIECE:
            await self._send({"type": message["type"], "body": bytes(rest[:_PIECE]), "more_body": True})
            await checkpoint()
            rest = rest[_PIECE:]
            message = {**message, "body": rest}
        await self._send({**message, "body": bytes(rest)} if "body" in message else message)

    async def refuse(self, error: ConnectException | HttpException, scope: Scope, receive: Receive) -> None:
        if self.status is None:
            await error_answer(error)(scope, receive, self)


def _described(scope: Scope) -> str:
    """Who asked for what: of the query, only parameters that are known are shown, for people put secrets anywhere."""
    client = scope.get("client") or ("-",)
    query = Request(scope).query_params.multi_items() if len(scope["query_string"]) <= MOST_BYTES else [("", "")]
    shown = "&".join(f"{name}={value[:100]!r}" if name in _SHOWN_PARAMETERS else "…" for name, value in query)
    path = (scope.get("raw_path") or scope["path"].encode())[:500].decode("ascii", "backslashreplace")
    return f"{client[0]} {scope['method'][:20]} {path}{'?' if shown else ''}{shown}"
