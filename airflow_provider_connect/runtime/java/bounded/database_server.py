"""Queries, from outside the JVM, to the database server that a Debezium config names.

The config's author is not trusted with this host. Only servers on the network are contacted, no file that the config names is opened, and
each query has a time limit. Knows nothing of the JVM, of Connect, or of the content of queries.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from airflow_provider_connect.connectors.jdbc.database.database import Database, open_database
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.java.config.rules import ADDRESS, HOST_NAME

HOST: Final = "database.hostname"
PORT: Final = "database.port"
CONNECT_SECONDS: Final = 10
_ANSWER_SECONDS: Final = 30.0
"""The time limit for connecting, executing and receiving the answer together. A server may accept a connection and never answer."""
_OTHER_KEYS: Final = {
    "connection.url": f"{HOST} and database.dbname",
    "connection.user": "database.user",
    "connection.password": "database.password",
}

Within = Callable[[float, Callable[[], object], str], object]
"""Arguments: a number of seconds, a function, and a description. Calls the function, and raises RetriableException after that time. The
description is used in the message."""


class DatabaseServer:
    """The server at ``url``. Connects at the first query, and runs ``statements`` on each new connection."""

    def __init__(self, url: DatabaseUrl, within: Within, statements: Sequence[str] = ()) -> None:
        self.url = url
        self._within = within
        self._statements = tuple(statements)
        self._connection = _Connection()

    def row(self, sql: str) -> tuple[Any, ...]:  # Any: the values of the columns
        """The first row of the result. Raises ConnectException if there are no rows."""
        found = self.rows(sql)
        if not found:
            raise ConnectException(f"{self.url.address} returned no row")
        return found[0]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The result. A connection that was lost or does not answer is abandoned, and the next query opens a new connection. Errors name
        the keys of a Debezium config."""
        found: list[tuple[Any, ...]] = []
        try:
            connection = self._connection
            self._within(_ANSWER_SECONDS, lambda: found.extend(connection.ask(self._open, sql)), f"a query to {self.url.address}")
        except ConnectException as error:
            self.close()
            raise _with_own_keys(error) from None
        return found

    def close(self) -> None:
        connection, self._connection = self._connection, _Connection()
        connection.leave()

    def _open(self) -> Database:
        database = open_database(self.url)
        for statement in self._statements:
            database.execute(statement)
        return database


class _Connection:
    """A connection, opened by the first query. If it is abandoned during a query, the thread of that query closes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._is_asked = False
        self._is_left = False

    def ask(self, opening: Callable[[], Database], sql: str) -> list[tuple[Any, ...]]:
        self._is_asked = True
        try:
            if self._database is None:
                self._database = opening()
            return self._database.rows(sql)
        finally:
            with self._lock:
                self._is_asked = False
                if self._is_left:
                    self._close()

    def leave(self) -> None:
        with self._lock:
            self._is_left = True
            if not self._is_asked:
                self._close()

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(Exception):  # the connection may be lost
                database.close()


def non_empty_settings(config: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """``config`` over ``defaults``, with trimmed values and without empty values."""
    return {**defaults, **{key: text.strip() for key, text in config.items() if text and text.strip()}}


def server_address(given: Mapping[str, str]) -> tuple[str, int]:
    """Host and port, with an IPv6 address in brackets. Raises ConfigException if the host is not a server's name or address, or if the port
    is not a port."""
    host = given.get(HOST, "")
    if address := ADDRESS.fullmatch(host):
        host = f"[{address[1]}]"
    elif not HOST_NAME.fullmatch(host):
        raise ConfigException.of(HOST, host, "It must be the name or the address of a server.")
    port = given[PORT]
    if not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 65536:
        raise ConfigException.of(PORT, port, "It must be a number between 1 and 65535.")
    return host, int(port)


def _with_own_keys(error: ConnectException) -> ConnectException:
    """The same error with Debezium's keys, because messages name the settings of JdbcSource."""
    message = error.message
    for theirs, ours in _OTHER_KEYS.items():
        message = message.replace(theirs, ours)
    return type(error)(message)
