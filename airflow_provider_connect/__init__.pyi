from collections.abc import Callable

from airflow_provider_connect.dag_files.connector_dag import ConnectorDag as ConnectorDag
from airflow_provider_connect.hooks.connect import ConnectHook as ConnectHook
from airflow_provider_connect.operators.connect import ConnectTaskOperator as ConnectTaskOperator
from airflow_provider_connect.standalone.embedded import Connect as Connect

__all__: list[str]
__version__: str

def lazy_names(package: str) -> tuple[Callable[[str], object], list[str]]: ...
