"""Attempts of connectors' runs from Airflow's database: each connector's unfinished attempt, and all attempts of a newest run.

Internals of Airflow 3.3.2: ``DagRun``, ``TaskInstance``. For the API server only: tasks and DAG files may not use the database.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import DagRunState, State, TaskInstanceState
from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.run_logs import last_run
from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.runtime.model.ids import DAG_ID_PREFIX, dag_id_for
from airflow_provider_connect.runtime.model.page import AttemptView, FailedRun

_MAX_ATTEMPTS = 100
_MAX_FAILED = 20
_UNFINISHED = (DagRunState.QUEUED, DagRunState.RUNNING)
_BY_WEIGHT = (TaskInstanceState.UP_FOR_RETRY, TaskInstanceState.RUNNING, TaskInstanceState.RESTARTING, TaskInstanceState.QUEUED)
_COLUMNS = (
    TaskInstance.dag_id,
    TaskInstance.run_id,
    TaskInstance.task_id,
    TaskInstance.map_index,
    TaskInstance._rendered_map_index.label("label"),
    TaskInstance.state,
    TaskInstance.try_number,
    TaskInstance.max_tries,
    TaskInstance.end_date,
    TaskInstance.retry_delay_override,
)


def open_attempts(session: Session, dag_id: str | None = None) -> dict[str, AttemptView]:
    """One attempt for each connector's DAG with an unfinished run, by DAG id: the attempt that waits for its retry, otherwise the running
    attempt, otherwise the next attempt. With ``dag_id``, only for that DAG."""
    statement = select(*_COLUMNS).join(DagRun, and_(DagRun.dag_id == TaskInstance.dag_id, DagRun.run_id == TaskInstance.run_id))
    of_connectors = DagRun.dag_id.startswith(DAG_ID_PREFIX, autoescape=True) if dag_id is None else DagRun.dag_id == dag_id
    is_open = TaskInstance.state.is_(None) | TaskInstance.state.not_in(list(State.finished))
    found: dict[str, Any] = {}
    for row in session.execute(statement.where(DagRun.state.in_(_UNFINISHED), of_connectors, is_open)):
        if row.dag_id not in found or _weight(row.state) < _weight(found[row.dag_id].state):
            found[row.dag_id] = row
    return {dag_id: _view(row) for dag_id, row in found.items()}


def newest_attempts(session: Session, connector: str) -> Sequence[AttemptView]:
    """The last attempt of each Airflow task in the connector's newest run, up to 100, unsuccessful ones first. Empty if the connector has
    not run."""
    try:
        run = last_run(session, connector, or_queued=True)
    except NotFoundException:
        return ()
    rows = session.execute(select(*_COLUMNS).where(TaskInstance.dag_id == dag_id_for(connector), TaskInstance.run_id == run)).all()
    rows = sorted(rows, key=lambda row: (row.state == TaskInstanceState.SUCCESS, row.task_id, row.map_index))
    return [_view(row) for row in rows[:_MAX_ATTEMPTS]]


def failed_runs(session: Session, connector: str) -> Sequence[FailedRun]:
    """Up to 20 failed runs, newest first."""
    statement = select(DagRun.run_id, DagRun.end_date).where(DagRun.dag_id == dag_id_for(connector), DagRun.state == DagRunState.FAILED)
    statement = statement.where(DagRun.end_date.is_not(None)).order_by(DagRun.end_date.desc()).limit(_MAX_FAILED)
    return [FailedRun(run, int(ended.timestamp() * 1000)) for run, ended in session.execute(statement)]


def _weight(state: str | None) -> int:
    return next((index for index, each in enumerate(_BY_WEIGHT) if each == state), len(_BY_WEIGHT))


def _view(row: Any) -> AttemptView:
    next_ms = None
    if row.state == TaskInstanceState.UP_FOR_RETRY and row.end_date is not None and row.retry_delay_override is not None:
        next_ms = int((row.end_date + timedelta(seconds=row.retry_delay_override)).timestamp() * 1000)
    return AttemptView(
        run=row.run_id,
        task=row.task_id,
        map_index=row.map_index,
        label=row.label if row.map_index >= 0 else None,
        state=None if row.state is None else str(row.state),
        number=row.try_number,
        most=max(row.max_tries + 1, row.try_number, 1),
        next_ms=next_ms,
    )
