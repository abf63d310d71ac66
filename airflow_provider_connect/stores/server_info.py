"""This package's version and the Kafka cluster, as in Kafka Connect's answer to ``GET /`` (contract §3.7)."""

from importlib.metadata import PackageNotFoundError, version

from airflow_provider_connect import __version__
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.model.views import ServerView
from airflow_provider_connect.stores.admin_connection import AdminConnection

DISTRIBUTION = "airflow-provider-connect"


def server_info(settings: WorkerSettings) -> ServerView:
    """Asks the broker once. Raises StoreTimeoutException naming the bootstrap servers when it does not answer."""
    return ServerView(__version__, _installed_version(), kafka_cluster_id(settings))


def kafka_cluster_id(settings: WorkerSettings, timeout_seconds: float = 10.0) -> str:
    """The id that the brokers gave their cluster."""
    connection = AdminConnection.of(settings, timeout_seconds=timeout_seconds)
    try:
        cluster = connection.answer(connection.client.describe_cluster(request_timeout=timeout_seconds), "describing the cluster")
        return str(cluster.cluster_id)
    finally:
        connection.close()


def _installed_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # a checkout on the path
        return __version__
