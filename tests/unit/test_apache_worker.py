"""The cases of Apache's DistributedConfigTest, OffsetUtilsTest, SinkUtilsTest and TopicCreationTest that have no row elsewhere."""

from typing import Any

import pytest

from airflow_provider_connect.errors import BadRequestException, ConfigException, DataException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.offsets import checked_source_offset, sink_offsets
from airflow_provider_connect.runtime.model.topic_creation import TopicCreation
from airflow_provider_connect.runtime.wire import offset_topic


@pytest.mark.parametrize(
    "key", [f"{topic}.storage.{key}" for topic in ("offset", "status") for key in ("partitions", "replication.factor")]
)
def test_numbers_of_an_internal_topic_are_positive_or_the_brokers(key: str) -> None:
    for number in (-1, *range(1, 101)):
        WorkerSettings.of({key: str(number)})
    for number in (0, *range(-2, -100, -1)):
        with pytest.raises(ConfigException, match=key):
            WorkerSettings.of({key: str(number)})


def test_the_config_topic_has_one_partition_and_any_replicas() -> None:
    WorkerSettings.of({"config.storage.replication.factor": "-1"})
    for number in ("0", "-2"):
        with pytest.raises(ConfigException, match=r"config\.storage\.replication\.factor"):
            WorkerSettings.of({"config.storage.replication.factor": number})


def test_a_protocol_is_written_in_any_case() -> None:
    WorkerSettings.of({"security.protocol": "sasl_ssl"})
    with pytest.raises(ConfigException, match=r"abc for configuration security\.protocol: String must be one of"):
        WorkerSettings.of({"security.protocol": "abc"})


@pytest.mark.parametrize(
    "key", [b"\0", b"i-am-not-json", b"", b"{}", b'[""]', b'["one","two","three"]', b"[1,{}]", b'["connector-name",[]]', None]
)
def test_a_record_whose_key_is_no_connector_and_partition_is_skipped(key: bytes | None) -> None:
    assert not hasattr(offset_topic.decode(key, b"{}"), "partition")


def test_a_record_of_a_connector_and_a_partition_is_an_offset() -> None:
    found: Any = offset_topic.decode(b'["connector-name",{}]', b'{"a":1}')
    assert (found.connector, found.partition, found.offset) == ("connector-name", {}, {"a": 1})


@pytest.mark.parametrize("value", [object(), {"k1": "v1", 1: "v2"}, {"key": object()}, {"key": []}, {"key": {}}])
def test_what_is_no_map_of_plain_values_is_no_offset(value: Any) -> None:
    with pytest.raises(DataException, match="Offsets m"):
        checked_source_offset(value)


@pytest.mark.parametrize(("partition", "offset"), [("10", "100"), (10, "100"), ("10", 100), (10, 100)])
def test_numbers_of_a_sinks_offset_may_be_text(partition: object, offset: object) -> None:
    pair = ({"kafka_topic": "topic", "kafka_partition": partition}, {"kafka_offset": offset})
    assert sink_offsets([pair]) == {("topic", 10): 100}
    assert sink_offsets([(pair[0], None)]) == {("topic", 10): None}
    assert sink_offsets([]) == {}


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        ({"kafka_topic": "topic"}, {"kafka_offset": 100}, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        ({"kafka_partition": "5"}, {"kafka_offset": 100}, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        (
            {"kafka_topic": "t", "kafka_partition": "not a number"},
            {"kafka_offset": 100},
            "Kafka partition value in the provided offsets: 'not a",
        ),
        ({"kafka_topic": "t", "kafka_partition": 10}, {}, "should either be null or contain the key 'kafka_offset'"),
        (
            {"kafka_topic": "t", "kafka_partition": 10},
            {"kafka_offset": "not a number"},
            "Kafka offset value in the provided offsets: 'not a",
        ),
        (None, {"kafka_offset": 100}, "The partition for a sink connector offset cannot be null or missing"),
        (
            {"kafka_topic": "t", "kafka_partition": None},
            {"kafka_offset": 100},
            "Kafka partitions must be valid numbers and may not be null",
        ),
        (
            {"kafka_topic": None, "kafka_partition": "10"},
            {"kafka_offset": 100},
            "Kafka topic names must be valid strings and may not be null",
        ),
    ],
)
def test_a_wrong_offset_of_a_sink_is_refused(partition: Any, offset: Any, text: str) -> None:
    with pytest.raises(BadRequestException) as refused:
        sink_offsets([(partition, offset)])
    assert text in str(refused.value)


DEFAULT = {"topic.creation.default.replication.factor": "-1", "topic.creation.default.partitions": "5"}
FOO = {
    "topic.creation.foo.include": "foo-topic",
    "topic.creation.foo.replication.factor": "3",
    "topic.creation.foo.retention.ms": "2592000000",
}
BAR = {"topic.creation.bar.include": "bar.*", "topic.creation.bar.partitions": "1", "topic.creation.bar.cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("config", "topic", "group"),
    [
        (DEFAULT, "foo-topic", ("default", 5, -1, {})),
        (DEFAULT | {"topic.creation.groups": "foo,bar"}, "foo-topic", ("default", 5, -1, {})),
        (DEFAULT | {"topic.creation.groups": "foo"} | FOO, "foo-topic", ("foo", 5, 3, {"retention.ms": "2592000000"})),
        (DEFAULT | {"topic.creation.groups": "foo"} | FOO, "bar-topic", ("default", 5, -1, {})),
        (DEFAULT | {"topic.creation.groups": "foo,bar"} | FOO | BAR, "bar-topic", ("bar", 1, -1, {"cleanup.policy": "compact"})),
        (DEFAULT | {"topic.creation.groups": "foo,bar"} | FOO | BAR, "foo-topic", ("foo", 5, 3, {"retention.ms": "2592000000"})),
        (DEFAULT | {"topic.creation.groups": "foo,bar"} | FOO | BAR, "other", ("default", 5, -1, {})),
        (DEFAULT | {"topic.creation.groups": "foo", "topic.creation.foo.include": "(foo|bar).*"}, "bar-topic", ("foo", 5, -1, {})),
        (DEFAULT | {"topic.creation.default.cleanup.policy": "compact"}, " ", ("default", 5, -1, {"cleanup.policy": "compact"})),
        (
            DEFAULT | {"topic.creation.groups": "foo", "topic.creation.foo.include": ".*", "topic.creation.foo.exclude": "foo-.*"},
            "foo-topic",
            ("default", 5, -1, {}),
        ),
    ],
)
def test_a_new_topic_has_the_settings_of_its_group(config: dict[str, str], topic: str, group: tuple[Any, ...]) -> None:
    creation = TopicCreation.of({"name": "c", **config})
    assert creation is not None
    found = creation.group_of(topic)
    assert (found.name, found.partitions, found.replication_factor, dict(found.configs)) == group
