"""The connectors' DAGs as Airflow's database holds them. With ``run_requests`` the only module that reads Airflow's own tables.

For the API server only: tasks and DAG files may not use the database.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.api.common.mark_tasks import set_dag_run_state_to_failed
from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import DagRunState, State, TaskInstanceState
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from airflow_provider_connect.model.contradictions import RunFacts
from airflow_provider_connect.model.ids import DAG_ID_PREFIX, connector_for, dag_id_for, is_shortened
from airflow_provider_connect.operators.definition import ATTRIBUTE, CONNECTOR, MARK, stored_config

_ALIVE = (TaskInstanceState.RUNNING, TaskInstanceState.RESTARTING)
_IN_LIMIT = 500
_MARKS = ("patch_dag_run", "patch_task_instance", "patch_task_instance_by_map_index", "patch_task_group_instances")
_AUDIT_DELAY = timedelta(seconds=5)
ENDS = "It stays FAILED until a run with something to do has ended well, or a restart: POST /connectors/«name»/restart?includeTasks=true."


@dataclass(frozen=True, slots=True)
class ConnectorDagRow:
    """One connector's DAG. ``version`` changes whenever its file gives it another content; ``is_gone``: its file no longer has it."""

    connector: str
    dag_id: str
    is_paused: bool
    is_gone: bool
    version: str


@dataclass(frozen=True, slots=True)
class Definition:
    """What a DAG file says that a connector is: its config as it goes to the config topic, and the file, relative to its bundle."""

    config: dict[str, str]
    file: str


class ConnectorDags:
    """The DAGs of connectors, for one who looks every second: only what was parsed since the last look is read in full.

    Measured with 1,000 of them: a look costs 5 ms of CPU; to read every version anew, 19.
    """

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[datetime | None, str]] = {}  # when the version was read, and which it is
        self._rows: dict[str, ConnectorDagRow | None] = {}

    def look(self, session: Session) -> list[ConnectorDagRow]:
        """Each with its newest serialized version. A DAG whose file cannot be imported now is not gone."""
        statement = select(DagModel.dag_id, DagModel.is_paused, DagModel.is_stale, DagModel.has_import_errors, DagModel.last_parsed_time)
        found = session.execute(statement.where(DagModel.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))).all()
        parsed = {dag_id: moment for dag_id, _, _, _, moment in found}
        changed = {dag_id for dag_id, moment in parsed.items() if dag_id not in self._parsed or self._parsed[dag_id][0] != moment}
        versions = _versions(session, changed)
        self._parsed = {
            dag_id: (moment, versions.get(dag_id, "")) if dag_id in changed else self._parsed[dag_id] for dag_id, moment in parsed.items()
        }
        carried = _carried(session, (dag_id for dag_id in parsed if is_shortened(dag_id) and dag_id not in self._rows))
        rows = (self._row(dag_id, carried, bool(paused), bool(stale) and not errors) for dag_id, paused, stale, errors, _ in found)
        return [row for row in rows if row is not None]

    def _row(self, dag_id: str, carried: Mapping[str, str], is_paused: bool, is_gone: bool) -> ConnectorDagRow | None:
        """None: not a connector's DAG, or not serialized yet. What has not changed is the same object as before."""
        version, known = self._parsed[dag_id][1], self._rows.get(dag_id)
        if not version:
            return None
        if known is None or (known.is_paused, known.is_gone, known.version) != (is_paused, is_gone, version):
            connector = known.connector if known is not None else carried.get(dag_id) or connector_for(dag_id)
            known = None if connector is None else ConnectorDagRow(connector, dag_id, is_paused, is_gone, version)
            if known is not None or not is_shortened(dag_id):
                self._rows[dag_id] = known
        return known


def _connectors(session: Session, dag_ids: Iterable[str]) -> list[str]:
    """The connectors of those of the DAGs that are connectors'."""
    ordered = list(dag_ids)
    carried = _carried(session, filter(is_shortened, ordered))
    return [name for dag_id in ordered if (name := carried.get(dag_id) or connector_for(dag_id)) is not None]


def _carried(session: Session, dag_ids: Iterable[str]) -> dict[str, str]:
    """The connectors' names that DAGs with shortened ids carry in their tasks."""
    carried: dict[str, str] = {}
    for part in _parts(dag_ids):
        newest = _newest(part)
        for row in session.scalars(select(SerializedDagModel).join(newest, newest.c.id == SerializedDagModel.id)):
            found = (task["__var"].get(CONNECTOR) for task in row.data["dag"]["tasks"])
            name = next((name for name in found if isinstance(name, str) and dag_id_for(name) == row.dag_id), None)
            if name is not None:
                carried[row.dag_id] = name
    return carried


def _versions(session: Session, dag_ids: Iterable[str]) -> dict[str, str]:
    """The hash of each DAG's newest serialized version."""
    versions: dict[str, str] = {}
    for part in _parts(dag_ids):
        newest = _newest(part)
        found = session.execute(select(newest.c.dag_id, SerializedDagModel.dag_hash).join(newest, newest.c.id == SerializedDagModel.id))
        versions |= {str(dag_id): str(dag_hash) for dag_id, dag_hash in found}
    return versions


def definition(session: Session, dag_id: str) -> Definition | None:
    """What the newest serialized version of a DAG defines; None: its connector is defined elsewhere."""
    newest = _newest([dag_id])
    row = session.scalar(select(SerializedDagModel).join(newest, newest.c.id == SerializedDagModel.id))
    connector = next(iter(_connectors(session, [dag_id])), None)
    if row is None or connector is None:
        return None
    dag = row.data["dag"]
    text = next((found for task in dag["tasks"] if (found := task["__var"].get(ATTRIBUTE))), None)
    if text is None:
        return None
    file = str(dag.get("relative_fileloc") or dag["fileloc"])
    return Definition(stored_config(connector, json.loads(text), file), file)


def dag_marks(session: Session, dag_ids: Iterable[str]) -> dict[str, str]:
    """What those of the DAGs that are in a file now were made of (``StoredConnectorDag``), by their ids; ``""`` for one made otherwise."""
    marks: dict[str, str] = {}
    for part in _parts(dag_ids):
        newest = _newest(part)
        statement = select(SerializedDagModel).join(newest, newest.c.id == SerializedDagModel.id)
        for row in session.scalars(statement.join(DagModel, DagModel.dag_id == SerializedDagModel.dag_id).where(~DagModel.is_stale)):
            marks[row.dag_id] = next((mark for task in row.data["dag"]["tasks"] if (mark := task["__var"].get(MARK))), "")
    return marks


def in_parts(session: Session, statement: Any, column: Any, names: Iterable[str]) -> Iterator[Any]:
    """The rows of ``statement`` whose ``column`` is one of ``names``, asked for so many at a time that a database takes it."""
    for part in _parts(names):
        yield from session.scalars(statement.where(column.in_(part)))


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(names)
    return (ordered[at : at + _IN_LIMIT] for at in range(0, len(ordered), _IN_LIMIT))


def set_paused(session: Session, dag_id: str, *, paused: bool) -> bool:
    """Set the flag. False, with nothing changed, when somebody else has changed it since it was read."""
    statement = update(DagModel).where(DagModel.dag_id == dag_id, DagModel.is_paused == (not paused)).values(is_paused=paused)
    changed: Any = session.execute(statement)
    return bool(changed.rowcount == 1)


def has_running_task(session: Session, dag_id: str) -> bool:
    """Whether a task process of the DAG may live."""
    statement = select(TaskInstance.id).where(TaskInstance.dag_id == dag_id, TaskInstance.state.in_(_ALIVE)).limit(1)
    return session.scalar(statement) is not None


def running_connectors(session: Session) -> list[str]:
    """The connectors of whose DAGs a task process may live."""
    statement = select(TaskInstance.dag_id).distinct()
    statement = statement.where(TaskInstance.state.in_(_ALIVE), TaskInstance.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))
    return _connectors(session, session.scalars(statement))


def run_facts(session: Session, connectors: Iterable[str]) -> dict[str, RunFacts]:
    """What is known of the connectors' runs; every one of them has an entry, one without a DAG an empty one."""
    names = {dag_id_for(name): name for name in connectors}
    live = set(in_parts(session, select(TaskInstance.dag_id).distinct().where(TaskInstance.state.in_(_ALIVE)), TaskInstance.dag_id, names))
    unfinished = select(DagRun.dag_id).distinct().where(DagRun.state.in_((DagRunState.QUEUED, DagRunState.RUNNING)))
    waiting = set(in_parts(session, unfinished, DagRun.dag_id, names))
    age = func.row_number().over(partition_by=DagRun.dag_id, order_by=DagRun.end_date.desc())
    ended = select(DagRun.id, DagRun.dag_id, age.label("age")).where(DagRun.end_date.is_not(None)).subquery()
    last_runs = select(DagRun).join(ended, ended.c.id == DagRun.id).where(ended.c.age == 1)
    last = {run.dag_id: run for run in in_parts(session, last_runs, ended.c.dag_id, names)}
    return {name: _end(session, last.get(dag_id), RunFacts(dag_id in live, dag_id in waiting)) for dag_id, name in names.items()}


def failed_since(session: Session, moment: datetime) -> list[str]:
    """The connectors that have had a run which failed after ``moment``."""
    statement = select(DagRun.dag_id).distinct()
    statement = statement.where(DagRun.state == DagRunState.FAILED, DagRun.end_date > moment)
    return _connectors(session, session.scalars(statement.where(DagRun.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))))


def _end(session: Session, run: DagRun | None, facts: RunFacts) -> RunFacts:
    """``facts`` with when the run ended and why it failed; a run that was killed has left no other word."""
    if run is None or run.end_date is None:
        return facts
    facts = replace(facts, ended_ms=int(run.end_date.timestamp() * 1000))
    if run.state != DagRunState.FAILED:
        return facts
    query = select(TaskInstance).where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
    failed = [task for task in session.scalars(query) if task.state in State.failed_states]
    user = _failed_by(session, run)
    if user is not None:
        return replace(facts, failure=f"Run {run.run_id} was marked as failed by user {user} in Airflow. {ENDS}", is_marked=True)
    if not failed:
        return replace(facts, failure=f"Run {run.run_id} failed before it started anything. {ENDS}")
    told = ", ".join(f"{task.task_id} (try {task.try_number}, {task.state}, on {task.hostname or 'no host'})" for task in failed)
    failure = f"Run {run.run_id} failed and its application did not report this: {told}. The log of that try in Airflow tells more. {ENDS}"
    return replace(facts, failure=failure)


def _failed_by(session: Session, run: DagRun) -> str | None:
    """The user who marked the run, or a task of it, as failed, by Airflow's audit log: its last such entry before the run ended. None: no
    user did."""
    marks = select(Log).where(Log.dag_id == run.dag_id, Log.run_id == run.run_id, Log.event.in_(_MARKS))
    since, until = (run.start_date or run.queued_at or run.end_date) - _AUDIT_DELAY, run.end_date + _AUDIT_DELAY
    latest = session.scalars(marks.where(Log.dttm.between(since, until)).order_by(Log.id.desc()))
    entry = next((entry for entry in latest if '"failed"' in (entry.extra or "")), None)
    return None if entry is None else str(entry.owner_display_name or entry.owner or "unknown")


def end_runs(session: Session, dag_id: str) -> None:
    """Fail the runs in progress, so that Airflow kills their tasks, and those that wait: of a paused DAG, they would for ever.

    None is deleted: the scheduler may have read the row a moment ago. On SQLite, where readers lock nothing, it would not find it again,
    and end (Airflow 3.3, ``StaleDataError`` in ``_do_scheduling``).
    """
    waiting = update(DagRun).where(DagRun.dag_id == dag_id, DagRun.state == DagRunState.QUEUED)
    session.execute(waiting.values(state=DagRunState.FAILED, end_date=datetime.now(UTC)))
    running = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.state == DagRunState.RUNNING)).all()
    dags = DBDagBag()
    for run in running:
        dag = dags.get_dag_for_run(dag_run=run, session=session)
        if dag is not None:
            set_dag_run_state_to_failed(dag=dag, run_id=run.run_id, commit=True, session=session)
    _let_schedule(session, [dag_id])


def end_paused_runs(session: Session) -> list[str]:
    """End runs of paused connectors in which no task lives; returns their DAGs' ids.

    Airflow schedules nothing of a paused DAG, so such a run would stay in progress and keep the next one from starting. What it had not
    started counts as skipped, without alert or failure; a run whose tasks had FAILED has failed.
    """
    statement = (
        select(DagRun)
        .join(DagModel, DagModel.dag_id == DagRun.dag_id)
        .where(DagModel.is_paused, DagModel.dag_id.startswith(DAG_ID_PREFIX, autoescape=True), DagRun.state == DagRunState.RUNNING)
        .with_for_update(skip_locked=True, of=DagRun)
    )
    runs = [run for run in session.scalars(statement) if connector_for(run.dag_id) is not None or is_shortened(run.dag_id)]
    ended = [run.dag_id for run in runs if _ended(session, run)]
    _let_schedule(session, ended)
    return ended


def _let_schedule(session: Session, dag_ids: Collection[str]) -> None:
    """Tell the scheduler that the DAGs have no run any more. It keeps a mark at a DAG that has as many as it may have, and takes it off
    itself only where it was itself that saw a run end, or when the file is parsed anew (Airflow 3.2 and later)."""
    active = select(DagRun.id).where(DagRun.dag_id == DagModel.dag_id, DagRun.state.in_((DagRunState.QUEUED, DagRunState.RUNNING)))
    session.flush()
    for part in _parts(dag_ids):
        marked = update(DagModel).where(DagModel.dag_id.in_(part), DagModel.exceeds_max_non_backfill, ~active.exists())
        session.execute(marked.values(exceeds_max_non_backfill=False), execution_options={"synchronize_session": False})


def _ended(session: Session, run: DagRun) -> bool:
    tasks = session.scalars(select(TaskInstance).where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)).all()
    if any(task.state in (*_ALIVE, TaskInstanceState.QUEUED) for task in tasks):
        return False
    for task in tasks:
        if task.state not in State.finished:
            task.set_state(TaskInstanceState.SKIPPED, session=session)
            run.note = "paused"
    failed = any(task.state in State.failed_states for task in tasks)
    run.set_state(DagRunState.FAILED if failed else DagRunState.SUCCESS)
    return True


def _newest(dag_ids: Collection[str]) -> Any:
    """The id of each DAG's newest serialized version: ids of version 7 rise with time, so the largest is the newest."""
    latest = func.row_number().over(partition_by=SerializedDagModel.dag_id, order_by=SerializedDagModel.id.desc())
    asked = SerializedDagModel.dag_id.in_(dag_ids)
    ranked = select(SerializedDagModel.dag_id, SerializedDagModel.id, latest.label("age")).where(asked).subquery()
    return select(ranked.c.dag_id, ranked.c.id).where(ranked.c.age == 1).subquery()
