"""The connectors' DAGs in Airflow's database: reads DAGs, sets paused flags, and removes DAGs.

Internals of Airflow 3.3.2: ``DagModel``, ``DagTag`` and ``delete_dag``. For the API server only: tasks and DAG files may not use the
database.
"""

import logging
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.api.common.delete_dag import delete_dag
from airflow.exceptions import AirflowException
from airflow.models.dag import DagModel, DagTag
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.attempts import open_attempts
from airflow_provider_connect.api_server.runs import end_runs_without_connectors, ended_since, mark_forgotten
from airflow_provider_connect.api_server.serialized_dags import connector_names, in_parts, marks, versions
from airflow_provider_connect.api_server.ticker import error_line
from airflow_provider_connect.runtime.config.dag_settings import CONTINUOUS
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import DAG_ID_PREFIX, dag_id_for, is_connectors_dag
from airflow_provider_connect.runtime.model.page import PlanView

Sessions = Callable[[], AbstractContextManager[Session]]
"""Opens a session of Airflow's database that commits when its body ends."""

_NO_SCHEDULE = "When triggered"
_INTERVAL = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d)(?:\.\d+)?")
_UNITS = ("d", "h", "min", "s")
_REMOVAL_SECONDS = 10.0
_PARSE = timedelta(seconds=30)  # longer than parsing the DAG's file and processing the result take

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectorDagRow:
    """One connector's DAG. ``version`` changes with its content. ``is_gone``: its file no longer defines the DAG. ``bundle``, and ``file``
    relative to the bundle, are from the last parse that found the DAG."""

    connector: str
    dag_id: str
    is_paused: bool
    is_gone: bool
    version: str
    bundle: str
    file: str


class ConnectorDags:
    """Reads the connectors' DAGs, for a call every second. Versions are read only for DAGs that were parsed since the last call.

    With 1,000 DAGs, a call takes 5 ms of CPU time. Reading every version would take 19 ms.
    """

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[datetime | None, str]] = {}  # when each DAG was parsed, and its version
        self._names: dict[str, str] = {}

    def read(self, session: Session) -> list[ConnectorDagRow]:
        """All DAGs with their newest serialized versions. A DAG whose file has an import error is not gone."""
        found = session.execute(
            select(
                DagModel.dag_id,
                DagModel.is_paused,
                DagModel.is_stale,
                DagModel.has_import_errors,
                DagModel.last_parsed_time,
                DagModel.bundle_name,
                DagModel.relative_fileloc,
            ).where(DagModel.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))
        ).all()
        parsed = {row.dag_id: row.last_parsed_time for row in found}
        changed = {dag_id for dag_id, at in parsed.items() if dag_id not in self._parsed or self._parsed[dag_id][0] != at}
        new = versions(session, changed)
        self._parsed = {dag_id: (at, new.get(dag_id, "")) if dag_id in changed else self._parsed[dag_id] for dag_id, at in parsed.items()}
        known = {dag_id: name for dag_id, name in self._names.items() if dag_id in parsed}
        self._names = known | connector_names(session, parsed.keys() - known.keys())
        return [
            ConnectorDagRow(
                name,
                row.dag_id,
                bool(row.is_paused),
                bool(row.is_stale) and not row.has_import_errors,
                version,
                row.bundle_name,
                row.relative_fileloc or "",
            )
            for row in found
            if (name := self._names.get(row.dag_id)) is not None and (version := self._parsed[row.dag_id][1])
        ]


def plans(session: Session, dag_id: str | None = None) -> dict[str, PlanView]:
    """The next scheduled run of each connector's DAG, and the DAG's owner, tags, unfinished attempt and schedule, by DAG id. With
    ``dag_id``, only for that DAG."""

    def of_connectors(column: Any) -> Any:  # a column; an SQL condition
        return column.startswith(DAG_ID_PREFIX, autoescape=True) if dag_id is None else column == dag_id

    tags: dict[str, list[str]] = {}
    for of, tag in session.execute(select(DagTag.dag_id, DagTag.name).where(of_connectors(DagTag.dag_id)).order_by(DagTag.name)):
        tags.setdefault(of, []).append(tag)
    attempts = open_attempts(session, dag_id)
    next_run, timetable = DagModel.next_dagrun_create_after, (DagModel.timetable_summary, DagModel.timetable_description)
    columns = select(DagModel.dag_id, DagModel.is_paused, next_run, DagModel.owners, *timetable)
    return {
        of: PlanView(
            None if is_paused or at is None or (summary == CONTINUOUS and of in attempts) else int(at.timestamp() * 1000),
            owners or None,
            tags.get(of, []),
            attempts.get(of),
            _schedule_text(summary, description),
            is_continuous=summary == CONTINUOUS,
        )
        for of, is_paused, at, owners, summary, description in session.execute(
            columns.where(of_connectors(DagModel.dag_id), ~DagModel.is_stale)
        )
    }


def _schedule_text(summary: str | None, description: str | None) -> str | None:
    """The schedule in words, from Airflow's texts about a timetable: the description of a cron expression, or ``str(timedelta)`` of an
    interval."""
    if summary is None:
        return None
    if summary in ("", "None"):
        return _NO_SCHEDULE
    if (interval := _INTERVAL.fullmatch(summary)) is not None:
        parts = [f"{int(number)} {unit}" for number, unit in zip(interval.groups(), _UNITS, strict=True) if number and int(number)]
        return f"Every {' '.join(parts)}"
    if not description:
        return summary
    return description if summary.startswith("@") else f"{description} ({summary})"


def has_dag(session: Session, dag_id: str) -> bool:
    """Whether the DAG can run: it has been parsed, and its file still exists."""
    return session.scalar(select(DagModel.dag_id).where(DagModel.dag_id == dag_id, ~DagModel.is_stale)) is not None


def dags_of(session: Session, bundle: str) -> set[str]:
    """The ids of a bundle's DAGs."""
    return set(session.scalars(select(DagModel.dag_id).where(DagModel.bundle_name == bundle, ~DagModel.is_stale)))


def dag_marks(session: Session, dag_ids: Iterable[str]) -> dict[str, str]:
    """The marks of the DAGs that a file currently defines, by DAG id; ``""`` for a DAG that the bundle did not create."""
    return marks(session, list(in_parts(session, select(DagModel.dag_id).where(~DagModel.is_stale), DagModel.dag_id, dag_ids)))


def set_paused(session: Session, dag_id: str, *, paused: bool) -> bool:
    """Set the flag. Returns False, without a change, if another process has changed the flag since it was read."""
    statement = update(DagModel).where(DagModel.dag_id == dag_id, DagModel.is_paused == (not paused)).values(is_paused=paused)
    changed: Any = session.execute(statement)
    return bool(changed.rowcount == 1)


def hide_dag(session: Session, dag_id: str) -> None:
    """Hide the DAG from all lists, and its ended runs from all counts. ``DagRemoval`` deletes it later.

    The DAG is not deleted immediately: the dag-processor may have just read its row for an update, or the scheduler may have read a run's
    row. On SQLite readers do not lock, so these processes would not find the row again, and would crash (``handle_parsing_result`` and
    ``_do_scheduling``).
    """
    session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_stale=True))
    mark_forgotten(session, dag_id)


class DagRemoval:
    """Deletes the DAGs of deleted connectors once no process can still be parsing their files, and ends runs that applications without
    connectors have left. ``now`` is in seconds since 1970."""

    def __init__(self, sessions: Sessions, *, now: Callable[[], float]) -> None:
        self._sessions, self._now = sessions, now
        self._due = 0.0
        self._failed: dict[str, str] = {}  # the last warning about each DAG

    def tick(self, state: ClusterConfigState) -> None:
        """Called every second, but acts every ten seconds. A DAG whose connector exists is kept."""
        now = self._now()
        if now < self._due:
            return
        self._due = now + _REMOVAL_SECONDS
        untouched_since = datetime.fromtimestamp(now, UTC) - _PARSE
        with self._sessions() as session:
            for dag_id in end_runs_without_connectors(session, untouched_since):
                _log.info("A run of %s was ended, because the application has no connectors", dag_id)
            hidden = _hidden_dags(session, untouched_since)
        kept = {dag_id_for(name) for name in state.connector_configs} if hidden else ()
        self._failed = {dag_id: line for dag_id, line in self._failed.items() if dag_id in hidden}
        for dag_id in hidden:
            if dag_id not in kept and is_connectors_dag(dag_id):
                try:
                    with self._sessions() as session:
                        delete_dag(dag_id, session=session)  # everything except its audit log entries
                except AirflowException as error:  # one of its tasks is running; the next call retries
                    _log.debug("DAG %s is not deleted yet: %s", dag_id, error)
                except Exception as error:  # a row that cannot be deleted must not prevent the removal of other DAGs
                    if self._failed.get(dag_id) != (line := error_line(error)):
                        _log.warning("DAG %s of a deleted connector cannot be deleted: %s", dag_id, line)
                    self._failed[dag_id] = line


def _hidden_dags(session: Session, untouched_since: datetime) -> list[str]:
    """The connectors' DAGs without a file. Since ``untouched_since``, they were not parsed, and none of their runs ended."""
    statement = select(DagModel.dag_id).where(DagModel.is_stale, DagModel.last_parsed_time < untouched_since)
    statement = statement.where(~ended_since(DagModel.dag_id, untouched_since))
    return list(session.scalars(statement.where(DagModel.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))))
