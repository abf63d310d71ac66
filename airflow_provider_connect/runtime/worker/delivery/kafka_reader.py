"""Fixed ranges of topic partitions as raw batches. The next batches are read while earlier ones are processed.

Knows nothing of converters, groups or commits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from airflow_provider_connect.data.records import TopicPartition, describe_removed
from airflow_provider_connect.errors import ChangedInputException
from airflow_provider_connect.runtime.stores.kafka_errors import translating
from airflow_provider_connect.runtime.worker.delivery.consumed import ClientMessages, Consumed
from airflow_provider_connect.runtime.worker.delivery.consumer_queue import ConsumerQueue
from airflow_provider_connect.runtime.worker.delivery.librdkafka import Librdkafka, OnError
from airflow_provider_connect.runtime.worker.delivery.raw_batch import HEADERS_TYPE, RawBatch

log = logging.getLogger(__name__)
BATCH_RECORDS = 10_000
BATCH_BYTES = 32 * 1024 * 1024  # of keys, values and headers; a batch holds at least one record, however large
ENDLESS = 2**63 - 1  # the end of a range without end: new records are read as they arrive
READER_SETTINGS = {
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "queued.min.messages": "100000",
    "queued.max.messages.kbytes": str(BATCH_BYTES // 1024),
    "fetch.queue.backoff.ms": "2",  # with librdkafka's default of one second, the queue runs dry
    "fetch.message.max.bytes": str(2 * 1024 * 1024),  # records are available when the whole first fetch is unpacked: 16 MiB take 0.3 s
    "fetch.max.bytes": str(16 * 1024 * 1024),
    "fetch.wait.max.ms": "20",
    "reconnect.backoff.ms": "1",  # librdkafka's default of 100 delays the first connection by 50 ms
    "reconnect.backoff.max.ms": "1000",
}
FORCED_SETTINGS = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",  # the reader decides where a range begins; records that retention removes before the read are reported
}
_ANSWER_SECONDS = 30.0
_LEADERS_SECONDS = 2.0
_WAIT_SECONDS = 0.5  # how often errors and callbacks of the consumer are served


class KafkaReader:
    """Reads each partition from its start offset to its end offset and not beyond. Close it before the consumer.

    A partition is done when its position reaches the end, or at the broker's end-of-partition event, because only transaction markers may
    follow the last record. A partition whose end is ``ENDLESS`` is never done. ``positions`` are the offsets after everything that was
    read, including markers and aborted records. ``held`` are the partitions that are currently not read. ``columns`` names the columns to
    read besides the value: ``key``, ``headers``, ``timestamp``. ``on_error`` is the consumer's ``error_cb``, if it has one. ``on_lost`` is
    called with the number of offsets that retention removed before they were read. Without ``library``, records are read as
    confluent-kafka's objects.
    """

    def __init__(
        self,
        consumer: Consumer,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        columns: frozenset[str],
        on_error: OnError = lambda _: None,
        *,
        library: Librdkafka | None,
        on_lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._consumer = consumer
        self._on_lost = on_lost
        self._ends = {partition: end for partition, (_, end) in ranges.items()}
        self.positions = {partition: start for partition, (start, _) in ranges.items()}
        self._open = {partition for partition, (start, end) in ranges.items() if start < end}
        self.held: frozenset[TopicPartition] = frozenset()
        only = next(iter(ranges)) if len(ranges) == 1 else None
        self._client = ClientMessages(consumer, columns, only)
        self._native = None if library is None else ConsumerQueue(consumer, library, columns, on_error)
        try:
            self._learn_leaders()
            self._assign()
        except BaseException:
            self.close()  # otherwise the consumer waits for this queue when it ends
            raise

    def close(self) -> None:
        """Drop records that were fetched but not read."""
        if self._native is not None:
            self._native.close()

    @property
    def exhausted(self) -> bool:
        """Whether every partition that is not held is done. Held partitions may never be resumed."""
        return not self._open - self.held

    @property
    def known_lag(self) -> int:
        """How many offsets follow the positions, as the client knows from its last fetches. Sends no request, and leaves out ``held``."""
        lag = 0
        for partition, position in self.positions.items():
            if partition not in self.held:
                _, high = self._consumer.get_watermark_offsets(ClientPartition(*partition), cached=True) or (0, 0)
                lag += max(0, high - position)
        return lag

    def hold(self, partitions: frozenset[TopicPartition]) -> None:
        """Until the next call, do not read these partitions, but read all others."""
        if partitions != self.held:
            self.held = partitions
            self._assign()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Reread ``partition`` from ``offset``."""
        self.positions[partition] = offset
        if offset < self._ends[partition]:
            self._open.add(partition)
        self._assign()

    def read(self, timeout_seconds: float) -> list[RawBatch]:
        """The next records, at most about ``BATCH_RECORDS`` or ``BATCH_BYTES``. Empty after ``timeout_seconds`` without a record, or when
        all are done."""
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
            events = self._client.take(0, most_records, most_bytes)  # serves errors and callbacks
            consumed = self._native.take(min(left, _WAIT_SECONDS), most_records, most_bytes) if events is None else events
            left -= _WAIT_SECONDS
            if consumed is not None or left <= 0:
                return consumed

    def _learn_leaders(self) -> None:
        """Ask the brokers for the leaders of all topics. Of a topic that is unknown at its assignment, librdkafka may ask a second later,
        and a broker's connection would be opened after that. The offsets of the answer are not used."""
        now_ms = int(time.time() * 1000)
        one_of_each = {partition.topic: ClientPartition(*partition, now_ms) for partition in self._open}
        if one_of_each:
            with suppress(KafkaException):  # the assignment meets the same fault, and reports it
                self._consumer.offsets_for_times([*one_of_each.values()], timeout=_LEADERS_SECONDS)

    def _assign(self) -> None:
        wanted = sorted(self._open - self.held)
        if self._native is not None:
            self._native.follow(wanted)  # first: a record that arrived through the consumer's own queue would be out of order
        self._consumer.assign([ClientPartition(p.topic, p.partition, self.positions[p]) for p in wanted])

    def _passed(self, consumed: Consumed) -> Iterator[RawBatch]:
        """The records within the ranges. Advances the positions."""
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
        for partition, position in consumed.ended:  # after the records, because the event follows them
            if partition in self._open and position >= self.positions[partition]:
                self.positions[partition] = position
                if self._ends[partition] != ENDLESS:
                    self._close(partition)
        for partition in consumed.gone:
            if partition in self._open and partition not in self.held:
                self._go_on(partition)

    def _go_on(self, partition: TopicPartition) -> None:
        """Continue at the first offset that the log holds, because the log no longer holds the next offset to read. Fail if the log ends
        before the next offset."""
        position = self.positions[partition]
        with translating(f"reading topic {partition.topic}"):
            low, high = self._consumer.get_watermark_offsets(ClientPartition(*partition), _ANSWER_SECONDS)
        if position > high:
            raise ChangedInputException(
                f"Offset {position} is after the end of {partition}, {high}: the topic lost records, or was created anew"
            )
        if position < low:
            end = min(low, self._ends[partition])
            log.warning("%s", describe_removed(partition, position, end))
            self._on_lost(end - position)
        self.positions[partition] = min(max(low, position), self._ends[partition])
        if self.positions[partition] >= self._ends[partition]:
            self._close(partition)
        else:
            self._assign()

    def _close(self, partition: TopicPartition) -> None:
        self._open.discard(partition)
        self._consumer.incremental_unassign([ClientPartition(partition.topic, partition.partition)])


def _joined(pieces: list[RawBatch]) -> RawBatch:
    """Consecutive pieces of one partition as one batch."""
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
    """Null instead of headers that are unreadable."""
    if column is not None:
        return column
    return pa.array([[]] * length, kind) if kind == HEADERS_TYPE else pa.nulls(length, kind)


class AheadReader:
    """Wraps a ``KafkaReader`` and reads one batch ahead, in a thread of its own. ``positions`` and ``exhausted`` describe what was
    returned, not what was read. After the ``with`` block, no read is running."""

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, "kafka-read-ahead")  # starts with the first read
        self._next: Future[list[RawBatch]] | None = None
        self._note()

    def __enter__(self) -> AheadReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Wait until no read is running."""
        self._thread.shutdown()
        self._reader.close()

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of each partition after what was returned."""
        return self._positions

    @property
    def exhausted(self) -> bool:
        """Whether every partition that is not held is done."""
        return self._exhausted

    @property
    def is_caught_up(self) -> bool:
        """Whether no record is waiting in the client, and few are waiting in the broker."""
        is_waiting = self._next is not None and self._next.done() and bool(self._next.result())
        return not is_waiting and self._reader.known_lag < BATCH_RECORDS

    def read(self, timeout_seconds: float) -> list[RawBatch]:
        """As ``KafkaReader.read``, but the read may have begun before the call. After a read without records, the next one begins with its
        call: a task at rest does not need a second thread."""
        pending, self._next = self._next, None
        raws = self._reader.read(timeout_seconds) if pending is None else pending.result()
        self._note()
        if raws and not self._exhausted:
            self._next = self._thread.submit(self._reader.read, timeout_seconds)
        return raws

    def hold(self, partitions: frozenset[TopicPartition]) -> None:
        """Until the next call, do not read these partitions, but read all others."""
        if partitions != self._reader.held:
            self._take_back()
            self._reader.hold(partitions)
            self._note()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Reread ``partition`` from ``offset``."""
        self._take_back()
        self._reader.seek(partition, offset)
        self._note()

    def _take_back(self) -> None:
        """Let records be read again that were read but not returned."""
        pending, self._next = self._next, None
        if pending is not None:
            for partition in {raw.partition for raw in pending.result()}:
                self._reader.seek(partition, self._positions[partition])

    def _note(self) -> None:
        self._positions = dict(self._reader.positions)
        self._exhausted = self._reader.exhausted
