"""The checks of every request before its route: its user, whether the path and method exist, its media types.

This module answers every refusal and every failure of a route, as JSON without a Python trace.

A connector's name may contain any character, so the path is split before it is decoded. Frameworks decode the whole path first, so
``a%2Fb`` would be two segments. In the canonical form for the routes, every segment is percent-encoded. The canonical form has no trailing
slash and no matrix parameters (``;…``); Kafka Connect drops both, too.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Sequence
from urllib.parse import quote, unquote_to_bytes

from anyio.lowlevel import checkpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.rest.access import SAFE_METHODS, Access
from airflow_provider_connect.rest.answers import HttpException, error_answer
from airflow_provider_connect.rest.calls import USER
from airflow_provider_connect.runtime.model.verbs import VERBS

_SHOWN_PARAMETERS = {name for verb in VERBS.values() for name in verb.query} | {"forward"}  # which Kafka Connect's workers send each other
_MEDIA_TYPE = re.compile(r"\s*([\w!#$&^.+*-]+)/([\w!#$&^.+*-]+)\s*(;.*)?", re.DOTALL)
_JSON = (("application", "json"), ("application", "*"), ("*", "*"))
_MOST_HEADER_BYTES = 32 * 1024
_MOST_PARAMETERS = 1000
_PIECE = 64 * 1024
"""Bytes of an answer that are sent before the event loop serves other requests. Compressing the whole answer would block the event loop."""

MOST_BYTES = 8192
_NOT_ENCODED = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_ENCODED = re.compile("(%[0-9A-Fa-f]{2})")
_LEFT_AS_IS = "/;:@!$&'()*+,=~"

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
            log.exception("%s failed", _describe(sent))
            await answer.refuse(HttpException(500, "The request failed; its reason is in the log of this server"), scope, receive)
        finally:
            level = logging.DEBUG if sent["method"] in SAFE_METHODS else logging.INFO
            requests.log(level, "%s %s %.0f ms", _describe(sent), answer.status, 1000 * (time.perf_counter() - started))

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
        """The allowed methods of the resource at ``path``; empty if it does not exist."""
        routes = [route for route in self._routes if isinstance(route, Route) and route.path_regex.match(path)]
        methods = {method for route in routes for method in route.methods or ()}
        return methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set()) if methods else set()


def _check_size(scope: Scope) -> None:
    """Limit the size of a request's head: some web servers do not, and the next checks read it completely. Raises HttpException 414 or
    431."""
    length = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    if length > MOST_BYTES:
        raise HttpException(414, f"Path and query are {length} bytes long, and no more than {MOST_BYTES} are read")
    parameters = scope["query_string"].count(b"&") + 1
    if parameters > _MOST_PARAMETERS:
        raise HttpException(414, f"The query has {parameters} parameters, and no more than {_MOST_PARAMETERS} are read")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > _MOST_HEADER_BYTES:
        raise HttpException(431, f"The headers are longer than {_MOST_HEADER_BYTES} bytes")


def _check_forms(request: Request) -> None:
    """Check media types, even for verbs without a body, as in Kafka Connect. Raises HttpException 400, 415 or 406."""
    given = request.headers.get("content-type")
    if given is not None:
        media_type = _MEDIA_TYPE.fullmatch(given)
        if media_type is None:
            raise HttpException(400, f"'{given}' is not a Content-Type")
        if (media_type[1].lower(), media_type[2].lower()) not in _JSON:
            raise HttpException(415)
    wanted = [found for part in request.headers.get("accept", "").split(",") if (found := part.partition(";")[0].strip().lower())]
    if wanted and not any(tuple(one.split("/", 1)) in _JSON for one in wanted):
        raise HttpException(406)


class _Answer:
    """Sends an answer in pieces, and keeps the answer's status. For a HEAD request, sends only the head."""

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


def _describe(scope: Scope) -> str:
    """The client's address and the request, with known query parameters only, because others may be secret."""
    client = scope.get("client") or ("-",)
    query = Request(scope).query_params.multi_items() if len(scope["query_string"]) <= MOST_BYTES else [("", "")]
    shown = "&".join(f"{name}={value[:100]!r}" if name in _SHOWN_PARAMETERS else "…" for name, value in query)
    path = (scope.get("raw_path") or scope["path"].encode())[:500].decode("ascii", "backslashreplace")
    return f"{client[0]} {scope['method'][:20]} {path}{'?' if shown else ''}{shown}"


def canonical_path(sent: bytes, prefixes: Iterable[str] = ()) -> str:
    """The canonical form of the path ``sent``. If the path begins with one of ``prefixes``, this prefix is removed.

    Raises HttpException: 414 if the path is too long, 400 if a segment is empty, leads up the tree, or does not decode to text.
    """
    if len(sent) > MOST_BYTES:
        raise HttpException(414, f"The path is {len(sent)} bytes long, and no more than {MOST_BYTES} are read")
    for prefix in prefixes:
        below = sent.removeprefix(quote(prefix).encode())
        if below != sent and below[:1] in (b"", b"/"):
            sent = below
            break
    segments = sent.split(b"/")[1:]
    if segments[-1:] == [b""]:
        segments.pop()
    return "/" + "/".join(quote(_text(segment.partition(b";")[0]), safe="") for segment in segments)


def _text(segment: bytes) -> str:
    if not segment:
        raise HttpException(400, "The path has an empty segment: remove the slash that is too many")
    if _NOT_ENCODED.search(segment):
        raise HttpException(400, "The path has a % that two hexadecimal digits do not follow: write %25 for the character itself")
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise HttpException(400, "The path is not UTF-8 once its % are decoded") from None
    if _CONTROL.search(text):
        raise HttpException(400, "The path has a control character")
    if text in (".", ".."):
        raise HttpException(404 if segment == text.encode() else 400)
    return text


def location_segment(name: str) -> str:
    """``name`` as in a Location header of Kafka Connect. Characters that a path allows, and text that looks encoded (``%2F``), are
    unchanged. A leading slash is dropped."""
    parts = _ENCODED.split(name.removeprefix("/"))
    return "".join(part if number % 2 else quote(part, safe=_LEFT_AS_IS) for number, part in enumerate(parts))
