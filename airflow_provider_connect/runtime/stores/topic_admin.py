"""Creates and describes topics through an admin client, and creates and checks the internal topics by Connect's rules."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as _KafkaPartition
from confluent_kafka.admin import (
    AclOperation,
    ConfigResource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from airflow_provider_connect.data.records import NO_TOPIC_ID, TopicPartition, topic_id_text
from airflow_provider_connect.errors import ConnectException, StoreException, StoreTimeoutException, WorkerSettingsException
from airflow_provider_connect.runtime.config.internal_topics import KAFKAS_OWN, InternalTopic, missing_text
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.connector_settings import topics_pattern
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.kafka_errors import NO_LEADER, TopicMissingException, kafka_error, unreachable
from airflow_provider_connect.runtime.stores.topic_warnings import cleanup_policy, replication_warnings

_log = logging.getLogger(__name__)

_NEEDED = (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE)
"""The rights that a worker needs on its internal topics."""

_FORBIDDEN = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to be created. Partitions and replication factor -1: the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] | None = None


class Creation(StrEnum):
    """The outcome of creating a topic. FORBIDDEN: this client may neither create the topic nor find out whether it exists."""

    CREATED = "created"
    EXISTS = "exists"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """A topic's id and number of partitions. The id differs from the id of an earlier topic with the same name."""

    id: str
    partitions: int

    @classmethod
    def of(cls, topic: TopicDescription) -> "TopicIdentity":
        return cls(topic_id_text(topic.topic_id), len(topic.partitions))


def known_ids(topics: Mapping[str, TopicIdentity]) -> dict[str, str]:
    """The id of each topic. Empty if the brokers give topics no ids."""
    return {name: topic.id for name, topic in topics.items() if topic.id != NO_TOPIC_ID}


class TopicAdmin:
    """See the module. ``overrides`` are a connector's ``admin.override.*`` settings without this prefix. ``connection`` may be shared."""

    def __init__(
        self, settings: WorkerSettings, overrides: Mapping[str, str] | None = None, *, connection: AdminConnection | None = None
    ) -> None:
        self._settings = settings
        self._connection = connection or AdminConnection.of(settings, overrides)

    def describe_later(self, topics: Iterable[str]) -> "dict[str, Future[TopicDescription]]":
        """Requests the descriptions without waiting. ``described`` waits for a description and returns it."""
        found: dict[str, Future[TopicDescription]] = self._connection.client.describe_topics(
            TopicCollection(list(topics)), request_timeout=self._connection.timeout_seconds
        )
        return found

    def described(self, topic: str, future: "Future[TopicDescription]") -> TopicDescription:
        return self._connection.answer(future, f"describing topic {topic}")

    def describe(self, topic: str) -> TopicDescription:
        """Partitions, replicas and id. Raises TopicMissingException."""
        return self.described(topic, self.describe_later([topic])[topic])

    def topic_id(self, topic: str) -> str:
        """The topic's id. A topic that was recreated under the same name has another id."""
        return self.described_id(topic, self.describe_later([topic])[topic])

    def described_id(self, topic: str, future: "Future[TopicDescription]") -> str:
        """The id in a description that ``describe_later`` has requested."""
        return TopicIdentity.of(self.described(topic, future)).id

    def partitions(self, topics: Iterable[str] | None = None) -> dict[str, int]:
        """The number of partitions by topic (None: of all topics). Topics that do not exist are left out."""
        if topics is None:
            return self._all_partitions()
        return {topic: found.partitions for topic, found in self.identities(topics).items()}

    def identities(self, topics: Iterable[str]) -> dict[str, TopicIdentity]:
        """The identities of those topics that exist, by one request. No request if no topic is given."""
        found = {}
        for topic, future in (self.describe_later(names) if (names := list(topics)) else {}).items():
            with suppress(TopicMissingException):
                found[topic] = TopicIdentity.of(self.described(topic, future))
        return found

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of those topics that exist. See ``known_ids``."""
        return known_ids(self.identities(topics))

    def matching(self, pattern: str) -> dict[str, int]:
        """The number of partitions of each topic whose whole name matches. Kafka's internal topics never match. The worker's topics never
        match either: each run writes to them, so their reader would never finish. Raises ConfigException for a pattern that is valid only
        in Java."""
        matches = topics_pattern(pattern).matches
        internal = KAFKAS_OWN | {topic.name for topic in self._settings.internal_topics}
        return {topic: count for topic, count in self._all_partitions().items() if topic not in internal and matches(topic)}

    def _all_partitions(self) -> dict[str, int]:
        try:
            found = self._connection.client.list_topics(timeout=self._connection.timeout_seconds).topics
        except KafkaException as error:
            raise self._connection.failure(error, "listing topics") from error
        return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str | None]]:
        """The effective settings of each topic."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        found = self._connection.client.describe_configs(resources, request_timeout=self._connection.timeout_seconds)
        return {
            str(resource.name): {
                name: entry.value for name, entry in self._connection.answer(future, f"describing the settings of {resource.name}").items()
            }
            for resource, future in found.items()
        }

    def create(self, spec: TopicSpec) -> bool:
        """Creates the topic. False: it already exists, or this client may not create topics. Connect also treats a missing right to create
        topics as success."""
        return self.try_create(spec) is Creation.CREATED

    def try_create(self, spec: TopicSpec) -> Creation:
        """Creates the topic if it does not exist, and waits until the brokers list it. The brokers list a topic only after they have
        answered. Raises StoreException if the broker refuses its settings, StoreTimeoutException."""
        outcome = self._creation(spec)
        if outcome is not Creation.FORBIDDEN:
            self._wait_until_listed(spec.name)
        return outcome

    def _creation(self, spec: TopicSpec) -> Creation:
        new = NewTopic(spec.name, spec.partitions, spec.replication_factor, config=dict(spec.configs or {}))
        future = self._connection.client.create_topics([new], request_timeout=self._connection.timeout_seconds)[spec.name]
        try:
            future.result(self._connection.timeout_seconds + 1)
        except KafkaException as error:
            found = kafka_error(error)
            if found is not None and found.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return Creation.EXISTS
            if found is not None and found.code() in _FORBIDDEN:
                return Creation.FORBIDDEN
            if found is not None and found.code() == KafkaError.INVALID_REPLICATION_FACTOR:
                raise ReplicationFactorException(found.str()) from error
            raise self._connection.failure(error, f"creating topic {spec.name}") from error
        except FutureTimeoutError as error:
            raise unreachable(
                self._connection.bootstrap_servers, self._connection.timeout_seconds, f"creating {spec.name}", "none"
            ) from error
        return Creation.CREATED

    def _wait_until_listed(self, topic: str) -> None:
        """Waits for at most the connection's timeout. If the topic cannot be described, the caller's next request raises."""
        deadline = time.monotonic() + self._connection.timeout_seconds
        with suppress(ConnectException):
            while topic not in self.partitions([topic]) and time.monotonic() < deadline:
                time.sleep(0.02)

    def end_offsets(self, partitions: Iterable[TopicPartition], *, read_committed: bool = True) -> dict[TopicPartition, int]:
        """The ends: the last stable offsets, or the high watermarks if ``read_committed`` is false."""
        return self._offsets(partitions, OffsetSpec.latest, read_committed=read_committed)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets that the partitions still contain."""
        return self._offsets(partitions, OffsetSpec.earliest, read_committed=True)

    def offsets_from(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The first offset whose record has this timestamp or a later one. Partitions without such a record are left out."""
        asked = {_KafkaPartition(*partition): OffsetSpec.for_timestamp(timestamp_ms) for partition in partitions}
        found = self._listed(asked, IsolationLevel.READ_UNCOMMITTED, may_be_empty=True)
        newest: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
        without = {at: newest for at, answer in found.items() if answer.offset < 0}
        for at, answer in (self._listed(without, IsolationLevel.READ_UNCOMMITTED, may_be_empty=True) if without else {}).items():
            if answer.timestamp >= timestamp_ms:  # otherwise the first answer came from a connection that was lost
                error = KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
                raise self._connection.failure(error, f"listing offsets of {at}") from error
        return {TopicPartition(at.topic, at.partition): int(answer.offset) for at, answer in found.items() if answer.offset >= 0}

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: Callable[[], OffsetSpec], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        asked = {_KafkaPartition(*partition): spec() for partition in partitions}
        level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        return {TopicPartition(at.topic, at.partition): int(found.offset) for at, found in self._listed(asked, level).items()}

    def _listed(
        self, asked: "dict[_KafkaPartition, OffsetSpec]", level: IsolationLevel, *, may_be_empty: bool = False
    ) -> "dict[_KafkaPartition, ListOffsetsResultInfo]":
        """The brokers' answers. Partitions without a leader are requested again until the connection's timeout."""
        deadline = time.monotonic() + self._connection.timeout_seconds
        while asked:
            try:
                found = self._connection.client.list_offsets(asked, isolation_level=level, request_timeout=self._connection.timeout_seconds)
                return {partition: self._answer(partition, future, may_be_empty) for partition, future in found.items()}
            except StoreTimeoutException as error:
                cause = kafka_error(error.__cause__) if error.__cause__ is not None else None
                if cause is None or cause.code() not in NO_LEADER or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)
        return {}

    def _answer(self, partition: _KafkaPartition, future: "Future[ListOffsetsResultInfo]", may_be_empty: bool) -> ListOffsetsResultInfo:
        stage = f"listing offsets of {partition}"
        found = self._connection.answer(future, stage)
        if found.offset < 0 and not may_be_empty:  # librdkafka answers so, without an error, when the connection to the leader is lost
            error = KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
            raise self._connection.failure(error, stage) from error
        return found

    def ensure_internal_topics(self) -> dict[str, str]:
        """Creates the internal topics that are missing and checks the others (contract §2.1). Returns their ids.

        Raises WorkerSettingsException for a topic with a wrong clean-up policy, for a config topic with more than one partition, and for
        missing topics if none may be created (KIP-1209). A replication factor that the brokers cannot meet is retried for
        ``default.api.timeout.ms`` (default: 10 s), because brokers may be starting.
        """
        topics = self._settings.internal_topics
        ids = self._ids(topics)
        missing = [topic for topic in topics if topic.name not in ids]
        if missing and not self._settings.internal_topics_creation_enable:
            errors = [missing_text(topic.name, topic.setting, topic.partitions) for topic in missing]
            raise WorkerSettingsException("; ".join(errors), errors=errors)
        created = self._create_missing(missing)
        if len(ids) < len(topics):
            ids = self._wait_for(topics)
        self._check_policies([topic for topic in topics if topic.name not in created])
        self._warn_of_single_replicas(created)
        return ids

    def _ids(self, topics: Iterable[InternalTopic]) -> dict[str, str]:
        """The ids of those topics that exist. Raises WorkerSettingsException for a config topic of several partitions."""
        by_name, ids = {topic.name: topic for topic in topics}, {}
        for name, found in self.identities(by_name).items():
            if by_name[name].setting == "config.storage.topic" and found.partitions > 1:
                raise WorkerSettingsException(_TOO_MANY_PARTITIONS.format(name, found.partitions))
            ids[name] = found.id
        return ids

    def _create_missing(self, topics: Sequence[InternalTopic]) -> set[str]:
        """The names of the topics that this call created. Raises one exception for all topics that could not be created."""
        seconds = float(self._settings.values.get("default.api.timeout.ms", "10000")) / 1000
        deadline = time.monotonic() + seconds
        missing, created = list(topics), set[str]()
        while True:
            refused: dict[str, ConnectException] = {}
            for topic in missing:
                try:
                    spec = TopicSpec(topic.name, topic.partitions, topic.replication_factor, topic.configs)
                    if self._creation(spec) is Creation.CREATED:
                        created.add(topic.name)
                except ReplicationFactorException as error:
                    refused[topic.name] = error
                except StoreTimeoutException as error:
                    if time.monotonic() > deadline:
                        raise
                    refused[topic.name] = error
            missing = [topic for topic in missing if topic.name in refused]
            if not missing:
                return created
            if time.monotonic() > deadline:
                raise _not_created(missing, refused, seconds)
            _log.debug("Topics that cannot be created yet: %s", refused)
            time.sleep(0.2)

    def _warn_of_single_replicas(self, created: set[str]) -> None:
        for warning in self.single_replicas(created) if created else ():
            _log.warning("%s", warning)

    def missing_rights(self, topics: Iterable[str]) -> dict[str, list[str]]:
        """The rights of ``_NEEDED`` that this client's user lacks, by topic, with the names of ``kafka-acls.sh``. Topics that do not exist,
        and those with all rights, are left out. Raises StoreException for a topic that the user may not describe."""
        found = self._connection.client.describe_topics(
            TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=self._connection.timeout_seconds
        )
        lacking = {}
        for topic, future in found.items():
            try:
                allowed = self.described(topic, future).authorized_operations
            except TopicMissingException:
                continue
            if missing := [operation.name.title() for operation in _NEEDED if allowed is not None and operation not in allowed]:
                lacking[topic] = missing
        return lacking

    def newest_time(self, topic: str) -> float | None:
        """The largest timestamp of a topic's records, in seconds since 1970. None: it has no records."""
        newest: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
        asked = {_KafkaPartition(topic, number): newest for number in range(self.partitions([topic]).get(topic, 0))}
        found = self._listed(asked, IsolationLevel.READ_UNCOMMITTED, may_be_empty=True).values()
        newest_ms = max((answer.timestamp for answer in found), default=-1)
        return None if newest_ms < 0 else newest_ms / 1000

    def single_replicas(self, topics: Iterable[str]) -> list[str]:
        """The warnings of ``replication_warnings`` for these topics, which exist."""
        found = {name: self.described(name, future) for name, future in self.describe_later(topics).items()}
        replicas = {name: min(len(partition.replicas) for partition in topic.partitions) for name, topic in found.items()}
        brokers = len(self._connection.client.list_topics(timeout=self._connection.timeout_seconds).brokers)
        return replication_warnings(replicas, brokers)

    def _check_policies(self, topics: list[InternalTopic]) -> None:
        if not topics:
            return
        try:
            configs = self.configs(topic.name for topic in topics)
        except StoreTimeoutException:
            raise
        except StoreException as error:  # not authorized, or not supported by the broker
            _log.info("The clean-up policies of the internal topics could not be checked: %s", error)
            return
        for topic in topics:
            found = cleanup_policy(configs[topic.name])
            if found != "compact":
                raise WorkerSettingsException(_WRONG_POLICY.format(topic=topic.name, key=topic.setting, purpose=topic.purpose, found=found))

    def _wait_for(self, topics: tuple[InternalTopic, ...], timeout_seconds: float = 30.0) -> dict[str, str]:
        deadline = time.monotonic() + timeout_seconds
        while True:
            ids = self._ids(topics)
            missing = [topic.name for topic in topics if topic.name not in ids]
            if not missing:
                return ids
            if time.monotonic() > deadline:
                raise StoreTimeoutException(_NO_METADATA.format(missing[0]), stage="fetching partition metadata")
            time.sleep(0.05)

    def close(self) -> None:
        self._connection.close()


class ReplicationFactorException(StoreException):
    """There are fewer brokers than requested replicas."""


def _not_created(topics: Iterable[InternalTopic], refused: Mapping[str, ConnectException], seconds: float) -> WorkerSettingsException:
    """One exception that names every setting that is wrong."""
    errors = [
        WorkerSettingsException.of(
            topic.setting.removesuffix("topic") + "replication.factor",
            topic.replication_factor,
            f"topic {topic.name} could not be created for {seconds:g} s: {refused[topic.name].message}",
        ).message
        for topic in topics
    ]
    advice = "give at most the number of brokers, or leave the setting out for the brokers' own default"
    return WorkerSettingsException(f"{'; '.join(errors)}: {advice}", errors=errors)


_TOO_MANY_PARTITIONS = (
    "Topic '{}' supplied via the 'config.storage.topic' property is required to have a single partition in order to guarantee "
    "consistency of connector configurations, but found {} partitions."
)
_WRONG_POLICY = (
    "Topic '{topic}' supplied via the '{key}' property is required to have 'cleanup.policy=compact' to guarantee consistency and "
    "durability of {purpose}, but found the topic currently has 'cleanup.policy={found}'. Continuing would likely result in eventually "
    "losing {purpose} and problems restarting this Connect cluster in the future. Change the '{key}' property in the Connect worker "
    "configurations to use a topic with 'cleanup.policy=compact'."
)
_NO_METADATA = (
    "Could not look up partition metadata for topic '{}' in the allotted period. This could indicate a connectivity issue, unavailable "
    "topic partitions, or if this is your first use of the topic it may have taken too long to create."
)
