"""What a plugin that shows its secrets gets into the answers of a probe: nothing of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector, check_outside
from tests.canaries import NAME, Canaries, digests, install
from tests.final_failures import expect_hidden

CANARIES = Canaries()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerSettings:
    install(tmp_path)
    monkeypatch.setenv("CANARY_OF_TEST", CANARIES.of("env"))
    rule = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider", "config.providers.env.access..*": "CANARY.*"}
    return WorkerSettings.of({"plugin.path": str(tmp_path), **rule})


@pytest.fixture
def probe(settings: WorkerSettings) -> Iterator[PluginProbe]:
    with PluginProbe(settings) as probe:
        yield probe


def config(leak: str) -> dict[str, str]:
    url = f"jdbc:postgresql://me:{CANARIES.of('user')}@host/shop?ssl=true&password={CANARIES.of('parameter')}"
    values = {"opaque": CANARIES.of("typed"), "api.token": CANARIES.of("named"), "connection.url": url, "word.env": CANARIES.of("env")}
    given = {**values, "word.env": "${env:CANARY_OF_TEST}", "expected": digests(values), "leak": leak}
    return {"name": "c", "connector.class": NAME, "topic": "t", **given}


@pytest.mark.parametrize("leak", ["validation", "validate-raise", "log,validation", "die-in-validate-raise"])
def test_a_validation_shows_none(probe: PluginProbe, leak: str) -> None:
    try:
        shown = repr(probe.validate(NAME, config(leak)))
    except ConnectException as error:
        shown = repr((error.message, getattr(error, "errors", ())))
    assert "[hidden]" in shown
    expect_hidden(CANARIES.found_in(shown.encode()))


def test_a_validation_shows_what_the_worker_declares_public(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TOPIC": "orders", "BATCH": "20", "FOLDER": "canary"}.items():
        monkeypatch.setenv(name, value)
    env = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider", "config.providers.env.access..*": ".*"}
    config = {
        "name": "c",
        "connector.class": "FileStreamSink",
        "topics": "${env:TOPIC}",
        "tasks.max": "${env:BATCH}",
        "file": "/${env:FOLDER}",
    }
    with PluginProbe(WorkerSettings.of(env | {"config.providers.env.public.keys": "TOPIC|BATCH"})) as probe:
        found = {value.name: value for _, value in probe.validate("FileStreamSink", config).configs}
    assert {name: found[name].value for name in ("topics", "tasks.max", "file")} == {
        "topics": "orders",
        "tasks.max": "20",
        "file": config["file"],
    }
    assert [error for value in found.values() for error in value.errors if value.name in ("topics", "tasks.max")] == []


@pytest.mark.parametrize("leak", ["bad", "absent", "value"])
def test_a_refusal_of_offsets_shows_none(probe: PluginProbe, leak: str) -> None:
    with pytest.raises((ConnectException, NotImplementedError), match=r"\[hidden\]") as caught:
        probe.alter_offsets("c", config(leak), [({"x": 1}, {"y": 1})])
    expect_hidden(CANARIES.found_in(str(caught.value).encode()))


@pytest.mark.parametrize("leak", ["validation", "validate-raise", "check", "checking"])
def test_a_check_before_a_run_shows_none_and_reports_them_before_the_plugin_knows_them(settings: WorkerSettings, leak: str) -> None:
    hidden = Mask()
    with pytest.raises(ConnectException) as caught:
        check_outside(check_connector("c", config(leak), settings, {}, hide=hidden.add))
    error = caught.value
    shown = repr((error.message, error.errors if isinstance(error, ConfigException) else ()))
    assert "[hidden]" in shown
    expect_hidden(CANARIES.found_in(shown.encode()))
    for way in ("typed", "named", "parameter", "user", "env"):
        expect_hidden(CANARIES.found_in(hidden(f"it is {CANARIES.of(way)}!").encode()))
