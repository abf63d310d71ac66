"""Links from a task instance in the Airflow UI to its connector.

Airflow's plugin defines them, so the API server creates them when it shows a page. Links of an operator would be created in each task
process and pushed as XComs: a request of 12 ms to the API server for every run, even without work.
"""

from functools import cached_property
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from airflow_provider_connect.operators.definition import CONNECTOR
from airflow_provider_connect.runtime.model.ids import connector_for, is_shortened


class ConnectorStatusLink(BaseOperatorLink):  # type: ignore[misc]  # Airflow is not typed for us
    """A link to the states of the connector and its tasks in Kafka Connect's REST API."""

    name = "Connector status"

    @cached_property
    def operators(self) -> list[type]:
        """The operators whose task instances show the link. Called in the API server."""
        from airflow_provider_connect.operators.connect import ConnectTaskOperator
        from airflow_provider_connect.operators.plan import ConnectPlanOperator, ConnectReportOperator

        return [ConnectTaskOperator, ConnectPlanOperator, ConnectReportOperator]

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Called by the API server for each task instance that it shows. Empty for a DAG of no connector."""
        connector = connector_for(ti_key.dag_id) or (_connector_of_task(operator) if is_shortened(ti_key.dag_id) else None)
        return "" if connector is None else status_url(connector)


def _connector_of_task(operator: Any) -> str | None:
    """The connector that the operator names, for a DAG whose id has a shortened name. A mapped operator has it among its arguments."""
    found = getattr(operator, CONNECTOR, None) or (getattr(operator, "partial_kwargs", None) or {}).get(CONNECTOR)
    return found if isinstance(found, str) else None


def status_url(connector: str) -> str:
    """The URL of the connector's status on the API server."""
    return f"{conf.get('api', 'base_url', fallback='').rstrip('/')}/connect/connectors/{quote(connector, safe='')}/status"
