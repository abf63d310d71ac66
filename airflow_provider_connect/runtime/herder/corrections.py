"""Completes what a killed process left undone, based on the state of a connector's runs."""

from __future__ import annotations

import logging
from collections.abc import Collection

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.herder.lifecycle import Lifecycle
from airflow_provider_connect.runtime.herder.ports import Launcher
from airflow_provider_connect.runtime.herder.snapshot import Topics
from airflow_provider_connect.runtime.herder.statuses import StatusKeeper
from airflow_provider_connect.runtime.model.contradictions import RunFacts, correction, is_contradicting, unconsumed_topics
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State, TargetState

_REFUSED = "airflow_provider_connect.errors.ConfigException: Airflow makes no DAG of this connector, so it does not run: "

_REFUSED_FILE = "airflow_provider_connect.errors.ConfigException: Its DAG file is not taken, so the connector keeps the config of before: "

_log = logging.getLogger(__name__)


class Corrections:
    """See the module. Called for one connector at a time, by one process of the group."""

    def __init__(self, topics: Topics, statuses: StatusKeeper, lifecycle: Lifecycle, launcher: Launcher) -> None:
        self._reader = topics.reader
        self._statuses = statuses
        self._lifecycle = lifecycle
        self._launcher = launcher

    def correct(self, name: str, facts: RunFacts) -> bool:
        """Returns False if a run must end first. Then call again."""
        snapshot = self._reader.read()
        target = snapshot.configs.target_state(name)
        if target is None:
            _log.info("Connector %s is deleted: removing the rest of it", name)
            return self._lifecycle.deleted(name)
        topics = unconsumed_topics(snapshot.statuses.topics_of(name), snapshot.configs.connector_configs[name])
        self._lifecycle.forget_topics(name, topics)
        if target is not TargetState.STOPPED:
            return self._rewrite(name, facts)
        if not facts.is_live and not is_contradicting(snapshot.configs, snapshot.statuses, name):
            return True
        _log.info("Connector %s is STOPPED: ending its remaining runs", name)
        return self._lifecycle.stopped(name)

    def report_waiting(self, name: str, reason: str, claim: Claim | None) -> None:
        """Write UNASSIGNED, with the reason, for a STARTED connector whose run has not started. ``claim`` was its newest claim before the
        reason was found. If it has a newer claim, a run has started meanwhile, and writes the statuses."""
        snapshot = self._reader.read()
        if snapshot.configs.target_state(name) is TargetState.STARTED and snapshot.configs.claims.get(name) == claim:
            self._statuses.put_obstacle(snapshot, name, reason)

    def refuse_dag(self, name: str, reason: str) -> None:
        """Mark a connector as FAILED, with the reason, if Airflow cannot create a DAG for it. A STOPPED connector keeps its state."""
        self._refuse(name, f"{_REFUSED}{reason}")

    def refuse_definition(self, name: str, reason: str) -> None:
        """Mark a connector whose DAG file has a refused config as FAILED, with the reason, unless it is STOPPED or new."""
        self._refuse(name, f"{_REFUSED_FILE}{reason}")

    def _refuse(self, name: str, trace: str) -> None:
        snapshot = self._reader.read()
        if snapshot.configs.target_state(name) not in (None, TargetState.STOPPED):
            self._statuses.put_connector(snapshot, name, State.FAILED, trace=trace)
            self._statuses.flush()

    def refused_definitions(self, names: Collection[str]) -> list[str]:
        """The connectors among ``names`` that are FAILED because of their DAG files. Reads the topics once, even for thousands of names."""
        return self._failed_for(_REFUSED_FILE, names)

    def accept_definition(self, name: str) -> None:
        """Restart the connector if it is FAILED because of its DAG file."""
        self._restart_failed_for(_REFUSED_FILE, [name])

    def accept_dags(self, names: Collection[str]) -> None:
        """Restart those connectors among ``names`` that were refused. Reads the topics once, even for thousands of names."""
        self._restart_failed_for(_REFUSED, names)

    def _restart_failed_for(self, reason: str, names: Collection[str]) -> None:
        """Raises the first error after all restarts, so that a failed restart does not keep other connectors FAILED."""
        failures = []
        for refused in self._failed_for(reason, names):
            try:
                self._lifecycle.reconfigured(refused, is_changed=False)
            except ConnectException as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _failed_for(self, reason: str, names: Collection[str]) -> list[str]:
        statuses = self._reader.read().statuses
        known = [status for name in names if (status := statuses.connector(name)) is not None]
        return [status.connector for status in known if status.state is State.FAILED and (status.trace or "").startswith(reason)]

    def _rewrite(self, name: str, facts: RunFacts) -> bool:
        snapshot = self._reader.read()
        is_idle = not facts.is_live and not facts.is_waiting
        if is_idle and snapshot.configs.target_state(name) is TargetState.STARTED and self._lifecycle.report_obstacle(name):
            return True
        change = correction(snapshot.configs, snapshot.statuses, name, facts)
        if not change:
            return not facts.is_live and not facts.is_waiting
        if change.connector is not None:
            trace = change.trace if change.connector is State.FAILED else None
            self._statuses.put_connector(snapshot, name, change.connector, trace=trace)
        for task, state in change.tasks.items():
            self._statuses.put_task(snapshot, name, task, state, trace=change.trace if state is State.FAILED else None)
        self._statuses.flush()
        if change.connector is not None or change.tasks:
            _log.info("Connector %s: statuses corrected: %s %s", name, change.connector or "", dict(change.tasks))
        if change.needs_run:
            self._launcher.trigger(name, list(change.rerun) or None)
        return True
