"""The settings of every connector, whatever its class: Kafka Connect's, in Connect's order (contract §4.2 to §4.4), and ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from airflow_provider_connect.data.java_text import regex_error
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.backfill import CHANGED, OF, RANGES, TOPIC_IDS, parse_ranges
from airflow_provider_connect.runtime.model.config_limits import TASK_MEMORY, check_aliases, check_memory
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import (
    ConfigDef,
    ConfigKey,
    Importance,
    NonEmptyString,
    OneOf,
    Range,
    Type,
    Validator,
    Width,
)

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
SHORT, WIDE, LONG = Width.SHORT, Width.MEDIUM, Width.LONG

COMMON, TRANSFORMS, PREDICATES, ERRORS = "Common", "Transforms", "Predicates", "Error Handling"
TOPIC_CREATION, EXACTLY_ONCE, OFFSETS_TOPIC = "Topic Creation", "Exactly Once Support", "offsets.topic"

GUARANTEES: Final = ("exactly_once", "at_least_once", "at_most_once")


def _check_name(name: str, value: Any) -> None:
    if value is None:
        return  # already reported as missing
    if not value:
        raise ConfigException.of(name, value, "String may not be empty")
    control = [ord(character) for character in value if ord(character) < 32 or 127 <= ord(character) < 160]
    if control:
        codes = ", ".join(map(str, control))
        raise ConfigException.of(name, value, f"String may not contain control sequences but had the following ASCII chars: {codes}")
    if value.strip() in (".", ".."):
        raise ConfigException.of(name, value, "No path of the REST API can hold this name: it could be neither stopped nor deleted there")


def _check_regex(name: str, value: Any) -> None:
    if not value:
        return
    try:
        BoundedRegex(value, name)
    except re.error as error:
        raise ConfigException.of(name, value, f"Invalid regex: {regex_error(value, error)}") from error


def _check_topics(name: str, value: Any) -> None:
    """Applies the rule of KIP-1161, with its error text, which contains no value."""
    if value and not all(value):
        raise ConfigException(f"Configuration '{name}' values must not be empty.")
    if value and len(set(value)) < len(value):
        raise ConfigException(f"Configuration '{name}' values must not be duplicated.")


def _check_ranges(name: str, value: Any) -> None:
    parse_ranges(value or "")


def _if_given(validator: Validator) -> Validator:
    """``validator``, but for keys whose default is null, so null is accepted."""

    def check(name: str, value: Any) -> None:
        if value is not None:
            validator(name, value)

    return check


def _key(group: str, order: int, width: Width, display_name: str, importance: Importance = MEDIUM) -> dict[str, Any]:
    """The arguments that place a key in a form. All of Connect's keys have these arguments, in addition to type, default and meaning."""
    return {"group": group, "order": order, "width": width, "display_name": display_name, "importance": importance}


def _converter_keys(kind: str, order: int) -> list[ConfigKey]:
    title = kind.capitalize()
    doc = f"Class that converts {kind}s between Kafka's bytes and data. Default: the worker's."
    version_doc = f"Version of the {kind} converter."
    return [
        ConfigKey(f"{kind}.converter", Type.CLASS, None, doc=doc, **_key(COMMON, order, SHORT, f"{title} converter class", LOW)),
        ConfigKey(
            f"{kind}.converter.plugin.version",
            default=None,
            doc=version_doc,
            **_key(COMMON, order + 1, SHORT, f"{title} converter version", LOW),
        ),
    ]


_CONNECTOR_KEYS: Final = (
    ConfigKey(
        "name",
        validator=_check_name,
        doc="Globally unique name of the connector.",
        **_key(COMMON, 1, WIDE, "Connector name", HIGH),
    ),
    ConfigKey(
        "connector.class",
        doc="Name or alias of the connector's class: org.apache.kafka.connect.file.FileStreamSinkConnector, FileStreamSinkConnector and "
        "FileStreamSink all name the same one.",
        **_key(COMMON, 2, LONG, "Connector class", HIGH),
    ),
    ConfigKey("connector.plugin.version", default=None, doc="Version of the connector.", **_key(COMMON, 3, WIDE, "Connector version")),
    ConfigKey(
        "tasks.max",
        Type.INT,
        1,
        validator=Range(at_least=1),
        doc="Maximum number of tasks.",
        **_key(COMMON, 4, SHORT, "Tasks max", HIGH),
    ),
    ConfigKey(
        "tasks.max.enforce",
        Type.BOOLEAN,
        True,
        doc="(Deprecated) Whether a connector that requests more than tasks.max tasks fails.",
        **_key(COMMON, 5, SHORT, "Enforce tasks max", LOW),
    ),
    *_converter_keys("key", 6),
    *_converter_keys("value", 8),
    *_converter_keys("header", 10),
    ConfigKey(
        "transforms",
        Type.LIST,
        "",
        validator=check_aliases,
        doc="Aliases of the transformations of records, in the order in which they apply.",
        **_key(TRANSFORMS, 12, LONG, "Transforms", LOW),
    ),
    ConfigKey(
        "predicates",
        Type.LIST,
        "",
        validator=check_aliases,
        doc="Aliases of the predicates that transformations use.",
        **_key(PREDICATES, 13, LONG, "Predicates", LOW),
    ),
    ConfigKey(
        "config.action.reload",
        default="restart",
        validator=OneOf("none", "restart"),
        doc="What happens when the value of a variable in the config changes: nothing, or a restart of the connector.",
        **_key(COMMON, 14, WIDE, "Reload Action", LOW),
    ),
    ConfigKey(
        "errors.retry.timeout",
        Type.LONG,
        0,
        doc="How long, in ms, a failed operation is retried. 0: never; -1: without a limit.",
        **_key(ERRORS, 1, WIDE, "Retry Timeout for Errors"),
    ),
    ConfigKey(
        "errors.retry.delay.max.ms",
        Type.LONG,
        60_000,
        doc="Maximum time, in ms, between two retries. Longer waits become random times up to it.",
        **_key(ERRORS, 2, WIDE, "Maximum Delay Between Retries for Errors"),
    ),
    ConfigKey(
        "errors.tolerance",
        default="none",
        validator=OneOf("none", "all"),
        doc="none: any error fails the task; all: records that cannot be converted or transformed are skipped.",
        **_key(ERRORS, 3, SHORT, "Error Tolerance"),
    ),
    ConfigKey(
        "errors.log.enable",
        Type.BOOLEAN,
        False,
        doc="Whether each error is logged; otherwise only those that are not tolerated.",
        **_key(ERRORS, 4, SHORT, "Log Errors"),
    ),
    ConfigKey(
        "errors.log.include.messages",
        Type.BOOLEAN,
        False,
        doc="Whether log lines include the record: for a sink its topic, partition, offset and timestamp, for a source the whole record.",
        **_key(ERRORS, 5, SHORT, "Log Error Details"),
    ),
)

_SINK_KEYS: Final = (
    ConfigKey(
        "topics",
        Type.LIST,
        "",
        validator=_check_topics,
        doc="The topics to read, separated by commas.",
        **_key(COMMON, 4, LONG, "Topics", HIGH),
    ),
    ConfigKey(
        "topics.regex",
        default="",
        validator=_check_regex,
        doc="Regular expression for the whole names of the topics to read. Set either this or topics.",
        **_key(COMMON, 4, LONG, "Topics regex", HIGH),
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.name",
        default="",
        doc="Topic for records that could not be converted, transformed or written. Empty: no topic.",
        **_key(ERRORS, 6, WIDE, "Dead Letter Queue Topic Name"),
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.replication.factor",
        Type.SHORT,
        3,
        doc="Replication factor of that topic, if it has to be created.",
        **_key(ERRORS, 7, WIDE, "Dead Letter Queue Topic Replication Factor"),
    ),
    ConfigKey(
        "errors.deadletterqueue.context.headers.enable",
        Type.BOOLEAN,
        False,
        doc="Whether records there have headers __connect.errors.… with the cause of the failure.",
        **_key(ERRORS, 8, WIDE, "Enable Error Context Headers"),
    ),
)

_SOURCE_KEYS: Final = (
    ConfigKey(
        "topic.creation.groups",
        Type.LIST,
        "",
        validator=check_aliases,
        doc="Groups of settings for the topics that the connector creates.",
        **_key(TOPIC_CREATION, 1, LONG, "Topic Creation Groups", LOW),
    ),
    ConfigKey(
        "exactly.once.support",
        default="requested",
        validator=OneOf("required", "requested", case_sensitive=False),
        doc="required: the config is refused unless worker and connector can deliver exactly once with it.",
        **_key(EXACTLY_ONCE, 2, SHORT, "Exactly once support"),
    ),
    ConfigKey(
        "transaction.boundary",
        default="poll",
        validator=OneOf("interval", "poll", "connector", case_sensitive=False),
        doc="Where transactions end: after each batch that a task polls, after an interval, or where the connector decides.",
        **_key(EXACTLY_ONCE, 3, SHORT, "Transaction Boundary"),
    ),
    ConfigKey(
        "transaction.boundary.interval.ms",
        Type.LONG,
        None,
        validator=_if_given(Range(at_least=0)),
        doc="Interval of transaction.boundary=interval. Default: the worker's offset.flush.interval.ms.",
        **_key(EXACTLY_ONCE, 4, SHORT, "Transaction boundary interval", LOW),
    ),
    ConfigKey(
        "offsets.storage.topic",
        default=None,
        validator=NonEmptyString(),
        doc="An offsets topic of the connector's own, created if it does not exist. Default: the worker's.",
        **_key(OFFSETS_TOPIC, 1, LONG, "Offsets topic", LOW),
    ),
)

LOCATION_KEY: Final = "connector.plugin.location"
_OWN_KEYS: Final = (
    ConfigKey(
        "destination.adopt",
        default=None,
        doc="For a sink that delivers exactly once: the id of another Connect cluster's config topic, as in the error of a refused run. "
        "The connector starts from the beginning at its destination, in addition to the records of that cluster's connector of the same "
        "name.",
    ),
    ConfigKey(
        "destination.rollback",
        default=None,
        validator=_if_given(OneOf("redeliver", "fail")),
        doc="What an exactly-once sink does if its destination holds less than it has committed there, because it was rolled back, "
        "restored or emptied. redeliver: deliver again from the offset in the destination, or from the first record. fail: FAIL. "
        "Default: redeliver; but fail if offsets are missing or went back, while the records did not.",
    ),
    ConfigKey(
        "delivery.guarantee",
        default=None,
        validator=_if_given(OneOf(*GUARANTEES)),
        doc="How often a record arrives after failures: exactly_once, at_least_once (some twice) or at_most_once (some never). "
        "Default: the strongest guarantee that the worker's settings and the connector allow.",
    ),
    ConfigKey(
        "batch.max.records",
        Type.LONG,
        None,
        validator=_if_given(Range(at_least=1)),
        doc="Approximate maximum number of records of a task in one run. Default: the worker's setting.",
    ),
    ConfigKey(
        "batch.max.duration.ms",
        Type.LONG,
        None,
        validator=_if_given(Range(at_least=1)),
        doc="Maximum time of a task in one run. Default: the worker's setting.",
    ),
    ConfigKey(
        TASK_MEMORY,
        default=None,
        validator=check_memory,
        doc="Maximum memory of the Python process of one task, such as 512m or 2g: a task that needs more FAILS alone. At most "
        "the worker's setting of the same name, which is the default.",
    ),
    ConfigKey(
        "tasks.per.application",
        Type.INT,
        None,
        validator=_if_given(Range(at_least=1)),
        doc="Number of tasks in one Spark application. Default: all tasks.",
    ),
    ConfigKey(
        LOCATION_KEY,
        default=None,
        doc="Name of the location in plugin.path whose plugin is used: its folder or file, without a path. Default: the version decides; "
        "if Python and Java both have a plugin of that name, Python's is used.",
    ),
    ConfigKey(
        RANGES,
        default=None,
        validator=_check_ranges,
        doc="The ranges that a sink reads, as topic:partition:first:end, several separated by commas; end is the offset after the last. "
        "Set by a backfill. Default: everything.",
    ),
    ConfigKey(
        TOPIC_IDS,
        default=None,
        doc="The ids of the topics of backfill.ranges. A topic that is recreated later is refused. Set by a backfill.",
    ),
    ConfigKey(OF, default=None, validator=_if_given(NonEmptyString()), doc="The connector whose backfill this is. Set by a backfill."),
    ConfigKey(CHANGED, Type.LIST, "", doc="The settings that differ from those of backfill.of. Set by a backfill."),
)


def strip_framework_keys(config: Mapping[str, str]) -> dict[str, str]:
    """The config for the connector itself, without the keys for its DAG (``airflow.…``) and for versions and locations of plugins."""
    endings = (".plugin.version", ".plugin.location")
    return {key: text for key, text in config.items() if not key.startswith("airflow.") and not key.endswith(endings)}


def names_of(definition: ConfigDef, prefix: str = "") -> Iterator[str]:
    """The names in a definition, including aliases, the older names of settings."""
    for key in definition.keys.values():
        yield f"{prefix}{key.name}"
        if key.alias is not None:
            yield f"{prefix}{key.alias}"


def common_config_def() -> ConfigDef:
    """The settings that sources and sinks share."""
    return ConfigDef(*_CONNECTOR_KEYS)


def source_config_def(defaults: Mapping[str, object] | None = None) -> ConfigDef:
    """The settings of every source connector, as Kafka Connect lists them. ``defaults`` (the worker's converters) replace nulls."""
    return _with_defaults((*_CONNECTOR_KEYS, *_SOURCE_KEYS), defaults)


def sink_config_def(defaults: Mapping[str, object] | None = None) -> ConfigDef:
    """The settings of every sink connector, as Kafka Connect lists them. ``defaults`` (the worker's converters) replace nulls."""
    return _with_defaults((*_CONNECTOR_KEYS, *_SINK_KEYS), defaults)


def own_config_def() -> ConfigDef:
    """The settings of every connector that Kafka Connect does not have. Connect would ignore them, and does not list them."""
    return ConfigDef(*_OWN_KEYS)


def _with_defaults(keys: tuple[ConfigKey, ...], defaults: Mapping[str, object] | None) -> ConfigDef:
    changed = defaults or {}
    return ConfigDef(*(key.with_default(changed[key.name]) if key.name in changed else key for key in keys))
