"""What a connector's config names, created for one task: converters, transformations, and the task itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.model.connector_keys import names_of, unknown_settings
from airflow_provider_connect.model.connector_settings import PluginSettings, TransformationSettings
from airflow_provider_connect.sdk.config_def import Plugin
from airflow_provider_connect.sdk.connector import Connector
from airflow_provider_connect.sdk.converter import Converter, HeaderConverter
from airflow_provider_connect.sdk.task import Task
from airflow_provider_connect.sdk.transformations import Predicate, Transformation
from airflow_provider_connect.worker.pipeline.stages import Converters, Stage
from airflow_provider_connect.worker.task.checked_connector import CheckedConnector

log = logging.getLogger(__name__)
VERSION_KEY = "plugin.version"
_Task = TypeVar("_Task", bound=Task)


def converters_of(checked: CheckedConnector, worker: WorkerSettings) -> Converters:
    """The connector's converters where it names them, with its own settings; else the worker's with the worker's."""
    settings = checked.settings
    key = _converter(checked, "key", _config(settings.key_converter, worker.key_converter_settings), worker)
    value = _converter(checked, "value", _config(settings.value_converter, worker.value_converter_settings), worker)
    header: HeaderConverter = checked.plugins.converters["header"].load()()
    _warn_of_unknown(checked, "header.converter", settings.header_converter, header)
    header.configure({**_config(settings.header_converter, worker.header_converter_settings), "converter.type": "header"})
    return Converters(key, value, header)


def stages_of(checked: CheckedConnector, header: HeaderConverter) -> list[Stage]:
    """The transformations in the order of ``transforms``, each with its predicate."""
    return [_stage(checked, named, header) for named in checked.settings.transforms]


def _converter(checked: CheckedConnector, role: str, config: Mapping[str, str], worker: WorkerSettings) -> Converter:
    converter: Converter = checked.plugins.converters[role].load()()
    converter.allowed_paths = worker.allowed_paths
    _warn_of_unknown(checked, f"{role}.converter", getattr(checked.settings, f"{role}_converter"), converter)
    converter.configure({**config, "converter.type": role}, is_key=role == "key")
    return converter


def _config(named: PluginSettings | None, defaults: Mapping[str, str]) -> Mapping[str, str]:
    return named.config if named is not None else {key: value for key, value in defaults.items() if key != VERSION_KEY}


def _stage(checked: CheckedConnector, named: TransformationSettings, header: HeaderConverter) -> Stage:
    transformation: Transformation = checked.plugins.transforms[named.alias].load()()
    transformation.header_converter = header
    _warn_of_unknown(checked, f"transforms.{named.alias}", named, transformation)
    transformation.configure(transformation.config_def.parse(named.config))
    if named.predicate is None:
        return Stage(transformation)
    predicate: Predicate = checked.plugins.predicates[named.predicate].load()()
    predicate.header_converter = header
    of_predicate = checked.settings.predicates[named.predicate]
    _warn_of_unknown(checked, f"predicates.{named.predicate}", of_predicate, predicate)
    predicate.configure(predicate.config_def.parse(of_predicate.config))
    return Stage(transformation, predicate, named.negate)


def _warn_of_unknown(checked: CheckedConnector, prefix: str, named: PluginSettings | None, plugin: Plugin) -> None:
    if named is not None:
        given = (prefix, *(f"{prefix}.{key}" for key in named.config))
        for warning in unknown_settings(given, {prefix, f"{prefix}.{VERSION_KEY}", *names_of(plugin.config_def, f"{prefix}.")}):
            log.warning("Connector %s: %s", checked.name, warning)


def equipped(task: _Task, connector: Connector, header: HeaderConverter) -> _Task:
    """A new task with what it has before ``initialize``: the paths that the worker allows, and the header converter."""
    task.allowed_paths = connector.allowed_paths
    task.header_converter = header
    return task
