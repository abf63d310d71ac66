"""``airflow connect import`` of what strangers have written: files, and a server's answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from airflow_provider_connect import __version__
from airflow_provider_connect.cli import imports
from airflow_provider_connect.cli.imports import Found, _let_stay, _of_file, _of_server, _write_dag, verdict_of
from airflow_provider_connect.cli.printing import visible
from airflow_provider_connect.client.conversation import RetryLimits, ServerException
from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.hooks.airflow_settings import worker_settings
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.config.worker_settings import JSON_CONVERTER, SIMPLE_HEADER_CONVERTER, WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.views import PluginView

RESOURCE = "kind: KafkaConnector\nmetadata: {name: lines}\nspec:\n  class: FileStreamSource\n  config:\n"


def resource(tmp_path: Path, config: str) -> Found:
    file = tmp_path / "connectors.yaml"
    file.write_text(config if config.startswith("a:") else RESOURCE + config)
    (found,) = _of_file(file)
    return found


def no_definitions(plugin: str, version: str | None) -> list[object]:
    return []


def written(tmp_path: Path, name: str, config: Mapping[str, str], secrets: Secrets | None = None) -> tuple[str, Mapping[str, str], str]:
    """What a DAG file calls ConnectorDag with, and what the command prints."""
    (tmp_path / "dags").mkdir(exist_ok=True)
    before = set((tmp_path / "dags").iterdir())
    shown = _write_dag(Found(name, dict(config)), tmp_path / "dags", "http://there", secrets or Secrets(no_definitions))  # type: ignore[arg-type]
    (file,) = set((tmp_path / "dags").iterdir()) - before
    calls: list[tuple[str, Mapping[str, str]]] = []
    text = file.read_text(encoding="utf-8")
    exec(text.replace("from airflow_provider_connect import ConnectorDag", ""), {"ConnectorDag": lambda *given: calls.append(given)})
    ((given, values),) = calls
    return given, values, shown


@pytest.mark.parametrize(
    "value", ["@geheim", '"geheim', "!!python/object:os.system geheim", "!geheim x", "*geheim", "&geheim &b c", "%geheim"]
)
def test_a_file_that_is_no_yaml_is_refused_by_its_line_without_its_text(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigException, match=r"cannot be read as YAML .*line") as found:
        resource(tmp_path, f"    database.password: {value}\n")
    assert "geheim" not in str(found.value)


def test_values_of_yaml_are_the_texts_that_stand_there(tmp_path: Path) -> None:
    found = resource(tmp_path, "    a: 2020-01-01\n    b: 1.10\n    c: 12:30:00\n    d: yes\n    e:\n    f: 010\n    1: x\n")
    wanted = {"a": "2020-01-01", "b": "1.10", "c": "12:30:00", "d": "true", "f": "010", "1": "x"}
    assert found.problem is None
    assert found.config == {**wanted, "connector.class": "FileStreamSource", "name": "lines"}


@pytest.mark.parametrize("value", ["[a]", "{a: b}", "!!binary aGVsbG8=", "!!set {a}", "&a [*a]", '"\\ud800"', "!!timestamp 2020-01-01"])
def test_a_connector_whose_values_are_no_texts_cannot_run(tmp_path: Path, value: str) -> None:
    found = resource(tmp_path, f"    topic: {value}\n")
    assert found.problem is not None
    assert "topic" in found.problem


def test_aliases_and_levels_without_end_are_refused(tmp_path: Path) -> None:
    """Ten lines that stand for 10^9 values, by lists and by merged mappings."""
    lists = "a: &l0 [x]\n" + "".join(f"b{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 10))
    merged = "a: &l0 {x: y}\n" + "".join(f"b{n}: &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 10)}]}}\n" for n in range(1, 10))
    for text in (lists, merged, "a: " + "[" * 3000):
        with pytest.raises(ConfigException, match="cannot be read as YAML"):
            resource(tmp_path, text)


@pytest.mark.parametrize("head", ["metadata: x", "metadata: [a]", "metadata: {name: [a]}", "metadata: {name: x}\nspec: [a]"])
def test_a_resource_of_another_form_is_refused(tmp_path: Path, head: str) -> None:
    (tmp_path / "a.yaml").write_text(f"kind: KafkaConnector\n{head}\n")
    with pytest.raises(ConfigException, match=r"metadata\.name"):
        list(_of_file(tmp_path / "a.yaml"))


def test_a_dag_file_has_the_config_to_the_character(tmp_path: Path) -> None:
    config = {"topic": "a\U0001f600b", "text": '"""\\ \u2028 \u202e {{ x }}\n', "k\U0001f600": "\x7f"}
    name, found, _ = written(tmp_path, "lines \U0001f600", config)
    assert (name, found) == ("lines \U0001f600", config)


def test_no_two_secrets_have_one_variable(tmp_path: Path) -> None:
    variables = []
    for name in ("a.b", "a-b", "a_b", "a", "Ünï"):
        _, found, _ = written(tmp_path, name, {"b.password": "1", "b_password": "2", "b-password": "3"})
        variables += list(found.values())
    assert all(value.startswith("${variable:") for value in variables)
    assert len(set(variables)) == 15


def test_a_key_steers_no_terminal_and_is_no_line_of_a_shell(tmp_path: Path) -> None:
    _, _, shown = written(tmp_path, "lines", {"k\n rm -rf /\x1b[2J.password": "geheim"})
    assert shown.count("\n") == 1
    assert "\x1b" not in shown
    assert visible("a\x1b[2J\r\x9b\ud800b\n\tc") == "a�[2J���b\n\tc"


def test_while_a_plugin_does_not_answer_its_settings_are_not_written(tmp_path: Path) -> None:
    def silent(plugin: str, version: str | None) -> list[object]:
        raise ConnectException("away")

    _, found, _ = written(
        tmp_path,
        "lines",
        {"connector.class": "Own", "tasks.max": "1", "lock": "geheim"},
        Secrets(silent, hides_unknown=True),  # type: ignore[arg-type]
    )
    assert found["lock"].startswith("${variable:")
    assert found["tasks.max"] == "1"


FILE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
S3 = "io.confluent.connect.s3.S3SinkConnector"
INSTALLED = [
    PluginView(FILE, "source", __version__),
    PluginView(FILE, "source", "4.3.1", "file"),
    PluginView(POSTGRES, "source", "3.6.0.Final", "debezium"),
    PluginView(S3, "sink", "10.5.0", "s3"),
    PluginView("org.example.Own", "sink", "1.2", None),
]


@pytest.mark.parametrize(
    ("config", "verdict"),
    [
        ({"connector.class": FILE}, "runs"),
        ({"connector.class": "FileStreamSource"}, "runs"),
        ({"connector.class": FILE, "connector.plugin.version": "[4,)"}, "runs in Java"),
        ({"connector.class": "FileStreamSource", "connector.plugin.version": "4.3.1"}, "runs in Java"),
        ({"connector.class": FILE, "connector.plugin.version": __version__}, "runs"),
        ({"connector.class": FILE, "connector.plugin.location": "file"}, "runs in Java"),
        ({"connector.class": POSTGRES}, "runs in Java"),
        ({"connector.class": "Postgres"}, "runs in Java"),
        ({"connector.class": S3}, "runs"),  # an alias of ours
        ({"connector.class": S3, "connector.plugin.version": "10.5.0"}, "runs in Java"),
        ({"connector.class": "Own"}, "runs"),
    ],
)
def test_which_plugin_runs_a_connector_is_shown(config: dict[str, str], verdict: str) -> None:
    assert verdict_of(config, None, [], INSTALLED) == (verdict, None)
    assert verdict_of(config, None, ["a", "b"], INSTALLED) == (f"{verdict}, 2 warnings", None)


def test_a_connector_without_its_plugin_has_the_command_that_installs_it() -> None:
    missing = "Failed to find any class that implements Connector and which name matches x, available connectors are: …"
    known = verdict_of({"connector.class": "io.debezium.connector.mysql.MySqlConnector"}, missing, [], INSTALLED)
    assert known[0] == "needs a plugin"
    assert "airflow connect plugins install maven:io.debezium:debezium-connector-mysql:3.6.1.Final" in str(known[1])
    other = verdict_of({"connector.class": "org.example.Other"}, missing, [], INSTALLED)
    assert other[0] == "needs a plugin"
    assert "maven:GROUP:ARTIFACT:VERSION, or an archive" in str(other[1])
    assert verdict_of({"connector.class": FILE}, "no file", [], INSTALLED) == ("cannot run", "no file")


def test_a_source_whose_runs_must_stay_gets_its_schedule_unless_it_has_one() -> None:
    db2 = {"connector.class": "io.debezium.connector.db2.Db2Connector"}
    found = Found("c", dict(db2))
    _let_stay(found)
    assert found.config == {**db2, "airflow.schedule": "@continuous"}
    assert "airflow.schedule=@continuous is added: Debezium's sources read in threads of their own" in found.warnings[0]
    for config in ({**db2, "airflow.schedule": "5m"}, {"connector.class": FILE}):
        other = Found("c", dict(config))
        _let_stay(other)
        assert (other.config, other.warnings) == (config, [])


def test_a_version_of_kafkas_own_that_is_not_installed_has_the_command_and_the_way_without_it() -> None:
    problem = f"connector.class: Plugin {FILE} not found that matches the version range [4.3.1,4.3.1], available versions: [0.1.0]"
    config = {"connector.class": FILE, "connector.plugin.version": "4.3.1"}
    verdict, reason = verdict_of(config, problem, [], [INSTALLED[0]])
    assert verdict == "needs a plugin"
    assert "maven:org.apache.kafka:connect-file:4.3.1 (or that version)" in str(reason)
    assert "or leave connector.plugin.version out" in str(reason)
    assert verdict_of(config, problem, [], INSTALLED) == ("cannot run", problem), "another version of the plugin is there"


@pytest.mark.parametrize("name", ["", "x" * 300, "\x00", "a.b$c"])
def test_hostile_classes_and_kinds_that_are_not_known_have_a_verdict(name: str) -> None:
    odd = [PluginView("a.B", "other", None), PluginView("\x00", "source", "1", "x"), *INSTALLED]
    assert verdict_of({"connector.class": name, "connector.plugin.version": "(["}, None, [], odd)[0] in ("runs", "runs in Java")
    assert verdict_of({}, None, [], odd)[0] == "runs"


def answering(body: str) -> ConnectClient:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=body.encode(), headers={"content-type": "application/json"})

    return ConnectClient(Server.of("http://there"), retry=RetryLimits(seconds=0), transport=httpx.MockTransport(answer))


def test_a_server_whose_answer_is_too_deep_is_no_kafka_connect() -> None:
    with answering("[" * 100_000) as there, pytest.raises(ServerException):
        list(_of_server(there))


def test_values_of_a_server_that_are_no_texts_leave_the_other_connectors(tmp_path: Path) -> None:
    body = (
        '{"a": {"info": {"name": "a", "config": {"x": 1, "y": null}, "tasks": [], "type": "source"}},'
        ' "b": {"info": {"name": "b", "config": {"x": "\\ud800"}, "tasks": [], "type": "source"}},'
        ' "c": {"info": {"name": "c", "config": {"x": "1", "y": null}, "tasks": [], "type": "source"}}}'
    )
    with answering(body) as there:
        a, b, c = _of_server(there)
    assert a.problem is not None
    assert b.problem is not None
    assert (c.problem, c.config) == (None, {"x": "1"})


@pytest.mark.parametrize("key", ["group.id", "bootstrap.servers"])
def test_a_refused_takeover_names_the_sources_of_the_other_setting(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"extra": {"group.id": "other"}} if key == "group.id" else {}
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT_DEFAULT", json.dumps({"conn_type": "connect", "host": "here", **extra}))
    here: Any = Herder.__new__(Herder)
    here.settings = worker_settings()
    there = WorkerSettings.of({"bootstrap.servers": "there:9092", "group.id": "connect"})
    monkeypatch.setattr(imports, "ConfigStore", ConfigTopic)
    with pytest.raises(ConfigException, match=f"set {key} in no other source: now it is set in Connection connect_default$"):
        imports._is_here(there, ConfigTopic(there).topic_id(), here, must=True)


def test_a_refused_takeover_names_no_source_for_a_default() -> None:
    with pytest.raises(ConfigException, match=r"set group\.id in no other source$"):
        imports._is_here(WorkerSettings.of({"group.id": "there"}), "id", own({}), must=True)


STRING, JSON, AVRO = "org.apache.kafka.connect.storage.StringConverter", JSON_CONVERTER, "io.confluent.connect.avro.AvroConverter"
WORKER = {
    "group.id": "there",
    "key.converter": STRING,
    "value.converter": AVRO,
    "value.converter.basic.auth.user.info": "me:geheim",
    "internal.value.converter": JSON,
}


def own(properties: Mapping[str, str]) -> Any:
    """The herder of an Airflow with these worker settings."""
    here: Any = Herder.__new__(Herder)
    here.settings = WorkerSettings.of(properties)
    return here


@pytest.mark.parametrize(
    ("config", "here", "expected", "warning"),
    [
        (
            {"value.converter.schemas.enable": "false"},  # Kafka Connect ignores it without value.converter
            own({}),
            {"key.converter": STRING, "value.converter": AVRO, "value.converter.basic.auth.user.info": "me:geheim"},
            "key.converter and value.converter: added, because",
        ),
        ({"value.converter": JSON}, own({}), {"key.converter": STRING, "value.converter": JSON}, "key.converter: added, because"),
        ({"value.converter": JSON}, own({"key.converter": STRING}), {"value.converter": JSON}, None),
        (
            {"value.converter": JSON},
            own({"key.converter": STRING, "key.converter.encoding": "UTF-16"}),
            {"key.converter": STRING, "value.converter": JSON},
            "key.converter: added",
        ),
        (
            {"value.converter": JSON},
            object(),
            {"key.converter": STRING, "value.converter": JSON},
            "key.converter: added",
        ),  # a server's are unknown
        (
            {"key.converter": STRING, "value.converter": JSON},
            own({"header.converter": STRING}),
            {"key.converter": STRING, "value.converter": JSON, "header.converter": SIMPLE_HEADER_CONVERTER},
            "header.converter: added, because",
        ),
    ],
)
def test_converters_of_a_worker_file_are_carried_over_where_they_differ(
    config: dict[str, str], here: Any, expected: dict[str, str], warning: str | None
) -> None:
    found = Found("lines", {"connector.class": "FileStreamSink", **config})
    imports._carry_converters(found, WORKER, here)
    assert found.config == {"connector.class": "FileStreamSink", **expected}
    assert [text.startswith(warning or "nothing") for text in found.warnings] == ([] if warning is None else [True])
    assert {key: value for key, value in {**config, **found.carried}.items() if value is not None} == expected
    assert "geheim" not in "".join(found.warnings)


def test_missing_converters_are_warned_of_with_those_that_apply_here() -> None:
    found = Found("lines", {"connector.class": "FileStreamSink", "key.converter": STRING})
    imports._name_converters(found, own({}))
    (warning,) = found.warnings
    assert warning.startswith("value.converter: not in the config, so the other worker's apply there")
    assert f"this worker's here ({JSON})" in warning
    assert "as the other worker's properties file has them" in warning


class ConfigTopic:
    """The config topic of the brokers that ``settings`` name, which alone decide its id."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def topic_id(self) -> str:
        return self._settings.bootstrap_servers
