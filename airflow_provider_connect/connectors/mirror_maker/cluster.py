"""One of the two clusters: its clients, which are created from the settings in a config, and their requests.

A client inherits no settings, logins or tickets of the worker or the host, and reads no files outside the allowed folders.
"""

from __future__ import annotations

import concurrent.futures
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow_provider_connect.connectors.mirror_maker.client_config import bootstrap_key, client_config, isolation_level
from airflow_provider_connect.data.arrow import LazyModule
from airflow_provider_connect.data.records import NO_TOPIC_ID, TopicPartition, topic_id_text
from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.kafka_client.settings import ClientKind
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.config_def import Config

if TYPE_CHECKING:
    import confluent_kafka as client
    from confluent_kafka import admin
else:  # validation and the catalog import connectors without the client
    client = LazyModule("confluent_kafka")
    admin = LazyModule("confluent_kafka.admin")

__all__ = ["NO_AUTHORIZER", "Cluster", "admin", "client", "open_clusters"]
_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_ACCESS_ERRORS: Final = frozenset(
    {
        "_AUTHENTICATION",
        "_SSL",
        "SASL_AUTHENTICATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
    }
)
_NO_LEADER: Final = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "_NOENT",
    }
)
"""Errors of a partition that is new, or whose leader is moving."""
_NO_COORDINATOR: Final = frozenset({"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"})
_TRANSIENT: Final = (
    _NO_LEADER
    | _NO_COORDINATOR
    | {
        "BROKER_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "NETWORK_EXCEPTION",
        "NOT_CONTROLLER",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "REBALANCE_IN_PROGRESS",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "THROTTLING_QUOTA_EXCEEDED",
        "UNKNOWN_TOPIC_OR_PART",
        "UNSTABLE_OFFSET_COMMIT",
    }
)
"""Errors of these requests that Java's clients treat as RetriableException."""
NO_AUTHORIZER: Final = "SECURITY_DISABLED"
_COMPACTED: Final = {"cleanup.policy": "compact"}
MAX_MS: Final = 3_600_000
"""Maximum timeout of librdkafka's requests. Kafka's settings have no limit."""
_ABANDONED_MS: Final = 60_000
"""How much longer a request to a group's coordinator may take than the wait for its answer. If librdkafka's timeout ended first, it would
abort the process as soon as it finds the coordinator (issue 4605)."""


class Cluster:
    """The source or target cluster, depending on ``side``. Clients are created at first use. ``close`` releases them."""

    def __init__(self, config: Config, side: str, allowed: AllowedPaths) -> None:
        self.alias: str = config[f"{side}.cluster.alias"]
        self.isolation = isolation_level(config, side)
        self._config, self._side, self._allowed = config, side, allowed
        self._seconds = min(max(config["admin.timeout.ms"], 0), MAX_MS - _ABANDONED_MS) / 1000
        self._coordinator_seconds = self._seconds + _ABANDONED_MS / 1000
        self._admin: admin.AdminClient | None = None
        self._producer: client.Producer | None = None
        self._error: client.KafkaError | None = None

    def client_config(self, kind: ClientKind) -> dict[str, Any]:  # Any: values in librdkafka's configs have several types
        return client_config(self._config, self._side, kind, self._allowed)

    @property
    def admin_client(self) -> admin.AdminClient:
        if self._admin is None:
            config = {**self.client_config(ClientKind.ADMIN), "error_cb": self._record_error, "logger": _librdkafka_logger()}
            with self.translate_errors("creating a client"):
                self._admin = admin.AdminClient(config)
        return self._admin

    def result_of(self, future: Future[_T], stage: str) -> _T:
        """The result of an admin request. ``stage`` names the request in messages."""
        with self.translate_errors(stage):
            return future.result(self._seconds + 1)

    @contextmanager
    def translate_errors(self, stage: str) -> Iterator[None]:
        """Translate errors of the client to RetriableException if a later attempt may succeed, otherwise to ConnectException."""
        try:
            yield
        except client.KafkaException as error:
            raise self._failure(error.args[0], stage) from error
        except concurrent.futures.TimeoutError as error:
            raise self._unanswered(stage) from error

    def _unanswered(self, stage: str) -> ConnectException:
        """The failure of a request that is abandoned, with its client."""
        self._admin = None
        return self._failure(client.KafkaError(client.KafkaError._TIMED_OUT), stage)

    def _failure(self, error: client.KafkaError, stage: str) -> ConnectException:
        cause = self._error if self._error is not None and self._error.name() in _ACCESS_ERRORS else error
        where = f"the {self._side} cluster {self.alias}"
        if cause.name() in _ACCESS_ERRORS:
            return ConnectException(
                f"{where} refused {stage}: {cause.str()}. Check {self._side}.cluster.security.protocol, {self._side}.cluster.sasl.* and "
                f"{self._side}.cluster.ssl.*, and the rights of that user"
            )
        if error.retriable() or error.code() < 0 or error.name() in _TRANSIENT:
            last = "" if self._error is None else f". Last error of the client: {self._error.str()}"
            return RetriableException(f"{where} did not answer while {stage}: {error.str()}; is {bootstrap_key(self._side)} right?{last}")
        return ConnectException(f"{where} refused {stage}: {error.str()} ({error.name()})")

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        with self.translate_errors("listing topics"):
            found = self.admin_client.list_topics(timeout=self._seconds).topics
        return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of topics (KIP-516), in the form that Kafka's tools print. Missing topics, and topics without ids, are omitted."""
        names = sorted(set(topics))
        futures = self.admin_client.describe_topics(client.TopicCollection(names), request_timeout=self._seconds) if names else {}
        found = {}
        for name, future in futures.items():
            try:
                found[name] = topic_id_text(future.result(self._seconds + 1).topic_id)
            except client.KafkaException as error:
                if error.args[0].code() != client.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._failure(error.args[0], f"describing topic {name}") from error
            except concurrent.futures.TimeoutError as error:
                raise self._failure(client.KafkaError(client.KafkaError._TIMED_OUT), f"describing topic {name}") from error
        return {name: topic_id for name, topic_id in found.items() if topic_id != NO_TOPIC_ID}

    def groups(self) -> list[str]:
        """The ids of all consumer groups."""
        with self.translate_errors("listing consumer groups"):
            found = self.admin_client.list_consumer_groups(request_timeout=self._seconds).result(self._seconds + 1)
        return [group.group_id for group in found.valid]

    def group_offsets(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        """A group's committed offset in each partition, with its metadata."""
        self._await_coordinator(group)
        asked = [client.ConsumerGroupTopicPartitions(group)]
        future = self.admin_client.list_consumer_group_offsets(asked, request_timeout=self._coordinator_seconds)[group]
        found = self.result_of(future, f"listing the offsets of group {group}").topic_partitions or []
        return {TopicPartition(p.topic, p.partition): (p.offset, p.metadata or "") for p in found if p.offset >= 0}

    def has_members(self, group: str) -> bool:
        """Whether the group has members, which own its offsets."""
        future = self.admin_client.describe_consumer_groups([group], request_timeout=self._coordinator_seconds)[group]
        described = self.result_of(future, f"describing group {group}")
        return described.state not in (client.ConsumerGroupState.EMPTY, client.ConsumerGroupState.DEAD)

    def set_group_offsets(self, group: str, offsets: Sequence[client.TopicPartition]) -> None:
        """Set offsets of a group without members."""
        asked = [client.ConsumerGroupTopicPartitions(group, [*offsets])]
        future = self.admin_client.alter_consumer_group_offsets(asked, request_timeout=self._coordinator_seconds)[group]
        self.result_of(future, f"setting the offsets of group {group}")

    def _await_coordinator(self, group: str) -> None:
        """Wait until the group has a coordinator. librdkafka aborts the process if a broker that is not the coordinator receives a request
        for offsets (issue 5040). A describe request gets the same error without an abort. librdkafka then searches for the coordinator
        again."""
        deadline = time.monotonic() + self._seconds
        while True:
            future = self.admin_client.describe_consumer_groups([group], request_timeout=self._coordinator_seconds)[group]
            try:
                future.result(self._seconds + 1)
            except client.KafkaException as error:
                is_moving = error.args[0].name() in _NO_COORDINATOR
                if is_moving and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                if is_moving or error.args[0].code() < 0:
                    raise self._failure(error.args[0], f"finding the coordinator of group {group}") from error
            except concurrent.futures.TimeoutError as error:
                raise self._unanswered(f"finding the coordinator of group {group}") from error
            return

    def offsets(
        self, partitions: Collection[TopicPartition], spec: Callable[[], admin.OffsetSpec], *, read_committed: bool = True
    ) -> dict[TopicPartition, int]:
        """Offsets of partitions according to ``spec``, without missing partitions. Requests for partitions without a leader are repeated
        for ``admin.timeout.ms``."""
        level = client.IsolationLevel.READ_COMMITTED if read_committed else client.IsolationLevel.READ_UNCOMMITTED
        found: dict[TopicPartition, int] = {}
        left = {client.TopicPartition(*partition) for partition in partitions}
        deadline = time.monotonic() + self._seconds
        while left:
            with self.translate_errors("listing offsets"):
                futures = self.admin_client.list_offsets(
                    {partition: spec() for partition in left}, isolation_level=level, request_timeout=self._seconds
                )
            left.clear()
            for partition, future in futures.items():
                try:
                    found[TopicPartition(partition.topic, partition.partition)] = int(future.result(self._seconds + 1).offset)
                except client.KafkaException as error:
                    if error.args[0].name() in _NO_LEADER and time.monotonic() < deadline:
                        left.add(partition)
                    elif error.args[0].code() not in (client.KafkaError.UNKNOWN_TOPIC_OR_PART, client.KafkaError._UNKNOWN_PARTITION):
                        raise self._failure(error.args[0], f"listing offsets of {partition.topic}") from error
            if left:  # the client returns the same error if all requested topics are missing
                known = self.topics()
                left = {partition for partition in left if partition.partition < known.get(partition.topic, 0)}
                time.sleep(0.1 if left else 0.0)
        return found

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offset of each partition for the cluster's isolation level."""
        return self.offsets(partitions, admin.OffsetSpec.latest, read_committed=self.isolation == "read_committed")

    def ensure_compacted(self, topic: str, config: Config, factor_key: str) -> None:
        """Create a compacted topic with one partition if it is missing. ``factor_key`` is the setting of the replication factor."""
        if topic not in self.topics():
            for failure in self.create([admin.NewTopic(topic, 1, config[factor_key], config=_COMPACTED)], factor_key).values():
                raise failure

    def create(self, topics: Iterable[admin.NewTopic], factor_key: str) -> dict[str, ConnectException]:
        """Create topics and wait until brokers list them. Existing topics are accepted. ``factor_key`` is the setting of the replication
        factor. Returns the topics that the cluster refuses, with the reasons. Raises RetriableException if the cluster does not respond,
        and ConnectException if the cluster has too few brokers for ``factor_key``."""
        new = {topic.topic: topic for topic in topics}
        if not new:
            return {}
        refused = {}
        for name, future in self.admin_client.create_topics([*new.values()], request_timeout=self._seconds).items():
            try:
                future.result(self._seconds + 1)
            except client.KafkaException as error:
                if error.args[0].code() == client.KafkaError.TOPIC_ALREADY_EXISTS:
                    continue
                failure = self._failure(error.args[0], f"creating topic {name}")
                if error.args[0].code() == client.KafkaError.INVALID_REPLICATION_FACTOR:
                    raise ConnectException(f"{failure.message}. Set {factor_key} to no more than its number of brokers") from error
                if failure.retriable:
                    raise failure from error
                refused[name] = failure
        self.await_partitions(dict.fromkeys(new.keys() - refused.keys(), 1))
        return refused

    def add_partitions(self, counts: Mapping[str, int]) -> dict[str, ConnectException]:
        """Increase topics to these numbers of partitions, and wait until brokers list them. Returns the topics that the cluster refuses,
        with the reasons. Raises RetriableException if the cluster does not respond."""
        refused = {}
        new = [admin.NewPartitions(topic, count) for topic, count in counts.items()]
        for topic, future in self.admin_client.create_partitions(new).items() if new else ():
            try:
                self.result_of(future, f"adding partitions to topic {topic}")
            except RetriableException:
                raise
            except ConnectException as failure:
                refused[topic] = failure
        self.await_partitions({topic: count for topic, count in counts.items() if topic not in refused})
        return refused

    def await_partitions(self, counts: Mapping[str, int]) -> None:
        """Wait until brokers list these numbers of partitions, because brokers acknowledge a creation earlier. Returns after at most
        ``admin.timeout.ms``. Requests that need partitions that are still missing then fail."""
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline:
            known = self.topics()
            if all(known.get(topic, 0) >= count for topic, count in counts.items()):
                return
            time.sleep(0.05)

    def produce(self, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Write keys and values to partition 0 and wait for acknowledgements."""
        failures: list[client.KafkaError] = []
        with self.translate_errors(f"writing to topic {topic}"):
            if self._producer is None:
                own = {"error_cb": self._record_error, "logger": _librdkafka_logger(), "acks": "all", "linger.ms": 0}
                self._producer = client.Producer({**self.client_config(ClientKind.PRODUCER), **own})
            for key, value in records:
                self._producer.produce(topic, value, key, 0, on_delivery=lambda error, _: failures.append(error) if error else None)
            left = self._producer.flush(self._seconds)
        if failures or left:
            raise self._failure(failures[0] if failures else client.KafkaError(client.KafkaError._TIMED_OUT), f"writing to topic {topic}")

    def close(self) -> None:
        self._admin = self._producer = None

    def _record_error(self, error: client.KafkaError) -> None:
        if self._error is None or error.code() != client.KafkaError._ALL_BROKERS_DOWN:  # less specific than the previous error
            self._error = error


@contextmanager
def open_clusters(config: Config, allowed: AllowedPaths) -> Iterator[tuple[Cluster, Cluster]]:
    """The source and target cluster, which are closed at the end of the block."""
    source, target = Cluster(config, "source", allowed), Cluster(config, "target", allowed)
    try:
        yield source, target
    finally:
        source.close()
        target.close()


def _librdkafka_logger() -> logging.Logger:
    """The logger for librdkafka's messages. It is disabled unless the level is DEBUG, because relevant errors are raised."""
    logger = logging.getLogger(f"{__name__}.librdkafka")
    logger.disabled = not _log.isEnabledFor(logging.DEBUG)
    return logger
