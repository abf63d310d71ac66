"""``airflow connect mirror rebuild``: the tables that mirror Connect's topics, read anew from them."""

from typing import Any

from airflow_provider_connect.api_server.mirror import rebuild as rebuild_mirror
from airflow_provider_connect.cli.printing import errors_printed
from airflow_provider_connect.cli.settings import use_database


@errors_printed()
def rebuild(arguments: Any) -> None:
    """Returns once the tables are empty; the API server's follower fills them."""
    use_database()
    rebuild_mirror(keep_history=not arguments.drop_history)
    print("The mirror is read again from the topics by the API server, within some seconds")
