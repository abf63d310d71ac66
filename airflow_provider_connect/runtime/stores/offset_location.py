"""The location of a source connector's offsets: the worker's offsets topic, or a topic of the connector's own.

The rule is Kafka Connect's (contract §2.7). ``offsets.storage.topic`` names a topic of the connector's own. With exactly-once support,
offsets share a transaction with records, so they are on the cluster of the records. Knows nothing of reading or writing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_connect.runtime.config.client_settings import ClientKind, client_config, connector_overrides
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings

Overrides = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OffsetLocation:
    """``topic`` holds the offsets in force. ``is_own``: it is not the worker's topic, and needs the connector's own client settings.

    ``producer``, ``consumer`` and ``admin`` are unprefixed settings for clients of the location, added to the worker's settings. They are
    the connector's overrides. They are empty if the connector's records go to another cluster than its offsets.
    """

    topic: str
    is_own: bool = False
    producer: Overrides = field(default_factory=dict)
    consumer: Overrides = field(default_factory=dict)
    admin: Overrides = field(default_factory=dict)

    @classmethod
    def of(cls, settings: WorkerSettings, config: Mapping[str, str]) -> "OffsetLocation":
        """The location for a connector with this config, whose variables are resolved."""
        producer, consumer, admin = (connector_overrides(config, kind) for kind in ClientKind)
        topic = config.get("offsets.storage.topic", "").strip()
        elsewhere = is_elsewhere(settings, producer)
        if topic and (topic != settings.offset_topic or elsewhere):
            return cls(topic, True, producer, consumer, admin)
        if not elsewhere:
            return cls(settings.offset_topic, False, producer)
        if settings.exactly_once_source_enabled:
            return cls(settings.offset_topic, True, producer, consumer, admin)
        return cls(settings.offset_topic)


def is_elsewhere(settings: WorkerSettings, overrides: Overrides, kind: ClientKind = ClientKind.PRODUCER) -> bool:
    """Whether a client with these overrides uses another cluster than the worker's own clients."""
    found = str(client_config(settings, kind, overrides).get("bootstrap.servers", ""))
    return _servers(found) != _servers(settings.bootstrap_servers)


def sink_overrides(config: Mapping[str, str]) -> dict[str, str]:
    """Unprefixed settings for the producers that commit a sink's offsets. They use the cluster and the user of the sink's consumers."""
    return connector_overrides(config, ClientKind.PRODUCER) | _connection_of_consumers(config)


def sink_admin_overrides(config: Mapping[str, str]) -> dict[str, str]:
    """Unprefixed settings for the admin clients that read a sink's group and topics."""
    return _connection_of_consumers(config) | connector_overrides(config, ClientKind.ADMIN)


def _connection_of_consumers(config: Mapping[str, str]) -> dict[str, str]:
    consumer = connector_overrides(config, ClientKind.CONSUMER)
    return {name: text for name, text in consumer.items() if name.startswith(_CONNECTION)}


_CONNECTION = ("bootstrap.servers", "client.dns.lookup", "security.", "sasl.", "ssl.")


def _servers(text: str) -> set[str]:
    return {server.strip() for server in text.split(",") if server.strip()}
