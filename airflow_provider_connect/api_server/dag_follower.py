"""Has the DAGs of stored connectors created, changed and, when they are new, run.

Knows nothing of threads. It repeats requests until it sees their effect. So nothing is lost when a process dies between a config's record
and its DAG, nor when the dag-processor drops a request for a file because it is parsing that file's old text just then.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from airflow_provider_connect.api_server.dags import Sessions, dag_marks, dags_of
from airflow_provider_connect.api_server.repeated_warnings import RepeatedWarnings
from airflow_provider_connect.api_server.runs import start_run, with_runs
from airflow_provider_connect.api_server.serialized_dags import request_parse
from airflow_provider_connect.dag_files.connector_files import file_for, mark_of, refusals, stored_connectors
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN, DagCheck
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.states import TargetState

_LOOK_SECONDS = 60.0
_HEAD_START_SECONDS = 1.5  # the process that creates a connector that is to run requests its DAG itself
_SHORTEST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.9, 30.0

_log = logging.getLogger(__name__)


class RefusalControl(Protocol):
    """What is asked of the herder."""

    def refuse_dag(self, name: str, reason: str) -> None:
        """The connector is FAILED, for no DAG can be made of it."""
        ...

    def accept_dags(self, names: Collection[str]) -> None:
        """DAGs can be made of these connectors; those that were refused start."""
        ...


class DagFollower:
    """``bundle`` is the name of the Dag bundle; ``worker_schedule`` that of connectors which name none; ``check`` decides which configs
    become DAGs, and ``control`` refuses the others; ``now`` is in seconds since 1970."""

    def __init__(
        self,
        sessions: Sessions,
        bundle: str,
        worker_schedule: str | None,
        *,
        check: DagCheck,
        control: RefusalControl,
        now: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._bundle = bundle
        self._worker_schedule = worker_schedule
        self._check = check
        self._control = control
        self._refused: dict[str, str] = {}  # connectors of which no DAG can be made, and why
        self._unreported: dict[str, str] = {}  # those whose statuses do not have the reason yet
        self._unaccepted: set[str] = set()  # connectors that may be FAILED for an earlier config, of which DAGs can be made now
        self._warnings = RepeatedWarnings(now=now)
        self._now = now
        self._state = ClusterConfigState()
        self._looked = 0.0
        self._wanted: dict[str, str] = {}  # connectors, and the marks that their DAGs should have
        self._made: set[str] = set()  # those whose DAGs have them
        self._ran: set[str] = set()
        self._requested: dict[str, tuple[float, float]] = {}  # since when a DAG is missing, and when to request it again

    def tick(self, state: ClusterConfigState) -> None:
        """Called every second, in one API server at a time: request what differs. At rest this compares in memory; the database is read
        when a connector has changed, and each minute."""
        now = self._now()
        if self._is_changed(state) or now > self._looked + _LOOK_SECONDS:
            self._compare(state, now)
        for name, reason in list(self._unreported.items()):
            self._warnings.attempt(name, partial(self._refuse, name, reason), "refusal")
        if missing := self._wanted.keys() - self._made:
            self._request(missing, now)
        if new := [name for name in self._made - self._ran if state.target_state(name) is TargetState.STARTED]:
            self._run(new, now)
        try:
            if self._unaccepted:
                self._control.accept_dags(self._unaccepted)
                self._unaccepted = set()
        finally:
            self._warnings.end_pass()

    def _is_changed(self, state: ClusterConfigState) -> bool:
        """Runs write to the config topic too, every second where there are many connectors; what they write changes no DAG."""
        old, new = self._state, state
        return (
            old.connector_configs.keys() != new.connector_configs.keys()
            or any(old.connector_configs[name] is not config for name, config in new.connector_configs.items())
            or old.target_states != new.target_states
        )

    def _compare(self, state: ClusterConfigState, now: float) -> None:
        changed = {name: config for name, config in state.connector_configs.items() if self._state.connector_config(name) is not config}
        marks = {name: mark_of(keys) for name, keys in stored_connectors(changed, self._worker_schedule, self._check).items()}
        self._compare_refusals(changed, state)
        for name in marks:
            if name not in self._wanted and state.target_state(name) is TargetState.STARTED:
                self._requested[name] = (now, now + _HEAD_START_SECONDS)
        wanted = {name: mark for name, mark in self._wanted.items() if name in state and name not in changed} | marks
        self._made = {name for name in self._made if wanted.get(name) == self._wanted[name]}
        self._state, self._wanted, self._looked = state, wanted, now
        with self._sessions() as session:
            there = dags_of(session, self._bundle)
        alive = {name for name in self._wanted if dag_id_for(name) in there}
        self._made &= alive
        self._ran &= alive
        self._requested = {name: requested for name, requested in self._requested.items() if name in self._wanted}

    def _compare_refusals(self, changed: Mapping[str, Mapping[str, str]], state: ClusterConfigState) -> None:
        """Note what is to be written into the statuses of connectors: why they have no DAG, or that they can have one."""
        reasons = {name: "; ".join(refusals(name, config, self._check)) for name, config in changed.items() if DEFINED_IN not in config}
        self._unreported = {name: reason for name, reason in self._unreported.items() if name in state and name not in reasons}
        for name, reason in reasons.items():
            if reason and self._refused.get(name) != reason:
                _log.warning("Connector %s: no DAG can be made of it, so it does not run: %s", name, reason)
                self._unreported[name] = reason
        self._unaccepted = {name for name in self._unaccepted if name in state} - reasons.keys()
        self._unaccepted |= {name for name, reason in reasons.items() if not reason}
        kept = {name: reason for name, reason in self._refused.items() if name in state and name not in changed}
        self._refused = kept | {name: reason for name, reason in reasons.items() if reason}

    def _refuse(self, name: str, reason: str) -> None:
        self._control.refuse_dag(name, reason)
        del self._unreported[name]

    def _request(self, missing: Iterable[str], now: float) -> None:
        """Note the DAGs that are as they should be; request the others, each second first, then less and less often."""
        ids = {dag_id_for(name): name for name in missing}
        with self._sessions() as session:
            found = dag_marks(session, ids)
            for dag_id, name in ids.items():
                since, due = self._requested.get(name, (now, now))
                if found.get(dag_id) == self._wanted[name]:
                    self._made.add(name)
                    self._requested.pop(name, None)
                elif due <= now:
                    request_parse(session, self._bundle, file_for(name, len(self._wanted)))
                    wait = min(max((now - since) / 4, _SHORTEST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)
                    self._requested[name] = (since, now + wait)

    def _run(self, connectors: Iterable[str], now: float) -> None:
        """Start the first run of a DAG that has had none, where its schedule does not."""
        ids = {dag_id_for(name): name for name in connectors}
        with self._sessions() as session:
            ran = with_runs(session, ids)
            self._ran |= {ids[dag_id] for dag_id in ran}
        for dag_id in ids.keys() - ran:
            self._warnings.attempt(ids[dag_id], partial(self._start, dag_id, now), "first run")

    def _start(self, dag_id: str, now: float) -> None:
        with self._sessions() as session:  # one for each: a DAG of which no run can be created takes back no run of another
            start_run(session, dag_id, now=datetime.fromtimestamp(now, UTC))
