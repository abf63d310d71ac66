"""Settings that configs bring along from other connectors are named with what to do, not with a name that only looks alike."""

from __future__ import annotations

import pytest

from airflow_provider_connect.connectors.filesystem.settings import CONFIG_DEF as FILES
from airflow_provider_connect.connectors.jdbc.sink.settings import CONFIG_DEF as JDBC_SINK
from airflow_provider_connect.connectors.jdbc.source.config import CONFIG_DEF as JDBC_SOURCE
from airflow_provider_connect.connectors.lake.iceberg_settings import CONFIG_DEF as ICEBERG
from airflow_provider_connect.runtime.model.unknown_settings import foreign_setting, misspellings, unknown_settings


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("storage.class", "url, or the name of the bucket, chooses the store"),
        ("s3.part.size", "remove it"),
        ("confluent.topic.replication.factor", "no license is needed"),
        ("s3.credentials.provider.sts.role.arn", "set aws.access.key.id and aws.secret.access.key"),
        ("gcs.credentials.path", "set gcs.credentials.json to what it holds"),
        ("hive.metastore.uris", "MSCK REPAIR TABLE"),
        ("reporter.error.topic.name", "errors.deadletterqueue.topic.name"),
        ("iceberg.control.commit.interval-ms", "offset.flush.interval.ms"),
        ("input.data.format", "set value.converter"),
    ],
)
def test_a_setting_of_another_connector_has_its_own_advice(name: str, advice: str) -> None:
    (warning,) = unknown_settings([name], {*FILES.keys, *ICEBERG.keys})
    assert warning.startswith(f"The setting {name!r} has no effect here: ")
    assert advice in warning
    assert misspellings(["Missing required configuration x"], [warning], []) == []


def test_the_schedule_takes_the_place_of_an_interval_of_polls() -> None:
    (warning,) = unknown_settings(["poll.interval.ms"], set(JDBC_SOURCE.keys))
    assert "runs poll by the schedule: set airflow.schedule, such as */5 * * * *" in warning


@pytest.mark.parametrize(("name", "near"), [("schemas.enable", "value.converter.schemas.enable"), ("converter", "value.converter")])
def test_the_end_of_a_setting_stands_for_it(name: str, near: str) -> None:
    known = {"key.converter.schemas.enable", "value.converter.schemas.enable", "key.converter", "value.converter", "schema.registry"}
    assert unknown_settings([name], known) == [f"Unknown setting {name!r}: did you mean {near!r}?"]


@pytest.mark.parametrize("name", ["connection.javax.something", "format.of.class", "s3.proxies"])
def test_a_few_shared_words_are_no_likeness(name: str) -> None:
    assert unknown_settings([name], {*FILES.keys, *JDBC_SINK.keys}) == [f"Unknown setting {name!r}: nothing reads it"]


@pytest.mark.parametrize(
    ("name", "near"), [("table.witelist", "table.whitelist"), ("connection.username", "connection.user"), ("insert.modus", "insert.mode")]
)
def test_a_misspelt_one_has_the_right_one(name: str, near: str) -> None:
    known = {*JDBC_SINK.keys, "table.whitelist"}
    assert unknown_settings([name], known) == [f"Unknown setting {name!r}: did you mean {near!r}?"]


def test_settings_of_connect_have_no_such_advice() -> None:
    for name in ("tasks.max", "topics", "errors.tolerance", "key.converter", "transforms"):
        assert foreign_setting(name) is None
