"""Kafka Connect's job on Airflow and Spark. The public names load when they are first used."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["Connect", "ConnectHook", "ConnectTaskOperator", "ConnectorDag", "__version__"]

_PUBLIC = {
    "Connect": "airflow_provider_connect.standalone.embedded",
    "ConnectHook": "airflow_provider_connect.hooks.connect",
    "ConnectTaskOperator": "airflow_provider_connect.operators.connect",
    "ConnectorDag": "airflow_provider_connect.dag_files.connector_dag",
}


def __getattr__(name: str) -> Any:  # the class of that name
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
