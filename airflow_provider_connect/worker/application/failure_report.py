"""The failures that no task reported: applications that ended without a result, connectors without a plan."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import ConnectException, MissingException
from airflow_provider_connect.model.cluster_state import ClusterConfigState
from airflow_provider_connect.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.model.run import CLAIM_FILE, PROGRESS_FILE, UNREPORTED, Claim, RunResult
from airflow_provider_connect.model.states import State, TargetState
from airflow_provider_connect.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.stores.backing import Backing
from airflow_provider_connect.stores.config_cache import ConfigCache
from airflow_provider_connect.stores.config_store import ConfigStore
from airflow_provider_connect.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.stores.status_notes import StatusNotes
from airflow_provider_connect.stores.status_store import StatusStore, StatusWriter

WRITE_SECONDS = 10.0


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

    Written under the application's own claim, so that a newer run's statuses hold. Returns the tasks. An application that never claimed
    has changed nothing, and nothing is written for it. Tasks that the driver knew to have ended, and those that have FAILED under this
    claim, keep the status that they have. ``tasks`` are those that the application had to run, None: all; the others may run
    elsewhere under the same claim, or be done. ``cache`` holds what processes of this host have read of the config topic; None: it is
    read whole.
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
    worker_id = f"{socket.gethostname()}:0"
    writer = StatusWriter(settings, claim=claim)
    for task in lost:
        failures = 1 if (was := known.task(connector, task)) is None else was.failures + 1
        status = TaskStatus(connector, task, State.FAILED, worker_id, trace=trace, version=version, claim=claim, failures=failures)
        writer.put_task(status)
    writer.flush(WRITE_SECONDS)
    writer.close()
    return lost


def _config_state(settings: WorkerSettings, connector: str, known: ConfigSnapshot | None) -> ClusterConfigState:
    """The connector's part of the config topic now, read on from ``known``."""
    with ConfigStore(settings, known=known, only=connector) as store:
        return store.read()


def _reported(directory: Path) -> set[int]:
    """The tasks of which the driver had a result before it died."""
    try:
        progress = RunResult.from_json((directory / PROGRESS_FILE).read_text())
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {result.task for result in progress.tasks if result.trace != UNREPORTED}


def report_unready(
    settings: WorkerSettings, connector: str, claim: Claim, tasks: Sequence[int], reason: str, *, known: ConfigSnapshot | None = None
) -> None:
    """Write how a run would have ended: the connector RUNNING and each of its ``tasks`` FAILED for ``reason``, which holds no secrets.

    As in Kafka Connect, where a connector's tasks check its systems as they start. ``known`` is what was read of the config topic before.
    """
    worker_id, trace = f"{socket.gethostname()}:0", f"{MissingException.__module__}.{MissingException.__qualname__}: {reason}"
    version = plugin_version(settings, connector, _config_state(settings, connector, known))
    _write_failed(settings, ConnectorStatus(connector, State.RUNNING, worker_id, version=version, claim=claim), tasks, trace)


def report_refused(settings: WorkerSettings, connector: str, trace: str, *, cache: ConfigCache | None = None) -> None:
    """Write that a connector and its tasks FAILED before an application was started for them: its config cannot run. ``trace`` holds no
    secrets.

    Written under the newest claim, so that a newer run's statuses hold. Nothing is written for a connector that the config topic does not
    have, or that is not STARTED. ``cache`` as in ``report_lost``.
    """
    try:
        state = _config_state(settings, connector, None if cache is None else cache.read(settings, connector))
    except TopicMissingException:
        return
    if state.target_state(connector) is not TargetState.STARTED:
        return
    worker_id, claim, version = f"{socket.gethostname()}:0", state.claims.get(connector), plugin_version(settings, connector, state)
    failed = ConnectorStatus(connector, State.FAILED, worker_id, trace=trace, version=version, claim=claim)
    _write_failed(settings, failed, state.tasks(connector), trace)


def _write_failed(settings: WorkerSettings, status: ConnectorStatus, tasks: Iterable[int], trace: str) -> None:
    """Write the connector's ``status``, and under its claim that each of ``tasks`` FAILED."""
    with closing(StatusWriter(settings, claim=status.claim)) as writer:
        _put_failed(writer, status, tasks, trace)


def _put_failed(writer: StatusNotes, status: ConnectorStatus, tasks: Iterable[int], trace: str) -> None:
    writer.put_connector(status)
    for task in tasks:
        writer.put_task(
            TaskStatus(status.connector, task, State.FAILED, status.worker_id, trace=trace, version=status.version, claim=status.claim)
        )
    writer.flush(WRITE_SECONDS)


def report_failed(backing: Backing, failed: ConnectorStatus, error: Exception | None = None, tasks: Collection[int] = ()) -> None:
    """Write that a connector FAILED whose config, plan or start did, under the claim in ``failed``. Its trace holds no secrets.

    Where ``error`` is that something outside is missing, its ``tasks`` FAILED and the connector is RUNNING, as when tasks find that out
    (``report_unready``). Without tasks, the connector has the trace."""
    is_outside = isinstance(error, MissingException) and bool(tasks)
    connector = replace(failed, state=State.RUNNING, trace=None) if is_outside else failed
    with closing(backing.status_notes(failed.claim)) as writer:
        _put_failed(writer, connector, tasks if is_outside else (), failed.trace or "")


def plugin_version(settings: WorkerSettings, connector: str, state: ClusterConfigState) -> str | None:
    """The version of the connector's plugin that a run takes; None: no version fits."""
    choice = PluginChoice(PluginCatalog(settings.plugin_path), settings, version=state.version_in_force(connector))
    try:
        return choice.connector(connector, state.connector_config(connector) or {}).version
    except ConnectException:
        return None
