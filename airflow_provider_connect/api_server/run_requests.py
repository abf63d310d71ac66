"""What is asked of Airflow by way of its database: a file parsed soon, a run, a DAG removed. For the API server only."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

from airflow.api.common.delete_dag import delete_dag
from airflow.models.dag import DagModel
from airflow.models.dagbag import DagPriorityParsingRequest, DBDagBag
from airflow.models.dagrun import DagRun
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.dags import in_parts
from airflow_provider_connect.model.ids import DAG_ID_PREFIX
from airflow_provider_connect.operators.run_conf import conf_for, covers

_FORGOTTEN = "connect: deleted"  # on runs of a connector that was deleted, until they go with its DAG


def has_dag(session: Session, dag_id: str) -> bool:
    """Whether the DAG can be run: it has been parsed, and its file is not gone."""
    return session.scalar(select(DagModel.dag_id).where(DagModel.dag_id == dag_id, ~DagModel.is_stale)) is not None


def dags_of(session: Session, bundle: str) -> set[str]:
    """The ids of a bundle's DAGs."""
    return set(session.scalars(select(DagModel.dag_id).where(DagModel.bundle_name == bundle, ~DagModel.is_stale)))


def request_parse(session: Session, bundle: str, file: str) -> None:
    """Have the dag-processor refresh the bundle and parse the file next; once, however often it is asked before that."""
    request = hashlib.md5(f"{bundle}:{file}".encode(), usedforsecurity=False).hexdigest()  # as Airflow makes it, to find what waits
    if session.get(DagPriorityParsingRequest, request) is not None:
        return
    try:
        with session.begin_nested():
            session.add(DagPriorityParsingRequest(bundle, file))
    except IntegrityError:  # another process has just asked
        return


def start_run(session: Session, dag_id: str, *, now: datetime, tasks: Sequence[int] | None = None) -> bool:
    """Queue a run of the DAG, of the connector's ``tasks`` alone where given. False where that is needless: a run waits that does as much,
    or the schedule starts one now.

    Of a paused DAG the run waits until the DAG is unpaused.
    """
    dag = session.scalar(select(DagModel).where(DagModel.dag_id == dag_id, ~DagModel.is_stale).with_for_update(of=DagModel))
    if dag is None or _is_covered(session, dag, now, tasks):
        return False
    serialized = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
    if serialized is None:
        return False
    serialized.create_dagrun(
        run_id=serialized.timetable.generate_run_id(run_type=DagRunType.MANUAL, run_after=now, data_interval=None),
        run_after=now,
        conf=conf_for(tasks),
        run_type=DagRunType.MANUAL,
        triggered_by=DagRunTriggeredByType.REST_API,
        state=DagRunState.QUEUED,
        session=session,
    )
    return True


def _is_covered(session: Session, dag: DagModel, now: datetime, tasks: Sequence[int] | None) -> bool:
    if tasks is None and dag.next_dagrun_create_after is not None and dag.next_dagrun_create_after <= now:
        return True
    waiting = session.scalars(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.state == DagRunState.QUEUED))
    return any(covers(run.conf, tasks) for run in waiting)


def with_runs(session: Session, dag_ids: Iterable[str]) -> set[str]:
    """Those of the DAGs that have, or had, a run since the connector was made."""
    statement = select(DagRun.dag_id).distinct().where(DagRun.triggering_user_name.is_distinct_from(_FORGOTTEN))
    return set(in_parts(session, statement, DagRun.dag_id, dag_ids))


def hide_dag(session: Session, dag_id: str) -> None:
    """The DAG is no more: it is in no list, and its runs, which have ended, count no more. ``DagRemoval`` takes all of it away.

    Not at once: the dag-processor may have read the DAG's row a moment ago to bring it up to date, and the scheduler a run's. On SQLite,
    where readers lock nothing, they would not find the row again, and end (Airflow 3.3, ``handle_parsing_result`` and ``_do_scheduling``;
    seen where a file was parsed, and where a run was looked at, during a deletion).
    """
    session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_stale=True))
    session.execute(update(DagRun).where(DagRun.dag_id == dag_id).values(triggering_user_name=_FORGOTTEN))


def hidden_dags(session: Session, untouched_since: datetime) -> list[str]:
    """The connectors' DAGs that no file has, that no parse has brought back, and of which no run has ended, since ``untouched_since``."""
    ended = select(DagRun.id).where(DagRun.dag_id == DagModel.dag_id, DagRun.end_date >= untouched_since)
    statement = select(DagModel.dag_id).where(DagModel.is_stale, DagModel.last_parsed_time < untouched_since, ~ended.exists())
    return list(session.scalars(statement.where(DagModel.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))))


def remove_dag(session: Session, dag_id: str) -> None:
    """Remove all of the DAG but the entries of Airflow's audit log."""
    delete_dag(dag_id, session=session)
