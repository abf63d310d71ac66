"""What validation says of delivery: exactly once, transaction boundaries, guarantees, and the consumer group of a sink (contract 3.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.model.connector_settings import Guarantee
from airflow_provider_connect.model.ids import consumer_group
from airflow_provider_connect.sdk.config_def import ConfigValue
from airflow_provider_connect.sdk.connector import Connector, ExactlyOnceSupport, SinkConnector, SourceConnector
from airflow_provider_connect.settings import WorkerSettings

SUPPORT, BOUNDARY, GUARANTEE = "exactly.once.support", "transaction.boundary", "delivery.guarantee"
OFFSETS_TOPIC: Final = "offsets.storage.topic"
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
    """Add to ``found`` what worker and connector cannot do of what the config asks for. The connector is asked only where it matters."""
    if isinstance(connector, SourceConnector):
        support, boundary = found[SUPPORT], found[BOUNDARY]
        if not support.errors and str(support.value).lower() == "required":
            if not settings.exactly_once_source_enabled:
                support.errors.append(WORKER_LACKS_IT)
            support.errors += _support_errors(connector, config)
        if not boundary.errors and str(boundary.value).lower() == "connector":
            boundary.errors += boundary_errors(connector, config)
        found[OFFSETS_TOPIC].errors += offsets_topic_errors(settings, config)


def offsets_topic_errors(settings: WorkerSettings, config: Mapping[str, str]) -> list[str]:
    """Why ``offsets.storage.topic`` cannot be the topic that it names: configs and statuses would be lost among offsets."""
    topic = (config.get(OFFSETS_TOPIC) or "").strip()
    if topic == settings.offset_topic or topic not in {internal.name for internal in settings.internal_topics}:
        return []
    reason = f"it is the worker's own topic for {settings.internal_topic(topic).purpose}: name another, or leave it out"
    return [ConfigException.of(OFFSETS_TOPIC, topic, reason).message]


def guarantee_errors(settings: WorkerSettings, config: Mapping[str, str], connector: Connector) -> list[str]:
    """Why ``delivery.guarantee=exactly_once`` cannot be had."""
    if (config.get(GUARANTEE) or "").strip() != Guarantee.EXACTLY_ONCE:
        return []
    if isinstance(connector, SourceConnector):
        return [WORKER_LACKS_IT] if not settings.exactly_once_source_enabled else _support_errors(connector, config)
    return _support_errors(connector, config)


def check_group(settings: WorkerSettings, config: Mapping[str, str | None], found: dict[str, ConfigValue]) -> None:
    """A sink's consumer group must not be the worker's own."""
    override = "consumer.override.group.id"
    if override in config:
        group = config[override]
        value = found.setdefault(override, ConfigValue(override, group))
        if group == settings.group_id:
            value.errors.append(f"Consumer group {group} conflicts with Connect worker group {settings.group_id}")
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
    """Why ``transaction.boundary=connector`` cannot be had."""
    try:
        can = connector.can_define_transaction_boundaries(config)
    except Exception as error:  # (the connector's own code)
        return [_unexpected(error)]
    return [] if can else [_NULL_BOUNDARIES if can is None else _NO_BOUNDARIES]


def _unexpected(error: Exception) -> str:
    if str(error):
        return f"An unexpected error occurred during validation: {error}"
    return "An unexpected error occurred during validation; please see the worker logs for more details."
