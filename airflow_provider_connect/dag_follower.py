"""Has the DAGs of stored connectors made, changed and, when they are new, run.

Knows nothing of threads: ``DagFollower.tick`` is called every second, in one API server at a time. It asks again until it sees that it is
done. So nothing is lost when a process dies between a config's record and its DAG, nor when the dag-processor drops a request for a file
because it is parsing that file's old text just then.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from airflow_provider_connect.airflow_dags import dag_marks
from airflow_provider_connect.airflow_requests import dags_of, request_parse, start_run, with_runs
from airflow_provider_connect.connector_files import file_for, mark_of, refused_keys, stored_connectors
from airflow_provider_connect.model.cluster_state import ClusterConfigState
from airflow_provider_connect.model.ids import dag_id_for
from airflow_provider_connect.model.states import TargetState

_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS, _LOOK_SECONDS = 1.0, 30.0, 60.0

_log = logging.getLogger(__name__)


class DagFollower:
    """``bundle`` is the name of the Dag bundle; ``worker_schedule`` that of connectors which name none; ``now`` in seconds since 1970."""

    def __init__(
        self,
        sessions: Callable[[], AbstractContextManager[Session]],
        bundle: str,
        worker_schedule: str | None,
        *,
        now: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._bundle = bundle
        self._worker_schedule = worker_schedule
        self._now = now
        self._seen = (-1, 0.0)  # the state's offset, and when Airflow's DAGs were looked at
        self._wanted: dict[str, str] = {}
        self._started: set[str] = set()
        self._made: dict[str, str] = {}
        self._ran: set[str] = set()
        self._asked: dict[str, tuple[float, float]] = {}  # when to ask again, and how long to wait after that

    def tick(self, state: ClusterConfigState) -> None:
        """Ask for what differs. At rest this compares names in memory; the database is read when the state has changed, and each minute."""
        now = self._now()
        if state.offset != self._seen[0] or now > self._seen[1] + _LOOK_SECONDS:
            self._take_up(state)
            self._seen = (state.offset, now)
        missing = [
            name for name, mark in self._wanted.items() if self._made.get(name) != mark and self._asked.get(name, (0.0, 0.0))[0] <= now
        ]
        if missing:
            self._ask(missing, now)
        new = [name for name in self._made if name in self._started and name not in self._ran]
        if new:
            self._run(new, now)

    def _take_up(self, state: ClusterConfigState) -> None:
        wanted = {name: mark_of(keys) for name, keys in stored_connectors(state.connector_configs, self._worker_schedule).items()}
        for name in wanted.keys() - self._wanted.keys() | {name for name in wanted if self._wanted.get(name) != wanted[name]}:
            for trouble in refused_keys(name, state.connector_configs[name]):
                _log.warning("Connector %s: its DAG is made without this key: %s", name, trouble)
        with self._sessions() as session:
            there = dags_of(session, self._bundle)
        alive = {name for name in wanted if dag_id_for(name) in there}
        self._wanted = wanted
        self._started = {name for name in wanted if state.target_state(name) is TargetState.STARTED}
        self._made = {name: mark for name, mark in self._made.items() if name in alive}
        self._ran &= alive
        self._asked = {name: asked for name, asked in self._asked.items() if name in wanted}

    def _ask(self, connectors: Iterable[str], now: float) -> None:
        """Take note of the DAGs that are as they should be, and ask for the others: the first two times a second apart, then less often."""
        ids = {dag_id_for(name): name for name in connectors}
        with self._sessions() as session:
            found = dag_marks(session, ids)
            for dag_id, name in ids.items():
                if found.get(dag_id) == self._wanted[name]:
                    self._made[name] = self._wanted[name]
                    self._asked.pop(name, None)
                    continue
                request_parse(session, self._bundle, file_for(name, len(self._wanted)))
                wait = self._asked.get(name, (0.0, _FIRST_WAIT_SECONDS))[1]
                self._asked[name] = (now + wait, min(2 * wait, _LONGEST_WAIT_SECONDS))

    def _run(self, connectors: Iterable[str], now: float) -> None:
        """Start the first run of a DAG that has had none, where its schedule does not."""
        ids = {dag_id_for(name): name for name in connectors}
        with self._sessions() as session:
            ran = with_runs(session, ids)
            self._ran |= {ids[dag_id] for dag_id in ran}
            for dag_id in ids.keys() - ran:
                start_run(session, dag_id, now=datetime.fromtimestamp(now, UTC))
