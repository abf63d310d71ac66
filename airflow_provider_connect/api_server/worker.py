"""The worker of an API server process: a herder for one set of worker settings, and the periodic work of the process with the lease."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

from airflow.utils.session import create_session

from airflow_provider_connect.api_server.cluster_checks import airflow_findings, kafka_findings, page_findings, problems
from airflow_provider_connect.api_server.dag_follower import DagFollower
from airflow_provider_connect.api_server.dags import DagRemoval
from airflow_provider_connect.api_server.deadline_watch import DeadlineWatch, MissedDeadline
from airflow_provider_connect.api_server.delivery_events import DeliveryEvents
from airflow_provider_connect.api_server.hosted_runs import HostedRuns
from airflow_provider_connect.api_server.launcher import NO_BUNDLE, AirflowLauncher, airflow_backing
from airflow_provider_connect.api_server.mirror import recorded_history
from airflow_provider_connect.api_server.reconciler import Reconciler
from airflow_provider_connect.api_server.replication_slots import slot_problems, slot_reports
from airflow_provider_connect.api_server.runs import expire_silent_tasks, hosted_connectors
from airflow_provider_connect.api_server.status_comparison import StatusComparison
from airflow_provider_connect.api_server.staying_lineage import StayingLineage
from airflow_provider_connect.dag_files.dag_checks import dag_check
from airflow_provider_connect.dag_files.deadlines import send_missed_deadline
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets, connectors_bundle, settings_now
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.sql_mirror.lag_rows import forget_distances, write_distances
from airflow_provider_connect.runtime.sql_mirror.queries import drop_lease, hold_lease
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.preview.runner import PreviewRunner

LEASE = "reconciler"
_LEASE_SECONDS = 10.0
_SETTINGS_SECONDS = 10.0
_START_SECONDS = 30.0
_POLL_SECONDS = 0.05
_VERB_SECONDS = 3.0
_LONGEST_REQUEST_SECONDS = 100.0

_log = logging.getLogger(__name__)


class ServerWorker:
    """The worker of one API server process. Only one of several API servers has the lease. ``holder`` names this process.

    Each method below is a part of the ticker, and raises the errors of the stores and the database. All except ``check_cluster``,
    ``watch_deadlines``, ``emit_asset_events``, ``report_lineage`` and ``sample_distances`` are called in one thread.
    """

    def __init__(self, settings: WorkerSettings, *, holder: str) -> None:
        with closing(TopicAdmin(settings)) as admin:
            admin.ensure_internal_topics()
        config_providers.warn_open_file_providers(settings.originals)
        self.settings, self._holder, bundle = settings, holder, connectors_bundle()
        self._probe = PluginProbe(settings, secrets=_secrets)
        check = dag_check(settings.dag_limits)
        self.herder = Herder(
            settings,
            AirflowLauncher(create_session, lambda: hosted_connectors(self.herder.config_state())),
            probe=self._probe,
            previewer=PreviewRunner(settings, secrets=airflow_secrets, passwords=self._probe.passwords),
            backing=airflow_backing(settings),
            resolve=partial(_resolve, settings),
            dag_check=check,
            recorded=recorded_history(),
        )
        self._reconciler = Reconciler(
            self.herder, create_session, now=time.time, grace_seconds=settings.missing_dag_grace_seconds, limit=settings.missing_dag_limit
        )
        self._comparison = StatusComparison(
            self.herder,
            create_session,
            verb_seconds=settings.task_shutdown_graceful_timeout_ms / 1000 + _VERB_SECONDS,
            has_bundle=bundle is not None,
            now=time.time,
        )
        self._hosted = HostedRuns(self.herder, create_session, now=time.monotonic)
        self._removal = DagRemoval(create_session, now=time.time)
        self._deadlines = DeadlineWatch(self.herder, create_session, send=_send, now=time.time)
        self._lineage = StayingLineage(create_session, settings.bootstrap_servers, since=datetime.now(UTC))
        self._events = DeliveryEvents(self.herder, create_session, settings.bootstrap_servers, report=self._lineage.note, now=time.time)
        self._follower: DagFollower | None = None
        self._lease_end = 0.0  # by the monotonic clock; 0: another process may have the lease
        self._checked: list[str] = []  # the findings of the last cluster check
        self._slots: list[str] = []
        self._sampled_minute = 0
        if bundle is None:
            _log.warning("%s", NO_BUNDLE)
        else:
            self._follower = DagFollower(
                create_session, bundle, settings.schedule, worker=settings.originals, check=check, control=self.herder, now=time.time
            )

    @property
    def warnings(self) -> list[str]:
        """Warnings for an admin to resolve."""
        return [*self._checked, *self._slots, *self._reconciler.warnings]

    def check_cluster(self) -> None:
        """Check Kafka, Airflow's processes and its roles. Logs new findings."""
        before, self._checked = self._checked, problems([*kafka_findings(self.settings), *airflow_findings(), *page_findings()])
        for text in self._checked:
            if text not in before:
                _log.warning("%s", text)

    def check_slots(self) -> None:
        """Ask database servers for the WAL that they retain for connectors."""
        found = list(slot_reports(self.settings))
        self._slots = slot_problems(each.finding for each in found)
        self.herder.retained_wal.replace({each.connector: each.view for each in found if each.view is not None})

    def reconcile(self) -> None:
        """Take or renew the lease, and reconcile. The other parts act only after this succeeds. While it fails and backs off, the lease
        expires, and another process may take the lease."""
        had_lease, self._lease_end, asked = self._has_lease, 0.0, time.monotonic()
        with create_session() as session:
            takes_lease = hold_lease(session, LEASE, self._holder, now=time.time(), seconds=_LEASE_SECONDS)
        if not takes_lease:
            self._reconciler.watch()
            return
        if not had_lease:
            self._comparison.reset()
        self._reconciler.tick()
        self._lease_end = asked + _LEASE_SECONDS

    @property
    def _has_lease(self) -> bool:
        """Whether this process has the lease. The other parts check this, because the lease may have expired."""
        return time.monotonic() < self._lease_end

    def follow_dags(self) -> None:
        if self._has_lease and self._follower is not None:
            self._follower.tick(self.herder.config_state())

    def compare_statuses(self) -> None:
        if self._has_lease:
            self._comparison.tick()

    def wake_hosted_runs(self) -> None:
        if self._has_lease:
            self._hosted.tick()

    def remove_dags(self) -> None:
        if self._has_lease:
            self._removal.tick(self.herder.config_state())

    def expire_silent_tasks(self) -> None:
        if not self._has_lease:
            return
        with create_session() as session:
            for dag_id in expire_silent_tasks(session, datetime.now(UTC)):
                _log.warning("A task of %s has sent no heartbeat for long: its process is lost, and the scheduler ends its try", dag_id)

    def watch_deadlines(self) -> None:
        if self._has_lease:
            self._deadlines.tick()

    def emit_asset_events(self) -> None:
        if self._has_lease:
            self._events.tick()

    def report_lineage(self) -> None:
        if self._has_lease:
            self._lineage.tick()

    def sample_distances(self) -> None:
        """Write the connectors' distances from the ends of their inputs, once a minute."""
        minute = int(time.time() // 60)
        if not self._has_lease or minute == self._sampled_minute:
            return
        found = self.herder.current_distances()
        with create_session() as session:
            now_ms = int(time.time() * 1000)
            write_distances(session, found, now_ms=now_ms)
            forget_distances(session, now_ms=now_ms)
        self._sampled_minute = minute

    def release(self) -> None:
        """Release the lease, so that another process can take it immediately."""
        with create_session() as session:
            drop_lease(session, LEASE, self._holder)

    def close(self) -> None:
        """Close the stores. Called when no request uses the herder any longer."""
        self.herder.close()
        self._probe.close()


def _send(missed: MissedDeadline) -> None:
    send_missed_deadline(missed.connector, missed.names, missed.state, missed.error, dag_id=dag_id_for(missed.connector))


def _secrets(config: Mapping[str, str | None]) -> Mapping[str, str]:
    return airflow_secrets({key: text for key, text in config.items() if text is not None})


def _resolve(settings: WorkerSettings, config: Mapping[str, str]) -> Mapping[str, str]:
    providers = settings.config_providers(config["name"])
    return config_providers.resolve(config, providers, config_providers.airflow_values(config, providers, airflow_secrets))


class CurrentWorker:
    """The worker for the settings in force. The worker is replaced when the settings change. ``renew`` and ``close`` are called in the
    ticker's thread, the other methods in any thread."""

    def __init__(self, *, holder: str) -> None:
        self.worker: ServerWorker | None = None
        self._holder = holder
        self._failure: str | None = None
        self._former: list[tuple[float, ServerWorker]] = []
        self._values: Mapping[str, str] | None = None
        self._warnings: list[str] = []

    def settings(self) -> WorkerSettings | None:
        """The settings in force. None: there is no worker."""
        return None if self.worker is None else self.worker.settings

    def herder(self) -> Herder:
        """The herder of this process. Waits until it is created. Raises ConnectException with the reason if it cannot be created."""
        until = time.monotonic() + _START_SECONDS
        while (worker := self.worker) is None:
            if self._failure is not None or time.monotonic() > until:
                raise ConnectException(self._failure or "The internal topics are still being searched")
            time.sleep(_POLL_SECONDS)
        return worker.herder

    def warnings(self) -> list[str]:
        """Warnings for an admin while requests are served: settings that are not in force, DAGs that are gone."""
        return [*self._warnings, *([] if self.worker is None else self.worker.warnings)]

    def act(self, action: Callable[[ServerWorker], None]) -> None:
        """Call ``action`` with the worker, if there is one."""
        if self.worker is not None:
            action(self.worker)

    def renew(self) -> float:
        """Apply changed settings. Variable, Connection and secrets can change at any time. Returns the seconds until the next call.

        If settings are invalid, the current worker stays in force, and there is a warning.
        """
        try:
            found = settings_now()
            self._replace(found.settings)
            warnings = [f"Worker setting {fault}" for fault in found.faults]
        except Exception as error:
            if self.worker is None:
                self._failure = error.message if isinstance(error, ConnectException) else f"{type(error).__name__}: {error}"
                raise
            if not isinstance(error, ConnectException):
                raise
            warnings = [f"The previous worker settings are in force, because the current ones cannot be used: {error.message}"]
            if warnings != self._warnings:
                _log.warning("%s", warnings[0])
        self._warnings = warnings
        self._close_former(time.monotonic())
        return _SETTINGS_SECONDS

    def _replace(self, settings: WorkerSettings) -> None:
        if settings.values == self._values:
            return
        former, self.worker = self.worker, ServerWorker(settings, holder=self._holder)
        self._values, self._failure = settings.values, None
        for warning in self.worker.warnings:
            if former is None or warning not in former.warnings:
                _log.warning("%s", warning)
        if former is not None:
            self._former.append((time.monotonic() + _LONGEST_REQUEST_SECONDS, former))

    def _close_former(self, now: float) -> None:
        """Close the workers that no request can use any longer."""
        for due, worker in [pair for pair in self._former if pair[0] <= now]:
            self._former.remove((due, worker))
            worker.close()

    def close(self) -> None:
        """Close all workers and release the lease."""
        worker, self.worker = self.worker, None
        self._close_former(float("inf"))
        if worker is not None:
            worker.release()
            worker.close()
