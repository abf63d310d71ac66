"""Takes away what is left of the DAGs of deleted connectors, once nobody can be parsing their files any more."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from airflow.exceptions import AirflowException

from airflow_provider_connect.api_server.repeated_warnings import Sessions
from airflow_provider_connect.api_server.run_requests import hidden_dags, remove_dag
from airflow_provider_connect.model.cluster_state import ClusterConfigState
from airflow_provider_connect.model.ids import connector_for, dag_id_for, is_shortened

_EVERY_SECONDS = 10.0
_PARSE = timedelta(
    seconds=30
)  # longer than a parse of the file that had the DAG takes, and than what the dag-processor does with its result

_log = logging.getLogger(__name__)


class DagRemoval:
    """``tick`` is called every second, in one API server at a time; ``now`` in seconds since 1970."""

    def __init__(self, sessions: Sessions, *, now: Callable[[], float]) -> None:
        self._sessions = sessions
        self._now = now
        self._due = 0.0

    def tick(self, state: ClusterConfigState) -> None:
        """A DAG whose connector exists again, or still, stays."""
        now = self._now()
        if now < self._due:
            return
        self._due = now + _EVERY_SECONDS
        with self._sessions() as session:
            found = hidden_dags(session, datetime.fromtimestamp(now, UTC) - _PARSE)
        kept = {dag_id_for(name) for name in state.connector_configs} if found else ()
        for dag_id in found:
            if dag_id not in kept and (connector_for(dag_id) is not None or is_shortened(dag_id)):
                self._remove(dag_id)

    def _remove(self, dag_id: str) -> None:
        try:
            with self._sessions() as session:
                remove_dag(session, dag_id)
        except AirflowException as error:  # a task of it runs; it is tried again
            _log.debug("DAG %s stays for now: %s", dag_id, error)
