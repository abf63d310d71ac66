"""What is written of failures that no task reported: applications that ended without a word, connectors that made no plan."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.model.run import CLAIM_FILE, Claim
from airflow_provider_connect.model.states import State, TargetState
from airflow_provider_connect.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.stores.backing import Backing
from airflow_provider_connect.stores.config_store import ConfigStore
from airflow_provider_connect.stores.status_store import StatusStore, StatusWriter

WRITE_SECONDS = 10.0


def report_lost(settings: WorkerSettings, connector: str, directory: Path, exit_code: int | None, log_tail: Sequence[str]) -> list[int]:
    """Write FAILED, with exit code and log tail, for every task of the application that did not say itself what became of it.

    Written under the application's own claim, so that a newer run's statuses hold. Returns the tasks. An application that never claimed
    has changed nothing, and nothing is written for it.
    """
    path = directory / CLAIM_FILE
    if not path.exists():
        return []
    claim = Claim.parse(path.read_text())
    with ConfigStore(settings) as store:
        state = store.read()
    if state.claims.get(connector) != claim or state.target_state(connector) is not TargetState.STARTED:
        return []
    with StatusStore(settings) as store:
        known = store.read()
    lost = [task for task in state.tasks(connector) if (status := known.task(connector, task)) is None or status.state is not State.FAILED]
    trace = "\n".join([f"The application ended with exit code {exit_code} and did not report this task.", *log_tail])
    worker_id = f"{socket.gethostname()}:0"
    writer = StatusWriter(settings, claim=claim)
    for task in lost:
        writer.put_task(TaskStatus(connector, task, State.FAILED, worker_id, trace=trace, claim=claim))
    writer.flush(WRITE_SECONDS)
    writer.close()
    return lost


def report_unready(settings: WorkerSettings, connector: str, claim: Claim, tasks: Sequence[int], reason: str) -> None:
    """Write what a run would have come to: the connector RUNNING and each of its ``tasks`` FAILED for ``reason``, which holds no secrets.

    So it is in Kafka Connect, where what a connector wants of the world outside is looked for by its tasks as they start.
    """
    worker_id, trace = f"{socket.gethostname()}:0", f"{ConnectException.__module__}.{ConnectException.__qualname__}: {reason}"
    writer = StatusWriter(settings, claim=claim)
    writer.put_connector(ConnectorStatus(connector, State.RUNNING, worker_id, claim=claim))
    for task in tasks:
        writer.put_task(TaskStatus(connector, task, State.FAILED, worker_id, trace=trace, claim=claim))
    writer.flush(WRITE_SECONDS)
    writer.close()


def report_failed(backing: Backing, connector: str, claim: Claim, worker_id: str, trace: str) -> None:
    """Write FAILED for a connector whose config, plan or start failed under ``claim``. ``trace`` holds no secrets."""
    writer = backing.status_notes(claim)
    writer.put_connector(ConnectorStatus(connector, State.FAILED, worker_id, trace=trace, claim=claim))
    writer.flush(WRITE_SECONDS)
    writer.close()
