"""The task of MirrorSource. Mirrors partitions up to their ends at the start of the run, and writes offset syncs after each commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from airflow_provider_connect.connectors.mirror_maker.cluster import MAX_MS, Cluster, admin
from airflow_provider_connect.connectors.mirror_maker.names import ReplicationPolicy, offset_syncs_topic
from airflow_provider_connect.connectors.mirror_maker.offsets import (
    is_from_other_topic,
    next_offset,
    source_offset,
    source_partition,
)
from airflow_provider_connect.connectors.mirror_maker.settings import PARTITIONS, SOURCE, task_config_def
from airflow_provider_connect.connectors.mirror_maker.wire import OffsetSync
from airflow_provider_connect.data.records import Distance, TopicPartition, describe_outside
from airflow_provider_connect.errors import DataException, RetriableException
from airflow_provider_connect.kafka_client.settings import ClientKind
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Type
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.task import RangeReader, SourceTask

log = logging.getLogger(__name__)
READ_TIMEOUT_SECONDS: Final = 60.0


class MirrorSourceTask(SourceTask):
    """Keys, values, headers, timestamps and the partition of a record do not change. A run reads to the ends that the partitions had at its
    start. The source partition is ``{"cluster", "partition", "topic"}``. The source offset is ``{"offset": of the last record,
    "topicId"}``. After the last record of a run, it includes transaction markers."""

    class_name = "org.apache.kafka.connect.mirror.MirrorSourceTask"
    config_def = task_config_def(SOURCE, ConfigKey(PARTITIONS, Type.LIST))

    def start(self, config: Config) -> None:
        self._reader: RangeReader | None = None
        self._waiting: list[Batch | DataException] = []
        self._source = Cluster(config, "source", self.allowed_paths)
        self._target = Cluster(config, "target", self.allowed_paths)
        self._policy = ReplicationPolicy.of(config)
        self._poll_seconds = min(max(config["consumer.poll.timeout.ms"], 0), MAX_MS) / 1000
        partitions = [_parse_partition(text) for text in config[PARTITIONS]]
        self._ids = self._source.topic_ids(partition.topic for partition in partitions)
        ranges = self._ranges(partitions)
        self._returned = {partition: start for partition, (start, _) in ranges.items()}  # the next offset of each partition
        self._ends = {partition: end for partition, (_, end) in ranges.items()}
        self._unseen = {partition for partition in ranges if not self._has_position(partition)}
        self._syncs = OffsetSyncs(self._source, self._target, config) if config["emit.offset-syncs.enabled"] else None
        if self._syncs is not None:
            self._warn_lost(self._syncs.begin(self._returned))
        self._last_read = time.monotonic()
        consumer = self._source.client_config(ClientKind.CONSUMER)
        self._servers = str(consumer.get("bootstrap.servers", ""))
        self._reader = self.context.read_ranges(consumer, ranges)

    def poll(self) -> Sequence[Batch] | None:
        assert self._reader is not None
        if not self._waiting:
            self._waiting += [piece for batch in self._reader.read(self._poll_seconds) for piece in _split_at_unreadable(batch)]
        if self._waiting:
            self._last_read = time.monotonic()
            return self._next()
        if self._reader.exhausted:
            return self._positions() or None
        if time.monotonic() - self._last_read > READ_TIMEOUT_SECONDS:
            self._last_read = time.monotonic()
            raise RetriableException(
                f"The source cluster {self._source.alias} has sent nothing for {READ_TIMEOUT_SECONDS:g} s, although it has more records"
            )
        return []

    def _next(self) -> list[Batch]:
        """The waiting batches up to a record that cannot be mirrored. After these are returned, raises DataException for that record."""
        count = next((index for index, piece in enumerate(self._waiting) if isinstance(piece, DataException)), len(self._waiting))
        taken, self._waiting = self._waiting[: max(1, count)], self._waiting[max(1, count) :]
        if isinstance(taken[0], DataException):
            raise taken[0]
        return [self._mirror(batch) for batch in taken if isinstance(batch, Batch)]

    def commit(self) -> None:
        if self._syncs is not None:
            self._syncs.write(self._returned)

    def distance(self) -> Distance | None:
        return Distance(sum(max(end - self._returned[at], 0) for at, end in self._ends.items()))

    def datasets(self) -> Iterable[Dataset]:
        """The source topics of this task's partitions."""
        return [Dataset.topic(self._servers, topic) for topic in sorted({partition.topic for partition in self._returned})]

    def stop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        self._source.close()
        self._target.close()

    def _ranges(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The start and end offsets. The consumer's ``auto.offset.reset`` applies to a partition without a committed offset. It also
        applies to an offset that is outside the source's log, because records have expired or the topic was recreated."""
        ends = self._source.ends(partitions)
        highs = self._source.offsets(partitions, admin.OffsetSpec.latest, read_committed=False)
        firsts = self._source.offsets(partitions, admin.OffsetSpec.earliest)
        is_latest = self._source.client_config(ClientKind.CONSUMER)["auto.offset.reset"] == "latest"
        ranges = {}
        for partition in partitions:
            if partition not in ends or partition not in firsts:
                log.warning("Partition %s no longer exists", partition)
                continue
            first, high = firsts[partition], highs.get(partition, ends[partition])
            offset, topic_id = self.context.offset(self._position_key(partition)), self._ids.get(partition.topic)
            start = next_offset(offset)
            if is_from_other_topic(offset, topic_id):
                log.warning("Topic %s was recreated: partition %d is mirrored from its first record", *partition)
                start = first
            if start is not None and not first <= start <= high:
                self.context.note_lost(max(first - start, 0))
                removed, start = describe_outside(partition, start, first, high), ends[partition] if is_latest else first
                log.warning("%s. auto.offset.reset decides: the mirror goes on at %d", removed, start)
            if start is None:
                start = ends[partition] if is_latest else first
            ranges[partition] = (start, max(start, ends[partition]))
        return ranges

    def _warn_lost(self, begins: Iterable[OffsetSync]) -> None:
        """Warn about target partitions that have lost their mirrored records. They will only get later records."""
        for sync in begins:
            if sync.upstream > 0 and sync.downstream == 0 and self._has_position(TopicPartition(sync.topic, sync.partition)):
                log.warning(
                    "Partition %d of topic %s is empty, although %s was mirrored up to offset %d: it was recreated. "
                    "Its earlier records are mirrored again only if the connector's offsets are reset",
                    *(sync.partition, self._policy.remote_topic(sync.topic), sync.topic, sync.upstream),
                )

    def _mirror(self, batch: Batch) -> Batch:
        partition = batch.topic_partition
        assert batch.next_offset is not None
        self._returned[partition] = batch.next_offset
        return Batch(
            self._policy.remote_topic(batch.topic),
            batch.value,
            batch.key,
            batch.value_schema,
            batch.key_schema,
            batch.headers,
            batch.timestamp,
            partition.partition,
            self._position_key(partition),
            source_offset(batch.next_offset - 1, self._ids.get(partition.topic)),
        )

    def _positions(self) -> list[Batch]:
        """Empty batches with the positions of partitions that end with transaction markers, or have no offset so far."""
        assert self._reader is not None
        ended = self._reader.positions
        moved = [partition for partition, offset in ended.items() if offset > self._returned[partition] or partition in self._unseen]
        self._returned |= {partition: ended[partition] for partition in moved}
        self._unseen.clear()
        remote = self._policy.remote_topic
        offsets = {p: source_offset(ended[p] - 1, self._ids.get(p.topic)) for p in moved}
        return [Batch(remote(p.topic), source_partition=self._position_key(p), source_offset=offset) for p, offset in offsets.items()]

    def _has_position(self, partition: TopicPartition) -> bool:
        offset = self.context.offset(self._position_key(partition))
        return offset is not None and not is_from_other_topic(offset, self._ids.get(partition.topic))

    def _position_key(self, partition: TopicPartition) -> Mapping[str, object]:
        return source_partition(self._source.alias, partition)


class OffsetSyncs:
    """Writes an offset sync for each partition with new mirrored records. In the target, exactly the records before ``upstream`` in the
    source are before ``downstream``."""

    def __init__(self, source: Cluster, target: Cluster, config: Config) -> None:
        self._target = target
        self._holder = source if config["offset-syncs.topic.location"] == "source" else target
        self._topic = offset_syncs_topic(config)
        self._policy = ReplicationPolicy.of(config)
        self._first: dict[TopicPartition, OffsetSync] = {}
        self._written: dict[TopicPartition, int] = {}

    def begin(self, positions: Mapping[TopicPartition, int]) -> Iterable[OffsetSync]:
        """Keep syncs of the start offsets, so that a group's offset is translated exactly if it equals a start offset. Returns these
        syncs."""
        self._written = dict(positions)
        self._first = self._syncs(positions)
        return [*self._first.values()]

    def write(self, positions: Mapping[TopicPartition, int]) -> None:
        """Write syncs. Called after each commit, with the next offset of each partition."""
        moved = {partition: offset for partition, offset in positions.items() if offset != self._written[partition]}
        if not moved:
            return
        firsts = [self._first.pop(partition) for partition in moved if partition in self._first]
        syncs = [*firsts, *self._syncs(moved).values()]
        self._holder.produce(self._topic, [(sync.key(), sync.value()) for sync in syncs])
        self._written |= moved

    def _syncs(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetSync]:
        """Syncs of these offsets with the ends of the mirrored partitions. Missing partitions end at 0. The ends are high watermarks,
        because the marker of a committed transaction may not be written yet."""
        remote = {p: TopicPartition(self._policy.remote_topic(p.topic), p.partition) for p in positions}
        ends = self._target.offsets([*remote.values()], admin.OffsetSpec.latest, read_committed=False)
        return {p: OffsetSync(p.topic, p.partition, offset, ends.get(remote[p], 0)) for p, offset in positions.items()}


def _split_at_unreadable(batch: Batch) -> Iterator[Batch | DataException]:
    """The batch, split at records whose headers cannot be read, because a record must not be mirrored without its headers."""
    if batch.headers is None or not batch.headers.null_count:
        yield batch
        return
    start = 0
    unreadable = [index for index, missing in enumerate(batch.headers.is_null().to_pylist()) if missing]
    for index in unreadable:
        if index > start:
            yield batch.slice(start, index - start)
        offset = batch.kafka_offset_at(index)
        yield DataException(
            f"The headers of offset {offset} of {batch.topic_partition} cannot be read: the name of one is not UTF-8, or they are too many"
        )
        start = index + 1
    if start < batch.num_records:
        yield batch.slice(start)


def _parse_partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))
