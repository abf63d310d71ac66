"""Groups of new topics, by the config's keys."""

from __future__ import annotations

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.topic_creation import TopicCreation, unused_keys

DEFAULT = {"topic.creation.default.replication.factor": "3", "topic.creation.default.partitions": "5"}


def creation(**more: str) -> TopicCreation:
    found = TopicCreation.of({"name": "c", **DEFAULT, **{f"topic.creation.{key.replace('__', '.')}": text for key, text in more.items()}})
    assert found is not None
    return found


def test_without_a_key_no_topic_is_made() -> None:
    assert TopicCreation.of({"name": "c", "topic": "t"}) is None


def test_every_topic_belongs_to_default_whatever_its_patterns() -> None:
    group = creation(default__include="x", default__exclude=".*", default__cleanup__policy="compact").group_of("any.topic")
    assert (group.name, group.partitions, group.replication_factor, dict(group.configs)) == ("default", 5, 3, {"cleanup.policy": "compact"})


def test_first_group_in_order_that_includes_and_does_not_exclude() -> None:
    groups = creation(
        groups="logs, shop",
        logs__include=r"log\..*,audit",
        logs__exclude=r"log\.debug.*",
        logs__retention__ms="1000",
        logs__partitions="1",
        shop__include=r"shop.*,log\.debug\.x",
        shop__replication__factor="-1",
    )
    names = {topic: groups.group_of(topic).name for topic in ("log.a", "audit", "audits", "log.debug", "log.debug.x", "shop", "my.shop")}
    assert names == {
        "log.a": "logs",
        "audit": "logs",
        "audits": "default",
        "log.debug": "default",
        "log.debug.x": "shop",
        "shop": "shop",
        "my.shop": "default",
    }
    logs, shop, _ = groups.groups
    assert (logs.partitions, logs.replication_factor, dict(logs.configs)) == (1, 3, {"retention.ms": "1000"})
    assert (shop.partitions, shop.replication_factor, dict(shop.configs)) == (5, -1, {})


def test_group_that_includes_nothing_holds_nothing() -> None:
    assert creation(groups="none,default", none__partitions="2").group_of("t").name == "default"


MISSING = 'Missing required configuration "topic.creation.default.{}" which has no default value.'
REPLICATION = (
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, or -1 to use the broker's default"
)
PARTITIONS = "Number of partitions must be positive, or -1 to use the broker's default"


@pytest.mark.parametrize(
    ("config", "errors"),
    [
        ({"topic.creation.groups": ""}, [MISSING.format("replication.factor"), MISSING.format("partitions")]),
        (
            {"topic.creation.default.replication.factor": "0", "topic.creation.default.partitions": "-2"},
            [
                f"Invalid value 0 for configuration topic.creation.default.replication.factor: {REPLICATION}",
                f"Invalid value -2 for configuration topic.creation.default.partitions: {PARTITIONS}",
            ],
        ),
        (
            {**DEFAULT, "topic.creation.groups": "a", "topic.creation.a.partitions": "x"},
            ["Invalid value x for configuration topic.creation.a.partitions: Not a number of type INT"],
        ),
        (
            {**DEFAULT, "topic.creation.groups": "a", "topic.creation.a.include": "b,("},
            ["Invalid value [b, (] for configuration topic.creation.a.include: Syntax error in regular expression: "],
        ),
    ],
)
def test_mistakes_are_worded_as_connects(config: dict[str, str], errors: list[str]) -> None:
    with pytest.raises(ConfigException) as refused:
        TopicCreation.of(config)
    assert len(refused.value.errors) == len(errors)
    assert all(found.startswith(expected) for found, expected in zip(refused.value.errors, errors, strict=True))


def test_keys_of_groups_that_are_not_named_are_found() -> None:
    config = {**DEFAULT, "topic.creation.groups": "a", "topic.creation.a.include": ".*", "topic.creation.b.partitions": "1"}
    assert unused_keys(config) == ["topic.creation.b.partitions"]
