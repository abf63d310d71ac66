"""A connector that is paused between its plan and the start of its tasks."""

from __future__ import annotations

import pytest

from airflow_provider_connect.runtime.model.run import RunState, TaskResult
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.worker.application.task_body import run_task
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from tests.integration.worker.environment import RunEnvironment, make_topic


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_a_task_that_is_paused_before_it_begins_is_paused(environment: RunEnvironment, unique: str, kind: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique, until="10") if kind == "source" else environment.file_sink(unique)

    def pause_first(payload: TaskPayload) -> TaskResult:
        environment.put_target_state(TargetState.PAUSED)
        return run_task(payload)

    result = environment.application(config, engine=pause_first).run()
    assert (result.state, [task.stopped_by for task in result.tasks]) == (RunState.STOPPED, ["paused"])
    assert environment.states() == {0: "PAUSED"}
    assert str(environment.statuses().connectors[environment.connector].state) == "PAUSED"
