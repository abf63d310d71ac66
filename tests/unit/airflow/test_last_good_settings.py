"""A wrong worker setting stops nothing: what was good before stays in force, key by key, and reports name what is wrong and where."""

import json
import stat
from pathlib import Path

import pytest

from airflow_provider_connect.errors import WorkerSettingsException
from airflow_provider_connect.hooks.airflow_settings import (
    run_directory,
    section_schedule,
    settings_now,
    worker_settings,
    worker_variable_now,
)


def variable(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", value if isinstance(value, str) else json.dumps(value))


def test_a_bad_key_keeps_its_last_good_value_and_the_others_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    variable(monkeypatch, {"offset.flush.interval.ms": "1000", "topic.tracking.enable": "true"})
    worker_settings()
    variable(monkeypatch, {"offset.flush.interval.ms": "soon", "topic.tracking.enable": "false"})
    found = settings_now()
    assert (found.settings.offset_flush_interval_ms, found.settings.topic_tracking_enable) == (1000, False)
    assert found.settings.originals["offset.flush.interval.ms"] == "1000"  # what a run is handed
    (fault,) = found.faults
    assert (fault.key, fault.source, fault.in_force) == (
        "offset.flush.interval.ms",
        "Variable connect_worker_config",
        "its last good value",
    )
    assert fault.reason == "Invalid value soon for configuration offset.flush.interval.ms: Not a number of type LONG"


def test_a_bad_key_without_a_last_good_value_gives_way_to_the_next_lower_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CONNECT__OFFSET_FLUSH_INTERVAL_MS", "700")
    variable(monkeypatch, {"offset.flush.interval.ms": "-1", "offset.flush.timeout.ms": "no", "client.id": "mine"})
    found = settings_now()
    assert (found.settings.offset_flush_interval_ms, found.settings.offset_flush_timeout_ms, found.settings.client_id) == (
        700,
        5000,
        "mine",
    )
    assert [(fault.key, fault.in_force) for fault in found.faults] == [
        ("offset.flush.interval.ms", "the value of section [connect]"),
        ("offset.flush.timeout.ms", "the built-in default"),
    ]


@pytest.mark.parametrize("text", ['{"group.id": "mine",', "[1]", '"text"'])
def test_a_variable_that_is_no_json_object_keeps_its_last_good_content(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    variable(monkeypatch, {"offset.storage.topic": "my-offsets"})
    worker_settings()
    variable(monkeypatch, text)
    found = settings_now()
    assert found.settings.offset_topic == "my-offsets"
    assert "Variable connect_worker_config is not" in str(found.faults[0])
    variable(monkeypatch, {"offset.storage.topic": "other"})
    assert (settings_now().settings.offset_topic, list(settings_now().faults)) == ("other", [])


def test_an_extra_of_the_connection_that_is_no_json_keeps_the_last_good_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(extra: str) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_CONNECT_DEFAULT", json.dumps({"conn_type": "connect", "host": "kafka", "extra": extra}))

    connect('{"group.id": "mine"}')
    worker_settings()
    connect('{"group.id": ')
    found = settings_now()
    assert (found.settings.group_id, found.settings.bootstrap_servers) == ("mine", "kafka:9092")
    assert found.faults[0].source == "Connection connect_default"


def test_where_nothing_was_good_before_a_layer_that_cannot_be_read_asks_for_a_later_try(monkeypatch: pytest.MonkeyPatch) -> None:
    variable(monkeypatch, "{")
    with pytest.raises(WorkerSettingsException, match="Variable connect_worker_config is not JSON") as caught:
        worker_settings()
    assert caught.value.retriable


@pytest.mark.parametrize(("key", "good"), [("offset.storage.topic", "good"), ("group.id", "good"), ("bootstrap.servers", "good:1")])
def test_what_decides_where_the_state_lies_never_comes_from_a_lower_layer_instead(
    monkeypatch: pytest.MonkeyPatch, key: str, good: str
) -> None:
    variable(monkeypatch, {key: " "})
    with pytest.raises(WorkerSettingsException, match="Nothing can run"):
        worker_settings()
    variable(monkeypatch, {key: good})
    worker_settings()
    variable(monkeypatch, {key: " "})
    assert settings_now().settings.originals[key] == good


def test_a_variable_of_airflow_that_is_gone_is_reported_and_nothing_of_the_rest_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    variable(monkeypatch, {"client.id": "${variable:gone}", "offset.flush.interval.ms": "8"})
    found = settings_now()
    assert (found.settings.client_id, found.settings.offset_flush_interval_ms) == ("", 8)
    assert found.faults[0].key == "client.id"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("security.protocol", "FOO"),
        ("sasl.jaas.config", "garbage-jaas"),
        ("producer.batch.size", "x"),
        ("producer.compression.type", "zap"),
        ("ssl.truststore.location", "/nowhere.pem"),
    ],
)
def test_what_no_client_takes_keeps_what_was_good(monkeypatch: pytest.MonkeyPatch, key: str, value: str) -> None:
    good = {"client.id": "mine", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    good["sasl.jaas.config"] = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    variable(monkeypatch, good)
    assert list(settings_now().faults) == []
    variable(monkeypatch, {**good, "client.id": "other", key: value})
    found = settings_now()
    assert [fault.key for fault in found.faults] == [key]
    assert found.settings.originals.items() >= {**good, "client.id": "other"}.items()


def test_a_secret_is_not_shown_and_lies_in_a_private_file(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    variable(monkeypatch, {"client.id": "mine", "my.password": "canary-1"})
    worker_settings()
    variable(monkeypatch, {"my.password": ["canary-2", {"a": "canary-3"}], "ssl.keystore.password": {"x": [{"y": "canary-4"}]}})
    with caplog.at_level("WARNING"):
        faults = settings_now().faults
    assert {fault.key for fault in faults} == {"my.password", "ssl.keystore.password.x"}
    assert "canary" not in caplog.text + repr(faults)
    assert "my.password" in caplog.text
    (file,) = run_directory().glob("worker-settings-*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_fault_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    variable(monkeypatch, {"offset.flush.interval.ms": "once"})
    with caplog.at_level("WARNING"):
        for _ in range(3):
            worker_settings()
    assert caplog.text.count("Invalid value once") == 1


def test_a_properties_file_that_is_gone_keeps_what_it_held_for_dag_files_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("airflow.schedule=@hourly\ngroup.id=mine\n")
    monkeypatch.setenv("AIRFLOW__CONNECT__WORKER_PROPERTIES", str(file))
    assert (worker_settings().group_id, section_schedule()) == ("mine", "@hourly")
    file.unlink()
    assert (worker_settings().group_id, section_schedule()) == ("mine", "@hourly")


def test_the_retry_settings_survive_too(monkeypatch: pytest.MonkeyPatch) -> None:
    variable(monkeypatch, {"airflow.retries": "7"})
    worker_settings()
    variable(monkeypatch, "{")
    assert worker_variable_now() == {"airflow.retries": "7"}
