"""A connector's settings for the framework, as one value. Knows nothing of plugins: class names remain names.

``ConnectorSettings.of`` reports all errors of a config together, in Kafka Connect's words (contract §5.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from airflow_provider_connect.data.java_text import text_of
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.backfill import OF, RANGES, Ranges, ranges_of, topics_error
from airflow_provider_connect.runtime.model.config_limits import TASK_MEMORY, cut, memory_bytes
from airflow_provider_connect.runtime.model.connector_keys import own_config_def, sink_config_def, source_config_def
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import ConfigValue, Type, parse_type

NO_CLASS: Final = "Connector config contains no connector type"
NULL_VALUE: Final = "Null value can not be supplied as the configuration value."
_CLIENTS: Final = ("producer", "consumer", "admin")


class Guarantee(StrEnum):
    """The number of times that a record may arrive after failures."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class TransactionBoundary(StrEnum):
    """The event at which an exactly-once source ends a transaction."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """A plugin that the config names, with the settings under the plugin's prefix. The settings' names are without the prefix.
    ``plugin.version`` is left out."""

    class_name: str
    version: str | None
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TransformationSettings(PluginSettings):
    """One transformation. ``predicate`` is an alias. None: the transformation applies to all records."""

    alias: str
    predicate: str | None
    negate: bool


@dataclass(frozen=True, slots=True)
class ErrorSettings:
    """The ``errors.*`` keys. ``retry_timeout_ms`` -1: no limit. ``dead_letter_topic`` None: no dead letter queue."""

    retry_timeout_ms: int
    retry_delay_max_ms: int
    tolerates_all: bool
    log_enable: bool
    log_include_messages: bool
    dead_letter_topic: str | None = None
    dead_letter_replication_factor: int = 3
    dead_letter_context_headers: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """A valid config. A value of None means that the worker's setting applies.

    ``overrides`` are client settings by kind of client (producer, consumer, admin), without the prefix. ``ranges`` are the ranges that a
    sink reads. Empty: it reads everything. ``is_backfill``: the connector has a single run, which ends when all data is delivered.
    """

    name: str
    connector_class: str
    plugin_version: str | None
    is_sink: bool
    tasks_max: int
    tasks_max_enforce: bool
    key_converter: PluginSettings | None
    value_converter: PluginSettings | None
    header_converter: PluginSettings | None
    transforms: tuple[TransformationSettings, ...]
    predicates: Mapping[str, PluginSettings]
    topics: tuple[str, ...]
    topics_regex: str | None
    requires_exactly_once: bool
    transaction_boundary: TransactionBoundary
    transaction_boundary_interval_ms: int | None
    delivery_guarantee: Guarantee | None
    destination_rollback: str | None
    batch_max_records: int | None
    batch_max_duration_ms: int | None
    task_memory_max: int | None
    tasks_per_application: int | None
    overrides: Mapping[str, Mapping[str, str]]
    errors: ErrorSettings
    ranges: Ranges
    is_backfill: bool

    @classmethod
    def of(cls, config: Mapping[str, str], *, is_sink: bool | None = None) -> ConnectorSettings:
        """The settings of a config whose variables are resolved. Raises ConfigException with all errors.

        ``is_sink`` None: the connector is a sink if the config has ``topics`` or ``topics.regex``.
        """
        sink = ("topics" in config or "topics.regex" in config) if is_sink is None else is_sink
        found = [*validate_framework_keys(config, is_sink=sink), *own_config_def().validate(config)]
        errors = [error for value in found for error in value.errors]
        values: dict[str, Any] = {value.name: value.value for value in found}
        errors += _alias_errors(config, values)
        errors += text_errors(config).values()
        errors += filter(None, [topics_error(config) if sink else ""])
        if errors:
            raise ConfigException("\n".join(errors), errors=errors)
        return cls(
            name=values["name"],
            connector_class=values["connector.class"],
            plugin_version=values["connector.plugin.version"],
            is_sink=sink,
            tasks_max=values["tasks.max"],
            tasks_max_enforce=values["tasks.max.enforce"],
            key_converter=_converter(config, "key.converter"),
            value_converter=_converter(config, "value.converter"),
            header_converter=_converter(config, "header.converter"),
            transforms=tuple(_transformation(config, alias) for alias in values["transforms"]),
            predicates={alias: _plugin(config, f"predicates.{alias}.", "type") for alias in values["predicates"]},
            topics=_topics(values),
            topics_regex=values.get("topics.regex") or None,
            requires_exactly_once=str(values.get("exactly.once.support", "")).lower() == "required",
            transaction_boundary=TransactionBoundary(values.get("transaction.boundary", "poll").lower()),
            transaction_boundary_interval_ms=values.get("transaction.boundary.interval.ms"),
            delivery_guarantee=None if values["delivery.guarantee"] is None else Guarantee(values["delivery.guarantee"]),
            destination_rollback=values["destination.rollback"],
            batch_max_records=values["batch.max.records"],
            batch_max_duration_ms=values["batch.max.duration.ms"],
            task_memory_max=None if values[TASK_MEMORY] is None else memory_bytes(values[TASK_MEMORY]),
            tasks_per_application=values["tasks.per.application"],
            overrides={client: _below(config, f"{client}.override.") for client in _CLIENTS},
            errors=_error_settings(values),
            ranges=ranges_of(config) if sink else {},
            is_backfill=bool(config.get(OF) or config.get(RANGES)),
        )

    def reads_topic(self, topic: str) -> bool:
        """Whether a sink reads this topic. Raises ConfigException if matching ``topics.regex`` takes too long."""
        return topic in self.topics if self.topics_regex is None else topics_pattern(self.topics_regex).matches(topic)


@lru_cache(maxsize=100)
def topics_pattern(expression: str) -> BoundedRegex:
    """The value of ``topics.regex``. Raises ConfigException for an expression that is valid only in Java."""
    try:
        return BoundedRegex(expression, "topics.regex")
    except re.error as error:
        reason = f"the expression is not valid in Python's syntax, by which topics are matched here: {cut(error.msg)}"
        raise ConfigException.of("topics.regex", cut(expression), reason) from error


def text_errors(config: Mapping[str, str | None]) -> dict[str, str]:
    """The errors of keys and values with forbidden characters, by key. Clients and file systems in C end a value at a NUL character. So the
    value that they use would differ from the value that was checked."""
    errors = {}
    for key, value in config.items():
        if any(character < " " or character == "\x7f" for character in key):
            errors[key] = f"Invalid configuration key {key!r}: it holds control characters; remove them."
        elif value is not None and "\0" in value:
            errors[key] = f"Invalid value for configuration {key}: it holds a NUL character (U+0000); remove it."
    return errors


def validate_framework_keys(config: Mapping[str, str], *, is_sink: bool, defaults: Mapping[str, object] | None = None) -> list[ConfigValue]:
    """The values of the keys that every connector has, with their errors. A value for each other key that is null follows."""
    definition = sink_config_def(defaults) if is_sink else source_config_def(defaults)
    found = definition.validate(config)
    by_name = {value.name: value for value in found}
    if is_sink:
        check_topics(by_name)
    for key, text in config.items():
        if text is None:
            if key not in by_name:
                by_name[key] = ConfigValue(key)
                found.append(by_name[key])
            by_name[key].errors.append(NULL_VALUE)
    return found


def check_topics(found: Mapping[str, ConfigValue]) -> None:
    """Applies the rules that involve several keys of a sink (SinkConnectorConfig). Adds errors to the values in ``found``."""
    topics, regex = _topics({"topics": found["topics"].value}), found["topics.regex"].value
    dead_letters = found["errors.deadletterqueue.topic.name"].value
    if not topics and not regex:
        _report(found, ("topics", "topics.regex"), "Must configure one of topics or topics.regex")
    elif topics and regex:
        _report(found, ("topics", "topics.regex"), "topics and topics.regex are mutually exclusive options, but both are set.")
    elif dead_letters and dead_letters in topics:
        of_topics = f"'topics={text_of(list(topics))}'"
        text = f"The DLQ topic '{dead_letters}' may not be included in the list of topics ({of_topics}) consumed by the connector"
        _report(found, ("topics",), text)
    elif dead_letters and regex and not found["topics.regex"].errors:
        _check_dead_letters(found, str(regex), str(dead_letters))


def _check_dead_letters(found: Mapping[str, ConfigValue], regex: str, dead_letters: str) -> None:
    try:
        is_read = topics_pattern(regex).matches(dead_letters)
    except ConfigException as error:
        _report(found, ("topics.regex",), error.message)
        return
    if is_read:
        of_topics = f"'topics.regex={regex}'"
        text = f"The DLQ topic '{dead_letters}' may not be matched by the regex for the topics ({of_topics}) consumed by the connector"
        _report(found, ("topics.regex",), text)


def _report(found: Mapping[str, ConfigValue], keys: Iterable[str], error: str) -> None:
    for key in keys:
        found[key].errors.append(error)


def _topics(values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(topic for topic in values.get("topics") or () if topic))


def _alias_errors(config: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[str]:
    """The errors in the keys of transformations and predicates, as far as they can be found without the plugins' classes."""
    aliases = {"predicates": dict.fromkeys(values["predicates"] or ()), "transforms": dict.fromkeys(values["transforms"] or ())}
    for kind, alias in ((kind, alias) for kind, names in aliases.items() for alias in names):
        if not config.get(f"{kind}.{alias}.type"):
            yield f'Missing required configuration "{kind}.{alias}.type" which has no default value.'
    for alias in aliases["transforms"]:
        prefix = f"transforms.{alias}."
        predicate = config.get(f"{prefix}predicate")
        if predicate is None and f"{prefix}negate" in config:
            yield (f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a predicate to be negated.")
        if predicate is not None and predicate not in aliases["predicates"]:
            yield f"Invalid value {predicate} for configuration {prefix}predicate: not an alias in predicates"
        try:
            parse_type(f"{prefix}negate", config.get(f"{prefix}negate"), Type.BOOLEAN)
        except ConfigException as error:
            yield error.message


def _transformation(config: Mapping[str, str], alias: str) -> TransformationSettings:
    prefix = f"transforms.{alias}."
    plugin = _plugin(config, prefix, "type", "predicate", "negate")
    negate = bool(parse_type(f"{prefix}negate", config.get(f"{prefix}negate"), Type.BOOLEAN))
    return TransformationSettings(
        plugin.class_name, plugin.version, plugin.config, alias=alias, predicate=config.get(f"{prefix}predicate"), negate=negate
    )


def _plugin(config: Mapping[str, str], prefix: str, class_key: str, *more: str) -> PluginSettings:
    below = _below(config, prefix)
    version = below.pop("plugin.version", None)
    class_name = below.pop(class_key).strip()
    for key in more:
        below.pop(key, None)
    return PluginSettings(class_name, version, below)


def _converter(config: Mapping[str, str], key: str) -> PluginSettings | None:
    class_name = config.get(key)
    if class_name is None:
        return None
    below = _below(config, f"{key}.")
    return PluginSettings(class_name.strip(), below.pop("plugin.version", None), below)


def _below(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): text for key, text in config.items() if key.startswith(prefix)}


def _error_settings(values: Mapping[str, Any]) -> ErrorSettings:
    return ErrorSettings(
        retry_timeout_ms=values["errors.retry.timeout"],
        retry_delay_max_ms=values["errors.retry.delay.max.ms"],
        tolerates_all=values["errors.tolerance"] == "all",
        log_enable=values["errors.log.enable"],
        log_include_messages=values["errors.log.include.messages"],
        dead_letter_topic=values.get("errors.deadletterqueue.topic.name") or None,
        dead_letter_replication_factor=values.get("errors.deadletterqueue.topic.replication.factor", 3),
        dead_letter_context_headers=values.get("errors.deadletterqueue.context.headers.enable", False),
    )
