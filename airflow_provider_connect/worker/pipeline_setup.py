"""The converters and transformations that a connector's config names, made and configured for one task."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_connect.isolation.plugin_catalog import PluginKind, find
from airflow_provider_connect.model.connector_settings import ConnectorSettings, PluginSettings, TransformationSettings
from airflow_provider_connect.sdk.converter import Converter, HeaderConverter
from airflow_provider_connect.sdk.transformation import Predicate, Transformation
from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.worker.pipeline import Converters, Stage


def converters_of(connector: ConnectorSettings, worker: WorkerSettings) -> Converters:
    """The connector's converters where it names them, with its own settings; else the worker's with the worker's."""
    key = _converter("key", connector.key_converter, worker.key_converter, worker.key_converter_settings)
    value = _converter("value", connector.value_converter, worker.value_converter, worker.value_converter_settings)
    named = connector.header_converter or PluginSettings(worker.header_converter, None, worker.header_converter_settings)
    header: HeaderConverter = find(PluginKind.HEADER_CONVERTER, named.class_name).load()()
    header.configure({**named.config, "converter.type": "header"})
    return Converters(key, value, header)


def stages_of(connector: ConnectorSettings, header: HeaderConverter) -> list[Stage]:
    """The transformations in the order of ``transforms``, each with its predicate."""
    return [_stage(named, connector.predicates, header) for named in connector.transforms]


def _converter(role: str, named: PluginSettings | None, default: str, defaults: Mapping[str, str]) -> Converter:
    chosen = named or PluginSettings(default, None, defaults)
    converter: Converter = find(PluginKind.CONVERTER, chosen.class_name).load()()
    converter.configure({**chosen.config, "converter.type": role}, is_key=role == "key")
    return converter


def _stage(named: TransformationSettings, predicates: Mapping[str, PluginSettings], header: HeaderConverter) -> Stage:
    transformation: Transformation = find(PluginKind.TRANSFORMATION, named.class_name).load()()
    transformation.header_converter = header
    transformation.configure(transformation.config_def.parse(named.config))
    if named.predicate is None:
        return Stage(transformation)
    about = predicates[named.predicate]
    predicate: Predicate = find(PluginKind.PREDICATE, about.class_name).load()()
    predicate.header_converter = header
    predicate.configure(predicate.config_def.parse(about.config))
    return Stage(transformation, predicate, named.negate)
