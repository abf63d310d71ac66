"""Restart requests and their results (KIP-745, contract §8)."""

import pytest

from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.runtime.herder.restarts import RestartRequest, restart_plan
from airflow_provider_connect.runtime.model.records import RestartRecord
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus

TASKS = [TaskStatus("c", 0, State.RUNNING, "w"), TaskStatus("c", 1, State.FAILED, "w", "boom"), TaskStatus("c", 2, State.PAUSED, "w")]


@pytest.mark.parametrize(
    ("only_failed", "include_tasks", "connector_state", "restarts_connector", "task_ids"),
    [
        (False, False, State.RUNNING, True, []),
        (False, False, State.FAILED, True, []),
        (True, False, State.RUNNING, False, []),
        (True, False, State.FAILED, True, []),
        (False, True, State.RUNNING, True, [0, 1, 2]),
        (False, True, State.STOPPED, True, [0, 1, 2]),
        (True, True, State.RUNNING, False, [1]),
        (True, True, State.FAILED, True, [1]),
    ],
)
def test_plan(only_failed: bool, include_tasks: bool, connector_state: State, restarts_connector: bool, task_ids: list[int]) -> None:
    plan = restart_plan(RestartRequest("c", only_failed, include_tasks), ConnectorStatus("c", connector_state, "w"), TASKS)
    assert plan.restarts_connector == restarts_connector
    assert plan.task_ids == task_ids
    assert plan.is_empty == (not restarts_connector and not task_ids)


def test_answer_shows_restarting_with_the_old_trace_and_leaves_the_others() -> None:
    plan = restart_plan(RestartRequest("c", True, True), ConnectorStatus("c", State.RUNNING, "w"), TASKS)
    assert plan.connector == ConnectorStatus("c", State.RUNNING, "w")
    assert plan.tasks == [TASKS[0], TaskStatus("c", 1, State.RESTARTING, "w", "boom"), TASKS[2]]


def test_connector_without_a_status_cannot_be_restarted() -> None:
    with pytest.raises(NotFoundException, match=r"^Status for connector c not found$"):
        restart_plan(RestartRequest("c"), None, [])


def test_request_and_record_mean_the_same() -> None:
    request = RestartRequest("c", only_failed=True, include_tasks=False)
    assert request.record == RestartRecord("c", include_tasks=False, only_failed=True)
