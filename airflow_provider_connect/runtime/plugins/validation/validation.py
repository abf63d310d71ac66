"""The complete validation of a connector's config, as ``PUT /connector-plugins/«p»/config/validate`` returns it (contract §5.2).

Runs the plugins' code, so it needs a process that may hang or die. Other processes call ``plugins.probe``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.data.java_text import in_hash_order
from airflow_provider_connect.errors import BadRequestException, ConfigException, PluginVersionException
from airflow_provider_connect.kafka_client.keys import client_config_def
from airflow_provider_connect.runtime.config.client_settings import (
    ClientKind,
    client_config,
    clients_of,
    connector_overrides,
    refused_overrides,
)
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.config_limits import TASK_MEMORY
from airflow_provider_connect.runtime.model.connector_keys import names_of, own_config_def, strip_framework_keys
from airflow_provider_connect.runtime.model.connector_settings import NO_CLASS, NULL_VALUE, check_topics
from airflow_provider_connect.runtime.model.unknown_settings import unknown_settings
from airflow_provider_connect.runtime.model.views import ConfigKeyView, ConfigValueView, ValidatedKey, Validation
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import CONVERTER_KINDS, VERSION_ENDING, PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, Plugin, PluginKind
from airflow_provider_connect.runtime.plugins.validation.class_keys import create_instance
from airflow_provider_connect.runtime.plugins.validation.connector_definition import CLASS_KEY, VERSION_KEY, ConnectorDefinition
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import (
    GUARANTEE,
    backfill_errors,
    check_delivery,
    check_group,
    data_topic_errors,
    guarantee_errors,
    memory_errors,
    refusal_of_topics,
    tasks_errors,
)
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, ConfigValue, parse_type
from airflow_provider_connect.sdk.connector import Connector

Given = Mapping[str, str | None]
Pair = tuple[ConfigKey | None, ConfigValue | None]
_TYPE: Final = "converter.type"


@dataclass(slots=True)
class _Part:
    """Keys with their values, and their groups."""

    groups: Iterable[str]
    pairs: list[Pair]


def validate_config(choice: PluginChoice, config: Given) -> Validation:
    """Validate ``config``. Its variables must already be resolved. Raises BadRequestException or ConfigException if validation is
    impossible: no class, an unknown class, an invalid version range."""
    named = config.get(CLASS_KEY)
    if named is None:
        raise BadRequestException(NO_CLASS)
    texts = {key: text for key, text in config.items() if text is not None}
    versions = choice.catalog.named(named, CONNECTOR_KINDS)
    definition = ConnectorDefinition(choice, config, versions)
    try:
        plugin = choice.connector(config.get("name"), texts)
    except PluginVersionException as error:
        return _without_connector(named, definition.bare(), config, error.message)
    return _Validating(choice, config, plugin, definition).whole()


def _without_connector(named: str, definition: ConfigDef, config: Given, error: str) -> Validation:
    """The validation if no version of the connector is in the requested range."""
    found = {value.name: value for value in definition.validate(config)}
    for key in (CLASS_KEY, VERSION_KEY):
        found[key].errors.append(error)
    _add_null_errors(found, config)
    return _validation(named, _Part(definition.groups(), list(_paired(definition.keys, found))), [])


class _Validating:
    """The state of one validation."""

    def __init__(self, choice: PluginChoice, config: Given, plugin: Plugin, definition: ConnectorDefinition) -> None:
        self._choice = choice
        self._config = config
        self._visible = strip_framework_keys({key: text for key, text in config.items() if text is not None})
        self._plugin = plugin
        self._is_sink = plugin.kind is PluginKind.SINK
        self._definition = definition

    def whole(self) -> Validation:
        """The whole validation. Keys are in this order: (1) the framework's; (2) the connector's; (3) the clients'; (4) the converters'."""
        connector = self._connector()
        framework = self._definition.of_kind(is_sink=self._is_sink)
        found = self._framework_values(framework, connector)
        own = self._own_values(connector)
        for key, errors in data_topic_errors(self._choice.settings, self._visible, connector).items():
            value = own.get(key) or found.setdefault(key, ConfigValue(key, self._config.get(key)))
            value.errors += [error for error in errors if error not in value.errors]
        converters = [part for role in ("header", "key", "value") if (part := self._converter(role, found)) is not None]
        keys = {**framework.keys, **self._our_keys(connector), **connector.config_def.keys}
        _add_null_errors({**found, **own}, self._config, found)
        first = _Part([*framework.groups(), *connector.config_def.groups()], list(_paired(keys, {**found, **own})))
        overrides: list[Pair] = list(validate_overrides(self._choice.settings, self._config, is_sink=self._is_sink))
        clients = _Part([key.group for key, _ in overrides if key is not None and key.group is not None], overrides)
        validation = _validation(str(self._config[CLASS_KEY]), first, [clients, *converters])
        return dataclasses.replace(validation, warnings=self._warnings(connector, framework, validation))

    def _warnings(self, connector: Connector, framework: ConfigDef, validation: Validation) -> list[str]:
        """Warnings about settings that no plugin reads, and about values. Unread settings of a transformation, predicate or converter with
        a wrong class are left out, because their definition is unknown."""
        task_def = getattr(getattr(connector, "task_class", None), "config_def", None)
        definitions = (framework, own_config_def(), connector.config_def, task_def or ConfigDef())
        known = {name for definition in definitions for name in names_of(definition)}
        known |= {value.name for _, value in validation.configs}
        wrong = tuple(f"{value.name.removesuffix('.type')}." for _, value in validation.configs if value.errors and _kind_of(value.name))
        unknown = unknown_settings([key for key in self._config if not (wrong and key.startswith(wrong))], known)
        return [*unknown, *framework.warnings(self._config), *connector.config_def.warnings(self._visible)]

    def _connector(self) -> Connector:
        loaded = self._plugin.load()
        if not isinstance(loaded, type) or not issubclass(loaded, Connector):
            raise ConfigException(f"Class class {self._plugin.class_name} does not extend the Connector base")
        connector = loaded()
        connector.allowed_paths = self._choice.settings.allowed_paths
        connector.allowed_spark = self._choice.settings.allowed_spark
        connector.refusal_of_topic = refusal_of_topics(self._choice.settings, self._visible)
        if not isinstance(connector.config_def, ConfigDef):
            raise BadRequestException(f"{self._plugin.class_name}.config() must return a ConfigDef that is not null.")
        return connector

    def _framework_values(self, framework: ConfigDef, connector: Connector) -> dict[str, ConfigValue]:
        found = {value.name: value for value in framework.validate(self._config)}
        for key, errors in self._definition.stage_errors.items():
            found[key].errors += [error for error in errors if error not in found[key].errors]
        self._show_class_names(found)
        settings = self._choice.settings
        tasks_max = found["tasks.max"]
        tasks_max.errors += tasks_errors(settings, tasks_max.value)
        if self._is_sink:
            check_topics(found)
            check_group(settings, self._config, found)
        check_delivery(settings, self._visible, found, connector)
        return found

    def _show_class_names(self, found: Mapping[str, ConfigValue]) -> None:
        """Show an alias as its class, and an unknown class as null."""
        for name, value in found.items():
            kind = _kind_of(name)
            if kind is None or value.value is None:
                continue
            plugins = [] if value.errors else self._choice.catalog.used_by(str(value.value), kind, is_java=False)
            if plugins:
                value.value = plugins[0].class_name
            elif any("could not be found" in error for error in value.errors):
                value.value = None

    def _own_values(self, connector: Connector) -> dict[str, ConfigValue]:
        values = connector.validate(self._visible)  # the framework reports nulls, which connectors' code does not expect
        if values is None:
            raise BadRequestException(f"{self._plugin.class_name}.validate() must return a Config that is not null.")
        found = {value.name: value for value in values}
        for name in found.keys() & {key for key, text in self._config.items() if text is None}:
            found[name] = dataclasses.replace(found[name], value=None, errors=[])
        for key in self._our_keys(connector).values():
            found.update({value.name: value for value in ConfigDef(key).validate(self._config)})
        for name, errors in backfill_errors(self._visible, connector).items():
            found[name].errors += errors
        if TASK_MEMORY in found and not found[TASK_MEMORY].errors:
            found[TASK_MEMORY].errors += memory_errors(self._choice.settings, self._visible.get(TASK_MEMORY))
        if GUARANTEE in found and not found[GUARANTEE].errors:
            found[GUARANTEE].errors += guarantee_errors(self._choice.settings, self._visible, connector)
        return found

    def _our_keys(self, connector: Connector) -> dict[str, ConfigKey]:
        """This package's own settings that the config contains. Connect would not list them."""
        return {name: key for name, key in own_config_def().keys.items() if name in self._config and name not in connector.config_def.keys}

    def _converter(self, role: str, found: Mapping[str, ConfigValue]) -> _Part | None:
        """The settings of a converter that the config itself names. None: the config names no converter, or a converter with errors."""
        name = f"{role}.converter"
        of_class, of_version = found[name], found[f"{name}.{VERSION_ENDING}"]
        named = self._config.get(name)
        if named is None or of_class.errors or of_version.errors:
            return None
        kind = CONVERTER_KINDS[role]
        try:
            plugin = self._choice.other(kind, named.strip(), self._config.get(f"{name}.{VERSION_ENDING}"))
            definition: ConfigDef = create_instance(plugin, kind, name).config_def
        except PluginVersionException as error:
            of_class.errors.append(error.message)
            of_version.errors.append(error.message)
            return None
        except ConfigException as error:
            of_class.errors.append(f"Failed to load class {named}: {error}")
            return None
        prefix = f"{name}."
        given = {_TYPE: role} | {key.removeprefix(prefix): text for key, text in self._config.items() if key.startswith(prefix)}
        try:
            values = {value.name: value for value in definition.validate(given)}
        except Exception as error:  # (the converter's own validators)
            of_class.errors.append(f"Failed to perform config validation for {role} converter: {error}")
            return None
        pairs: list[Pair] = [(definition.keys.get(key), value) for key, value in in_hash_order(values.items()).items()]
        for value in values.values():
            value.name = f"{prefix}{value.name}"
        groups = (key.group for key, _ in pairs if key is not None and key.group is not None)
        return _Part(list(dict.fromkeys(groups)), pairs)


def _kind_of(key: str) -> PluginKind | None:
    """The required kind of the class that ``key`` names."""
    if key.endswith(".converter"):
        return CONVERTER_KINDS.get(key.removesuffix(".converter"))
    if key.endswith(".type") and key.startswith(("transforms.", "predicates.")):
        return PluginKind.TRANSFORMATION if key.startswith("transforms.") else PluginKind.PREDICATE
    return None


def _add_null_errors(known: Mapping[str, ConfigValue], config: Given, into: dict[str, ConfigValue] | None = None) -> None:
    """Add an error for each null, because null is never a valid value. An undefined key gets a separate value with this error."""
    for key, text in config.items():
        if text is not None:
            continue
        if key in known:
            known[key].errors.append(NULL_VALUE)
        elif into is not None:
            into[key] = ConfigValue(key, errors=[NULL_VALUE])


def _paired(keys: Mapping[str, ConfigKey], found: Mapping[str, ConfigValue]) -> Iterator[Pair]:
    """Pairs of key and value. Values without a definition come first. The keys follow in their order."""
    yield from ((None, value) for name, value in found.items() if name not in keys)
    yield from ((key, found.get(name)) for name, key in keys.items())


def _validation(named: str, first: _Part, others: Sequence[_Part]) -> Validation:
    groups = dict.fromkeys(group for part in (first, *others) for group in part.groups)
    rest = [pair for part in others for pair in part.pairs]
    configs = tuple(ValidatedKey(_key_view(key, value), _value_view(key, value)) for key, value in (*first.pairs, *rest))
    return Validation.counted(named, tuple(groups), configs, counted_by_key=len(rest))


def _key_view(key: ConfigKey | None, value: ConfigValue | None) -> ConfigKeyView | None:
    return None if key is None else key_view(key, key.name if value is None else value.name)


def key_view(key: ConfigKey, name: str | None = None) -> ConfigKeyView:
    """A definition in the form of views. ``name`` is the name with the prefix, if the key itself has no prefix."""
    about: dict[str, Any] = key.describe()
    return ConfigKeyView(
        name=name or key.name,
        type=about["type"],
        required=about["required"],
        default_value=about["default_value"],
        importance=about["importance"],
        documentation=about["documentation"],
        group=about["group"],
        width=about["width"],
        display_name=about["display_name"],
        dependents=tuple(about["dependents"]),
        order=about["order_in_group"],
    )


def _value_view(key: ConfigKey | None, value: ConfigValue | None) -> ConfigValueView:
    """The value as a view. If a connector reports nothing about one of its own keys, the key is treated as valid."""
    if value is None:
        assert key is not None
        value = ConfigValue(key.name)
    about = value.describe()
    return ConfigValueView(value.name, about["value"], tuple(about["recommended_values"]), tuple(value.errors), value.visible)


def validate_overrides(
    settings: WorkerSettings, config: Mapping[str, str | None], *, is_sink: bool
) -> Iterator[tuple[ConfigKey | None, ConfigValue]]:
    """Validates each override of a client that the connector uses, and any other override that is refused. A result has the prefix in its
    name, and a definition if Kafka defines the setting.

    Error texts name the settings without the prefix, as in Connect.
    """
    given = {name: text for name, text in config.items() if text is not None}
    kinds = clients_of(settings, given, is_sink=is_sink)
    refused = refused_overrides(settings, given, kinds)
    for kind in kinds:
        overrides = connector_overrides(given, kind)
        unusable = _unusable(settings, kind, overrides)
        for name, text in in_hash_order(overrides.items()).items():
            errors = [refused.pop(f"{kind}.override.{name}", ""), unusable.get(name, "")]
            yield _one(client_config_def(kind), kind, name, text, errors)
    for key, error in refused.items():
        yield None, ConfigValue(key, given.get(key), errors=[error])


def _one(definition: ConfigDef, kind: ClientKind, name: str, text: str, known: list[str]) -> tuple[ConfigKey | None, ConfigValue]:
    key = definition.keys.get(name)
    found = ConfigValue(f"{kind}.override.{name}", text)
    if key is not None:
        try:
            found.value = parse_type(name, text, key.type)
        except ConfigException as error:
            found.value = None
            found.errors.append(error.message)
    found.errors += [error for error in known if error and error not in found.errors]
    return key, found


def _unusable(settings: WorkerSettings, kind: ClientKind, overrides: Mapping[str, str]) -> dict[str, str]:
    """The features that our own clients do not support, such as Java key stores, by the setting that requests each."""
    try:
        client_config(settings, kind, overrides)
    except ConfigException as error:
        return {name: error.message for name in overrides if f"for configuration {name}:" in error.message}
    return {}
