"""Reports failures that no task reported: of applications that ended without a result, and of connectors without a plan."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from airflow_provider_connect.errors import ConnectException, MissingException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.run import CLAIM_FILE, PROGRESS_FILE, UNREPORTED, Claim, RunResult
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, FailedStatuses
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.status_notes import StatusNotes
from airflow_provider_connect.runtime.stores.status_store import StatusStore, StatusWriter

WRITE_SECONDS = 10.0
_WORKER_ID = f"{socket.gethostname()}:0"


def report_lost(
    settings: WorkerSettings,
    connector: str,
    directory: Path,
    exit_code: int | None,
    log_tail: Sequence[str],
    *,
    tasks: Collection[int] | None = None,
    cache: ConfigCache | None = None,
) -> list[int]:
    """Write FAILED, with exit code and log tail, for every task of the application that did not report its end.

    The statuses have the application's own claim, so that a newer run's statuses take precedence. Returns the tasks that are marked FAILED.
    An application that never claimed has changed nothing, so nothing is written for it. Tasks that the driver knew to have ended, and those
    that have FAILED under this claim, keep their status. ``tasks`` are the tasks that the application had to run. None: all tasks. Other
    tasks may run elsewhere under the same claim, or may have ended. ``cache`` contains the part of the config topic that processes of this
    host have read. None: the whole topic is read.
    """
    path = directory / CLAIM_FILE
    if not path.exists():
        return []
    claim = Claim.parse(path.read_text())
    state = _config_state(settings, connector, None if cache is None else cache.read(settings, connector))
    version = plugin_version(settings, connector, state)
    if state.claims.get(connector) != claim or state.target_state(connector) is not TargetState.STARTED:
        return []
    with StatusStore(settings, only=connector) as store:
        known = store.read()
    failed = {status.task for status in known.tasks_of(connector) if (status.state, status.claim) == (State.FAILED, claim)}
    reported = _reported(directory) | failed
    lost = [task for task in state.tasks(connector) if task not in reported and (tasks is None or task in tasks)]
    trace = "\n".join([f"The application ended with exit code {exit_code} and did not report this task.", *log_tail])
    statuses = FailedStatuses(connector, _WORKER_ID, version, claim)
    with closing(StatusWriter(settings, claim=claim)) as writer:
        for task in lost:
            failures = 1 if (was := known.task(connector, task)) is None else was.failures + 1
            writer.put_task(statuses.of_task(task, trace, failures=failures))
        writer.flush(WRITE_SECONDS)
    return lost


def _config_state(settings: WorkerSettings, connector: str, known: ConfigSnapshot | None) -> ClusterConfigState:
    """The connector's current part of the config topic. Reading continues from ``known``."""
    with ConfigStore(settings, known=known, only=connector) as store:
        return store.read()


def _reported(directory: Path) -> set[int]:
    """The tasks whose results the driver had before it died."""
    try:
        progress = RunResult.from_json((directory / PROGRESS_FILE).read_text())
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {result.task for result in progress.tasks if result.trace != UNREPORTED}


def report_unready(
    settings: WorkerSettings, connector: str, claim: Claim, tasks: Sequence[int], reason: str, *, known: ConfigSnapshot | None = None
) -> None:
    """Write the statuses that a run would have left: the connector is RUNNING, and each of its ``tasks`` has FAILED for ``reason``.
    ``reason`` contains no secrets.

    In Kafka Connect, the tasks check the connector's systems when they start, with the same result. ``known`` is the part of the config
    topic that was read before.
    """
    version = plugin_version(settings, connector, _config_state(settings, connector, known))
    with closing(StatusWriter(settings, claim=claim)) as writer:
        trace = f"{MissingException.__module__}.{MissingException.__qualname__}: {reason}"
        failed = FailedStatuses(connector, _WORKER_ID, version, claim)
        _put(writer, failed.beside_running(), failed, tasks, trace)


def report_refused(settings: WorkerSettings, connector: str, trace: str, *, cache: ConfigCache | None = None) -> None:
    """Write that a connector and its tasks FAILED before an application was started, because the connector's config cannot run. ``trace``
    contains no secrets.

    The statuses have the newest claim, so that a newer run's statuses take precedence. Nothing is written for a connector that the config
    topic does not have, or that is not STARTED. For ``cache`` see ``report_lost``.
    """
    try:
        state = _config_state(settings, connector, None if cache is None else cache.read(settings, connector))
    except TopicMissingException:
        return
    if state.target_state(connector) is not TargetState.STARTED:
        return
    failed = FailedStatuses(connector, _WORKER_ID, plugin_version(settings, connector, state), state.claims.get(connector))
    with closing(StatusWriter(settings, claim=failed.claim)) as writer:
        _put(writer, failed.of_connector(trace), failed, state.tasks(connector), trace)


def report_failed(
    backing: Backing, failed: FailedStatuses, trace: str, error: Exception | None = None, tasks: Collection[int] = ()
) -> None:
    """Write that a connector FAILED because of its config, its plan or its start.

    If ``error`` is a MissingException, the connector's ``tasks`` are FAILED and the connector is RUNNING, as if tasks had raised the
    exception (``report_unready``). A connector without tasks is FAILED with the trace.
    """
    is_outside = isinstance(error, MissingException) and bool(tasks)
    with closing(backing.status_notes(failed.claim)) as writer:
        _put(writer, failed.beside_running() if is_outside else failed.of_connector(trace), failed, tasks if is_outside else (), trace)


def _put(writer: StatusNotes, connector: ConnectorStatus, failed: FailedStatuses, tasks: Iterable[int], trace: str) -> None:
    """Write the connector's status, and FAILED for each of ``tasks``."""
    writer.put_connector(connector)
    for task in tasks:
        writer.put_task(failed.of_task(task, trace))
    writer.flush(WRITE_SECONDS)


def plugin_version(settings: WorkerSettings, connector: str, state: ClusterConfigState) -> str | None:
    """The version of the connector's plugin that a run uses. None: no version fits."""
    choice = PluginChoice(PluginCatalog(settings.plugin_path), settings, version=state.version_in_force(connector))
    try:
        return choice.connector(connector, state.connector_config(connector) or {}).version
    except ConnectException:
        return None
