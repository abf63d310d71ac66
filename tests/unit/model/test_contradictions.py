"""Statuses that contradict target state, task set or runs: which do, and what becomes of them."""

from dataclasses import replace

import pytest

from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.contradictions import (
    Correction,
    RunFacts,
    contradicting_connectors,
    correction,
    unconsumed_topics,
)
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusState, TaskStatus

STARTED, PAUSED, STOPPED = TargetState.STARTED, TargetState.PAUSED, TargetState.STOPPED
R, F, P, S, U, X, D = (
    State.RUNNING,
    State.FAILED,
    State.PAUSED,
    State.STOPPED,
    State.UNASSIGNED,
    State.RESTARTING,
    State.DESTROYED,
)
WRITTEN_MS = 1000
DONE, BROKEN = RunFacts(ended_ms=2000), RunFacts(ended_ms=2000, failure="it was killed")
LONG_DONE, LONG_BROKEN = RunFacts(ended_ms=500), RunFacts(ended_ms=500, failure="it was killed")


def configs(target: TargetState | None, tasks: int) -> ClusterConfigState:
    if target is None:
        return ClusterConfigState()
    config = {"name": "c"}
    return ClusterConfigState(
        connector_configs={"c": config},
        target_states={"c": target},
        task_counts={"c": tasks},
        task_configs={ConnectorTaskId("c", task): {} for task in range(tasks)},
    )


def statuses(connector: State | None, *tasks: State | None) -> StatusState:
    folded = StatusState()
    if connector is not None:
        folded.apply(ConnectorStatus("c", connector, timestamp=WRITTEN_MS))
    for number, state in enumerate(tasks):
        if state is not None:
            folded.apply(TaskStatus("c", number, state, timestamp=WRITTEN_MS))
    return folded


@pytest.mark.parametrize(
    ("target", "count", "reported", "is_contradicting"),
    [
        (STARTED, 2, (R, R, F), False),
        (STARTED, 0, (R,), False),
        (STARTED, 1, (F, R), False),
        (STARTED, 0, (None,), True),
        (STARTED, 1, (R, None), True),
        (STARTED, 1, (R, R, R), True),
        (STARTED, 1, (P, R), True),
        (STARTED, 1, (R, U), True),
        (STARTED, 1, (X, R), True),
        (PAUSED, 1, (P, P), False),
        (PAUSED, 1, (F, F), False),
        (PAUSED, 1, (R, P), True),
        (PAUSED, 1, (P, R), True),
        (PAUSED, 1, (S,), True),
        (STOPPED, 0, (S,), False),
        (STOPPED, 0, (F,), True),
        (STOPPED, 0, (S, R), True),
        (STOPPED, 1, (S,), True),
        (None, 0, (None,), False),
        (None, 0, (R,), True),
        (None, 0, (None, R), True),
    ],
)
def test_whose_statuses_are_not_those_of_the_target_state(
    target: TargetState | None, count: int, reported: tuple[State | None, ...], is_contradicting: bool
) -> None:
    assert contradicting_connectors(configs(target, count), statuses(*reported)) == ({"c"} if is_contradicting else set())


@pytest.mark.parametrize(
    ("target", "count", "reported", "facts", "wanted"),
    [
        # a verb was killed after its record
        (STARTED, 0, (None,), RunFacts(), (R, {})),
        (STARTED, 2, (R, P, F), LONG_DONE, (None, {0: R})),
        (PAUSED, 2, (R, R, F), RunFacts(), (P, {0: P})),
        (PAUSED, 1, (F, R), RunFacts(), (None, {0: P})),
        (PAUSED, 1, (P, None), RunFacts(), (None, {0: P})),
        (PAUSED, 1, (P, P, P), RunFacts(), (None, {1: D})),
        # a run was killed before it could report it
        (STARTED, 2, (R, R, R), BROKEN, (None, {0: F, 1: F})),
        (STARTED, 0, (R,), BROKEN, (F, {})),
        (STARTED, 1, (R, None), BROKEN, (None, {0: F})),
        (STARTED, 1, (R, U), BROKEN, (None, {0: F})),
        (STARTED, 1, (X, R), BROKEN, (F, {0: F})),
        # it did report this, or what is reported is newer
        (STARTED, 2, (R, F, R), BROKEN, (None, {})),
        (STARTED, 1, (F, R), BROKEN, (None, {})),
        (STARTED, 1, (R, R), LONG_BROKEN, (None, {})),
        # a user asked for it, and the application that he ended reports after it that all is well
        (STARTED, 1, (R, R), replace(LONG_BROKEN, is_marked=True), (None, {0: F})),
        # a run has found nothing to do since
        (STARTED, 2, (X, X, U), DONE, (R, {0: R, 1: R})),
        (STARTED, 1, (R, None), DONE, (None, {0: R})),
        # the task set has shrunk
        (STARTED, 1, (R, R, R), DONE, (None, {1: D})),
        # another process is at work, or will be
        (STARTED, 1, (X, X), RunFacts(is_live=True), (None, {})),
        (STARTED, 1, (X, X), RunFacts(is_waiting=True), (None, {})),
        (PAUSED, 1, (R, R), RunFacts(is_live=True), (None, {})),
        (STOPPED, 0, (R, R), RunFacts(), (None, {})),
        (None, 0, (R, R), RunFacts(), (None, {})),
    ],
)
def test_what_becomes_of_them(
    target: TargetState | None,
    count: int,
    reported: tuple[State | None, ...],
    facts: RunFacts,
    wanted: tuple[State | None, dict[int, State]],
) -> None:
    found = correction(configs(target, count), statuses(*reported), "c", facts)
    assert ((found.connector, found.tasks), found.needs_run) == (wanted, False)


@pytest.mark.parametrize(
    ("reported", "rerun"),
    [((R, U, R), (0,)), ((R, X, X), (0, 1)), ((X, R, R), ())],
)
@pytest.mark.parametrize("facts", [RunFacts(), LONG_DONE, LONG_BROKEN])
def test_what_was_about_to_start_and_has_had_no_run_gets_one(reported: tuple[State, ...], rerun: tuple[int, ...], facts: RunFacts) -> None:
    found = correction(configs(STARTED, 2), statuses(*reported), "c", facts)
    assert found == Correction(trace=facts.failure, needs_run=True, rerun=rerun)


@pytest.mark.parametrize(("reported", "tasks"), [((P, P, F), {0: R}), ((S, None, None), {0: R, 1: R})])
def test_a_resume_that_was_killed_before_its_run_gets_one(reported: tuple[State, ...], tasks: dict[int, State]) -> None:
    assert correction(configs(STARTED, 2), statuses(*reported), "c", LONG_DONE) == Correction(R, tasks, needs_run=True)


def test_a_failure_is_reported_with_its_reason() -> None:
    assert correction(configs(STARTED, 1), statuses(R, R), "c", BROKEN).trace == "it was killed"


@pytest.mark.parametrize(
    ("config", "gone"),
    [
        ({"topics": " a , c"}, ["bb"]),
        ({"topics.regex": "b+"}, ["a"]),
        ({"topics.regex": "("}, []),
        ({"topics": "${env:TOPICS}"}, []),
        ({"topic": "other"}, []),
    ],
)
def test_which_topics_a_config_no_longer_names(config: dict[str, str], gone: list[str]) -> None:
    assert unconsumed_topics(["a", "bb"], config) == gone
