"""The REST server on a port of its own: where it listens, TLS and users by Kafka Connect's worker settings, run in or beside a thread.

On the loopback interface unless ``listeners`` names another address, and then only for users, unless the settings open it to all.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.rest.access import Access, OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.basic_access import CREDENTIALS, BasicAccess, credentials_file, users_of
from airflow_provider_connect.rest.hosts import ALLOWED_HOSTS, KnownHosts
from airflow_provider_connect.rest.tls import Tls, tls_of
from airflow_provider_connect.stores.server_info import ServerInfo

PORT = 8083
LOOPBACK = "127.0.0.1"
ANONYMOUS = "rest.anonymous.access"
"""Ours: ``true`` opens a server without users to all who reach it."""
_METHODS = ("GET", "POST", "HEAD")
_START_SECONDS = 30.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestListener:
    """Where to listen; ``port`` 0 takes a free one. ``origins`` may call from a browser's page; ``names`` are those by which clients may
    address the server, besides its addresses and the machine's own name.
    """

    host: str = LOOPBACK
    port: int = PORT
    tls: Tls | None = None
    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = _METHODS
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, worker: Mapping[str, str], *, host: str | None = None, port: int | None = None) -> RestListener:
        """From worker settings: ``listeners``, ``ssl.*`` and ``listeners.https.ssl.*``, ``access.control.allow.*``, ``rest.allowed.hosts``
        and ``rest.advertised.host.name``; arguments win.

        Raises ConfigException.
        """
        given = _names(worker, "listeners") or (f"http://{LOOPBACK}:{PORT}",)
        if len(given) > 1:
            raise ConfigException.of("listeners", ",".join(given), "one listener is served; name one")
        url = _parsed(given[0])
        return cls(
            host=host if host is not None else (url.hostname or "0.0.0.0"),
            port=port if port is not None else (PORT if url.port is None else url.port),
            tls=tls_of(worker) if url.scheme == "https" else None,
            origins=_names(worker, "access.control.allow.origin"),
            methods=_names(worker, "access.control.allow.methods") or _METHODS,
            names=(*_names(worker, "rest.advertised.host.name"), *_names(worker, ALLOWED_HOSTS)),
        )

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def _names(worker: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in worker.get(key, "").split(",") if part.strip())


def _parsed(listener: str) -> _Url:
    try:
        url = urlsplit(listener if "://" in listener else f"http://{listener}")
        found = _Url(url.scheme.lower(), url.hostname, url.port)
    except ValueError as error:
        raise ConfigException.of("listeners", listener, str(error)) from error
    if found.scheme not in ("http", "https"):
        raise ConfigException.of("listeners", listener, "Listener protocol must be http or https")
    return found


@dataclass(frozen=True, slots=True)
class _Url:
    scheme: str
    hostname: str | None
    port: int | None


def access_of(worker: Mapping[str, str], listener: RestListener, *, otherwise: Access | None = None) -> Access:
    """Users by HTTP Basic where the settings name them, else ``otherwise``. Without one, all who reach the port may do everything: where
    the settings open it to them, or only this machine reaches it.

    Raises ConfigException for other extensions, for credentials that cannot be read, and for a server that would be open by accident.
    """
    file = credentials_file(worker)
    if file is not None:
        return BasicAccess(users_of(file), listener.origins)
    is_opened = worker.get(ANONYMOUS, "false").strip().lower()
    if is_opened not in ("true", "false"):
        raise ConfigException.of(ANONYMOUS, is_opened, "Expected value to be either true or false")
    if is_opened == "true":
        log.warning("All who reach %s:%s may do everything: %s is true", listener.host, listener.port, ANONYMOUS)
        return OpenToAll(listener.origins)
    if otherwise is not None:
        return otherwise
    if not listener.is_local:
        raise ConfigException(
            f"The REST server would be open to all who reach {listener.host}:{listener.port}: name users in {CREDENTIALS}, listen on "
            f"{LOOPBACK}, or set {ANONYMOUS}=true"
        )
    return OpenToAll(listener.origins)


class RestServer:
    """One app on one listener. ``serve`` runs it until the process is told to end; as a context manager it runs in a thread."""

    def __init__(self, app: FastAPI, listener: RestListener) -> None:
        if listener.origins:
            app.add_middleware(CORSMiddleware, allow_origins=listener.origins, allow_methods=listener.methods, allow_headers=["*"])
        app.add_middleware(KnownHosts, names=(listener.host, *listener.names))  # outermost: preflights too
        self._listener = listener
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                host=listener.host,
                port=listener.port,
                http="h11",  # httptools refuses methods that it does not know before the app can answer
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=5,
                **({} if listener.tls is None else listener.tls.uvicorn_settings()),
            )
        )

    @property
    def url(self) -> str:
        """The base of the API, once it is started."""
        port = self._server.servers[0].sockets[0].getsockname()[1]
        host = f"[{self._listener.host}]" if ":" in self._listener.host else self._listener.host
        return f"{'http' if self._listener.tls is None else 'https'}://{host}:{port}"

    def serve(self) -> None:
        """Returns when the process has been told to end."""
        self._server.run()

    def __enter__(self) -> RestServer:
        """Raises ConnectException when it cannot be started."""
        self._thread = threading.Thread(target=self._server.run, name="connect-rest", daemon=True)
        self._thread.start()
        until = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                raise ConnectException(f"The REST server cannot listen on {self._listener.host}:{self._listener.port}")
            time.sleep(0.01)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)


def rest_server(
    worker: Mapping[str, str],
    *,
    herder: Callable[[], Herder],
    info: Callable[[], ServerInfo],
    access: Access | None = None,
    host: str | None = None,
    port: int | None = None,
) -> RestServer:
    """The server that the worker settings ``worker`` describe. ``access`` has the users where they name none. Raises ConfigException."""
    listener = RestListener.of(worker, host=host, port=port)
    who = access_of(worker, listener, otherwise=access)
    return RestServer(create_app(herder=herder, access=who, info=info, has_admin=worker.get("admin.listeners") != ""), listener)
