"""``airflow connect rest``, ``standalone``, ``dev`` and ``mirror``: servers, and the rebuild of the SQL mirror."""

import sys
from typing import Any

from airflow_provider_connect.api_server.access import AirflowAccess
from airflow_provider_connect.api_server.mirror import rebuild as rebuild_mirror
from airflow_provider_connect.cli.own_connect import airflow_herder
from airflow_provider_connect.cli.printing import print_errors
from airflow_provider_connect.cli.settings import use_database
from airflow_provider_connect.dev import stack
from airflow_provider_connect.hooks.airflow_settings import worker_properties, worker_settings
from airflow_provider_connect.rest.server import ANONYMOUS, rest_server
from airflow_provider_connect.runtime.config.config_providers import warn_open_file_providers
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from airflow_provider_connect.standalone import agent


@print_errors()
def serve_rest(arguments: Any) -> None:
    """Serve until the process ends. Worker settings define listener, TLS and users; ``--host`` and ``--port`` override them. If the
    settings define no users, Airflow's users and their rights apply. With ``--anonymous``, there is no authentication.
    """
    use_database()
    properties = worker_properties() | ({ANONYMOUS: "true"} if arguments.anonymous else {})
    with airflow_herder() as herder:
        warn_open_file_providers(herder.settings.originals)
        server = rest_server(
            properties,
            herder=lambda: herder,
            info=lambda: server_info(worker_settings()),
            access=None if arguments.anonymous else AirflowAccess.standalone(),
            host=arguments.host,
            port=arguments.port,
        )
        server.serve()


@print_errors()
def rebuild(arguments: Any) -> None:
    """Empty the tables and return. The API server's follower fills them again."""
    use_database()
    rebuild_mirror(keep_history=not arguments.drop_history)
    print("The mirror is read again from the topics by the API server, within some seconds")


def up(arguments: Any) -> None:
    """``airflow connect dev up``."""
    sys.exit(stack.up(worker=arguments.worker, only_broker=arguments.only_broker))


def status(arguments: Any) -> None:
    """``airflow connect dev status``."""
    sys.exit(stack.status(output=arguments.output))


def down(arguments: Any) -> None:
    """``airflow connect dev down``."""
    sys.exit(stack.down())


def serve_standalone(arguments: Any) -> None:
    """Run ``connect-standalone``, which needs no Airflow. Ends the process."""
    agent.main([arguments.worker, *arguments.connectors])
