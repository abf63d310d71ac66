"""A topic as a log: all of its records, then the new ones at each read; or its tail, which waits for records.

Reads to the end see every record that was committed before the call. Records behind an open transaction stay hidden from read_committed
until it ends: ``read_settled`` waits for that, but only where the transaction concerns the caller.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as _KafkaPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientConfig
from airflow_provider_connect.runtime.stores.kafka_errors import LastError, translated
from airflow_provider_connect.runtime.stores.log_consumer import (
    BEGINNING,
    Closing,
    LogConsumer,
    LogEnd,
    LogRecord,
    LogTruncatedException,
    log_consumer_config,
    log_record,
)

_SETTLE_SECONDS = 0.02
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class OpenTransactionException(StoreTimeoutException):
    """The record is part of a transaction that another process left open: the next owner of its id will end it."""


class TopicLog(Closing):
    """See the module. Nothing is opened before the first use; a use after ``close`` begins anew. Not thread-safe.

    ``forget``: where the topic was created anew, a read calls it and returns the new topic's records. Without it LogTruncatedException is
    raised: ``rewind`` then, and drop what was read before.
    """

    def __init__(self, topic: str, config: ClientConfig, *, read_committed: bool = True, forget: Callable[[], None] | None = None) -> None:
        self.topic = topic
        self._config = config
        self._read_committed = read_committed
        self._forget = forget
        self._opened: LogConsumer | None = None
        self._ends: dict[int, LogEnd] = {}

    @property
    def _consumer(self) -> LogConsumer:
        if self._opened is None:
            self._opened = LogConsumer(self._config, read_committed=self._read_committed)
        return self._opened

    def partitions(self, timeout_seconds: float = 10.0) -> int:
        """How many partitions the topic has; asked once."""
        if not self._ends:
            count = self._consumer.partition_count(self.topic, timeout_seconds)
            self._ends = {partition: LogEnd(BEGINNING, BEGINNING) for partition in range(count)}
        return len(self._ends)

    def read_to_end(self, timeout_seconds: float = 30.0) -> list[LogRecord]:
        """The records that came since the last call, the first time all. In the order of each partition.

        Raises TopicMissingException, StoreTimeoutException, LogTruncatedException.
        """
        return self._again_if_anew(lambda: self._read(timeout_seconds))

    def read_on(self, take: Callable[[LogRecord], None], timeout_seconds: float = 30.0) -> None:
        """As ``read_to_end``, but ``take`` is given each record as it comes. After a time-out the next call continues behind the last."""

        def take_in(record: LogRecord) -> None:
            take(record)
            self._ends[record.partition] = LogEnd(record.offset + 1, record.offset + 1)

        self._again_if_anew(lambda: self._read(timeout_seconds, take_in))

    def start_at(self, position: int) -> None:
        """The first read of a topic of one partition begins there rather than at its beginning."""
        self._ends = {0: LogEnd(position, position)}

    def start_behind(self, positions: Mapping[int, int]) -> None:
        """The first read begins at these offsets of partitions, and at the beginning of all others."""
        for partition in range(self.partitions()):
            if partition in positions:
                self._ends[partition] = LogEnd(positions[partition], positions[partition])

    def read_settled(
        self,
        wanted: Callable[[bytes | None], bool],
        timeout_seconds: float = 30.0,
        *,
        settle_seconds: float = 30.0,
        take: Callable[[LogRecord], None] | None = None,
    ) -> list[LogRecord]:
        """As ``read_to_end``, but waits, ``settle_seconds`` at most, while an open transaction hides records whose key is ``wanted``.

        A second consumer, opened only where a transaction is open, reads what it hides. Transactions of other connectors are not waited
        for. ``take`` is given each record as it comes, and none is returned; after a time-out some come again. Raises
        StoreTimeoutException.
        """
        return self._again_if_anew(lambda: self._read_settled(wanted, timeout_seconds, settle_seconds, take))

    def _again_if_anew(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except LogTruncatedException:
            if self._forget is None:
                raise
            _log.warning("Topic %s was created anew; reading it from its beginning", self.topic)
            self.rewind()
            self._forget()
            return read()

    def _read(self, timeout_seconds: float, take: Callable[[LogRecord], None] | None = None) -> list[LogRecord]:
        self.partitions(min(timeout_seconds, 10.0))
        starts = {TopicPartition(self.topic, partition): end.position for partition, end in self._ends.items()}
        records, ends = self._consumer.read(starts, timeout_seconds, take)
        self._ends = {partition.partition: end for partition, end in sorted(ends.items())}
        return records

    def _read_settled(
        self,
        wanted: Callable[[bytes | None], bool],
        timeout_seconds: float,
        settle_seconds: float,
        take: Callable[[LogRecord], None] | None,
    ) -> list[LogRecord]:
        records = self._read(timeout_seconds, take)
        hidden = self._hidden(wanted, timeout_seconds)
        deadline = time.monotonic() + settle_seconds
        while any(self._ends[partition].position <= offset for partition, offset in hidden.items()):
            if time.monotonic() > deadline:
                stage = f"waiting for the end of an open transaction on topic {self.topic}, partitions {sorted(hidden)}"
                raise OpenTransactionException(f"Failed after {settle_seconds:g} s {stage}", stage=stage)
            time.sleep(_SETTLE_SECONDS)
            records += self._read(timeout_seconds, take)
        return records

    def _hidden(self, wanted: Callable[[bytes | None], bool], timeout_seconds: float) -> dict[int, int]:
        """The last offset of a wanted record behind an open transaction, by partition."""
        starts = {TopicPartition(self.topic, number): end.position for number, end in self._ends.items() if end.high > end.position}
        if not starts:
            return {}
        last: dict[int, int] = {}

        def note(record: LogRecord) -> None:
            if wanted(record.key):
                last[record.partition] = record.offset

        with LogConsumer(self._config, read_committed=False) as consumer:
            consumer.read(starts, timeout_seconds, note)
        return last

    @property
    def hides_records(self) -> bool:
        """Whether a transaction was open at the last read."""
        return any(end.high > end.position for end in self._ends.values())

    def rewind(self) -> None:
        """The next read starts at the beginning again."""
        self._ends = {}

    def close(self) -> None:
        self.rewind()
        if self._opened is not None:
            self._opened.close()
        self._opened = None


class TopicTail(Closing):
    """Stays at the end of a topic. ``poll`` costs microseconds when nothing came, so it may be called between any two batches.

    ``starts`` maps partitions to the first offset to return. While a broker is away, ``poll`` returns nothing; it returns the records of
    that time when the broker is back. Not thread-safe.
    """

    def __init__(self, topic: str, config: ClientConfig, starts: Mapping[int, int]) -> None:
        self._topic = topic
        quiet = {**log_consumer_config(config, read_committed=True), "enable.partition.eof": False, "fetch.wait.max.ms": 500}
        self._consumer = Consumer({**quiet, **LastError().callbacks()})
        self._consumer.assign([_KafkaPartition(topic, partition, start) for partition, start in starts.items()])

    def poll(self, timeout_seconds: float = 0.0) -> list[LogRecord]:
        """What came since the last call; waits up to ``timeout_seconds`` for a first record. Raises LogTruncatedException."""
        first = self._consumer.poll(timeout_seconds)
        if first is None:
            return []
        records = []
        for message in [first, *self._consumer.consume(1000, 0)]:
            error = message.error()
            if error is None:
                records.append(log_record(message))
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise LogTruncatedException(f"Topic {self._topic} no longer holds the offset to follow from: {error.str()}")
            elif not isinstance(failure := translated(error, f"following topic {self._topic}"), StoreTimeoutException):
                raise failure
        return records

    def close(self) -> None:
        self._consumer.close()
