"""Completing what a killed process left half done, from what is known of a connector's runs."""

from __future__ import annotations

import logging

from airflow_provider_connect.herder.launcher import Launcher
from airflow_provider_connect.herder.lifecycle import Lifecycle
from airflow_provider_connect.herder.snapshot import Topics
from airflow_provider_connect.herder.statuses import StatusKeeper
from airflow_provider_connect.model.contradictions import RunFacts, correction, is_suspect, unconsumed
from airflow_provider_connect.model.states import State, TargetState

_log = logging.getLogger(__name__)


class Corrections:
    """See the module. Called for one connector at a time, by one process of the group."""

    def __init__(self, topics: Topics, statuses: StatusKeeper, lifecycle: Lifecycle, launcher: Launcher) -> None:
        self._reader = topics.reader
        self._statuses = statuses
        self._lifecycle = lifecycle
        self._launcher = launcher

    def correct(self, name: str, facts: RunFacts) -> bool:
        """False: a run has to end first, so call again."""
        snapshot = self._reader.read()
        target = snapshot.configs.target_state(name)
        if target is None:
            _log.info("Connector %s is deleted: clearing away what is left of it", name)
            return self._lifecycle.deleted(name)
        topics = unconsumed(snapshot.statuses.topics_of(name), snapshot.configs.connector_configs[name])
        self._lifecycle.forget_topics(name, topics)
        if target is not TargetState.STOPPED:
            return self._rewrite(name, facts)
        if not facts.is_live and not is_suspect(snapshot.configs, snapshot.statuses, name):
            return True
        _log.info("Connector %s is STOPPED: ending what is left of it", name)
        return self._lifecycle.stopped(name)

    def _rewrite(self, name: str, facts: RunFacts) -> bool:
        snapshot = self._reader.read()
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
            _log.info("Connector %s: statuses set right: %s %s", name, change.connector or "", dict(change.tasks))
        if change.needs_run:
            self._launcher.trigger(name, list(change.rerun) or None)
        return True
