"""What can happen to a sink's connection and transaction, as a table."""

import itertools

import pytest

from airflow_provider_connect.connectors.jdbc.sink.session import TRANSITIONS, Action, Event, Phase
from airflow_provider_connect.sdk.task import WentBack

CLOSED, IDLE, BEGUN = Phase
SCENARIOS: dict[str, tuple[list[Event], Phase, list[Action], list[WentBack]]] = {
    "a commit without rows opens nothing": ([Event.COMMIT], CLOSED, [], []),
    "rows are committed": ([Event.USE, Event.WRITE, Event.WRITE, Event.COMMIT], IDLE, [Action.CONNECT, Action.BEGIN, Action.COMMIT], []),
    "a refusal takes all rows back": (
        [Event.WRITE, Event.REFUSED, Event.WRITE],
        BEGUN,
        [Action.CONNECT, Action.BEGIN, Action.ROLLBACK, Action.DROP, Action.BEGIN],
        [WentBack.REFUSED],
    ),
    "a table is changed outside of transactions": (
        [Event.WRITE, Event.CHANGE],
        IDLE,
        [Action.CONNECT, Action.BEGIN, Action.ROLLBACK, Action.DROP, Action.ALTER],
        [WentBack.CHANGED],
    ),
    "before the first row a change takes nothing back": ([Event.USE, Event.CHANGE], IDLE, [Action.CONNECT, Action.ALTER], []),
    "a lost connection is not used again": (
        [Event.WRITE, Event.LOST, Event.USE],
        IDLE,
        [Action.CONNECT, Action.BEGIN, Action.DROP, Action.DISCONNECT, Action.CONNECT],
        [WentBack.LOST],
    ),
    "closing drops what waits": ([Event.WRITE, Event.CLOSE], CLOSED, [Action.CONNECT, Action.BEGIN, Action.DROP, Action.DISCONNECT], []),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios(name: str) -> None:
    events, end, actions, went_back = SCENARIOS[name]
    phase = CLOSED
    done: list[Action] = []
    back: list[WentBack] = []
    for event in events:
        step = TRANSITIONS[phase, event]
        phase = step.phase
        done += step.actions
        back += [step.went_back] if step.went_back is not None else []
    assert (phase, done, back) == (end, actions, went_back)


def test_each_event_is_foreseen_in_each_phase_with_a_connection() -> None:
    missing = set(itertools.product(Phase, Event)) - TRANSITIONS.keys()
    assert missing == {(CLOSED, Event.REFUSED), (CLOSED, Event.CHANGE)}


@pytest.mark.parametrize(("phase", "event"), TRANSITIONS)
def test_a_transaction_ends_by_commit_rollback_or_disconnection_alone(phase: Phase, event: Event) -> None:
    step = TRANSITIONS[phase, event]
    ends = {Action.COMMIT, Action.ROLLBACK, Action.DISCONNECT} & set(step.actions)
    if phase is BEGUN:
        assert bool(ends) is (step.phase is not BEGUN)
    else:
        assert not {Action.COMMIT, Action.ROLLBACK} & ends
    assert (Action.BEGIN in step.actions) is (step.phase is BEGUN and phase is not BEGUN)
    assert Action.ALTER not in step.actions or step.phase is IDLE


@pytest.mark.parametrize(("phase", "event"), TRANSITIONS)
def test_rows_that_went_back_are_reported_and_no_others(phase: Phase, event: Event) -> None:
    step = TRANSITIONS[phase, event]
    assert (step.went_back is not None) is (event in (Event.REFUSED, Event.LOST) or (phase, event) == (BEGUN, Event.CHANGE))
    if step.went_back is not None:
        assert Action.DROP in step.actions
