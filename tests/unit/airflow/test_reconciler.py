"""The rule that keeps paused flags and target states in agreement, case by case."""

import pytest

from airflow_provider_connect.api_server.reconciler import Step, connectors_to_release, deletion_guard_warnings, next_step
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.sql_mirror.queries import Agreement

STARTED, PAUSED, STOPPED = TargetState.STARTED, TargetState.PAUSED, TargetState.STOPPED
RAN, PAUSED_TOO, STOPPED_TOO = Agreement(False, STARTED), Agreement(True, PAUSED), Agreement(True, STOPPED)


@pytest.mark.parametrize(
    ("paused", "target", "last", "step"),
    [
        # nothing changed
        (False, STARTED, RAN, Step.NOTHING),
        (True, PAUSED, PAUSED_TOO, Step.NOTHING),
        (True, STOPPED, STOPPED_TOO, Step.NOTHING),
        # the flag changed
        (True, STARTED, RAN, Step.WRITE_RECORD),
        (False, PAUSED, PAUSED_TOO, Step.WRITE_RECORD),
        (False, STOPPED, STOPPED_TOO, Step.WRITE_RECORD),
        # the record changed
        (False, PAUSED, RAN, Step.SET_FLAG),
        (False, STOPPED, RAN, Step.SET_FLAG),
        (True, STARTED, PAUSED_TOO, Step.SET_FLAG),
        (True, STARTED, STOPPED_TOO, Step.SET_FLAG),
        # both changed to the same: a paused DAG whose record is STOPPED is STOPPED
        (True, PAUSED, RAN, Step.NOTE),
        (True, STOPPED, RAN, Step.NOTE),
        (True, STOPPED, PAUSED_TOO, Step.NOTE),
        (False, STARTED, PAUSED_TOO, Step.NOTE),
        # both changed, and contradict each other: the record wins
        (False, STOPPED, PAUSED_TOO, Step.SET_FLAG),
        (False, PAUSED, STOPPED_TOO, Step.SET_FLAG),
        # first sight copies the record to the flag
        (False, STARTED, None, Step.NOTE),
        (True, STARTED, None, Step.SET_FLAG),
        (False, PAUSED, None, Step.SET_FLAG),
        (False, STOPPED, None, Step.SET_FLAG),
        (True, STOPPED, None, Step.NOTE),
    ],
)
def test_who_has_changed_and_what_is_done(paused: bool, target: TargetState, last: Agreement | None, step: Step) -> None:
    assert next_step(paused, target, last) is step


def test_the_flag_of_a_connector_just_created_from_its_dag_is_kept() -> None:
    assert next_step(True, STARTED, None, is_new=True) is Step.WRITE_RECORD


@pytest.mark.parametrize("target", [PAUSED, STOPPED])
def test_a_new_connector_that_another_client_paused_at_once_stays_paused(target: TargetState) -> None:
    assert next_step(False, target, None, is_new=True) is Step.SET_FLAG


@pytest.mark.parametrize(
    ("gone_for", "limit", "given_up"),
    [
        ({}, 10, set()),
        ({"a": 6.0}, 10, set()),  # a file that is moved, a commit that is fetched
        ({"a": 599.0, "b": 600.0}, 10, {"b"}),
        ({"a": 700.0, "b": 700.0, "c": 700.0}, 2, set()),  # a mount that is late
        ({"a": 700.0, "b": 700.0, "c": 6.0}, 2, set()),
        ({"a": 700.0, "b": 700.0}, 2, {"a", "b"}),
        ({"a": 700.0}, 0, set()),
    ],
)
def test_which_connectors_without_a_dag_are_stopped(gone_for: dict[str, float], limit: int, given_up: set[str]) -> None:
    gone_since = {name: 10_000.0 - seconds for name, seconds in gone_for.items()}
    assert connectors_to_release(gone_since, now=10_000.0, grace_seconds=600.0, limit=limit) == given_up


def test_too_many_dags_that_are_gone_are_a_warning() -> None:
    assert deletion_guard_warnings(2, 2) == []
    (warning,) = deletion_guard_warnings(3, 2)
    assert warning.startswith("The DAGs of 3 connectors are gone at once, more than airflow.missing.dag.limit (2), so none of them is")
