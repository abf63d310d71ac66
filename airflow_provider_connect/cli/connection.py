"""The Connect cluster that a command calls. Airflow's own cluster is called through a herder in this process, a server through its REST
API.

The herder and the clients have the same verbs, so a command works with both.
"""

import functools
import getpass
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow.utils.cli import suppress_logs_and_warning

from airflow_provider_connect.cli.printing import print_errors, visible
from airflow_provider_connect.cli.settings import use_database
from airflow_provider_connect.client.conversation import RetryLimits
from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.client.verbs import ConnectVerbs
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.hooks.connect import ConnectHook
from airflow_provider_connect.runtime.herder.herder import Herder

Verbs = Herder | ConnectClient | ConnectHook
_RETRY = RetryLimits(seconds=10.0)  # a user is waiting

Command = Callable[[Any, Verbs], None]


def connect_command(command: Command) -> Callable[[Any], None]:
    """Turn a command that takes verbs into an Airflow command. An error is printed to standard error, and the exit code is 1."""

    @suppress_logs_and_warning  # type: ignore[untyped-decorator]  # Airflow is not typed for us
    def run(arguments: Any) -> None:
        with print_errors(), _opened(arguments) as verbs:
            command(arguments, verbs)

    return functools.wraps(command)(run)


def server_command(command: Callable[[Any, ConnectVerbs], None]) -> Callable[[Any], None]:
    """Like ``connect_command``, for verbs that only a server has."""

    def on_server(arguments: Any, verbs: Verbs) -> None:
        if isinstance(verbs, Herder):
            raise BadRequestException("Log levels are those of a server: name it, by --url or --conn-id")
        command(arguments, verbs)

    return connect_command(functools.wraps(command)(on_server))


@contextmanager
def _opened(arguments: Any) -> Iterator[Verbs]:
    if arguments.url and arguments.conn_id:
        raise BadRequestException("Give --url or --conn-id, not both")
    if arguments.url:
        with client_of(arguments.url, arguments.user, _RETRY) as client:
            yield client
    elif arguments.conn_id:
        use_database()
        with ConnectHook(arguments.conn_id) as hook:
            yield hook
    else:
        from airflow_provider_connect.cli.own_connect import airflow_herder  # loads modules that a server does not need

        with airflow_herder() as herder:
            yield herder


def client_of(url: str, user: str | None, retry: RetryLimits) -> ConnectClient:
    """A client of the server at a URL. Prints a sentence to standard error before the first retry of a request without an answer."""
    return ConnectClient(_server_at(url, user), retry=retry, notify=lambda notice: print(visible(notice), file=sys.stderr, flush=True))


def _server_at(url: str, user: str | None) -> Server:
    """The server at a URL. ``user`` is ``NAME`` or ``NAME:PASSWORD``; asks for a missing password."""
    if user is None:
        return Server.of(url)
    login, colon, password = user.partition(":")
    return Server.of(url, login=login, password=password if colon else getpass.getpass(f"Password of {login}: "))
