"""Topics and rights for tests: created and changed so that every client finds them at once, and no transaction hides records.

A broker answers a creation or a change before it knows of it itself, and lists a topic before its partitions take requests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.waiting import HANG_SECONDS, pauses, wait_until

_NOT_YET = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._NOENT,
        KafkaError._UNKNOWN_PARTITION,
    }
)


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> str:
    """Returns the name of the topic when each partition answers; ``_`` stands for ``.`` in the names of ``configs``."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept until the answer is there
    new = NewTopic(topic, partitions, 1, config={name.replace("_", "."): text for name, text in configs.items()})
    admin.create_topics([new])[topic].result(HANG_SECONDS)
    end_offsets(admin, topic, partitions)
    return topic


def add_partitions(bootstrap: str, topic: str, partitions: int) -> None:
    """Returns when each of as many ``partitions`` answers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(HANG_SECONDS)
    end_offsets(admin, topic, partitions)


def alter_topic(bootstrap: str, topic: str, **values: str | None) -> None:
    """Set settings of a topic, None takes one back; returns when the broker shows them. ``_`` stands for ``.`` in their names."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = {name.replace("_", "."): text for name, text in values.items()}
    set_, delete = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    changes = [ConfigEntry(name, text, incremental_operation=delete if text is None else set_) for name, text in wanted.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    admin.incremental_alter_configs([resource])[resource].result(HANG_SECONDS)

    def is_shown() -> bool:
        asked = ConfigResource(ResourceType.TOPIC, topic)
        shown = admin.describe_configs([asked])[asked].result(HANG_SECONDS)
        own = {name: entry.value for name, entry in shown.items() if ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG}
        return all(own.get(name) == text for name, text in wanted.items())

    wait_until(is_shown, f"topic {topic} has the settings {wanted}", HANG_SECONDS)


def add_rights(bootstrap: str, rights: Sequence[AclBinding]) -> None:
    """Returns when the broker's authorizer has each of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_acls([*rights]).values():
        future.result(HANG_SECONDS)

    def is_there(right: AclBinding) -> bool:
        of_name = right.restype, right.name, right.resource_pattern_type
        exactly = AclBindingFilter(*of_name, right.principal, right.host, right.operation, right.permission_type)
        return bool(admin.describe_acls(exactly).result(HANG_SECONDS))

    wait_until(lambda: all(is_there(right) for right in rights), "the authorizer has the rights", HANG_SECONDS)


def settle(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Wait until no transaction hides records: its markers are written behind the answer to its commit."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def hides_nothing() -> bool:
        return end_offsets(admin, topic, partitions, read_committed=True) == end_offsets(admin, topic, partitions)

    wait_until(hides_nothing, f"no transaction hides records of {topic}")


def end_offsets(admin: AdminClient, topic: str, partitions: int, *, read_committed: bool = False) -> list[int]:
    """Where each partition ends, as soon as all answer."""
    level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
    deadline, pause_seconds = time.monotonic() + HANG_SECONDS, pauses()
    while True:
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, number): latest for number in range(partitions)}
        try:
            return [*_answers(admin.list_offsets(asked, isolation_level=level, request_timeout=HANG_SECONDS))]
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise
        time.sleep(next(pause_seconds))


def _answers(futures: dict[TopicPartition, Future[ListOffsetsResultInfo]]) -> Iterator[int]:
    for future in futures.values():
        yield int(future.result(HANG_SECONDS).offset)
