"""Which applications run now, told from the statuses that they have written."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_connect.herder.snapshot import Snapshot
from airflow_provider_connect.model.states import State
from airflow_provider_connect.model.views import WorkerView


def workers_of(snapshot: Snapshot, running: Iterable[str]) -> list[WorkerView]:
    """One for each application of the connectors in ``running`` that holds the newest claim and has reported a task.

    One that is still starting has not, and is left out.
    """
    workers = []
    for name in sorted(running):
        claim = snapshot.configs.claims.get(name)
        hosted: dict[str, list[int]] = {}
        for status in snapshot.statuses.task_map(name).values():
            if claim is not None and status.claim == claim and status.state is State.RUNNING:
                hosted.setdefault(status.worker_id, []).append(status.task)
        workers += [WorkerView(worker, name, str(claim), tasks) for worker, tasks in sorted(hosted.items())]
    return workers
