"""Runs that should stay and have not started, because they wait for a slot of Airflow.

Internals of Airflow 3.3.2: ``DagModel.timetable_summary``, states and times of runs and tasks. For the API server only.
"""

from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import State, TaskInstanceState
from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from airflow_provider_connect.runtime.config.dag_settings import CONTINUOUS
from airflow_provider_connect.runtime.model.ids import APPLICATION_PREFIX, DAG_ID_PREFIX

_NORMAL_WAIT = timedelta(seconds=30)
_SLOTS = "Each run that stays takes one slot: pause a connector or end another run, or"


def waiting_runs(session: Session, now: datetime) -> dict[str, str]:
    """Why DAGs with the schedule ``@continuous`` have no process, by DAG id: of connectors and of shared applications. Leaves out paused
    DAGs, and runs that have waited for less than half a minute."""
    dag_id, task = DagModel.dag_id, TaskInstance
    of_ours = dag_id.startswith(DAG_ID_PREFIX, autoescape=True) | dag_id.startswith(APPLICATION_PREFIX, autoescape=True)
    times = (DagRun.queued_at, DagRun.start_date, task.scheduled_dttm, task.queued_dttm)
    rows = session.execute(
        select(dag_id, DagRun.run_id, task.state, task.pool, *times)
        .join(DagRun, DagRun.dag_id == dag_id)
        .outerjoin(task, and_(task.dag_id == DagRun.dag_id, task.run_id == DagRun.run_id))
        .where(DagModel.timetable_summary == CONTINUOUS, ~DagModel.is_paused, ~DagModel.is_stale, of_ours)
        .where(DagRun.state.in_(State.unfinished_dr_states))
        .order_by(dag_id, DagRun.id)
    )
    reasons = {}
    for dag, of_dag in groupby(rows, key=attrgetter("dag_id")):
        found = list(of_dag)
        if all(row.state in _WAITS for row in found) and now - _last_change(found[0]) >= _NORMAL_WAIT:
            reasons[dag] = f"Run {found[0].run_id} of DAG {dag} has not started: {_WAITS[found[0].state].format(pool=found[0].pool)}"
    return reasons


def _last_change(row: Any) -> datetime:
    """When the run last came nearer to its start. ``row`` is of the query above."""
    times: list[datetime | None] = [row.queued_at, row.start_date, row.scheduled_dttm, row.queued_dttm]
    return max(at for at in times if at is not None)


_WAITS: dict[TaskInstanceState | None, str] = {
    None: "it waits for Airflow's scheduler. Check that the scheduler runs",
    TaskInstanceState.SCHEDULED: f"it waits for a free slot of pool {{pool}} or of the executor. {_SLOTS} raise the pool's slots or "
    "parallelism in section [core]",
    TaskInstanceState.QUEUED: f"it waits for a worker of Airflow's executor. {_SLOTS} add workers",
}
