"""``airflow connect plugins list|config|install|remove|broken``."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_provider_connect.cli.connection import Verbs, speaks_to_connect
from airflow_provider_connect.cli.printing import errors_printed, print_rows
from airflow_provider_connect.cli.settings import use_database
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.hooks.airflow_settings import worker_settings
from airflow_provider_connect.plugins.catalog.package_installer import PackageInstaller, Tool
from airflow_provider_connect.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.plugins.catalog.plugin_installation import install as install_plugin
from airflow_provider_connect.plugins.catalog.plugin_installation import remove as remove_plugin


@speaks_to_connect
def list_plugins(arguments: Any, verbs: Verbs) -> None:
    found = verbs.plugins(connectors_only=not arguments.all)
    rows = [{"class": plugin.class_name, "type": plugin.type, "version": plugin.version} for plugin in found]
    if any(plugin.location for plugin in found):
        rows = [{**row, "location": plugin.location} for row, plugin in zip(rows, found, strict=True)]
    print_rows(rows, arguments.output)


@speaks_to_connect
def config(arguments: Any, verbs: Verbs) -> None:
    """The keys that a plugin knows: as a table what fits into a line, else everything."""
    keys = verbs.plugin_config(arguments.plugin, arguments.plugin_version)
    if arguments.output != "table":
        print_rows([{**asdict(key), "dependents": list(key.dependents)} for key in keys], arguments.output)
        return
    rows = [
        {"key": key.name, "type": key.type, "default": "(required)" if key.required else key.default_value, "about": key.documentation}
        for key in keys
    ]
    print_rows([{**row, "about": _short(str(row["about"] or ""))} for row in rows], "table")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 80 else f"{words[:79]}…"


@errors_printed()
def install(arguments: Any) -> None:
    """A location of its own in one directory of plugin.path, whole or not at all; the installer's output goes to standard error."""
    installer = PackageInstaller.of(Tool(arguments.installer) if arguments.installer else None)
    installed = install_plugin(arguments.plugin, _directory(arguments.path), installer)
    print(f"Installed in {installed.path}:")
    print_rows([{"class": plugin.class_name, "type": str(plugin.kind), "version": plugin.version} for plugin in installed.plugins], "table")


@errors_printed()
def remove(arguments: Any) -> None:
    """Runs that have begun with the location may fail for want of it."""
    print(f"Removed {remove_plugin(arguments.plugin, _directory(arguments.path))}")


@errors_printed()
def broken(arguments: Any) -> None:
    """What lies on plugin.path and cannot be used, and why; the exit code is 1 if there is anything."""
    paths = [arguments.path] if arguments.path else _plugin_path()
    found = PluginCatalog(paths).broken()
    print_rows([{"location": each.path, "reason": each.reason} for each in found], arguments.output)
    sys.exit(1 if found else 0)


def _directory(given: str | None) -> Path:
    """The directory that was named, else the one that plugin.path names."""
    if given:
        return Path(given)
    paths = _plugin_path()
    if len(paths) != 1:
        named = f"names {len(paths)} directories" if paths else "is not set"
        raise ConfigException(f"The worker setting plugin.path {named}: name the directory by --path")
    return Path(paths[0])


def _plugin_path() -> tuple[str, ...]:
    use_database()
    return worker_settings().plugin_path
