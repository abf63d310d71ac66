"""Fixed ranges of topic partitions as raw batches; the next are read while those before are worked on.

Knows nothing of converters, groups or commits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import pyarrow as pa
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.stores.kafka_errors import translating
from airflow_provider_connect.runtime.worker.delivery.consumed import ClientMessages, Consumed
from airflow_provider_connect.runtime.worker.delivery.consumer_queue import ConsumerQueue
from airflow_provider_connect.runtime.worker.delivery.librdkafka import Librdkafka, OnError
from airflow_provider_connect.runtime.worker.delivery.raw_batch import HEADERS_TYPE, RawBatch

log = logging.getLogger(__name__)
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
FORCED_SETTINGS = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",  # a range begins where its reader decides; what retention removes before it is read is named
}
_ANSWER_SECONDS = 30.0
_WAIT_SECONDS = 0.1  # how long errors and callbacks of the consumer wait


class KafkaReader:
    """Reads each partition from its start offset to its end offset and not beyond. To be closed before the consumer is.

    A partition is done when its position reaches the end, or at the broker's end-of-partition event: behind the last record there may be
    nothing but transaction markers. One whose end is ``ENDLESS`` never is. ``positions`` are the offsets behind all that was passed, also
    behind markers and aborted records.
    ``held`` are the partitions of which nothing is read for now. ``columns`` names what is wanted besides the value: ``key``, ``headers``,
    ``timestamp``. ``on_error`` is the consumer's ``error_cb``, if it has one. Without ``library``, records are
    read as confluent-kafka's objects.
    """

    def __init__(
        self,
        consumer: Consumer,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        columns: frozenset[str],
        on_error: OnError = lambda _: None,
        *,
        library: Librdkafka | None,
    ) -> None:
        self._consumer = consumer
        self._ends = {partition: end for partition, (_, end) in ranges.items()}
        self.positions = {partition: start for partition, (start, _) in ranges.items()}
        self._open = {partition for partition, (start, end) in ranges.items() if start < end}
        self.held: frozenset[TopicPartition] = frozenset()
        only = next(iter(ranges)) if len(ranges) == 1 else None
        self._client = ClientMessages(consumer, columns, only)
        self._native = None if library is None else ConsumerQueue(consumer, library, columns, on_error)
        try:
            self._assign()
        except BaseException:
            self.close()  # else the consumer's end waits for it
            raise

    def close(self) -> None:
        """What was fetched and not read is dropped."""
        if self._native is not None:
            self._native.close()

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
            consumed = self._take(wait, BATCH_RECORDS - count, BATCH_BYTES - size)
            if consumed is None:
                break
            for piece in self._passed(consumed):
                pieces.setdefault(piece.partition, []).append(piece)
                count += piece.num_records
                size += piece.num_bytes
            wait = 0.0
        return [_joined(run) for run in pieces.values()]

    def _take(self, timeout_seconds: float, most_records: int, most_bytes: int) -> Consumed | None:
        if self._native is None:
            return self._client.take(timeout_seconds, most_records, most_bytes)
        left = timeout_seconds
        while True:
            self._native.follow(self._open - self.held)
            events = self._client.take(0, most_records, most_bytes)  # errors and callbacks
            consumed = self._native.take(min(left, _WAIT_SECONDS), most_records, most_bytes) if events is None else events
            left -= _WAIT_SECONDS
            if consumed is not None or left <= 0:
                return consumed

    def _assign(self) -> None:
        wanted = sorted(self._open - self.held)
        if self._native is not None:
            self._native.follow(wanted)  # before: a record that came by way of the consumer's own queue would be out of order
        self._consumer.assign([ClientPartition(p.topic, p.partition, self.positions[p]) for p in wanted])

    def _passed(self, consumed: Consumed) -> Iterator[RawBatch]:
        """What of it lies within the ranges; moves the positions on."""
        for piece in consumed.pieces:
            partition = piece.partition
            if partition not in self._open or partition in self.held:
                continue
            end = self._ends[partition]
            cut = piece.before(end)
            if cut is not None:
                yield cut
            self.positions[partition] = min(piece.next_offset, end)
            if piece.next_offset >= end:
                self._close(partition)
        for partition, position in consumed.ended:  # after the records: the event follows them
            if partition in self._open and position >= self.positions[partition]:
                self.positions[partition] = position
                if self._ends[partition] != ENDLESS:
                    self._close(partition)
        for partition in consumed.gone:
            if partition in self._open and partition not in self.held:
                self._go_on(partition)

    def _go_on(self, partition: TopicPartition) -> None:
        """The log does not hold the next offset: go on at the first that it holds, or fail where it ends before."""
        position = self.positions[partition]
        with translating(f"reading topic {partition.topic}"):
            low, high = self._consumer.get_watermark_offsets(ClientPartition(*partition), _ANSWER_SECONDS)
        if position > high:
            raise ConnectException(
                f"Offset {position} is after the end of {partition}, {high}: the topic lost records, or was created anew"
            )
        if position < low:
            log.warning(
                "Offsets %d to %d of %s are gone, and were not delivered: the topic's retention removed them before they were read",
                *(position, min(low, self._ends[partition]) - 1, partition),
            )
        self.positions[partition] = min(max(low, position), self._ends[partition])
        if self.positions[partition] >= self._ends[partition]:
            self._close(partition)
        else:
            self._assign()

    def _close(self, partition: TopicPartition) -> None:
        self._open.discard(partition)
        self._consumer.incremental_unassign([ClientPartition(partition.topic, partition.partition)])


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
        self._reader.close()

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
