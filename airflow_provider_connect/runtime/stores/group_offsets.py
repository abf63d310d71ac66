"""The offsets and members of consumer groups, through an admin client. Sinks keep their offsets in such groups."""

import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as _KafkaPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, ConflictException, ConnectException, NotFoundException, StoreTimeoutException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.kafka_errors import kafka_error
from airflow_provider_connect.runtime.stores.log_consumer import CommittedOffset, committed_offsets

_IN_USE = frozenset(
    {
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
_MOVING = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS})
_LONGEST_GROUP = 0x7FFF
_RETENTION = "offsets.retention.minutes"
_UNSTABLE_SECONDS = 0.02
_STABLE_SECONDS = 0.5
_MOVING_SECONDS = 0.05
_log = logging.getLogger(__name__)
_NO_MEMBERS = frozenset({ConsumerGroupState.DEAD, ConsumerGroupState.EMPTY})


class GroupOffsets:
    """See the module. ``overrides`` are a connector's ``admin.override.*`` settings without this prefix. ``connection`` may be shared."""

    def __init__(
        self, settings: WorkerSettings, overrides: Mapping[str, str] | None = None, *, connection: AdminConnection | None = None
    ) -> None:
        self._connection = connection or AdminConnection.of(settings, overrides)

    def committed(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, CommittedOffset]:
        """The group's offsets of all partitions, or of ``partitions``. Partitions without an offset are left out. Empty for an unknown
        group.

        Waits for an offset that is part of a transaction. Raises StoreTimeoutException if the transaction stays open for longer than the
        connection's timeout.
        """
        asked = None if partitions is None else [_KafkaPartition(*partition) for partition in partitions]
        if asked == []:
            return {}
        stage = f"reading the offsets of group {group}"
        deadline = time.monotonic() + self._connection.timeout_seconds
        for failure in self._without_coordinator([_sendable(group)], stage).values():
            raise failure
        while True:
            found = self._connection.answer(self._asked(group, asked), stage).topic_partitions or []
            if not any(_is_unstable(partition) for partition in found):
                return committed_offsets(found, stage)
            if time.monotonic() > deadline:
                seconds = self._connection.timeout_seconds
                raise StoreTimeoutException(
                    f"An open transaction kept the offsets of group {group} from being read for {seconds:g} s", stage=stage
                )
            time.sleep(_UNSTABLE_SECONDS)

    def committed_now(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """The offsets of each group, all requested at the same time. Waits for transactions for at most ``_STABLE_SECONDS``, after which
        it leaves out a group with an offset in an open transaction. Also leaves out a group that cannot be read."""
        client, found = self._connection.client, dict[str, dict[TopicPartition, CommittedOffset]]()
        sendable: list[str] = []
        for group in groups:
            try:
                sendable.append(_sendable(group))
            except ConfigException as error:
                _log.warning("The offsets of group %r cannot be read: %s", cut(group), error)
        without = self._without_coordinator(sendable, "finding the coordinators of groups")
        for group, failure in without.items():
            _log.warning("The offsets of group %s cannot be read: %s", group, failure)
        left, deadline = [group for group in sendable if group not in without], time.monotonic() + _STABLE_SECONDS
        while left:
            futures, left = {group: self._asked(group, None) for group in left}, []
            until = time.monotonic() + self._connection.timeout_seconds
            for group, future in futures.items():
                stage = f"reading the offsets of group {group}"
                try:
                    partitions = self._connection.answer(future, stage, until).topic_partitions or []
                    if not any(_is_unstable(partition) for partition in partitions):
                        found[group] = committed_offsets(partitions, stage)
                    elif time.monotonic() < deadline:
                        left.append(group)
                except ConnectException as error:
                    _log.warning("%s", error.message)
            time.sleep(_UNSTABLE_SECONDS if left else 0)
        del client  # keep the client until here: a timed-out request drops the connection, but the other answers arrive through this client
        return found

    def _without_coordinator(self, groups: Iterable[str], stage: str) -> dict[str, Exception]:
        """The groups whose coordinator did not answer in time, each with the reason.

        librdkafka ends the whole process when a request for offsets reaches a broker that is not the coordinator, or not yet (issue 5040).
        librdkafka survives the same error in a description, and then searches for the coordinator again.
        """
        client, seconds = self._connection.client, self._connection.timeout_seconds
        deadline, left, failed = time.monotonic() + seconds, [*groups], dict[str, KafkaException]()
        while left:
            asked, left = left, []
            until = time.monotonic() + seconds
            for group, future in client.describe_consumer_groups(asked, request_timeout=self._connection.coordinator_seconds).items():
                try:
                    future.result(max(0.0, until - time.monotonic()))
                except FutureTimeoutError:
                    failed[group] = KafkaException(KafkaError(KafkaError._TIMED_OUT))
                except KafkaException as error:
                    code = found.code() if (found := kafka_error(error)) else KafkaError.UNKNOWN
                    if code in _MOVING and time.monotonic() < deadline:
                        left.append(group)
                    elif code in _MOVING or code < 0:
                        failed[group] = error
            time.sleep(_MOVING_SECONDS if left else 0)
        return {group: self._connection.failure(error, stage) for group, error in failed.items()}

    def _asked(self, group: str, partitions: list[_KafkaPartition] | None) -> "Future[ConsumerGroupTopicPartitions]":
        found: dict[str, Future[ConsumerGroupTopicPartitions]] = self._connection.client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(_sendable(group), partitions)],
            require_stable=True,
            request_timeout=self._connection.coordinator_seconds,
        )
        return found[group]

    def retention_seconds(self) -> float | None:
        """How long the brokers keep the offsets of a group without members (``offsets.retention.minutes``). None: unknown."""
        client, stage = self._connection.client, "reading the retention of offsets"
        try:
            brokers = client.list_topics(timeout=self._connection.timeout_seconds).brokers
            asked = [ConfigResource(ResourceType.BROKER, str(number)) for number in sorted(brokers)[:1]]
            futures = client.describe_configs(asked, request_timeout=self._connection.timeout_seconds).values()
            found = [self._connection.answer(future, stage)[_RETENTION].value for future in futures]
            return float(found[0] or "") * 60
        except (KafkaException, ConnectException, KeyError, IndexError, ValueError) as error:  # not authorized, or no such setting
            _log.info("The brokers did not report how long they keep offsets: %s", error)
            return None

    def members(self, group: str) -> list[str]:
        """The group's current members, each as client id and host, under either of Kafka's group protocols."""
        found = self._connection.client.describe_consumer_groups([group], request_timeout=self._connection.coordinator_seconds)[group]
        description = self._connection.answer(found, f"describing group {group}")
        members = [f"{member.client_id} at {member.host}" for member in description.members]
        return members or ([] if description.state in _NO_MEMBERS else [f"a member unknown (group is {description.state.name})"])

    def workers(self, group: str) -> list[str]:
        """The members of a group of the classic protocol and of any type, such as the workers of a Kafka Connect, each as client id and
        host."""
        stage = f"describing group {group}"
        try:
            found = self._connection.client.list_groups(_sendable(group), self._connection.timeout_seconds)
        except KafkaException as error:
            raise self._connection.failure(error, stage) from error
        for each in found:
            if each.error is not None:
                raise self._connection.failure(KafkaException(each.error), stage)
        return [f"{member.client_id} at {member.client_host}" for each in found for member in each.members]

    def delete(self, group: str) -> None:
        """Deletes the group with its offsets. Also succeeds if there is no such group. Raises ConflictException while it has members."""
        future = self._connection.client.delete_consumer_groups([group], request_timeout=self._connection.coordinator_seconds)[group]
        try:
            self._answer(future, group, f"deleting group {group}")
        except NotFoundException:
            return

    def _answer(self, future: "Future[ConsumerGroupTopicPartitions]", group: str, stage: str) -> ConsumerGroupTopicPartitions:
        try:
            return self._connection.answer(future, stage)
        except ConnectException as error:
            cause = error.__cause__
            found = kafka_error(cause) if isinstance(cause, KafkaException) else None
            if found is not None and found.code() == KafkaError.GROUP_ID_NOT_FOUND:
                raise NotFoundException(f"There is no group {group}") from cause
            if found is not None and (conflict := _in_use(group, found)):
                raise conflict from cause
            raise

    def close(self) -> None:
        self._connection.close()


def _sendable(group: str) -> str:
    """Returns ``group``. Raises ConfigException for a name that cannot be sent. Some names may make the client crash the process. If a name
    is too long, a broker drops the connection, and all other answers are lost."""
    try:
        length = len(group.encode())
    except UnicodeEncodeError as error:
        raise ConfigException.of("group.id", repr(cut(group)), "it has characters that are not in UTF-8") from error
    if not 0 < length <= _LONGEST_GROUP:
        raise ConfigException.of("group.id", repr(cut(group)), f"a name has 1 to {_LONGEST_GROUP} bytes in UTF-8")
    return group


def _is_unstable(partition: _KafkaPartition) -> bool:
    return partition.error is not None and partition.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT


def _in_use(group: str, error: KafkaError) -> ConflictException | None:
    if error.code() not in _IN_USE:
        return None
    return ConflictException(f"Group {group} has active members, so its offsets cannot be changed: {error.str()}")
