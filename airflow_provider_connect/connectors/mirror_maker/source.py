"""MirrorSource: mirrors topics of another Kafka cluster unchanged. Has MirrorMaker 2's settings, names and offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from airflow_provider_connect.connectors.mirror_maker.client_config import isolation_level, validate_settings
from airflow_provider_connect.connectors.mirror_maker.cluster import Cluster, open_clusters
from airflow_provider_connect.connectors.mirror_maker.names import ReplicationPolicy, offset_syncs_topic
from airflow_provider_connect.connectors.mirror_maker.offsets import check_offset, is_from_other_topic, next_offset, source_partition
from airflow_provider_connect.connectors.mirror_maker.settings import PARTITIONS, RAW_CONVERTERS, SOURCE, task_config_def
from airflow_provider_connect.connectors.mirror_maker.source_task import MirrorSourceTask
from airflow_provider_connect.connectors.mirror_maker.topics import TopicSync, mirrored_topics
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.config_def import Config, ConfigValue
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, OffsetReader, SourceConnector
from airflow_provider_connect.sdk.task import SourceTask

_MOST_NAMED = 3


class MirrorSourceConnector(SourceConnector):
    """Mirrors topics of another Kafka cluster to this one.

    The worker's Kafka cluster is the target. Partitions of all topics are distributed round-robin among the tasks. The next run finds new
    topics and partitions."""

    class_name = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    aliases = ("MirrorSource", "MirrorSourceConnector")
    task_class: ClassVar[type[SourceTask]] = MirrorSourceTask
    config_def = SOURCE
    default_settings = RAW_CONVERTERS

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Steps: (1) list topics; (2) except in a preview, create missing topics and partitions in the target cluster, and omit those that
        it refuses; (3) distribute partitions."""
        if not self.config["enabled"]:
            return []
        config = task_config_def(SOURCE).parse(self.config)
        with open_clusters(config, self.allowed_paths) as (source, target):
            topics = self._topics(source, config)  # 1
            if not self.context.is_preview:  # 2
                topics = TopicSync(source, target, config, topics).run()
                if config["emit.offset-syncs.enabled"]:
                    holder = source if config["offset-syncs.topic.location"] == "source" else target
                    holder.ensure_compacted(offset_syncs_topic(config), config, "offset-syncs.topic.replication.factor")
        partitions = partitions_of(topics)  # 3
        count = min(max_tasks, len(partitions))
        return [
            {**self.config.originals, PARTITIONS: ",".join(map(str, partitions[task::count])), "task.index": str(task)}
            for task in range(count)
        ]

    def _topics(self, source: Cluster, config: Config) -> dict[str, int]:
        """The topics to mirror. The worker's internal topics are never mirrored or written to, and their settings are not changed. Topics
        whose names in the target cluster would be invalid are left out, with a note. Raises ConfigException if only heartbeats are left."""
        policy, refusal = ReplicationPolicy.of(config), self.refusal_of_topic
        topics = {topic: count for topic, count in mirrored_topics(source, config).items() if not refusal(topic)}
        reasons = {topic: reason for topic in topics if (reason := refusal(policy.remote_topic(topic)))}
        found = {topic: count for topic, count in topics.items() if topic not in reasons}
        if reasons:
            shown = "; ".join(f"{topic} ({reason.rstrip('.')})" for topic, reason in list(reasons.items())[:_MOST_NAMED])
            text = f"{len(reasons)} of {len(topics)} topics cannot be mirrored: {shown}. Name them in topics.exclude"
            if all(policy.is_heartbeats(topic) for topic in found):
                raise ConfigException.of("topics", ",".join(config["topics"])[:200], text)
            self.missing = f"{text}. All others are mirrored"
        elif not found:
            chosen = "topics and topics.exclude choose"
            self.missing = f"There is no topic in cluster {source.alias} that {chosen}: nothing is read until there is"
        return found

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return validate_settings(SOURCE, config, self.allowed_paths)

    def check(self, config: Mapping[str, str]) -> None:
        """Report if there are no topics to mirror. An unreachable cluster fails the run, not the check."""
        parsed = self.config_def.parse(config)
        if parsed["enabled"]:
            with suppress(ConnectException), open_clusters(parsed, self.allowed_paths) as (source, _):
                self._topics(source, parsed)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Only supported with read_committed. Otherwise, records of aborted transactions may be mirrored, even more than once."""
        is_committed = isolation_level(SOURCE.parse(config)) == "read_committed"
        return ExactlyOnceSupport.SUPPORTED if is_committed else ExactlyOnceSupport.UNSUPPORTED

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool:
        """Whether a partition has no offset yet or has records after its offset, or its topic was recreated. Sends three requests to the
        source cluster."""
        if not config["enabled"]:
            return False
        with open_clusters(config, self.allowed_paths) as (source, _):
            partitions = partitions_of(self._topics(source, config))
            ends = source.ends(partitions)
            ids = source.topic_ids(partition.topic for partition in partitions)
        known = {partition: offsets(source_partition(source.alias, partition)) for partition in partitions}
        if any(is_from_other_topic(known[partition], ids.get(partition.topic)) for partition in ends):
            return True
        return any((start := next_offset(known[partition])) is None or start != end for partition, end in ends.items())

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            check_offset(partition, offset)
        return True


def partitions_of(topics: Mapping[str, int]) -> list[TopicPartition]:
    """All partitions, in the order in which they are distributed."""
    return [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
