"""A Kafka consumer that never joins a group: reads partitions from given offsets to their ends, and lists ends and committed offsets.

Between reads no partition is assigned, so an open LogConsumer costs the broker nothing. Not thread-safe.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, cast

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as _KafkaPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import StoreException, StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientConfig
from airflow_provider_connect.runtime.stores.kafka_errors import (
    NO_LEADER,
    QUICK,
    LastError,
    TopicMissingException,
    kafka_error,
    translated,
    unreachable,
)


class Closing(ABC):
    """``close`` runs at the end of the block, even if the block raises."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


BEGINNING = OFFSET_BEGINNING
_POLL_SECONDS = 0.5
_MAX_RECORDS = 5000


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of a topic. ``timestamp`` is in ms. -1: the record has none."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    topic: str = ""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far a partition was read. If ``high`` is beyond ``position``, an open transaction hides the records between the two from
    read_committed."""

    position: int
    high: int


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's offset in one partition, with the metadata that was committed with the offset."""

    offset: int
    metadata: str = ""


class LogTruncatedException(StoreException):
    """The offset at which to start is no longer on the topic: the topic was recreated, or records were deleted."""


class LogConsumer(Closing):
    """See the module. ``config`` may name a ``group.id`` for ``committed``. The consumer never joins it."""

    def __init__(self, config: ClientConfig, *, read_committed: bool = True) -> None:
        self._last_error = LastError()
        self._bootstrap_servers = config.get("bootstrap.servers")
        self._consumer = Consumer({**log_consumer_config(config, read_committed=read_committed), **self._last_error.callbacks()})

    def partition_count(self, topic: str, timeout_seconds: float = 10.0) -> int:
        """The number of partitions of ``topic``. Raises TopicMissingException, StoreTimeoutException."""
        stage = f"describing topic {topic}"
        try:
            found = self._consumer.list_topics(topic, timeout=timeout_seconds).topics[topic]
        except KafkaException as error:
            raise self._failure(error, stage, timeout_seconds) from error
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise TopicMissingException(f"Topic {topic} does not exist at bootstrap.servers={self._bootstrap_servers}")
        if found.error is not None:
            raise translated(found.error, stage)
        return len(found.partitions)

    def read(
        self,
        starts: Mapping[TopicPartition, int],
        timeout_seconds: float = 30.0,
        take: Callable[[LogRecord], None] | None = None,
    ) -> tuple[list[LogRecord], dict[TopicPartition, LogEnd]]:
        """Every record from ``starts`` to the end of each partition, and the ends.

        The end is the partition's end at the time of the call, or a later one. For read_committed, the end is the last stable offset. If
        ``take`` is given, it is called with each record on arrival, and no record is returned. So records before a timeout need not be read
        again. Raises LogTruncatedException if a start is not on the topic, StoreTimeoutException if an end was not reached in time.
        """
        deadline = time.monotonic() + timeout_seconds
        records: list[LogRecord] = []
        take = take or records.append
        ends: dict[TopicPartition, LogEnd] = {}
        try:
            self._consumer.assign([_KafkaPartition(topic, partition, start) for (topic, partition), start in starts.items()])
            while len(ends) < len(starts):
                for message in self._messages(deadline, timeout_seconds, starts):
                    error = message.error()
                    if error is None:
                        take(log_record(message))
                    else:
                        self._end(message, error, ends)
        except KafkaException as error:
            raise self._failure(error, _reading(starts), timeout_seconds) from error
        finally:
            self._consumer.unassign()
        return records, ends

    def _messages(self, deadline: float, timeout_seconds: float, starts: Iterable[TopicPartition]) -> list[Message]:
        left = deadline - time.monotonic()
        if left <= 0:
            raise unreachable(self._bootstrap_servers, timeout_seconds, _reading(starts), self._last_error)
        first = self._consumer.poll(min(left, _POLL_SECONDS))
        if first is None:
            self._last_error.raise_if_refused(_reading(starts))
            return []
        return [first, *self._consumer.consume(_MAX_RECORDS, 0)]

    def _end(self, message: Message, error: KafkaError, ends: dict[TopicPartition, LogEnd]) -> None:
        partition = TopicPartition(str(message.topic()), int(message.partition() or 0))
        if error.code() == KafkaError._PARTITION_EOF:
            watermarks = self._consumer.get_watermark_offsets(_KafkaPartition(*partition), cached=True)
            position = int(message.offset() or 0)
            ends[partition] = LogEnd(position, max(position, watermarks[1] if watermarks else position))
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise LogTruncatedException(f"Partition {partition} no longer holds the offset to read from: {error.str()}")
        else:
            raise translated(error, f"reading partition {partition}")

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_seconds: float = 10.0) -> dict[TopicPartition, int]:
        """The ends of the partitions: the last stable offsets for read_committed, else the high watermarks. One request per broker.

        Retries for partitions without a leader, for at most ``timeout_seconds``.
        """
        asked = [_KafkaPartition(topic, partition, OFFSET_END) for topic, partition in partitions]
        if not asked:
            return {}
        stage = f"listing the end offsets of {_named(partition.topic for partition in asked)}"
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                return self._end_offsets(asked, max(0.1, deadline - time.monotonic()))
            except KafkaException as error:
                cause = kafka_error(error)
                if cause is None or cause.code() not in NO_LEADER or time.monotonic() > deadline:
                    raise self._failure(error, stage, timeout_seconds) from error
            self._last_error.raise_if_refused(stage)
            time.sleep(0.1)

    def _end_offsets(self, asked: list[_KafkaPartition], timeout_seconds: float) -> dict[TopicPartition, int]:
        found = self._consumer.offsets_for_times(asked, timeout=timeout_seconds)
        for partition in found:
            if partition.error is not None:
                raise KafkaException(partition.error)
        return {TopicPartition(partition.topic, partition.partition): partition.offset for partition in found}

    def committed(self, partitions: Iterable[TopicPartition], timeout_seconds: float = 10.0) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of the group in this consumer's ``group.id``. Partitions without an offset are left out."""
        asked = [_KafkaPartition(*partition) for partition in partitions]
        if not asked:
            return {}
        stage = f"fetching the offsets of a group in {_named(partition.topic for partition in asked)}"
        try:
            found = self._consumer.committed(asked, timeout=timeout_seconds)
        except KafkaException as error:
            raise self._failure(error, stage, timeout_seconds) from error
        return committed_offsets(found, stage)

    def close(self) -> None:
        self._consumer.close()

    def _failure(self, error: KafkaException, stage: str, timeout_seconds: float) -> Exception:
        self._last_error.raise_if_refused(stage)
        found = translated(error, stage)
        if not isinstance(found, StoreTimeoutException):
            return found
        cause = kafka_error(error)
        return unreachable(self._bootstrap_servers, timeout_seconds, stage, self._last_error if self._last_error.error else str(cause))


def log_consumer_config(config: ClientConfig, *, read_committed: bool) -> ClientConfig:
    """``config`` with settings for a quick read: no back-off before the first connection, short waits, and an event at the end of a
    partition."""
    return {
        **QUICK,
        "fetch.wait.max.ms": 1,
        "queued.min.messages": 100_000,
        **config,
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
    }


Headers = list[tuple[str, bytes | None]]
_UNREADABLE = (SystemError, UnicodeDecodeError)


def headers_of(messages: Sequence[Message]) -> list[Headers | None] | None:
    """The headers of each message. None for a message with a header whose name is not UTF-8: the client can read none of its headers. None
    instead of a list: no message has headers.

    Brokers accept such names from any producer. Reads the headers of a message only once: a second call would end the process.
    """
    found: list[object] = []
    unreadable: list[int] = []
    left = iter(messages)
    while True:
        try:
            found.extend(map(Message.headers, left))
            break
        except _UNREADABLE:
            unreadable.append(len(found))
            found.append(None)
    if not unreadable and not any(found):
        return None
    rows = cast("list[Headers | None]", [headers or [] for headers in found])
    for index in unreadable:
        rows[index] = None
    return rows


def log_record(message: Message) -> LogRecord:
    """A consumed message as a LogRecord, without headers if they are unreadable. Keys and values are bytes, because there is no
    deserializer."""
    kind, timestamp = message.timestamp()
    headers = headers_of([message])
    return LogRecord(
        int(message.partition() or 0),
        int(message.offset() or 0),
        timestamp if kind else -1,
        message.key(),
        message.value(),
        (headers[0] if headers else None) or [],
        str(message.topic()),
    )


def committed_offsets(found: Iterable[_KafkaPartition], stage: str) -> dict[TopicPartition, CommittedOffset]:
    """The offsets in librdkafka's answer for a group. Raises the exception for the error of a partition."""
    offsets = {}
    for partition in found:
        if partition.error is not None:
            raise translated(partition.error, stage)
        if partition.offset >= 0:
            offsets[TopicPartition(partition.topic, partition.partition)] = CommittedOffset(partition.offset, partition.metadata or "")
    return offsets


def _reading(partitions: Iterable[TopicPartition]) -> str:
    return f"reading {_named(partition.topic for partition in partitions)}"


def _named(topics: Iterable[str]) -> str:
    names = sorted(set(topics))
    return ("topic " if len(names) == 1 else "topics ") + ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
