"""The configs in docs/filestream.md are those of the two connectors, without an error or an unknown setting."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.model.connector_keys import names_of, sink_config_def, source_config_def
from airflow_provider_connect.runtime.model.unknown_settings import unknown_settings
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "filestream.md"
FRAMEWORKS = {"FileStreamSource": source_config_def, "FileStreamSink": sink_config_def}


def test_the_configs_of_the_page_are_valid() -> None:
    blocks = re.findall(r"^```properties [^\n]+\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    configs = [parse_properties(block) for block in blocks]
    assert [config["connector.class"] for config in configs] == list(FRAMEWORKS)
    for config in configs:
        plugin: Any = PluginCatalog().named(config["connector.class"])[-1].load()
        frameworks = FRAMEWORKS[config["connector.class"]]()
        assert plugin.config_def.parse(config)["file"].startswith("/data/")
        assert frameworks.parse(config)["name"] == config["name"]
        assert unknown_settings(config, {*names_of(plugin.config_def), *names_of(frameworks)}) == []
