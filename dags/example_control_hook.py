"""### Restart FAILED connectors and tasks

Once an hour, a plain `@task` uses the hook to restart the FAILED connectors and FAILED tasks of a Connect cluster, and no others.
`CONNECT_EXAMPLE_CONN_ID` names the cluster's Connection, by default `connect_default`.
"""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG, task

CONNECTION = os.environ.get("CONNECT_EXAMPLE_CONN_ID", "connect_default")

with DAG(
    "connect_example_restart",
    schedule=timedelta(hours=1),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    doc_md=__doc__,
    tags=["demo"],
) as dag:

    @task
    def restart_failed() -> list[str]:
        """Restart, and return the names of the restarted connectors."""
        from airflow_provider_connect.hooks.connect import ConnectHook

        with ConnectHook(CONNECTION) as hook:
            failed = [
                name
                for name, status in hook.statuses().items()
                if "FAILED" in (status.connector.state, *(each.state for each in status.tasks))
            ]
            for name in failed:
                hook.restart_connector(name, include_tasks=True, only_failed=True)
        return failed

    restart_failed()
