"""``airflow connect mirror rebuild``: the tables that mirror Connect's topics, read anew from them."""

import sys
from typing import Any

from airflow_provider_connect.api_server.mirror import rebuild as rebuild_mirror
from airflow_provider_connect.cli.settings import use_database
from airflow_provider_connect.errors import ConnectException


def rebuild(arguments: Any) -> None:
    """Returns once the tables are empty; the API server's follower fills them."""
    use_database()
    try:
        rebuild_mirror(keep_history=not arguments.drop_history)
    except ConnectException as error:
        sys.exit(error.message)
    print("The mirror is read again from the topics by the API server, within some seconds")
