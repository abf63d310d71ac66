"""The framework's keys against the answers of a real Kafka Connect, and configs read into one value."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.connector_keys import own_config_def, sink_config_def, source_config_def, strip_framework_keys
from airflow_provider_connect.runtime.model.connector_settings import (
    ConnectorSettings,
    Guarantee,
    PluginSettings,
    TransactionBoundary,
    TransformationSettings,
    validate_framework_keys,
)
from airflow_provider_connect.sdk.config_def import ConfigDef

GOLDEN = Path(__file__).parents[2] / "contract" / "golden" / "rest"
FILE_KEYS = {"file", "topic", "batch.size"}
JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER_DEFAULTS = {
    "connector.plugin.version": "4.3.1",
    **{f"{kind}.converter": JSON for kind in ("key", "value")},
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    **{f"{kind}.converter.plugin.version": "4.3.1" for kind in ("key", "value", "header")},
}


def steps(scenario: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / f"{scenario}.json").read_text())["steps"]
    return [step for step in found if step["step"] == "call"]


def without_documentation(definitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in definition.items() if key != "documentation"} for definition in definitions]


@pytest.mark.parametrize(("step_id", "config_def"), [("source", source_config_def), ("sink", sink_config_def)])
def test_definitions_are_connects(step_id: str, config_def: Any) -> None:
    answer = next(step["answer"]["body"] for step in steps("plugin-config") if step["id"] == step_id)
    theirs = [definition for definition in answer if definition["name"] not in FILE_KEYS]
    assert without_documentation(config_def({"connector.plugin.version": "4.3.1"}).describe()) == without_documentation(theirs)


@pytest.mark.parametrize("step", [s for s in steps("validate-source") if "configs" in s["answer"].get("body", {})], ids=lambda s: s["id"])
def test_source_values_and_errors_are_connects(step: dict[str, Any]) -> None:
    found = {value.name: value.describe() for value in validate_framework_keys(step["json"], is_sink=False, defaults=WORKER_DEFAULTS)}
    needs_plugins = {"exactly once required", "boundary connector"}  # these two errors come from the connector and the worker
    for config in step["answer"]["body"]["configs"]:
        theirs = config["value"]
        if theirs["name"] in FILE_KEYS:
            continue
        ours = found.pop(theirs["name"])
        assert ours["value"] == theirs["value"]
        assert ours["visible"] == theirs["visible"]
        if step["id"] not in needs_plugins:
            assert ours["errors"] == theirs["errors"]
    assert not found


def test_groups_are_connects() -> None:
    body = next(step["answer"]["body"] for step in steps("validate-source") if step["id"] == "good, whole answer")
    assert source_config_def().groups() == body["groups"]


def test_refused_creations_have_connects_messages() -> None:
    """Every refused creation whose errors the framework's keys alone explain."""
    ids = {"tasks.max not a number", "tasks.max zero", "tasks.max negative", "tasks.max empty", "transform without type", "transform twice"}
    for step in [step for step in steps("create-refused") if step["id"] in ids]:
        theirs = step["answer"]["body"]["message"].splitlines()[1:-1]
        with pytest.raises(ConfigException) as caught:
            ConnectorSettings.of({"name": "bad", **step["json"]["config"]}, is_sink=False)
        assert caught.value.errors == theirs, step["id"]


def sink(**config: str) -> dict[str, str]:
    return {"name": "s", "connector.class": "FileStreamSink", **{key.replace("__", "."): text for key, text in config.items()}}


def errors_of(config: dict[str, str]) -> dict[str, list[str]]:
    return {value.name: value.errors for value in validate_framework_keys(config, is_sink=True) if value.errors}


@pytest.mark.parametrize("name", [".", "..", " .. "])
def test_a_name_that_no_path_can_hold_is_refused(name: str) -> None:
    (value,) = [value for value in source_config_def().validate({"name": name, "connector.class": "C"}) if value.name == "name"]
    assert ["No path of the REST API can hold this name" in error for error in value.errors] == [True]


def test_sink_without_topics_is_refused_on_both_keys() -> None:
    text = "Must configure one of topics or topics.regex"
    assert errors_of(sink()) == {"topics": [text], "topics.regex": [text]}


def test_sink_with_topics_and_regex_is_refused_on_both_keys() -> None:
    text = "topics and topics.regex are mutually exclusive options, but both are set."
    assert errors_of(sink(topics="a", topics__regex="b")) == {"topics": [text], "topics.regex": [text]}


def test_dead_letter_topic_among_topics_is_refused() -> None:
    assert errors_of(sink(topics="a, b", errors__deadletterqueue__topic__name="b")) == {
        "topics": ["The DLQ topic 'b' may not be included in the list of topics ('topics=[a, b]') consumed by the connector"]
    }


def test_dead_letter_topic_matched_by_regex_is_refused() -> None:
    assert errors_of(sink(topics__regex="d.*", errors__deadletterqueue__topic__name="dlq")) == {
        "topics.regex": [
            "The DLQ topic 'dlq' may not be matched by the regex for the topics ('topics.regex=d.*') consumed by the connector"
        ]
    }
    assert not errors_of(sink(topics__regex="d.", errors__deadletterqueue__topic__name="dlq"))


def test_invalid_regex_is_refused() -> None:
    [error] = errors_of(sink(topics__regex="a("))["topics.regex"]
    assert error.startswith("Invalid value a( for configuration topics.regex: Invalid regex: ")


def test_everything_that_a_config_can_ask_for() -> None:
    settings = ConnectorSettings.of(
        {
            "name": "orders",
            "connector.class": "FileStreamSink",
            "connector.plugin.version": "[1,2)",
            "tasks.max": "3",
            "tasks.max.enforce": "false",
            "topics": "a, b",
            "value.converter": JSON,
            "value.converter.plugin.version": "4.1",
            "value.converter.schemas.enable": "false",
            "transforms": "route,drop",
            "transforms.route.type": "RegexRouter",
            "transforms.route.regex": ".*",
            "transforms.drop.type": "Filter",
            "transforms.drop.plugin.version": "1",
            "transforms.drop.predicate": "old",
            "transforms.drop.negate": "TRUE",
            "predicates": "old",
            "predicates.old.type": "TopicNameMatches",
            "predicates.old.pattern": "x",
            "delivery.guarantee": "exactly_once",
            "batch.max.records": "1000",
            "batch.max.duration.ms": "60000",
            "tasks.per.application": "1",
            "consumer.override.max.poll.records": "9",
            "producer.override.linger.ms": "5",
            "errors.tolerance": "all",
            "errors.retry.timeout": "-1",
            "errors.deadletterqueue.topic.name": "dlq",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
    )
    assert (settings.name, settings.connector_class, settings.plugin_version) == ("orders", "FileStreamSink", "[1,2)")
    assert settings.is_sink
    assert (settings.tasks_max, settings.tasks_max_enforce) == (3, False)
    assert settings.topics == ("a", "b")
    assert settings.key_converter is None
    assert settings.value_converter == PluginSettings(JSON, "4.1", {"schemas.enable": "false"})
    assert settings.transforms == (
        TransformationSettings("RegexRouter", None, {"regex": ".*"}, alias="route", predicate=None, negate=False),
        TransformationSettings("Filter", "1", {}, alias="drop", predicate="old", negate=True),
    )
    assert settings.predicates == {"old": PluginSettings("TopicNameMatches", None, {"pattern": "x"})}
    assert settings.delivery_guarantee is Guarantee.EXACTLY_ONCE
    assert (settings.batch_max_records, settings.batch_max_duration_ms, settings.tasks_per_application) == (1000, 60000, 1)
    assert settings.overrides == {"producer": {"linger.ms": "5"}, "consumer": {"max.poll.records": "9"}, "admin": {}}
    assert settings.errors.tolerates_all
    assert settings.errors.retry_timeout_ms == -1
    assert settings.errors.dead_letter_topic == "dlq"
    assert settings.errors.dead_letter_replication_factor == 3
    assert settings.errors.dead_letter_context_headers
    assert settings.reads_topic("b")
    assert not settings.reads_topic("c")


def test_defaults_of_a_source() -> None:
    settings = ConnectorSettings.of({"name": "n", "connector.class": "FileStreamSource"})
    assert not settings.is_sink
    assert settings.tasks_max == 1
    assert settings.transforms == ()
    assert settings.transaction_boundary is TransactionBoundary.POLL
    assert settings.transaction_boundary_interval_ms is None
    assert settings.delivery_guarantee is None
    assert settings.batch_max_records is None
    assert not settings.requires_exactly_once
    assert settings.errors.dead_letter_topic is None


def test_words_in_any_case() -> None:
    settings = ConnectorSettings.of(
        {"name": "n", "connector.class": "c", "transaction.boundary": "InterVal", "exactly.once.support": "REQUIRED"}, is_sink=False
    )
    assert settings.transaction_boundary is TransactionBoundary.INTERVAL
    assert settings.requires_exactly_once


def test_topics_by_regex_match_whole_names() -> None:
    settings = ConnectorSettings.of(sink(topics__regex="shop[.].+"))
    assert settings.reads_topic("shop.orders")
    assert not settings.reads_topic("my.shop.orders")


BAD = [
    ({"delivery.guarantee": "twice"}, "Invalid value twice for configuration delivery.guarantee: String must be one of: exactly_once, "),
    ({"batch.max.records": "0"}, "Invalid value 0 for configuration batch.max.records: Value must be at least 1"),
    ({"batch.max.duration.ms": "1s"}, "Invalid value 1s for configuration batch.max.duration.ms: Not a number of type LONG"),
    ({"transaction.boundary.interval.ms": "-1"}, "Invalid value -1 for configuration transaction.boundary.interval.ms: Value must be at "),
    ({"offsets.storage.topic": ""}, "Invalid value  for configuration offsets.storage.topic: String must be non-empty"),
    ({"transforms": "a", "transforms.a.type": "T", "transforms.a.negate": "maybe", "transforms.a.predicate": "p", "predicates": "p",
      "predicates.p.type": "P"}, "Invalid value maybe for configuration transforms.a.negate: Expected value to be either true or false"),
    ({"transforms": "a", "transforms.a.type": "T", "transforms.a.negate": "true"}, "Config 'transforms.a.negate' was provided but there "
     "is no config 'transforms.a.predicate' defining a predicate to be negated."),
    ({"transforms": "a", "transforms.a.type": "T", "transforms.a.predicate": "p"}, "Invalid value p for configuration "
     "transforms.a.predicate: not an alias in predicates"),
    ({"predicates": "p"}, 'Missing required configuration "predicates.p.type" which has no default value.'),
]  # fmt: skip


@pytest.mark.parametrize(("config", "text"), BAD, ids=lambda case: str(case)[:40])
def test_bad_config_names_key_and_reason(config: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigException) as caught:
        ConnectorSettings.of({"name": "n", "connector.class": "c", **config}, is_sink=False)
    assert [error for error in caught.value.errors if error.startswith(text)]
    assert len(caught.value.errors) == 1


def test_connector_does_not_see_keys_for_airflow_and_versions() -> None:
    assert strip_framework_keys(
        {
            "name": "n",
            "airflow.schedule": "@daily",
            "connector.plugin.version": "1",
            "transforms.a.plugin.version": "1",
            "plugin.version": "of the connector itself",
            "value.converter": "c",
        }
    ) == {"name": "n", "plugin.version": "of the connector itself", "value.converter": "c"}


def test_own_keys_stand_apart_from_connects() -> None:
    assert isinstance(own_config_def(), ConfigDef)
    assert not set(own_config_def().keys) & (set(source_config_def().keys) | set(sink_config_def().keys))


def test_topics_are_named_once_and_never_by_nothing() -> None:
    assert errors_of(sink(topics="t,,u")) == {"topics": ["Configuration 'topics' values must not be empty."]}
    assert errors_of(sink(topics="t,u,t")) == {"topics": ["Configuration 'topics' values must not be duplicated."]}


def test_a_text_that_a_client_would_cut_is_refused() -> None:
    with pytest.raises(ConfigException, match="file: it holds a NUL"):
        ConnectorSettings.of({"name": "c", "connector.class": "FileStreamSource", "file": "/a\0b"})
