"""One run of a connector as an Airflow task. Checks whether there is work, runs the Spark application, and reports its result."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_provider_connect.errors import ConnectException, last_line
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets, run_directory, worker_settings
from airflow_provider_connect.operators.definition import DefinesConnector
from airflow_provider_connect.operators.failure_notices import call_back, notices_of_failures
from airflow_provider_connect.operators.lineage import HasLineage
from airflow_provider_connect.operators.planning import airflow_errors, require_started
from airflow_provider_connect.operators.run_conf import refuse_backfill, requested_tasks
from airflow_provider_connect.operators.run_report import emit_asset_events, emit_lost, emit_run, failure, sink_group, xcom_values
from airflow_provider_connect.operators.spark_submit import ApplicationOperator
from airflow_provider_connect.runtime.config.dag_settings import SCHEDULE, SPARK
from airflow_provider_connect.runtime.config.notifiers import without_notifiers
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.batches import refusals
from airflow_provider_connect.runtime.model.ids import application_dag_id, tasks_label
from airflow_provider_connect.runtime.model.run import Claim, RunResult, RunSpec, RunState
from airflow_provider_connect.runtime.spark.parent_death import die_with_parent, may_outlive_parent
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory, forget_secrets_left, remove_stale_runs
from airflow_provider_connect.triggers.hosted import NOTICE, OVER, HostedTrigger

_log = logging.getLogger(__name__)
_CHECK_SECONDS, _START_SECONDS = 2.0, 60.0
_SHORTEST_SECONDS = 60.0  # of a run that would stay, and fails


class ConnectTaskOperator(DefinesConnector, HasLineage, ApplicationOperator):
    """Runs a connector's tasks in one Spark application or, with ``engine="process"``, in one process without Spark.

    If there is no work, no application starts. ``tasks`` and ``claim`` come from a plan (``tasks.per.application``). Without them, the
    application claims the connector and plans its tasks. With ``stays_seconds``, the run stays that long and delivers new records as they
    come. With ``application_name``, that shared application delivers them, and the run is deferred for as long.
    With ``idle_seconds``, a run that has work reads on until there was no new record for that long, at most for ``longest_seconds``.

    If records are delivered, the operator emits asset events at the end of the run (of a run that stays, the API server emits them) on
    ``kafka://«first bootstrap server»/«topic»``, through the asset alias of the DAG's id. For a sink, the asset's URI also has the consumer
    group. Other keyword arguments are those of SparkSubmitOperator.
    """

    template_fields: Sequence[str] = ()  # the name may be from REST or the config topic, so it must not be a template
    ui_color = "#e8f1f8"

    def __init__(
        self,
        *,
        connector: str,
        connector_definition: str | None = None,
        dag_mark: str | None = None,
        tasks: Sequence[int] | None = None,
        claim: str | None = None,
        spark_conn_id: str | None = None,
        engine: str = SPARK,
        stays_seconds: float | None = None,
        application_name: str | None = None,
        idle_seconds: float | None = None,
        longest_seconds: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(connector=connector, spark_conn_id=spark_conn_id, engine=engine, **kwargs)
        self.connector_definition = connector_definition
        self.dag_mark = dag_mark
        self.tasks = tasks
        self.claim = claim
        self.stays_seconds = stays_seconds
        self.application_name = application_name
        self.idle_seconds = idle_seconds
        self.longest_seconds = longest_seconds
        self.failure_trace: str | None = None  # the trace of the failure, for notices

    @property
    def tasks_label(self) -> str:
        """The label of a mapped task in the UI."""
        return tasks_label(self.connector, self.tasks or [])

    def execute(self, context: Mapping[str, Any]) -> dict[str, dict[str, float]] | None:
        """Records, bytes, seconds and CPU-seconds by task. Without work, returns None, so no XCom is written."""
        die_with_parent()  # if the parent has ended before this line, the next request to Airflow fails
        began = time.monotonic()
        try:
            with airflow_errors(f"Connector {self.connector}"):
                if self.application_name is None:
                    return self._run(context)
                self._join(context)
                return None
        except AirflowException:
            if self.stays_seconds is not None:  # Airflow starts the next run at once
                time.sleep(max(0.0, _SHORTEST_SECONDS - (time.monotonic() - began)))
            raise

    def _join(self, context: Mapping[str, Any]) -> None:
        """Defer the run while the shared application hosts the connector. If the connector is FAILED, first have it hosted again."""
        from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
        from airflow_provider_connect.runtime.worker.application.readiness import check_hosted, request_hosting

        refuse_backfill(context)
        settings, cache = worker_settings(), ConfigCache(run_directory())
        until = time.monotonic() + _START_SECONDS
        while (found := check_hosted(settings, self.connector, cache)).state == "not-started":
            if time.monotonic() > until:
                raise AirflowSkipException(f"Connector {self.connector} is not started: {found.reason}")
            time.sleep(_CHECK_SECONDS)
        _log.info("Connector %s: %s: %s", self.connector, found.state, found.reason)
        if found.state == "waiting":
            self.defer(trigger=HostedTrigger(found.wait_seconds), method_name="rejoin")
        if found.state == "work":
            request_hosting(settings, self.connector)
        self._defer(self.stays_seconds or 0.0, [])

    def _defer(self, seconds: float, noticed: Sequence[str]) -> None:
        _log.info(
            "Connector %s: application %s hosts it. Its tasks' log is in DAG %s",
            self.connector,
            self.application_name,
            application_dag_id(self.application_name or ""),
        )
        self.defer(trigger=HostedTrigger(seconds, noticed), method_name="hosted")

    def rejoin(self, context: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """Called when the wait after failures is over."""
        with airflow_errors(f"Connector {self.connector}"):
            self._join(context)

    def hosted(self, context: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        """Called with the event of ``HostedTrigger``: when the run's time is over, or when something has FAILED."""
        if event["status"] == OVER:
            return
        self.failure_trace = str(event["trace"])
        error = AirflowException(f"Connector {self.connector}: {last_line(self.failure_trace)}")
        if event["status"] != NOTICE:
            raise error
        call_back(self, {**context, "exception": error})
        self._defer(self.stays_seconds or 0.0, event["noticed"])

    def _run(self, context: Mapping[str, Any]) -> dict[str, dict[str, float]] | None:
        refuse_backfill(context)
        settings = worker_settings()
        asked_for = requested_tasks(context)
        found = require_started(
            self,
            settings,
            context,
            is_asked_for=asked_for is not None,
            is_planned=self.tasks is not None,
            stays=self.stays_seconds is not None,
        )
        stays_seconds = None if self.is_outdated(found.config, SCHEDULE) else self.stays_seconds
        if found.state == "no-work" and stays_seconds is None:
            _log.info("Connector %s has nothing to do: %s", self.connector, found.reason)
            return None
        directory = self._make_directory(context)
        tasks = asked_for if self.tasks is None else list(self.tasks)
        passed_on = without_notifiers(settings.originals)
        spec = RunSpec(
            connector=self.connector,
            settings=passed_on,
            run_id=context["run_id"],
            try_number=context["ti"].try_number,
            tasks=tasks if self.tasks is not None else directory.tasks_left() or tasks,
            claim=Claim.parse(self.claim) if self.claim else None,
            define=self.definition(),
            secrets={**airflow_secrets(passed_on), **found.secrets},
            known=None if found.known is None else found.known.to_json(),
            stays_seconds=stays_seconds,
            idle_seconds=self.idle_seconds,
            longest_seconds=self.longest_seconds,
            may_leave=may_outlive_parent(),
        )
        directory.write_spec(spec)
        notices = nullcontext() if stays_seconds is None else notices_of_failures(self, directory, context)
        try:
            with notices:
                exit_code, log_tail = self.run_application(directory)
        finally:
            directory.forget_secrets()
        result = directory.result()
        if result is None:
            raise self._lost(settings, directory, spec.tasks, exit_code, log_tail)
        return self._report(context, settings, directory, result, group=sink_group(self.connector, found.config))

    def _make_directory(self, context: Mapping[str, Any]) -> RunDirectory:
        ti, base = context["ti"], run_directory()
        remove_stale_runs(base, ti.dag_id, now=time.time())
        forget_secrets_left(base, ti.dag_id, now=time.time())
        self._directory = RunDirectory.make(
            base, ti.dag_id, ti.run_id, map_index=-1 if ti.map_index is None else ti.map_index, try_number=ti.try_number
        )
        return self._directory

    def _lost(
        self, settings: WorkerSettings, directory: RunDirectory, tasks: list[int] | None, exit_code: int | None, log_tail: list[str]
    ) -> Exception:
        from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
        from airflow_provider_connect.runtime.worker.application.failure_report import report_lost

        emit_lost(self.connector)
        reason = f"Connector {self.connector}: the application ended with exit code {exit_code} and without a result"
        if self._kill_requested:  # Airflow knows who ended it; the API server writes this into the statuses if the run FAILED
            return AirflowException(reason)  # type: ignore[no-any-return]
        try:
            cache = ConfigCache(run_directory())
            report_lost(settings, self.connector, directory.path, exit_code, log_tail, tasks=tasks, cache=cache)
        except ConnectException as error:
            _log.warning("Connector %s: its FAILED status could not be written: %s", self.connector, error)
        return AirflowException(": ".join([reason, *log_tail[-1:]]))  # type: ignore[no-any-return]

    def _report(
        self, context: Mapping[str, Any], settings: WorkerSettings, directory: RunDirectory, result: RunResult, *, group: str | None
    ) -> dict[str, dict[str, float]] | None:
        emit_run(result)
        emit_asset_events(context, settings.bootstrap_servers, result, group=group)
        self.note_lineage(result, settings.bootstrap_servers, is_source=group is None)
        failed = [task for task in result.tasks if task.trace is not None]
        if failed or result.state is RunState.FAILED:
            self.failure_trace = "\n".join(filter(None, [result.error, *(task.trace for task in failed)]))
            raise failure(result, failed)
        directory.remove_run()
        if result.state is RunState.SKIPPED:
            raise AirflowSkipException(
                f"Connector {self.connector} did not run: {result.error or 'it is not started, or a newer run took over'}"
            )
        if warning := refusals(result.tasks):
            _log.warning("Connector %s: %s", result.connector, warning)
        for task in result.tasks:
            _log.info(
                "Connector %s task %d: %d records, %d bytes in %.2f s", result.connector, task.task, task.records, task.bytes, task.seconds
            )
        return xcom_values(result) or None
