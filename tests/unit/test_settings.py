import pickle

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config import settings_reader
from airflow_provider_connect.runtime.config.internal_topics import absence_seconds
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.config.worker_settings import StatusRetry, WorkerSettings
from airflow_provider_connect.runtime.model.cost import Prices


def test_nothing_given_is_a_worker_with_defaults() -> None:
    settings = WorkerSettings.of({})
    assert settings.group_id == "connect"
    assert settings.bootstrap_servers == "localhost:9092"
    assert [topic.name for topic in settings.internal_topics] == ["connect-configs", "connect-offsets", "connect-status", "connect-batches"]
    assert [topic.partitions for topic in settings.internal_topics] == [1, 25, 5, 1]
    assert {topic.replication_factor for topic in settings.internal_topics} == {-1}  # the broker's default
    assert settings.key_converter == "org.apache.kafka.connect.json.JsonConverter"
    assert settings.exactly_once_source_enabled
    assert settings.status_retry == StatusRetry(5, 300, 10_000, 2.0, 0.25)
    assert settings.task_shutdown_graceful_timeout_ms == 5000
    assert settings.batch_max_records is None
    assert settings.batch_max_duration_ms == 3_600_000
    assert settings.task_memory_max == 2 << 30


def test_topics_that_are_not_named_are_those_of_the_group() -> None:
    settings = WorkerSettings.of({"group.id": "shop", "status.storage.topic": "connect-status"})
    assert [topic.name for topic in settings.internal_topics] == ["shop-configs", "shop-offsets", "connect-status", "shop-batches"]


def test_a_group_that_no_topic_can_be_named_after_needs_names() -> None:
    names = {f"{kind}.storage.topic": f"shop-{kind}" for kind in ("config", "offset", "status")}
    with pytest.raises(ConfigException, match=r"for configuration group\.id: .* Topic name is invalid.* Give batch\.storage\.topic$"):
        WorkerSettings.of({"group.id": "a shop", **names})
    assert WorkerSettings.of({"group.id": "a shop", **names, "batch.storage.topic": "shop-batch"}).group_id == "a shop"


def test_prices_are_those_that_are_given() -> None:
    assert not WorkerSettings.of({"cost.currency": "EUR"}).prices.are_set
    assert WorkerSettings.of({"cost.cpu.hour": "0.04", "cost.gigabyte": "0.1", "cost.currency": "EUR"}).prices == Prices(
        cpu_hour=0.04, task_hour=0.0, gigabyte=0.1, currency="EUR"
    )


def test_converter_settings_lose_their_prefix() -> None:
    settings = WorkerSettings.of({"value.converter": "x.Y", "value.converter.schemas.enable": "false", "key.converter.a": "b"})
    assert settings.value_converter == "x.Y"
    assert settings.value_converter_settings == {"schemas.enable": "false"}
    assert settings.key_converter_settings == {"a": "b"}


def test_topic_settings_are_passed_on_but_for_those_that_are_fixed() -> None:
    settings = WorkerSettings.of(
        {
            "config.storage.segment.bytes": "1000",
            "config.storage.partitions": "7",
            "status.storage.cleanup.policy": "delete",
            "status.storage.partitions": "-1",
            "offset.storage.replication.factor": "2",
            "offset.storage.file.filename": "/tmp/x",
        }
    )
    config, offset, status, _ = settings.internal_topics
    compacts_soon = {
        "cleanup.policy": "compact",
        "segment.ms": "900000",
        "min.cleanable.dirty.ratio": "0.1",
        "min.compaction.lag.ms": "900000",
        "max.compaction.lag.ms": "1800000",
    }
    assert config.configs == {**compacts_soon, "segment.bytes": "1000"}
    assert config.partitions == 1
    assert status.configs == {**compacts_soon, "segment.bytes": offset.configs["segment.bytes"]}
    assert status.partitions == -1
    assert int(offset.configs["segment.bytes"]) <= 64 << 20
    assert offset.replication_factor == 2


@pytest.mark.parametrize(("given", "other"), [("min", "max"), ("max", "min")])
def test_a_compaction_lag_that_is_given_alone_meets_no_default_that_kafka_would_refuse(given: str, other: str) -> None:
    topic = WorkerSettings.of({f"status.storage.{given}.compaction.lag.ms": "5"}).internal_topics[2]
    assert topic.configs[f"{given}.compaction.lag.ms"] == "5"
    assert f"{other}.compaction.lag.ms" not in topic.configs


@pytest.mark.parametrize(
    ("configs", "seconds"),
    [
        ({"delete.retention.ms": "86400000", "min.compaction.lag.ms": "900000"}, 450),
        ({"delete.retention.ms": "600000", "min.compaction.lag.ms": "900000"}, 300),
        ({"delete.retention.ms": "86400000", "min.compaction.lag.ms": "0"}, 3600),
        ({"delete.retention.ms": "0", "min.compaction.lag.ms": "900000"}, 0),
    ],
)
def test_how_long_a_reader_of_the_config_topic_may_be_away(configs: dict[str, str], seconds: float) -> None:
    assert absence_seconds(configs) == seconds


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("group.id", " ", "String must be non-empty"),
        ("connectors.allowed.paths", "data", "Each folder must be an absolute path"),
        ("bootstrap.servers", "kafka", "Invalid url in bootstrap.servers, expected host:port"),
        ("bootstrap.servers", "kafka:99999", "Invalid url in bootstrap.servers, expected host:port"),
        ("offset.flush.interval.ms", "soon", "Not a number of type LONG"),
        ("offset.flush.interval.ms", "1_000", "Not a number of type LONG"),
        ("status.storage.retry.backoff.multiplier", "inf", "Not a number of type DOUBLE"),
        ("offset.storage.partitions", "0", "Number of partitions must be positive, or -1 to use the broker's default"),
        ("status.storage.replication.factor", "40000", "Not a number of type SHORT"),
        ("status.storage.replication.factor", "0", "Replication factor must be positive"),
        ("exactly.once.source.support", "on", "String must be one of (case insensitive): DISABLED, PREPARING, ENABLED"),
        ("topic.tracking.enable", "yes", "Expected value to be either true or false"),
        ("batch.max.records", "0", "Value must be at least 1"),
        ("batch.max.duration.ms", "-1", "Value must be at least 1"),
        ("task.memory.max", "255m", "give a size such as 512m or 2g, from 256m to 1024g"),
        ("task.memory.max", "2 GB", "give a size such as 512m or 2g, from 256m to 1024g"),
        ("status.storage.retry.max.retries", "-1", "Value must be at least 0"),
        ("status.storage.retry.initial.backoff.ms", "10001", "Value must be no more than status.storage.retry.max.backoff.ms"),
        ("status.storage.retry.backoff.multiplier", "0.5", "Value must be at least 1"),
        ("status.storage.retry.backoff.multiplier", "NaN", "Value must be at least 1"),
        ("status.storage.retry.backoff.multiplier", "Infinity", "Value must be no more than"),
        ("status.storage.retry.jitter.factor", "1.5", "Value must be no more than 1"),
        ("status.storage.retry.jitter.factor", "-0.1", "Value must be at least 0"),
        ("cost.cpu.hour", "-0.01", "Value must be at least 0"),
        ("cost.task.hour", "NaN", "Value must be at least 0"),
        ("cost.gigabyte", "Infinity", "Value must be no more than 1e+09"),
        ("cost.currency", "Euros each", "Value must be a text of no more than 8 characters"),
        ("status.storage.topic", "connect-configs", "config.storage.topic names the same topic"),
        ("offset.storage.topic", "a:1", "Topic name is invalid: it contains one or more characters"),
    ],
)
def test_wrong_setting_is_refused_by_name_value_and_reason(name: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigException) as refused:
        WorkerSettings.of({name: value})
    assert name in str(refused.value)
    assert value.strip() in str(refused.value)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.storage.topic", "Must specify topic for connector configuration."),
        ("offset.storage.topic", "Offset storage topic must be specified"),
        ("status.storage.topic", "Must specify topic for connector status."),
    ],
)
def test_blank_topic_is_refused_in_connects_words(name: str, text: str) -> None:
    with pytest.raises(ConfigException, match=text):
        WorkerSettings.of({name: ""})


def test_every_wrong_setting_is_reported_at_once() -> None:
    with pytest.raises(ConfigException) as refused:
        WorkerSettings.of({"topic.tracking.enable": "1", "batch.max.records": "x"})
    assert len(refused.value.errors) == 2


def test_limits_of_the_retry_settings_are_allowed() -> None:
    retry = WorkerSettings.of(
        {
            "status.storage.retry.max.retries": "0",
            "status.storage.retry.initial.backoff.ms": "700",
            "status.storage.retry.max.backoff.ms": "700",
            "status.storage.retry.backoff.multiplier": "1",
            "status.storage.retry.jitter.factor": "0",
        }
    ).status_retry
    assert retry == StatusRetry(0, 700, 700, 1.0, 0.0)


def test_a_misspelt_setting_is_reported_once_with_the_name_it_may_have_meant(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_reader, "_checked_keys", set())
    mapping = {
        "bootstrap.server": "kafka:9092",
        "offset.flush.interval": "1",
        "batch.max.recrods": "5",
        "airflow.schedules": "@daily",
        "listeners": "http://:8083",
        "offset.storage.file.filename": "/tmp/x",
        "request.timeout.ms": "5",
        "producer.bootstrap.servers": "other:9092",
        "plugin.discovery": "only_scan",
        "schedule": "@daily",
    }
    for _ in range(2):
        WorkerSettings.of(mapping)
    assert sorted(record.getMessage() for record in caplog.records) == [
        "Nothing reads the worker setting 'airflow.schedules': did you mean 'airflow.schedule'?",
        "Nothing reads the worker setting 'batch.max.recrods': did you mean 'batch.max.records'?",
        "Nothing reads the worker setting 'bootstrap.server': did you mean 'bootstrap.servers'?",
        "Nothing reads the worker setting 'offset.flush.interval': did you mean 'offset.flush.interval.ms'?",
    ]


def test_worker_settings_may_hold_variables() -> None:
    given = {"bootstrap.servers": "${airflow:kafka:host}:9092", "plugin.path": "${airflow:never:asked}"}
    settings = WorkerSettings.of(given, {"${airflow:kafka:host}": "broker"})
    assert settings.bootstrap_servers == "broker:9092"
    assert settings.plugin_path == ("${airflow:never:asked}",)
    assert settings.originals == given


def test_settings_travel_by_pickle_and_hide_their_values_in_print() -> None:
    settings = WorkerSettings.of({"sasl.jaas.config": "canary", "value.converter.password": "canary"})
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "canary" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b=c", {"a": "b=c"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("  # no\n! no\n\na=1", {"a": "1"}),
        ("a=1,\\\n   2", {"a": "1,2"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e4\\t\\q", {"a": "ä\tq"}),
        ("a=1\r\na=2", {"a": "2"}),
        ("a=\u2028x", {"a": "\u2028x"}),
        ("a=1\\", {"a": "1"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=\\ud83d", {"a": "\ud83d"}),
        ("a=é", {"a": "é"}),
        (b"\xef\xbb\xbfa=\xc3\xa9", {"a": "é"}),
        (b"a=\xe9", {"a": "é"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str | bytes, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uD8zz", "\\u=1"])
def test_unicode_escape_needs_four_digits(text: str) -> None:
    with pytest.raises(ValueError, match=r"Malformed \\uxxxx encoding\."):
        parse_properties(text)
