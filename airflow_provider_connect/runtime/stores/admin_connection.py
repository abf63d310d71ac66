"""One admin client, and the id of its cluster. The client is created at its first use, and dropped after a timeout, or when it is no longer
used."""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from airflow_provider_connect import __version__
from airflow_provider_connect.errors import StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientConfig, ClientKind, client_config, internal_client_id
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.views import ServerView
from airflow_provider_connect.runtime.stores.kafka_errors import QUICK, LastError, kafka_error, translated, unreachable

_T = TypeVar("_T")
UNUSED_SECONDS = 30.0
_ABANDONED_SECONDS = 60.0
_AWAY = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
    }
)
"""librdkafka's codes for an answer or a connection that did not arrive in time."""


class AdminConnection:
    """See the module. Safe to share between threads."""

    def __init__(self, config: ClientConfig, timeout_seconds: float = 10.0) -> None:
        self.timeout_seconds = timeout_seconds
        self.bootstrap_servers = config.get("bootstrap.servers")
        self._last_error = LastError()
        self._config = {**QUICK, **config}
        self._client: AdminClient | None = None
        self._used = 0.0

    @classmethod
    def of(
        cls,
        settings: WorkerSettings,
        overrides: Mapping[str, str] | None = None,
        timeout_seconds: float = 10.0,
        *,
        client_id: str | None = None,
    ) -> "AdminConnection":
        """A connection with the worker's settings and a connector's ``admin.override.*`` settings without this prefix."""
        name = client_id or internal_client_id(settings, "shared-admin")
        config = client_config(settings, ClientKind.ADMIN, overrides, client_id=name)
        return cls(config, timeout_seconds)

    @property
    def client(self) -> AdminClient:
        self._used = time.monotonic()
        if self._client is None:
            self._client = AdminClient({**self._config, **self._last_error.callbacks()})
        return self._client

    @property
    def coordinator_seconds(self) -> float:
        """The timeout that a request to a group's coordinator passes to librdkafka. ``answer`` ends first, and drops the client.

        If librdkafka's own timeout ended first, it would abort the whole process as soon as it finds the coordinator (``eonce->refcnt >
        0``, issue 4605).
        """
        return self.timeout_seconds + _ABANDONED_SECONDS

    def answer(self, future: "Future[_T]", stage: str, until: float | None = None) -> _T:
        """The result of an admin request. Translates the client's exceptions to ours. ``stage`` names the step in their messages.
        ``until`` is the time of the monotonic clock at which the wait ends. None: when the connection's timeout is over."""
        try:
            return future.result(self.timeout_seconds + 1 if until is None else max(0.0, until - time.monotonic()))
        except KafkaException as error:
            raise self.failure(error, stage) from error
        except FutureTimeoutError as error:
            self.close()
            raise unreachable(self.bootstrap_servers, self.timeout_seconds, stage, self._last_error) from error

    def failure(self, error: KafkaException, stage: str) -> Exception:
        """Our exception for the client's exception: the request was refused, or not answered in time.

        A client is dropped when a request times out, with all that it still waits for.
        """
        self._last_error.raise_if_refused(stage)
        found = translated(error, stage)
        if not isinstance(found, StoreTimeoutException):
            return found
        self.close()
        cause = kafka_error(error)
        if cause is None or cause.code() not in _AWAY:
            return found
        last = self._last_error if self._last_error.error else str(cause)
        return unreachable(self.bootstrap_servers, self.timeout_seconds, stage, last)

    def close_unused(self) -> None:
        """Drop the client, with its threads and connections, if it was not used for ``UNUSED_SECONDS``. No request may be running."""
        if self._client is not None and time.monotonic() - self._used > UNUSED_SECONDS:
            self.close()

    def close(self) -> None:
        self._client = None


DISTRIBUTION = "airflow-provider-connect"


def server_info(settings: WorkerSettings) -> ServerView:
    """This server's versions, and the cluster's id, by one request. Raises StoreTimeoutException, which names the bootstrap servers."""
    return ServerView(__version__, installed_version(), kafka_cluster_id(settings))


def kafka_cluster_id(settings: WorkerSettings, timeout_seconds: float = 10.0) -> str:
    """The cluster's id, as the brokers report it."""
    connection = AdminConnection.of(settings, timeout_seconds=timeout_seconds)
    try:
        cluster = connection.answer(connection.client.describe_cluster(request_timeout=timeout_seconds), "describing the cluster")
        return str(cluster.cluster_id)
    finally:
        connection.close()


def installed_version() -> str:
    """The version of this package that is installed now, which may have been replaced since this process began."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # a checkout on the module path
        return __version__
