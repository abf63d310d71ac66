"""Internal topics are never data topics, and a sink's group is its own: what a config's author would reach by them is not his."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.plugins.validation.validation import validate_config
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector

SETTINGS = WorkerSettings.of({"connectors.allowed.paths": "/", "status.storage.topic": "own-status", "group.id": "workers"})
SOURCE = {"name": "c", "connector.class": "FileStreamSource", "file": "/x", "topic": "data"}
QUERY = {"name": "c", "connector.class": "JdbcSource", "connection.url": "jdbc:sqlite:/x", "mode": "bulk", "query": "select 1"}
SINK = {"name": "c", "connector.class": "FileStreamSink", "file": "/x", "topics": "data"}
INTERNAL = ("workers-configs", "workers-offsets", "own-status", "workers-batches", "__consumer_offsets", "__transaction_state")
CASES = [
    *(({**SOURCE, "topic": topic}, "topic", topic) for topic in INTERNAL),
    *(({**QUERY, "topic.prefix": topic}, "topic.prefix", topic) for topic in INTERNAL),
    *(({**SINK, "topics": f"data, {topic}"}, "topics", topic) for topic in INTERNAL),
    *(({**SINK, "errors.deadletterqueue.topic.name": topic}, "errors.deadletterqueue.topic.name", topic) for topic in INTERNAL),
    ({**SOURCE, "offsets.storage.topic": "__consumer_offsets"}, "offsets.storage.topic", "__consumer_offsets"),
    ({**SOURCE, "offsets.storage.topic": "data"}, "topic", "topic of its offsets"),
    ({**SINK, "consumer.override.group.id": "connect-other"}, "consumer.override.group.id", "connect-other"),
    ({**SINK, "consumer.override.group.id": "workers"}, "consumer.override.group.id", "workers"),
]


def errors_by_key(config: dict[str, str]) -> dict[str, list[str]]:
    choice = PluginChoice(PluginCatalog(()), SETTINGS)
    return {value.name: list(value.errors) for _, value in validate_config(choice, config).configs if value.errors}


@pytest.mark.parametrize(("config", "key", "named"), CASES, ids=lambda part: part if isinstance(part, str) else "")
def test_validation_refuses_at_the_key(config: dict[str, str], key: str, named: str) -> None:
    found = errors_by_key(config)
    assert list(found) == [key]
    assert len(found[key]) == 1
    assert named in found[key][0]


@pytest.mark.parametrize(("config", "key", "named"), CASES, ids=lambda part: part if isinstance(part, str) else "")
def test_a_run_refuses_too_whatever_was_stored(config: dict[str, str], key: str, named: str) -> None:
    with pytest.raises(ConfigException) as refused:
        check_connector("c", config, SETTINGS, {})
    assert [named in error for error in refused.value.errors] == [True]


@pytest.mark.parametrize("config", [SOURCE, SINK, {**SINK, "consumer.override.group.id": "connect-c"}, {**SINK, "topics": "own-statu"}])
def test_other_topics_and_groups_are_taken(config: dict[str, str]) -> None:
    assert errors_by_key(config) == {}
    check_connector("c", config, SETTINGS, {})


def test_the_process_that_validates_knows_the_workers_topics() -> None:
    with PluginProbe(SETTINGS) as probe:
        found = probe.validate(None, {**SOURCE, "topic": "own-status"})
    assert [value.name for _, value in found.configs if value.errors] == ["topic"]
