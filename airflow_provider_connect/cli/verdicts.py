"""What ``airflow connect import`` reports of a connector: whether it runs here, by which plugin, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider_connect import __version__
from airflow_provider_connect.errors import ConfigException, PluginNotFoundException
from airflow_provider_connect.runtime.model.connector_keys import LOCATION_KEY
from airflow_provider_connect.runtime.model.upgrades import CLASS_KEY, VERSION_KEY
from airflow_provider_connect.runtime.model.versions import choose_version
from airflow_provider_connect.runtime.model.views import PluginView
from airflow_provider_connect.runtime.plugins.catalog.maven_connectors import installation_of
from airflow_provider_connect.runtime.plugins.catalog.next_step import INSTALL, must_stay, next_step
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, built_in_connectors, short_names

_NO_PLUGIN: Final = "Failed to find any class that implements Connector"
_NO_VERSION: Final = "not found that matches the version range"


def verdict_of(
    config: Mapping[str, str], problem: str | None, warnings: Sequence[str], plugins: Sequence[PluginView]
) -> tuple[str, str | None]:
    """A few words, and the reason. ``problem`` is why the server refuses the config; ``plugins`` are those of the server."""
    if problem is not None:
        return _problem(config.get(CLASS_KEY, ""), problem, plugins)
    word = "runs in Java" if _is_java(config, plugins) else "runs"
    return f"{word}, {len(warnings)} warnings" if warnings else word, None


def _problem(name: str, problem: str, plugins: Sequence[PluginView]) -> tuple[str, str]:
    if (reason := must_stay(name)) is not None:
        return "cannot run", reason
    if _NO_PLUGIN in problem:
        return "needs a plugin", f"no plugin of class {name} is installed: {next_step(name) or INSTALL}"
    command = installation_of(name)
    is_ours_alone = not any(plugin.location is not None for plugin in _named(name, plugins))
    if _NO_VERSION in problem and command is not None and is_ours_alone:
        own = "or leave connector.plugin.version out: this package has a connector of that class"
        return "needs a plugin", f"that version of {name} is not installed: {command} (or that version); {own}"
    return "cannot run", problem


def _named(name: str, plugins: Sequence[PluginView]) -> list[PluginView]:
    """Those that a config may call so."""
    kinds = {str(kind): kind for kind in CONNECTOR_KINDS}
    return [
        plugin
        for plugin in plugins
        if plugin.type in kinds and name in {plugin.class_name, *short_names(plugin.class_name, kinds[plugin.type])}
    ]


def _is_java(config: Mapping[str, str], plugins: Sequence[PluginView]) -> bool:
    """As the server chooses: Python's where both have a plugin of that name, unless a location or a version asks for Java's."""
    name, spec = config.get(CLASS_KEY, ""), config.get(VERSION_KEY)
    named = _named(name, plugins)
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
