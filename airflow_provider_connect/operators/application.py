"""The run of a shared application as an Airflow task. The application hosts the connectors whose configs name it."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_provider_connect.hooks.airflow_settings import airflow_secrets, run_directory, worker_settings
from airflow_provider_connect.operators.definition import MARK
from airflow_provider_connect.operators.planning import airflow_errors, hide_in_logs
from airflow_provider_connect.operators.spark_submit import ApplicationOperator
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.dag_settings import SPARK, application_of
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.notifiers import without_notifiers
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import RunSpec, RunState
from airflow_provider_connect.runtime.spark.parent_death import die_with_parent, may_outlive_parent
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory, forget_secrets_left, remove_stale_runs
from airflow_provider_connect.runtime.spark.secret_requests import SecretsOf, answering

_CHECK_SECONDS, _START_SECONDS = 2.0, 60.0
_FRESH_WORKERS = {"spark.python.worker.reuse": "false"}  # a Python worker has the plugins and secrets of one task

_log = logging.getLogger(__name__)


class ConnectApplicationOperator(ApplicationOperator):
    """Runs a shared application for ``stays_seconds``. Airflow then starts the next run, to which this one hands its connectors over.
    ``application_name`` is its name. ``dag_mark`` has the settings from which the DAG was created."""

    ui_color = "#dbe8f5"

    def __init__(
        self,
        *,
        application_name: str,
        stays_seconds: float,
        dag_mark: str | None = None,
        spark_conn_id: str | None = None,
        engine: str = SPARK,
        **kwargs: Any,
    ) -> None:
        conf = _FRESH_WORKERS | (kwargs.pop("conf", None) or {})
        super().__init__(connector=application_name, spark_conn_id=spark_conn_id, engine=engine, conf=conf, **kwargs)
        self.application_name = application_name
        self.stays_seconds = stays_seconds
        self.dag_mark = dag_mark

    @classmethod
    def get_serialized_fields(cls) -> frozenset[str]:
        """The attributes of the serialized DAG. Called by Airflow."""
        fields: frozenset[str] = super().get_serialized_fields()
        return fields | {MARK}

    def execute(self, context: Mapping[str, Any]) -> None:
        """Run the application until its time is over, or until no connector names it."""
        die_with_parent()
        with airflow_errors(f"Application {self.application_name}"):
            self._run(context)

    def _run(self, context: Mapping[str, Any]) -> None:
        settings = worker_settings()
        self._await_members(settings)
        ti, base = context["ti"], run_directory()
        remove_stale_runs(base, ti.dag_id, now=time.time())
        forget_secrets_left(base, ti.dag_id, now=time.time())
        self._directory = directory = RunDirectory.make(base, ti.dag_id, ti.run_id, try_number=ti.try_number)
        passed_on = without_notifiers(settings.originals)
        spec = RunSpec(
            connector="",
            settings=passed_on,
            run_id=f"{ti.dag_id}/{ti.run_id}",
            try_number=ti.try_number,
            secrets=airflow_secrets(passed_on),
            stays_seconds=self.stays_seconds,
            application=self.application_name,
            may_leave=may_outlive_parent(),
        )
        directory.write_spec(spec)
        try:
            with answering(directory.path, _secrets_of(settings)):
                exit_code, log_tail = self.run_application(directory)
        finally:
            directory.forget_secrets()
        result = directory.result()
        if result is None:
            reason = f"Application {self.application_name} ended with exit code {exit_code} and without a result"
            raise AirflowException(": ".join([reason, *log_tail[-1:]]))
        if result.state is RunState.FAILED:
            raise AirflowException(f"Application {self.application_name}: {result.error}")
        directory.remove_run()

    def _await_members(self, settings: WorkerSettings) -> None:
        """Wait for a connector that names the application. Airflow starts the next run as soon as this one ends."""
        from airflow_provider_connect.runtime.stores.config_cache import ConfigCache  # the Kafka client is not for the parsing of DAG files

        until = time.monotonic() + _START_SECONDS
        while True:
            state = ConfigCache(run_directory()).read(settings, None).log().state
            if any(application_of(config) == self.application_name for config in state.connector_configs.values()):
                return
            if time.monotonic() > until:
                raise AirflowSkipException(f"No connector has airflow.application={self.application_name}")
            time.sleep(_CHECK_SECONDS)


def _secrets_of(settings: WorkerSettings) -> SecretsOf:
    """Resolves Airflow's variables of one connector, if the rules of the worker settings allow that connector to have them. Keeps the
    values out of this process's log."""
    hide = hide_in_logs(Mask())

    def secrets_of(connector: str, config: Mapping[str, str]) -> Mapping[str, str]:
        found = config_providers.airflow_values(config, settings.config_providers(connector), airflow_secrets)
        hide(found.values())
        return found

    return secrets_of
