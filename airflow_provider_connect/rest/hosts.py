"""By which names a server on a port of its own may be addressed (the Host header). Knows no users and no routes.

A foreign web page can have its own name lead to this machine (DNS rebinding). The browser then takes this server for the page's own, and
only the name in the Host header shows it. Addresses are no names: no page can have one that is not its server's.
"""

import socket
from collections.abc import Iterable
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from airflow_provider_connect.rest.errors import HttpException, error_answer

ALLOWED_HOSTS = "rest.allowed.hosts"
"""Ours: further names by which clients may address the server, separated by commas; ``*`` for any."""


class KnownHosts:
    """An ASGI middleware: answers 421 for a Host that is none of ``names``, no address, and not this machine's own name."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = {"localhost", socket.gethostname().lower(), *(name.lower().rstrip(".") for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_known(Headers(scope=scope).getlist("host")):
            message = f"This server is not known by the name in the Host header: name it in {ALLOWED_HOSTS}"
            await error_answer(HttpException(421, message))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_known(self, hosts: list[str]) -> bool:
        """A client of HTTP/1.0 need not send the header; browsers do, once."""
        return "*" in self._names or all(len(hosts) == 1 and self._is_known_name(host) for host in hosts)

    def _is_known_name(self, host: str) -> bool:
        name = _without_port(host.strip().lower()).rstrip(".")
        return not name or name in self._names or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
