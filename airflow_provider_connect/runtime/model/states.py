"""The states that Connect knows: what a user wants (target state), and what a connector or task is in (contract §6)."""

from enum import StrEnum


class TargetState(StrEnum):
    """What the user wants of a connector; lives on the config topic."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


INITIAL_STATES = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
"""Target states by the words of ``initial_state`` in requests (KIP-980)."""


class State(StrEnum):
    """What a connector or task is in. STOPPED is for connectors only; DESTROYED is never seen: it is written as a tombstone."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"


def connector_state_for(target: TargetState, current: State | None = None) -> State:
    """The state of a connector once ``target`` is reached. A FAILED one stays FAILED until it is stopped or restarted (contract §6.2)."""
    if target is TargetState.STOPPED:
        return State.STOPPED
    if current is State.FAILED:
        return State.FAILED
    return State.PAUSED if target is TargetState.PAUSED else State.RUNNING


def task_state_for(target: TargetState, current: State | None = None) -> State:
    """The state of a task once ``target`` is reached: DESTROYED (its status is removed) when stopped, and PAUSED even if it had FAILED
    (contract §6.3); resuming leaves it FAILED, only a restart remedies it."""
    if target is TargetState.STOPPED:
        return State.DESTROYED
    if target is TargetState.PAUSED:
        return State.PAUSED
    return State.FAILED if current is State.FAILED else State.RUNNING
