"""Answers of Java plugins about themselves and about configs, from a JVM in a separate process that ends when idle.

One warm JVM has loaded every Java plugin that the worker allows. While that JVM is busy, a request starts another JVM. The answers are
Connect's own. This module adds errors from this package's rules for untrusted configs: client overrides, internal topics, limits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException, TaskException
from airflow_provider_connect.runtime.config.client_settings import clients_of, refused_overrides
from airflow_provider_connect.runtime.config.dag_settings import JAVA_MEMORY, SCHEDULE, java_heap
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.catalog.location import refuse_location
from airflow_provider_connect.runtime.java.catalog.manifests import allowed_locations
from airflow_provider_connect.runtime.java.config.own_clients import HISTORY_TOPIC
from airflow_provider_connect.runtime.java.config.rules import SIGNAL_TOPIC, refuse, refused_end, refused_keys
from airflow_provider_connect.runtime.java.jvm.class_data import connect_class_data
from airflow_provider_connect.runtime.java.jvm.runtime_jars import runtime_jars
from airflow_provider_connect.runtime.model.config_limits import TASK_MEMORY
from airflow_provider_connect.runtime.model.connector_keys import own_config_def
from airflow_provider_connect.runtime.model.connector_settings import NULL_VALUE
from airflow_provider_connect.runtime.model.versions import UNDEFINED
from airflow_provider_connect.runtime.model.views import ConfigKeyView, ConfigValueView, ValidatedKey, Validation
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import CONVERTER_KINDS, PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import Plugin, PluginCatalog, PluginKind
from airflow_provider_connect.runtime.plugins.loading.plugin_path import Location
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import (
    DEAD_LETTERS,
    OFFSETS_TOPIC,
    backfill_errors,
    memory_errors,
    offsets_topic_errors,
    tasks_errors,
)
from airflow_provider_connect.runtime.plugins.validation.probe_process import Fingerprints, ProbePool, ProbeProcess
from airflow_provider_connect.runtime.plugins.validation.validation import key_view
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.java_runtime import find_java

IDLE_SECONDS: Final = 300.0
START_SECONDS: Final = 600.0  # for the start of the JVM, and for loading all plugins
MODULE: Final = "airflow_provider_connect.runtime.java.probe.server"
_VERSION_KEY: Final = "connector.plugin.version"
_ADDRESS_SPACE: Final = 1 << 36  # of process and JVM; a JVM reserves far more than it uses, and ``java.memory`` limits its heap
_CLIENTS: Final = ("producer.override.", "consumer.override.", "admin.override.")
_CONVERTERS: Final = ("key.converter.", "value.converter.", "header.converter.")
Given = Mapping[str, str | None]


class JavaProbe:
    """Safe to share between threads. ``passed_on`` are the worker settings that the process receives."""

    def __init__(self, settings: WorkerSettings, catalog: PluginCatalog, passed_on: Mapping[str, str]) -> None:
        self._settings = settings
        self._catalog = catalog
        self._choice = PluginChoice(catalog, settings)
        self._passed_on = passed_on
        self._pool = ProbePool(self._process, settings.plugin_probe_timeout_ms / 1000, IDLE_SECONDS, most_idle=1)

    def keys(self, plugin: Plugin) -> list[ConfigKeyView]:
        """The settings of ``plugin``. For a connector, the framework's settings are included. Raises ConfigException if the plugin's
        location is not allowed, ConnectException if no JVM can be started."""
        self._require_allowed(plugin)
        answer = self._ask(plugin, {"ask": "keys", "class": plugin.class_name, "version": _exact(plugin)})
        return [_key(key) for key in answer]

    def validate(self, plugin: Plugin, config: Given) -> Validation:
        """The validation of ``config`` for the connector ``plugin``. Variables in ``config`` are resolved. Raises the same exceptions as
        ``keys``."""
        self._require_allowed(plugin)
        own = own_config_def().keys
        refused = refused_keys(config)
        asked = {key: text for key, text in config.items() if key not in own and key not in refused and key != SCHEDULE}
        exact = _exact(plugin)
        if exact is not None:
            asked[_VERSION_KEY] = exact
        answer = self._ask(plugin, {"ask": "validate", "config": {**asked, "connector.class": plugin.class_name}})
        found = list(self._merged(answer["configs"], config, plugin))
        found += [ValidatedKey(key_view(own[key]), _own_value(key, config)) for key in own if key in config]
        counted = sum(value.name.startswith((*_CLIENTS, *_CONVERTERS)) and not value.name.endswith("plugin.version") for _, value in found)
        return Validation.counted(str(config["connector.class"]), tuple(map(str, filter(None, answer["groups"]))), tuple(found), counted)

    def alter_offsets(self, plugin: Plugin, config: Mapping[str, str], offsets: Sequence[Any] | None) -> bool:
        """Call the connector's ``alterOffsets`` with these pairs of partition and offset. None: all offsets are reset. Raises the same
        exceptions as ``PluginProbe``."""
        self._require_allowed(plugin)
        refuse(config)
        request = {
            "ask": "alter_offsets",
            "class": plugin.class_name,
            "version": _exact(plugin),
            "config": dict(config),
            "offsets": offsets,
        }
        return bool(self._ask(plugin, request))

    def close(self) -> None:
        self._pool.close()

    def _ask(self, plugin: Plugin, request: Mapping[str, object]) -> Any:
        """Any: the answer comes from a process with untrusted code, and its readers check it."""
        title = f"{plugin.class_name} ({plugin.origin})"
        return self._pool.ask(self._fingerprints(), {**request, "title": title})["answer"]

    def _locations(self) -> list[Location]:
        allowed = allowed_locations(self._settings.values)
        found = {plugin.location.path: plugin.location for plugin in self._catalog.plugins() if plugin.is_java and plugin.location}
        return [location for path, location in found.items() if allowed(Path(path))]

    def _fingerprints(self) -> Fingerprints:
        return frozenset((location.path, location.stamp) for location in self._locations())

    def _process(self) -> ProbeProcess:
        cache = cache_directory()
        java = find_java(cache=cache)
        jars = runtime_jars(cache, java)
        process = _JvmProcess(self._passed_on, _ADDRESS_SPACE, module=MODULE)
        try:
            request = {
                "ask": "start",
                "java": {"home": str(java.home), "version": java.version, "real_home": str(java.real_home)},
                "class_path": [str(jar) for jar in jars],
                "class_data": str(connect_class_data(cache, java, jars).folder),
                "heap": java_heap(self._settings.values, {}),
                "converters": {f"{role}.converter": self._converter(role) for role in CONVERTER_KINDS},
                "locations": [location.path for location in self._locations()],
            }
            process.ask(request, START_SECONDS)
        except BaseException:
            process.end()
            raise
        return process

    def _converter(self, role: str) -> str:
        """The worker's converter class, which is the default of a config. JsonConverter if Java has no class of that name."""
        try:
            return self._choice.converter(role, {}, is_java=True).class_name
        except ConnectException:
            return "org.apache.kafka.connect.json.JsonConverter"

    def _require_allowed(self, plugin: Plugin) -> None:
        if plugin.location is not None:
            refuse_location(plugin.class_name, plugin.location.path, plugin.origin, self._settings.values)

    def _merged(self, configs: Sequence[Mapping[str, Any]], config: Given, plugin: Plugin) -> Iterator[ValidatedKey]:
        """Connect's keys with our errors added, then the keys for which only we have errors."""
        errors = self._errors(config, is_sink=plugin.kind is PluginKind.SINK)
        if plugin.kind is PluginKind.SOURCE and (reason := refused_end(plugin.class_name, config)) is not None:
            errors.setdefault("connector.class", []).append(ConfigException.of("connector.class", plugin.class_name, reason).message)
        for each in configs:
            key = None if each["definition"] is None else _key(each["definition"])
            value = _value(each["value"], "" if key is None else key.name)
            if value.name in ("connector.class", _VERSION_KEY) and config.get(value.name) is not None:
                value = dataclasses.replace(value, value=config[value.name])
            more = [error for error in errors.pop(value.name, []) if error not in value.errors]
            yield ValidatedKey(key, dataclasses.replace(value, errors=(*value.errors, *more)))
        for name, texts in errors.items():
            yield ValidatedKey(None, ConfigValueView(name, config.get(name), (), tuple(texts), True))

    def _errors(self, config: Given, *, is_sink: bool) -> dict[str, list[str]]:
        """Errors that Connect does not report, by key."""
        settings, texts = self._settings, {key: text for key, text in config.items() if text is not None}
        found = {key: [error] for key, error in refused_overrides(settings, texts, clients_of(settings, texts, is_sink=is_sink)).items()}
        tasks = texts.get("tasks.max", "").strip()
        found["tasks.max"] = tasks_errors(settings, int(tasks)) if tasks.isascii() and tasks.isdigit() and len(tasks) < 20 else []
        found[OFFSETS_TOPIC] = offsets_topic_errors(settings, texts)
        found[TASK_MEMORY] = memory_errors(settings, texts.get(TASK_MEMORY))
        named = [("topics", topic.strip()) for topic in texts.get("topics", "").split(",")]
        named += [(key, texts.get(key, "").strip()) for key in (DEAD_LETTERS, "topic", HISTORY_TOPIC, SIGNAL_TOPIC)]
        for key, topic in named:
            if topic and (reason := settings.refusal_of_data_topic(topic)):
                found.setdefault(key, []).append(ConfigException.of(key, topic, reason).message)
        if JAVA_MEMORY in texts:
            try:
                java_heap(settings.values, texts)
            except ConfigException as error:
                found[JAVA_MEMORY] = [error.message]
        for key, reason in refused_keys(config).items():
            found[key] = [f"Invalid configuration {key}: {reason}"]
        for key, text in config.items():
            if text is None:
                found.setdefault(key, []).append(NULL_VALUE)
        return {key: errors for key, errors in found.items() if errors}


class _JvmProcess(ProbeProcess):
    """A process that ends when its JVM has ended, so that the next request gets another process."""

    def ask(self, request: Mapping[str, object], timeout_seconds: float) -> dict[str, Any]:
        try:
            return super().ask(request, timeout_seconds)
        except (RetriableException, TaskException):
            self.end()
            raise


def _exact(plugin: Plugin) -> str | None:
    """The version in requests to Connect."""
    return None if plugin.version == UNDEFINED else plugin.version


def _own_value(key: str, config: Given) -> ConfigValueView:
    value = own_config_def().keys[key]
    found = next(iter(type(own_config_def())(value).validate(config)))
    about, errors = found.describe(), [*found.errors, *backfill_errors(config, None).get(key, ())]
    return ConfigValueView(key, about["value"], tuple(about["recommended_values"]), tuple(errors), found.visible)


def _key(about: Mapping[str, Any]) -> ConfigKeyView:
    """A definition as Connect's REST API writes it. Raises ConnectException for another form."""
    try:
        as_read = {"order" if name == "order_in_group" else name: value for name, value in about.items()}
        texts = {name: as_read[name] or "" for name in ("documentation", "display_name")}
        return ConfigKeyView(**{**as_read, **texts, "dependents": tuple(map(str, filter(None, as_read["dependents"] or ())))})
    except (KeyError, TypeError) as error:
        raise ConnectException(f"Kafka Connect's process returned an invalid definition: {error}") from error


def _value(about: Mapping[str, Any] | None, name: str) -> ConfigValueView:
    """The value of the key ``name``. If a plugin reports nothing for one of its keys, the value is treated as valid. Nulls in the plugin's
    report are treated as absent."""
    about = about or {}
    value = about.get("value")
    return ConfigValueView(
        name=str(about.get("name") or name),
        value=None if value is None else str(value),
        recommended_values=tuple(str(each) for each in about.get("recommended_values") or () if each is not None),
        errors=tuple(str(each) for each in about.get("errors") or () if each is not None),
        visible=bool(about.get("visible", True)),
    )
