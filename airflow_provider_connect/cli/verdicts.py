"""What ``airflow connect import`` reports of a connector: whether it runs here, by which plugin, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider_connect import __version__
from airflow_provider_connect.errors import ConfigException, PluginNotFoundException
from airflow_provider_connect.model.connector_keys import LOCATION_KEY
from airflow_provider_connect.model.upgrades import CLASS_KEY, VERSION_KEY
from airflow_provider_connect.model.versions import choose_version
from airflow_provider_connect.model.views import PluginView
from airflow_provider_connect.plugins.catalog.maven_connectors import installation_of
from airflow_provider_connect.plugins.catalog.plugin_catalog import PluginKind, built_in_connectors, short_names

_NO_PLUGIN: Final = "Failed to find any class that implements Connector"
_INSTALL: Final = "airflow connect plugins install maven:GROUP:ARTIFACT:VERSION, or an archive of its maker"


def verdict_of(
    config: Mapping[str, str], problem: str | None, warnings: Sequence[str], plugins: Sequence[PluginView]
) -> tuple[str, str | None]:
    """A few words, and the reason. ``problem`` is why the server refuses the config; ``plugins`` are those of the server."""
    if problem is not None:
        if _NO_PLUGIN not in problem:
            return "cannot run", problem
        name = config.get(CLASS_KEY, "")
        return "needs a plugin", f"no plugin of class {name} is installed: {installation_of(name) or _INSTALL}"
    word = "runs in Java" if _is_java(config, plugins) else "runs"
    return f"{word}, {len(warnings)} warnings" if warnings else word, None


def _is_java(config: Mapping[str, str], plugins: Sequence[PluginView]) -> bool:
    """As the server chooses: Python's where both have a plugin of that name, unless a location or a version asks for Java's."""
    name, spec = config.get(CLASS_KEY, ""), config.get(VERSION_KEY)
    named = [plugin for plugin in plugins if name in {plugin.class_name, *short_names(plugin.class_name, PluginKind(plugin.type))}]
    java = [plugin for plugin in named if plugin.location is not None]
    python = [plugin.version for plugin in named if plugin.location is None and plugin.version is not None]
    if not python and name in built_in_connectors():  # by an alias
        python = [__version__]
    if not java or not python or config.get(LOCATION_KEY):
        return bool(java)
    try:
        choose_version(name, python, spec)
    except (ConfigException, PluginNotFoundException):
        return True
    return False
