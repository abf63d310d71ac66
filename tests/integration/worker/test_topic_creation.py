"""Topics that a source makes (KIP-158)."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.integration.worker.environment import RunEnvironment, make_topic, values_of

ONE = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}


def test_topics_are_made_by_their_groups(environment: RunEnvironment, unique: str) -> None:
    logs, rest, there = f"{unique}.log", f"{unique}.rest", f"{unique}.there"
    make_topic(environment.bootstrap, there, 2)
    creation = {
        "topic.creation.groups": "logs",
        "topic.creation.logs.include": r".*[.]log,.*[.]there",
        "topic.creation.logs.partitions": "3",
        "topic.creation.logs.max.message.bytes": "100000",
        "topic.creation.logs.retention.ms": "360000",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "-1",
    }
    result = environment.run(environment.numbers(f"{logs},{rest},{there}", until="60", size="10", **creation))
    assert (result.state, result.error) == (RunState.DONE, None)
    admin = TopicAdmin(environment.settings)
    assert admin.partitions([logs, rest, there]) == {logs: 3, rest: 1, there: 2}
    configs = admin.configs([logs, rest])
    assert (configs[logs]["max.message.bytes"], configs[logs]["retention.ms"]) == ("100000", "360000")
    assert configs[rest]["max.message.bytes"] != "100000"
    for topic in (logs, rest, there):
        assert len(values_of(environment.bootstrap, topic)) == 20
        assert all(first == 0 for first, _ in result.tasks[0].ranges[topic].values())


def test_tasks_that_make_the_same_topic_at_once(environment: RunEnvironment, unique: str) -> None:
    creation = ONE | {"topic.creation.default.partitions": "2"}
    result = environment.run(environment.numbers(unique, tasks_max="4", tasks="4", until="50", **creation))
    assert (result.state, result.error) == (RunState.DONE, None)
    assert TopicAdmin(environment.settings).partitions([unique]) == {unique: 2}
    assert len(values_of(environment.bootstrap, unique)) == 200


def test_worker_that_forbids_it_leaves_topics_to_the_broker(
    environment: RunEnvironment, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    environment.properties["topic.creation.enable"] = "false"
    bad = {"topic.creation.default.partitions": "0"}  # nothing reads it
    with caplog.at_level(logging.WARNING):
        assert environment.run(environment.numbers(unique, until="10", **bad)).state is RunState.DONE
    assert "the worker has topic.creation.enable=false" in caplog.text
    assert TopicAdmin(environment.settings).partitions([unique]) == {unique: 1}


def test_groups_that_are_wrong_are_refused_at_the_start(environment: RunEnvironment, unique: str, caplog: pytest.LogCaptureFixture) -> None:
    config = environment.numbers(unique, **{"topic.creation.groups": "a", "topic.creation.a.partitions": "0"})
    with pytest.raises(ConfigException) as refused:
        environment.readiness(config)
    missing = 'Missing required configuration "topic.creation.default.{}" which has no default value.'
    assert refused.value.errors[:2] == [missing.format("replication.factor"), missing.format("partitions")]
    assert "Invalid value 0 for configuration topic.creation.a.partitions: Number of partitions must be positive" in refused.value.errors[2]
    result = environment.run(config)
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    assert missing.format("partitions") in str(result.error)
    other = RunEnvironment(environment.properties, f"other-{unique}", environment.folder)
    with caplog.at_level(logging.WARNING):
        other.run(other.numbers(unique, until="10", **ONE, **{"topic.creation.b.partitions": "2"}))
    assert "topic.creation.b.partitions: topic.creation.groups names no such group" in caplog.text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"topic.creation.default.replication.factor": "3"}, "replication factor"),
        ({"topic.creation.default.cleanup.policy": "burn"}, "cleanup.policy"),
    ],
    ids=str,
)
def test_settings_that_the_broker_refuses_fail_the_task(
    environment: RunEnvironment, unique: str, change: dict[str, str], text: str
) -> None:
    result = environment.run(environment.numbers(unique, **ONE | change))
    assert (result.state, environment.states()) == (RunState.FAILED, {0: "FAILED"})
    assert f"Task failed to create new topic (name={unique}, numPartitions=1" in str(result.tasks[0].trace)
    assert text in str(result.tasks[0].trace)
