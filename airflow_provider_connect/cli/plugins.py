"""``airflow connect plugins list|config|install|scan|remove|broken``."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_provider_connect.cli.connection import Verbs, connect_command
from airflow_provider_connect.cli.printing import print_errors, print_rows
from airflow_provider_connect.cli.settings import use_database
from airflow_provider_connect.errors import BadRequestException, ConfigException
from airflow_provider_connect.hooks.airflow_settings import worker_settings
from airflow_provider_connect.runtime.java.installation import installation as java_installation
from airflow_provider_connect.runtime.model.plugin_kinds import Declared, PluginKind
from airflow_provider_connect.runtime.plugins.catalog.package_installer import PackageInstaller, Tool
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.plugins.catalog.plugin_installation import InstalledPlugins
from airflow_provider_connect.runtime.plugins.catalog.plugin_installation import install as install_plugin
from airflow_provider_connect.runtime.plugins.catalog.plugin_installation import remove as remove_plugin
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.jar_cache import announce, fetch_libraries
from airflow_provider_connect.runtime.spark.java_runtime import find_java

_OF_CONNECT = (
    *(f"org.apache.kafka:{name}" for name in ("kafka-clients", "connect-api", "connect-json", "connect-runtime", "connect-transforms")),
    "com.fasterxml.jackson.core:*",
    *("org.slf4j:*", "org.apache.logging.log4j:*", "ch.qos.logback:*", "ch.qos.reload4j:*"),
)
"""Packages of Kafka Connect's runtime, which archives of plugins leave out. A plugin's own copies would not be used, except for Jackson.
The plugin's own Jackson would fail with the modules of Connect's Jackson."""


@connect_command
def list_plugins(arguments: Any, verbs: Verbs) -> None:
    found = verbs.plugins(connectors_only=not arguments.all)
    rows = [{"class": plugin.class_name, "type": plugin.type, "version": plugin.version} for plugin in found]
    if any(plugin.location for plugin in found):
        rows = [{**row, "location": plugin.location} for row, plugin in zip(rows, found, strict=True)]
    print_rows(rows, arguments.output)


@connect_command
def config(arguments: Any, verbs: Verbs) -> None:
    """Print the settings of a plugin: one line each in a table, otherwise completely."""
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


@print_errors()
def install(arguments: Any) -> None:
    """Install each plugin into its own location in one directory of plugin.path, completely or not at all. The installer's output goes to
    standard error. After a failure, plugins that are already installed stay."""
    libraries = [java_installation.Coordinates.of(f"{java_installation.MAVEN}{library}").text for library in arguments.libraries or ()]
    if libraries and not all(plugin.startswith(java_installation.MAVEN) for plugin in arguments.plugins):
        raise BadRequestException("--with names libraries for a plugin of Maven's repository, maven:GROUP:ARTIFACT:VERSION")
    directory = _directory(arguments.path)
    for plugin in arguments.plugins:
        if java_installation.is_java(plugin):
            settings = None if arguments.ivy_settings is None else Path(arguments.ivy_settings).absolute()
            _print_installed(java_installation.install(plugin, directory, _fetch(settings, libraries), _scan, announce))
            continue
        installer = PackageInstaller.of(Tool(arguments.installer) if arguments.installer else None)
        _print_installed(install_plugin(plugin, directory, installer))


def _print_installed(installed: InstalledPlugins) -> None:
    print(f"Installed in {installed.path}:")
    _print_declared(installed.plugins)


def _print_declared(plugins: Sequence[Declared]) -> None:
    print_rows([{"class": plugin.class_name, "type": str(plugin.kind), "version": plugin.version} for plugin in plugins], "table")


@print_errors()
def scan(arguments: Any) -> None:
    """Record the classes and versions of Java plugins on plugin.path next to their jars, and print them."""
    for location in java_installation.java_locations(_directory(arguments.path), arguments.locations):
        print(f"{location}:")
        _print_declared(java_installation.scan_location(location, _scan, "scan", announce))


@print_errors()
def remove(arguments: Any) -> None:
    """Remove a location. Runs that use it may fail."""
    directory = _directory(arguments.path)
    print(f"Removed {java_installation.remove(arguments.plugin, directory) or remove_plugin(arguments.plugin, directory)}")


@print_errors()
def broken(arguments: Any) -> None:
    """Print unusable files on plugin.path, each with the reason. The exit code is 1 if there are any."""
    paths = [arguments.path] if arguments.path else _plugin_path()
    found = PluginCatalog(paths).broken()
    print_rows([{"location": each.path, "reason": each.reason} for each in found], arguments.output)
    sys.exit(1 if found else 0)


def _fetch(settings: Path | None, libraries: Sequence[str]) -> java_installation.Fetch:
    """Fetch a package and ``libraries`` with PySpark's Ivy. The Ivy file ``settings`` may name other repositories."""

    def fetch(coordinates: str, folder: Path) -> None:
        cache = cache_directory()
        wanted, java = [coordinates, *libraries], find_java(cache=cache)
        fetch_libraries(folder, cache / "ivy", wanted, java, announce, excluded=_OF_CONNECT, settings=settings)

    return fetch


def _scan(location: Path) -> list[Declared]:
    from airflow_provider_connect.runtime.java.installation.scan import scan as scan_by_java

    cache = cache_directory()
    found = scan_by_java(location, cache, find_java(cache=cache), notify=announce)
    return [Declared(PluginKind(each.kind), each.name, each.name, each.version) for each in found]


def _directory(given: str | None) -> Path:
    """The given directory, or else the directory that plugin.path names."""
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
