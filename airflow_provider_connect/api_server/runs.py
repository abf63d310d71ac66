"""Runs of connectors' DAGs in Airflow's database: reads their states and reasons of failures, starts and ends them.

Internals of Airflow 3.3.2: ``DagRun``, ``TaskInstance``, ``Log``, ``DagModel.exceeds_max_non_backfill``, ``DBDagBag``,
``create_dagrun``, states of runs and tasks. For the API server only: tasks and DAG files may not use the database.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import DagRunState, State, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.serialized_dags import connector_names, in_parts, rows_in_parts
from airflow_provider_connect.operators.run_conf import covers, run_conf
from airflow_provider_connect.runtime.config.dag_settings import CONTINUOUS, application_of
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.contradictions import RunFacts
from airflow_provider_connect.runtime.model.ids import APPLICATION_PREFIX, DAG_ID_PREFIX, application_dag_id, dag_id_for, is_connectors_dag
from airflow_provider_connect.runtime.model.states import TargetState

RUN_TASK = "run"
"""The id of the Airflow task of a connector's run. With ``tasks.per.application``, it is mapped."""
_ALIVE = (TaskInstanceState.RUNNING, TaskInstanceState.RESTARTING)
_UNFINISHED = (DagRunState.QUEUED, DagRunState.RUNNING)
_STOPPED, _PAUSED, _WITHOUT_CONNECTORS = ENDED_NOTES = ("stopped", "paused", "without connectors")
"""The notes on runs that were ended here."""
FORGOTTEN = "connect: deleted"  # on runs of a deleted connector, until they are removed with its DAG
_NOT_FORGOTTEN = DagRun.triggering_user_name.is_distinct_from(FORGOTTEN)
_MARKS = ("patch_dag_run", "patch_task_instance", "patch_task_instance_by_map_index", "patch_task_group_instances")
_AUDIT_DELAY = timedelta(seconds=5)
_FLAGS = {"patch_dag": None, "paused": True, "cli_dag_pause": True, "cli_dag_unpause": False}
_FLAG_AGE = timedelta(minutes=10)
_SHORTEST_SILENCE = timedelta(seconds=30)
_EXPIRED = timedelta(days=2)  # older than any heartbeat that the scheduler accepts
ENDS = "It stays FAILED until a run with something to do has ended well, or a restart: POST /connectors/«name»/restart?includeTasks=true."


def has_running_task(session: Session, dag_id: str) -> bool:
    """Whether a task process of the DAG may be alive."""
    statement = select(TaskInstance.id).where(TaskInstance.dag_id == dag_id, TaskInstance.state.in_(_ALIVE)).limit(1)
    return session.scalar(statement) is not None


def running_runs(session: Session, dag_id: str) -> list[str]:
    """The runs of the DAG with a task process that may be alive, each as ``«DAG»/«run»``."""
    statement = select(TaskInstance.run_id).distinct().where(TaskInstance.dag_id == dag_id, TaskInstance.state.in_(_ALIVE))
    return [f"{dag_id}/{run}" for run in session.scalars(statement)]


def running_connectors(session: Session) -> dict[str, list[str]]:
    """The connectors with a task process that may be alive, each with the ids of these runs."""
    statement = select(TaskInstance.dag_id, TaskInstance.run_id).distinct().where(TaskInstance.state.in_(_ALIVE))
    statement = statement.where(TaskInstance.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))
    runs: dict[str, list[str]] = {}
    for dag_id, run in session.execute(statement):
        runs.setdefault(dag_id, []).append(run)
    return {name: runs[dag_id] for dag_id, name in connector_names(session, runs).items()}


def failed_since(session: Session, since: datetime) -> list[str]:
    """The connectors with a run that failed after ``since``."""
    statement = select(DagRun.dag_id).distinct().where(DagRun.state == DagRunState.FAILED, DagRun.end_date > since)
    statement = statement.where(DagRun.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))
    return list(connector_names(session, session.scalars(statement)).values())


def last_successes(session: Session, dag_ids: Iterable[str], since: datetime) -> dict[str, datetime]:
    """The end of each DAG's last successful run since the connector was created. DAGs without a successful end after ``since`` are left
    out."""
    statement = select(DagRun.dag_id, func.max(DagRun.end_date)).group_by(DagRun.dag_id)
    statement = statement.where(DagRun.state == DagRunState.SUCCESS, DagRun.end_date > since, _NOT_FORGOTTEN)
    return dict(map(tuple, rows_in_parts(session, statement, DagRun.dag_id, dag_ids)))


def first_queued(session: Session, dag_id: str, since: datetime) -> datetime | None:
    """The time at which the DAG's first run after ``since`` and after the connector's creation was queued. None: no such run."""
    statement = select(func.min(DagRun.queued_at)).where(DagRun.dag_id == dag_id, DagRun.queued_at > since, _NOT_FORGOTTEN)
    found: datetime | None = session.scalar(statement)
    return found


def dags_with_runs(session: Session, dag_ids: Iterable[str]) -> set[str]:
    """The DAGs with at least one run since the connector was created."""
    statement = select(DagRun.dag_id).distinct().where(_NOT_FORGOTTEN)
    return set(in_parts(session, statement, DagRun.dag_id, dag_ids))


@dataclass(frozen=True, slots=True)
class ConnectorRun:
    """A run. ``state`` is queued, running, success or failed."""

    run_id: str
    state: str


def last_begun_run(session: Session, connector: str) -> int:
    """The number of the connector's newest run that is no longer queued. 0: no such run."""
    statement = select(func.max(DagRun.id)).where(DagRun.dag_id == dag_id_for(connector), DagRun.state != DagRunState.QUEUED)
    return session.scalar(statement) or 0


def run_after(session: Session, connector: str, number: int) -> ConnectorRun | None:
    """The connector's first run after the run with this number. None: not yet."""
    statement = select(DagRun.run_id, DagRun.state).where(
        DagRun.dag_id == dag_id_for(connector), DagRun.id > number, DagRun.triggering_user_name.is_distinct_from(FORGOTTEN)
    )
    found = session.execute(statement.order_by(DagRun.id).limit(1)).first()
    return None if found is None else ConnectorRun(str(found.run_id), str(found.state))


def mark_forgotten(session: Session, dag_id: str) -> None:
    """Exclude the DAG's existing runs from ``dags_with_runs``."""
    session.execute(update(DagRun).where(DagRun.dag_id == dag_id).values(triggering_user_name=FORGOTTEN))


def ended_since(dag_id: Any, since: datetime) -> Any:  # a column; an SQL condition
    """An SQL condition: a run of the DAG has ended since ``since``."""
    return select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.end_date >= since).exists()


def hosted_connectors(configs: ClusterConfigState) -> dict[str, str]:
    """The connectors that shared applications host while they run, each with its application. A stopped connector has left it: its tasks
    end by the config topic."""
    return {
        name: application
        for name, config in configs.connector_configs.items()
        if (application := application_of(config)) is not None and configs.target_state(name) is not TargetState.STOPPED
    }


def run_facts(session: Session, connectors: Iterable[str], hosted: Mapping[str, str] = MappingProxyType({})) -> dict[str, RunFacts]:
    """Facts about the connectors' runs, by connector. The entry of a connector without a DAG is empty. ``hosted``: see
    ``hosted_connectors``. While its application runs, a hosted connector is live."""
    names = {dag_id_for(name): name for name in connectors}
    live = set(in_parts(session, select(TaskInstance.dag_id).distinct().where(TaskInstance.state.in_(_ALIVE)), TaskInstance.dag_id, names))
    applications = {hosted[name] for name in names.values() if name in hosted}
    running = {name for name in applications if has_running_task(session, application_dag_id(name))}
    live |= {dag_id for dag_id, name in names.items() if hosted.get(name) in running}
    unfinished = select(DagRun.dag_id).distinct().where(DagRun.state.in_(_UNFINISHED))
    waiting = set(in_parts(session, unfinished, DagRun.dag_id, names))
    age = func.row_number().over(partition_by=DagRun.dag_id, order_by=DagRun.end_date.desc())
    ended = select(DagRun.id, DagRun.dag_id, age.label("age")).where(DagRun.end_date.is_not(None)).subquery()
    last_runs = select(DagRun).join(ended, ended.c.id == DagRun.id).where(ended.c.age == 1)
    last = {run.dag_id: run for run in in_parts(session, last_runs, ended.c.dag_id, names)}
    return {name: _add_end(session, last.get(dag_id), RunFacts(dag_id in live, dag_id in waiting)) for dag_id, name in names.items()}


def _add_end(session: Session, run: DagRun | None, facts: RunFacts) -> RunFacts:
    """``facts`` with the run's end, and with the reason of its failure, because a killed run cannot report the reason itself."""
    if run is None or run.end_date is None:
        return facts
    facts = replace(facts, ended_ms=int(run.end_date.timestamp() * 1000))
    if run.state != DagRunState.FAILED:
        return facts
    failed = [task for task in _tasks(session, run) if task.state in State.failed_states]
    user = _failing_user(session, run)
    if user is not None:
        return replace(facts, failure=f"Run {run.run_id} was marked as failed by user {user} in Airflow. {ENDS}", is_marked=True)
    if not failed:
        return replace(facts, failure=f"Run {run.run_id} failed before it started anything. {ENDS}")
    tries = ", ".join(f"{task.task_id} (try {task.try_number}, {task.state}, on {task.hostname or 'no host'})" for task in failed)
    failure = f"Run {run.run_id} failed and its application did not report this: {tries}. See the log of that try in Airflow. {ENDS}"
    return replace(facts, failure=failure)


def _tasks(session: Session, run: DagRun) -> Sequence[TaskInstance]:
    return session.scalars(select(TaskInstance).where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)).all()


def _failing_user(session: Session, run: DagRun) -> str | None:
    """The user who marked the run or one of its tasks as failed: from the last such entry of Airflow's audit log before the run ended.
    None: no user marked it."""
    entries = select(Log).where(Log.dag_id == run.dag_id, Log.run_id == run.run_id, Log.event.in_(_MARKS))
    since, until = (run.start_date or run.queued_at or run.end_date) - _AUDIT_DELAY, run.end_date + _AUDIT_DELAY
    latest = session.scalars(entries.where(Log.dttm.between(since, until)).order_by(Log.id.desc()))
    entry = next((entry for entry in latest if '"failed"' in (entry.extra or "")), None)
    return None if entry is None else str(entry.owner_display_name or entry.owner or "unknown")


def flag_author(session: Session, dag_id: str, *, paused: bool) -> str | None:
    """The user who has just set the DAG's paused flag, from Airflow's audit log. ``scheduler``: Airflow paused the DAG after too many
    failures. None: the newest entry did not set this value."""
    entries = select(Log).where(Log.dag_id == dag_id, Log.event.in_(_FLAGS), Log.dttm > datetime.now(UTC) - _FLAG_AGE)
    entry = session.scalar(entries.order_by(Log.id.desc()).limit(1))
    if entry is None:
        return None
    was = _FLAGS[entry.event]
    if was is None:
        was = {"true": True, "false": False}.get((entry.extra or "").partition('"is_paused": ')[2][: 4 if paused else 5])
    return str(entry.owner or "unknown") if was is paused else None


def start_run(session: Session, dag_id: str, *, now: datetime, tasks: Sequence[int] | None = None) -> bool:
    """Queue a run of the DAG. If ``tasks`` is given, the run has only these tasks of the connector. Returns False if the run is not needed:
    a queued run covers it, or the schedule starts a run now.

    The run of a paused DAG waits until the DAG is unpaused.
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
        conf=run_conf(tasks),
        run_type=DagRunType.MANUAL,
        triggered_by=DagRunTriggeredByType.REST_API,
        state=DagRunState.QUEUED,
        session=session,
    )
    return True


def _is_covered(session: Session, dag: DagModel, now: datetime, tasks: Sequence[int] | None) -> bool:
    if dag.timetable_summary == CONTINUOUS:  # the present run follows the config topic, and Airflow starts the next one when it ends
        return True
    if tasks is None and dag.next_dagrun_create_after is not None and dag.next_dagrun_create_after <= now:
        return True
    queued = session.scalars(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.state == DagRunState.QUEUED))
    return any(covers(run.conf, tasks) for run in queued)


def end_runs(session: Session, dag_id: str) -> None:
    """End the runs in progress, so that Airflow kills their tasks. Also end the queued runs, because in a paused DAG they would wait
    forever.

    Unfinished tasks become skipped, because stopping a connector is not a failure. At a task's next heartbeat, Airflow kills its process if
    the database no longer has the task as running. No run is deleted, because the scheduler may have just read its row. On SQLite readers
    do not lock, so the scheduler would not find the row again, and would crash (``StaleDataError`` in ``_do_scheduling``).
    """
    statement = select(DagRun).where(DagRun.dag_id == dag_id, DagRun.state.in_(_UNFINISHED)).with_for_update(of=DagRun)
    for run in session.scalars(statement).all():
        _end(session, run, _STOPPED)
    _allow_scheduling(session, [dag_id])


def expire_silent_tasks(session: Session, now: datetime) -> list[str]:
    """Have the scheduler end the tries of tasks whose processes have sent no heartbeat for a long time. Concerns tasks of connectors and
    of shared applications. Returns the ids of their DAGs.

    A task's supervisor kills it after ``max_failed_heartbeats``, so after twice this time the process is dead. By itself, the scheduler
    waits for ``task_instance_heartbeat_timeout``, which is five minutes by default.
    """
    seconds = 2 * conf.getint("workers", "max_failed_heartbeats") * conf.getint("workers", "min_heartbeat_interval")
    silence = max(_SHORTEST_SILENCE, timedelta(seconds=seconds))
    of_connectors = TaskInstance.dag_id.startswith(DAG_ID_PREFIX, autoescape=True)
    of_applications = TaskInstance.dag_id.startswith(APPLICATION_PREFIX, autoescape=True)
    statement = (
        select(TaskInstance)
        .where(TaskInstance.state == TaskInstanceState.RUNNING, of_connectors | of_applications)
        .where(TaskInstance.last_heartbeat_at.between(now - _EXPIRED / 2, now - silence))
        .with_for_update(skip_locked=True, of=TaskInstance)
    )
    found = [ti for ti in session.scalars(statement) if ti.dag_id.startswith(APPLICATION_PREFIX) or is_connectors_dag(ti.dag_id)]
    for ti in found:
        ti.last_heartbeat_at = now - _EXPIRED
    return [ti.dag_id for ti in found]


def end_paused_runs(session: Session) -> list[str]:
    """End runs of paused connectors without a live task. Returns the ids of their DAGs.

    Airflow schedules no task of a paused DAG, so such a run would stay in progress and prevent the next run. Tasks that have not started
    become skipped, without alert or failure. A run with failed tasks has failed.
    """
    statement = (
        select(DagRun)
        .join(DagModel, DagModel.dag_id == DagRun.dag_id)
        .where(DagModel.is_paused, DagModel.dag_id.startswith(DAG_ID_PREFIX, autoescape=True), DagRun.state == DagRunState.RUNNING)
        .with_for_update(skip_locked=True, of=DagRun)
    )
    return _end_idle(session, [run for run in session.scalars(statement) if is_connectors_dag(run.dag_id)], _PAUSED)


def end_runs_without_connectors(session: Session, untouched_since: datetime) -> list[str]:
    """End runs of shared applications whose DAGs have been gone since ``untouched_since``, without a live task. Returns the DAGs' ids.

    Airflow may create an application's next run while its last connector is deleted. Its task could not start without the DAG, so the run
    would stay in progress.
    """
    statement = (
        select(DagRun)
        .join(DagModel, DagModel.dag_id == DagRun.dag_id)
        .where(DagModel.is_stale, ~DagModel.has_import_errors, DagModel.last_parsed_time < untouched_since)
        .where(DagModel.dag_id.startswith(APPLICATION_PREFIX, autoescape=True), DagRun.state.in_(_UNFINISHED))
        .with_for_update(skip_locked=True, of=DagRun)
    )
    return _end_idle(session, session.scalars(statement).all(), _WITHOUT_CONNECTORS)


def _end_idle(session: Session, runs: Iterable[DagRun], note: str) -> list[str]:
    """End those of the runs that have no live task. Returns the ids of their DAGs."""
    ended = [run for run in runs if not any(task.state in (*_ALIVE, TaskInstanceState.QUEUED) for task in _tasks(session, run))]
    for run in ended:
        _end(session, run, note)
    dag_ids = [run.dag_id for run in ended]
    _allow_scheduling(session, dag_ids)
    return dag_ids


def _end(session: Session, run: DagRun, note: str) -> None:
    """End a run and skip its unfinished tasks. A run with a failed task has failed."""
    tasks = _tasks(session, run)
    for task in tasks:
        if task.state not in State.finished:
            task.set_state(TaskInstanceState.SKIPPED, session=session)
            run.note = note
    failed = any(task.state in State.failed_states for task in tasks)
    run.set_state(DagRunState.FAILED if failed else DagRunState.SUCCESS)


def _allow_scheduling(session: Session, dag_ids: Collection[str]) -> None:
    """Clear the scheduler's mark on DAGs at their limit of active runs. The scheduler itself clears the mark only if it detected the end of
    the run, or when the file is parsed again (Airflow 3.2 and later)."""
    session.flush()
    active = select(DagRun.id).where(DagRun.dag_id == DagModel.dag_id, DagRun.state.in_(_UNFINISHED))
    for dag_id in dag_ids:
        marked = update(DagModel).where(DagModel.dag_id == dag_id, DagModel.exceeds_max_non_backfill, ~active.exists())
        session.execute(marked.values(exceeds_max_non_backfill=False), execution_options={"synchronize_session": False})
