"""The recorded definitions and validations of MirrorMaker's connectors, asked of the Java plugins: the answers of a real Connect 4.3.1."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from tests.conftest import CACHE
from tests.contract.record_mirror_settings import CASES, CONNECTORS, class_name, listed, read_recorded
from tests.java_plugins import copied_mirror

RECORDED = read_recorded()
VERSION = "4.3.1"


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginProbe]:
    plugins = tmp_path_factory.mktemp("plugins")
    copied_mirror(CACHE, plugins)
    about = {"exactly.once.source.support": "disabled", "group.id": "mirrors", "plugin.probe.timeout.ms": "300000"}
    with PluginProbe(WorkerSettings.of({**about, "plugin.path": str(plugins), "java.allowed.locations": str(plugins)})) as opened:
        yield opened


@pytest.mark.parametrize("connector", CONNECTORS)
def test_settings_are_the_recorded_ones(probe: PluginProbe, connector: str) -> None:
    assert listed(probe.config_keys(class_name(connector), VERSION)) == RECORDED[connector]["keys"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("connector", CONNECTORS)
def test_errors_are_the_recorded_ones(probe: PluginProbe, connector: str, case: str) -> None:
    config = {"name": "x", "connector.class": class_name(connector), "connector.plugin.version": VERSION, **CASES[case]}
    validation = probe.validate(class_name(connector), config)
    assert {value.name: list(value.errors) for _, value in validation.configs if value.errors} == RECORDED[connector]["errors"][case]
