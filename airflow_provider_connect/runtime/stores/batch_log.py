"""The batch log: a topic of ours with the deliveries of each task in each run. It restores lost group offsets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from airflow_provider_connect.data.records import Distance, TopicPartition, may_be_same_topic
from airflow_provider_connect.runtime.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.batches import ALTERING, MOST_DATASETS, BatchRecord, BatchReset, ConnectorType, Stay
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.decoders import decode_batch
from airflow_provider_connect.runtime.stores.log_consumer import Closing
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader
from airflow_provider_connect.runtime.wire import batch_topic

TopicIds = Mapping[str, str]
"""The known topic ids (KIP-516), by topic name."""
NO_IDS: TopicIds = MappingProxyType({})
BY_KEY = -1
"""The partition number with which the producer chooses a partition by the key."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The sums of records, bytes and failed records over the runs of a task. A run counts once, even if it wrote its entry several times.
    ``timestamp`` is the time of the newest entry with records, in ms since 1970. -1: no entry has records."""

    type: ConnectorType
    records: int
    bytes: int
    timestamp: int = -1
    failed: int = 0

    @classmethod
    def after(cls, entry: BatchRecord, before: BatchRecord | None, known: Mapping[ConnectorTaskId, "Delivered"]) -> "Delivered":
        """The sums after a new entry, which holds the totals of its run so far."""
        was = known.get(entry.task, cls(entry.type, 0, 0))
        is_same_run = before is not None and (before.run, before.claim) == (entry.run, entry.claim)
        records, size, failed = (before.records, before.bytes, before.failed) if before is not None and is_same_run else (0, 0, 0)
        timestamp = entry.timestamp if entry.records > records else was.timestamp
        sums = was.records + entry.records - records, was.bytes + entry.bytes - size
        return cls(entry.type, *sums, timestamp, was.failed + entry.failed - failed)


class BatchLog(Closing):
    """See the module. Nothing is opened before the first use. Not thread-safe."""

    def __init__(self, settings: WorkerSettings) -> None:
        config = internal_client_config(settings, ClientKind.CONSUMER, "batches")
        self._reader = TopicReader[BatchRecord | BatchReset | Unreadable](settings.batch_topic, config, decode_batch)
        self._entries: dict[ConnectorTaskId, BatchRecord] = {}
        self._delivered: dict[ConnectorTaskId, Delivered] = {}
        self.skipped = self._reader.skipped

    def entries(self, connector: str) -> list[BatchRecord]:
        """The last entry of each of the connector's tasks, by task number. Raises TopicMissingException, StoreTimeoutException.

        Waits while an open transaction hides some of them. The first call reads the whole topic, later calls read new records.
        """
        self._reader.read(self._apply, forget=self._forget, wait_for=partial(_is_of, connector))
        return [self._entries[task] for task in sorted(self._entries) if task.connector == connector]

    def delivered(self) -> dict[ConnectorTaskId, Delivered]:
        """The deliveries of each task since the first call on this object, and of the last run before that call. Raises as ``entries``, but
        waits for no open transaction."""
        self._reader.read(self._apply, forget=self._forget)
        return dict(self._delivered)

    def last_entries(self) -> dict[ConnectorTaskId, BatchRecord]:
        """The last entry of each task, as of the last call of ``delivered`` or ``entries``."""
        return dict(self._entries)

    def sink_positions(self) -> dict[str, dict[TopicPartition, int]]:
        """The positions of each sink by connector, as of the last call of ``delivered`` or ``entries``."""
        entries: dict[str, list[BatchRecord]] = {}
        for task, entry in self._entries.items():
            if entry.type is ConnectorType.SINK:
                entries.setdefault(task.connector, []).append(entry)
        return {connector: newest_positions(found) for connector, found in entries.items()}

    def _apply(self, entry: BatchRecord | BatchReset | Unreadable) -> str:
        match entry:
            case BatchRecord():
                self._delivered[entry.task] = Delivered.after(entry, self._entries.get(entry.task), self._delivered)
                self._entries[entry.task] = entry
            case BatchReset():
                self._entries.pop(entry.task, None)
            case Unreadable():
                return entry.reason
        return ""

    def last(self, connector: str, topic_ids: TopicIds = NO_IDS) -> dict[TopicPartition, int]:
        """The positions in the connector's entries. If several entries have a partition, the largest position of the newest claim applies.
        Positions in topics that have another id now are left out."""
        return newest_positions(self.entries(connector), topic_ids)

    def lost(
        self, connector: str, retention_seconds: float | None, now_seconds: float, topic_ids: TopicIds = NO_IDS
    ) -> dict[TopicPartition, int]:
        """The positions to restore if the group has no offsets. See ``lost_positions``."""
        return lost_positions(self.entries(connector), retention_seconds, now_seconds, topic_ids)

    def of_destination(self, connector: str, destination: str, topic_ids: TopicIds = NO_IDS) -> set[TopicPartition]:
        """The partitions whose last position this destination has also committed."""
        return partitions_committed_by(self.entries(connector), destination, topic_ids)

    def unfinished(self, connector: str) -> set[TopicPartition]:
        """The partitions whose position a REST request was changing when its process died."""
        return unfinished_partitions(self.entries(connector))

    @staticmethod
    def record(
        settings: WorkerSettings,
        *,
        connector: str,
        task: int,
        run: str,
        claim: Claim,
        is_source: bool,
        records: int = 0,
        size: int = 0,
        seconds: float = 0.0,
        cpu_seconds: float = 0.0,
        ranges: Mapping[str, Mapping[str, list[int]]],
        positions: Mapping[str, Mapping[str, int]],
        topic_ids: TopicIds = NO_IDS,
        distance: Distance | None = None,
        failed: int = 0,
        error: str = "",
        destination: str = "",
        stay: Stay | None = None,
        datasets: Sequence[tuple[str, str]] = (),
    ) -> tuple[int, bytes, bytes | None]:
        """Partition, key and value of a task's entry, for the task's transaction. ``ranges`` maps topic and partition to [first, next]."""
        wire = batch_topic.encode(
            BatchRecord(
                ConnectorTaskId(connector, task),
                run,
                claim,
                ConnectorType.SOURCE if is_source else ConnectorType.SINK,
                records,
                size,
                seconds,
                cpu_seconds,
                {topic: {int(number): (span[0], span[1]) for number, span in spans.items()} for topic, spans in ranges.items()},
                {topic: {int(number): position for number, position in known.items()} for topic, known in positions.items()},
                distance,
                {topic: known for topic, known in topic_ids.items() if is_source or topic in positions},
                failed,
                error,
                destination,
                stay,
                datasets[:MOST_DATASETS],
            )
        )
        return _partition(settings), wire.key, wire.value

    @staticmethod
    def reset(settings: WorkerSettings, connector: str, task: int) -> tuple[int, bytes, None]:
        """Partition, key and value of the tombstone that invalidates this task's positions."""
        return _partition(settings), batch_topic.encode(BatchReset(ConnectorTaskId(connector, task))).key, None

    def close(self) -> None:
        self._reader.close()
        self._forget()

    def _forget(self) -> None:
        self._entries, self._delivered = {}, {}


def newest_positions(entries: Iterable[BatchRecord], topic_ids: TopicIds = NO_IDS) -> dict[TopicPartition, int]:
    """The positions in the entries of a connector's tasks. Positions in topics that have another id now are left out."""
    return {partition: position for partition, (_, position, _, _) in _newest(entries, topic_ids).items()}


def lost_positions(
    entries: Iterable[BatchRecord], retention_seconds: float | None, now_seconds: float, topic_ids: TopicIds = NO_IDS
) -> dict[TopicPartition, int]:
    """The positions to restore for a group that lost its offsets. Either the offsets expired in a group without members, or a process died
    while changing them.

    Positions in a topic that has another id now are left out. Offsets that were committed less than ``retention_seconds`` ago cannot have
    expired: a user has deleted them. ``retention_seconds`` None: the retention is unknown.
    """
    oldest = None if retention_seconds is None else (now_seconds - retention_seconds) * 1000
    newest = _newest(entries, topic_ids).items()
    return {at: position for at, (_, position, run, timestamp) in newest if run == ALTERING or oldest is None or timestamp <= oldest}


def unfinished_partitions(entries: Iterable[BatchRecord]) -> set[TopicPartition]:
    """The partitions whose position is in the entry of an unfinished change."""
    return {partition for partition, (_, _, run, _) in _newest(entries).items() if run == ALTERING}


def partitions_committed_by(entries: Sequence[BatchRecord], destination: str, topic_ids: TopicIds = NO_IDS) -> set[TopicPartition]:
    """The partitions whose newest position was also committed by the exactly-once destination ``destination``."""
    here = _newest((entry for entry in entries if entry.destination == destination), topic_ids)
    return {partition for partition, found in _newest(entries, topic_ids).items() if here.get(partition) == found}


def recreated_offsets_topic(entries: Iterable[BatchRecord], topic_ids: TopicIds) -> str | None:
    """The topic to which a source has committed offsets, if a topic of this name has another id now. ``topic_ids`` are the current ids."""
    sources = (entry.topic_ids for entry in entries if entry.type is ConnectorType.SOURCE)
    changed = (topic for ids in sources for topic, known in ids.items() if not may_be_same_topic(known, topic_ids.get(topic, "")))
    return next(changed, None)


def _newest(entries: Iterable[BatchRecord], topic_ids: TopicIds = NO_IDS) -> dict[TopicPartition, tuple[Claim, int, str, int]]:
    """By partition: the newest claim with a position in the partition, the claim's largest position, the run, and the timestamp."""
    known: dict[TopicPartition, tuple[Claim, int, str, int]] = {}
    for entry in entries:
        for topic, positions in entry.next.items():
            if not may_be_same_topic(entry.topic_ids.get(topic, ""), topic_ids.get(topic, "")):
                continue
            for partition, position in positions.items():
                at, found = TopicPartition(topic, partition), (entry.claim, position, entry.run, entry.timestamp)
                known[at] = max(known.get(at, found), found)
    return known


def _partition(settings: WorkerSettings) -> int:
    return 0 if settings.internal_topic(settings.batch_topic).partitions == 1 else BY_KEY


def _is_of(connector: str, key: bytes | None) -> bool:
    decoded = batch_topic.decode(key, None)
    return isinstance(decoded, BatchReset) and decoded.task.connector == connector
