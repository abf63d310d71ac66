"""The keys that steer a connector's DAG, as a client is told of them, and connectors of which no DAG can be made."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.model.states import State, TargetState
from tests.unit.herder.conftest import CONFIG, Scene

BAD = {"airflow.pool": "p" * 300, "airflow.tags": "t" * 101, "airflow.queue": "gpu"}


def test_validate_shows_what_is_wrong_on_its_key(scene: Scene) -> None:
    scene.probe.errors = {"topic": ["no topic"]}
    found = scene.herder.validate("FileStreamSource", {**CONFIG, "name": "c", **BAD, "airflow.owner": "me", "airflow.doc": None})
    errors = {value.name: list(value.errors) for _, value in found.configs}
    assert sorted(errors) == sorted(["topic", *BAD, "airflow.doc"])
    assert "no more than 256" in errors["airflow.pool"][0]
    assert "airflow.allowed.queues" in errors["airflow.queue"][0]
    assert found.error_count == 5


def test_a_config_beyond_airflows_limits_is_not_taken(scene: Scene) -> None:
    with pytest.raises(ConfigException) as raised:
        scene.herder.create_connector("c", {**CONFIG, **BAD})
    assert len(raised.value.errors) == 3
    assert scene.herder.connectors() == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("consumer.override.group.id", "others\0x"), ("offsets.storage.topic", "connect-configs\0"), ("file", "/a\0b"), ("a\nb", "c")],
)
def test_a_text_that_a_client_would_cut_is_refused_on_its_key(scene: Scene, key: str, value: str) -> None:
    """What is checked must be what is used: librdkafka ends a text at a NUL."""
    config = {**CONFIG, key: value}
    with pytest.raises(ConfigException) as raised:
        scene.herder.create_connector("c", config)
    assert repr(key)[1:-1] in raised.value.message
    found = scene.herder.validate("FileStreamSource", {**config, "name": "c"})
    assert [value.name for _, value in found.configs if value.errors] == [key]


def test_a_name_of_300_characters_is_a_name(scene: Scene) -> None:
    name = "long/" * 60
    assert scene.herder.create_connector(name, CONFIG).name == name
    with pytest.raises(ConfigException, match="8001 bytes long"):
        scene.herder.create_connector("x" * 8001, CONFIG)


def test_a_connector_without_a_dag_is_failed_with_the_reason_until_it_has_one(scene: Scene) -> None:
    scene.herder.create_connector("c", CONFIG)
    scene.run("c", State.RUNNING)
    scene.herder.refuse_dag("c", "Invalid value few for configuration airflow.retries")
    status = scene.herder.connector_status("c").connector
    assert (status.state, "configuration airflow.retries" in (status.trace or "")) == ("FAILED", True)
    scene.herder.refuse_dag("c", "Invalid value gpu for configuration airflow.queue")
    assert "airflow.queue" in (scene.herder.connector_status("c").connector.trace or "")
    scene.herder.accept_dags(["c"])
    assert scene.states("c")[0] == "UNASSIGNED"
    assert scene.runs.taken() == [("trigger", "c", None)]


def test_another_failure_is_left_alone(scene: Scene) -> None:
    scene.herder.create_connector("c", CONFIG)
    scene.run("c", State.FAILED, connector=State.FAILED)
    scene.herder.accept_dags(["c"])
    assert scene.states("c") == ("FAILED", ["FAILED"])
    assert scene.runs.taken() == []


def test_a_stopped_connector_stays_stopped(scene: Scene) -> None:
    scene.herder.create_connector("c", CONFIG, TargetState.STOPPED)
    scene.herder.refuse_dag("c", "no")
    assert scene.states("c")[0] == "STOPPED"


def test_a_connector_that_is_gone_gets_no_status(scene: Scene) -> None:
    scene.herder.refuse_dag("c", "no")
    assert scene.statuses.connector("c") is None
