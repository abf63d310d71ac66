"""Ranges of plugin versions in the Variable ``connect_worker_config``, as a run gets them."""

from pathlib import Path

from airflow_provider_connect.hooks.airflow_settings import flattened
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from tests.unit.plugins.locations import source, tree


def test_a_range_names_a_class_or_connector_and_may_be_a_list_of_intervals(tmp_path: Path) -> None:
    for version in ("1.0", "1.1", "2.0", "2.5"):
        tree(tmp_path / version, "echo", version, {"echo.py": source()}, "source:org.example.EchoSource = echo:EchoSource")
    variable = {
        "version_ranges": {"org.example.EchoSource": ["[1.0,1.0]", "[2.0,2.4]"], "careful": "1.1"},
        "plugin": {"path": str(tmp_path)},
    }
    settings = WorkerSettings.of(flattened(variable, "the Variable"))
    choice = PluginChoice(PluginCatalog(settings.plugin_path), settings)
    config = {"connector.class": "EchoSource"}
    assert choice.connector("careful", config).version == "1.1"
    assert choice.connector("other", config).version == "2.0"
    assert choice.connector("careful", {**config, "connector.plugin.version": "latest"}).version == "2.5"
