"""MirrorHeartbeat: writes one record per run. It shows in the target cluster, and in that cluster's mirrors, that mirroring works."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_connect.connectors.mirror_maker.client_config import validate_settings
from airflow_provider_connect.connectors.mirror_maker.cluster import open_clusters
from airflow_provider_connect.connectors.mirror_maker.names import HEARTBEATS
from airflow_provider_connect.connectors.mirror_maker.offsets import ONLY_OFFSET, check_constant_offset
from airflow_provider_connect.connectors.mirror_maker.settings import HEARTBEAT, RAW_CONVERTERS, task_config_def
from airflow_provider_connect.connectors.mirror_maker.wire import Heartbeat
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.schema import BYTES_SCHEMA
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigValue
from airflow_provider_connect.sdk.connector import OffsetReader, SourceConnector
from airflow_provider_connect.sdk.task import SourceTask


class MirrorHeartbeatTask(SourceTask):
    """Returns one record. The source partition has both aliases, the source offset is ``{"offset": 0}``."""

    class_name = "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"
    config_def = task_config_def(HEARTBEAT)

    def start(self, config: Config) -> None:
        self._aliases = config["source.cluster.alias"], config["target.cluster.alias"]
        self._is_over = False

    def poll(self) -> Batch | None:
        if self._is_over:
            return None
        self._is_over = True
        heartbeat = Heartbeat(*self._aliases, int(time.time() * 1000))
        return Batch(
            HEARTBEATS,
            pa.array([heartbeat.value()], pa.binary()),
            pa.array([heartbeat.key()], pa.binary()),
            BYTES_SCHEMA,
            BYTES_SCHEMA,
            timestamp=pa.array([heartbeat.timestamp], pa.int64()),
            kafka_partition=0,
            source_partition={"sourceClusterAlias": heartbeat.source, "targetClusterAlias": heartbeat.target},
            source_offset=ONLY_OFFSET,
        )


class MirrorHeartbeatConnector(SourceConnector):
    """Writes a record in each run, to show that the clusters are connected. Has one task."""

    class_name = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
    aliases = ("MirrorHeartbeat", "MirrorHeartbeatConnector")
    task_class: ClassVar[type[SourceTask]] = MirrorHeartbeatTask
    config_def = HEARTBEAT
    default_settings = RAW_CONVERTERS

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        config = task_config_def(HEARTBEAT).parse(self.config)
        if not (config["enabled"] and config["emit.heartbeats.enabled"]):
            return []
        if not self.context.is_preview:
            with open_clusters(config, self.allowed_paths) as (_, target):
                target.ensure_compacted(HEARTBEATS, config, "heartbeats.topic.replication.factor")
        return [self.config]

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return validate_settings(HEARTBEAT, config, self.allowed_paths)

    def output_topics(self, config: Mapping[str, str]) -> Sequence[str]:
        return [HEARTBEATS]

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool:
        return bool(config["enabled"] and config["emit.heartbeats.enabled"])

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            check_constant_offset(partition, offset, ("sourceClusterAlias", "targetClusterAlias"))
        return True
