"""Asset events of runs that stay, while they stay. Their tasks cannot emit events before they end, and members of shared applications have
no process of their own.

The mirror has the deliveries. Events and the note about their ranges are written in one transaction, so each range is in exactly one event,
also after the death of the process.

Internals of Airflow 3.3.2: ``TaskInstance.register_asset_changes_in_db`` and its form of events, ``AssetProfile``. For the API server only.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from airflow.api_fastapi.execution_api.datamodels.asset import AssetProfile
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.dags import Sessions
from airflow_provider_connect.api_server.repeated_warnings import RepeatedWarnings
from airflow_provider_connect.api_server.runs import RUN_TASK
from airflow_provider_connect.operators.run_report import event_extra, sink_group, topic_asset
from airflow_provider_connect.runtime.config.dag_settings import asset_seconds
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.sql_mirror.delivery_rows import Deliveries, pending_connectors, take_deliveries

_NO_RUN_SECONDS = 10.0


class Configs(Protocol):
    """The part of the herder that the events need."""

    def config_state(self) -> ClusterConfigState: ...


class DeliveryEvents:
    """Emits the events of each connector, at most once in its ``airflow.asset.interval``. ``report`` receives the deliveries after their
    events are committed. ``now`` is in seconds since 1970."""

    def __init__(
        self,
        control: Configs,
        sessions: Sessions,
        bootstrap_servers: str,
        *,
        report: Callable[[Deliveries], None],
        now: Callable[[], float],
    ) -> None:
        self._control = control
        self._sessions = sessions
        self._bootstrap_servers = bootstrap_servers
        self._report = report
        self._now = now
        self._warnings = RepeatedWarnings(now=now)
        self._without_run: dict[str, float] = {}  # until when each connector waits for its first run

    def tick(self) -> None:
        """Called every few seconds by the process with the lease. Raises the errors of the stores and the database, but not of single
        connectors."""
        with self._sessions() as session:
            last = pending_connectors(session)
        configs = self._control.config_state().connector_configs if last else {}
        now = self._now()
        self._without_run = {connector: until for connector, until in self._without_run.items() if until > now}
        for connector in sorted(last):
            config = configs.get(connector)
            if connector in self._without_run:
                continue
            if config is None or now - last[connector] / 1000 >= asset_seconds(config):
                self._warnings.attempt(connector, partial(self._emit, connector, config), "asset events")
        self._warnings.end_pass()

    def _emit(self, connector: str, config: Mapping[str, str] | None) -> None:
        """Steps: 1 write the events, and the note about their ranges; 2 notify Airflow's listeners. ``config`` None: the connector was
        deleted, so its last deliveries have no event."""
        notify: list[Callable[[], None]] = []
        with self._sessions() as session:  # 1
            found = take_deliveries(session, connector, now_ms=int(self._now() * 1000))
            for deliveries in found if config is not None else ():
                task = run_task(session, connector, deliveries.run)
                if task is None:  # a shared application may host a connector before the connector's own run has begun
                    session.rollback()
                    self._without_run[connector] = self._now() + _NO_RUN_SECONDS
                    return
                notify += register_events(session, task, self._events(deliveries, sink_group(connector, config or {})))
        for call in notify:  # 2
            call()
        for deliveries in found:
            self._report(deliveries)

    def _events(self, deliveries: Deliveries, group: str | None) -> list[dict[str, Any]]:
        alias = dag_id_for(deliveries.connector)
        found = []
        for topic, ranges in sorted(deliveries.new.items()):
            asset = topic_asset(self._bootstrap_servers, topic, group=group)
            key = {"name": asset.name, "uri": asset.uri}
            extra = event_extra(deliveries.connector, ranges)
            found.append({"source_alias_name": alias, "dest_asset_key": key, "dest_asset_extra": {}, "extra": extra})
        return found


def register_events(session: Session, task: TaskInstance, events: list[dict[str, Any]]) -> Sequence[Callable[[], None]]:
    """Write events of the task through the asset alias of its DAG, as Airflow does at the end of a task. Returns calls of listeners, for
    after the commit."""
    alias = AssetProfile(name=task.dag_id, type="AssetAlias")
    calls: Sequence[Callable[[], None]] = TaskInstance.register_asset_changes_in_db(task, [alias], events, session=session)
    return calls


def run_task(session: Session, connector: str, run: str) -> TaskInstance | None:
    """The connector's Airflow task in ``run``, or in its newest run if ``run`` is a shared application's. None: there is no run."""
    of_connector = select(TaskInstance).where(TaskInstance.dag_id == dag_id_for(connector), TaskInstance.task_id == RUN_TASK)
    own = session.scalar(of_connector.where(TaskInstance.run_id == run).limit(1))
    if own is not None:
        return own
    of_run = (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id)
    return session.scalar(of_connector.join(DagRun, of_run).order_by(DagRun.id.desc()).limit(1))
