"""What the tasks of this process have counted since it started, under Kafka Connect's metric names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from airflow_provider_connect.model.metric_names import TOTALS
from airflow_provider_connect.model.run import TaskResult
from airflow_provider_connect.worker.metrics import TaskMetrics

_Task = tuple[str, int]  # connector, task


class TaskFigures:
    """Adds up what the runs of each task's body counted, the one under way included. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: dict[_Task, dict[str, float]] = {}
        self._running: dict[_Task, TaskMetrics] = {}

    def watch(self, connector: str, task: int) -> Callable[[TaskMetrics], None]:
        """What to tell of the counters of a body that begins."""

        def begin(metrics: TaskMetrics) -> None:
            with self._lock:
                self._running[connector, task] = metrics

        return begin

    def add(self, connector: str, result: TaskResult) -> None:
        """A body has ended."""
        task = (connector, result.task)
        with self._lock:
            self._running.pop(task, None)
            self._ended[task] = _over(result.metrics, self._ended.get(task, {}))

    def forget(self, connector: str) -> None:
        """The connector is gone."""
        with self._lock:
            for figures in (self._ended, self._running):
                for task in [task for task in figures if task[0] == connector]:
                    del figures[task]

    def read(self) -> dict[_Task, dict[str, float]]:
        """By connector and task."""
        with self._lock:
            figures = {task: dict(ended) for task, ended in self._ended.items()}
            for task, metrics in self._running.items():
                figures[task] = _over(metrics.by_name(), figures.get(task, {}))
        return figures


def _over(newer: Mapping[str, float], older: Mapping[str, float]) -> dict[str, float]:
    """Totals add up; of whatever else there is the newer holds."""
    totals = {name: value + older.get(name, 0.0) for name, value in newer.items() if name in TOTALS}
    return {**older, **newer, **totals}
