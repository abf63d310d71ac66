"""A DAG file that names what is another connector's."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.states import State, TargetState
from tests.unit.herder.conftest import CONFIG, SINK, RunEnvironment

FILE = "dags/c.py"
DEFINED = {**SINK, "name": "c", "airflow.defined.in": FILE}
GROUP = {"consumer.override.group.id": "shared"}
WRONG = [
    (GROUP, "group of connector first"),
    ({"topics": "a,first-offsets"}, "Connector first keeps its offsets there"),
    ({"errors.deadletterqueue.topic.name": "first-offsets"}, "Connector first keeps its offsets there"),
    ({"offsets.storage.topic": "lines"}, "Records of connector first are there"),
]


@pytest.fixture
def first(environment: RunEnvironment) -> RunEnvironment:
    environment.herder.create_connector("first", {**CONFIG, **GROUP, "offsets.storage.topic": "first-offsets"})
    return environment


def restarts(environment: RunEnvironment) -> bool:
    """Whether the connector is no longer FAILED, and a run starts."""
    return environment.herder.connector_status("c").connector.state == "UNASSIGNED" and ("trigger", "c", None) in environment.runs.taken()


@pytest.mark.parametrize(("wrong", "reason"), WRONG)
def test_a_new_connector_is_not_made(first: RunEnvironment, wrong: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigException, match=reason):
        first.herder.define_connector("c", {**DEFINED, **wrong}, FILE)
    assert first.herder.connectors() == ["first"]
    assert first.configs.read().reserved.keys() == {"first"}, "it reserves nothing either"


@pytest.mark.parametrize(("wrong", "reason"), WRONG)
def test_one_that_exists_is_failed_with_the_reason_and_keeps_its_config(first: RunEnvironment, wrong: dict[str, str], reason: str) -> None:
    first.herder.define_connector("c", DEFINED, FILE)
    first.run("c", State.RUNNING)
    for _ in range(2):
        with pytest.raises(ConfigException, match=reason):
            first.herder.define_connector("c", {**DEFINED, **wrong}, FILE)
    assert first.configs.read().connector_config("c") == DEFINED
    status = first.herder.connector_status("c")
    assert status.connector.state == "FAILED"
    assert reason in (status.connector.trace or "")
    first.runs.taken()
    first.herder.define_connector("c", {**DEFINED, "tasks.max": "2"}, FILE)
    first.herder.accept_definition("c")
    assert restarts(first)
    assert (first.configs.read().connector_config("c") or {})["tasks.max"] == "2"


def test_it_is_running_again_when_the_file_has_the_config_of_before(first: RunEnvironment) -> None:
    first.herder.define_connector("c", DEFINED, FILE)
    first.run("c", State.RUNNING)
    with pytest.raises(ConfigException):
        first.herder.define_connector("c", {**DEFINED, **GROUP}, FILE)
    first.runs.taken()
    first.herder.define_connector("c", DEFINED, FILE)
    assert first.herder.refused_definitions(["first", "c", "unknown"]) == ["c"]
    first.herder.accept_definition("c")
    assert restarts(first)
    assert first.herder.refused_definitions(["first", "c", "unknown"]) == []


def test_another_failure_is_left_alone(first: RunEnvironment) -> None:
    first.herder.define_connector("c", DEFINED, FILE)
    first.run("c", State.FAILED, connector=State.FAILED)
    assert first.herder.refused_definitions(["c"]) == []
    first.herder.accept_definition("c")
    assert first.states("c") == ("FAILED", ["FAILED"])
    assert first.runs.taken() == []


def test_the_state_of_before_returns_only_with_what_may_be_taken(first: RunEnvironment) -> None:
    first.herder.define_connector("c", {**DEFINED, "consumer.override.group.id": "mine"}, FILE)
    first.herder.note_state("c")
    first.herder.stop("c")
    first.herder.release_connector("c")
    first.herder.delete_connector("c")
    first.herder.put_connector_config("first", {**CONFIG, "consumer.override.group.id": "mine"})
    with pytest.raises(ConfigException, match="group of connector first"):
        first.herder.define_connector("c", {**DEFINED, "consumer.override.group.id": "mine"}, FILE)


def test_it_is_taken_as_soon_as_the_other_gives_it_free(first: RunEnvironment) -> None:
    with pytest.raises(ConfigException):
        first.herder.define_connector("c", {**DEFINED, **GROUP}, FILE)
    first.herder.put_connector_config("first", CONFIG)
    first.herder.define_connector("c", {**DEFINED, **GROUP}, FILE)
    assert first.configs.read().target_state("c") is TargetState.STARTED
