"""Logs of a connector's run, read by Airflow's own reader: from the host's files, the workers or a remote store.

Internals of Airflow 3.3.2: ``TaskLogReader``, ``DagRun``, ``TaskInstance``, ``TaskInstanceHistory``. For processes that may use Airflow's
database. Knows neither configs nor terminals: the caller redacts secrets.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancehistory import TaskInstanceHistory
from airflow.utils.log.log_reader import TaskLogReader
from airflow.utils.state import DagRunState, State, TaskInstanceState
from sqlalchemy import exists, select
from sqlalchemy.orm import Session, joinedload

from airflow_provider_connect.api_server.runs import FORGOTTEN, RUN_TASK
from airflow_provider_connect.errors import ConnectException, NotFoundException
from airflow_provider_connect.runtime.model.ids import dag_id_for, has_task

Sessions = Callable[[], AbstractContextManager[Session]]
Record = Mapping[str, object]
"""A log record. ``event`` is its text; ``timestamp`` (a datetime or None), ``level``, ``logger``, ``error_detail`` and others are
optional."""

_NOT_BEGUN = (None, TaskInstanceState.SCHEDULED, TaskInstanceState.QUEUED)
_GROUP, _END_OF_GROUP = "::group::", "::endgroup::"
_IS_STARTED = DagRun.start_date.is_not(None)
_READS_AFTER_END = 2  # the supervisor writes its last lines after the state


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of an Airflow task. If the run has several applications, ``label`` names the connector's tasks after the try has begun.
    Otherwise it is empty."""

    task: str
    map_index: int
    number: int
    label: str = field(default="", compare=False)


class RunLog:
    """The log of one run, read incrementally. With ``task`` (a task of the connector), only logs of that task's applications are read."""

    def __init__(self, sessions: Sessions, connector: str, run_id: str, *, task: int | None = None) -> None:
        self.run_id = run_id
        self._sessions, self._connector, self._task = sessions, connector, task
        self._reader = TaskLogReader()
        if not self._reader.supports_read:
            raise ConnectException(
                "Airflow's option task_log_reader names a log handler that cannot read logs: read them where it writes them"
            )
        self._positions: dict[Attempt, dict[str, Any]] = {}
        self._reads_after_end: dict[Attempt, int] = {}

    def is_ended(self) -> bool:
        """Whether the run has ended. Raises NotFoundException if it no longer exists."""
        with self._sessions() as session:
            return _run(session, self._connector, self.run_id).state in State.finished_dr_states

    def read(self) -> Iterator[tuple[Attempt, Record]]:
        """Yield the records since the last call, oldest attempt first. Keeps a session open until the iterator is exhausted."""
        with self._sessions() as session:
            for attempt, row in _attempts(session, dag_id_for(self._connector), self.run_id):
                if self._is_asked_for(attempt) and self._reads_after_end.get(attempt, 0) < _READS_AFTER_END:
                    yield from ((attempt, record) for record in self._read(attempt, row))

    def _is_asked_for(self, attempt: Attempt) -> bool:
        if self._task is None:
            return True
        return attempt.task == RUN_TASK and (attempt.map_index < 0 or has_task(attempt.label, self._connector, self._task))

    def _read(self, attempt: Attempt, row: Any) -> Iterator[Record]:
        is_first = attempt not in self._positions
        found, position = self._reader.read_log_chunks(row, attempt.number, dict(self._positions.get(attempt, {})))
        records = (dict(each) for each in found)
        yield from _strip_sources(records) if is_first else records
        self._positions[attempt] = dict(position)
        if row.state in State.finished or row.state == TaskInstanceState.UP_FOR_RETRY:
            self._reads_after_end[attempt] = self._reads_after_end.get(attempt, 0) + 1


def last_run(session: Session, connector: str, *, or_queued: bool = False) -> str:
    """The id of the run that was started last. With ``or_queued``, the id of the newest run, even if it is queued. Raises NotFoundException
    if the connector has not run since its creation, or if Airflow has removed its runs."""
    runs = _runs(connector).where(_IS_STARTED | (DagRun.state == DagRunState.QUEUED) if or_queued else _IS_STARTED)
    found = session.scalar(runs.order_by(DagRun.id.desc()).limit(1))
    if found is None:
        raise NotFoundException(f"Connector {connector} has not run yet, or Airflow has removed its runs")
    return str(found)


def last_unskipped_run(session: Session, connector: str) -> str | None:
    """The id of the run that was started last, without runs whose Airflow tasks were all skipped: scheduled runs are skipped while the
    connector waits after a failure. None: all were skipped."""
    of_run = (TaskInstance.dag_id == DagRun.dag_id, TaskInstance.run_id == DagRun.run_id)
    has_skipped = exists().where(*of_run, TaskInstance.state == TaskInstanceState.SKIPPED)
    has_others = exists().where(*of_run, TaskInstance.state.is_distinct_from(TaskInstanceState.SKIPPED))
    runs = _runs(connector).where(_IS_STARTED, ~has_skipped | has_others)
    found = session.scalar(runs.order_by(DagRun.id.desc()).limit(1))
    return None if found is None else str(found)


def named_run(session: Session, connector: str, run_id: str) -> str:
    """Return ``run_id``. Raises NotFoundException if the connector has no such run."""
    return str(_run(session, connector, run_id).run_id)


def _runs(connector: str) -> Any:
    """The ids of the connector's runs since its creation."""
    return select(DagRun.run_id).where(DagRun.dag_id == dag_id_for(connector), DagRun.triggering_user_name.is_distinct_from(FORGOTTEN))


def _run(session: Session, connector: str, run_id: str) -> DagRun:
    run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id_for(connector), DagRun.run_id == run_id))
    if run is None:
        raise NotFoundException(
            f"Connector {connector} has no run {run_id}, or Airflow has removed it: its runs are listed by airflow dags list-runs "
            f"{dag_id_for(connector)}"
        )
    return run


def _attempts(session: Session, dag_id: str, run_id: str) -> list[tuple[Attempt, Any]]:
    """All attempts that have begun, with their rows."""
    found: dict[Attempt, Any] = {}
    for table in (TaskInstanceHistory, TaskInstance):
        rows = select(table).where(table.dag_id == dag_id, table.run_id == run_id).options(joinedload(table.dag_run))
        for row in session.scalars(rows):
            if row.state not in _NOT_BEGUN:
                label = row.rendered_map_index if row.map_index >= 0 else None
                found[Attempt(row.task_id, row.map_index, row.try_number, label or "")] = row
    return sorted(found.items(), key=lambda each: _order(*each))


def _order(attempt: Attempt, row: Any) -> tuple[Any, ...]:
    began = row.start_date or row.end_date or row.updated_at
    return began is None, began, attempt.task, attempt.map_index, attempt.number


def _strip_sources(records: Iterator[Record]) -> Iterator[Record]:
    """Drop the first group of lines, which names the reader's sources.

    Without other records, one record with the sources explains why nothing is logged."""
    first = next(records, None)
    if first is None:
        return
    if first.get("timestamp") is not None or not str(first["event"]).startswith(_GROUP):
        yield from chain([first], records)
        return
    sources: list[str] = []
    for record in records:
        if record["event"] == _END_OF_GROUP:
            break
        sources.append(str(record["event"]))
    following = next(records, None)
    if following is not None:
        yield from chain([following], records)
    elif sources:
        yield {"event": f"Nothing is logged: {'; '.join(sources)}"}
