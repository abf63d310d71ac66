"""The tables of settings in the documentation equal those of the ConfigDefs."""

from pathlib import Path

import pytest

from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from tests.contract.config_tables import DOCS, pages, up_to_date


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_tables_of_a_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == up_to_date(text), "run python -m tests.contract.config_tables"


def test_a_page_names_every_plugin_of_ours() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md") if not page.name.startswith("reference-"))
    named = {plugin.class_name.rpartition(".")[2].partition("$")[0] for plugin in PluginCatalog().plugins()}
    assert len(named) > 30
    assert sorted(name for name in named if f"`{name}" not in text and name.removesuffix("Connector") not in text) == []
