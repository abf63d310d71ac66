"""The launcher and stores of a herder inside Airflow: the launcher starts, ends and finds runs of connectors as runs of their DAGs. The
stores read the config topic from the last position of any process of this host. For processes that may use Airflow's database."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.dags import Sessions, dags_of, has_dag, hide_dag
from airflow_provider_connect.api_server.runs import end_runs, has_running_task, running_connectors, running_runs, start_run
from airflow_provider_connect.api_server.serialized_dags import request_parse
from airflow_provider_connect.dag_files.connector_files import file_for
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.hooks.airflow_settings import BUNDLE, connectors_bundle, run_directory
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import application_dag_id, dag_id_for
from airflow_provider_connect.runtime.sql_mirror.queries import agreement_key, drop_agreement
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.config_cache import ConfigCache

_READ_SECONDS = 30.0
_ENTRY = (
    f'{{"name": "connectors", "classpath": "{BUNDLE}", "kwargs": {{}}}} to dag_bundle_config_list in section [dag_processor], on every '
    "host of Airflow, and restart it"
)
NO_BUNDLE = f"Connectors created over REST have no DAGs and never run: add {_ENTRY}"

_log = logging.getLogger(__name__)


class AirflowLauncher:
    """See the module. ``hosted`` returns the connectors that shared applications host, each with its application."""

    def __init__(self, sessions: Sessions, hosted: Callable[[], Mapping[str, str]] = dict) -> None:
        self._sessions = sessions
        self._hosted = hosted

    def is_running(self, connector: str) -> bool:
        """Whether a task of the connector's DAG, or of the application that hosts it, is running or being killed."""
        application = self._hosted().get(connector)
        with self._sessions() as session:
            if application is not None and has_running_task(session, application_dag_id(application)):
                return True
            return has_running_task(session, dag_id_for(connector))

    def running(self) -> dict[str, list[str]]:
        """The connectors with a task that is running or being killed, with the ids of these runs. The run of a shared application is
        ``«DAG»/«run»``."""
        hosted = self._hosted()
        with self._sessions() as session:
            found = running_connectors(session)
            runs = {name: running_runs(session, application_dag_id(name)) for name in set(hosted.values())}
        return found | {connector: runs[name] for connector, name in hosted.items() if runs[name]}

    def end(self, connector: str) -> None:
        """End the queued runs and the runs in progress. Tasks of runs in progress are killed gracefully."""
        with self._sessions() as session:
            end_runs(session, dag_id_for(connector))

    def trigger(self, connector: str, tasks: Sequence[int] | None = None) -> None:
        """Queue a run (only of ``tasks`` if given), unless a run is already queued or the schedule starts a run now.

        If the connector has no DAG, the DAG is requested, and the DAG follower starts its first run.
        """
        dag_id = dag_id_for(connector)
        with self._sessions() as session:
            if has_dag(session, dag_id):
                start_run(session, dag_id, now=datetime.now(UTC), tasks=tasks or None)
            else:
                self._request_dag(session, connector, 1)

    def obstacle(self, connector: str | None = None) -> str | None:
        """The reason why a connector cannot run: without the bundle, a connector that no DAG file defines has no DAG, and a shared
        application has none either."""
        if connectors_bundle() is not None:
            return None
        if connector is not None:
            if (application := self._hosted().get(connector)) is not None:
                return f"Application {application}, which airflow.application names, has no DAG and never runs: add {_ENTRY}"
            with self._sessions() as session:
                if has_dag(session, dag_id_for(connector)):
                    return None
        return NO_BUNDLE

    def forget(self, connector: str) -> None:
        """Remove the connector's runs immediately and its DAG later. Airflow's audit log is kept. Does nothing without a DAG."""
        with self._sessions() as session:
            hide_dag(session, dag_id_for(connector))
            drop_agreement(session, agreement_key(connector))  # a new connector of this name starts without history
            self._request_dag(session, connector, 0)  # its file is written and parsed without this connector

    @staticmethod
    def _request_dag(session: Session, connector: str, more: int) -> None:
        bundle = connectors_bundle()
        if bundle is not None:
            request_parse(session, bundle, file_for(connector, len(dags_of(session, bundle)) + more))


def airflow_backing(settings: WorkerSettings) -> TopicBacking:
    """Stores that continue from the current end of the config topic. The topic is read once for all stores. The topics must exist.

    If another user owns the run directory, each store reads the whole topic. Raises StoreTimeoutException: the records read so far are kept
    in the run directory, and the next call continues after them.
    """
    try:
        folder = run_directory()
    except ConfigException as error:
        _log.info("Reading the whole config topic: %s", error.message)
        return TopicBacking(settings)
    return TopicBacking(settings, known=ConfigCache(folder).read(settings, None, timeout_seconds=_READ_SECONDS))
