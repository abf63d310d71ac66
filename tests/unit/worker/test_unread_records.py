"""A source that cannot read one record: ``errors.*`` decide, as for any other record that fails."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.runtime.worker.errors.failures import Failure
from airflow_provider_connect.runtime.worker.errors.tolerance import STRICT, Tolerance
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.task.run_progress import RunProgress
from airflow_provider_connect.runtime.worker.task.source_loop import SourceLoop


class Task:
    """Two records, of which the first cannot be read."""

    class_name = "tests.Task"

    def __init__(self) -> None:
        self.polls: list[Any] = [DataException("the line at position 7 is too long"), [], None]

    def poll(self) -> Any:
        found = self.polls.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def loop(tolerance: Tolerance) -> SourceLoop:
    pipeline: Any = SimpleNamespace(errors=tolerance, batches=lambda polled: polled)
    unused: Any = None
    progress = RunProgress(TaskMetrics(is_source=True))
    return SourceLoop(Task(), pipeline, delivery=unused, progress=progress, stop=unused)  # type: ignore[arg-type]


def test_tolerated_it_is_reported_counted_and_left_behind() -> None:
    reported: list[Failure] = []
    metrics = TaskMetrics(is_source=True)
    here = loop(Tolerance(dataclasses.replace(STRICT, tolerates_all=True), reported.append, metrics))
    assert [here._poll(), here._poll(), here._poll()] == [[], [], None]
    [failure] = reported
    assert failure.text(with_record=True) == "Executing stage 'TASK_POLL' with class 'tests.Task'."
    assert (metrics.record_errors, metrics.records_skipped) == (1, 1)


def test_not_tolerated_it_fails_the_task_with_its_position() -> None:
    with pytest.raises(ConnectException, match=r"error handler: TASK_POLL by tests\.Task .* at position 7 is too long"):
        loop(Tolerance())._poll()
