"""The Airflow connection type ``connect``: a Kafka cluster, and the worker settings that go with it."""

from typing import Any

from airflow.sdk import BaseHook

from airflow_provider_connect.airflow_settings import (
    CONNECTION,
    airflow_secrets,
    connection_properties,
    properties_of,
    section_properties,
    worker_variable,
)
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.settings import WorkerSettings


class ConnectHook(BaseHook):  # type: ignore[misc]  # Airflow is not typed for us
    """Reads worker settings from a Connection, with the layers around it."""

    conn_name_attr = "connect_conn_id"
    default_conn_name = CONNECTION
    conn_type = "connect"
    hook_name = "Kafka Connect"

    def __init__(self, connect_conn_id: str = CONNECTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connect_conn_id = connect_conn_id

    def get_settings(self) -> WorkerSettings:
        """The effective settings with this hook's Connection in its place between airflow.cfg and the Variable.

        Raises ConfigException naming the layer or key that is wrong.
        """
        named = None if self.connect_conn_id == CONNECTION else self.connect_conn_id
        properties = section_properties() | connection_properties(named) | worker_variable()
        return WorkerSettings.of(properties, airflow_secrets(properties))

    def get_conn(self) -> WorkerSettings:
        """The same as ``get_settings``: there is no open connection to hold."""
        return self.get_settings()

    def test_connection(self) -> tuple[bool, str]:
        """Whether Kafka answers at the Connection's address. Called by the Test button, with a Connection that need not be saved."""
        from airflow_provider_connect.server_info import kafka_cluster_id  # loads the Kafka client: not where hooks are listed

        try:
            properties = section_properties() | properties_of(self.get_connection(self.connect_conn_id))
            settings = WorkerSettings.of(properties, airflow_secrets(properties))
            cluster = kafka_cluster_id(settings)
        except ConnectException as error:
            return False, error.message
        return True, f"Kafka cluster {cluster} answers at {settings.bootstrap_servers}"
