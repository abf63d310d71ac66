"""Shared by the operators of a run: its readiness, and a plan of its tasks in a separate process without Spark."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.log import mask_secret

from airflow_provider_connect.errors import ConnectException, trace_of
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets, own_option, run_directory
from airflow_provider_connect.operators.definition import DefinesConnector
from airflow_provider_connect.operators.run_conf import may_wait
from airflow_provider_connect.runtime.config.masking import HideSecrets, Mask, mask_output
from airflow_provider_connect.runtime.config.notifiers import without_notifiers
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import RunSpec
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory

if TYPE_CHECKING:
    from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
    from airflow_provider_connect.runtime.worker.application.plan_process import SharedPlan
    from airflow_provider_connect.runtime.worker.application.readiness import Readiness, UnreadyException

_TIMEOUT_MS = 60_000
_CHECK_SECONDS = 2.0
_START_SECONDS, _LONGEST_WAIT_SECONDS = 60.0, 3600.0
_log = logging.getLogger(__name__)


@contextmanager
def airflow_errors(subject: str) -> Iterator[None]:
    """Translates ConnectException into errors that Airflow retries, and errors that it does not retry. Their texts begin with
    ``subject``."""
    try:
        yield
    except ConnectException as error:
        kind = AirflowException if error.retriable else AirflowFailException
        raise kind(f"{subject}: {error.message}") from error


def require_started(
    operator: DefinesConnector,
    settings: WorkerSettings,
    context: Mapping[str, Any],
    *,
    is_asked_for: bool,
    is_planned: bool = False,
    stays: bool = False,
) -> "Readiness":
    """Whether the operator's connector has work. Raises AirflowSkipException unless it is STARTED, and what ``check_readiness`` raises; an
    error that a retry would not fix is written into the connector's status before.

    For a run that ``stays``, it waits here until the wait after failures is over, ``_LONGEST_WAIT_SECONDS`` at most, and for
    ``_START_SECONDS`` until the connector is STARTED: Airflow starts the next run as soon as this one ends.
    """
    started, mask = time.monotonic(), Mask()
    hide = hide_in_logs(mask)
    while True:
        found = _check(operator, settings, context, mask, hide, is_asked_for=is_asked_for, is_planned=is_planned)
        waited = time.monotonic() - started
        most = {"waiting": _LONGEST_WAIT_SECONDS, "not-started": _START_SECONDS}.get(found.state, 0.0) if stays else 0.0
        if waited >= most:
            break
        if waited < _CHECK_SECONDS:
            _log.info("Connector %s waits: %s", operator.connector, found.reason)
        time.sleep(_CHECK_SECONDS)
    if found.state == "waiting":
        raise AirflowSkipException(f"Connector {operator.connector} waits: {found.reason}")
    if found.state == "not-started":
        raise AirflowSkipException(f"Connector {operator.connector} is not started: {found.reason}")
    return found


def _check(
    operator: DefinesConnector,
    settings: WorkerSettings,
    context: Mapping[str, Any],
    mask: Mask,
    hide: HideSecrets,
    *,
    is_asked_for: bool,
    is_planned: bool,
) -> "Readiness":
    # loads the Kafka client, so not when the DAG is parsed
    from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
    from airflow_provider_connect.runtime.worker.application.readiness import UnreadyException, check_readiness

    connector, define = operator.connector, operator.definition()
    cache = ConfigCache(run_directory())
    try:
        return check_readiness(
            settings,
            connector,
            define=define,
            secrets_of=airflow_secrets,
            is_asked_for=is_asked_for,
            is_planned=is_planned,
            may_wait=may_wait(context),
            cache=cache,
            hide=hide,
        )
    except UnreadyException as error:
        _report_unready(connector, settings, error, context, define)
        raise
    except ConnectException as error:
        if not error.retriable:
            _report_refused(connector, settings, mask(trace_of(error)), cache)
        raise


def hide_in_logs(mask: Mask) -> HideSecrets:
    """Keeps secrets in any spelling out of everything that this task's process logs and prints, and that Airflow logs of its application.
    Airflow's own masker gets the secrets themselves, but does not mask the copy of a task's log that an executor prints.

    Airflow's masker does not get all spellings, because it compiles all of them again for each added text, here and in the supervisor. That
    took 7 s of CPU time for 500 spellings of 12 secrets.
    """
    mask_output(mask)

    def hide(secrets: Iterable[str]) -> None:
        known = set(secrets)
        mask.add(known)
        if known:
            mask_secret(sorted(known))

    return hide


def plan_in_process(
    connector: str, settings: WorkerSettings, found: "Readiness", context: Mapping[str, Any], define: Mapping[str, str] | None
) -> "SharedPlan":
    """Claim the connector and have a subprocess create its task configs. Raises what the planner raises."""
    from airflow_provider_connect.runtime.worker.application.plan_process import plan_in_subprocess

    ti = context["ti"]
    passed_on = without_notifiers(settings.originals)
    secrets = {**airflow_secrets(passed_on), **found.secrets}
    directory = RunDirectory.make(run_directory(), f"{ti.dag_id}.plan", ti.run_id, try_number=ti.try_number)
    known = None if found.known is None else found.known.to_json()
    directory.write_spec(RunSpec(connector, passed_on, ti.run_id, ti.try_number, define=define, secrets=secrets, known=known))
    try:
        timeout_seconds = int(own_option("plan_timeout_ms") or _TIMEOUT_MS) / 1000
        return plan_in_subprocess(directory.path, timeout_seconds=timeout_seconds, before_exec=dies_with_parent(own_group=True))
    finally:
        directory.remove_run()


def _report_unready(
    connector: str, settings: WorkerSettings, error: "UnreadyException", context: Mapping[str, Any], define: Mapping[str, str] | None
) -> None:
    """Plan the tasks and write that they FAILED. If this fails, it is only logged, because the caller raises ``error``."""
    from airflow_provider_connect.runtime.worker.application.failure_report import report_unready

    try:
        plan = plan_in_process(connector, settings, error.found, context, define)
        if plan.claim is not None:
            report_unready(settings, connector, plan.claim, plan.tasks, error.message, known=error.found.known)
    except ConnectException as failure:
        _log.warning("Connector %s: the statuses of its tasks could not be written: %s", connector, failure.message)


def _report_refused(connector: str, settings: WorkerSettings, trace: str, cache: "ConfigCache") -> None:
    """Write that the connector FAILED. If this fails, it is only logged, because the caller raises the reason."""
    from airflow_provider_connect.runtime.worker.application.failure_report import report_refused

    try:
        report_refused(settings, connector, trace, cache=cache)
    except ConnectException as failure:
        _log.warning("Connector %s: its FAILED status could not be written: %s", connector, failure.message)
