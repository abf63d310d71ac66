"""Which state a verb leads to (contract §6.4)."""

import pytest

from airflow_provider_connect.runtime.model.states import State, TargetState, connector_state_for, task_state_for


@pytest.mark.parametrize(
    ("target", "current", "connector", "task"),
    [
        (TargetState.STARTED, None, State.RUNNING, State.RUNNING),
        (TargetState.STARTED, State.PAUSED, State.RUNNING, State.RUNNING),
        (TargetState.STARTED, State.FAILED, State.FAILED, State.FAILED),
        (TargetState.PAUSED, State.RUNNING, State.PAUSED, State.PAUSED),
        (TargetState.PAUSED, State.FAILED, State.FAILED, State.PAUSED),
        (TargetState.STOPPED, State.RUNNING, State.STOPPED, State.DESTROYED),
        (TargetState.STOPPED, State.FAILED, State.STOPPED, State.DESTROYED),
    ],
)
def test_verb_leads_to_state(target: TargetState, current: State | None, connector: State, task: State) -> None:
    assert connector_state_for(target, current) is connector
    assert task_state_for(target, current) is task
