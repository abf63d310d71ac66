"""The DAG of a shared application, which hosts the tasks of many connectors. ``ConnectorsBundle`` writes the file that creates it."""

import json
from collections.abc import Mapping
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_connect.dag_files.own_dags import START, create_dags
from airflow_provider_connect.operators.application import ConnectApplicationOperator
from airflow_provider_connect.runtime.config.dag_settings import CONTINUOUS, ApplicationSettings
from airflow_provider_connect.runtime.model.ids import application_dag_id

TAG = "connector application"
_RETRY_DELAY = timedelta(seconds=5)


class ApplicationDag(DAG):  # type: ignore[misc]  # Airflow is not typed for us
    """The DAG of one shared application. Its only task ``run`` stays. ``mark`` has the fields of ``ApplicationSettings``, as JSON."""

    def __init__(self, name: str, mark: str, *, file: str) -> None:
        settings = ApplicationSettings(**json.loads(mark))
        super().__init__(
            application_dag_id(name),
            schedule=CONTINUOUS,
            start_date=START,
            catchup=False,
            max_active_runs=1,
            is_paused_upon_creation=False,
            tags=[TAG],
            description=f"Hosts the connectors whose airflow.application is {name}",
        )
        self.fileloc = file
        optional = {"pool": settings.pool, "queue": settings.queue}
        with self:
            ConnectApplicationOperator(
                task_id="run",
                application_name=name,
                dag_mark=mark,
                engine=settings.engine,
                spark_conn_id=settings.spark_conn_id,
                stays_seconds=settings.run_seconds,
                retries=3,
                retry_delay=_RETRY_DELAY,
                execution_timeout=None,
                **{argument: value for argument, value in optional.items() if value is not None},
            )


def application_dags(file: str, applications: Mapping[str, str]) -> None:
    """Create the DAGs of ``applications``, which maps names to marks. If a DAG cannot be created, only that DAG is left out.

    The file of ``ConnectorsBundle`` calls it.
    """
    create_dags("Application", applications, application_dag_id, lambda name: ApplicationDag(name, applications[name], file=file))
