"""### What has FAILED is restarted

Once an hour, by the hook in a plain `@task`: connectors of a cluster that are FAILED are restarted, and tasks that are FAILED; those alone.
The Connection named by `CONNECT_EXAMPLE_CONN_ID`, by default `connect_default`, decides which Connect cluster that is.
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
        """Returns the names of the connectors that were restarted."""
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
