"""The topics that a source task writes to: refuses internal ones, creates missing ones (KIP-158), and notes the written offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException, StoreException
from airflow_provider_connect.runtime.model.connector_settings import Guarantee
from airflow_provider_connect.runtime.model.ids import refusal_of_topic
from airflow_provider_connect.runtime.model.topic_creation import TopicCreation, TopicGroup
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import OFFSETS_TOPIC
from airflow_provider_connect.runtime.stores.topic_admin import Creation, TopicAdmin, TopicSpec
from airflow_provider_connect.runtime.worker.task.environment import TaskEnvironment

Ranges = dict[str, dict[str, list[int]]]
"""By topic and partition: the first and the next offset."""

log = logging.getLogger(__name__)

MARKER_SECONDS = 5.0
"""How long a run waits for the markers of its last commit. Another writer may have an open transaction on the same topic."""


class WrittenTopics:
    """``offsets_topic`` holds the task's own offsets.

    The end of each topic is read twice, before its first record and after its last. So no delivery report per record is needed. The range
    also contains records of other writers, and transaction markers.
    """

    def __init__(self, environment: TaskEnvironment, admin: TopicAdmin, offsets_topic: str) -> None:
        self._environment = environment
        self._admin = admin
        self._own = offsets_topic if environment.payload.guarantee == Guarantee.EXACTLY_ONCE else None
        self._of_offsets = offsets_topics(environment)
        self._before: dict[str, dict[TopicPartition, int]] = {}

    def prepare(self, topic: str) -> None:
        """Prepare the topic of an encoded batch. Steps: 1 refuse an internal topic, and a name that Kafka refuses; 2 create a missing
        topic; 3 note the topic's end.

        Raises ConnectException for a topic that is refused or cannot be created, and StoreTimeoutException.
        """
        if topic in self._before:
            return
        self._refuse(topic)  # 1
        creation = self._environment.checked.topic_creation
        is_new = creation is not None and self._create_if_missing(topic, creation)  # 2
        self._before[topic] = {} if is_new else self._ends(topic)  # 3

    def ranges(self) -> Ranges:
        """The end of each partition before the run and its end now, by topic and partition. Partitions with equal ends are left out."""
        found = self._spans(self._ends(*self._before))
        if self._own is not None:
            self._await_markers(
                {TopicPartition(topic, int(number)): end for topic, spans in found.items() for number, (_, end) in spans.items()}
            )
        return found

    def committed_ranges(self) -> tuple[Ranges, bool]:
        """As ``ranges``, but up to the end for readers of committed records, and whether that is the end. Does not wait."""
        ends = self._ends(*self._before)
        committed = self._admin.end_offsets(ends)
        return self._spans(committed), all(committed[partition] >= end for partition, end in ends.items())

    def _await_markers(self, ends: dict[TopicPartition, int]) -> None:
        """Wait for the markers of the last commit, which a broker writes after its answer. A sink that starts before the markers are
        written misses records."""
        deadline = time.monotonic() + MARKER_SECONDS
        while ends and time.monotonic() < deadline:
            try:
                committed = self._admin.end_offsets(ends)
            except ConnectException as error:  # everything is committed
                log.debug("Whether the written records are visible is not known: %s", error)
                return
            ends = {partition: end for partition, end in ends.items() if committed[partition] < end}
            if ends:
                time.sleep(0.01)

    def _refuse(self, topic: str) -> None:
        if topic == self._own:
            raise ConnectException("Source tasks may not produce to their own offsets topics when exactly-once support is enabled")
        reason = self._environment.settings.refusal_of_data_topic(topic)
        if not reason and (refusal := refusal_of_topic(topic)):
            reason = f"{refusal}. Leave out what is read into it, or rename it by a transformation RegexRouter."
        if reason or topic in self._of_offsets:
            raise ConnectException(f"Records may not go to topic {topic}. {reason or 'It holds the offsets of connectors. Name another.'}")

    def _create_if_missing(self, topic: str, creation: TopicCreation) -> bool:
        """Returns whether this task has created the topic."""
        if self._admin.partitions([topic]):
            return False
        group = creation.group_of(topic)
        try:
            outcome = self._admin.try_create(TopicSpec(topic, group.partitions, group.replication_factor, group.configs))
        except StoreException as error:
            raise ConnectException(f"Task failed to create new topic {_described(topic, group)}: {error}") from error
        if outcome is Creation.FORBIDDEN:
            raise ConnectException(
                f"Task failed to create new topic {_described(topic, group)}. Ensure that the task is authorized to create topics or that "
                "the topic exists and restart the task"
            )
        if outcome is not Creation.CREATED:
            return False
        payload = self._environment.payload
        described = _described(topic, group)
        log.info("Task %s-%s: created topic %s using creation group %s", payload.connector, payload.task, described, group.name)
        return True

    def _spans(self, ends: Mapping[TopicPartition, int]) -> Ranges:
        found: Ranges = {}
        for partition, end in sorted(ends.items()):
            before = self._before[partition.topic].get(partition, 0)
            if end > before:
                found.setdefault(partition.topic, {})[str(partition.partition)] = [before, end]
        return found

    def _ends(self, *topics: str) -> dict[TopicPartition, int]:
        """The ends by partition. Topics that do not exist yet are left out."""
        counts = self._admin.partitions(topics)
        partitions = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        return self._admin.end_offsets(partitions, read_committed=False)


def _described(topic: str, group: TopicGroup) -> str:
    configs = ", ".join(f"{name}={text}" for name, text in group.configs.items())
    return f"(name={topic}, numPartitions={group.partitions}, replicationFactor={group.replication_factor}, configs={{{configs}}})"


def offsets_topics(environment: TaskEnvironment) -> set[str]:
    """The topics that configs of connectors name for their own offsets. Topics that this connector has already written to are left out:
    another config that later names one must not stop this connector."""
    reserved = environment.configs.read().reserved
    named = {keys.get(OFFSETS_TOPIC, "") for connector, keys in reserved.items() if connector != environment.payload.connector}
    named -= set(environment.payload.known_topics or ())
    return {environment.checked.resolved.get(OFFSETS_TOPIC, "").strip(), *named} - {""}
