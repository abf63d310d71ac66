"""Answers of plugins about themselves and about configs, for processes that must not run the plugins' code.

REST, herder and command line use this module. The plugins' code runs in other processes, which are kept warm. The time and memory of these
processes are limited (``plugin.probe.timeout.ms``, ``plugin.probe.memory.bytes``). So a plugin that hangs, dies or exhausts the memory
fails only its own request. The list of plugins needs no such process.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Self

from airflow_provider_connect.errors import (
    BadRequestException,
    ConfigException,
    ConnectException,
    PluginNotFoundException,
    PluginVersionException,
)
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.config_providers import ConfigProvider
from airflow_provider_connect.runtime.config.masking import Mask, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.probe.probe import JavaProbe
from airflow_provider_connect.runtime.model.config_limits import cut, refuse_many_aliases
from airflow_provider_connect.runtime.model.connector_keys import LOCATION_KEY, sink_config_def, source_config_def, strip_framework_keys
from airflow_provider_connect.runtime.model.connector_settings import NO_CLASS
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN, is_secret_key, is_variable
from airflow_provider_connect.runtime.model.url_passwords import without_url_passwords
from airflow_provider_connect.runtime.model.versions import UNDEFINED, requirement
from airflow_provider_connect.runtime.model.views import ConfigKeyView, ConfigValueView, PluginView, ValidatedKey, Validation
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import CONVERTER_KINDS, VERSION_ENDING, PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, Plugin, PluginCatalog, PluginKind, versions_of
from airflow_provider_connect.runtime.plugins.loading.plugin_path import BrokenLocation, editable_location
from airflow_provider_connect.runtime.plugins.validation.probe_messages import keys_of, validation_of
from airflow_provider_connect.runtime.plugins.validation.probe_process import Fingerprints, ProbePool, ProbeProcess
from airflow_provider_connect.runtime.plugins.validation.validation import key_view

log = logging.getLogger(__name__)

CLASS_KEY, VERSION_KEY = "connector.class", f"connector.{VERSION_ENDING}"
_SETTINGS_OF_PLUGINS: Final = ("key.converter", "value.converter", "header.converter")
_PASSED_ON: Final = (
    "group.id",
    "plugin.path",
    "connectors.allowed.paths",
    "connectors.spark.formats",
    "connectors.spark.options",
    "connectors.max.tasks",
    "task.memory.max",
    *(f"{kind}.storage.topic" for kind in ("config", "offset", "status", "batch")),
    "exactly.once.source.support",
    "connector.client.config.override.policy",
    "connector.client.config.override.allowlist",
    *_SETTINGS_OF_PLUGINS,
    *(f"{key}.{VERSION_ENDING}" for key in _SETTINGS_OF_PLUGINS),
)
"""The worker settings that a validation needs. Other settings, with their secrets, never reach the plugins' process."""

_POLICY: Final = "ConnectorClientConfigOverridePolicy"
_PROVIDER_CLASS: Final = re.compile(r"config\.providers\.[^.]{1,255}\.class")
_WITHOUT_SETTINGS: Final = (
    *(f"org.apache.kafka.common.config.provider.{name}ConfigProvider" for name in ("Directory", "EnvVar", "File")),
    *(f"org.apache.kafka.connect.connector.policy.{name}{_POLICY}" for name in ("All", "Allowlist", "None", "Principal")),
)
"""Plugins of Kafka Connect that ``GET /connector-plugins/«p»/config`` refuses (contract §3.5)."""
_IN_MESSAGES: Final = ("sink", "source", "converter", "header_converter", "transformation", "predicate")

Given = Mapping[str, str | None]


class PluginProbe:
    """May be used from several threads. One probe serves a whole process. ``secrets`` returns the values of Airflow's variables in a
    config. The plugins' processes end after ``idle_seconds`` without a request. None: they never end."""

    def __init__(
        self, settings: WorkerSettings, *, secrets: Callable[[Given], Mapping[str, str]] = lambda _: {}, idle_seconds: float | None = None
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._catalog = PluginCatalog(settings.plugin_path)
        self._choice = PluginChoice(self._catalog, settings)
        passed_on = {name: value for name, value in settings.values.items() if name in _PASSED_ON or name.startswith("version_ranges.")}
        memory = settings.plugin_probe_memory_bytes
        self._pool = ProbePool(lambda: ProbeProcess(passed_on, memory), settings.plugin_probe_timeout_ms / 1000, idle_seconds)
        self._java = JavaProbe(settings, self._catalog, passed_on)
        self._logging = threading.Lock()
        self._broken: set[BrokenLocation] = set()
        self._keys: dict[tuple[Plugin, str], list[ConfigKeyView]] = {}

    def plugins(self, connectors_only: bool = True) -> list[PluginView]:
        """Every plugin in every version, in Connect's order."""
        found = self._catalog.plugins(CONNECTOR_KINDS if connectors_only else tuple(PluginKind))
        self._log_broken()
        return [_plugin_view(plugin) for plugin in found]

    def broken(self) -> list[BrokenLocation]:
        """The locations on ``plugin.path`` that cannot be used, with the reason."""
        return self._catalog.broken()

    def config_keys(self, plugin: str, version: str | None = None, location: str | None = None) -> list[ConfigKeyView]:
        """The settings that ``plugin`` defines. For a connector, the settings of every connector follow. ``location``: the name of the
        plugin's location.

        Raises PluginNotFoundException for an unknown plugin, BadRequestException or ConfigException for an unknown version.
        """
        found = self._catalog.named(plugin)
        if not found:
            if self._has_no_settings(plugin):
                kinds = ", ".join(sorted(PluginKind, key=_IN_MESSAGES.index))
                raise BadRequestException(f"Invalid plugin class {cut(plugin)}. Valid types are {kinds}.")
            raise PluginNotFoundException(f"Unknown plugin {plugin}.")
        chosen = self._version_of(plugin, found, version, location)
        keys = self._own_keys(chosen)
        if chosen.is_java or chosen.kind not in CONNECTOR_KINDS:
            return keys
        framework = sink_config_def() if chosen.kind is PluginKind.SINK else source_config_def()
        newest = versions_of(found)[-1]
        defined = {key.name for key in keys}
        more = (key.with_default(newest) if key.name == VERSION_KEY else key for key in framework.keys.values())
        return [*keys, *(key_view(key) for key in more if key.name not in defined)]

    def validate(self, plugin: str | None, config: Given) -> Validation:
        """The validation of ``config`` by plugin and framework. Variables in ``config`` are unresolved. The answer does not contain their
        values.

        ``plugin`` must be a suffix of the config's class, as in the request's path. None: any class. Raises BadRequestException or
        ConfigException if nothing can be validated, ConnectException if the plugin's code does not answer.
        """
        named = config.get(CLASS_KEY)
        if named is None:
            raise BadRequestException(NO_CLASS)
        if plugin is not None and not _without_ending(named).endswith(_without_ending(plugin)):
            raise BadRequestException(f"Included connector type {cut(named)} does not match request type {cut(plugin)}")
        refuse_many_aliases(config)
        providers = self._settings.config_providers(config.get("name") or "")
        secrets = config_providers.airflow_values(config, providers, self._secrets)
        resolved: dict[str, Any] = config_providers.resolve(config, providers, secrets)  # type: ignore[arg-type]  # nulls stay null
        refuse_many_aliases(resolved)
        self._log_broken()
        if named == resolved[CLASS_KEY]:
            self._require_class(named)
        mask = Mask(secret_values({key: text for key, text in config.items() if text}, providers, secrets))
        mask.add(self.passwords(resolved))
        written = config_providers.with_public_values(config, providers, secrets)
        unresolved = _unresolved(config, providers, resolved)
        java = self._java_connector(resolved)
        if java is not None:
            with _masking(mask):
                return _masked(_warned(self._java.validate(java, resolved), unresolved), written, resolved, mask)
        answer = self._ask(self._locations(resolved), {"ask": "validate", "config": resolved}, mask)
        try:
            validation = validation_of(answer)
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectException(f"The plugin's process returned an invalid validation: {error}") from error
        return _masked(_warned(validation, unresolved), written, resolved, mask)

    def alter_offsets(
        self,
        connector: str,
        config: Mapping[str, str],
        offsets: Sequence[tuple[Mapping[str, object] | None, Mapping[str, object] | None]] | None,
    ) -> bool:
        """Call the connector's ``alter_offsets`` with these offsets. None: all offsets are reset. Returns False if the connector has no
        such method, or cannot decide.

        Raises the method's own exception, with its text, if it is a NotImplementedError, RetriableException, BadRequestException or
        ConfigException. Raises ConnectException for any other exception. Also raises RetriableException if the method does not answer in
        time.
        """
        providers = self._settings.config_providers(connector)
        secrets = config_providers.airflow_values(config, providers, self._secrets)
        resolved = config_providers.resolve(config, providers, secrets)
        pairs = None if offsets is None else [[p and dict(p), o and dict(o)] for p, o in offsets]
        request = {"ask": "alter_offsets", "connector": connector, "config": resolved, "offsets": pairs}
        mask = Mask({*secret_values(config, providers, secrets), *self.passwords(resolved)})
        java = self._java_connector({"name": connector, **resolved})
        if java is not None:
            with _masking(mask):
                return self._java.alter_offsets(java, strip_framework_keys(resolved), pairs)
        return bool(self._ask(self._locations(resolved), request, mask)["agreed"])

    def passwords(self, resolved: Given) -> set[str]:
        """The values of the connector's settings of type PASSWORD. Empty if the config names no known connector."""
        try:
            keys = self.config_keys(resolved.get(CLASS_KEY) or "", resolved.get(VERSION_KEY), resolved.get(LOCATION_KEY))
        except ConnectException:  # without the connector's definition, the probe calls none of the connector's code
            return set()
        return {text for key in keys if key.type == "PASSWORD" and (text := resolved.get(key.name))}

    def _log_broken(self) -> None:
        """Log each broken location once. Log it again if it was usable in between."""
        with self._logging:
            broken = set(self._catalog.broken())
            new, self._broken = broken - self._broken, broken
        for each in sorted(new, key=lambda location: location.path):
            log.warning("Plugin location %s cannot be used: %s", each.path, each.reason)

    def close(self) -> None:
        """End the processes."""
        self._pool.close()
        self._java.close()

    def _require_class(self, name: str) -> None:
        """Raises ConfigException for a class that no plugin has, with the remedy. The text contains only the class in the config, so
        secrets in it are not hidden. Hiding would reveal which words are secrets, as in ``io.[hidden].connect``."""
        if not self._catalog.named(name, CONNECTOR_KINDS):
            self._catalog.find_connector(name)

    def _java_connector(self, config: Given) -> Plugin | None:
        """The connector of ``config`` if it is a Java connector. Also None if there is no connector. The validation reports this."""
        try:
            plugin = self._choice.connector(config.get("name"), {key: text for key, text in config.items() if text is not None})
        except ConnectException:
            return None
        return plugin if plugin.is_java else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _has_no_settings(self, name: str) -> bool:
        """Whether ``name`` is a class of Kafka Connect or of the worker settings whose kind the API does not describe."""
        declared = {text.strip().replace(":", ".") for key, text in self._settings.originals.items() if _PROVIDER_CLASS.fullmatch(key)}
        known = {*_WITHOUT_SETTINGS, *declared}
        simple = {each.rpartition(".")[2] for each in known}
        return name.replace(":", ".") in known | simple | {each.removesuffix("ConfigProvider").removesuffix(_POLICY) for each in simple}

    def _version_of(self, named: str, found: Sequence[Plugin], version: str | None, location: str | None) -> Plugin:
        try:
            requirement(version)
        except ConfigException as error:
            raise BadRequestException(f"Invalid version specification: {version}") from error
        try:
            if found[0].kind in CONNECTOR_KINDS:
                return self._catalog.find_connector(named, version, location)
            return self._catalog.find(found[0].kind, named, version)
        except PluginVersionException as error:
            raise BadRequestException(error.message) from error

    def _own_keys(self, plugin: Plugin) -> list[ConfigKeyView]:
        """The plugin's own settings. They are requested once for each version and each state of the plugin's files."""
        loaded = _fingerprints([plugin])
        known = (plugin, "".join(fingerprint for _, fingerprint in loaded))
        if known not in self._keys:
            if plugin.is_java:
                self._keys[known] = self._java.keys(plugin)
                return self._keys[known]
            request = {"ask": "keys", "kind": str(plugin.kind), "class": plugin.class_name, "version": plugin.version}
            self._keys[known] = keys_of(self._ask(loaded, request, Mask())["keys"])
        return self._keys[known]

    def _ask(self, locations: Fingerprints, request: Mapping[str, object], mask: Mask) -> dict[str, Any]:
        with _masking(mask):
            return self._pool.ask(locations, request)

    def _locations(self, config: Given) -> Fingerprints:
        """The locations whose code a validation of ``config`` loads. Names without a plugin are ignored."""
        texts = {key: text for key, text in config.items() if text is not None}
        asked: list[Callable[[], Plugin]] = [lambda: self._choice.connector(texts.get("name"), texts)]
        asked += [lambda role=role: self._choice.converter(role, texts) for role in CONVERTER_KINDS]  # type: ignore[misc]
        for listed, kind in (("transforms", PluginKind.TRANSFORMATION), ("predicates", PluginKind.PREDICATE)):
            for alias in filter(None, map(str.strip, texts.get(listed, "").split(","))):
                prefix = f"{listed}.{alias}."
                named, spec = texts.get(f"{prefix}type", "").strip(), texts.get(f"{prefix}{VERSION_ENDING}")
                asked.append(lambda kind=kind, named=named, spec=spec: self._choice.other(kind, named, spec))  # type: ignore[misc]
        found = []
        for choose in asked:
            with suppress(ConnectException):  # the validation reports it
                found.append(choose())
        return _fingerprints(found)


@contextmanager
def _masking(mask: Mask) -> Iterator[None]:
    """Hides secrets in exceptions of the block."""
    try:
        yield
    except ConfigException as error:
        raise ConfigException(mask(error.message), errors=map(mask, error.errors)) from None
    except ConnectException as error:
        raise type(error)(mask(error.message)) from None
    except NotImplementedError as error:
        raise NotImplementedError(mask(str(error))) from None


def _plugin_view(plugin: Plugin) -> PluginView:
    """The plugin as a view. Includes the location of a Java plugin, because a Python plugin may have the same name."""
    location = plugin.location.name if plugin.is_java and plugin.location is not None else None
    return PluginView(plugin.class_name, str(plugin.kind), None if plugin.version == UNDEFINED else plugin.version, location)


def _fingerprints(plugins: Sequence[Plugin]) -> Fingerprints:
    found = (plugin.location or editable_location(plugin.reference) for plugin in plugins)
    located = {location.path: location for location in found if location is not None}
    try:
        return frozenset((path, location.fingerprint()) for path, location in located.items())
    except OSError as error:
        raise ConnectException(f"A plugin's location cannot be read: {error}") from error


def _without_ending(name: str) -> str:
    return name.removesuffix("Connector") or name


def _unresolved(config: Given, providers: Mapping[str, ConfigProvider], resolved: Given) -> list[str]:
    """A warning for each variable that remains in ``resolved``."""
    left = config_providers.variables(resolved)
    return config_providers.unresolved_warnings(
        config, providers, {text: "" for text in config_providers.variables(config) if text not in left}
    )


def _warned(validation: Validation, warnings: Sequence[str]) -> Validation:
    return dataclasses.replace(validation, warnings=[*validation.warnings, *warnings])


def _masked(validation: Validation, config: Given, resolved: Mapping[str, str | None], mask: Mask) -> Validation:
    """Replaces the values of variables by the variables, except public values, and hides secrets. ``config`` has the texts to show."""

    def visible(value: ConfigValueView) -> ConfigValueView:
        text = value.value
        if text is not None and config.get(value.name) != resolved.get(value.name):
            text = config.get(value.name)
        elif text and is_secret_key(value.name):
            text = HIDDEN
        is_shown = text is None or (text == config.get(value.name) and is_variable(text))
        return ConfigValueView(
            name=mask(value.name),
            value=text if is_shown else mask(without_url_passwords(text or "")),
            errors=tuple(map(mask, value.errors)),
            recommended_values=tuple(map(mask, value.recommended_values)),
            visible=value.visible,
        )

    given = (resolved.get(value.name) for key, value in validation.configs if key is not None and key.type == "PASSWORD")
    mask.add(filter(None, given))  # secrets of converters too
    configs = tuple(ValidatedKey(None if key is None else _masked_key(key, mask), visible(value)) for key, value in validation.configs)
    groups, warnings = tuple(map(mask, validation.groups)), tuple(map(mask, validation.warnings))
    return dataclasses.replace(validation, groups=groups, configs=configs, warnings=warnings)


def _masked_key(key: ConfigKeyView, mask: Mask) -> ConfigKeyView:
    """Hides secrets in a key. Definitions may also contain text of a config: aliases of transformations, and text that plugins' own code
    adds."""
    return dataclasses.replace(
        key,
        name=mask(key.name),
        default_value=None if key.default_value is None else mask(key.default_value),
        documentation=mask(key.documentation),
        group=None if key.group is None else mask(key.group),
        display_name=mask(key.display_name),
        dependents=tuple(map(mask, key.dependents)),
    )
