"""Consumed records as Arrow columns, without a Python object per record. Knows nothing of ranges.

confluent-kafka's consumer creates an object for each record, and further objects for key, value and timestamp. Here, the library returns
pointers. NumPy follows them, and Arrow copies keys and values. ``librdkafka`` lists the assumptions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.worker.delivery.consumed import NO_TIMESTAMP, TIMESTAMP_TYPES, Consumed
from airflow_provider_connect.runtime.worker.delivery.header_blocks import headers_of_blocks
from airflow_provider_connect.runtime.worker.delivery.librdkafka import Librdkafka, OnError, Words, binary_at, client_of, text_at, words_at
from airflow_provider_connect.runtime.worker.delivery.raw_batch import RawBatch

MOST_RECORDS = 10_000  # per call
_STEP_RECORDS = 150  # after this many, the size of the records is checked, because large ones may follow small ones
_ERROR, _TOPIC, _PARTITION, _VALUE, _VALUE_SIZE, _KEY, _KEY_SIZE, _OFFSET = range(8)  # 64-bit words of rd_kafka_message_t
_KIND, _TIMESTAMP, _HEADERS_SIZE, _HEADERS = 11, 12, 15, 16  # words of rd_kafka_msg_t; the type of the timestamp is the upper half of _KIND
_WORDS = 17


class ConsumerQueue:
    """Takes what a consumer has fetched. Not thread-safe. Close it before the consumer, which waits for its queues when it ends.

    Most errors and all callbacks still go to the consumer's own queue, so ``Consumer.poll`` must be called now and then. If a topic is
    gone, librdkafka puts an error among the records, and also calls the error callback from the call that meets the error. confluent-kafka
    sets such a callback in every client. The process ends if this callback is called outside of confluent-kafka's own calls. So
    ``on_error`` replaces it for all errors of the client.
    """

    def __init__(self, consumer: Consumer, library: Librdkafka, columns: frozenset[str], on_error: OnError) -> None:
        self._consumer = consumer  # keep a reference: the client lives as long as this object
        self._library, self._waiting, self._quick = library, library.waiting, library.quick
        self._client = client_of(consumer)
        self._columns = columns
        self._queue: int | None = self._waiting.rd_kafka_queue_new(self._client)
        self._pointers = np.zeros(MOST_RECORDS, np.uint64)
        self._address = self._pointers.ctypes.data
        self._library.listen(self._client, on_error)

    def close(self) -> None:
        """Drop what was fetched and not taken, and stop reporting errors. No ``take`` may be running."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self._waiting.rd_kafka_queue_destroy(queue)
            self._library.end_listening(self._client)

    __del__ = close

    def follow(self, partitions: Iterable[TopicPartition]) -> None:
        """Redirect the records of ``partitions`` to this queue. An assignment takes effect in a thread of the library, and undoes the
        redirection. So this method is called again before each ``take``."""
        library, own = self._quick, self._open_queue()
        for partition in partitions:
            queue = library.rd_kafka_queue_get_partition(self._client, partition.topic.encode(), partition.partition)
            if queue:
                library.rd_kafka_queue_forward(queue, own)
                library.rd_kafka_queue_destroy(queue)

    def take(self, timeout_seconds: float, most_records: int, most_bytes: int) -> Consumed | None:
        """The fetched records, up to about these limits. Waits up to ``timeout_seconds`` for the first record. None: nothing arrived.
        Raises KafkaException."""
        count = self._taken(0, 1)
        if not count and timeout_seconds:
            count = self._taken(0, 1, timeout_seconds)
        try:
            if not count:
                return None
            size, record_bytes = 0, self._size(0, count)
            while count < min(most_records, MOST_RECORDS) and size < most_bytes:
                step = min(_STEP_RECORDS, most_records - count, MOST_RECORDS - count, 1 + (most_bytes - size) // max(1, record_bytes))
                got = self._taken(count, step)
                if not got:
                    break
                step_bytes = self._size(count, count + got)
                count, size, record_bytes = count + got, size + step_bytes, step_bytes // got
            return self._consumed(words_at(self._pointers[:count], _WORDS))
        finally:
            deque(map(self._quick.rd_kafka_message_destroy, self._pointers[:count].tolist()), maxlen=0)

    def _size(self, first: int, end: int) -> int:
        """The size of the values of these records, in bytes."""
        return int(words_at(self._pointers[first:end] + np.uint64(8 * _VALUE_SIZE), 1).sum())

    def _taken(self, index: int, most: int, timeout_seconds: float = 0) -> int:
        """How many records were taken. Their pointers are in ``index``."""
        room = self._address + index * self._pointers.itemsize
        library = self._waiting if timeout_seconds else self._quick
        count = int(library.rd_kafka_consume_batch_queue(self._open_queue(), int(timeout_seconds * 1000), room, most))
        if count < 0:
            raise KafkaException(KafkaError(self._waiting.rd_kafka_last_error()))
        return count

    def _open_queue(self) -> int:
        """Raises ValueError if the consumer is closed: the library would follow a null pointer."""
        if self._queue is None:
            raise ValueError("this reader is closed")
        return self._queue

    def _consumed(self, words: Words) -> Consumed:
        consumed = Consumed()
        errors = words[:, _ERROR].astype(np.uint32).view(np.int32)
        names: dict[int, str] = {}
        for first, end in _runs(words, errors != 0):
            topic, number = int(words[first, _TOPIC]), int(words[first, _PARTITION] & np.uint64(0xFFFFFFFF))
            name = names.get(topic) or names.setdefault(topic, self._quick.rd_kafka_topic_name(topic).decode())
            partition = TopicPartition(name, number)
            if not errors[first]:
                consumed.pieces.append(self._piece(partition, words[first:end]))
                continue
            for row, code in zip(words[first:end], errors[first:end].tolist(), strict=True):
                reason = text_at(int(row[_VALUE]), int(row[_VALUE_SIZE]))
                consumed.add_error(KafkaError(code, reason), partition, int(row[_OFFSET]))
        return consumed

    def _piece(self, partition: TopicPartition, words: Words) -> RawBatch:
        offsets = words[:, _OFFSET].astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        piece = RawBatch(partition, first, last + 1, binary_at(words[:, _VALUE], words[:, _VALUE_SIZE]))
        if last - first + 1 != len(words):
            piece.offsets = pa.array(offsets)
        if "key" in self._columns and words[:, _KEY].any():
            piece.key = binary_at(words[:, _KEY], words[:, _KEY_SIZE])
        if "headers" in self._columns:
            sizes = (words[:, _HEADERS_SIZE] & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)
            if (sizes > 1).any():  # a record without headers has a single zero byte there
                piece.headers = headers_of_blocks(binary_at(words[:, _HEADERS], np.maximum(sizes, 0).astype(np.uint64)))
        if "timestamp" in self._columns:
            kinds = words[:, _KIND] >> np.uint64(32)
            piece.timestamp_type = TIMESTAMP_TYPES[int(kinds[0])]
            stamps = words[:, _TIMESTAMP].view(np.int64)
            piece.timestamp = pa.array(stamps, mask=(kinds == 0) | (stamps == NO_TIMESTAMP))
        return piece


def _runs(words: Words, failed: np.ndarray[Any, np.dtype[np.bool_]]) -> Iterator[tuple[int, int]]:
    """The bounds of each run of consecutive records of one partition, or of errors of one partition."""
    changes = (words[1:, _TOPIC] != words[:-1, _TOPIC]) | (words[1:, _PARTITION] != words[:-1, _PARTITION]) | (failed[1:] != failed[:-1])
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(words)]
    return pairwise(edges)
