"""The settings of a source's new topics: ``topic.creation.*`` of its config, as groups (KIP-158, contract §4.6). Knows no broker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.data.java_text import regex_error, text_of
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import REQUIRED, ConfigDef, ConfigKey, Type, Validator, parse_type

PREFIX: Final = "topic.creation."
GROUPS: Final = f"{PREFIX}groups"
DEFAULT: Final = "default"
BROKERS_DEFAULT: Final = -1

_REPLICATION: Final = (
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, or -1 to use the broker's default"
)
_PARTITIONS: Final = "Number of partitions must be positive, or -1 to use the broker's default"


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """The settings of one group's new topics. For partitions and replication factor, -1 means the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    include: tuple[BoundedRegex, ...]
    exclude: tuple[BoundedRegex, ...]

    def includes(self, topic: str) -> bool:
        """Whether the whole name matches an expression of ``include`` (default: any name), and no expression of ``exclude``. Raises
        ConfigException, with the key, if an expression takes too long."""
        if self.name != DEFAULT and not any(pattern.matches(topic) for pattern in self.include):
            return False
        return not any(pattern.matches(topic) for pattern in self.exclude)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """The groups of one connector in order; the last one is ``default``, which includes every other topic."""

    groups: tuple[TopicGroup, ...]

    @classmethod
    def of(cls, config: Mapping[str, str]) -> TopicCreation | None:
        """The groups of a config whose variables are resolved. None: the config has no key under ``topic.creation.``, so no topics are
        created.

        Raises ConfigException with all errors.
        """
        if not uses_topic_creation(config):
            return None
        errors: list[str] = []
        default = _parsed(config, DEFAULT, REQUIRED, REQUIRED, errors)
        names = [name for name in dict.fromkeys(parse_type(GROUPS, config.get(GROUPS, ""), Type.LIST)) if name != DEFAULT]
        parsed = {name: _parsed(config, name, default["partitions"], default["replication.factor"], errors) for name in names}
        if errors:
            raise ConfigException("\n".join(errors), errors=errors)
        groups = [_group(config, name, values) for name, values in parsed.items()]
        return cls((*groups, _group(config, DEFAULT, default | {"include": [], "exclude": []})))

    def group_of(self, topic: str) -> TopicGroup:
        """The first group that includes ``topic``."""
        return next(group for group in self.groups if group.includes(topic))


def uses_topic_creation(config: Mapping[str, str]) -> bool:
    """Whether a config has any key under ``topic.creation.``."""
    return any(key.startswith(PREFIX) for key in config)


def unused_keys(config: Mapping[str, str]) -> list[str]:
    """Keys under ``topic.creation.`` that belong to no group in ``topic.creation.groups``. Connect ignores them."""
    known = {DEFAULT, *(name.strip() for name in config.get(GROUPS, "").split(","))}
    return [key for key in config if key.startswith(PREFIX) and key != GROUPS and not _group_in(key, known)]


def _group_in(key: str, names: set[str]) -> bool:
    return any(key.startswith(f"{PREFIX}{name}.") for name in names)


def _parsed(config: Mapping[str, str], group: str, partitions: object, replicas: object, errors: list[str]) -> dict[str, Any]:
    """The four settings of a group, by their names without the prefix. Adds errors to ``errors``."""
    prefix = f"{PREFIX}{group}."
    is_default = group == DEFAULT  # the default group includes every topic and excludes none, whatever the config
    patterns = (
        [] if is_default else [ConfigKey(f"{prefix}{key}", Type.LIST, "", validator=_check_regexes) for key in ("include", "exclude")]
    )
    definition = ConfigDef(
        *patterns,
        ConfigKey(f"{prefix}replication.factor", Type.SHORT, replicas, validator=_positive(_REPLICATION)),
        ConfigKey(f"{prefix}partitions", Type.INT, partitions, validator=_positive(_PARTITIONS)),
    )
    found = definition.validate(config)
    errors += [error for value in found for error in value.errors]
    return {value.name.removeprefix(prefix): value.value for value in found}


def _check_regexes(name: str, value: Any) -> None:
    for pattern in value or ():
        try:
            BoundedRegex(pattern, name)
        except re.error as error:
            raise ConfigException.of(name, text_of(value), f"Syntax error in regular expression: {regex_error(pattern, error)}") from error


def _positive(reason: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is not None and value != BROKERS_DEFAULT and value < 1:
            raise ConfigException.of(name, value, reason)

    return check


def _group(config: Mapping[str, str], name: str, values: Mapping[str, Any]) -> TopicGroup:
    return TopicGroup(
        name,
        values["partitions"],
        values["replication.factor"],
        dict(_topic_configs(config, f"{PREFIX}{name}.")),
        *(tuple(BoundedRegex(text, f"{PREFIX}{name}.{key}") for text in values[key]) for key in ("include", "exclude")),
    )


def _topic_configs(config: Mapping[str, str], prefix: str) -> Iterator[tuple[str, str]]:
    """All other settings under the prefix, which are settings of the topic itself."""
    for key, text in config.items():
        name = key.removeprefix(prefix)
        if key.startswith(prefix) and name not in ("include", "exclude", "partitions", "replication.factor"):
            yield name, text
