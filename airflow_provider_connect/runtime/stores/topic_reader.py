"""Reads topics and decodes their records. Knows no topic and no format.

``TopicReader`` reads one topic to its end, and calls ``apply`` with the value of each record as it arrives. ``TopicTail`` stays at the end
of some partitions, and returns the values of new records. Both receive a decoder. A record that cannot be decoded never stops a reader.

A read to the end returns every record that was committed before the call. An open transaction hides records from read_committed until it
ends. With ``wait_for`` a read waits for that end, but only if a hidden record concerns the caller.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as _KafkaPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientConfig
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.stores.kafka_errors import LastError, translated
from airflow_provider_connect.runtime.stores.log_consumer import (
    BEGINNING,
    Closing,
    LogConsumer,
    LogRecord,
    LogTruncatedException,
    log_consumer_config,
    log_record,
)

Value = TypeVar("Value")
Decoder = Callable[[LogRecord], Value | None]
"""Converts a record to its value. Returns an ``Unreadable`` for a record that it cannot decode, None for a record to leave out. Never
raises."""
Apply = Callable[[Value], str]
"""Returns why the value had no effect. Empty: it had an effect."""

_SETTLE_SECONDS = 0.02
_MOST_POLLED = 2000
_MOST_REASONS = 100
_log = logging.getLogger(__name__)


def raw(record: LogRecord) -> LogRecord:
    """The decoder for a caller that needs the bytes."""
    return record


class OpenTransactionException(StoreTimeoutException):
    """The record is part of a transaction that another process left open. The next owner of the transaction's id will end it."""


class SkippedRecords:
    """Counts the records of one topic that had no effect, and logs each reason once. Its memory is bounded."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._reasons: set[str] = set()
        self.count = 0

    def note(self, reason: str, value: object, *, partition: int = 0, offset: int) -> None:
        """Counts a skipped record. Does nothing if ``reason`` is empty."""
        if not reason:
            return
        self.count += 1
        if reason in self._reasons or len(self._reasons) >= _MOST_REASONS:
            return
        self._reasons.add(reason)
        level = logging.WARNING if isinstance(value, Unreadable) else logging.DEBUG  # a readable record without effect is normal
        _log.log(level, "Skipping a record of topic %s, partition %d, offset %d: %s", self._topic, partition, offset, reason)


class TopicReader(Closing, Generic[Value]):
    """Reads one topic to its end: first all records, then at each read the new ones, in the order of each partition.

    Opens nothing before the first use. After ``close``, the next use starts at the beginning. Not thread-safe.
    """

    def __init__(
        self,
        topic: str,
        config: ClientConfig,
        decode: Decoder[Value],
        *,
        read_committed: bool = True,
    ) -> None:
        self.topic = topic
        self.skipped = SkippedRecords(topic)
        self._config = config
        self._decode = decode
        self._read_committed = read_committed
        self._opened: LogConsumer | None = None
        self._positions: dict[int, int] = {}
        self._high: dict[int, int] = {}  # the high watermarks at the last read

    @property
    def _consumer(self) -> LogConsumer:
        if self._opened is None:
            self._opened = LogConsumer(self._config, read_committed=self._read_committed)
        return self._opened

    def partitions(self, timeout_seconds: float = 10.0) -> int:
        """The number of partitions, requested once. Raises TopicMissingException, StoreTimeoutException."""
        if not self._positions:
            count = self._consumer.partition_count(self.topic, timeout_seconds)
            self._positions = dict.fromkeys(range(count), BEGINNING)
        return len(self._positions)

    def start_at(self, positions: Mapping[int, int]) -> None:
        """Makes the next read start at these offsets. Other partitions start where they would have started."""
        for partition in range(self.partitions()):
            if partition in positions:
                self._positions[partition] = positions[partition]

    def read(
        self,
        apply: Apply[Value],
        timeout_seconds: float = 30.0,
        *,
        forget: Callable[[], None] | None = None,
        wait_for: Callable[[bytes | None], bool] | None = None,
        settle_seconds: float = 30.0,
    ) -> None:
        """Calls ``apply`` with the value of each record since the last read. After a timeout, the next read continues after the last
        record.

        ``wait_for`` is called with the keys of records that an open transaction hides. If it accepts a key, the read waits until the
        transaction has ended, for at most ``settle_seconds``. A second consumer reads these keys. It is opened only when a transaction is
        open.

        If the topic was recreated, ``forget`` is called and the new topic is read from its beginning. Without ``forget``,
        LogTruncatedException is raised. Then call ``rewind``, and discard what was applied. Raises TopicMissingException,
        StoreTimeoutException, OpenTransactionException.
        """
        try:
            self._read_settled(apply, timeout_seconds, wait_for, settle_seconds)
        except LogTruncatedException:
            if forget is None:
                raise
            _log.warning("Topic %s was recreated; reading it from its beginning", self.topic)
            self.rewind()
            forget()
            self._read_settled(apply, timeout_seconds, wait_for, settle_seconds)

    def read_to_end(self, timeout_seconds: float = 30.0) -> list[Value]:
        """The values since the last read. After a timeout, the next read returns all of them. Raises as ``read`` without ``forget``."""
        values: list[Value] = []
        before = dict(self._positions)

        def append(value: Value) -> str:
            values.append(value)
            return ""

        try:
            self.read(append, timeout_seconds)
        except StoreTimeoutException:
            self._positions = before
            raise
        return values

    def _read_settled(
        self, apply: Apply[Value], timeout_seconds: float, wait_for: Callable[[bytes | None], bool] | None, settle_seconds: float
    ) -> None:
        self._read(apply, timeout_seconds)
        if wait_for is None or not self.hides_records:
            return
        hidden = self._hidden(wait_for, timeout_seconds)
        deadline = time.monotonic() + settle_seconds
        while any(self._positions[partition] <= offset for partition, offset in hidden.items()):
            if time.monotonic() > deadline:
                stage = f"waiting for the end of an open transaction on topic {self.topic}, partitions {sorted(hidden)}"
                raise OpenTransactionException(f"Failed after {settle_seconds:g} s {stage}", stage=stage)
            time.sleep(_SETTLE_SECONDS)
            self._read(apply, timeout_seconds)

    def _read(self, apply: Apply[Value], timeout_seconds: float) -> None:
        self.partitions(max(min(timeout_seconds, 10.0), timeout_seconds / 3))
        decode, positions = self._decode, self._positions

        def take(record: LogRecord) -> None:
            value = decode(record)
            if value is not None and (reason := apply(value)):
                self.skipped.note(reason, value, partition=record.partition, offset=record.offset)
            positions[record.partition] = record.offset + 1

        starts = {TopicPartition(self.topic, partition): position for partition, position in positions.items()}
        _, ends = self._consumer.read(starts, timeout_seconds, take)
        for partition, end in ends.items():
            positions[partition.partition], self._high[partition.partition] = end.position, end.high

    def _hidden(self, wanted: Callable[[bytes | None], bool], timeout_seconds: float) -> dict[int, int]:
        """By partition, the offset of the last relevant record that an open transaction hides."""
        starts = {TopicPartition(self.topic, number): self._positions[number] for number in self._hiding()}
        last: dict[int, int] = {}

        def note(record: LogRecord) -> None:
            if wanted(record.key):
                last[record.partition] = record.offset

        with LogConsumer(self._config, read_committed=False) as consumer:
            consumer.read(starts, timeout_seconds, note)
        return last

    def _hiding(self) -> list[int]:
        return [partition for partition, high in self._high.items() if high > self._positions[partition]]

    @property
    def hides_records(self) -> bool:
        """Whether a transaction was open at the end of the last read."""
        return bool(self._hiding())

    def rewind(self) -> None:
        """Makes the next read start at the beginning again."""
        self._positions, self._high = {}, {}

    def close(self) -> None:
        self.rewind()
        if self._opened is not None:
            self._opened.close()
        self._opened = None


class TopicTail(Closing, Generic[Value]):
    """Stays at the end of some partitions and never joins a group. While a broker is unavailable, ``poll`` returns nothing. When the broker
    is back, ``poll`` returns the records that were written meanwhile.

    ``starts``: the first offset to read, by partition. ``fetch_wait_ms``: how long a broker holds a request of an idle tail. A new record
    still arrives immediately. ``refuse`` is called with the error of a partition, and raises if the tail must end. With ``reports_ends``,
    ``positions`` also advances past transaction markers. Not thread-safe.
    """

    def __init__(
        self,
        config: ClientConfig,
        starts: Mapping[TopicPartition, int],
        decode: Decoder[Value],
        *,
        fetch_wait_ms: int = 500,
        reports_ends: bool = False,
        refuse: Callable[[TopicPartition, KafkaError], None] | None = None,
    ) -> None:
        self.positions = dict(starts)
        self._decode = decode
        self._refuse = refuse or raise_if_lost
        quiet = {"enable.partition.eof": reports_ends, "fetch.wait.max.ms": fetch_wait_ms}
        self._consumer = Consumer({**log_consumer_config(config, read_committed=True), **quiet, **LastError().callbacks()})
        self._consumer.assign([_KafkaPartition(*partition, start) for partition, start in starts.items()])

    def poll(self, timeout_seconds: float = 0.0) -> list[Value]:
        """The values since the last poll. Waits for a first record for at most ``timeout_seconds``.

        Costs microseconds when there is no record, so a loop may call it between two batches. Raises the exception of ``refuse``, by
        default LogTruncatedException when an offset is no longer on its topic.
        """
        first = self._consumer.poll(timeout_seconds)
        if first is None:
            return []
        values = []
        for message in [first, *self._consumer.consume(_MOST_POLLED, 0)]:
            error = message.error()
            partition = TopicPartition(str(message.topic()), int(message.partition() or 0))
            if error is None:
                value = self._decode(log_record(message))
                if value is not None:
                    values.append(value)
                self.positions[partition] = int(message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self.positions[partition] = int(message.offset() or 0)
            else:
                self._refuse(partition, error)
        return values

    def close(self) -> None:
        self._consumer.close()


def raise_if_lost(partition: TopicPartition, error: KafkaError) -> None:
    """Raises the exception for the error of a partition. Returns if the error only means that a broker is unavailable."""
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise LogTruncatedException(f"Partition {partition} no longer holds the offset to follow from: {error.str()}")
    failure = translated(error, f"following {partition}")
    if not isinstance(failure, StoreTimeoutException):
        raise failure
