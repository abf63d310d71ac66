"""Runs tasks in the application's own process, each in the calling thread. Knows no Spark.

The modules of tasks are imported at the first task, after the connector's plugins, because the plugins' compiled code may have to be loaded
first.
"""

from __future__ import annotations

import threading
from typing import Final

from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.model.run import TaskResult
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

_LOADING: Final = threading.Lock()  # a thread that waits for another thread's failing import would get half a module


class TaskThreads:
    """``run`` may be called from several threads at the same time."""

    def __init__(self, mask: Mask, java: JavaHost | None = None, backing: Backing | None = None, *, has_memory_limit: bool = False) -> None:
        """``mask`` hides the secrets of tasks, because they write to this process's output. ``backing`` keeps the tasks' state. None: the
        topics keep it. ``has_memory_limit``: this process belongs to the run alone, and is killed when its tasks exceed their limit."""
        self._mask = mask
        self._java = java
        self._backing = backing
        self._has_memory_limit = has_memory_limit

    def run(self, payload: TaskPayload) -> TaskResult:
        """Run the task, and return its result, which may be a failure."""
        with _LOADING:
            from airflow_provider_connect.runtime.worker.application.task_body import driver_host
            from airflow_provider_connect.runtime.worker.application.task_loop import run_payload

        return run_payload(payload, driver_host(payload, self._mask, self._java, self._backing, has_memory_limit=self._has_memory_limit))
