"""The process that makes previews: an answer to each request, and no secret in an answer that is an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import consumer_group
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.worker.preview.process import _answer
from tests.conftest import WorkerSettings as MakeSettings
from tests.integration.worker.environment import make_topic, send

SECRET = "hunter2-of-the-host"
STRING = "org.apache.kafka.connect.storage.StringConverter"


def answered(settings: WorkerSettings, config: Mapping[str, str], secrets: Mapping[str, str]) -> Mapping[str, Any]:
    request = {"connector": "orders", "config": {"name": "orders", **config}, "records": 2, "seconds": 30.0, "timeout_seconds": 60.0}
    return _answer(settings, secrets)(request)


def test_a_file_is_previewed(settings: WorkerSettings, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\nthree\n")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": "lines", "value.converter": STRING}
    found = answered(settings, config, {})
    [task] = found["tasks"]
    assert (task["records"], task["end"]) == (2, "records")
    assert [record["value"] for record in found["records"]] == ["one", "two"]
    [topic] = found["topics"]
    assert (topic["topic"], topic["records"]) == ("lines", 2)


def test_a_sink_reads_a_share_of_each_partition_and_commits_nothing(settings: WorkerSettings, unique: str, tmp_path: Path) -> None:
    make_topic(settings.bootstrap_servers, unique, 2)
    send(settings.bootstrap_servers, unique, [f"line {number}" for number in range(6)], partitions=2)
    file = tmp_path / "out.txt"
    config = {"connector.class": "FileStreamSink", "file": str(file), "topics": unique, "value.converter": STRING, "tasks.max": "1"}
    for _ in range(2):  # the second one reads the same records
        found = answered(settings, config, {})
        [task] = found["tasks"]
        assert (task["records"], task["end"]) == (2, "records")
        assert task["partitions"] == [{"kafka_topic": unique, "kafka_partition": number, "kafka_offset": 0} for number in (0, 1)]
        assert sorted(record["value"] for record in found["records"]) == ["line 0", "line 1"]
    assert not file.exists()
    assert GroupOffsets(settings).committed(consumer_group("orders")) == {}


@pytest.mark.parametrize(
    ("text", "secrets"), [("${env:CANARY}", {}), (SECRET, {"airflow:shop:password": SECRET})], ids=["resolved", "given"]
)
def test_an_error_comes_without_secrets(
    worker_settings: MakeSettings, tmp_path: Path, text: str, secrets: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", SECRET)
    provider = {"config.providers": "env", "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}
    settings = WorkerSettings.of(worker_settings() | provider | {"config.providers.env.access..*": "CANARY"})
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "x"), "topic": "t", "batch.size": text}
    found = answered(settings, config, secrets)
    assert SECRET not in str(found)
    assert "Invalid value [hidden] for configuration batch.size" in str(found["error"])
    assert "Invalid value [hidden] for configuration batch.size" in str(found["errors"])


def test_a_sinks_records_are_shown_behind_each_transformation(settings: WorkerSettings, unique: str, tmp_path: Path) -> None:
    make_topic(settings.bootstrap_servers, unique, 1)
    send(settings.bootstrap_servers, unique, ["one", "two"])
    router = {"transforms.route.type": "RegexRouter", "transforms.route.regex": "(.*)", "transforms.route.replacement": "$1-routed"}
    drop = {"transforms.drop.type": "Filter", "transforms.drop.predicate": "routed", "transforms.drop.negate": "true"}
    named = {"predicates": "routed", "predicates.routed.type": "TopicNameMatches", "predicates.routed.pattern": ".*-routed"}
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": unique, "value.converter": STRING}
    found = answered(settings, config | {"transforms": "route,drop"} | router | drop | named, {})
    assert [(each["read"]["topic"], each["read"]["value"], each["read"]["offset"]) for each in found["steps"]] == [
        (unique, "one", 0),
        (unique, "two", 1),
    ]
    for each in found["steps"]:
        route, drop_of = each["transforms"]
        assert (route["alias"], route["outcome"], route["records"][0]["topic"]) == ("route", "applied", f"{unique}-routed")
        assert (drop_of["outcome"], drop_of["predicate"], drop_of["records"]) == ("skipped", "not routed", [])
    assert "steps" not in answered(settings, config, {})


def test_a_secret_that_a_transformation_inserts_is_hidden_in_each_step(
    worker_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", SECRET)
    provider = {"config.providers": "env", "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}
    settings = WorkerSettings.of(worker_settings() | provider | {"config.providers.env.access..*": "CANARY"})
    (tmp_path / "lines.txt").write_text("one\n")
    insert = {"transforms.by.type": "InsertHeader", "transforms.by.header": "by", "transforms.by.value.literal": "${env:CANARY}"}
    remove = {"transforms.no.type": "DropHeaders", "transforms.no.headers": "by"}
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": "lines", "value.converter": STRING}
    found = answered(settings, config | {"transforms": "by,no"} | insert | remove, {})
    assert SECRET not in str(found)
    [steps] = found["steps"]
    assert [step["records"][0]["headers"] for step in steps["transforms"]] == [[{"key": "by", "value": "[hidden]"}], []]
