"""The Airflow connection type ``connect``: a Connect cluster's REST API, and its Kafka cluster with the worker settings.

::

    hook = ConnectHook("orders_cluster")  # a Connection with host http://connect:8083: a real Kafka Connect, or this provider elsewhere
    hook.pause("orders")

Without a URL in the Connection, verbs go to the Connect server in Airflow's own API server. Tasks then need a user of Airflow:
``rest.login`` and ``rest.password`` in the Connection's extra.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar, cast

from airflow.sdk import BaseHook
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_connect.client.calls import Call
from airflow_provider_connect.client.conditions import Condition, LagBelow, Verdict
from airflow_provider_connect.client.conversation import RetryLimits
from airflow_provider_connect.client.rest_client import AsyncConnectClient, ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.client.verbs import AsyncConnectVerbs, ConnectVerbs
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException, NotFoundException, UnauthorizedException
from airflow_provider_connect.hooks.airflow_settings import (
    CONNECTION,
    airflow_secrets,
    connection_properties,
    default_properties,
    extra_properties,
    is_url,
    names_brokers,
    properties_of,
    section_properties,
    worker_settings,
    worker_variable,
)
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings

T = TypeVar("T")

_MOUNTED_AT = "/connect"
_TEST_SECONDS = 20.0


class _ConnectionHook(BaseHook):  # type: ignore[misc]  # Airflow is not typed for us
    """A hook of one Connection. It reads the Connection when the first verb is called."""

    def __init__(self, connect_conn_id: str = CONNECTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connect_conn_id = connect_conn_id
        self._client: Any = None  # ConnectClient or AsyncConnectClient

    @contextmanager
    def _advice(self) -> Iterator[None]:
        """Add the Connection's name to errors. Only the default Connection may be missing."""
        try:
            yield
        except UnauthorizedException as error:
            raise UnauthorizedException(
                f"{error.message}: in Connection {self.connect_conn_id}, as login and password where its host is a URL, else as rest.login "
                "and rest.password in its extra"
            ) from error
        except AirflowNotFoundException as error:
            if self.connect_conn_id != CONNECTION:
                raise NotFoundException(
                    f"Connection {self.connect_conn_id} does not exist: create it with type 'connect', or correct connect_conn_id"
                ) from error


class ConnectHook(_ConnectionHook, ConnectVerbs):
    """Has a method with a typed result for each verb of Connect (see ``ConnectVerbs``).

    ``get_settings`` returns the worker settings, including this Connection's. The first verb reads the Connection. If you create many
    hooks, close each of them, or use each in a ``with`` statement.
    """

    conn_name_attr = "connect_conn_id"
    default_conn_name = CONNECTION
    conn_type = "connect"
    hook_name = "Kafka Connect"

    def get_conn(self) -> ConnectClient:
        """The client of the server that the Connection names, created once. Raises ConfigException for an invalid Connection."""
        if self._client is None:
            connection = None
            with self._advice():
                connection = self.get_connection(self.connect_conn_id)
            self._client = ConnectClient(rest_server(connection))
        client: ConnectClient = self._client
        return client

    def carry_out(self, call: Call[T]) -> T:
        client = self.get_conn()
        with self._advice():
            return client.carry_out(call)

    def look(self, condition: Condition | LagBelow) -> Verdict:
        """The current verdict on ``condition``."""
        try:
            seen = self.sink_lag(condition.connector) if isinstance(condition, LagBelow) else self.carry_out(condition.call())
        except NotFoundException:
            seen = None
        return condition.evaluate(seen)

    def sink_lag(self, name: str) -> dict[TopicPartition, int | None]:
        """The number of uncommitted records of a sink in each partition. None: unknown, because the committed offset is beyond the end of
        the partition. Also asks Kafka, at the brokers of this Connection's worker settings. Raises ConfigException if they are not the
        Connect cluster's Kafka."""
        from airflow_provider_connect.runtime.stores.sink_lag import sink_lag  # loads the Kafka client

        return sink_lag(self.get_settings(), self.server_info(), self.connector_config(name), self.offsets(name))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_settings(self) -> WorkerSettings:
        """The effective worker settings with this hook's Connection between airflow.cfg and the Variable.

        Raises ConfigException, which names the invalid layer or key.
        """
        return effective_settings(self.connect_conn_id)

    def test_connection(self) -> tuple[bool, str]:
        """Whether Connect answers at the Connection's URL, or without a URL, Kafka at its brokers. The Test button calls this, perhaps with
        an unsaved Connection."""
        try:
            connection = self.get_connection(self.connect_conn_id)
            return True, _server_answers(rest_server(connection)) if has_url(connection) else _kafka_answers(connection)
        except ConnectException as error:
            return False, error.message


class AsyncConnectHook(_ConnectionHook, AsyncConnectVerbs):
    """Has the verbs of ``ConnectHook`` as coroutines, for triggers. Use it in an ``async with`` statement."""

    async def get_conn(self) -> AsyncConnectClient:
        """The client of the server that the Connection names, created once."""
        if self._client is None:
            connection = None
            with self._advice():
                connection = await self.aget_connection(self.connect_conn_id)
            self._client = AsyncConnectClient(rest_server(connection))
        client: AsyncConnectClient = self._client
        return client

    async def carry_out(self, call: Call[T]) -> T:
        client = await self.get_conn()
        with self._advice():
            return await client.carry_out(call)

    async def look(self, condition: Condition | LagBelow) -> Verdict:
        """The current verdict on ``condition``."""
        try:
            seen = await (self.sink_lag(condition.connector) if isinstance(condition, LagBelow) else self.carry_out(condition.call()))
        except NotFoundException:
            seen = None
        return condition.evaluate(seen)

    async def sink_lag(self, name: str) -> dict[TopicPartition, int | None]:
        """As ``ConnectHook.sink_lag``. A thread asks Kafka."""
        from airflow_provider_connect.runtime.stores.sink_lag import sink_lag  # loads the Kafka client

        verbs = cast(AsyncConnectVerbs, self)  # Airflow is not typed for us, so this may be anything to mypy
        server, config, offsets = await verbs.server_info(), await verbs.connector_config(name), await verbs.offsets(name)
        return await asyncio.to_thread(sink_lag, effective_settings(self.connect_conn_id), server, config, offsets)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def rest_server(connection: Any | None) -> Server:
    """The Connect server of an Airflow Connection of type ``connect``: at the Connection's URL, or in Airflow's own API server.
    ``connection`` None: there is no Connection.

    The URL is the host, if the host begins with ``http``, or ``rest.url`` in the extra. Login and password are then the server's, unless
    the host names Kafka's brokers. ``rest.login`` with ``rest.password``, or ``rest.token``, override them. Raises ConfigException if the
    text is not a URL.
    """
    if connection is None:
        return Server.of(own_url())
    extra = extra_properties(connection)
    login, password = (None, None) if names_brokers(connection) else (connection.login or None, connection.password)
    if "rest.login" in extra:
        login, password = extra["rest.login"], extra.get("rest.password", "")
    return Server.of(
        _url(connection, extra.get("rest.url")),
        login=login,
        password=password,
        token=extra.get("rest.token"),
        ca_file=extra.get("rest.ca.file"),
    )


def _url(connection: Any, given: str | None) -> str:
    if given is not None:
        return given
    if not is_url(connection.host or ""):
        return own_url()
    host = connection.host.strip()
    scheme, _, rest = host.partition("://")
    address, slash, path = rest.partition("/")
    has_port = address.rpartition(":")[2].isdecimal() and not address.endswith("]")
    return host if has_port or not connection.port else f"{scheme}://{address}:{connection.port}{slash}{path}"


def own_url() -> str:
    """The URL of Connect in Airflow's own API server: at the address that tasks already use, otherwise at the public address."""
    public = conf.get("api", "base_url", fallback="") or f"http://localhost:{conf.get('api', 'port', fallback='8080')}"
    if public.startswith("/"):  # Airflow also accepts a path alone
        public = f"http://localhost:{conf.get('api', 'port', fallback='8080')}{public}"
    execution = conf.get("core", "execution_api_server_url", fallback="") or ""
    reached = execution.rstrip("/").removesuffix("/execution") if is_url(execution) else public
    return f"{reached.rstrip('/')}{_MOUNTED_AT}"


def has_url(connection: Any) -> bool:
    """Whether the Connection itself has the server's URL."""
    return "rest.url" in extra_properties(connection) or is_url(connection.host or "")


def effective_settings(conn_id: str) -> WorkerSettings:
    """The worker settings with this Connection between airflow.cfg and the Variable."""
    if conn_id == CONNECTION:
        return worker_settings()
    properties = default_properties() | section_properties() | connection_properties(conn_id) | worker_variable()
    return WorkerSettings.of(properties, airflow_secrets(properties))


def _server_answers(server: Server) -> str:
    with ConnectClient(server, retry=RetryLimits(seconds=0), timeout_seconds=_TEST_SECONDS) as client:
        found, count = client.server_info(), len(client.connectors())  # the second request also needs a right
    return f"Kafka Connect {found.version} with {count} connectors answers at {server.url}; its Kafka cluster is {found.kafka_cluster_id}"


def _kafka_answers(connection: Any) -> str:
    # loads the Kafka client, so not when hooks are listed
    from airflow_provider_connect.runtime.stores.admin_connection import kafka_cluster_id

    properties = section_properties() | properties_of(connection)
    settings = WorkerSettings.of(properties, airflow_secrets(properties))
    return f"Kafka cluster {kafka_cluster_id(settings)} answers at {settings.bootstrap_servers}"
