"""A connector whose DAG file is gone, and comes back."""

import pytest

from airflow_provider_connect.runtime.model.states import State, TargetState
from tests.unit.herder.conftest import CONFIG, RunEnvironment

DEFINED = {**CONFIG, "name": "c", "airflow.defined.in": "dags/c.py", "airflow.schedule": "none"}


def gone(environment: RunEnvironment, name: str = "c") -> None:
    """What the reconciler does when the file has been gone for long enough."""
    environment.herder.note_state(name)
    environment.herder.stop(name)
    environment.herder.release_connector(name)


@pytest.fixture
def defined(environment: RunEnvironment) -> RunEnvironment:
    environment.herder.define_connector("c", DEFINED, "dags/c.py")
    environment.run("c", State.RUNNING)
    return environment


@pytest.mark.parametrize("before", [TargetState.STARTED, TargetState.PAUSED])
def test_the_state_of_before_returns_with_the_same_definition(defined: RunEnvironment, before: TargetState) -> None:
    if before is TargetState.PAUSED:
        defined.herder.pause("c")
    gone(defined)
    assert defined.configs.read().target_state("c") is TargetState.STOPPED
    assert "airflow.defined.in" not in (defined.configs.read().connector_config("c") or {})
    assert defined.herder.connector_config("c") == {**CONFIG, "name": "c"}
    defined.herder.define_connector("c", DEFINED, "dags/c.py")
    assert defined.configs.read().target_state("c") is before
    assert defined.configs.read().connector_config("c") == DEFINED
    assert defined.states("c")[0] == {"STARTED": "RUNNING", "PAUSED": "PAUSED"}[before]


def test_it_returns_also_when_the_reconciler_died_half_way(defined: RunEnvironment) -> None:
    defined.herder.note_state("c")
    defined.herder.stop("c")
    gone(defined)  # the next tick begins anew, and finds the connector STOPPED
    defined.herder.define_connector("c", DEFINED, "dags/moved.py")
    assert defined.configs.read().target_state("c") is TargetState.STARTED


def test_another_definition_stays_stopped(defined: RunEnvironment) -> None:
    gone(defined)
    defined.herder.define_connector("c", {**DEFINED, "file": "/tmp/other.txt"}, "dags/c.py")
    assert defined.configs.read().target_state("c") is TargetState.STOPPED


def test_what_was_stopped_before_stays_stopped(defined: RunEnvironment) -> None:
    defined.herder.stop("c")
    gone(defined)
    defined.herder.define_connector("c", DEFINED, "dags/c.py")
    assert defined.configs.read().target_state("c") is TargetState.STOPPED


def test_a_state_that_was_asked_for_since_holds(defined: RunEnvironment) -> None:
    gone(defined)
    defined.herder.pause("c")
    defined.herder.define_connector("c", DEFINED, "dags/c.py")
    assert defined.configs.read().target_state("c") is TargetState.PAUSED


@pytest.mark.parametrize("verb", ["put", "patch"])
def test_who_changes_the_config_over_rest_owns_it_without_a_past(defined: RunEnvironment, verb: str) -> None:
    gone(defined)
    if verb == "put":
        defined.herder.put_connector_config("c", CONFIG)
    else:
        defined.herder.patch_connector_config("c", {"file": "/tmp/in.txt"})
    config = defined.configs.read().connector_config("c") or {}
    assert config == {**CONFIG, "name": "c", "airflow.schedule": "none"}
