"""What a sink reads: its consumer group, its consumer's settings, and the bounds of its partitions. Does not decide where to start, and
commits nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.client_settings import ClientConfig, client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.backfill import beginnings_within, ends_within
from airflow_provider_connect.runtime.model.ids import consumer_group
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.delivery.kafka_reader import FORCED_SETTINGS, READER_SETTINGS
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector

READ_COMMITTED = "read_committed"
_STAYING = {"fetch.wait.max.ms": "500"}
"""Kafka's default, because a run that stays need not wait for the end of its partitions: an idle task sends 2 requests a second. Records do
not wait. A partition whose records fill the client's queue may wait for another partition's request, so it is not longer still."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets of one partition: the first, the last stable one, and the high watermark."""

    beginning: int
    end: int
    high: int


class SinkInput:
    """Used by runs and previews alike. ``ranges`` are the ranges of a backfill. Its partitions begin and end only with these ranges.
    ``endless``: new records are read as they arrive. Raises ConfigException for an isolation level that Kafka does not have."""

    def __init__(self, checked: CheckedConnector, settings: WorkerSettings, *, client_id: str = "", endless: bool = False) -> None:
        config = client_config(settings, "consumer", checked.settings.overrides["consumer"], client_id=client_id)
        self.group = consumer_group(checked.name, checked.resolved, settings.values)
        self.ranges = checked.settings.ranges
        self.reset = "earliest" if self.ranges else str(config.get("auto.offset.reset", "earliest"))
        self._isolation = _isolation_level(config)
        own = {"isolation.level": self._isolation, "group.id": self.group}
        self._config: ClientConfig = {**READER_SETTINGS, **(_STAYING if endless else {}), **config, **own, **FORCED_SETTINGS}

    def open_consumer(self) -> Consumer:
        """A consumer with the group's id. It neither joins the group nor commits by itself."""
        return Consumer(self._config)

    def bounds(self, partitions: Collection[TopicPartition], admin: TopicAdmin) -> dict[TopicPartition, Bounds]:
        """The bounds of what can currently be read in each partition."""
        ends = ends_within(admin.end_offsets(partitions, read_committed=self._isolation == READ_COMMITTED), self.ranges)
        beginnings = beginnings_within(admin.beginning_offsets(partitions), self.ranges)
        highs = ends_within(admin.end_offsets(partitions, read_committed=False), self.ranges)
        return {p: Bounds(beginnings[p], ends[p], highs[p]) for p in partitions}


def _isolation_level(config: Mapping[str, object]) -> str:
    level = str(config.get("isolation.level", READ_COMMITTED))
    if level not in {READ_COMMITTED, "read_uncommitted"}:
        raise ConfigException.of("consumer.override.isolation.level", level, "String must be one of: read_committed, read_uncommitted")
    return level
