"""The recorded definitions and validations of Kafka's file connectors and of MirrorMaker, asked of the Java plugins: the answers of a real
Connect 4.3.1."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from tests.conftest import CACHE
from tests.contract import test_plugin_probe_golden as recorded
from tests.contract.plugin_versions import PLACEHOLDERS
from tests.java_plugins import FILE, copied_mirror, installed_plugins

CLASSES = [
    *(f"org.apache.kafka.connect.file.FileStream{kind}Connector" for kind in ("Source", "Sink")),
    *(f"org.apache.kafka.connect.mirror.Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat")),
]
VERSION = "4.3.1"


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginProbe]:
    """Of a worker like the recorded one, whose default range for these connectors is the Java plugins'."""
    plugins = tmp_path_factory.mktemp("plugins")
    shutil.copytree(installed_plugins(CACHE) / FILE, plugins / FILE)
    copied_mirror(CACHE, plugins)
    about = {"exactly.once.source.support": "disabled", "group.id": "restdiff", "plugin.probe.timeout.ms": "300000"}
    java = {"plugin.path": str(plugins), "java.allowed.locations": str(plugins)}
    with PluginProbe(WorkerSettings.of({**about, **java, **{f"version_ranges.{name}": VERSION for name in CLASSES}})) as opened:
        yield opened


def steps() -> Iterator[Any]:
    for found in recorded.steps():
        profile, kind, step = found.values
        asked = json.dumps([step["path"], step.get("json")])
        if profile == "default" and any(word in asked for word in ("FileStream", "MirrorSource", "MirrorCheckpoint", "MirrorHeartbeat")):
            path = f"{step['path']}?version={VERSION}" if kind == "config" and "?" not in step["path"] else step["path"]
            yield pytest.param(kind, {**step, "path": path}, id=found.id)


@pytest.mark.parametrize(("kind", "step"), steps())
def test_step(probe: PluginProbe, monkeypatch: pytest.MonkeyPatch, kind: str, step: dict[str, Any]) -> None:
    monkeypatch.setattr(recorded, "PLACEHOLDERS", {**PLACEHOLDERS, "{v_new}": VERSION})  # versions as they were recorded
    recorded.test_step({"default": probe}, "default", kind, step)


def test_there_are_steps() -> None:
    assert len(list(steps())) > 40
