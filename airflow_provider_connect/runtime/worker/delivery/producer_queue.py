"""Puts Arrow columns straight into librdkafka's queue, without a Python object per record. Knows nothing of transactions or of waiting
callers.

confluent-kafka's own calls need bytes objects for each record. Records without timestamps and headers use librdkafka's batch call: 0.23 µs
of one core each, compared to 0.65 µs through Python, measured. That call accepts neither timestamps nor headers. So each record with a
timestamp or headers needs a call of its own. The arguments of these calls are written as columns. This takes 3,700 instructions more per
record than the batch call; through Python it takes 9,000 more. ``librdkafka`` lists the assumptions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise, repeat
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, Producer

from airflow_provider_connect.errors import DataException, RetriableException
from airflow_provider_connect.runtime.worker.delivery.librdkafka import EMPTY_ADDRESS, MESSAGE, Librdkafka, Words, client_of, pointer

_COPY = 0x2  # RD_KAFKA_MSG_F_COPY: the buffers may be freed once the call returns
_ANY_PARTITION = -1
_DELIVERY_REPORTS = 0x1  # RD_KAFKA_EVENT_DR
_SERVE_SECONDS = 0.1
_RKT, _PARTITION, _VALUE, _KEY, _FLAGS, _TIMESTAMP, _HEADER = 2, 3, 4, 5, 7, 8, 9  # rd_kafka_vtype_t
_PARTS = (_RKT, _PARTITION, _FLAGS, _VALUE, _TIMESTAMP, _KEY)  # of a described record; the last only if it has a key; its headers follow
_WORDS = 9  # words of rd_kafka_vu_t: the kind of the part, then a union of 64 bytes
_DESCRIBED = 1_000  # records together, so that their descriptions stay in the processor's cache


class ProducerQueue:
    """The queue of one producer. Not thread-safe.

    If a record has no Python callback, confluent-kafka drops its delivery report, and thus a failure. So a queue that ``reads_reports``
    reads the client's events itself. From its first record on, ``serve`` replaces ``Producer.poll`` and ``Producer.flush``: neither may be
    called, and the client's other callbacks are not called. A queue that does not read reports is for transactional producers only:
    librdkafka counts failed deliveries itself and refuses to commit.
    """

    def __init__(self, producer: Producer, library: Librdkafka, *, reads_reports: bool) -> None:
        self._producer = producer  # keep a reference: the client lives as long as this object
        self._librdkafka, self._library = library, library.waiting
        self._produce = library.quick.rd_kafka_produceva
        self._client = client_of(producer)
        self._client_argument = pointer(self._client)
        self.reads_reports = reads_reports
        self.failure: KafkaError | None = None  # of the first record that was not delivered

    @classmethod
    def open(cls, producer: Producer, library: Librdkafka | None, *, reads_reports: bool = False) -> ProducerQueue | None:
        """The queue of ``producer``. None without a library."""
        return None if library is None else cls(producer, library, reads_reports=reads_reports)

    def put(
        self,
        topic: str,
        partition: int | None,
        value: pa.Array | None,
        key: pa.Array | None,
        count: int,
        *,
        headers: pa.Array | None = None,
        timestamp: pa.Array | None = None,
    ) -> None:
        """Queue ``count`` records in order. Columns are Arrow binary. ``headers`` are lists of key and value. ``timestamp`` is int64 in
        milliseconds; null means now. A column of nulls may be None.

        Raises RetriableException when the queue is full (the caller ensures that it never is). Raises DataException for a header key with a
        zero byte, else KafkaException with the cause.
        """
        messages = np.zeros(count, dtype=MESSAGE)
        value, key = _as_binary(value), _as_binary(key)  # kept in variables: the messages point into these buffers until the call returns
        _point(messages["payload"], messages["len"], value)
        _point(messages["key"], messages["key_len"], key)
        handle = self._library.rd_kafka_topic_new(self._client, topic.encode(), None)
        if not handle:
            raise ValueError(f"librdkafka knows no topic {topic}")
        target = _ANY_PARTITION if partition is None else partition
        try:
            if headers is None and timestamp is None:
                queued = self._library.rd_kafka_produce_batch(handle, target, _COPY, messages.ctypes.data, count)
                if queued != count:
                    raise self._refusal(int(messages["err"][messages["err"] != 0][0]))
                return
            room = _room(min(_DESCRIBED, count), handle, target, has_key=key is not None)
            for start in range(0, count, _DESCRIBED):
                part, length = slice(start, start + _DESCRIBED), min(_DESCRIBED, count - start)
                words = room[:length]
                _describe(words, messages[part], None if timestamp is None else timestamp.slice(start, length))
                self._put_described(words, None if headers is None else headers.slice(start, length))
        finally:
            self._library.rd_kafka_topic_destroy(handle)

    def _put_described(self, words: Words, headers: pa.Array | None) -> None:
        """Queue records that are described by ``words``, their parts, and by ``headers``."""
        lengths: Iterable[int] = repeat(words.shape[1])
        if headers is not None and (named := _Headers(headers)).count:
            descriptions, lengths = named.behind(words)
        else:
            whole = words.reshape(len(words), -1)
            descriptions = whole.view(f"V{whole.shape[1] * whole.itemsize}")[:, 0].tolist()
        for error in filter(None, map(self._produce, repeat(self._client_argument), descriptions, lengths)):
            code = self._library.rd_kafka_error_code(error)
            self._library.rd_kafka_error_destroy(error)
            raise self._refusal(code)

    def serve(self, timeout_seconds: float) -> None:
        """Take the available delivery reports. Waits up to ``timeout_seconds`` for the first. A failed delivery is noted in ``failure``."""
        library = self._library
        queue = library.rd_kafka_queue_get_main(self._client)
        wait_ms = int(timeout_seconds * 1000)
        try:
            while event := library.rd_kafka_queue_poll(queue, wait_ms):
                wait_ms = 0
                code = library.rd_kafka_event_error(event) if library.rd_kafka_event_type(event) == _DELIVERY_REPORTS else 0
                library.rd_kafka_event_destroy(event)
                if code and self.failure is None:
                    self.failure = KafkaError(code)
        finally:
            library.rd_kafka_queue_destroy(queue)

    def drain(self, timeout_seconds: float) -> int:
        """Wait until every record is acknowledged or has failed, up to ``timeout_seconds``. Returns how many are still in flight."""
        deadline = time.monotonic() + timeout_seconds
        while (left := len(self._producer)) and (remaining := deadline - time.monotonic()) > 0:
            self.serve(min(remaining, _SERVE_SECONDS))
        return left

    def fatal_error(self) -> KafkaError | None:
        """The error that ended the client for good, if any."""
        return self._librdkafka.fatal_error(self._client)

    def _refusal(self, code: int) -> Exception:
        if code == KafkaError._QUEUE_FULL:
            return RetriableException("The producer's queue is full: the broker takes records more slowly than they come")
        return confluent_kafka.KafkaException(self.fatal_error() or KafkaError(code))


class _Headers:
    """The headers of some records, as parts of their descriptions."""

    def __init__(self, column: pa.Array) -> None:
        self._each = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        self.count = int(self._each.sum())
        flat = column.flatten()
        encoded = pc.struct_field(flat, "key").dictionary_encode()
        names = [name.encode() + b"\0" for name in encoded.dictionary.to_pylist()]
        if any(b"\0" in name[:-1] for name in names):
            raise DataException(
                "The key of a header holds a zero byte, with which librdkafka ends it: rename that header where the record comes from"
            )
        self._names = np.frombuffer(b"".join(names), np.uint8)  # keep a reference: descriptions point into it
        self._values = _as_binary(pc.struct_field(flat, "value"))
        self._parts = np.zeros((self.count, _WORDS), np.uint64)
        if self.count:
            firsts = np.cumsum([0, *map(len, names)])[:-1] + self._names.ctypes.data
            self._parts[:, 0], self._parts[:, 1] = _HEADER, firsts[encoded.indices.to_numpy()]
            _point(self._parts[:, 2], self._parts[:, 3], self._values)

    def behind(self, words: Words) -> tuple[list[bytes], list[int]]:
        """The parts of each record, followed by its headers' parts, and how many parts it has."""
        parts = words.shape[1]
        counts = self._each + parts
        ends = np.cumsum(counts)
        flat = np.zeros((len(words) * parts + self.count, _WORDS), np.uint64)
        own = (ends - counts)[:, None] + np.arange(parts)
        flat[own] = words
        is_header = np.ones(len(flat), bool)
        is_header[own] = False
        flat[is_header] = self._parts
        whole, size = flat.tobytes(), flat.itemsize * _WORDS
        edges = [0, *(ends * size).tolist()]
        return [whole[start:end] for start, end in pairwise(edges)], counts.tolist()


def _room(count: int, handle: int, partition: int, *, has_key: bool) -> Words:
    """Memory for ``count`` descriptions, filled with the values that all of them share: (records, parts, words)."""
    parts = _PARTS if has_key else _PARTS[:-1]
    words = np.zeros((count, len(parts), _WORDS), np.uint64)
    words[:, :, 0] = parts
    words[:, 0, 1] = handle
    words[:, 1, 1] = partition & 0xFFFFFFFF
    words[:, 2, 1] = _COPY
    return words


def _describe(words: Words, messages: np.ndarray[Any, Any], timestamp: pa.Array | None) -> None:
    """Write the arguments of ``rd_kafka_produceva`` for each record. They overwrite those of earlier records."""
    words[:, 3, 1], words[:, 3, 2] = messages["payload"], messages["len"]
    if timestamp is not None:
        words[:, 4, 1] = pc.fill_null(timestamp.cast(pa.int64()), 0).to_numpy().view(np.uint64)
    if words.shape[1] == len(_PARTS):
        words[:, 5, 1], words[:, 5, 2] = messages["key"], messages["key_len"]


def _as_binary(column: pa.Array | None) -> pa.Array | None:
    """The column in the one layout that ``_point`` reads. A cast allocates buffers of its own."""
    return column if column is None or column.type == pa.binary() else column.cast(pa.binary())


def _point(pointers: Words, lengths: Words, column: pa.Array | None) -> None:
    """Set each record's pointer and length to its bytes in the column's buffer. A null stays a null pointer."""
    if column is None:
        return
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    pointers[:] = ends[:-1] + (data.address if data is not None and data.size else EMPTY_ADDRESS)
    lengths[:] = np.diff(ends)
    if column.null_count:
        present = column.is_valid().to_numpy(zero_copy_only=False)
        pointers *= present
        lengths *= present
