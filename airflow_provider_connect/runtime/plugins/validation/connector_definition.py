"""The framework's definition of a connector's settings for one config (contract §4.2, §5.2).

Defaults are the worker's converters and the newest versions. The definition includes recommended values, and the keys of the
transformations and predicates that the config names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, ConnectException, PluginVersionException
from airflow_provider_connect.runtime.model.config_limits import MOST_ALIASES
from airflow_provider_connect.runtime.model.connector_keys import common_config_def, sink_config_def, source_config_def
from airflow_provider_connect.runtime.model.versions import requirement
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import CONVERTER_KINDS, VERSION_ENDING, PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, Plugin, PluginKind
from airflow_provider_connect.runtime.plugins.validation.class_keys import (
    ClassCheck,
    ClassChoices,
    VersionChoices,
    check_range,
    create_instance,
    found,
)
from airflow_provider_connect.sdk.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Recommender, Type, Validator, Width

CLASS_KEY: Final = "connector.class"
VERSION_KEY: Final = f"connector.{VERSION_ENDING}"
PREDICATE, NEGATE = "predicate", "negate"
_OF_EVERY_TRANSFORMATION: Final = (
    ConfigKey(PREDICATE, default=None, doc="The alias of a predicate used to determine whether to apply this transformation."),
    ConfigKey(NEGATE, Type.BOOLEAN, False, doc="Whether the configured predicate should be negated."),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Stages:
    """The differences between transformations and predicates: the key that lists the aliases, the words in messages, and the keys that each
    transformation or predicate has."""

    key: str
    kind: PluginKind
    word: str
    group: str
    keys: tuple[ConfigKey, ...] = ()


TRANSFORMS = Stages("transforms", PluginKind.TRANSFORMATION, "Transformation", "Transforms", _OF_EVERY_TRANSFORMATION)
PREDICATES = Stages("predicates", PluginKind.PREDICATE, "Predicate", "Predicates")


class ConnectorDefinition:
    """The definition for one config, whose variables are resolved. Loads the converters, transformations and predicates that the config
    names."""

    def __init__(self, choice: PluginChoice, config: Mapping[str, Any], connector: Sequence[Plugin]) -> None:
        """``connector``: every version of the config's connector."""
        self._choice = choice
        self._config = config
        self._connector = connector
        self.stage_errors: dict[str, list[str]] = {}
        """Errors of transformations and predicates, by key, in addition to the errors of their validators."""

    def bare(self) -> ConfigDef:
        """The keys that need no connector. Reads only versions of plugins."""
        keys = dict(common_config_def().keys)
        keys[VERSION_KEY] = self._version_key(keys[VERSION_KEY])
        for role in CONVERTER_KINDS:
            name = f"{role}.converter.{VERSION_ENDING}"
            keys[name] = dataclasses.replace(keys[name], recommender=VersionChoices(lambda _: [], f"{role}.converter"))
        return ConfigDef(*keys.values())

    def of_kind(self, *, is_sink: bool) -> ConfigDef:
        """The settings of a source or sink, including those of the config's stages."""
        keys = dict((sink_config_def() if is_sink else source_config_def()).keys)
        keys[VERSION_KEY] = self._version_key(keys[VERSION_KEY])
        for role in CONVERTER_KINDS:
            self._enrich_converter(keys, role)
        for stages in (TRANSFORMS, PREDICATES):
            for key in self._stage_keys(stages):
                keys[key.name] = key
        return ConfigDef(*keys.values())

    def _version_key(self, key: ConfigKey) -> ConfigKey:
        default = self._version(lambda: self._choice.connector(self._config.get("name"), {CLASS_KEY: self._config[CLASS_KEY]}))
        recommended = VersionChoices(lambda name: self._choice.catalog.named(name, CONNECTOR_KINDS), CLASS_KEY)
        return dataclasses.replace(key, default=default, validator=check_range, recommender=recommended)

    def _version(self, choose: Callable[[], Plugin]) -> str | None:
        try:
            return choose().version
        except ConnectException:  # reported at the key of the class
            return None

    def _enrich_converter(self, keys: dict[str, ConfigKey], role: str) -> None:
        name, kind, catalog = f"{role}.converter", CONVERTER_KINDS[role], self._choice.catalog
        workers, spec = self._choice.worker_converter(role)
        given = self._config.get(name)
        version = self._version(lambda: self._choice.other(kind, given or workers, None if given else spec))
        keys[name] = dataclasses.replace(
            keys[name].with_default(workers), validator=ClassCheck(self._choice, kind), recommender=ClassChoices(catalog, kind)
        )
        versions = VersionChoices(lambda named: catalog.used_by(named, kind, is_java=False), name)
        of_version = f"{name}.{VERSION_ENDING}"
        keys[of_version] = dataclasses.replace(keys[of_version].with_default(version), validator=check_range, recommender=versions)

    def _stage_keys(self, stages: Stages) -> Iterator[ConfigKey]:
        listed = self._config.get(stages.key) or ""
        aliases = list(dict.fromkeys(part.strip() for part in listed.split(","))) if listed.strip() else []
        for alias in aliases[:MOST_ALIASES]:  # the key's validator reports an error if there are more
            yield from self._keys_of_stage(stages, alias)

    def _keys_of_stage(self, stages: Stages, alias: str) -> Iterator[ConfigKey]:
        prefix, group, catalog = f"{stages.key}.{alias}.", f"{stages.group}: {alias}", self._choice.catalog
        of_type, of_version = f"{prefix}type", f"{prefix}{VERSION_ENDING}"
        named, spec = self._config.get(of_type), self._config.get(of_version)
        definition, error = self._defined(stages, of_type, named, spec)
        word = stages.word.lower()
        yield ConfigKey(
            of_type,
            Type.CLASS,
            validator=_StageCheck(stages, prefix, self._config, error),
            importance=Importance.HIGH,
            doc=f"Class for the '{alias}' {word}.",
            group=group,
            order=0,
            width=Width.LONG,
            display_name=f"{stages.word} type for {alias}",
            recommender=ClassChoices(catalog, stages.kind),
        )
        yield ConfigKey(
            of_version,
            default=self._version(lambda: self._choice.other(stages.kind, str(named).strip(), None)) if named else None,
            validator=check_range,
            importance=Importance.HIGH,
            doc=f"Version of the '{alias}' {word}.",
            group=group,
            order=1,
            width=Width.LONG,
            display_name=f"{stages.word} version for {alias}",
            recommender=VersionChoices(lambda name: catalog.used_by(name, stages.kind, is_java=False), of_type, hides=False),
        )
        if definition is not None:
            own = [key for name, key in definition.keys.items() if name not in {common.name for common in stages.keys}]
            for order, key in enumerate(_as_shown(ConfigDef(*stages.keys, *own)), start=2):
                yield _embedded(key, prefix, group, order)

    def _defined(self, stages: Stages, key: str, named: str | None, spec: str | None) -> tuple[ConfigDef | None, ConfigException | None]:
        """The stage's own settings, or the error of its class."""
        if named is None:
            return None, None
        name = named.strip()
        try:
            requirement(spec)
        except ConfigException:  # reported by the version's own validator
            return None, None
        try:
            found(self._choice.catalog, stages.kind, key, name)
            plugin = self._choice.other(stages.kind, name, spec)
        except PluginVersionException as error:
            self.stage_errors[key] = self.stage_errors[key.removesuffix("type") + VERSION_ENDING] = [error.message]
            return None, None
        except ConfigException as error:
            return None, error
        try:
            definition: ConfigDef = create_instance(plugin, stages.kind, key).config_def
        except ConfigException as error:
            text = f"Error getting config definition from {stages.word}: {error}"
            return None, error if error.message.startswith(("Class class", "This class")) else ConfigException.of(key, name, text)
        return definition, None


class _StageCheck:
    """Validator of a stage's type: a negation needs a predicate, and the class must be of the right kind."""

    def __init__(self, stages: Stages, prefix: str, config: Mapping[str, Any], error: ConfigException | None) -> None:
        self._stages = stages
        self._prefix = prefix
        self._config = config
        self._error = error

    def __call__(self, name: str, value: Any) -> None:
        if self._error is not None:
            raise self._error
        negate, predicate = f"{self._prefix}{NEGATE}", f"{self._prefix}{PREDICATE}"
        if self._stages.keys and negate in self._config and predicate not in self._config:
            raise ConfigException(
                f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
            )


def _as_shown(definition: ConfigDef) -> list[ConfigKey]:
    """Sorted by group, order, required first, importance and name, as Kafka sorts embedded keys."""
    groups, importances = definition.groups(), list(Importance)

    def rank(key: ConfigKey) -> tuple[int, int, bool, int, str]:
        group = -1 if key.group is None else groups.index(key.group)
        return group, key.order, key.default is not REQUIRED, importances.index(key.importance), key.name

    return sorted(definition.keys.values(), key=rank)


def _embedded(key: ConfigKey, prefix: str, group: str, order: int) -> ConfigKey:
    return dataclasses.replace(
        key,
        name=f"{prefix}{key.name}",
        group=group,
        order=order,
        display_name=key.name if key.display_name is None else key.display_name,
        dependents=tuple(f"{prefix}{name}" for name in key.dependents),
        validator=None if key.validator is None else _EmbeddedCheck(prefix, key.validator),
        recommender=None if key.recommender is None else _EmbeddedChoices(prefix, key.recommender),
        alias=None if key.alias is None else f"{prefix}{key.alias}",
    )


class _EmbeddedCheck:
    """A validator that receives, and uses in errors, the name without the prefix."""

    def __init__(self, prefix: str, check: Validator) -> None:
        self._prefix = prefix
        self._check = check

    def __call__(self, name: str, value: Any) -> None:
        self._check(name.removeprefix(self._prefix), value)


class _EmbeddedChoices:
    """A recommender that receives only its own settings, without the prefix."""

    def __init__(self, prefix: str, choices: Recommender) -> None:
        self._prefix = prefix
        self._choices = choices

    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        return self._choices.valid_values(name.removeprefix(self._prefix), self._own(parsed))

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return self._choices.visible(name.removeprefix(self._prefix), self._own(parsed))

    def _own(self, parsed: Mapping[str, object]) -> dict[str, object]:
        return {name.removeprefix(self._prefix): value for name, value in parsed.items() if name.startswith(self._prefix)}
