"""Reads the internal topics as one stream of decoded records, for a copy of the whole state.

Reads committed records only. The caller stores the positions. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from confluent_kafka import KafkaError

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException, DataException, StoreException, StoreTimeoutException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.internal_topics import absence_seconds
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.decoders import StateValue, by_topic, decode_offset
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.log_consumer import Closing, LogRecord, LogTruncatedException
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, TopicIdentity
from airflow_provider_connect.runtime.stores.topic_reader import SkippedRecords, TopicReader, TopicTail, raise_if_lost
from airflow_provider_connect.runtime.wire.record import author_of, claim_of

KEPT_MS = 86_400_000
"""Kafka's default of ``delete.retention.ms``."""

_FETCH_WAIT_MS = 2000  # for an idle reader; a new record still arrives immediately


@dataclass(frozen=True, slots=True)
class StateRecord:
    """The value of one record, its position and timestamp (ms; -1: none). If known, also the claim of the run that wrote it, and the user
    who requested it."""

    at: TopicPartition
    offset: int
    timestamp: int
    value: StateValue
    claim: Claim | None = None
    author: str | None = None


class UnreadableTopicException(StoreException):
    """``topic`` cannot be read, or it can be read only up to some record. Other topics can still be read. Such a topic may be one that a
    config names for its connector's offsets."""

    def __init__(self, topic: str, cause: ConnectException) -> None:
        super().__init__(cause.message)
        self.topic = topic


class StateStream(Closing):
    """See the module. Opens nothing before the first use."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._config = internal_client_config(settings, ClientKind.CONSUMER, "mirror")
        self._admin = TopicAdmin(settings)
        self._decoders = by_topic(settings)
        self._tail: TopicTail[StateRecord] | None = None
        self._skipped: dict[str, SkippedRecords] = {}

    def identities(self, topics: Iterable[str]) -> dict[str, TopicIdentity]:
        """The identities of those topics that exist, by one request. Raises StoreTimeoutException, UnreadableTopicException."""
        found = {}
        for topic, future in (self._admin.describe_later(names) if (names := list(topics)) else {}).items():
            with _named(topic), suppress(TopicMissingException):
                found[topic] = TopicIdentity.of(self._admin.described(topic, future))
        return found

    def absence_seconds(self, topics: Iterable[str]) -> dict[str, float]:
        """How long a reader of each topic may pause, and still continue from its position without missing a tombstone."""
        names = list(topics)
        try:
            configs = self._admin.configs(names)
        except StoreTimeoutException:
            raise
        except StoreException:  # not authorized to ask
            configs = {}
        return {name: self._absence_seconds(name, configs.get(name, {})) for name in names}

    def _absence_seconds(self, topic: str, configs: Mapping[str, str | None]) -> float:
        """Only the config topic needs the limit of ``absence_seconds``. On other topics, a newer record of a key compensates for a missed
        tombstone."""
        kept = {"delete.retention.ms": str(KEPT_MS), **{name: value for name, value in configs.items() if value}}
        return absence_seconds(kept) if topic == self._settings.config_topic else float(kept["delete.retention.ms"]) / 2000

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last committed record of each partition."""
        return self._admin.end_offsets(partitions)

    def held(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset that each partition still contains, and the offset after its last record, committed or not."""
        asked = list(partitions)
        firsts, ends = self._admin.beginning_offsets(asked), self._admin.end_offsets(asked, read_committed=False)
        return {at: (firsts[at], ends[at]) for at in asked}

    def read_whole(self, topic: str) -> list[StateRecord]:
        """All records that the topic now contains, in the order of each partition. Raises StoreTimeoutException,
        UnreadableTopicException."""
        with _named(topic), TopicReader(topic, self._config, self._decode) as reader:
            return reader.read_to_end()

    def follow(self, starts: Mapping[TopicPartition, int]) -> None:
        """Makes ``poll`` return the records from these offsets on, and no records of other partitions."""
        self.unfollow()
        self._tail = TopicTail(self._config, starts, self._decode, fetch_wait_ms=_FETCH_WAIT_MS, reports_ends=True, refuse=_refuse)

    def unfollow(self) -> None:
        """Ends ``follow``. The stream then costs nothing until its next use."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def poll(self, timeout_seconds: float) -> tuple[list[StateRecord], dict[TopicPartition, int]]:
        """The records since the last call, and the next offset to read in each partition, also after skipped records.

        Waits for a first record for at most ``timeout_seconds``. While a broker is unavailable, returns nothing. Raises
        LogTruncatedException when the next offset is no longer on its topic, UnreadableTopicException.
        """
        assert self._tail is not None, "follow first"
        return self._tail.poll(timeout_seconds), dict(self._tail.positions)

    def _decode(self, record: LogRecord) -> StateRecord | None:
        value = self._decoders.get(record.topic, decode_offset)(record)
        if isinstance(value, Unreadable):
            skipped = self._skipped.setdefault(record.topic, SkippedRecords(record.topic))
            skipped.note(value.reason, value, partition=record.partition, offset=record.offset)
            return None
        at = TopicPartition(record.topic, record.partition)
        return StateRecord(at, record.offset, record.timestamp, value, _claim(record), author_of(record.headers))

    def close(self) -> None:
        self.unfollow()
        self._admin.close()


@contextmanager
def _named(topic: str) -> Iterator[None]:
    """Raises UnreadableTopicException for errors of requests about one topic."""
    try:
        yield
    except (StoreTimeoutException, TopicMissingException, LogTruncatedException):
        raise
    except StoreException as error:
        raise UnreadableTopicException(topic, error) from error


def _refuse(partition: TopicPartition, error: KafkaError) -> None:
    """Raises the exception for the error of a followed partition. Returns if the error only means that a broker is unavailable."""
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID):
        raise LogTruncatedException(f"Partition {partition} no longer holds the offset to follow from: {error.str()}")
    try:
        raise_if_lost(partition, error)
    except LogTruncatedException:
        raise
    except ConnectException as failure:
        raise UnreadableTopicException(partition.topic, failure) from failure


def _claim(record: LogRecord) -> Claim | None:
    try:
        return claim_of(record.headers)
    except DataException:  # a header of another writer
        return None
