"""Links from a task instance in the Airflow UI to its connector.

They come by the plugin, so that the API server creates them when a page shows them. Those of an operator are created in each task
process instead and pushed as XComs, a request of 12 ms to the API server for every run, also of the many that have nothing to do.
"""

from functools import cached_property
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from airflow_provider_connect.operators.definition import CONNECTOR
from airflow_provider_connect.runtime.model.ids import connector_for, is_shortened


class ConnectorStatusLink(BaseOperatorLink):  # type: ignore[misc]  # Airflow is not typed for us
    """The connector's and its tasks' states, as Kafka Connect's REST API answers them."""

    name = "Connector status"

    @cached_property
    def operators(self) -> list[type]:
        """The operators whose task instances show the link. Asked for in the API server."""
        from airflow_provider_connect.operators.connect import ConnectTaskOperator
        from airflow_provider_connect.operators.plan import ConnectPlanOperator, ConnectReportOperator

        return [ConnectTaskOperator, ConnectPlanOperator, ConnectReportOperator]

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Called by the API server for each task instance shown; empty for a DAG that is no connector's."""
        connector = connector_for(ti_key.dag_id) or (_connector_of_task(operator) if is_shortened(ti_key.dag_id) else None)
        return "" if connector is None else status_url(connector)


def _connector_of_task(operator: Any) -> str | None:
    """The connector that the operator of a DAG names whose id is too short for it; a mapped one keeps it with its arguments."""
    found = getattr(operator, CONNECTOR, None) or (getattr(operator, "partial_kwargs", None) or {}).get(CONNECTOR)
    return found if isinstance(found, str) else None


def status_url(connector: str) -> str:
    """Where the API server answers the connector's status, under its base URL."""
    return f"{conf.get('api', 'base_url', fallback='').rstrip('/')}/connect/connectors/{quote(connector, safe='')}/status"
