"""How long tasks that have FAILED over and over hold scheduled runs up."""

import pytest

from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.worker.application.readiness import seconds_left

NOW = 1_000_000.0


def failed(failures: int, *, ago: float) -> TaskStatus:
    return TaskStatus("c", 0, State.FAILED, failures=failures, timestamp=int((NOW - ago) * 1000))


@pytest.mark.parametrize(
    ("tasks", "left"),
    [
        ([failed(2, ago=20)], 100),
        ([failed(2, ago=20), failed(1, ago=30)], 30),
        ([failed(1, ago=-1)], 61),
        ([failed(1, ago=-86_400)], 0),  # by a clock that was a day ahead: it would hold the connector up for a day
        ([], 0),
    ],
)
def test_what_is_left_of_the_wait(tasks: list[TaskStatus], left: float) -> None:
    assert max(0, seconds_left(tasks, NOW)) == left
