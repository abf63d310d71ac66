"""Validation of delivery settings: exactly once, transaction boundaries, guarantees, and the consumer group of a sink (contract §5.3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.internal_topics import KAFKAS_OWN
from airflow_provider_connect.runtime.config.worker_settings import MAX_TASKS_SETTING, WorkerSettings
from airflow_provider_connect.runtime.model.backfill import CHANGED, OF, RANGES, topics_error
from airflow_provider_connect.runtime.model.config_limits import TASK_MEMORY, cut, memory_bytes
from airflow_provider_connect.runtime.model.connector_settings import Guarantee
from airflow_provider_connect.runtime.model.ids import consumer_group, refusal_of_topic
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import SAME_TOPIC
from airflow_provider_connect.sdk.config_def import ConfigValue
from airflow_provider_connect.sdk.connector import Connector, ExactlyOnceSupport, SinkConnector, SourceConnector

SUPPORT, BOUNDARY, GUARANTEE = "exactly.once.support", "transaction.boundary", "delivery.guarantee"
OFFSETS_TOPIC: Final = "offsets.storage.topic"
GROUP: Final = "consumer.override.group.id"
OF_CONNECTORS: Final = "connect-"
DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
CLASS_KEY: Final = "connector.class"
TOPIC_SETTINGS: Final = ("topic", "topics", "topics.regex", "topic.prefix", DEAD_LETTERS)
"""The settings in which connectors name topics of records."""
_OWN_OFFSETS: Final = "A source's records may not go to the topic of its offsets (offsets.storage.topic). Name another."
WORKER_LACKS_IT: Final = "This worker does not have exactly-once source support enabled."
CONNECTOR_LACKS_IT: Final = "The connector does not support exactly-once semantics with the provided configuration."
_UNKNOWN: Final = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. Please consult the "
    "documentation for the connector to determine whether it supports exactly-once semantics, and then consider reconfiguring the "
    'connector to use the value "requested" for this property (which will disable this preflight check and allow the connector to be '
    "created)."
)
_NO_BOUNDARIES: Final = (
    "The connector does not support connector-defined transaction boundaries with the given configuration. Please reconfigure it to use a "
    "different transaction boundary definition."
)
_NULL_BOUNDARIES: Final = (
    "This connector has returned a null value from its canDefineTransactionBoundaries method, which is not permitted. The connector will "
    "be treated as if it cannot define its own transaction boundaries, and cannot be configured with 'transaction.boundary' set to "
    "'connector'."
)


def check_delivery(settings: WorkerSettings, config: Mapping[str, str], found: Mapping[str, ConfigValue], connector: Connector) -> None:
    """Add errors to ``found`` for requests in the config that worker or connector cannot fulfill. Calls the connector only if its answer is
    needed."""
    if isinstance(connector, SourceConnector):
        support, boundary = found[SUPPORT], found[BOUNDARY]
        if not support.errors and str(support.value).lower() == "required":
            if not settings.exactly_once_source_enabled:
                support.errors.append(WORKER_LACKS_IT)
            support.errors += _support_errors(connector, config)
        if not boundary.errors and str(boundary.value).lower() == "connector":
            boundary.errors += boundary_errors(connector, config)
        found[OFFSETS_TOPIC].errors += offsets_topic_errors(settings, config)


def tasks_errors(settings: WorkerSettings, tasks_max: object) -> list[str]:
    """Errors if a connector may not have so many tasks. Each task is a record on the config topic, which all connectors share."""
    if not isinstance(tasks_max, int) or tasks_max <= settings.max_tasks:
        return []
    reason = f"Value must be no more than {settings.max_tasks} (worker setting {MAX_TASKS_SETTING})"
    return [ConfigException.of("tasks.max", tasks_max, reason).message]


def memory_errors(settings: WorkerSettings, asked: object) -> list[str]:
    """Errors if a task may not have so much memory. All tasks share the memory of the host."""
    if not isinstance(asked, str):
        return []
    with suppress(ValueError):  # the key's own validator reports it
        if memory_bytes(asked) > settings.task_memory_max:
            most = f"{settings.task_memory_max >> 20}m"
            reason = f"Value must be no more than {most}, the worker setting of the same name, which an admin may raise"
            return [ConfigException.of(TASK_MEMORY, asked, reason).message]
    return []


def offsets_topic_errors(settings: WorkerSettings, config: Mapping[str, str]) -> list[str]:
    """Errors if ``offsets.storage.topic`` names a topic that is not for offsets, such as the config topic. Configs and statuses would get
    lost among offsets."""
    topic = (config.get(OFFSETS_TOPIC) or "").strip()
    reason = settings.refusal_of_data_topic(topic) if topic in KAFKAS_OWN else _refusal_of_name(OFFSETS_TOPIC, topic, config)
    if reason:
        return [ConfigException.of(OFFSETS_TOPIC, topic, reason).message]
    if topic == settings.offset_topic or topic not in {internal.name for internal in settings.internal_topics}:
        return []
    reason = f"it is the worker's own topic for {settings.internal_topic(topic).purpose}: name another, or leave it out"
    return [ConfigException.of(OFFSETS_TOPIC, topic, reason).message]


def guarantee_errors(settings: WorkerSettings, config: Mapping[str, str], connector: Connector) -> list[str]:
    """The reasons why ``delivery.guarantee=exactly_once`` is impossible. Empty if it is possible."""
    if (config.get(GUARANTEE) or "").strip() != Guarantee.EXACTLY_ONCE:
        return []
    if isinstance(connector, SourceConnector):
        return [WORKER_LACKS_IT] if not settings.exactly_once_source_enabled else _support_errors(connector, config)
    return _support_errors(connector, config)


def backfill_errors(config: Mapping[str, str | None], connector: Connector | None) -> dict[str, list[str]]:
    """The reasons, by key, why a backfill with this config cannot run, or would interfere with the live connector. ``connector`` None: a
    Java connector, whose reads cannot be limited to a range."""
    ranges, live = ((config.get(key) or "").strip() for key in (RANGES, OF))
    if not ranges and not live:
        return {}
    key = RANGES if ranges else OF
    changed = {name.strip() for name in (config.get(CHANGED) or "").split(",")}
    if connector is None:
        reason = _NO_JAVA
    elif isinstance(connector, SourceConnector):
        reason = "Only a sink reads ranges of topics. Leave it out." if ranges else _unbounded(connector, config, changed)
    elif error := topics_error(config):
        return {key: [error]}
    else:
        reason = "A sink's backfill has ranges: set them too." if not ranges else _shared(connector, cut(live), changed) if live else ""
    return {key: [ConfigException.of(key, cut(config[key] or ""), reason).message]} if reason else {}


_NO_JAVA: Final = (
    "A Java connector reads to the end of what there is, and no range of it. Create one of another name, of a sink with "
    "consumer.override.auto.offset.reset, or stop this one and change its offsets (PATCH /connectors/«name»/offsets)."
)


def _unbounded(connector: SourceConnector, config: Mapping[str, str | None], changed: Collection[str]) -> str:
    """The reason why a source with these ``changed`` settings would not be limited to a range, or would take records from the live
    connector. Empty if there is no reason."""
    bounds = connector.range_settings
    if not bounds:
        return "No setting of this source bounds what it reads. Stop it and change its offsets (PATCH /connectors/«name»/offsets)."
    if not set(bounds) & set(changed):
        return f"Bound what the backfill reads: set {' or '.join(bounds)}."
    taking = [f"{key}={value}" for key, value in connector.backfill_settings.items() if (config.get(key) or value).strip() != value]
    return f"Only the live connector may change what it reads: set {' and '.join(taking)}." if taking else ""


def _shared(connector: Connector, live: str, changed: Collection[str]) -> str:
    """The reason why a sink with these ``changed`` settings must not write to the destination of connector ``live``. Empty if it may."""
    needed = connector.location_settings if isinstance(connector, SinkConnector) else ()
    if not needed or set(needed) & set(changed):
        return ""
    return (
        f"Connector {live} writes to the same destination, and the two would take each other's offsets or files there. "
        f"Give the backfill a destination of its own: another value of {' or '.join(needed)}."
    )


def data_topic_errors(settings: WorkerSettings, config: Mapping[str, str], connector: Connector) -> dict[str, list[str]]:
    """Errors, by key, about topics for records that are internal topics. A record on an internal topic could act as a config, or as another
    connector's offset.

    Topics that transformations produce, and topics that a source does not report, are checked before each write.
    """
    named: list[tuple[str, str]] = []
    if isinstance(connector, SourceConnector):
        own = (config.get(OFFSETS_TOPIC) or "").strip()
        for topic in _output_topics(connector, config):
            key = next((key for key, text in config.items() if text.strip() == topic and key not in (OFFSETS_TOPIC, "name")), CLASS_KEY)
            named.append((key, topic))
        found = {key: [_OWN_OFFSETS] for key, topic in named if topic == own}
    else:
        named = [("topics", topic.strip()) for topic in (config.get("topics") or "").split(",")]
        named.append((DEAD_LETTERS, (config.get(DEAD_LETTERS) or "").strip()))
        found = {}
    for key, topic in named:
        reason = settings.refusal_of_data_topic(topic) or _refusal_of_name(key, topic, config)
        if reason:
            found.setdefault(key, []).append(ConfigException.of(key, topic, reason).message)
    return found


def refusal_of_topics(settings: WorkerSettings, config: Mapping[str, str]) -> Callable[[str], str]:
    """A function that returns the reason why no record of a source with this ``config`` may go to a topic. Empty: records may. Kafka's rule
    for names applies unless a transformation may change the topic."""
    if _may_change_topics(config):
        return settings.refusal_of_data_topic
    return lambda topic: settings.refusal_of_data_topic(topic) or refusal_of_topic(topic)


def _may_change_topics(config: Mapping[str, str]) -> bool:
    """Whether a config has a transformation other than those of Kafka Connect that leave the topic unchanged."""
    aliases = filter(None, (alias.strip() for alias in (config.get("transforms") or "").split(",")))
    types = ((config.get(f"transforms.{alias}.type") or "").strip() for alias in aliases)
    return any(name.removeprefix("org.apache.kafka.connect.transforms.") not in SAME_TOPIC for name in types)


def _refusal_of_name(key: str, topic: str, config: Mapping[str, str]) -> str:
    """The error of Kafka's own rule for topic names. Only final names are checked, because transformations may change a source's topic, and
    variables have no value yet."""
    is_named = key in ("topics", DEAD_LETTERS, OFFSETS_TOPIC) or not _may_change_topics(config)
    return refusal_of_topic(topic) if topic and "${" not in topic and is_named else ""


def _output_topics(connector: SourceConnector, config: Mapping[str, str]) -> Sequence[str]:
    try:
        return connector.output_topics(config) or ()
    except Exception:  # (the connector's own code: its validation reports errors of its settings)
        return ()


def group_errors(settings: WorkerSettings, config: Mapping[str, str | None]) -> list[str]:
    """Errors if a sink must not use the group that its config names, because the sink's commits would move the offsets of another
    consumer."""
    group = (config.get(GROUP) or "").strip()
    if not group:
        named = consumer_group(config.get("name") or "", None, settings.values)
        return [] if _is_printable(named) else [ConfigException.of("name", cut(config.get("name") or ""), _NOT_ASCII).message]
    if not _is_printable(group):
        return [ConfigException.of(GROUP, cut(group), _NO_TEXT).message]
    if group == settings.group_id:
        return [f"Consumer group {group} conflicts with Connect worker group {settings.group_id}"]
    if group.startswith(OF_CONNECTORS) and group != consumer_group(config.get("name") or ""):
        reason = f"Groups whose names begin with {OF_CONNECTORS} belong to the connectors of these names. Name another, or leave it out."
        return [ConfigException.of(GROUP, group, reason).message]
    return []


_NO_TEXT: Final = "Kafka's client commits offsets of groups only whose names are printable ASCII. Name another."
_NOT_ASCII: Final = (
    f"Kafka's client commits offsets of groups only whose names are printable ASCII, and a sink's group is named after it. Set {GROUP}, or "
    "choose another name."
)


def _is_printable(group: str) -> bool:
    return group.isascii() and group.isprintable()


def foreign_errors(name: str, config: Mapping[str, str | None], others: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Errors for names in ``config`` that belong to another connector: its consumer group; its offsets topic; and, as an offsets topic, a
    topic with its records. In a shared group, each connector would skip the records that the other has read. The keys for these names
    accept no variables. ``others`` are configs, which may be partial."""
    group, offsets = ((config.get(key) or "").strip() for key in (GROUP, OFFSETS_TOPIC))
    topics = _topics_named(config)
    errors: list[str] = []
    for other, known in others.items():
        if other == name:
            continue
        if group and known.get(GROUP, "").strip() == group:
            reason = f"It is the group of connector {other} as well, and each would pass over what the other has read. Name another."
            errors.append(ConfigException.of(GROUP, group, reason).message)
        own = known.get(OFFSETS_TOPIC, "").strip()
        for key, topic in topics:
            if own and topic == own:
                reason = f"Connector {other} keeps its offsets there ({OFFSETS_TOPIC}). Name another."
                errors.append(ConfigException.of(key, topic, reason).message)
        if offsets and any(topic == offsets for _, topic in _topics_named(known)):
            reason = f"Records of connector {other} are there. Name another."
            errors.append(ConfigException.of(OFFSETS_TOPIC, offsets, reason).message)
    return errors


def _topics_named(config: Mapping[str, str | None]) -> list[tuple[str, str]]:
    return [(key, topic.strip()) for key in TOPIC_SETTINGS for topic in (config.get(key) or "").split(",") if topic.strip()]


def check_group(settings: WorkerSettings, config: Mapping[str, str | None], found: dict[str, ConfigValue]) -> None:
    """Add errors for a sink's consumer group that belongs to the worker or to another connector."""
    errors = group_errors(settings, config)
    if GROUP in config:
        found.setdefault(GROUP, ConfigValue(GROUP, config[GROUP])).errors += errors
    elif errors:
        found["name"].errors += errors
    elif settings.group_id == consumer_group(config.get("name") or "", {}, {}):
        name = config.get("name")
        found["name"].errors.append(
            f"Consumer group for sink connector named {name} conflicts with Connect worker group {settings.group_id}"
        )


def _support_errors(connector: Connector, config: Mapping[str, str]) -> list[str]:
    assert isinstance(connector, SourceConnector | SinkConnector)
    try:
        support = connector.exactly_once_support(config)
    except Exception as error:  # (the connector's own code)
        return [_unexpected(error)]
    if support is ExactlyOnceSupport.SUPPORTED:
        return []
    return [_UNKNOWN if support is None else CONNECTOR_LACKS_IT]


def boundary_errors(connector: SourceConnector, config: Mapping[str, str]) -> list[str]:
    """The reasons why ``transaction.boundary=connector`` is impossible. Empty if it is possible."""
    try:
        can = connector.can_define_transaction_boundaries(config)
    except Exception as error:  # (the connector's own code)
        return [_unexpected(error)]
    return [] if can else [_NULL_BOUNDARIES if can is None else _NO_BOUNDARIES]


def _unexpected(error: Exception) -> str:
    if str(error):
        return f"An unexpected error occurred during validation: {error}"
    return "An unexpected error occurred during validation; please see the worker logs for more details."
