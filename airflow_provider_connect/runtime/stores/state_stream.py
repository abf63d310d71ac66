"""The internal topics as one stream of decoded records, for a copy of the whole state.

Reads committed records only. The reader stores the positions. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as _KafkaPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException, DataException, StoreException, StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.internal_topics import absence_seconds
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.batches import BatchRecord, BatchReset
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.model.records import ConfigRecord, Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.status import StatusRecord
from airflow_provider_connect.runtime.stores.kafka_errors import LastError, TopicMissingException, translated
from airflow_provider_connect.runtime.stores.log_consumer import (
    Closing,
    LogRecord,
    LogTruncatedException,
    SkippedRecords,
    log_consumer_config,
    log_record,
)
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, TopicIdentity
from airflow_provider_connect.runtime.stores.topic_log import TopicLog
from airflow_provider_connect.runtime.wire import batch_topic, config_topic, offset_topic, status_topic
from airflow_provider_connect.runtime.wire.record import author_of, claim_of

KEPT_MS = 86_400_000
"""Kafka's default of ``delete.retention.ms``."""

_FETCH_WAIT_MS = 2000  # for an idle reader; a new record arrives at once all the same
_MOST_RECORDS = 2000

StateValue = ConfigRecord | StatusRecord | OffsetRecord | BatchRecord | BatchReset


@dataclass(frozen=True, slots=True)
class StateRecord:
    """The value of one record, its position, its own time in ms (-1: it has none), and where known the claim of the run that wrote it and
    the user who has asked for it."""

    at: TopicPartition
    offset: int
    timestamp: int
    value: StateValue
    claim: Claim | None = None
    author: str | None = None


class UnreadableTopicException(StoreException):
    """``topic`` cannot be read, or not beyond some record; other topics can. A config may name any topic for its connector's offsets."""

    def __init__(self, topic: str, cause: ConnectException) -> None:
        super().__init__(cause.message)
        self.topic = topic


class StateStream(Closing):
    """See the module. Nothing is opened before the first use."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._config = internal_client_config(settings, ClientKind.CONSUMER, "mirror")
        self._admin = TopicAdmin(settings)
        self._consumer: Consumer | None = None
        self._skipped: dict[str, SkippedRecords] = {}

    def identities(self, topics: Iterable[str]) -> dict[str, TopicIdentity]:
        """Those of the topics that exist, by one request. Raises StoreTimeoutException, UnreadableTopicException."""
        found = {}
        for topic, future in (self._admin.describe_later(names) if (names := list(topics)) else {}).items():
            with _named(topic), suppress(TopicMissingException):
                found[topic] = TopicIdentity.of(self._admin.described(topic, future))
        return found

    def absence_seconds(self, topics: Iterable[str]) -> dict[str, float]:
        """How long a reader of each topic may be away and read on from where it was without missing a tombstone."""
        names = list(topics)
        try:
            configs = self._admin.configs(names)
        except StoreTimeoutException:
            raise
        except StoreException:  # not allowed to ask
            configs = {}
        return {name: self._absence_seconds(name, configs.get(name, {})) for name in names}

    def _absence_seconds(self, topic: str, configs: Mapping[str, str | None]) -> float:
        """The config topic's tombstones say more than that their key is gone; of the others a newer record says all that is to be known."""
        kept = {"delete.retention.ms": str(KEPT_MS), **{name: value for name, value in configs.items() if value}}
        return absence_seconds(kept) if topic == self._settings.config_topic else float(kept["delete.retention.ms"]) / 2000

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets behind the last committed record of each partition."""
        return self._admin.end_offsets(partitions)

    def held(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset that each partition still holds, and the one behind its last, committed or not."""
        asked = list(partitions)
        firsts, ends = self._admin.beginning_offsets(asked), self._admin.end_offsets(asked, read_committed=False)
        return {at: (firsts[at], ends[at]) for at in asked}

    def read_whole(self, topic: str) -> list[StateRecord]:
        """Every record that the topic holds now, in the order of each partition. Raises StoreTimeoutException, UnreadableTopicException."""
        found: list[StateRecord] = []
        with _named(topic), TopicLog(topic, self._config) as log:
            log.read_on(lambda record: found.extend(self._decoded([record])))
        return found

    def follow(self, starts: Mapping[TopicPartition, int]) -> None:
        """``poll`` gives records from these offsets on, and of no other partition."""
        if self._consumer is None:
            quiet = {**log_consumer_config(self._config, read_committed=True), "fetch.wait.max.ms": _FETCH_WAIT_MS}
            self._consumer = Consumer({**quiet, **LastError().callbacks()})
        self._consumer.assign([_KafkaPartition(*at, offset) for at, offset in starts.items()])

    def unfollow(self) -> None:
        """Costs nothing from now on, until ``follow``."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def poll(self, timeout_seconds: float) -> tuple[list[StateRecord], dict[TopicPartition, int]]:
        """What came since the last call, and for each partition that moved where it is read on: behind what was skipped too.

        Waits up to ``timeout_seconds`` for a first record. While a broker is away, nothing is returned. Raises LogTruncatedException
        when an offset to read from is no longer there, UnreadableTopicException.
        """
        assert self._consumer is not None, "follow first"
        first = self._consumer.poll(timeout_seconds)
        messages = [] if first is None else [first, *self._consumer.consume(_MOST_RECORDS, 0)]
        found: list[LogRecord] = []
        following: dict[TopicPartition, int] = {}
        for message in messages:
            error, at = message.error(), TopicPartition(str(message.topic()), int(message.partition() or 0))
            if error is None:
                found.append(log_record(message))
                following[at] = found[-1].offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                following[at] = int(message.offset() or 0)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID):
                raise LogTruncatedException(f"Partition {at} no longer holds the offset to follow from: {error.str()}")
            elif isinstance(failure := translated(error, f"following {at}"), StoreTimeoutException):
                continue
            else:
                raise UnreadableTopicException(at.topic, failure) from failure
        return self._decoded(found), following

    def _decoded(self, records: Iterable[LogRecord]) -> list[StateRecord]:
        decoded = []
        for record in records:
            value = self._value(record)
            at = TopicPartition(record.topic, record.partition)
            if isinstance(value, Unreadable):
                skipped = self._skipped.setdefault(record.topic, SkippedRecords(record.topic))
                skipped.note(value.reason, value, partition=record.partition, offset=record.offset)
            else:
                decoded.append(StateRecord(at, record.offset, record.timestamp, value, _claim(record), author_of(record.headers)))
        return decoded

    def _value(self, record: LogRecord) -> StateValue | Unreadable:
        if record.topic == self._settings.config_topic:
            return config_topic.decode(record.key, record.value, record.headers, offset=record.offset)
        if record.topic == self._settings.status_topic:
            return status_topic.decode(record.key, record.value, record.headers, offset=record.offset, timestamp=record.timestamp)
        if record.topic == self._settings.batch_topic:
            return batch_topic.decode(record.key, record.value, record.headers, offset=record.offset)
        return offset_topic.decode(record.key, record.value, record.headers, offset=record.offset)

    def close(self) -> None:
        self.unfollow()
        self._admin.close()


@contextmanager
def _named(topic: str) -> Iterator[None]:
    """Around what is asked of one topic."""
    try:
        yield
    except (StoreTimeoutException, TopicMissingException, LogTruncatedException):
        raise
    except StoreException as error:
        raise UnreadableTopicException(topic, error) from error


def _claim(record: LogRecord) -> Claim | None:
    try:
        return claim_of(record.headers)
    except DataException:  # a header of a foreign writer
        return None
