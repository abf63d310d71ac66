"""``airflow connect standalone``: Connect in a process of its own, without Airflow's servers."""

from typing import Any

from airflow_provider_connect.standalone import agent


def serve(arguments: Any) -> None:
    """As ``connect-standalone``, which needs no Airflow; ends the process."""
    agent.main([arguments.worker, *arguments.connectors])
