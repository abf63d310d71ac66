"""MirrorCheckpoint: translates consumer group offsets from the source to the target cluster, with MirrorMaker 2's topics and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_connect.connectors.mirror_maker.checkpoint_task import MirrorCheckpointTask
from airflow_provider_connect.connectors.mirror_maker.client_config import validate_settings
from airflow_provider_connect.connectors.mirror_maker.cluster import open_clusters
from airflow_provider_connect.connectors.mirror_maker.names import ReplicationPolicy, name_filter
from airflow_provider_connect.connectors.mirror_maker.offsets import check_constant_offset
from airflow_provider_connect.connectors.mirror_maker.settings import CHECKPOINT, GROUPS, RAW_CONVERTERS, task_config_def
from airflow_provider_connect.sdk.config_def import ConfigValue
from airflow_provider_connect.sdk.connector import SourceConnector
from airflow_provider_connect.sdk.task import SourceTask


class MirrorCheckpointConnector(SourceConnector):
    """Copies the offsets of consumer groups from another Kafka cluster to this one.

    Groups are distributed round-robin among the tasks. A run checks each group once."""

    class_name = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
    aliases = ("MirrorCheckpoint", "MirrorCheckpointConnector")
    task_class: ClassVar[type[SourceTask]] = MirrorCheckpointTask
    config_def = CHECKPOINT
    default_settings = RAW_CONVERTERS

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        config = task_config_def(CHECKPOINT).parse(self.config)
        if not (config["enabled"] and config["emit.checkpoints.enabled"] and config["emit.offset-syncs.enabled"]):
            return []
        is_chosen = name_filter(config, "groups")
        # a comma would end the group's name in the task's config, which MirrorMaker also reads
        with open_clusters(config, self.allowed_paths) as (source, target):
            groups = sorted(group for group in source.groups() if "," not in group and is_chosen(group))
            if groups and not self.context.is_preview:
                target.ensure_compacted(ReplicationPolicy.of(config).checkpoints_topic(), config, "checkpoints.topic.replication.factor")
        count = min(max_tasks, len(groups))
        return [{**self.config.originals, GROUPS: ",".join(groups[task::count]), "task.index": str(task)} for task in range(count)]

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return validate_settings(CHECKPOINT, config, self.allowed_paths)

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            check_constant_offset(partition, offset, ("group", "topic", "partition"))
        return True
