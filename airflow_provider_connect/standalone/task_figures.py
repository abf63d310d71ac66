"""What the tasks of this process have counted since it started, under Kafka Connect's metric names."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from airflow_provider_connect.model.run import TaskResult


class TaskFigures:
    """Adds up what the runs of each task's body counted. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: dict[tuple[str, int], dict[str, float]] = {}

    def add(self, connector: str, result: TaskResult) -> None:
        """Totals add up; whatever else there is is the last run's."""
        with self._lock:
            known = self._figures.setdefault((connector, result.task), {})
            for name, value in result.metrics.items():
                known[name] = known.get(name, 0.0) + value if name.endswith("-total") else value

    def read(self) -> Mapping[tuple[str, int], Mapping[str, float]]:
        """By connector and task."""
        with self._lock:
            return {task: dict(figures) for task, figures in self._figures.items()}
