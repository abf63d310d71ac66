"""Requests new and changed DAGs of stored connectors, and the first runs of new DAGs.

Knows nothing of threads. It repeats requests until they take effect. So no request is lost if a process dies between a config's record and
its DAG, or if the dag-processor drops a request because it is parsing the file's old text.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from airflow_provider_connect.api_server.dags import Sessions, dag_marks, dags_of
from airflow_provider_connect.api_server.repeated_warnings import RepeatedWarnings
from airflow_provider_connect.api_server.runs import dags_with_runs, start_run
from airflow_provider_connect.api_server.serialized_dags import request_parse
from airflow_provider_connect.dag_files.connector_files import (
    APPLICATIONS_FILE,
    application_marks,
    file_for,
    mark_of,
    refusals,
    stored_connectors,
)
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN, DagCheck
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import application_dag_id, dag_id_for
from airflow_provider_connect.runtime.model.states import TargetState

_COMPARE_SECONDS = 60.0
_HEAD_START_SECONDS = 1.5  # the process that creates a started connector requests its DAG itself
_SHORTEST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.9, 30.0

_log = logging.getLogger(__name__)


class RefusalControl(Protocol):
    """The part of the herder that the follower needs."""

    def refuse_dag(self, name: str, reason: str) -> None:
        """Mark the connector FAILED, because no DAG can be created for it."""
        ...

    def accept_dags(self, names: Collection[str]) -> None:
        """DAGs can be created for these connectors: restart the connectors that were refused before."""
        ...


class DagFollower:
    """``bundle`` is the name of the Dag bundle. ``worker_schedule`` is the schedule of connectors without a schedule of their own.
    ``worker`` are the worker's settings. ``check`` decides which configs become DAGs, and ``control`` refuses the others. ``now`` is in
    seconds since 1970."""

    def __init__(
        self,
        sessions: Sessions,
        bundle: str,
        worker_schedule: str | None,
        *,
        worker: Mapping[str, str],
        check: DagCheck,
        control: RefusalControl,
        now: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._bundle = bundle
        self._worker_schedule = worker_schedule
        self._worker = worker
        self._check = check
        self._control = control
        self._refused: dict[str, str] = {}  # connectors without a DAG, and the reason why it cannot be created
        self._unreported: dict[str, str] = {}  # refused connectors whose statuses lack the reason
        self._unaccepted: set[str] = set()  # connectors with a valid config that may still be FAILED because of an earlier config
        self._warnings = RepeatedWarnings(now=now)
        self._now = now
        self._state = ClusterConfigState()
        self._compared_at = 0.0
        self._expected: dict[str, str] = {}  # by connector, the mark that its DAG should have
        self._current: set[str] = set()  # connectors whose DAGs have the expected marks
        self._ran: set[str] = set()
        self._applications: dict[str, str] = {}  # by the DAG ids of shared applications that are to be requested, their marks
        self._applications_due = (0.0, 0.0)  # since when they are requested, and when to request them again
        self._requested: dict[str, tuple[float, float]] = {}  # when a DAG was first missing, and when to request it again

    def tick(self, state: ClusterConfigState) -> None:
        """Request the DAGs that differ. Called every second, in one API server at a time. Without changes, this only compares values in
        memory. The database is read when a connector has changed, and once a minute."""
        now = self._now()
        if self._is_changed(state) or now > self._compared_at + _COMPARE_SECONDS:
            self._compare(state, now)
        for name, reason in list(self._unreported.items()):
            self._warnings.attempt(name, partial(self._refuse, name, reason), "refusal")
        if missing := self._expected.keys() - self._current:
            self._request(missing, now)
        if self._applications:
            self._request_applications(now)
        if new := [name for name in self._current - self._ran if state.target_state(name) is TargetState.STARTED]:
            self._run(new, now)
        try:
            if self._unaccepted:
                self._control.accept_dags(self._unaccepted)
                self._unaccepted = set()
        finally:
            self._warnings.end_pass()

    def _is_changed(self, state: ClusterConfigState) -> bool:
        """Whether a config or target state has changed. Ignores records of runs: with many connectors they arrive every second."""
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
            if name not in self._expected and state.target_state(name) is TargetState.STARTED:
                self._requested[name] = (now, now + _HEAD_START_SECONDS)
        wanted = {name: mark for name, mark in self._expected.items() if name in state and name not in changed} | marks
        self._current = {name for name in self._current if wanted.get(name) == self._expected[name]}
        self._state, self._expected, self._compared_at = state, wanted, now
        marks_of_applications = application_marks(state.connector_configs, self._worker, self._check)
        self._applications = {application_dag_id(name): mark for name, mark in marks_of_applications.items()}
        self._applications_due = (now, now)
        with self._sessions() as session:
            there = dags_of(session, self._bundle)
        alive = {name for name in self._expected if dag_id_for(name) in there}
        self._current &= alive
        self._ran &= alive
        self._requested = {name: requested for name, requested in self._requested.items() if name in self._expected}

    def _compare_refusals(self, changed: Mapping[str, Mapping[str, str]], state: ClusterConfigState) -> None:
        """Collect the connectors whose DAGs are refused, with reasons, and the connectors whose DAGs are accepted."""
        reasons = {name: "; ".join(refusals(name, config, self._check)) for name, config in changed.items() if DEFINED_IN not in config}
        self._unreported = {name: reason for name, reason in self._unreported.items() if name in state and name not in reasons}
        for name, reason in reasons.items():
            if reason and self._refused.get(name) != reason:
                _log.warning("Connector %s: no DAG can be created for it, so it does not run: %s", name, reason)
                self._unreported[name] = reason
        self._unaccepted = {name for name in self._unaccepted if name in state} - reasons.keys()
        self._unaccepted |= {name for name, reason in reasons.items() if not reason}
        kept = {name: reason for name, reason in self._refused.items() if name in state and name not in changed}
        self._refused = kept | {name: reason for name, reason in reasons.items() if reason}

    def _refuse(self, name: str, reason: str) -> None:
        self._control.refuse_dag(name, reason)
        del self._unreported[name]

    def _request(self, missing: Iterable[str], now: float) -> None:
        """Record the DAGs with the expected marks. Request the others, first every second, then at growing intervals."""
        ids = {dag_id_for(name): name for name in missing}
        with self._sessions() as session:
            found = dag_marks(session, ids)
            for dag_id, name in ids.items():
                since, due = self._requested.get(name, (now, now))
                if found.get(dag_id) == self._expected[name]:
                    self._current.add(name)
                    self._requested.pop(name, None)
                elif due <= now:
                    request_parse(session, self._bundle, file_for(name, len(self._expected)))
                    self._requested[name] = (since, now + _wait(since, now))

    def _request_applications(self, now: float) -> None:
        """Request the DAGs of shared applications until they have the expected marks."""
        since, due = self._applications_due
        if now < due:
            return
        with self._sessions() as session:
            found = dag_marks(session, self._applications)
            self._applications = {dag_id: mark for dag_id, mark in self._applications.items() if found.get(dag_id) != mark}
            if self._applications:
                request_parse(session, self._bundle, APPLICATIONS_FILE)
        self._applications_due = (since, now + _wait(since, now))

    def _run(self, connectors: Iterable[str], now: float) -> None:
        """Start the first run of each DAG without runs, unless its schedule starts it."""
        ids = {dag_id_for(name): name for name in connectors}
        with self._sessions() as session:
            ran = dags_with_runs(session, ids)
            self._ran |= {ids[dag_id] for dag_id in ran}
        for dag_id in ids.keys() - ran:
            self._warnings.attempt(ids[dag_id], partial(self._start, dag_id, now), "first run")

    def _start(self, dag_id: str, now: float) -> None:
        with self._sessions() as session:  # one session each, so that a DAG whose run fails does not roll back another DAG's
            start_run(session, dag_id, now=datetime.fromtimestamp(now, UTC))


def _wait(since: float, now: float) -> float:
    """The seconds until the next request of a DAG that is missing ``since`` then."""
    return min(max((now - since) / 4, _SHORTEST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)
