"""What becomes of a connector that cannot run for want of something outside: its tasks are planned without Spark, and are FAILED."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.airflow_settings import airflow_secrets, own_option, run_directory
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.model.run import RunSpec
from airflow_provider_connect.parent_death import dies_with_parent
from airflow_provider_connect.run_directory import RunDirectory
from airflow_provider_connect.settings import WorkerSettings

if TYPE_CHECKING:
    from airflow_provider_connect.worker.readiness import UnreadyException

PLAN_TIMEOUT_MS = 60_000
_log = logging.getLogger(__name__)


def tell_unready(
    connector: str, error: "UnreadyException", settings: WorkerSettings, context: Mapping[str, Any], define: Mapping[str, str] | None
) -> None:
    """Plan the tasks and write their statuses. Never raises: the caller has worse to tell."""
    from airflow_provider_connect.worker.aftermath import report_unready
    from airflow_provider_connect.worker.plan_process import plan_in_subprocess

    ti = context["ti"]
    directory = RunDirectory.make(run_directory(), f"{ti.dag_id}.plan", ti.run_id, try_number=ti.try_number)
    secrets = {**airflow_secrets(settings.originals), **error.found.secrets}
    try:
        directory.write_spec(RunSpec(connector, settings.originals, ti.run_id, ti.try_number, define=define, secrets=secrets))
        plan = plan_in_subprocess(directory.path, timeout_seconds=plan_seconds(), before_exec=dies_with_parent(own_group=True))
        if plan.claim is not None:
            report_unready(settings, connector, plan.claim, plan.tasks, error.message)
    except ConnectException as failure:
        _log.warning("Connector %s: the statuses of its tasks could not be written: %s", connector, failure.message)
    finally:
        directory.remove_run()


def plan_seconds() -> float:
    """How long a connector may take to make its task configs."""
    return int(own_option("plan_timeout_ms") or PLAN_TIMEOUT_MS) / 1000
