"""Connect's states: the target state that a user wants, and the state of a connector or task (contract §6)."""

from enum import StrEnum


class TargetState(StrEnum):
    """The state that the user wants for a connector. Stored on the config topic."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


INITIAL_STATES = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
"""The target states by the values of ``initial_state`` in requests (KIP-980)."""


class State(StrEnum):
    """The state of a connector or task. STOPPED is for connectors only. DESTROYED is written as a tombstone and never shown."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"


def connector_state_for(target: TargetState, current: State | None = None) -> State:
    """The state of a connector once ``target`` is reached. A FAILED connector stays FAILED until it is stopped or restarted (contract
    §6.2)."""
    if target is TargetState.STOPPED:
        return State.STOPPED
    if current is State.FAILED:
        return State.FAILED
    return State.PAUSED if target is TargetState.PAUSED else State.RUNNING


def task_state_for(target: TargetState, current: State | None = None) -> State:
    """The state of a task once ``target`` is reached. A stopped task is DESTROYED (its status is removed). A paused task is PAUSED, even if
    it was FAILED (contract §6.3). Resuming leaves a FAILED task FAILED; only a restart changes that."""
    if target is TargetState.STOPPED:
        return State.DESTROYED
    if target is TargetState.PAUSED:
        return State.PAUSED
    return State.FAILED if current is State.FAILED else State.RUNNING
