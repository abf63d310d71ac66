"""Fixed ranges of topic partitions as raw batches; the next are read while those before are worked on.

Knows nothing of converters, groups or commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from types import TracebackType

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.stores.kafka_errors import is_retriable, translated
from airflow_provider_connect.stores.log_consumer import headers_of
from airflow_provider_connect.worker.delivery.raw_batch import HEADERS_TYPE, RawBatch

CONSUME_RECORDS = 500  # lists of 700 messages and more cost twice as much each: 0.55 µs a record against 0.27, measured
BATCH_RECORDS = 10_000
BATCH_BYTES = 32 * 1024 * 1024  # of keys, values and headers; a batch holds one record at least, however large
ENDLESS = 2**63 - 1  # the end of a range that is read on as records come
READER_SETTINGS = {
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "queued.min.messages": "100000",
    "queued.max.messages.kbytes": str(BATCH_BYTES // 1024),
    "fetch.queue.backoff.ms": "2",  # librdkafka's second lets the queue run dry
    "fetch.message.max.bytes": str(2 * 1024 * 1024),  # the first records come when the first fetch is unpacked: 16 MiB take 0.3 s
    "fetch.max.bytes": str(16 * 1024 * 1024),
    "fetch.wait.max.ms": "20",
    "reconnect.backoff.ms": "1",  # librdkafka's 100 delay the first connection by 50 ms
    "reconnect.backoff.max.ms": "1000",
}
_NO_TIMESTAMP = -1
_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


class KafkaReader:
    """Reads each partition from its start offset to its end offset and not beyond.

    A partition is done when its position reaches the end, or at the broker's end-of-partition event: behind the last record there may be
    nothing but transaction markers. One whose end is ``ENDLESS`` never is. ``positions`` are the offsets behind all that was passed, also
    behind markers and aborted records.
    ``held`` are the partitions of which nothing is read for now. ``columns`` names what is wanted besides the value: ``key``, ``headers``,
    ``timestamp``.
    """

    def __init__(self, consumer: Consumer, ranges: Mapping[TopicPartition, tuple[int, int]], columns: frozenset[str]) -> None:
        self._consumer = consumer
        self._columns = columns
        self._ends = {partition: end for partition, (_, end) in ranges.items()}
        self.positions = {partition: start for partition, (start, _) in ranges.items()}
        self._open = {partition for partition, (start, end) in ranges.items() if start < end}
        self.held: frozenset[TopicPartition] = frozenset()
        self._record_bytes = 0.0  # of the records read last, on average
        self._assign()

    @property
    def exhausted(self) -> bool:
        """Whether every partition is done but those that are held, which may never be resumed."""
        return not self._open - self.held

    def hold(self, partitions: frozenset[TopicPartition]) -> None:
        """Read nothing of exactly these partitions until the next call."""
        if partitions != self.held:
            self.held = partitions
            self._assign()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read ``partition`` again from ``offset``."""
        self.positions[partition] = offset
        if offset < self._ends[partition]:
            self._open.add(partition)
        self._assign()

    def read(self, timeout_seconds: float) -> list[RawBatch]:
        """The next records, about ``BATCH_RECORDS`` or ``BATCH_BYTES`` at most; empty after ``timeout_seconds`` without any, or when all
        are done."""
        pieces: dict[TopicPartition, list[RawBatch]] = {}
        count, size, wait = 0, 0, timeout_seconds
        while count < BATCH_RECORDS and size < BATCH_BYTES and not self.exhausted:
            first = self._consumer.poll(wait)
            if first is None:
                break
            most = self._most_records(first, BATCH_BYTES - size)
            more = self._consumer.consume(most, 0)  # with a time-out, it waits until the list is full
            read, got = 0, 0
            for piece in self._pieces([first, *more]):
                pieces.setdefault(piece.partition, []).append(piece)
                read += piece.num_records
                got += piece.num_bytes
            if read:
                self._record_bytes = got / read
            count, size, wait = count + read, size + got, 0.0
        return [_joined(run) for run in pieces.values()]

    def _most_records(self, first: Message, left_bytes: int) -> int:
        """How many records are asked for at once behind ``first``: no more than fit if they are as large as those before or as it is."""
        record_bytes = max(self._record_bytes, len(first.value() or b""))
        if record_bytes * CONSUME_RECORDS <= left_bytes:
            return CONSUME_RECORDS
        return max(1, int(left_bytes / record_bytes))

    def _assign(self) -> None:
        self._consumer.assign([ClientPartition(p.topic, p.partition, self.positions[p]) for p in sorted(self._open - self.held)])

    def _pieces(self, messages: list[Message]) -> Iterator[RawBatch]:
        ended: list[tuple[TopicPartition, int]] = []
        if any(map(Message.error, messages)):
            messages, ended = _records_and_ends(messages)
        for partition, run in self._runs(messages):
            if partition in self._open and partition not in self.held:
                piece = self._piece(partition, run)
                if piece is not None:
                    yield piece
        for partition, position in ended:  # after the records: the event follows them
            if partition in self._open and position >= self.positions[partition]:
                self.positions[partition] = position
                if self._ends[partition] != ENDLESS:
                    self._close(partition)

    def _runs(self, messages: list[Message]) -> Iterator[tuple[TopicPartition, list[Message]]]:
        if len(self._ends) == 1:
            yield next(iter(self._ends)), messages
            return
        for partition, run in groupby(messages, _partition_of):
            yield partition, list(run)

    def _piece(self, partition: TopicPartition, run: list[Message]) -> RawBatch | None:
        end = self._ends[partition]
        reached = bool(run) and _offset(run[-1]) + 1 >= end
        if reached:
            run = [message for message in run if _offset(message) < end]
        piece = _piece_of(partition, run, self._columns) if run else None
        if piece is not None:
            self.positions[partition] = piece.next_offset
        if reached:
            self.positions[partition] = end
            self._close(partition)
        return piece

    def _close(self, partition: TopicPartition) -> None:
        self._open.discard(partition)
        self._consumer.incremental_unassign([ClientPartition(partition.topic, partition.partition)])


def _records_and_ends(messages: Sequence[Message]) -> tuple[list[Message], list[tuple[TopicPartition, int]]]:
    records, ended = [], []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.append((_partition_of(message), _offset(message)))
        elif not is_retriable(error):  # the client goes on by itself after those; silence is bounded by the loop
            raise translated(error, f"reading topic {message.topic()}")
    return records, ended


def _partition_of(message: Message) -> TopicPartition:
    return TopicPartition(str(message.topic()), int(message.partition() or 0))


def _offset(message: Message) -> int:
    return int(message.offset() or 0)  # None only before a message is stored


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
        piece.headers = _headers_of(run)
    if "timestamp" in columns:
        stamps = list(map(Message.timestamp, run))
        piece.timestamp_type = _TIMESTAMP_TYPES[stamps[0][0]]
        millis = np.fromiter(map(itemgetter(1), stamps), np.int64, len(stamps))
        piece.timestamp = pa.array(millis, mask=millis == _NO_TIMESTAMP)
    return piece


def _headers_of(run: list[Message]) -> pa.Array | None:
    rows = headers_of(run)
    if rows is None:
        return None
    return pa.array([None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows], HEADERS_TYPE)


def _joined(pieces: list[RawBatch]) -> RawBatch:
    """One batch of consecutive pieces of one partition."""
    if len(pieces) == 1:
        return pieces[0]
    first, last = pieces[0], pieces[-1]
    joined = RawBatch(first.partition, first.first_offset, last.next_offset, pa.concat_arrays([p.value for p in pieces]))
    joined.timestamp_type = first.timestamp_type
    for name, kind in (("key", pa.binary()), ("headers", HEADERS_TYPE), ("timestamp", pa.int64())):
        if any(getattr(p, name) is not None for p in pieces):
            setattr(joined, name, pa.concat_arrays([_or_nulls(getattr(p, name), p.num_records, kind) for p in pieces]))
    if any(p.offsets is not None for p in pieces) or joined.next_offset - joined.first_offset != joined.num_records:
        joined.offsets = pa.concat_arrays([p.offset_column() for p in pieces])
    return joined


def _or_nulls(column: pa.Array | None, length: int, kind: pa.DataType) -> pa.Array:
    """Of headers none, rather than such as cannot be read."""
    if column is not None:
        return column
    return pa.array([[]] * length, kind) if kind == HEADERS_TYPE else pa.nulls(length, kind)


class AheadReader:
    """As the ``KafkaReader`` that it is given, and one ``read`` ahead of it, in a thread of its own. ``positions`` and ``exhausted`` say
    what was handed out, not what was read. After ``with`` nothing is being read any more.
    """

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, "kafka-read-ahead")  # starts with the first work
        self._next: Future[list[RawBatch]] | None = None
        self._note()

    def __enter__(self) -> AheadReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Wait until nothing is being read any more."""
        self._thread.shutdown()

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Where each partition goes on after what was handed out."""
        return self._positions

    @property
    def exhausted(self) -> bool:
        """Whether every partition is done but those that are held."""
        return self._exhausted

    def read(self, timeout_seconds: float) -> list[RawBatch]:
        """As ``KafkaReader.read``; the time may have begun before the call."""
        pending, self._next = self._next, None
        raws = self._reader.read(timeout_seconds) if pending is None else pending.result()
        self._note()
        if not self._exhausted:
            self._next = self._thread.submit(self._reader.read, timeout_seconds)
        return raws

    def hold(self, partitions: frozenset[TopicPartition]) -> None:
        """Read nothing of exactly these partitions until the next call."""
        if partitions != self._reader.held:
            self._take_back()
            self._reader.hold(partitions)
            self._note()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read ``partition`` again from ``offset``."""
        self._take_back()
        self._reader.seek(partition, offset)
        self._note()

    def _take_back(self) -> None:
        """What was read and not handed out is to be read again."""
        pending, self._next = self._next, None
        if pending is not None:
            for partition in {raw.partition for raw in pending.result()}:
                self._reader.seek(partition, self._positions[partition])

    def _note(self) -> None:
        self._positions = dict(self._reader.positions)
        self._exhausted = self._reader.exhausted
