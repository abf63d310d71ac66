"""Sinks into stores without transactions. Each record has a unique key, so writing it again changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport
from airflow_provider_connect.sdk.offset_row import OffsetRow
from airflow_provider_connect.sdk.transactional_sink import TransactionalSink


class KeyedSink(TransactionalSink):
    """A sink that writes each record under its own key. Define ``open`` and ``upsert``. ``open`` returns a connection with a method
    ``close``.

    A commit has four steps. (1) Batches are collected. (2) ``upsert`` writes them. (3) ``commit`` makes them durable. (4) The framework
    commits the consumer group's offsets. After a failure between two steps, the same records are written again under the same keys.
    Delivery is at least once, but the store has each record once. An older run that still writes only repeats existing records.
    """

    def upsert(self, connection: Any, keys: Sequence[str], batch: Batch) -> None:
        """Write each record of ``batch`` under its key, replacing an older one. ``batch`` is never empty; ``keys`` has one key per record.

        Records may be written again in other batches, so the result must depend only on the record. Raise RetriableException to get another
        connection, and then all batches since the last commit again. Raise DataException if a record is refused; parts of the batch are
        then written again.
        """
        raise NotImplementedError

    def commit(self, connection: Any) -> None:
        """Make the writes of ``upsert`` durable. By default it does nothing: ``upsert`` must then be durable when it returns."""

    def write(self, transaction: Any, batch: Batch) -> None:
        self.upsert(transaction, record_keys(batch, self.topic_ids), batch)

    def savepoint(self, transaction: Any) -> AbstractContextManager[None]:
        """Needs no rollback: records that a refused batch wrote are written again."""
        return nullcontext()

    def read_offsets(self, transaction: Any, connector: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        return {}

    def write_offsets(self, transaction: Any, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        """Does nothing: the store keeps no offsets."""

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        return True

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """UNSUPPORTED, because the store cannot refuse an older claim."""
        return ExactlyOnceSupport.UNSUPPORTED


def record_keys(batch: Batch, topic_ids: Mapping[str, str]) -> list[str]:
    """``topic/id/partition/offset`` of each record in Kafka, before transformations.

    A topic that was deleted and created again has another id, so its records do not replace those of the old topic. If Kafka has no topic
    ids, the keys do not contain one."""
    topic, partition = batch.topic_partition
    where = "/".join(filter(None, (topic, topic_ids.get(topic), str(partition))))
    return [f"{where}/{offset}" for offset in batch.kafka_offsets.to_pylist()]
