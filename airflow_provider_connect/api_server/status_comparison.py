"""Compares statuses with target states and runs. Completes the work of killed processes, and ends the status RUNNING of dead runs.

If a status contradicts its target state, a verb or a run usually changes the status soon. A status that still contradicts the target state
later is corrected. All runs are read every minute, to find runs that failed without a report.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

from airflow_provider_connect.api_server.dags import ConnectorDags, Sessions
from airflow_provider_connect.api_server.repeated_warnings import RepeatedWarnings
from airflow_provider_connect.api_server.runs import failed_since, hosted_connectors, run_facts, running_connectors
from airflow_provider_connect.api_server.serialized_dags import definition
from airflow_provider_connect.api_server.waiting_runs import waiting_runs
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.contradictions import RunFacts, contradicting_connectors
from airflow_provider_connect.runtime.model.ids import application_dag_id, dag_id_for
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.status import StatusState

_FULL_CHECK_SECONDS, _RECHECK_SECONDS = 60.0, 5.0
_INITIAL_WINDOW = timedelta(days=1)
_OVERLAP = timedelta(seconds=30)  # for runs whose end was written late

_log = logging.getLogger(__name__)


class Snapshot(Protocol):
    """The state of the topics at one point in time."""

    @property
    def configs(self) -> ClusterConfigState: ...

    @property
    def statuses(self) -> StatusState: ...


class StatusControl(Protocol):
    """The part of the herder that the comparison needs."""

    def snapshot(self) -> Snapshot: ...

    def correct(self, name: str, facts: RunFacts) -> bool: ...

    def report_waiting(self, name: str, reason: str, claim: Claim | None) -> None: ...


class StatusComparison:
    """The process with the lease calls ``tick`` every second, and ``reset`` when it takes the lease. Without changes, a tick compares two
    numbers. ``verb_seconds`` is the longest time of a verb. ``has_bundle``: connectors that no DAG file defines get DAGs. ``now`` is in
    seconds since 1970."""

    def __init__(
        self, control: StatusControl, sessions: Sessions, *, verb_seconds: float, has_bundle: bool, now: Callable[[], float]
    ) -> None:
        self._control = control
        self._sessions = sessions
        self._verb_seconds = verb_seconds
        self._has_bundle = has_bundle
        self._now = now
        self._warnings = RepeatedWarnings(now=now)
        self._dags = ConnectorDags()
        self.reset()

    def reset(self) -> None:
        """Compare everything again, because another process may have changed it."""
        self._seen: tuple[int, int] | None = None
        self._due: dict[str, float] = {}
        self._full_check_due = 0.0
        self._checked_until: datetime | None = None

    def tick(self) -> None:
        """Correct the statuses that are due. Raises the stores' errors."""
        now, topics = self._now(), self._control.snapshot()
        seen = (topics.configs.offset, topics.statuses.version)
        if seen != self._seen:
            found = contradicting_connectors(topics.configs, topics.statuses)
            self._due = {name: self._due.get(name, now + self._verb_seconds) for name in found}
            self._seen = seen
        due = {name for name, at in self._due.items() if at <= now}
        if now >= self._full_check_due:
            due |= self._find_contradictions(topics)
            self._report_waiting(topics, now)
            self._full_check_due = now + _FULL_CHECK_SECONDS
        if due:
            self._correct(topics, due, now)

    def _correct(self, topics: Snapshot, due: set[str], now: float) -> None:
        with self._sessions() as session:
            facts = run_facts(session, due, hosted_connectors(topics.configs))
        for name in sorted(due):
            if name in self._due:
                self._due[name] = now + _RECHECK_SECONDS
            self._warnings.attempt_bounded(name, partial(self._control.correct, name, facts[name]))
        self._warnings.end_pass()

    def _report_waiting(self, topics: Snapshot, now: float) -> None:
        """Report the STARTED connectors that should stay and whose runs wait for a slot. ``topics`` was read before the database, so a run
        that starts meanwhile has a newer claim."""
        with self._sessions() as session:
            reasons = waiting_runs(session, datetime.fromtimestamp(now, UTC))
        if not reasons:
            return
        hosted = hosted_connectors(topics.configs)
        for name in topics.configs.connector_configs:
            application = hosted.get(name)
            reason = reasons.get(dag_id_for(name) if application is None else application_dag_id(application))
            if reason is not None and _must_run(topics.configs, name):
                self._warnings.attempt(name, partial(self._control.report_waiting, name, reason, topics.configs.claims.get(name)), "slot")
        self._warnings.end_pass()

    def _find_contradictions(self, topics: Snapshot) -> set[str]:
        """Connectors that contradict Airflow's database: failed runs, runs that must not exist, DAGs of connectors that do not exist."""
        started = datetime.now(UTC)
        since = self._checked_until or started - _INITIAL_WINDOW
        with self._sessions() as session:
            found = {name for name in failed_since(session, since - _OVERLAP) if name in topics.configs}
            found |= {name for name in running_connectors(session) if _must_not_run(topics.configs, name)}
            dags = self._dags.read(session)
            lost = [dag for dag in dags if dag.connector not in topics.configs and not dag.is_gone]
            found |= {dag.connector for dag in lost if definition(session, dag.dag_id) is None}
        if not self._has_bundle:
            with_dags = {dag.connector for dag in dags}
            found |= {name for name in topics.configs.connector_configs if name not in with_dags and _must_run(topics.configs, name)}
        self._checked_until = started
        return found


def _must_run(configs: ClusterConfigState, name: str) -> bool:
    return configs.target_state(name) is TargetState.STARTED


def _must_not_run(configs: ClusterConfigState, name: str) -> bool:
    return configs.target_state(name) in (None, TargetState.STOPPED)
