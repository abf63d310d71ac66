"""Requests to one REST API, limited in time, size, rate and number of redirects. All requests go to the host of the base URL.

Neither responses nor the config are trusted. URLs in a response are not followed to another host, and no message contains a query, a user
name or a secret. httpx is imported when a client is created.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self

from airflow_provider_connect.data.json_text import MAX_DEPTH, SHORTEST_BEYOND, depth_of
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.http.bounded_body import MOST_BYTES, PACKED, BoundedBody
from airflow_provider_connect.sdk.http.credentials import Credentials
from airflow_provider_connect.sdk.http.pages import Position
from airflow_provider_connect.sdk.required_packages import RequiredPackages

PACKAGES: Final = RequiredPackages("A REST source", ("httpx",), "http")
REQUEST_SECONDS: Final = 300.0  # from the request to the end of the response's body
MOST_REDIRECTS: Final = 5
MOST_RETRY_AFTER_SECONDS: Final = 3600.0
_LEAST_OF_A_SECRET: Final = 8  # characters; a shorter secret could equal a page number
_SHOWN: Final = 200  # characters of an error's body in messages
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class RefusedException(ConnectException):
    """The API refused a request, and would refuse it again. ``status`` is the HTTP status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful response. ``links`` has the URLs of the header ``Link`` by relation; ``url`` is the URL after redirects; ``headers`` has
    names in lower case. ``body`` is None for an empty body."""

    body: Any  # JSON
    links: Mapping[str, str]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Received:
    status: int
    headers: Mapping[str, str]
    links: Mapping[str, str]
    content: bytes


def http_library() -> Any:
    """Import ``httpx``. Raises ConfigException if it is not installed."""
    PACKAGES.require("base.url", "[hidden]")
    library = import_module("httpx")
    logging.getLogger("httpx").addFilter(_without_query)
    logging.getLogger("httpcore.http11").addFilter(_without_headers)
    return library


@cache
def tls_context() -> ssl.SSLContext:
    """The context that trusts the usual authorities. One per process, because reading all certificates takes 25 ms of CPU time."""
    context: ssl.SSLContext = http_library().create_ssl_context()
    return context


def _without_query(record: logging.LogRecord) -> bool:
    """Remove the query from httpx's log records: httpx logs the URL of each request, and the URL may contain an API key."""
    if isinstance(record.args, tuple):
        record.args = tuple(_shown_url(each) if hasattr(each, "raw_path") else each for each in record.args)
    return True


def _without_headers(record: logging.LogRecord) -> bool:
    """Drop httpcore's DEBUG log records with the headers of a response: a link in them may repeat an API key."""
    return "receive_response_headers.complete" not in str(record.msg)


def _shown_url(url: Any) -> str:
    """An httpx URL without user name, query and fragment."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{_raw_path(url)}"


def _raw_path(url: Any) -> str:
    """The path as it is sent, still percent-encoded."""
    path: str = url.raw_path.decode("ascii").partition("?")[0]
    return path


def _links(response: Any) -> dict[str, str]:
    """The URLs of the header ``Link`` by relation, in lower case. One link may have several relations (RFC 8288).

    Sentry marks links to pages without rows by ``results="false"``. Such links are left out."""
    found: dict[str, str] = {}
    for link in response.links.values():
        if link.get("results") == "false":
            continue
        for relation in link.get("rel", "").lower().split():
            found.setdefault(relation, link["url"])
    return found


class RateLimit:
    """Limits the requests per second of all clients that share it. None: no limit."""

    def __init__(self, per_second: float | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._interval = 0.0 if per_second is None else 1 / per_second
        self._now = now
        self._next_at = 0.0

    def wait_seconds(self) -> float:
        """The seconds that the next request must wait; 0 or less if it may be sent now."""
        return self._next_at - self._now()

    def count(self) -> None:
        """Note that a request is sent."""
        self._next_at = max(self._next_at, self._now()) + self._interval


class RestClient:
    """Sends requests to one API, one at a time. As a context manager it closes the connections at its end."""

    def __init__(
        self,
        base_url: str,
        credentials: Credentials,
        *,
        headers: Mapping[str, str] | None = None,
        limit: RateLimit | None = None,
        timeout_seconds: float = 30.0,
        request_seconds: float | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._library = http_library()
        self._base = self._library.URL(base_url)
        self._origin = f"{self._base.scheme}://{self._base.netloc.decode('ascii')}"
        self._credentials = credentials
        self._limit = limit or RateLimit()
        self._request_seconds = request_seconds
        self._most_bytes = most_bytes
        sent = {"Accept": "application/json", "Accept-Encoding": PACKED, "User-Agent": "airflow-provider-connect", **(headers or {})}
        self._new_client: Callable[[], Any] = partial(self._library.Client, timeout=timeout_seconds, headers=sent, verify=tls_context())
        self._client = self._new_client()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.close()

    def wait_seconds(self) -> float:
        """The seconds by which the rate limit delays the next request; 0 or less if it may be sent now."""
        return self._limit.wait_seconds()

    def target_of(self, path: str) -> str:
        """The path of a resource below the base URL, with its query if it has one."""
        return f"{_raw_path(self._base).rstrip('/')}/{path.lstrip('/')}"

    def target_of_url(self, url: str, answered: str) -> str:
        """The path and query of a URL in a response, without credentials. The URL may be relative to ``answered``, the URL of the request.

        Raises ConnectException for another host, which must not get the credentials."""
        try:
            found = self._library.URL(answered).join(url)
        except (self._library.InvalidURL, ValueError, TypeError) as error:
            raise ConnectException(f"The URL of the next page in a response of {self._base.host} is not valid") from error
        is_same_port = found.port == self._base.port or (_is_default_port(found) and _is_default_port(self._base))
        if found.host != self._base.host or not is_same_port:
            other = found.netloc.decode("ascii")
            raise ConnectException(f"A response of {self._base.host} leads to another host, {other}, which is not followed")
        secrets = {secret for secret in self._credentials.secrets if len(secret) >= _LEAST_OF_A_SECRET}
        repeated = [name for name, value in found.params.multi_items() if value in secrets]  # offsets keep links, and are visible
        for name in (*self._credentials.params, *repeated):
            found = found.copy_remove_param(name)
        return str(found.raw_path.decode("ascii"))

    def get(self, target: str, params: Mapping[str, Position]) -> Answer:
        """Request ``target``, a path and optional query, with additional parameters.

        Raises RetriableException for transient errors: lost connections, timeouts, the statuses 408, 425, 429, 500, 502 to 504, and 403
        with ``Retry-After``. The exception has the wait that the response asks for. Raises RefusedException for any other status, and
        DataException for a body that is not JSON. An empty body of the statuses 200 and 204 is None."""
        self._limit.count()
        received, url = self._redirected(target, params)
        if received.status == 401 and self._credentials.renew():
            received, url = self._redirected(target, params)
        title = f"GET {_shown_url(url)}"
        self._raise_for_status(received, title)
        is_empty = received.status == 204 or (received.status == 200 and not received.content.strip())
        body = None if is_empty else self._parsed(received.content, title)
        return Answer(body, received.links, str(url), dict(received.headers))

    def _redirected(self, target: str, params: Mapping[str, Position]) -> tuple[_Received, Any]:
        try:
            url = self._url(target).copy_merge_params(params) if params else self._url(target)
        except (self._library.InvalidURL, UnicodeError) as error:  # a position from a response; the message must not repeat it
            path = target.partition("?")[0]
            raise ConnectException(f"GET {path!r:.200}: the position of the page is not valid in a URL: {type(error).__name__}") from None
        for _ in range(MOST_REDIRECTS + 1):
            headers = self._credentials.headers(self._token)
            sent = url.copy_merge_params(self._credentials.params) if self._credentials.params else url
            received = self._received("GET", sent, headers)
            location = received.headers.get("location")
            if received.status not in _REDIRECTS or location is None:
                return received, url
            url = self._url(self.target_of_url(location, str(url)))
        raise ConnectException(f"GET {_shown_url(url)}: more than {MOST_REDIRECTS} redirects")

    def _url(self, target: str) -> Any:
        if not target.startswith("/"):
            raise ConnectException(f"A page's position in the offset must be a path that begins with '/', got {target!r}")
        return self._library.URL(f"{self._origin}{target}")

    def _token(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Any:
        parsed = self._library.URL(url)
        received = self._received("POST", parsed, headers, form)
        title = f"POST {_shown_url(parsed)}"
        self._raise_for_status(received, title, shows_body=False)
        return self._parsed(received.content, title)

    def _received(self, method: str, url: Any, headers: Mapping[str, str], form: Mapping[str, str] | None = None) -> _Received:
        """Send one request. After the time limit the connections are closed, because httpx's own timeout restarts with each byte."""
        client, is_over = self._client, threading.Event()
        seconds = self._request_seconds or REQUEST_SECONDS

        def end() -> None:
            is_over.set()
            client.close()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            return self._sent(method, url, headers, form)
        except Exception:
            if not is_over.is_set():
                raise
            raise RetriableException(f"{method} {_shown_url(url)}: the response has not arrived within {seconds:.0f} s") from None
        finally:
            timer.cancel()
            timer.join()
            if is_over.is_set():
                self._client = self._new_client()

    def _sent(self, method: str, url: Any, headers: Mapping[str, str], form: Mapping[str, str] | None) -> _Received:
        """Translate httpx's errors, without their URLs. ``from None``, because a trace would show the cause's text."""
        title = f"{method} {_shown_url(url)}"
        try:
            request = self._client.build_request(method, url, headers=dict(headers), data=None if form is None else dict(form))
            response = self._client.send(request, stream=True)
            try:
                content = self._content(response, title)
                return _Received(response.status_code, response.headers, _links(response), content)
            finally:
                response.close()
        except (self._library.LocalProtocolError, self._library.UnsupportedProtocol) as error:
            raise ConnectException(f"{title}: {self._text_of(error)}") from None
        except self._library.TransportError as error:
            raise RetriableException(f"{title}: {self._text_of(error)}") from None
        except (self._library.HTTPError, self._library.InvalidURL, self._library.StreamError) as error:
            raise ConnectException(f"{title}: {self._text_of(error)}") from None

    def _content(self, response: Any, title: str) -> bytes:
        encoding, is_error = response.headers.get("content-encoding", ""), not response.is_success
        body = BoundedBody(encoding, title=title, most_bytes=self._most_bytes, hint="; ask for smaller pages", is_error=is_error)
        content = b"".join(map(body.take, response.iter_raw()))
        body.end()
        return content

    def _raise_for_status(self, received: _Received, title: str, *, shows_body: bool = True) -> None:
        status = received.status
        if 200 <= status < 300:
            return
        message = f"{title}: status {status}"
        text = self._credentials.mask(received.content[:100_000].decode("utf-8", "replace")) if shows_body else ""
        if text.strip():
            message += ": " + "".join(c if c.isprintable() else " " for c in text[:_SHOWN])
        seconds = retry_after_seconds(received.headers.get("retry-after"), datetime.now(UTC))
        if status not in _TRANSIENT and (status != 403 or seconds is None):  # some APIs limit rates with 403
            raise RefusedException(message, status=status)
        raise RetriableException(message, retry_after_ms=None if seconds is None else seconds * 1000)

    def _text_of(self, error: Exception) -> str:
        return f"{type(error).__name__}: {self._credentials.mask(str(error))}"

    @staticmethod
    def _parsed(content: bytes, title: str) -> Any:
        try:
            if len(content) < SHORTEST_BEYOND or depth_of(content) <= MAX_DEPTH:
                return json.loads(content, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:  # also for wrong encodings and numbers that are too long
            raise DataException(f"{title}: the body is not JSON: {type(error).__name__}") from None
        raise DataException(f"{title}: the body has more than {MAX_DEPTH} levels of objects and arrays")


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _is_default_port(url: Any) -> bool:
    return url.scheme in _DEFAULT_PORTS and url.port in (None, _DEFAULT_PORTS[url.scheme])


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """The header ``Retry-After`` in seconds, at most an hour. It may be a number or a date (RFC 9110, 10.2.3). None: missing or invalid."""
    text = (header or "").strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:20]), MOST_RETRY_AFTER_SECONDS)
    try:
        at = parsedate_to_datetime(text)
    except (OverflowError, ValueError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max((at - now).total_seconds(), 0.0), MOST_RETRY_AFTER_SECONDS)
