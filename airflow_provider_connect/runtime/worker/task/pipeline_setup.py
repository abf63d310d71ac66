"""Creates the objects that a connector's config names, for one task: converters, transformations, and the task itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from airflow_provider_connect.errors import ConfigException, WorkerSettingsException, plugin_code
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.connector_keys import names_of
from airflow_provider_connect.runtime.model.connector_settings import PluginSettings, TransformationSettings
from airflow_provider_connect.runtime.model.unknown_settings import unknown_settings
from airflow_provider_connect.runtime.plugins.catalog.plugin import Plugin
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters, Stage
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector, invalid_config
from airflow_provider_connect.sdk.connector import Connector
from airflow_provider_connect.sdk.converter import Converter, HeaderConverter
from airflow_provider_connect.sdk.task import Task
from airflow_provider_connect.sdk.transformations import Predicate, Transformation

log = logging.getLogger(__name__)
VERSION_KEY = "plugin.version"
_Task = TypeVar("_Task", bound=Task)


def create_converters(checked: CheckedConnector, worker: WorkerSettings) -> Converters:
    """The converters that the config names, with settings from the config. Otherwise the worker's converters, with the worker's settings.

    Raises ConfigException, which names the converter's key. In the same way, ``create_stages`` names the transformation's key.
    """
    for warning in _unknown_of_converters(checked):
        log.warning("Connector %s: %s", checked.name, warning)
    return Converters(_converter(checked, "key", worker), _converter(checked, "value", worker), _header_converter(checked, worker))


def create_stages(checked: CheckedConnector, header: HeaderConverter) -> list[Stage]:
    """The transformations in the order of ``transforms``, each with its predicate."""
    for warning in (*_unknown_of_stages(checked), *_warnings_of_values(checked)):
        log.warning("Connector %s: %s", checked.name, warning)
    return [_stage(checked, named, header) for named in checked.settings.transforms]


@plugin_code()
def check_pipeline(checked: CheckedConnector, worker: WorkerSettings) -> None:
    """Create converters and transformations once, before a run whose tasks share this process. Raises ConfigException with all errors,
    without secrets."""
    if checked.is_java:
        return
    builds: list[Callable[[], object]] = [partial(_converter, checked, role, worker) for role in ("key", "value")]
    builds.append(partial(_header_converter, checked, worker))
    header: HeaderConverter = checked.plugins.converters["header"].load()()
    builds += [partial(_stage, checked, named, header) for named in checked.settings.transforms]
    errors: list[str] = []
    for build in builds:
        try:
            build()
        except ConfigException as error:
            errors += error.errors
    if errors:
        mask = Mask(checked.secrets())
        raise invalid_config(checked.name, map(mask, errors), map(mask, (*_unknown_of_converters(checked), *_unknown_of_stages(checked))))


def _converter(checked: CheckedConnector, role: str, worker: WorkerSettings) -> Converter:
    converter: Converter = checked.plugins.converters[role].load()()
    converter.allowed_paths = worker.allowed_paths
    own, defaults = getattr(checked.settings, f"{role}_converter"), getattr(worker, f"{role}_converter_settings")
    with _named(f"{role}.converter"):
        converter.configure({**_config(own, defaults), "converter.type": role}, is_key=role == "key")
    return converter


def _header_converter(checked: CheckedConnector, worker: WorkerSettings) -> HeaderConverter:
    header: HeaderConverter = checked.plugins.converters["header"].load()()
    with _named("header.converter"):
        header.configure({**_config(checked.settings.header_converter, worker.header_converter_settings), "converter.type": "header"})
    return header


def _config(named: PluginSettings | None, defaults: Mapping[str, str]) -> Mapping[str, str]:
    return named.config if named is not None else {key: value for key, value in defaults.items() if key != VERSION_KEY}


def _stage(checked: CheckedConnector, named: TransformationSettings, header: HeaderConverter) -> Stage:
    transformation: Transformation = checked.plugins.transforms[named.alias].load()()
    transformation.header_converter = header
    with _named(f"transforms.{named.alias}"):
        transformation.configure(transformation.config_def.parse(named.config))
    if named.predicate is None:
        return Stage(transformation)
    predicate: Predicate = checked.plugins.predicates[named.predicate].load()()
    predicate.header_converter = header
    with _named(f"predicates.{named.predicate}"):
        predicate.configure(predicate.config_def.parse(checked.settings.predicates[named.predicate].config))
    return Stage(transformation, predicate, named.negate)


@contextmanager
def _named(prefix: str) -> Iterator[None]:
    """Add the key of the plugin's settings to the beginning of errors, because the plugin does not know this key."""
    try:
        yield
    except WorkerSettingsException:
        raise
    except ConfigException as error:
        errors = [f"{prefix}: {text}" for text in error.errors]
        raise ConfigException("\n".join(errors), errors=errors) from error


def _unknown_of_converters(checked: CheckedConnector) -> list[str]:
    settings, plugins = checked.settings, checked.plugins.converters
    named = {"key": settings.key_converter, "value": settings.value_converter, "header": settings.header_converter}
    return [text for role, own in named.items() for text in _unknown(f"{role}.converter", own, plugins[role])]


def _unknown_of_stages(checked: CheckedConnector) -> list[str]:
    found: list[str] = []
    for named in checked.settings.transforms:
        found += _unknown(f"transforms.{named.alias}", named, checked.plugins.transforms[named.alias])
        if named.predicate is not None:
            own = checked.settings.predicates[named.predicate]
            found += _unknown(f"predicates.{named.predicate}", own, checked.plugins.predicates[named.predicate])
    return found


def _warnings_of_values(checked: CheckedConnector) -> list[str]:
    found: list[str] = []
    for named in checked.settings.transforms:
        found += checked.plugins.transforms[named.alias].load()().config_def.warnings(named.config, f"transforms.{named.alias}.")
    return found


def _unknown(prefix: str, named: PluginSettings | None, plugin: Plugin) -> list[str]:
    """Warnings about settings that the plugin does not have."""
    if named is None:
        return []
    given = (prefix, *(f"{prefix}.{key}" for key in named.config))
    return unknown_settings(given, {prefix, f"{prefix}.{VERSION_KEY}", *names_of(plugin.load()().config_def, f"{prefix}.")})


def configure_task(task: _Task, connector: Connector, header: HeaderConverter) -> _Task:
    """Give a new task the objects that it needs before ``initialize``: the allowed paths of the worker, and the header converter."""
    task.allowed_paths = connector.allowed_paths
    task.header_converter = header
    return task
