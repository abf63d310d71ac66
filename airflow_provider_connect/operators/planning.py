"""Planning a connector's tasks in a process of its own, without Spark; also for those that cannot run for want of something outside."""

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.log import mask_secret

from airflow_provider_connect.config.masking import HideSecrets, Mask, mask_output, spellings
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets, own_option, run_directory
from airflow_provider_connect.model.run import RunSpec
from airflow_provider_connect.spark.parent_death import dies_with_parent
from airflow_provider_connect.spark.run_directory import RunDirectory

if TYPE_CHECKING:
    from airflow_provider_connect.worker.application.plan_process import SharedPlan
    from airflow_provider_connect.worker.application.readiness import Readiness, UnreadyException

_TIMEOUT_MS = 60_000
_log = logging.getLogger(__name__)


def hide_in_logs() -> HideSecrets:
    """Keeps secrets, however they are spelled, out of what is logged and printed in this task's process, and what Airflow logs of its
    application. Airflow's own masker is told as well, but does not mask the copy of a task's log that an executor prints."""
    mask = Mask()
    mask_output(mask)

    def hide(secrets: Iterable[str]) -> None:
        known = set(secrets)
        mask.add(known)
        if found := sorted(spellings(known)):
            mask_secret(found)

    return hide


def plan_apart(
    connector: str, settings: WorkerSettings, found: "Readiness", context: Mapping[str, Any], define: Mapping[str, str] | None
) -> "SharedPlan":
    """Claim the connector and have its task configs made; ``found`` is what was known of it before. Raises what the planner says."""
    from airflow_provider_connect.worker.application.plan_process import plan_in_subprocess

    ti = context["ti"]
    secrets = {**airflow_secrets(settings.originals), **found.secrets}
    directory = RunDirectory.make(run_directory(), f"{ti.dag_id}.plan", ti.run_id, try_number=ti.try_number)
    known = None if found.known is None else found.known.to_json()
    directory.write_spec(RunSpec(connector, settings.originals, ti.run_id, ti.try_number, define=define, secrets=secrets, known=known))
    try:
        timeout_seconds = int(own_option("plan_timeout_ms") or _TIMEOUT_MS) / 1000
        return plan_in_subprocess(directory.path, timeout_seconds=timeout_seconds, before_exec=dies_with_parent(own_group=True))
    finally:
        directory.remove_run()


def tell_unready(
    connector: str, settings: WorkerSettings, error: "UnreadyException", context: Mapping[str, Any], define: Mapping[str, str] | None
) -> None:
    """Plan the tasks and write that they FAILED. What goes wrong with that is logged: the caller has worse to tell."""
    from airflow_provider_connect.worker.application.failure_report import report_unready

    try:
        plan = plan_apart(connector, settings, error.found, context, define)
        if plan.claim is not None:
            report_unready(settings, connector, plan.claim, plan.tasks, error.message, known=error.found.known)
    except ConnectException as failure:
        _log.warning("Connector %s: the statuses of its tasks could not be written: %s", connector, failure.message)
