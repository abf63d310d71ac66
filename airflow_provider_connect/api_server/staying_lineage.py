"""OpenLineage events of runs that stay: RUNNING while they deliver, and COMPLETE for runs that this package ends without their own process.

The other events are of the provider's listener, in the task's process. The events have the run id of the connector's own Airflow task.
Without the provider, or without a transport, nothing is sent. RUNNING repeats everything that was delivered under the claim, so a later
event makes up for a lost one.
"""

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.models.dagbag import DBDagBag
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.dags import Sessions
from airflow_provider_connect.api_server.delivery_events import run_task
from airflow_provider_connect.api_server.runs import ENDED_NOTES, RUN_TASK
from airflow_provider_connect.api_server.serialized_dags import connector_names
from airflow_provider_connect.operators.lineage import FACET, delivery_facet, event_datasets
from airflow_provider_connect.runtime.model.batches import ConnectorType
from airflow_provider_connect.runtime.model.ids import DAG_ID_PREFIX
from airflow_provider_connect.runtime.model.lineage import staying_lineage
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.sql_mirror.delivery_rows import Deliveries, last_deliveries

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

RUNNING, COMPLETE = "RUNNING", "COMPLETE"
_MOST_WAITING = 1000
_OVERLAP = timedelta(seconds=10)  # between the end of a task and the commit of its row
_STAYS = (TaskInstanceState.RUNNING, TaskInstanceState.DEFERRED)


class StayingLineage:
    """``note`` is called in another thread than ``tick``. ``since`` is the start of this process: earlier ends of runs were reported."""

    def __init__(self, sessions: Sessions, bootstrap_servers: str, *, since: datetime) -> None:
        self._sessions = sessions
        self._bootstrap_servers = bootstrap_servers
        self._since = since
        self._waiting: deque[Deliveries] = deque(maxlen=_MOST_WAITING)
        self._ended: dict[Any, datetime] = {}  # the ids of tasks whose end was sent (Any: of Airflow's type), with their ends

    def note(self, deliveries: Deliveries) -> None:
        """Send the deliveries with the next tick."""
        self._waiting.append(deliveries)

    def tick(self) -> None:
        """Send what was noted, and the ends of runs. Called every few seconds by the process with the lease. Raises the database's errors;
        the provider logs failures of its transport."""
        if not _is_active():
            self._waiting.clear()
            return
        from airflow.providers.openlineage.api.core import emit

        with self._sessions() as session:
            events = [*self._running(session), *self._complete(session)]
        for event in events:
            emit(event)

    def _running(self, session: Session) -> "list[RunEvent]":
        events = []
        while self._waiting:
            deliveries = self._waiting.popleft()
            task = run_task(session, deliveries.connector, deliveries.run)
            if task is not None and task.state in _STAYS and _is_wanted(session, task):  # an ended task's last event has everything
                at = datetime.fromtimestamp(deliveries.at_ms / 1000, UTC)
                events.append(self._event(task, RUNNING, at, deliveries))
        return events

    def _complete(self, session: Session) -> "list[RunEvent]":
        """The events of tasks that were ended because their connectors were paused, stopped or deleted. These tasks end as skipped."""
        statement = (
            select(TaskInstance)
            .where(TaskInstance.state == TaskInstanceState.SKIPPED, TaskInstance.task_id == RUN_TASK)
            .where(TaskInstance.dag_id.startswith(DAG_ID_PREFIX, autoescape=True))
            .where(TaskInstance.end_date > self._since - _OVERLAP, TaskInstance.start_date.is_not(None))
        )
        found = [task for task in session.scalars(statement) if task.id not in self._ended and task.dag_run.note in ENDED_NOTES]
        names = connector_names(session, {task.dag_id for task in found})
        events = []
        for task in found:
            self._ended[task.id] = task.end_date
            self._since = max(self._since, task.end_date)
            if task.dag_id in names and _is_wanted(session, task):
                last = last_deliveries(session, names[task.dag_id])
                is_own = last is not None and last.at_ms / 1000 >= task.start_date.timestamp()
                events.append(self._event(task, COMPLETE, task.end_date, last if is_own else None))
        self._ended = {key: at for key, at in self._ended.items() if at > self._since - _OVERLAP}
        return events

    def _event(self, task: TaskInstance, kind: str, at: datetime, deliveries: Deliveries | None) -> "RunEvent":
        from airflow.providers.openlineage import conf
        from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
        from airflow.providers.openlineage.utils.utils import get_task_parent_run_facet
        from openlineage.client import event_v2

        run = task.dag_run
        date = run.logical_date or run.run_after
        of_task = {"dag_id": task.dag_id, "task_id": task.task_id, "try_number": task.try_number, "map_index": task.map_index}
        parent = OpenLineageAdapter.build_dag_run_id(dag_id=task.dag_id, logical_date=date, clear_number=run.clear_number)
        facets = get_task_parent_run_facet(parent_run_id=parent, parent_job_name=task.dag_id, dr_conf=run.conf or {})
        inputs, outputs = [], []
        if deliveries is not None:
            lineage = staying_lineage(
                deliveries.connector,
                self._bootstrap_servers,
                claim=deliveries.claim,
                state="running" if kind == RUNNING else str(RunState.STOPPED),
                is_source=deliveries.type is ConnectorType.SOURCE,
                records=deliveries.records,
                size=deliveries.bytes,
                ranges=deliveries.ranges,
                datasets=deliveries.datasets,
            )
            inputs, outputs = event_datasets(lineage.inputs), event_datasets(lineage.outputs)
            facets[FACET] = delivery_facet(lineage.delivery)
        return event_v2.RunEvent(
            eventType=event_v2.RunState[kind],
            eventTime=at.isoformat(),
            run=event_v2.Run(runId=OpenLineageAdapter.build_task_instance_run_id(**of_task, logical_date=date), facets=facets),
            job=event_v2.Job(namespace=conf.namespace(), name=f"{task.dag_id}.{task.task_id}"),
            inputs=inputs,
            outputs=outputs,
        )


def _is_active() -> bool:
    try:
        from airflow.providers.openlineage.api.core import is_openlineage_active
    except ImportError:  # the extra ``openlineage`` is not installed
        return False
    return bool(is_openlineage_active())


def _is_wanted(session: Session, task: TaskInstance) -> bool:
    """Whether the provider's settings allow events of this task."""
    from airflow.providers.openlineage.utils.emission_policy import resolve_task_emission_policy

    dag = DBDagBag().get_latest_version_of_dag(task.dag_id, session=session)
    if dag is None or not dag.has_task(task.task_id):
        return False
    policy = resolve_task_emission_policy(operator=dag.get_task(task.task_id), dag_id=task.dag_id, task_id=task.task_id)
    return bool(policy.emit)
