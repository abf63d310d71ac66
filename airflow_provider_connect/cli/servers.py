"""``airflow connect rest|standalone``: Connect in a process of its own, beside Airflow's API server or without any of it."""

import sys
from typing import Any

from airflow_provider_connect.airflow_settings import worker_properties, worker_settings
from airflow_provider_connect.cli.connection import airflow_herder
from airflow_provider_connect.cli.settings import use_database
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.rest.server import rest_server
from airflow_provider_connect.server_info import server_info
from airflow_provider_connect.standalone import agent


def rest(arguments: Any) -> None:
    """Serves until it is told to end. Listener, TLS and users are those of the worker settings; ``--host`` and ``--port`` win."""
    use_database()
    try:
        properties = worker_properties()
        with airflow_herder() as herder:
            server = rest_server(
                properties, herder=lambda: herder, info=lambda: server_info(worker_settings()), host=arguments.host, port=arguments.port
            )
            server.serve()
    except ConnectException as error:
        sys.exit(error.message)


def standalone(arguments: Any) -> None:
    """As ``connect-standalone``, which needs no Airflow; ends the process."""
    agent.main([arguments.worker, *arguments.connectors])
