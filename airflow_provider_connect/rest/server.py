"""The REST server on its own port. Kafka Connect's worker settings define its address, host names, TLS and users.

Runs in the calling thread or in its own thread. Listens on the loopback interface unless ``listeners`` names another address. Another
address needs users, unless the settings allow anonymous access.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.rest.access import Access, OpenToAll
from airflow_provider_connect.rest.answers import HttpException, error_answer
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.basic_access import CREDENTIALS, BasicAccess, credentials_file, read_users
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.views import ServerView

PORT = 8083
LOOPBACK = "127.0.0.1"
ANONYMOUS = "rest.anonymous.access"
"""Our own setting: ``true`` allows every client to do everything on a server without users."""
ALLOWED_HOSTS = "rest.allowed.hosts"
"""Our own setting: further host names by which clients may address the server, separated by commas; ``*`` for any name."""
_METHODS = ("GET", "POST", "HEAD")
_HTTPS_PREFIX = "listeners.https."
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_PEM_HINT = "only PEM files are read: openssl pkcs12 -in store.p12 -out store.pem -nodes makes one"
_START_SECONDS = 300.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestListener:
    """The address to listen on; ``port`` 0 is a free port. Pages of ``origins`` may call the server. ``names`` are host names of the
    server, in addition to its addresses and the machine's own name.
    """

    host: str = LOOPBACK
    port: int = PORT
    tls: Tls | None = None
    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = _METHODS
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, worker: Mapping[str, str], *, host: str | None = None, port: int | None = None) -> RestListener:
        """The listener that the worker settings describe: ``listeners``, ``ssl.*`` and ``listeners.https.ssl.*``,
        ``access.control.allow.*``, ``rest.allowed.hosts`` and ``rest.advertised.host.name``. Arguments override them.

        Raises ConfigException.
        """
        given = _names(worker, "listeners") or (f"http://{LOOPBACK}:{PORT}",)
        if len(given) > 1:
            raise ConfigException.of("listeners", ",".join(given), "one listener is served; name one")
        scheme, named_host, named_port = _parse(given[0])
        return cls(
            host=host if host is not None else (named_host or "0.0.0.0"),
            port=port if port is not None else (PORT if named_port is None else named_port),
            tls=load_tls(worker) if scheme == "https" else None,
            origins=_names(worker, "access.control.allow.origin"),
            methods=_names(worker, "access.control.allow.methods") or _METHODS,
            names=(*_names(worker, "rest.advertised.host.name"), *_names(worker, ALLOWED_HOSTS)),
        )

    @property
    def is_local(self) -> bool:
        """Whether the listener can be reached only from this machine."""
        address = _address(self.host)
        return self.host == "localhost" if address is None else address.is_loopback


def _names(worker: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in worker.get(key, "").split(",") if part.strip())


def _parse(listener: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port."""
    try:
        url = urlsplit(listener if "://" in listener else f"http://{listener}")
        found = url.scheme.lower(), url.hostname, url.port
    except ValueError as error:
        raise ConfigException.of("listeners", listener, str(error)) from error
    if found[0] not in ("http", "https"):
        raise ConfigException.of("listeners", listener, "Listener protocol must be http or https")
    return found


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form: the server's certificates and key (one file may have both), and the authorities of trusted clients."""

    certificates: str
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    trusted: str | None = None
    client_auth: ssl.VerifyMode = ssl.CERT_NONE

    def uvicorn_settings(self) -> dict[str, Any]:
        return {
            "ssl_certfile": self.certificates,
            "ssl_keyfile": self.key,
            "ssl_keyfile_password": self.key_password,
            "ssl_ca_certs": self.trusted,
            "ssl_cert_reqs": int(self.client_auth),
        }


def load_tls(worker: Mapping[str, str]) -> Tls:
    """The TLS files from the worker settings, with Connect's keys: ``listeners.https.ssl.*``, or otherwise ``ssl.*``.

    Raises ConfigException for settings that are missing, or that need a store in a format of Java.
    """
    plain = {key: value for key, value in worker.items() if key.startswith("ssl.")}
    given = plain | {key.removeprefix(_HTTPS_PREFIX): value for key, value in worker.items() if key.startswith(f"{_HTTPS_PREFIX}ssl.")}
    for store in ("keystore", "truststore"):
        kind, location = given.get(f"ssl.{store}.type"), given.get(f"ssl.{store}.location", "")
        if (kind or "PEM").upper() != "PEM" or (kind is None and location and not location.endswith((".pem", ".crt", ".cer"))):
            raise ConfigException.of(f"ssl.{store}.type", kind, _PEM_HINT)
    client_auth = given.get("ssl.client.auth", "none").strip().lower()
    if client_auth not in _CLIENT_AUTH:
        raise ConfigException.of("ssl.client.auth", client_auth, f"String must be one of: {', '.join(_CLIENT_AUTH)}")
    certificates = given.get("ssl.keystore.location") or _file_with(given.get("ssl.keystore.certificate.chain"))
    if certificates is None:
        raise ConfigException.of("ssl.keystore.location", None, "an https listener needs a PEM file with its certificate and key")
    trusted = given.get("ssl.truststore.location") or _file_with(given.get("ssl.truststore.certificates"))
    if trusted is None and client_auth != "none":
        raise ConfigException.of("ssl.truststore.location", None, "clients must send certificates, and none would be trusted")
    return Tls(
        certificates=certificates,
        key=_file_with(given.get("ssl.keystore.key")),
        key_password=given.get("ssl.key.password") or given.get("ssl.keystore.password"),
        trusted=trusted,
        client_auth=_CLIENT_AUTH[client_auth],
    )


def _file_with(text: str | None) -> str | None:
    """The path of a file with ``text`` in this process's memory, because the ssl module reads only files. The file is not on disk,
    disappears with the process, and cannot be opened by other users."""
    if not text:
        return None
    descriptor = os.memfd_create("connect-rest.pem")
    with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as file:
        file.write(text.replace("\\n", "\n"))
    return f"/proc/self/fd/{descriptor}"


def create_access(worker: Mapping[str, str], listener: RestListener, *, otherwise: Access | None = None) -> Access:
    """HTTP Basic if the settings name users; access without users if the settings allow it; else ``otherwise``. Without ``otherwise``,
    every client of a local listener may do everything.

    Raises ConfigException for an extension other than Kafka Connect's own, for unreadable credentials, and for a server that would be open
    by accident.
    """
    file = credentials_file(worker)
    if file is not None:
        return BasicAccess(read_users(file), listener.origins)
    is_opened = worker.get(ANONYMOUS, "false").strip().lower()
    if is_opened not in ("true", "false"):
        raise ConfigException.of(ANONYMOUS, is_opened, "Expected value to be either true or false")
    if is_opened == "true":
        log.warning("Every client of %s:%s may do everything: %s is true", listener.host, listener.port, ANONYMOUS)
        return OpenToAll(listener.origins)
    if otherwise is not None:
        return otherwise
    if not listener.is_local:
        raise ConfigException(
            f"The REST server would be open to every client of {listener.host}:{listener.port}: name users in {CREDENTIALS}, listen on "
            f"{LOOPBACK}, or set {ANONYMOUS}=true"
        )
    return OpenToAll(listener.origins)


class RestServer:
    """One app on one listener. ``serve`` runs it until the process is asked to end. The context manager runs it in a thread."""

    def __init__(self, app: FastAPI, listener: RestListener) -> None:
        if listener.origins:
            app.add_middleware(CORSMiddleware, allow_origins=listener.origins, allow_methods=listener.methods, allow_headers=["*"])
        app.add_middleware(KnownHosts, names=(listener.host, *listener.names))  # outermost, so it also checks preflights
        self._listener = listener
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                host=listener.host,
                port=listener.port,
                http="h11",  # httptools refuses unknown methods before the app can answer
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=5,
                **({} if listener.tls is None else listener.tls.uvicorn_settings()),
            )
        )

    @property
    def url(self) -> str:
        """The base URL of the API, once the server has started."""
        port = self._server.servers[0].sockets[0].getsockname()[1]
        host = f"[{self._listener.host}]" if ":" in self._listener.host else self._listener.host
        return f"{'http' if self._listener.tls is None else 'https'}://{host}:{port}"

    def serve(self) -> None:
        """Serve until the process is asked to end."""
        self._server.run()

    def __enter__(self) -> RestServer:
        """Start the server. Raises ConnectException."""
        self._thread = threading.Thread(target=self._server.run, name="connect-rest", daemon=True)
        self._thread.start()
        until = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive():
                raise ConnectException(f"The REST server cannot listen on {self._listener.host}:{self._listener.port}")
            if time.monotonic() > until:
                raise ConnectException(f"The REST server did not start within {_START_SECONDS:g} s: this host is slow or busy")
            time.sleep(0.01)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)


class KnownHosts:
    """An ASGI middleware. Answers 421 unless the header Host is in ``names``, or is an address or this machine's own name.

    A foreign web page can make its host name resolve to this machine (DNS rebinding). The browser then treats this server as the page's
    own; only the Host header shows the foreign name. An address cannot be misused in this way.
    """

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
        """Whether all hosts are known. An HTTP/1.0 client may omit the header; browsers send exactly one."""
        return "*" in self._names or all(len(hosts) == 1 and self._is_known_name(host) for host in hosts)

    def _is_known_name(self, host: str) -> bool:
        name = _without_port(host.strip().lower()).rstrip(".")
        return not name or name in self._names or _address(name) is not None


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def rest_server(
    worker: Mapping[str, str],
    *,
    herder: Callable[[], Herder],
    info: Callable[[], ServerView],
    access: Access | None = None,
    host: str | None = None,
    port: int | None = None,
) -> RestServer:
    """The server that the worker settings describe. ``access`` is used if the settings name no users. Raises ConfigException."""
    listener = RestListener.of(worker, host=host, port=port)
    who = create_access(worker, listener, otherwise=access)
    app = create_app(herder=herder, access=who, info=info, has_admin=worker.get("admin.listeners") != "", has_page=True)
    return RestServer(app, listener)
