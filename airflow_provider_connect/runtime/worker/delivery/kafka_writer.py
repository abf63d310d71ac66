"""Writes encoded batches to a Kafka producer: back-pressure, order and delivery errors. Knows nothing of offsets, transactions or
guarantees."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_provider_connect.errors import RetriableException, StoreException
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException, cause_of, kafka_error, translated, translating
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.producer_queue import ProducerQueue
from airflow_provider_connect.runtime.worker.delivery.record_limits import RecordLimits
from airflow_provider_connect.runtime.worker.delivery.refused_records import RefusedRecords

CHUNK_RECORDS = 10_000
CHUNK_BYTES = 16 * 1024 * 1024
MAX_QUEUED_RECORDS = 500_000
MAX_QUEUED_BYTES = 64 * 1024 * 1024
TOPIC_SECONDS = 30.0  # librdkafka's own timeout for a topic that was just created
ANSWER_SECONDS = 60.0
_OF_TOPIC = (
    "a record passes the limit of the broker, and not of the client. Raise max.message.bytes of the topic, whose default is the brokers' "
    "message.max.bytes"
)
_WAIT_SECONDS = 0.02
_LOOK_SECONDS = 0.1
_NOT_YET = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._UNKNOWN_TOPIC})
_TAKEN_BACK = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # errors of records whose transaction is aborted


class KafkaWriter:
    """Writes encoded batches in order. ``flush`` waits for every acknowledgement.

    The producer's queue never fills up: writing waits while more than ``MAX_QUEUED_RECORDS`` records or ``MAX_QUEUED_BYTES`` bytes are in
    flight. If a record found the queue full, librdkafka would continue with the rest of the batch, and order would be lost. ``give_up`` is
    called while waiting; true ends the wait with RetriableException. ``native`` takes records from their columns; ``ProducerQueue``
    documents which producers may have one. ``refused`` accepts records that the broker refuses because of their content; without it such
    records fail the writer. ``limits``: a topic that accepts only smaller batches than the client's gets smaller batches. Each is
    acknowledged before the next one is sent.

    Each topic is checked before its first record. The check makes the broker create the topic, if the broker creates topics. This is
    necessary because librdkafka drops records of a topic that never appears. If a topic is deleted later, the delivery reports of its
    records fail the writer.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        native: ProducerQueue | None = None,
        give_up: Callable[[], bool] = lambda: False,
        refused: RefusedRecords | None = None,
        limits: RecordLimits | None = None,
    ) -> None:
        self._producer = producer
        self._native = native
        self._refused = refused
        self._limits = limits
        self._give_up = give_up
        self._written = 0
        self._waiting: deque[tuple[int, int]] = deque()  # (records written so far, bytes of this chunk)
        self._waiting_bytes = 0
        self._error: KafkaError | None = None
        self._partitions: dict[str, int] = {}

    def write(self, batch: EncodedBatch) -> None:
        """Queue a batch. Raises the error of an earlier batch."""
        try:
            with translating(f"writing to topic {batch.topic}", self._producer):
                self._write(batch)
        except StoreException as error:
            cause = None if error.__cause__ is None else kafka_error(error.__cause__)
            if cause is None or cause.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise
            raise StoreException(f"{error.message}: {_of_client(batch)}") from error
        self.check()

    def _write(self, batch: EncodedBatch) -> None:
        self._require(batch.topic, batch.kafka_partition)
        groups = None if self._limits is None else self._limits.groups(batch)
        if groups is None:
            self._write_chunks(batch)
            return
        for group in groups:
            self._write_chunks(group)
            self.flush(ANSWER_SECONDS)

    def _write_chunks(self, batch: EncodedBatch) -> None:
        for chunk in batch.chunks(CHUNK_RECORDS, CHUNK_BYTES):
            self._wait_for_room(chunk.num_records)
            self._queue(chunk)
            self._written += chunk.num_records
            size = chunk.num_bytes
            self._waiting.append((self._written, size))
            self._waiting_bytes += size

    def _require(self, topic: str, partition: int | None) -> None:
        """Raises TopicMissingException, or StoreException for a missing partition, which the native queue does not report."""
        if topic not in self._partitions:
            self._partitions[topic] = self._found(topic)
        if partition is None or self._native is None or partition < self._partitions[topic]:
            return
        count = self._partitions[topic] = self._found(topic)  # partitions may have been added
        if partition >= count:
            raise StoreException(f"Invalid partition given with record: {partition} is not in the range [0...{count}) of topic {topic}")

    def _found(self, topic: str) -> int:
        """The number of partitions. Waits until the topic exists."""
        deadline = time.monotonic() + TOPIC_SECONDS
        while True:
            found = self._producer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
            if found.partitions and found.error is None:
                return len(found.partitions)
            if found.error is not None and found.error.code() not in _NOT_YET:
                raise KafkaException(found.error)
            if time.monotonic() > deadline:
                raise TopicMissingException(
                    f"Topic {topic} does not exist, and the broker has created none within {TOPIC_SECONDS:g} s: create it, or have the "
                    "connector create it by topic.creation.*"
                )
            if self._give_up():
                raise RetriableException(f"stopped while waiting for topic {topic}")
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
        """Raise the first delivery error, if any."""
        error = self._error
        if error is None and self._native is not None:
            error = self._native.fatal_error() or self._native.failure
        if error is not None:
            if error.code() == KafkaError._DESTROY:  # not the end of the client: the topic was deleted, and with it the record's partition
                error = KafkaError(KafkaError._UNKNOWN_PARTITION)
            failure = translated(cause_of(error, self._producer), "writing records")
            is_too_large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE).str() in error.str()  # also in an idempotent producer's fatal error
            raise StoreException(f"{failure.message}: {_OF_TOPIC}") if is_too_large else failure from None

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
                raise RetriableException("stopped while waiting for the broker to acknowledge records")

    @property
    def _reports(self) -> ProducerQueue | None:
        """The queue from which delivery reports are read. None: callbacks receive them."""
        return self._native if self._native is not None and self._native.reads_reports else None

    def _serve(self, timeout_seconds: float) -> None:
        reports = self._reports
        self._producer.poll(timeout_seconds) if reports is None else reports.serve(timeout_seconds)

    def _queue(self, chunk: EncodedBatch) -> None:
        chunk = _with_client_times(chunk)
        if self._native is not None:
            columns = {"headers": chunk.headers, "timestamp": chunk.timestamp}
            self._native.put(chunk.topic, chunk.kafka_partition, chunk.value, chunk.key, chunk.num_records, **columns)
            return
        if chunk.headers is not None or chunk.timestamp is not None:
            self._queue_singly(chunk)
            return
        messages = _messages(chunk)
        partition = -1 if chunk.kafka_partition is None else chunk.kafka_partition
        queued = self._producer.produce_batch(chunk.topic, messages, partition=partition, on_delivery=self._delivered)
        if queued != len(messages):
            for message in messages:
                self._refuse(chunk, message, message.pop("_error", None))

    def _queue_singly(self, chunk: EncodedBatch) -> None:
        """Queue records with headers or timestamps, which the batch calls do not accept. A dict for each record would double the time."""
        produce, topic, refused = self._producer.produce, chunk.topic, self._refused
        partition = -1 if chunk.kafka_partition is None else chunk.kafka_partition
        report: Callable[..., None] = self._delivered
        rows = (_listed(chunk, column) for column in (chunk.value, chunk.key, chunk.timestamp))
        for value, key, timestamp, header in zip(*rows, _headers(chunk), strict=True):
            if refused is not None:
                report = partial(self._delivered, headers=header)
            try:
                produce(topic, value, key, partition, on_delivery=report, timestamp=timestamp or 0, headers=header)
            except KafkaException as error:
                given = {"key": key, "timestamp": timestamp, "headers": header}
                self._refuse(chunk, {"value": value, **{name: part for name, part in given.items() if part is not None}}, error.args[0])

    def _refuse(self, chunk: EncodedBatch, message: dict[str, Any], error: KafkaError | None) -> None:
        """Report a record that the client itself refuses."""
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


def _with_client_times(chunk: EncodedBatch) -> EncodedBatch:
    """The client treats 0 as no timestamp, so the first instant of 1970 becomes the next millisecond."""
    times = chunk.timestamp
    if times is None or times.null_count == len(times) or pc.min(times).as_py() > 0:
        return chunk
    return replace(chunk, timestamp=pc.if_else(pc.equal(times, 0), 1, times))


def _of_client(batch: EncodedBatch) -> str:
    """The message about the limit for which the client itself refuses a record."""
    lengths = (pc.max(pc.binary_length(column)).as_py() or 0 for column in (batch.key, batch.value) if column is not None)
    largest = f"the largest key and value have {sum(lengths)} bytes"
    return f"a record passes the limit of the client, and not of the broker; {largest}. Raise producer.override.max.request.size"


def _messages(chunk: EncodedBatch) -> list[dict[str, Any]]:
    """The dicts that the client's batch call expects."""
    if chunk.key is None:
        return [{"value": value} for value in _listed(chunk, chunk.value)]
    return [{"value": value, "key": key} for value, key in zip(_listed(chunk, chunk.value), _listed(chunk, chunk.key), strict=True)]


def _headers(chunk: EncodedBatch) -> list[list[tuple[str, bytes | None]] | None]:
    return [[(h["key"], h["value"]) for h in row] if row else None for row in _listed(chunk, chunk.headers)]


def _listed(chunk: EncodedBatch, column: pa.Array | None) -> list[Any]:
    """A column's values as Python objects. Records become objects only here, at the client."""
    return [None] * chunk.num_records if column is None else column.to_pylist()
