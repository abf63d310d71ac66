"""``airflow connect rest``: Connect's REST API in a process of its own, beside Airflow's API server and with the same users."""

from typing import Any

from airflow_provider_connect.api_server.access import AirflowAccess
from airflow_provider_connect.cli.connection import airflow_herder
from airflow_provider_connect.cli.printing import errors_printed
from airflow_provider_connect.cli.settings import use_database
from airflow_provider_connect.hooks.airflow_settings import worker_properties, worker_settings
from airflow_provider_connect.rest.server import ANONYMOUS, rest_server
from airflow_provider_connect.stores.server_info import server_info


@errors_printed()
def serve(arguments: Any) -> None:
    """Serves until the process is ended. Listener, TLS and users are those of the worker settings; ``--host`` and ``--port`` win. Where the
    settings name no users, Airflow's own have their rights here; ``--anonymous`` asks for none.
    """
    use_database()
    properties = worker_properties() | ({ANONYMOUS: "true"} if arguments.anonymous else {})
    with airflow_herder() as herder:
        server = rest_server(
            properties,
            herder=lambda: herder,
            info=lambda: server_info(worker_settings()),
            access=None if arguments.anonymous else AirflowAccess.alone(),
            host=arguments.host,
            port=arguments.port,
        )
        server.serve()
