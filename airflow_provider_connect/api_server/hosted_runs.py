"""The runs of connectors in shared applications: wakes a run's deferred task when its connector fails.

Internals of Airflow 3.3.2: ``Trigger``, with ``submit_event`` and ``kwargs``; ``TaskInstance``. For the API server only.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.triggers.base import TriggerEvent
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.dags import Sessions
from airflow_provider_connect.api_server.repeated_warnings import RepeatedWarnings
from airflow_provider_connect.api_server.runs import has_running_task
from airflow_provider_connect.api_server.serialized_dags import connector_names
from airflow_provider_connect.api_server.status_comparison import Snapshot, StatusControl
from airflow_provider_connect.runtime.config.dag_settings import application_of
from airflow_provider_connect.runtime.model.ids import DAG_ID_PREFIX, application_dag_id
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.sql_mirror.rows import storable
from airflow_provider_connect.triggers.hosted import FAILED, HOSTED, NOTICE

_ABSENT_SECONDS = 120.0  # a killed application is back in a minute

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostedFailure:
    """What is FAILED of a hosted connector. ``is_whole``: the connector, or each of its tasks."""

    traces: tuple[str, ...]
    is_whole: bool

    @property
    def hashes(self) -> list[str]:
        return [hashlib.sha256(trace.encode(errors="surrogatepass")).hexdigest()[:16] for trace in self.traces]


def hosted_failure(topics: Snapshot, connector: str) -> HostedFailure | None:
    """What is FAILED of the connector under its newest claim. None: nothing."""
    claim = topics.configs.claims.get(connector)
    of_connector, tasks = topics.statuses.connector(connector), topics.statuses.task_map(connector)
    failed = [status for status in (of_connector, *tasks.values()) if status is not None and status.state is State.FAILED]
    current = [status for status in failed if status.claim is None or status.claim == claim]
    if not current:
        return None
    numbers = {number for number, task in tasks.items() if task in current}
    is_whole = of_connector in current or numbers >= set(topics.configs.tasks(connector))
    return HostedFailure(tuple(status.trace or "no reason given" for status in current), is_whole)


class HostedRuns:
    """The process with the lease calls ``tick`` every second. ``now`` is in seconds by any clock."""

    def __init__(self, control: StatusControl, sessions: Sessions, *, now: Callable[[], float]) -> None:
        self._control = control
        self._sessions = sessions
        self._now = now
        self._absent: dict[str, float] = {}  # since when each application has no running task
        self._warnings = RepeatedWarnings(now=now)

    def tick(self) -> None:
        """Wake the runs whose connectors have failed, or whose applications do not run. Raises the errors of the stores and the database,
        but not of single connectors."""
        with self._sessions() as session:
            rows = session.execute(
                select(TaskInstance.dag_id, TaskInstance.trigger_id)
                .join(Trigger, Trigger.id == TaskInstance.trigger_id)
                .where(TaskInstance.state == TaskInstanceState.DEFERRED, Trigger.classpath == HOSTED)
                .where(TaskInstance.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))
            ).all()
            if not rows:
                self._absent = {}
                return
            names = connector_names(session, {row.dag_id for row in rows})
            waiting = {names[row.dag_id]: row.trigger_id for row in rows if row.dag_id in names}
            topics = self._control.snapshot()
            absent = self._absences(session, topics, waiting)
        for name, trigger in waiting.items():
            self._warnings.attempt(name, partial(self._wake, topics, name, trigger, absent), "run in a shared application")
        self._warnings.end_pass()

    def _absences(self, session: Session, topics: Snapshot, connectors: Mapping[str, Any]) -> dict[str, float]:
        """For how many seconds each application without a running task has had none."""
        configs = topics.configs.connector_configs
        applications = {name for each in connectors if (name := application_of(configs.get(each, {}))) is not None}
        missing = {name for name in applications if not has_running_task(session, application_dag_id(name))}
        now = self._now()
        self._absent = {name: self._absent.get(name, now) for name in missing}
        return {name: now - since for name, since in self._absent.items()}

    def _wake(self, topics: Snapshot, name: str, trigger_id: int, absent: Mapping[str, float]) -> None:
        if topics.configs.target_state(name) is not TargetState.STARTED:
            return  # the reconciler ends the run
        application = application_of(topics.configs.connector_configs[name]) or ""
        if absent.get(application, 0.0) > _ABSENT_SECONDS:
            dag_id = application_dag_id(application)
            text = (
                f"Application {application} has not run for {_ABSENT_SECONDS:g} s: check the last run of DAG {dag_id}, whether the DAG is "
                "paused, and whether Airflow has a free slot. The Dag bundle of connectors creates this DAG"
            )
            with self._sessions() as session:
                _fire(session, trigger_id, FAILED, text, [])
            return
        failure = hosted_failure(topics, name)
        if failure is None:
            return
        with self._sessions() as session:
            trigger = session.get(Trigger, trigger_id)
            noticed = set() if trigger is None else set(trigger.kwargs.get("noticed", ()))
            if failure.is_whole or set(failure.hashes) - noticed:
                _log.info("Connector %s: its run is notified of a failure", name)
                _fire(session, trigger_id, FAILED if failure.is_whole else NOTICE, "\n".join(failure.traces), failure.hashes)


def _fire(session: Session, trigger_id: int, status: str, trace: str, noticed: list[str]) -> None:
    Trigger.submit_event(trigger_id, TriggerEvent({"status": status, "trace": storable(trace), "noticed": noticed}), session=session)
