"""Requests the ends of many partitions together, or their beginnings. A topic that cannot be read does not prevent the answers for the
others."""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as _KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.kafka_errors import NO_LEADER, TopicMissingException, kafka_error
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin

_AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """``offsets`` are the ends, or the beginnings. ``unread`` has the reason for each partition that may exist
    but could not be read. A partition that does not exist is in neither of the two."""

    offsets: Mapping[TopicPartition, int]
    unread: Mapping[TopicPartition, str]


def topic_ends(
    settings: WorkerSettings,
    partitions: Iterable[TopicPartition],
    topics: Collection[str] = (),
    *,
    beginnings: bool = False,
    read_committed: bool = True,
) -> TopicEnds:
    """The ends of ``partitions`` and of all partitions of ``topics``, by two requests for all. Retries for partitions that are about to
    move, until the connection's timeout. Does not raise if Kafka does not answer: then all partitions are unread, and for ``topics``
    partition 0. ``beginnings``: the first offsets that the partitions contain, instead of the ends. Without ``read_committed``, the ends
    are the high watermarks."""
    asked = set(partitions)
    if not asked and not topics:
        return TopicEnds({}, {})
    connection = AdminConnection.of(settings)
    client = connection.client  # a request that timed out drops the connection, but the other answers still arrive through this client
    try:
        left, unread = _with_leader(TopicAdmin(settings, connection=connection), asked, topics)
        offsets: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + connection.timeout_seconds
        spec: OffsetSpec = OffsetSpec.earliest() if beginnings else OffsetSpec.latest()  # type: ignore[no-untyped-call]
        level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        while left:
            found, failed, left = _listed(connection, client, left, spec, level)
            offsets |= found
            unread = {partition: reason for partition, reason in unread.items() if partition not in found} | failed
            if time.monotonic() > deadline:
                break
            time.sleep(_AGAIN_SECONDS if left else 0)
        return TopicEnds(offsets, unread)
    finally:
        connection.close()


def _listed(
    connection: AdminConnection, client: AdminClient, asked: set[TopicPartition], spec: OffsetSpec, level: IsolationLevel
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str], set[TopicPartition]]:
    """One request. Returns the offsets, the reasons for partitions without one, and those partitions for which a retry may succeed soon."""
    specs = {_KafkaPartition(*partition): spec for partition in asked}
    ends, failed, again = dict[TopicPartition, int](), dict[TopicPartition, str](), set[TopicPartition]()
    answers = client.list_offsets(specs, isolation_level=level, request_timeout=connection.timeout_seconds)
    for at, future in answers.items():
        partition = TopicPartition(at.topic, at.partition)
        try:
            offset = int(connection.answer(future, f"listing offsets of {at}").offset)
        except ConnectException as error:
            failed[partition] = error.message
            cause = kafka_error(error.__cause__) if error.__cause__ is not None else None
            if cause is not None and cause.code() in NO_LEADER:
                again.add(partition)
            continue
        if offset < 0:  # librdkafka answers so, without an error, when the connection to the leader is lost
            failed[partition] = "the connection to its leader was lost"
            again.add(partition)
        else:
            ends[partition] = offset
    return ends, failed, again


def _with_leader(
    admin: TopicAdmin, asked: set[TopicPartition], topics: Collection[str]
) -> tuple[set[TopicPartition], dict[TopicPartition, str]]:
    """The partitions with a leader, and the reason for each other partition that may exist. A partition without a leader would delay the
    answers for all partitions until the request's timeout."""
    found, unread = set[TopicPartition](), dict[TopicPartition, str]()
    for topic, future in admin.describe_later({*topics, *(partition.topic for partition in asked)}).items():
        mine = {partition for partition in asked if partition.topic == topic}
        try:
            leaders = {each.id: each.leader for each in admin.described(topic, future).partitions}
        except TopicMissingException:
            continue
        except ConnectException as error:
            unread |= dict.fromkeys(mine or {TopicPartition(topic, 0)}, error.message)
            continue
        if topic in topics:
            mine |= {TopicPartition(topic, number) for number in leaders}
        exist = {partition for partition in mine if partition.partition in leaders}
        led = {partition for partition in exist if (leader := leaders[partition.partition]) is not None and leader.id >= 0}
        found |= led
        unread |= dict.fromkeys(exist - led, "it has no leader")
    return found, unread
