"""The result of one call of a consumer: raw batches and ends of partitions. This module reads it from confluent-kafka's objects, if no
faster way is available."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.stores.kafka_errors import is_retriable, translated
from airflow_provider_connect.runtime.stores.log_consumer import headers_of
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch, headers_column

TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")
MAX_MESSAGES = 500  # lists of 700 and more cost twice as much: 0.55 µs a record instead of 0.27, measured
NO_TIMESTAMP = -1


@dataclass(slots=True)
class Consumed:
    """``pieces`` hold consecutive records of a partition. ``ended`` has the position of each partition whose end was reached. ``gone`` are
    partitions whose log does not hold the requested offset."""

    pieces: list[RawBatch] = field(default_factory=list)
    ended: list[tuple[TopicPartition, int]] = field(default_factory=list)
    gone: list[TopicPartition] = field(default_factory=list)

    def add_error(self, error: KafkaError, partition: TopicPartition, offset: int) -> None:
        """Raise the translated ``error``, unless the client recovers from it by itself. The loop limits the time without records."""
        if error.code() == KafkaError._PARTITION_EOF:
            self.ended.append((partition, offset))
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self.gone.append(partition)
        elif not is_retriable(error):
            raise translated(error, f"reading topic {partition.topic}")


class ClientMessages:
    """Takes what a consumer has fetched, through the consumer's own calls. ``only`` is the partition if there is only one."""

    def __init__(self, consumer: Consumer, columns: frozenset[str], only: TopicPartition | None = None) -> None:
        self._consumer, self._columns, self._only = consumer, columns, only
        self._record_bytes = 0.0  # average of the records taken last

    def take(self, timeout_seconds: float, most_records: int, most_bytes: int) -> Consumed | None:
        """The fetched records, up to about ``most_records`` and ``most_bytes``. Waits up to ``timeout_seconds`` for the first one. None: no
        record arrived. Raises the exceptions of ``Consumed.add_error``."""
        first = self._consumer.poll(timeout_seconds)
        if first is None:
            return None
        record_bytes = max(self._record_bytes, len(first.value() or b""))
        limit = min(most_records, MAX_MESSAGES, 1 + int(most_bytes / max(1.0, record_bytes)))
        more = self._consumer.consume(limit, 0)  # with a timeout, the call waits until the list is full
        consumed, messages = Consumed(), [first, *more]
        if any(map(Message.error, messages)):
            messages = list(_records(messages, consumed))
        for partition, run in self._runs(messages):
            consumed.pieces.append(_piece_of(partition, run, self._columns))
        if messages:
            self._record_bytes = sum(piece.num_bytes for piece in consumed.pieces) / len(messages)
        return consumed

    def _runs(self, messages: list[Message]) -> Iterator[tuple[TopicPartition, list[Message]]]:
        if self._only is None:
            yield from ((partition, list(run)) for partition, run in groupby(messages, _partition_of))
        elif messages:
            yield self._only, messages


def _records(messages: list[Message], consumed: Consumed) -> Iterator[Message]:
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        else:
            consumed.add_error(error, _partition_of(message), _offset(message))


def _partition_of(message: Message) -> TopicPartition:
    return TopicPartition(str(message.topic()), int(message.partition() or 0))


def _offset(message: Message) -> int:
    return int(message.offset() or 0)  # None only for a message that is not stored yet


def _piece_of(partition: TopicPartition, run: list[Message], columns: frozenset[str]) -> RawBatch:
    first, last = _offset(run[0]), _offset(run[-1])
    piece = RawBatch(partition, first, last + 1, pa.array(list(map(Message.value, run)), pa.binary()))
    if last - first + 1 != len(run):
        piece.offsets = pa.array(list(map(Message.offset, run)), pa.int64())
    if "key" in columns:
        keys = list(map(Message.key, run))
        if keys.count(None) != len(keys):
            piece.key = pa.array(keys, pa.binary())
    if "headers" in columns:
        rows = headers_of(run)
        piece.headers = None if rows is None else headers_column(rows)
    if "timestamp" in columns:
        stamps = list(map(Message.timestamp, run))
        piece.timestamp_type = TIMESTAMP_TYPES[stamps[0][0]]
        millis = np.fromiter(map(itemgetter(1), stamps), np.int64, len(stamps))
        piece.timestamp = pa.array(millis, mask=millis == NO_TIMESTAMP)
    return piece
