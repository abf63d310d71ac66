"""What Airflow loads into each of its processes: a name, and for the API server alone the mounted app with the reconciler beside it.

Airflow evaluates ``fastapi_apps`` in the API server only, so nothing else is imported before that.
"""

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_connect.api_server.prefix import BarePrefix

URL_PREFIX = "/connect"


class ConnectPlugin(AirflowPlugin):  # type: ignore[misc]  # Airflow is not typed for us
    """Mounts the REST server at ``/connect``."""

    name = "connect"

    @cached_property
    def operator_extra_links(self) -> list[Any]:
        """Asked for where the UI's links are made."""
        from airflow_provider_connect.dag_files.links import ConnectorStatusLink

        return [ConnectorStatusLink()]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """Called in the API server, and by ``airflow plugins``."""
        from airflow_provider_connect.api_server.app import build_app  # loads FastAPI and the Kafka client

        return [{"app": build_app(), "url_prefix": URL_PREFIX, "name": "Kafka Connect REST"}]

    @cached_property
    def fastapi_root_middlewares(self) -> list[dict[str, Any]]:
        """Clients ask for the address they were given, which may end without a slash."""
        return [{"middleware": BarePrefix, "kwargs": {"prefix": URL_PREFIX}, "name": "Kafka Connect REST"}]
