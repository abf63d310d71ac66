"""The layers of the worker settings, from airflow.cfg to the Variable, and the secrets that a config names."""

import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.configuration import conf

from airflow_provider_connect.cli.settings import print_settings
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.hooks.airflow_settings import (
    airflow_secrets,
    default_properties,
    run_directory,
    settings_now,
    sources_above_file,
    worker_properties,
    worker_settings,
    worker_variable,
)
from airflow_provider_connect.runtime.config.client_settings import client_config


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", '{"group.id": "from-variable"}')
    return monkeypatch


def connection(monkeypatch: pytest.MonkeyPatch, conn_id: str = "connect_default", **fields: object) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "connect", **fields}))


def test_without_any_layer_the_built_in_settings_hold() -> None:
    assert worker_properties() == default_properties()
    assert worker_settings().group_id == "connect"


def test_connectors_reach_one_folder_below_airflows_home_unless_a_layer_names_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", "/srv/airflow")
    assert worker_settings().allowed_paths.folders == ("/srv/airflow/connect-data",)
    monkeypatch.setenv("AIRFLOW__CONNECT__CONNECTORS_ALLOWED_PATHS", "/data, /mnt/shared")
    assert worker_settings().allowed_paths.folders == ("/data", "/mnt/shared")


def test_the_section_takes_underscores_for_full_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CONNECT__BOOTSTRAP_SERVERS", "kafka:9092")
    monkeypatch.setenv("AIRFLOW__CONNECT__OFFSET_STORAGE_PARTITIONS", "7")
    monkeypatch.setenv("AIRFLOW__CONNECT__SPARK_CONN_ID", "spark_other")
    assert worker_properties() == default_properties() | {"bootstrap.servers": "kafka:9092", "offset.storage.partitions": "7"}


def test_the_settings_command_names_the_source_of_each_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("client.id=x\n")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")  # as the command sets it, for this test alone
    monkeypatch.setenv("AIRFLOW__CONNECT__WORKER_PROPERTIES", str(file))
    monkeypatch.setenv("AIRFLOW__CONNECT__CONNECT_CONN_ID", "shop_kafka")
    monkeypatch.setenv("AIRFLOW__CONNECT__OFFSET_STORAGE_PARTITIONS", "7")
    connection(monkeypatch, "shop_kafka", host="kafka")
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", '{"group.id": "from-variable"}')
    conf.read_dict({"connect": {"status.storage.partitions": "3", "offset_storage_partitions": "5"}})
    try:
        print_settings(SimpleNamespace(output="json"))
    finally:
        conf.remove_section("connect")
    assert {key: each["from"] for key, each in json.loads(capsys.readouterr().out).items()} == {
        "bootstrap.servers": "Connection shop_kafka",
        "client.id": str(file),
        "connectors.allowed.paths": "default",
        "group.id": "Variable connect_worker_config",
        "offset.storage.partitions": "environment variable AIRFLOW__CONNECT__OFFSET_STORAGE_PARTITIONS",
        "status.storage.partitions": "airflow.cfg [connect]",
    }


def test_a_worker_properties_file_lies_below_the_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("group.id=from-file\nbootstrap.servers=file:1\n")
    monkeypatch.setenv("AIRFLOW__CONNECT__WORKER_PROPERTIES", str(file))
    monkeypatch.setenv("AIRFLOW__CONNECT__BOOTSTRAP_SERVERS", "section:2")
    assert worker_properties() == default_properties() | {"group.id": "from-file", "bootstrap.servers": "section:2"}


def test_a_missing_worker_properties_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CONNECT__WORKER_PROPERTIES", "/nowhere/worker.properties")
    with pytest.raises(ConfigException, match=r"worker_properties of section \[connect\] names /nowhere/worker\.properties"):
        worker_properties()


def test_the_variable_wins_over_the_connection_and_that_over_the_section(variable: pytest.MonkeyPatch) -> None:
    variable.setenv("AIRFLOW__CONNECT__GROUP_ID", "from-section")
    variable.setenv("AIRFLOW__CONNECT__CLIENT_ID", "from-section")
    variable.setenv("AIRFLOW__CONNECT__BOOTSTRAP_SERVERS", "section:1")
    connection(variable, host="connection", port=2, extra={"group.id": "from-connection", "client.id": "from-connection"})
    assert worker_properties() == default_properties() | {
        "group.id": "from-variable",
        "client.id": "from-connection",
        "bootstrap.servers": "connection:2",
    }


def test_the_sources_above_file_a_setting_are_named_from_the_highest(variable: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("client.id=from-file\nbootstrap.servers=file:1\n")
    variable.setenv("AIRFLOW__CONNECT__WORKER_PROPERTIES", str(file))
    variable.setenv("AIRFLOW__CONNECT__GROUP_ID", "from-section")
    variable.setenv("AIRFLOW__CONNECT__CONNECT_CONN_ID", "kafka_prod")
    connection(variable, "kafka_prod", host="kafka")
    assert sources_above_file("group.id") == ["Variable connect_worker_config", "section [connect]"]
    assert sources_above_file("bootstrap.servers") == ["Connection kafka_prod"]
    assert sources_above_file("client.id") == []


@pytest.mark.parametrize(
    ("host", "port", "servers"),
    [
        ("a", None, "a:9092"),
        ("a", 9093, "a:9093"),
        ("a:1,b:2", None, "a:1,b:2"),
        ("a, b:2", 3, "a:3,b:2"),
        ("[::1]:9092", None, "[::1]:9092"),
    ],
)
def test_hosts_of_a_connection(monkeypatch: pytest.MonkeyPatch, host: str, port: int | None, servers: str) -> None:
    connection(monkeypatch, host=host, port=port)
    assert worker_properties() == default_properties() | {"bootstrap.servers": servers}


def test_credentials_of_a_connection_reach_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, host="k", login="me", password='pa"ss\\word', extra={"sasl.mechanism": "SCRAM-SHA-512", "ssl.keystore": ""})
    settings = worker_settings()
    for kind in ("producer", "consumer", "admin"):
        config = client_config(settings, kind)
        assert (config["sasl.username"], config["sasl.password"]) == ("me", 'pa"ss\\word')
        assert (config["sasl.mechanism"], config["security.protocol"]) == ("SCRAM-SHA-512", "SASL_SSL")


def test_a_connection_asked_for_by_name_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CONNECT__CONNECT_CONN_ID", "kafka_prod")
    with pytest.raises(ConfigException, match=r"Connection kafka_prod does not exist.*connect_conn_id"):
        worker_properties()


def test_the_variable_may_nest_names_and_hold_numbers_flags_and_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {
        "status": {"storage": {"retry.max.retries": 9}},
        "topic.creation.enable": False,
        "plugin.path": ["/a", "/b"],
        "client.id": None,
    }
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", json.dumps(value))
    assert worker_variable() == {"status.storage.retry.max.retries": "9", "topic.creation.enable": "false", "plugin.path": "/a,/b"}


@pytest.mark.parametrize(
    ("text", "what"), [("{nonsense", "is not JSON"), ("[1]", "is not a JSON object but list"), ('"x"', "is not a JSON object but str")]
)
def test_a_variable_that_is_no_json_object_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str, what: str) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", text)
    with pytest.raises(ConfigException, match=f"Variable connect_worker_config {what}.*write an object such as"):
        worker_settings()


def test_bad_values_are_reported_by_key_and_reason_and_the_defaults_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"status.storage.retry": {"initial.backoff.ms": 20000, "max.backoff.ms": 10}}
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", json.dumps(value))
    found = settings_now()
    assert (found.settings.status_retry.initial_backoff_ms, found.settings.status_retry.max_backoff_ms) == (300, 10_000)
    prefix = "status.storage.retry."
    assert [fault.key for fault in found.faults] == [prefix + "initial.backoff.ms", prefix + "max.backoff.ms"]
    assert found.faults[0].reason.startswith(
        f"Invalid value 20000 for configuration {prefix}initial.backoff.ms: Value must be no more than"
    )


def test_only_the_secrets_that_a_config_names_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, "shop", host="db", login="me", password="pw", extra={"role": "reader", "limits": {"rows": 3}})
    monkeypatch.setenv("AIRFLOW_VAR_TABLE", "orders")
    config = {
        "a": "${airflow:shop:password}",
        "b": "x${airflow:shop:role}${variable:table}",
        "c": "${env:HOME}",
        "d": "${airflow:shop:limits}",
        "plain": "y",
    }
    assert airflow_secrets(config) == {
        "${airflow:shop:password}": "pw",
        "${airflow:shop:role}": "reader",
        "${variable:table}": "orders",
        "${airflow:shop:limits}": '{"rows": 3}',
    }


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("${airflow:nowhere:password}", "no Connection nowhere: create it"),
        ("${airflow:shop:colour}", "Connection shop has no 'colour'; there are uri, host, login"),
        ("${variable:nothing}", "no Variable nothing: create it"),
    ],
)
def test_a_secret_that_airflow_does_not_have_is_named_with_its_key(monkeypatch: pytest.MonkeyPatch, variable: str, message: str) -> None:
    connection(monkeypatch, "shop", host="db")
    with pytest.raises(ConfigException, match=f"for configuration db.secret: .*{message}"):
        airflow_secrets({"db.secret": variable})


def test_secrets_of_the_worker_settings_are_resolved_and_stay_raw_in_the_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_GROUP", "g1")
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", '{"group.id": "${variable:group}"}')
    settings = worker_settings()
    assert (settings.group_id, settings.originals["group.id"]) == ("g1", "${variable:group}")


def test_the_run_directory_is_private(run_base: Path) -> None:
    assert run_directory() == run_base
    assert stat.S_IMODE(os.stat(run_base).st_mode) == 0o700


def test_a_run_directory_that_others_may_read_is_refused(run_base: Path) -> None:
    run_base.mkdir(mode=0o755)
    run_base.chmod(0o755)
    with pytest.raises(ConfigException, match="mode 0700, for it holds secrets"):
        run_directory()


def test_a_run_directory_behind_a_link_is_refused(run_base: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    run_base.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigException, match="mode 0700"):
        run_directory()
