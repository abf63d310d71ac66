"""Sinks into stores without transactions: each record has a key of its own, so that writing it again changes nothing."""

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
    """An author defines ``open``, which returns a connection with a method ``close``, and ``upsert``.

    1 batches wait until a commit 2 ``upsert`` writes them 3 ``commit`` makes them durable 4 the framework stores the consumer group's
    offsets. After a failure between these steps, or in another run, the same records come again with the same keys. Delivery is at least
    once, and each record is in the store once: an older run that is still alive writes what is there.
    """

    def upsert(self, connection: Any, keys: Sequence[str], batch: Batch) -> None:
        """Write each record of a batch, which is never empty, under its key, in place of what is there.

        A repetition has the same keys in other batches, so what is written must depend on nothing but the record. RetriableException opens
        another connection, and all batches since the last commit come again. DataException: a record is refused; parts of the batch
        come again."""
        raise NotImplementedError

    def commit(self, connection: Any) -> None:
        """Make durable what was written. By default nothing: ``upsert`` returns when it is."""

    def write(self, transaction: Any, batch: Batch) -> None:
        self.upsert(transaction, record_keys(batch, self.topic_ids), batch)

    def savepoint(self, transaction: Any) -> AbstractContextManager[None]:
        """Nothing is taken back: what a refused batch has written is written again."""
        return nullcontext()

    def read_offsets(self, transaction: Any, connector: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        return {}

    def write_offsets(self, transaction: Any, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        """The store has none."""

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        return True

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """The store cannot refuse an older claim."""
        return ExactlyOnceSupport.UNSUPPORTED


def record_keys(batch: Batch, topic_ids: Mapping[str, str]) -> list[str]:
    """``topic/id/partition/offset`` of each record, as it lies in Kafka: transformations do not change it. By the topic's id, records of a
    topic that was created anew replace none of the one before; without it, where Kafka gives none."""
    topic, partition = batch.topic_partition
    where = "/".join(filter(None, (topic, topic_ids.get(topic), str(partition))))
    return [f"{where}/{offset}" for offset in batch.kafka_offsets.to_pylist()]
