"""Settings that nothing reads: named beside the answers to a validation and to a written config, by the command line, and in the logs of
runs."""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.connectors.jdbc.source.config import CONFIG_DEF
from airflow_provider_connect.errors import ConfigException, ConnectException, MissingException
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.server import RestListener, RestServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.connector_keys import names_of
from airflow_provider_connect.runtime.model.unknown_settings import misspellings, nearest, unknown_settings
from airflow_provider_connect.runtime.model.verbs import WARNINGS_HEADER
from airflow_provider_connect.runtime.model.views import Validation
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector, check_outside, warn_unused_settings
from airflow_provider_connect.runtime.worker.task.pipeline_setup import create_converters, create_stages
from airflow_provider_connect.runtime.worker.task.task_configs import PlanningContext, task_configs
from airflow_provider_connect.sdk.converter import RAW_HEADERS
from tests.unit.herder.conftest import MemoryBacking, NotedRuns
from tests.waiting import HANG_SECONDS

HOIST = "org.apache.kafka.connect.transforms.HoistField$Value"
IS_TOMBSTONE = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"
GOOD = {
    "connector.class": "FileStreamSource",
    "file": "/data/x",
    "topic": "t",
    "tasks.max": "1",
    "batch.max.records": "5",
    "airflow.schedule": "30s",
    "producer.override.linger.ms": "5",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "hoist",
    "transforms.hoist.type": HOIST,
    "transforms.hoist.field": "x",
    "transforms.hoist.predicate": "dead",
    "transforms.hoist.negate": "true",
    "predicates": "dead",
    "predicates.dead.type": IS_TOMBSTONE,
}
UNKNOWN = {
    "fiel": "Unknown setting 'fiel': did you mean 'file'?",
    "key.converter.schemas.enable": "The setting 'key.converter.schemas.enable' is not used: without 'key.converter' the worker's "
    "converter applies, with the worker's settings",
    "task.max": "Unknown setting 'task.max': did you mean 'tasks.max'?",
    "zzz": "Unknown setting 'zzz': nothing reads it",
}
OF_PLUGINS = {
    "predicates.dead.pattern": "Unknown setting 'predicates.dead.pattern': nothing reads it",
    "transforms.hoist.fields": "Unknown setting 'transforms.hoist.fields': did you mean 'transforms.hoist.field'?",
    "value.converter.schema.enable": "Unknown setting 'value.converter.schema.enable': did you mean 'value.converter.schemas.enable'?",
}


def given(*unknown: Mapping[str, str]) -> dict[str, str]:
    return GOOD | {key: "x" for keys in unknown for key in keys}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = WorkerSettings.of({"connectors.allowed.paths": "/data"})
    with PluginProbe(settings) as probe:
        herder = Herder(settings, NotedRuns(), probe=probe, backing=MemoryBacking(settings), worker_id="api:0")
        app = create_app(herder=lambda: herder, access=OpenToAll(), info=lambda: server_info(settings))
        with RestServer(app, RestListener.of({}, port=0)) as server:
            yield server.url


def validated(url: str, config: Mapping[str, str]) -> tuple[dict[str, Any], list[str] | None]:
    """The answer, and its warnings."""
    return answered(url, "PUT", "/connector-plugins/FileStreamSource/config/validate", {"name": "c", **config})


def answered(url: str, method: str, path: str, body: object) -> tuple[dict[str, Any], list[str] | None]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=HANG_SECONDS)
    try:
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        header = answer.getheader(WARNINGS_HEADER)
        return json.loads(answer.read()), None if header is None else json.loads(header)
    finally:
        connection.close()


def test_a_validation_names_what_nothing_reads_in_a_header(url: str) -> None:
    body, warnings = validated(url, given(UNKNOWN, OF_PLUGINS))
    everything = {**UNKNOWN, **OF_PLUGINS}
    assert warnings == [everything[key] for key in sorted(everything)]
    plain, none = validated(url, GOOD)
    assert none is None
    assert body == plain  # to the byte what Kafka Connect answers
    assert set(body) == {"name", "error_count", "groups", "configs"}


def test_a_written_config_names_what_nothing_reads_in_a_header(url: str) -> None:
    body, warnings = answered(url, "POST", "/connectors", {"name": "w", "config": {**GOOD, "fiel": "/x"}})
    assert (set(body), warnings) == ({"name", "config", "tasks", "type"}, [UNKNOWN["fiel"]])
    body, warnings = answered(url, "PUT", "/connectors/w/config", {**GOOD, "zzz": "x"})
    assert (set(body), warnings) == ({"name", "config", "tasks", "type"}, [UNKNOWN["zzz"]])
    body, warnings = answered(url, "PATCH", "/connectors/w/config", {"fiel": "/x"})
    assert (body["config"]["fiel"], warnings) == ("/x", [UNKNOWN["fiel"], UNKNOWN["zzz"]])
    assert answered(url, "PATCH", "/connectors/w/config", {"fiel": None, "zzz": None})[1] is None
    assert answered(url, "PUT", "/connectors/new/config", {**GOOD, "fiel": "/x"})[1] == [UNKNOWN["fiel"]]


def test_a_config_is_validated_once_to_be_written(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    validate = PluginProbe.validate

    def counted(self: PluginProbe, plugin: str | None, config: Mapping[str, str | None]) -> Validation:
        asked.append(config)
        return validate(self, plugin, config)

    monkeypatch.setattr(PluginProbe, "validate", counted)
    with ConnectClient(Server(url)) as client:
        assert list(client.create_connector("once", {**GOOD, "fiel": "/x"}).warnings) == [UNKNOWN["fiel"]]
        assert list(client.put_connector_config("once", {**GOOD, "zzz": "x"})[0].warnings) == [UNKNOWN["zzz"]]
        assert list(client.patch_connector_config("once", {"fiel": "/x"}).warnings) == [UNKNOWN["fiel"], UNKNOWN["zzz"]]
        assert client.put_connector_config("once", GOOD)[0].warnings == ()
    assert len(asked) == 4


MISSPELT = {"connector.class": "FileStreamSource", "file": "/data/x", "topik": "t", "key.converter.schemas.enable": "false"}
"""``topic`` is required; the converter's setting is no misspelt name."""
MISSING = 'Missing required configuration "topic" which has no default value.'
DID_YOU_MEAN = "Unknown setting 'topik': did you mean 'topic'?"


def test_a_refusal_names_unknown_settings_where_one_is_missing(url: str) -> None:
    with ConnectClient(Server(url)) as client:
        for refused in (client.create_connector, client.put_connector_config):
            with pytest.raises(ConnectException, match="1 error") as caught:
                refused("c", MISSPELT)
            lines = caught.value.message.splitlines()
            assert (lines[1], lines[-1], len(lines)) == (MISSING, DID_YOU_MEAN, 4)
        for config in ({**MISSPELT, "topic": "t", "tasks.max": "0"}, {key: text for key, text in MISSPELT.items() if key != "topik"}):
            with pytest.raises(ConnectException, match="1 error") as caught:
                client.create_connector("c", config)
            assert caught.value.message.endswith("/config/validate`")  # to the byte what Kafka Connect answers
        with pytest.raises(ConnectException, match="Unknown setting 'topcs': did you mean 'topics'"):
            client.create_connector("c", {"connector.class": "FileStreamSink", "file": "/data/x", "topcs": "t"})


def test_the_error_of_a_run_names_unknown_settings_where_one_is_missing() -> None:
    settings = WorkerSettings.of({"connectors.allowed.paths": "/data"})
    with pytest.raises(ConfigException) as caught:
        check_connector("c", {"name": "c", **MISSPELT, "zzz": "x"}, settings, {})
    assert caught.value.errors == [MISSING]
    assert caught.value.message.splitlines()[1:] == [MISSING, DID_YOU_MEAN, UNKNOWN["zzz"]]
    with pytest.raises(ConfigException) as caught:
        check_connector("c", {"name": "c", **MISSPELT, "topic": "t", "tasks.max": "0"}, settings, {})
    assert caught.value.message.splitlines()[1:] == caught.value.errors


@pytest.mark.parametrize(
    ("error", "is_missing"),
    [
        ('Missing required configuration "file" which has no default value.', True),
        ("Must configure one of topics or topics.regex", True),
        ("Invalid value null for configuration file: Set it.", True),
        ("Invalid value None for configuration file: Set it.", True),
        ("Invalid value  for configuration file: Set it.", True),
        ("Invalid value null for configuration topic, file: Set one.", True),
        ("Invalid value  for configuration topic: Set it.", False),  # it is given, and empty
        ("Invalid value 0 for configuration file: Set it.", False),
    ],
)
def test_unknown_settings_are_named_where_one_is_missing(error: str, is_missing: bool) -> None:
    assert misspellings([error], [UNKNOWN["fiel"]], {"topic", "fiel"}) == ([UNKNOWN["fiel"]] if is_missing else [])


SINK_WITHOUT_FILE = {"name": "c", "connector.class": "FileStreamSink", "topics": "t", "fiel": "/data/x"}
NO_FILE = "Invalid value null for configuration file: Without a file Kafka Connect writes to standard output"


@pytest.mark.parametrize("more", [{}, {"zzz": "x"}])
def test_a_run_that_lacks_an_optional_setting_names_unknown_settings(more: dict[str, str]) -> None:
    settings = WorkerSettings.of({"connectors.allowed.paths": "/data"})
    checked = check_connector("c", {**SINK_WITHOUT_FILE, **more}, settings, {})
    lines = [UNKNOWN[key] for key in ("fiel", *more)]
    with pytest.raises(MissingException, match=NO_FILE) as before_run:
        check_outside(checked)
    assert before_run.value.message.splitlines()[2:] == lines
    with pytest.raises(ConfigException, match=f"^{NO_FILE}") as at_start:
        task_configs(checked, cast(PlanningContext, None), settings)
    assert at_start.value.message.splitlines()[1:] == lines
    assert len(at_start.value.errors) == len(before_run.value.errors) == 1


def test_a_run_that_lacks_no_setting_names_no_unknown_settings() -> None:
    settings = WorkerSettings.of({"connectors.allowed.paths": "/data"})
    for config in ({**SINK_WITHOUT_FILE, "file": ""}, {key: text for key, text in SINK_WITHOUT_FILE.items() if key != "fiel"}):
        with pytest.raises(MissingException) as caught:
            check_outside(check_connector("c", config, settings, {}))
        assert len(caught.value.message.splitlines()) == 2


CONVERTER = {
    "transforms": "hoist,at",
    "transforms.at.type": "org.apache.kafka.connect.transforms.TimestampConverter$Value",
    "transforms.at.target.type": "Timestamp",
    "transforms.at.field": "x",
}


@pytest.mark.parametrize(("form", "is_named"), [("HH:mm:ss.SSSSSS", True), ("HH:mm:ss.SSS", False), ("'SSSSSS'", False), ("b", False)])
def test_a_validation_warns_of_microseconds_that_are_read_as_milliseconds(url: str, form: str, is_named: bool) -> None:
    _, warnings = validated(url, {**GOOD, **CONVERTER, "transforms.at.format": form})
    text = "".join(warnings or ())
    assert text.startswith("The setting 'transforms.at.format': S is a number of milliseconds") == is_named
    assert ("Use SSS" in text and "unix.precision" in text) == is_named


def test_a_run_warns_of_microseconds_that_are_read_as_milliseconds(caplog: pytest.LogCaptureFixture) -> None:
    config = {**GOOD, **CONVERTER, "name": "c", "transforms.at.format": "HH:mm:ss.SSSSSS"}
    create_stages(check_connector("c", config, WorkerSettings.of({"connectors.allowed.paths": "/data"}), {}), RAW_HEADERS)
    assert "Connector c: The setting 'transforms.at.format': S is a number of milliseconds" in caplog.text


def test_settings_of_a_stage_whose_class_is_wrong_are_not_unknown(url: str) -> None:
    body, warnings = validated(url, {**given({"fiel": ""}), "transforms.hoist.type": "Wrong", "value.converter": "Wrong"})
    assert body["error_count"] > 0
    assert warnings == [UNKNOWN["fiel"]]


def test_older_names_of_settings_are_known() -> None:
    older = {"table.whitelist": "a", "table.blacklist": "b"}
    assert unknown_settings([*older, "table.whitelst"], set(names_of(CONFIG_DEF))) == [
        "Unknown setting 'table.whitelst': did you mean 'table.whitelist'?"
    ]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("value.converter.schemas.enable", None),  # its beginning alone is no likeness
        ("value.converter.encodin", "value.converter.encoding"),
        ("transforms.a.tpye", "transforms.a.type"),
        ("transforms.aa.type", "transforms.a.type"),
        ("connection.urll", "connection.url"),
    ],
)
def test_the_settings_of_one_plugin_are_compared_with_each_other(name: str, near: str | None) -> None:
    known = ["value.converter", "value.converter.type", "value.converter.encoding", "transforms.a.type", "connection.url"]
    fix = "nothing reads it" if near is None else f"did you mean {near!r}?"
    assert unknown_settings([name, *known], known) == [f"Unknown setting {name!r}: {fix}"]


def test_many_unknown_settings_and_long_names_are_cut() -> None:
    warnings = unknown_settings([f"{number:03}{'x' * 10_000}" for number in range(50)], {"file"})
    assert len(warnings) == 21
    assert warnings[-1] == "and 30 more unknown settings"
    assert sum(map(len, warnings)) < 4000
    assert unknown_settings(["a\nb"], {"file"}) == ["Unknown setting 'a\\nb': nothing reads it"]
    assert nearest("fil" * 100_000, ["file"]) is None


def test_a_client_has_the_warnings(url: str) -> None:
    config = given(UNKNOWN)
    with ConnectClient(Server(url)) as client:
        assert list(client.validate("FileStreamSource", {"name": "c", **config}).warnings) == [UNKNOWN[key] for key in sorted(UNKNOWN)]
        assert client.validate("FileStreamSource", {"name": "c", **GOOD}).warnings == ()


def test_runs_log_what_nothing_reads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = WorkerSettings.of({"connectors.allowed.paths": str(tmp_path)})

    def logged(config: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """By the run's plan, and by a task."""
        checked = check_connector("c", {**config, "name": "c", "file": str(tmp_path / "x")}, settings, {})
        caplog.clear()
        warn_unused_settings(checked, settings)
        of_plan = [record.getMessage() for record in caplog.records]
        caplog.clear()
        create_converters(checked, settings)
        create_stages(checked, RAW_HEADERS)
        return of_plan, [record.getMessage() for record in caplog.records]

    with caplog.at_level(logging.WARNING):
        assert logged(GOOD) == ([], [])
        of_plan, of_task = logged(given(UNKNOWN, OF_PLUGINS))
    assert of_plan == [f"Connector c: {UNKNOWN[key]}" for key in sorted(UNKNOWN)]
    assert sorted(of_task) == sorted(f"Connector c: {text}" for text in OF_PLUGINS.values())


def test_what_a_connector_declares_by_its_validation_is_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = WorkerSettings.of({"connectors.allowed.paths": str(tmp_path)})
    config = {**given({"fiel": ""}), "name": "c", "file": str(tmp_path / "x")}
    known = check_connector("c", config, settings, {})
    object.__setattr__(known, "declared", known.declared | {"fiel"})
    warn_unused_settings(known, settings)
    assert caplog.records == []


def test_variables_without_a_value_are_named_with_the_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("path=x.txt\n")
    undeclared = WorkerSettings.of({"connectors.allowed.paths": str(tmp_path)})
    declared = WorkerSettings.of(
        {**undeclared.originals, "config.providers": "file", "config.providers.file.class": "FileConfigProvider"},
    )

    def logged(settings: WorkerSettings, key: str) -> list[str]:
        config = {**GOOD, "name": "c", "file": f"{tmp_path}/${{file:{secrets}:{key}}}"}
        caplog.clear()
        warn_unused_settings(check_connector("c", config, settings, {}), settings)
        return [record.getMessage().removeprefix("Connector c: file: ") for record in caplog.records]

    example = "config.providers=file and config.providers.file.class=FileConfigProvider"
    assert logged(declared, "path") == []
    assert logged(declared, "paht") == [
        f"${{file:{secrets}:paht}} is used as written: '{secrets}' has no 'paht' that the config provider 'file' may read"
    ]
    assert logged(undeclared, "path") == [
        f"${{file:{secrets}:path}} is used as written: no worker setting declares a config provider 'file', such as {example}"
    ]
