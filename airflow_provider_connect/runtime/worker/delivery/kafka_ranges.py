"""Ranges of another cluster's partitions as batches of bytes. ``sdk`` promises them to source tasks that read Kafka."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import BYTES_SCHEMA
from airflow_provider_connect.runtime.stores.kafka_errors import LastError, translating
from airflow_provider_connect.runtime.worker.delivery.kafka_reader import FORCED_SETTINGS, READER_SETTINGS, AheadReader, KafkaReader
from airflow_provider_connect.runtime.worker.delivery.librdkafka import Librdkafka
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch

log = logging.getLogger(__name__)
_COLUMNS = frozenset({"key", "headers", "timestamp"})
_SCHEMA = BYTES_SCHEMA.as_optional()


class KafkaRanges:
    """An ``AheadReader`` with a consumer of its own. ``client_config`` overrides the settings that make reading fast, but not those that
    prevent offset commits to the cluster. ``on_lost`` is that of ``KafkaReader``."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        ranges: Mapping[TopicPartition, tuple[int, int]],
        *,
        library: Librdkafka | None,
        on_lost: Callable[[int], None],
    ) -> None:
        self._last_error = LastError()
        config = {**READER_SETTINGS, **client_config, **FORCED_SETTINGS, **self._last_error.callbacks()}
        with translating("creating a consumer"):
            self._consumer: Consumer | None = Consumer(config)
        reader = KafkaReader(self._consumer, ranges, _COLUMNS, self._last_error, library=library, on_lost=on_lost)
        self._reader = AheadReader(reader)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        return self._reader.positions

    @property
    def exhausted(self) -> bool:
        return self._reader.exhausted

    def read(self, timeout_seconds: float) -> list[Batch]:
        with translating("reading"):
            raws = self._reader.read(timeout_seconds)
        if not raws:
            self._last_error.raise_if_refused("reading")
        return [_batch_of(raw) for raw in raws]

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            self._reader.close()
            consumer.close()


def _batch_of(raw: RawBatch) -> KafkaBatch:
    return KafkaBatch(
        raw.partition.topic,
        raw.value,
        raw.key,
        _SCHEMA,
        _SCHEMA,
        raw.headers,
        raw.timestamp,
        raw.partition.partition,
        first_offset=raw.first_offset,
        next_offset=raw.next_offset,
        kafka_offset=raw.offsets,
        timestamp_type=raw.timestamp_type,
    )
