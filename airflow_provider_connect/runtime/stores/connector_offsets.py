"""The offsets of a source connector. They are read from its own topic and from the worker's topic, and copied to the worker's topic.

A connector with a topic of its own keeps its offsets on both topics (contract §2.7). Its own topic takes precedence. The worker's topic
holds earlier offsets, and copies in case the connector loses its own topic.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import KafkaError, KafkaException, Producer

from airflow_provider_connect.errors import ConfigException, StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.internal_topics import missing_text
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.kafka_errors import LastError, TopicMissingException, translating
from airflow_provider_connect.runtime.stores.log_consumer import Closing
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.stores.offset_store import Offset, OffsetStore, Partition, ProducedOffset, SourceOffsets
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, TopicSpec

_log = logging.getLogger(__name__)
_COPY_SECONDS = 5.0
_METADATA_SECONDS = 30.0


class ConnectorOffsets(Closing):
    """See the module. ``settle_seconds`` limits the wait for an open transaction. Not thread-safe."""

    def __init__(self, settings: WorkerSettings, location: OffsetLocation, *, settle_seconds: float | None = None) -> None:
        self.topic = location.topic
        self._settings = settings
        self._location = location
        self._worker = OffsetStore(settings, settle_seconds=settle_seconds)
        self._own: OffsetStore | None = None
        if location.is_own:
            self._own = OffsetStore(settings, location.topic, overrides=location.consumer, settle_seconds=settle_seconds)
        self._copies: Producer | None = None

    def ensure(self) -> None:
        """Creates the connector's own topic if it does not exist, with the settings of the worker's topic, which already exists.

        Raises ConfigException for a topic that is not compacted, or for a missing topic if the worker creates no topics (KIP-1209).
        """
        if self._own is None:
            return
        like = self._settings.internal_topic(self._settings.offset_topic)
        connection = AdminConnection.of(self._settings, self._location.admin)
        admin = TopicAdmin(self._settings, connection=connection)
        try:
            may_create = self._settings.internal_topics_creation_enable
            if not may_create and not admin.identities([self.topic]):
                raise ConfigException(missing_text(self.topic, "offsets.storage.topic", like.partitions))
            is_new = may_create and admin.create(TopicSpec(self.topic, like.partitions, like.replication_factor, like.configs))
            _wait_for(admin, self.topic)
            if not is_new:
                _refuse_wrong_policy(admin, self.topic)
        finally:
            connection.close()

    def read(self, connector: str) -> SourceOffsets:
        """The connector's committed offsets. For each key, its own topic takes precedence. Raises as ``OffsetStore.read``."""
        found = self._worker.read(connector)
        if self._own is None:
            return found
        try:
            return self._own.read(connector).over(found)
        except TopicMissingException:  # the first run creates it
            return found

    def records(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> list[ProducedOffset]:
        """The records that set these offsets when they are produced to ``topic``. None removes an offset."""
        return self._deciding.records(connector, offsets)

    def repair(self, connector: str) -> list[ProducedOffset]:
        """The records for ``topic`` that let a reader of uncommitted records find the committed offsets. See ``OffsetStore.repair``."""
        return self._deciding.repair(connector)

    @property
    def _deciding(self) -> OffsetStore:
        return self._worker if self._own is None else self._own

    def copy(self, records: Sequence[ProducedOffset]) -> None:
        """Also sends records that were committed to ``topic`` to the worker's topic. Does not wait, because a lost copy does no harm."""
        if self._own is None:
            return
        try:
            self._produce([record for record in records if record.value is not None])
        except (KafkaException, BufferError) as error:
            _log.warning("Offsets were not copied to topic %s: %s", self._settings.offset_topic, error)

    def remove_from_worker(self, records: Sequence[ProducedOffset]) -> None:
        """Removes from the worker's topic the offsets that ``records`` remove. Call it before ``records`` are written. Otherwise the
        worker's offsets would apply again.

        Returns when the removal is durable. Raises StoreTimeoutException.
        """
        removed = [record for record in records if record.value is None]
        if self._own is None or not removed:
            return
        refusals: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                refusals.append(error)

        with translating("removing offsets from the worker's offsets topic"):
            self._produce(removed, on_delivery)
            left = 0 if self._copies is None else self._copies.flush(_COPY_SECONDS)
            if refusals:
                raise KafkaException(refusals[0])
            if left:
                raise StoreTimeoutException(f"Offsets were not removed from topic {self._settings.offset_topic} within {_COPY_SECONDS:g} s")

    def _produce(self, records: Iterable[ProducedOffset], on_delivery: Callable[..., None] | None = None) -> None:
        if self._copies is None:
            config = internal_client_config(self._settings, ClientKind.PRODUCER, "offsets")
            self._copies = Producer({**config, "linger.ms": 5, **LastError().callbacks()})
        for record in records:
            self._copies.produce(self._settings.offset_topic, record.value, record.key, on_delivery=on_delivery)
        self._copies.poll(0)

    def close(self) -> None:
        if self._copies is not None and self._copies.flush(_COPY_SECONDS):
            self._copies.purge()
            _log.warning("Some offsets were not copied to topic %s in time", self._settings.offset_topic)
        self._copies = None
        self._worker.close()
        if self._own is not None:
            self._own.close()


def _wait_for(admin: TopicAdmin, topic: str) -> None:
    deadline = time.monotonic() + _METADATA_SECONDS
    while topic not in admin.partitions([topic]):
        if time.monotonic() > deadline:
            message = f"Topic {topic} was created, but is missing after {_METADATA_SECONDS:g} s"
            raise StoreTimeoutException(message, stage="creating a topic")
        time.sleep(0.05)


def _refuse_wrong_policy(admin: TopicAdmin, topic: str) -> None:
    policy = (admin.configs([topic])[topic].get("cleanup.policy") or "").replace(" ", "")
    if policy != "compact":
        reason = f"a topic of offsets must have cleanup.policy=compact, or offsets would be lost; it has cleanup.policy={policy}"
        raise ConfigException.of("offsets.storage.topic", topic, reason)
