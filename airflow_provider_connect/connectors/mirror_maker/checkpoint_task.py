"""The task of MirrorCheckpoint. Translates offsets of groups with the offset syncs, and writes them as checkpoints and, if configured, as
offsets of groups in the target cluster."""

from __future__ import annotations

import bisect
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Final

from airflow_provider_connect.connectors.mirror_maker.cluster import Cluster, client
from airflow_provider_connect.connectors.mirror_maker.names import ReplicationPolicy, name_filter, offset_syncs_topic
from airflow_provider_connect.connectors.mirror_maker.offsets import ONLY_OFFSET
from airflow_provider_connect.connectors.mirror_maker.settings import CHECKPOINT, GROUPS, task_config_def
from airflow_provider_connect.connectors.mirror_maker.wire import Checkpoint, OffsetSync
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import BYTES_SCHEMA
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.kafka_client.settings import ClientKind
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Type
from airflow_provider_connect.sdk.task import SourceTask

log = logging.getLogger(__name__)
READ_SECONDS: Final = 60.0
_Key = tuple[str, str, int]  # group, topic in the target cluster, partition


class OffsetTranslation:
    """The offset syncs of each partition: pairs of offsets in the source and target cluster, both increasing."""

    def __init__(self) -> None:
        self._syncs: dict[TopicPartition, list[OffsetSync]] = {}

    def add(self, sync: OffsetSync) -> None:
        """Add a sync. If an offset went back, for example because a topic was recreated, contradicting syncs are dropped."""
        known = self._syncs.setdefault(TopicPartition(sync.topic, sync.partition), [])
        while known and (known[-1].upstream >= sync.upstream or known[-1].downstream > sync.downstream):
            known.pop()
        known.append(sync)

    def downstream(self, partition: TopicPartition, upstream: int) -> int | None:
        """The target offset for a group at source offset ``upstream``. If a sync has exactly that offset, its target offset; otherwise, the
        offset one record after the last earlier sync. The group may read records twice, but does not miss records. None if no sync is that
        old."""
        known = self._syncs.get(partition, [])
        index = bisect.bisect_right(known, upstream, key=lambda sync: sync.upstream) - 1
        return None if index < 0 else known[index].downstream + (known[index].upstream != upstream)


class MirrorCheckpointTask(SourceTask):
    """One pass writes (1) new and advanced checkpoints, and (2) with ``sync.group.offsets.enabled``, the offsets of groups without members.
    The source partition is ``{"group", "topic", "partition"}``, the source offset is ``{"offset": 0}``."""

    class_name = "org.apache.kafka.connect.mirror.MirrorCheckpointTask"
    config_def = task_config_def(CHECKPOINT, ConfigKey(GROUPS, Type.LIST))

    def start(self, config: Config) -> None:
        self._config = config
        self._source = Cluster(config, "source", self.allowed_paths)
        self._target = Cluster(config, "target", self.allowed_paths)
        self._policy = ReplicationPolicy.of(config)
        self._is_mirrored = name_filter(config, "topics")
        self._checkpoints: dict[str, list[Checkpoint]] | None = None

    def poll(self) -> Sequence[Batch] | None:
        if self._checkpoints is None:
            checkpoints = self._translate()
            known = self._last_checkpoints()
            news = [one for of_group in checkpoints.values() for one in of_group if _is_newer(one, known.get(_key(one)))]
            self._checkpoints = checkpoints
            return [*map(self._checkpoint_batch, news)]  # 1
        if self._config["sync.group.offsets.enabled"] and not self.context.is_preview:
            for group, of_group in self._checkpoints.items():  # 2
                self._sync_group(group, of_group)
        return None

    def stop(self) -> None:
        self._source.close()
        self._target.close()

    def _translate(self) -> dict[str, list[Checkpoint]]:
        """The checkpoints of this task's groups, by group, for offsets that can be translated. Groups that the source cluster refuses are
        logged. If it refuses all groups, raises the exception of a refusal."""
        translation = OffsetTranslation()
        holder = self._source if self._config["offset-syncs.topic.location"] == "source" else self._target
        for key, value in self._records(holder, offset_syncs_topic(self._config)):
            try:
                translation.add(OffsetSync.of(key, value))
            except DataException as error:
                log.warning("A record of the offset-syncs topic is skipped: %s", error)
        found: dict[str, list[Checkpoint]] = {}
        refused: dict[str, ConnectException] = {}
        for group in self._config[GROUPS]:
            try:
                found[group] = [*self._group_checkpoints(group, translation)]
            except ConnectException as error:
                if error.retriable:
                    raise
                refused[group] = error
        if refused and not found:
            raise next(iter(refused.values()))
        for group, reason in refused.items():
            log.warning("The offsets of group %s are not translated: %s", group, reason)
        return found

    def _group_checkpoints(self, group: str, translation: OffsetTranslation) -> Iterator[Checkpoint]:
        for partition, (offset, metadata) in self._source.group_offsets(group).items():
            downstream = translation.downstream(partition, offset) if self._is_mirrored(partition.topic) else None
            if downstream is not None:
                topic = self._policy.remote_checkpoint_topic(partition.topic)
                yield Checkpoint(group, topic, partition.partition, offset, downstream, metadata)

    def _last_checkpoints(self) -> dict[_Key, Checkpoint]:
        """The last checkpoint of each group and partition."""
        found = {}
        for key, value in self._records(self._target, self._policy.checkpoints_topic()):
            try:
                checkpoint = Checkpoint.of(key, value)
            except DataException as error:
                log.warning("A record of the checkpoints topic is skipped: %s", error)
                continue
            found[_key(checkpoint)] = checkpoint
        return found

    def _records(self, cluster: Cluster, topic: str) -> Iterator[tuple[bytes, bytes]]:
        """The keys and values of a compacted topic with one partition, without tombstones. Empty if the topic does not exist."""
        partition = TopicPartition(topic, 0)
        ends = cluster.ends([partition])
        if not ends.get(partition):
            return
        reader = self.context.read_ranges(cluster.client_config(ClientKind.CONSUMER), {partition: (0, ends[partition])})
        deadline = time.monotonic() + READ_SECONDS
        try:
            while not reader.exhausted:
                for batch in reader.read(1.0):
                    keys = batch.key.to_pylist() if batch.key is not None else []
                    values = batch.value.to_pylist() if batch.value is not None else []
                    yield from ((key, value) for key, value in zip(keys, values, strict=False) if key is not None and value is not None)
                if time.monotonic() > deadline:
                    raise RetriableException(f"Topic {topic} of cluster {cluster.alias} could not be read within {READ_SECONDS:g} s")
        finally:
            reader.close()

    def _checkpoint_batch(self, checkpoint: Checkpoint) -> Batch:
        return Batch(
            self._policy.checkpoints_topic(),
            pa.array([checkpoint.value()], pa.binary()),
            pa.array([checkpoint.key()], pa.binary()),
            BYTES_SCHEMA,
            BYTES_SCHEMA,
            timestamp=pa.array([int(time.time() * 1000)], pa.int64()),
            kafka_partition=0,
            source_partition={"group": checkpoint.group, "topic": checkpoint.topic, "partition": checkpoint.partition},
            source_offset=ONLY_OFFSET,
        )

    def _sync_group(self, group: str, checkpoints: Sequence[Checkpoint]) -> None:
        """Write a group's offsets that are ahead of the target cluster's offsets. Does nothing if the group has members in the target
        cluster, because the members then own the offsets. Failures are logged, and the next run retries."""
        try:
            if self._target.has_members(group):
                return
            there = self._target.group_offsets(group)
            ahead = [one for one in checkpoints if there.get(TopicPartition(one.topic, one.partition), (-1, ""))[0] < one.downstream]
            if ahead:
                self._target.set_group_offsets(
                    group, [client.TopicPartition(one.topic, one.partition, one.downstream, one.metadata) for one in ahead]
                )
        except ConnectException as error:
            log.warning("The offsets of group %s could not be synced: %s", group, error)


def _key(checkpoint: Checkpoint) -> _Key:
    return checkpoint.group, checkpoint.topic, checkpoint.partition


def _is_newer(checkpoint: Checkpoint, last: Checkpoint | None) -> bool:
    """Whether the group's target offset has advanced since ``last``, or the group has gone back in the source cluster. In all other cases,
    the target offset does not go back."""
    return last is None or checkpoint.upstream < last.upstream or checkpoint.downstream > last.downstream
