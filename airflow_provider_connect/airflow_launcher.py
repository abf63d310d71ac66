"""The herder's runs as Airflow's: whether one lives, and how to end it. For the API server only."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.orm import Session

from airflow_provider_connect.airflow_dags import end_runs, has_running_task
from airflow_provider_connect.model.ids import dag_id_for


class AirflowLauncher:
    """The herder's Launcher. ``sessions`` opens a session of Airflow's database that commits when its body ends."""

    def __init__(self, sessions: Callable[[], AbstractContextManager[Session]]) -> None:
        self._sessions = sessions

    def is_running(self, connector: str) -> bool:
        """Whether a task of the connector's DAG runs, or is being killed."""
        with self._sessions() as session:
            return has_running_task(session, dag_id_for(connector))

    def end(self, connector: str) -> None:
        """Fail the runs in progress, which has their tasks killed gracefully, and remove the queued ones."""
        with self._sessions() as session:
            end_runs(session, dag_id_for(connector))
