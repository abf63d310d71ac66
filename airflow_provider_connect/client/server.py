"""A Connect server for a client: its base URL, the user, and the trusted certificates."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from airflow_provider_connect.client.calls import Answer, Call
from airflow_provider_connect.client.conversation import Lost
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.http.bounded_body import PACKED
from airflow_provider_connect.sdk.http.rest_client import tls_context

_JSON = {"Accept": "application/json", "Accept-Encoding": PACKED, "User-Agent": "airflow-provider-connect"}
_CONNECT_SECONDS = 10.0
# These errors occur before the request is sent, so the server cannot have executed it.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class Server:
    """``url`` has no credentials and no trailing slash. Use ``login`` with ``password`` for HTTP Basic, or a bearer ``token``."""

    url: str
    login: str | None = None
    password: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    @classmethod
    def of(
        cls, url: str, *, login: str | None = None, password: str | None = None, token: str | None = None, ca_file: str | None = None
    ) -> "Server":
        """``login:password@`` in the URL is used if no login is given. Raises ConfigException for text that is not an HTTP URL."""
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigException.of("url", _without_login(url), f"it cannot be read: {error}") from error
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise ConfigException.of("url", _without_login(url), "give an address such as http://connect:8083 or https://airflow/connect")
        if login is None and parts.username is not None:
            login, password = unquote(parts.username), unquote(parts.password or "")
        address = f"[{host}]" if ":" in host else host
        address = address if port is None else f"{address}:{port}"
        return cls(urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", "")), login, password or "", token, ca_file)

    def client_arguments(self, timeout_seconds: float) -> dict[str, Any]:
        """Arguments of either httpx client. Raises ConfigException if the file of certificates cannot be read."""
        headers: Mapping[str, str] = _JSON if self.token is None else {**_JSON, "Authorization": f"Bearer {self.token}"}
        return {
            "auth": None if self.login is None or self.token is not None else httpx.BasicAuth(self.login, self.password),
            "headers": headers,
            "timeout": httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, _CONNECT_SECONDS)),
            "verify": self._certificates(),
            "follow_redirects": False,
        }

    def request_arguments(self, call: Call[Any]) -> dict[str, Any]:
        """Arguments of one request of either client."""
        arguments: dict[str, Any] = {"method": call.verb.method, "url": f"{self.url}{call.path}"}
        if call.query:
            arguments["params"] = list(call.query)
        if call.body is not None:
            arguments["json"] = call.body
        return arguments

    def _certificates(self) -> ssl.SSLContext:
        if self.ca_file is None:
            return tls_context()
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigException.of("ca_file", self.ca_file, f"the certificates cannot be read: {error}") from error


def answer_of(response: httpx.Response) -> Answer:
    """The answer. A JSON body is parsed."""
    if not response.content:
        return Answer(response.status_code)
    try:
        return Answer(response.status_code, response.json(), headers=response.headers)
    except (ValueError, RecursionError):
        return Answer(response.status_code, text=response.text)


def lost(error: httpx.RequestError) -> Lost:
    """The outcome of a request without an answer."""
    reason = str(error) or type(error).__name__
    return Lost(reason, was_sent=not isinstance(error, _NOT_SENT))


def _without_login(url: str) -> str:
    return url.rpartition("@")[2]
