"""The keys that steer a connector's DAG, as a client sees them, and connectors of which no DAG can be made."""

from collections.abc import Sequence

import pytest

from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.runtime.model.states import State, TargetState
from tests.unit.herder.conftest import CONFIG, RunEnvironment

BAD = {"airflow.pool": "p" * 300, "airflow.tags": "t" * 101, "airflow.queue": "gpu"}


def test_validate_shows_what_is_wrong_on_its_key(environment: RunEnvironment) -> None:
    environment.probe.errors = {"topic": ["no topic"]}
    found = environment.herder.validate("FileStreamSource", {**CONFIG, "name": "c", **BAD, "airflow.owner": "me", "airflow.doc": None})
    errors = {value.name: list(value.errors) for _, value in found.configs}
    assert sorted(errors) == sorted(["topic", *BAD, "airflow.doc"])
    assert "no more than 256" in errors["airflow.pool"][0]
    assert "airflow.allowed.queues" in errors["airflow.queue"][0]
    assert found.error_count == 5


def test_a_config_beyond_airflows_limits_is_not_taken(environment: RunEnvironment) -> None:
    with pytest.raises(ConfigException) as raised:
        environment.herder.create_connector("c", {**CONFIG, **BAD})
    assert len(raised.value.errors) == 3
    assert environment.herder.connectors() == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("consumer.override.group.id", "others\0x"), ("offsets.storage.topic", "connect-configs\0"), ("file", "/a\0b"), ("a\nb", "c")],
)
def test_a_text_that_a_client_would_cut_is_refused_on_its_key(environment: RunEnvironment, key: str, value: str) -> None:
    """What is checked must be what is used: librdkafka ends a text at a NUL."""
    config = {**CONFIG, key: value}
    with pytest.raises(ConfigException) as raised:
        environment.herder.create_connector("c", config)
    assert repr(key)[1:-1] in raised.value.message
    found = environment.herder.validate("FileStreamSource", {**config, "name": "c"})
    assert [value.name for _, value in found.configs if value.errors] == [key]


def test_a_name_of_300_characters_is_a_name(environment: RunEnvironment) -> None:
    name = "long/" * 60
    assert environment.herder.create_connector(name, CONFIG).name == name
    with pytest.raises(ConfigException, match="8001 bytes"):
        environment.herder.create_connector("x" * 8001, CONFIG)


def test_a_connector_without_a_dag_is_failed_with_the_reason_until_it_has_one(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", State.RUNNING)
    environment.herder.refuse_dag("c", "Invalid value few for configuration airflow.retries")
    status = environment.herder.connector_status("c").connector
    assert (status.state, "configuration airflow.retries" in (status.trace or "")) == ("FAILED", True)
    environment.herder.refuse_dag("c", "Invalid value gpu for configuration airflow.queue")
    assert "airflow.queue" in (environment.herder.connector_status("c").connector.trace or "")
    environment.herder.accept_dags(["c"])
    assert environment.states("c")[0] == "UNASSIGNED"
    assert environment.runs.taken() == [("trigger", "c", None)]


def test_a_restart_that_fails_keeps_no_other_connector_failed(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        environment.herder.create_connector(name, CONFIG)
        environment.run(name, State.RUNNING)
        environment.herder.refuse_dag(name, "Invalid value few for configuration airflow.retries")
    environment.runs.taken()
    trigger = environment.runs.trigger

    def fail_for_a(name: str, tasks: Sequence[int] | None = None) -> None:
        if name == "a":
            raise RetriableException("no run can be started")
        trigger(name, tasks)

    monkeypatch.setattr(environment.runs, "trigger", fail_for_a)
    with pytest.raises(RetriableException):
        environment.herder.accept_dags(["a", "b"])
    assert environment.states("b")[0] == "UNASSIGNED"


def test_another_failure_is_left_alone(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", State.FAILED, connector=State.FAILED)
    environment.herder.accept_dags(["c"])
    assert environment.states("c") == ("FAILED", ["FAILED"])
    assert environment.runs.taken() == []


def test_a_stopped_connector_stays_stopped(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG, TargetState.STOPPED)
    environment.herder.refuse_dag("c", "no")
    assert environment.states("c")[0] == "STOPPED"


def test_a_connector_that_is_gone_gets_no_status(environment: RunEnvironment) -> None:
    environment.herder.refuse_dag("c", "no")
    assert environment.statuses.connector("c") is None
