"""Encoded batches into a Kafka producer: back-pressure, order and delivery errors. Knows nothing of offsets, transactions or guarantees."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider_connect.errors import RetriableException, StoreException
from airflow_provider_connect.stores.kafka_errors import TopicMissingException, cause_of, translated, translating
from airflow_provider_connect.worker.delivery.native_queue import NativeQueue
from airflow_provider_connect.worker.delivery.refused_records import RefusedRecords

CHUNK_RECORDS = 10_000
CHUNK_BYTES = 16 * 1024 * 1024
MAX_QUEUED_RECORDS = 500_000
MAX_QUEUED_BYTES = 64 * 1024 * 1024
TOPIC_SECONDS = 30.0  # librdkafka's own patience with a topic that was just made
ANSWER_SECONDS = 60.0
_WAIT_SECONDS = 0.02
_LOOK_SECONDS = 0.1
_NOT_YET = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._UNKNOWN_TOPIC})
_TAKEN_BACK = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # by the abort of their transaction


@dataclass(slots=True)
class EncodedBatch:
    """Records of one topic as bytes: what converters made of a ``Batch``. None stands for all null.

    ``value`` and ``key`` may be of any Arrow type of bytes or text; they are kept as ``binary`` or ``large_binary``.
    """

    topic: str
    num_records: int
    value: pa.Array | None
    key: pa.Array | None = None
    headers: pa.Array | None = None
    timestamp: pa.Array | None = None
    kafka_partition: int | None = None

    def __post_init__(self) -> None:
        self.value, self.key = _with_offsets(self.value), _with_offsets(self.key)

    @property
    def num_bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(_data_bytes(column) for column in (self.key, self.value) if column is not None)

    def slice(self, start: int, count: int) -> EncodedBatch:
        """``count`` records from record ``start`` on, without copying."""
        columns = (self.value, self.key, self.headers, self.timestamp)
        value, key, headers, timestamp = (None if c is None else c.slice(start, count) for c in columns)
        return EncodedBatch(self.topic, count, value, key, headers, timestamp, self.kafka_partition)


def _with_offsets(column: pa.Array | None) -> pa.Array | None:
    """The column in a layout whose lengths are in its offsets; those of fixed size and views have none."""
    if column is None or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column
    return column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())


def _data_bytes(column: pa.Array) -> int:
    """Read from the column's offsets: what ``nbytes`` counts besides depends on whether the column is a slice."""
    offsets = column.buffers()[1]
    if len(column) == 0 or offsets is None:
        return 0
    ends = memoryview(offsets).cast("q" if str(column.type).startswith("large_") else "i")
    return int(ends[column.offset + len(column)] - ends[column.offset])


class KafkaWriter:
    """Writes encoded batches in their order; ``flush`` waits for every acknowledgement.

    The producer's queue never fills: writing waits while more than ``MAX_QUEUED_RECORDS`` records or ``MAX_QUEUED_BYTES`` bytes are on
    their way, because librdkafka goes on with the rest of a batch after a record that found the queue full, and order would be lost.
    ``give_up`` is asked while waiting; true ends the wait with RetriableException. ``native`` takes records without headers and
    timestamps from their columns; see ``native_queue`` for the producers that may have one. ``refused`` takes records that are refused for
    what they are; without it they fail the writer.

    Each topic is checked before its first record, which has the broker create it if it creates any: librdkafka drops records of a topic
    that never comes. One that is deleted later fails the writer by the delivery reports of its records.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        native: NativeQueue | None = None,
        give_up: Callable[[], bool] = lambda: False,
        refused: RefusedRecords | None = None,
    ) -> None:
        self._producer = producer
        self._native = native
        self._refused = refused
        self._give_up = give_up
        self._written = 0
        self._waiting: deque[tuple[int, int]] = deque()  # (records written up to here, bytes of that chunk)
        self._waiting_bytes = 0
        self._error: KafkaError | None = None
        self._partitions: dict[str, int] = {}

    def write(self, batch: EncodedBatch) -> None:
        """Queue a batch. Raises what an earlier batch failed with."""
        with translating(f"writing to topic {batch.topic}", self._producer):
            self._write(batch)
        self.check()

    def _write(self, batch: EncodedBatch) -> None:
        self._look_for(batch.topic, batch.kafka_partition)
        for start in range(0, batch.num_records, CHUNK_RECORDS):
            for chunk in _pieces(batch.slice(start, min(CHUNK_RECORDS, batch.num_records - start))):
                self._wait_for_room(chunk.num_records)
                self._queue(chunk)
                self._written += chunk.num_records
                size = chunk.num_bytes
                self._waiting.append((self._written, size))
                self._waiting_bytes += size

    def _look_for(self, topic: str, partition: int | None) -> None:
        """Raises TopicMissingException, and StoreException for a partition that is not there and of which nobody else would tell."""
        if topic not in self._partitions:
            self._partitions[topic] = self._found(topic)
        if partition is None or self._native is None or partition < self._partitions[topic]:
            return
        count = self._partitions[topic] = self._found(topic)  # some may have been added
        if partition >= count:
            raise StoreException(f"Invalid partition given with record: {partition} is not in the range [0...{count}) of topic {topic}")

    def _found(self, topic: str) -> int:
        """How many partitions the topic has, as soon as it has any."""
        deadline = time.monotonic() + TOPIC_SECONDS
        while True:
            found = self._producer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
            if found.partitions and found.error is None:
                return len(found.partitions)
            if found.error is not None and found.error.code() not in _NOT_YET:
                raise KafkaException(found.error)
            if time.monotonic() > deadline:
                raise TopicMissingException(
                    f"Topic {topic} does not exist, and the broker has made none within {TOPIC_SECONDS:g} s: make it, or have the "
                    "connector make it by topic.creation.*"
                )
            if self._give_up():
                raise RetriableException(f"told to stop while waiting for topic {topic}")
            time.sleep(_LOOK_SECONDS)

    def flush(self, timeout_seconds: float) -> None:
        """Wait until everything written is acknowledged. Raises RetriableException after ``timeout_seconds``."""
        with translating("waiting for acknowledgements", self._producer):
            reports = self._reports
            left = self._producer.flush(timeout_seconds) if reports is None else reports.drain(timeout_seconds)
        self.check()
        if left:
            raise RetriableException(f"{left} records were not acknowledged by the broker within {timeout_seconds:g} s")
        if self._refused is not None:
            self._refused.settle(timeout_seconds)
        self._waiting.clear()
        self._waiting_bytes = 0

    def check(self) -> None:
        """Raise the first delivery error there was."""
        error = self._error
        if error is None and self._native is not None:
            error = self._native.fatal_error() or self._native.failure
        if error is not None:
            if error.code() == KafkaError._DESTROY:  # not the client's end: the records' partition is gone with its topic
                error = KafkaError(KafkaError._UNKNOWN_PARTITION)
            raise translated(cause_of(error, self._producer), "writing records") from None

    def _wait_for_room(self, count: int) -> None:
        producer = self._producer
        while True:
            queued = len(producer)
            acked = self._written - queued
            while self._waiting and self._waiting[0][0] <= acked:
                self._waiting_bytes -= self._waiting.popleft()[1]
            if not queued or (queued + count <= MAX_QUEUED_RECORDS and self._waiting_bytes <= MAX_QUEUED_BYTES):
                self._serve(0)
                return
            self._serve(_WAIT_SECONDS)
            self.check()
            if self._give_up():
                raise RetriableException("told to stop while waiting for the broker to acknowledge records")

    @property
    def _reports(self) -> NativeQueue | None:
        """Where delivery reports are read, if not by callbacks."""
        return self._native if self._native is not None and self._native.hears_reports else None

    def _serve(self, timeout_seconds: float) -> None:
        reports = self._reports
        self._producer.poll(timeout_seconds) if reports is None else reports.serve(timeout_seconds)

    def _leave_native(self) -> None:
        """From now on by way of Python: reports are read in one way only, so those of the native queue come first."""
        assert self._native is not None
        while self._native.drain(_WAIT_SECONDS):
            self.check()
            if self._give_up():
                raise RetriableException("told to stop while waiting for the broker to acknowledge records")
        self.check()
        self._native = None

    def _queue(self, chunk: EncodedBatch) -> None:
        if chunk.headers is not None or chunk.timestamp is not None:
            if self._reports is not None:
                self._leave_native()
            self._queue_singly(chunk)
            return
        if self._native is not None:
            self._native.put(chunk.topic, chunk.kafka_partition, chunk.value, chunk.key, chunk.num_records)
            return
        messages = _messages(chunk)
        partition = -1 if chunk.kafka_partition is None else chunk.kafka_partition
        queued = self._producer.produce_batch(chunk.topic, messages, partition=partition, on_delivery=self._delivered)
        if queued != len(messages):
            for message in messages:
                self._refuse(chunk, message, message.pop("_error", None))

    def _queue_singly(self, chunk: EncodedBatch) -> None:
        """Records with headers or timestamps: the batch calls take none."""
        rows = [None] * chunk.num_records if chunk.headers is None else chunk.headers.to_pylist()
        headers = [[(h["key"], h["value"]) for h in row] if row else None for row in rows]
        options: dict[str, Any] = {} if chunk.kafka_partition is None else {"partition": chunk.kafka_partition}
        for message, header in zip(_messages(chunk), headers, strict=True):
            if header:
                message["headers"] = header
            report = self._delivered if self._refused is None else partial(self._delivered, headers=header)
            try:
                self._producer.produce(chunk.topic, on_delivery=report, **message, **options)
            except KafkaException as error:
                self._refuse(chunk, message, error.args[0])

    def _refuse(self, chunk: EncodedBatch, message: dict[str, Any], error: KafkaError | None) -> None:
        """A record that the client itself would not take."""
        if error is None:
            return
        partition = {} if chunk.kafka_partition is None else {"partition": chunk.kafka_partition}
        if self._refused is None or not self._refused.give_up(chunk.topic, {**message, **partition}, error):
            raise KafkaException(error)

    def _delivered(self, error: KafkaError | None, message: Message, headers: object = None) -> None:
        if error is None or (self._refused is not None and self._refused.delivered(error, message, headers)):
            return
        if self._error is None and error.code() not in _TAKEN_BACK:
            self._error = error


def _pieces(batch: EncodedBatch) -> Iterator[EncodedBatch]:
    """The batch in halves until each holds ``CHUNK_BYTES`` at most, or one record."""
    if batch.num_records == 1 or batch.num_bytes <= CHUNK_BYTES:
        yield batch
        return
    half = batch.num_records // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half, batch.num_records - half))


def _messages(chunk: EncodedBatch) -> list[dict[str, Any]]:
    """The dicts that the client wants: the only place where records become Python objects."""
    values: Sequence[bytes | None] = chunk.value.to_pylist() if chunk.value is not None else [None] * chunk.num_records
    if chunk.key is None and chunk.timestamp is None:
        return [{"value": value} for value in values]
    messages: list[dict[str, Any]] = [{"value": value} for value in values]
    if chunk.key is not None:
        for message, key in zip(messages, chunk.key.to_pylist(), strict=True):
            message["key"] = key
    if chunk.timestamp is not None:
        for message, timestamp in zip(messages, chunk.timestamp.to_pylist(), strict=True):
            if timestamp is not None:
                message["timestamp"] = timestamp
    return messages
