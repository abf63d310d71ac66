"""The batch log of what each task delivered in each run, on a topic of ours; from it lost group offsets are restored."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from airflow_provider_connect.config.client_settings import ClientKind, internal_client_config
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.model.batches import ALTERING, BatchRecord, BatchReset, ConnectorType
from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.records import Unreadable
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.stores.log_consumer import LogConsumer, LogRecord
from airflow_provider_connect.stores.skipped import SkippedRecords
from airflow_provider_connect.stores.topic_log import TopicLog
from airflow_provider_connect.wire import batch_topic

BY_KEY = -1
"""The partition of a record whose place its producer is to choose by the key."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Records and bytes of all runs of a task that were seen, each counted once however often its run wrote its entry."""

    type: ConnectorType
    records: int
    bytes: int

    @classmethod
    def after(cls, entry: BatchRecord, before: BatchRecord | None, known: Mapping[ConnectorTaskId, "Delivered"]) -> "Delivered":
        """The sum with a new entry, which holds all of its run so far."""
        was = known.get(entry.task, cls(entry.type, 0, 0))
        is_same_run = before is not None and (before.run, before.claim) == (entry.run, entry.claim)
        counted = (before.records, before.bytes) if before is not None and is_same_run else (0, 0)
        return cls(entry.type, was.records + entry.records - counted[0], was.bytes + entry.bytes - counted[1])


class BatchLog:
    """See the module. ``consumer`` may be shared with other stores. Not thread-safe."""

    def __init__(self, settings: WorkerSettings, *, consumer: LogConsumer | None = None, timeout_seconds: float = 30.0) -> None:
        self._topic = settings.batch_topic
        self._config = internal_client_config(settings, ClientKind.CONSUMER, "batches")
        self._timeout_seconds = timeout_seconds
        self._log = TopicLog(self._topic, consumer) if consumer is not None else None
        self._entries: dict[ConnectorTaskId, BatchRecord] = {}
        self._delivered: dict[ConnectorTaskId, Delivered] = {}
        self.skipped = SkippedRecords(self._topic)

    def entries(self, connector: str) -> list[BatchRecord]:
        """The last entry of each of the connector's tasks, by task number. Raises TopicMissingException, StoreTimeoutException.

        Waits while an open transaction holds some of them; the first call reads the whole topic, later ones what is new.
        """
        self._take(self._opened().read_settled(lambda key: _is_of(connector, key), self._config, self._timeout_seconds))
        return [self._entries[task] for task in sorted(self._entries) if task.connector == connector]

    def delivered(self) -> dict[ConnectorTaskId, Delivered]:
        """What each task has delivered since this store first looked, with the last run before that. Raises as ``entries`` does, and waits
        for no open transaction."""
        self._take(self._opened().read_to_end(self._timeout_seconds))
        return dict(self._delivered)

    def _opened(self) -> TopicLog:
        if self._log is None:
            self._log = TopicLog(self._topic, self._config)
        return self._log

    def _take(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            decoded = batch_topic.decode(record.key, record.value, record.headers, offset=record.offset)
            match decoded:
                case BatchRecord():
                    self._delivered[decoded.task] = Delivered.after(decoded, self._entries.get(decoded.task), self._delivered)
                    self._entries[decoded.task] = replace(decoded, timestamp=record.timestamp)
                case BatchReset():
                    self._entries.pop(decoded.task, None)
                case Unreadable():
                    self.skipped.note(decoded.reason, decoded, partition=record.partition, offset=record.offset)

    def last(self, connector: str) -> dict[TopicPartition, int]:
        """The positions that the batch log knows; a partition that moved between tasks is known by its newest claim, then the furthest."""
        return positions_of(self.entries(connector))

    def lost(self, connector: str, retention_seconds: float | None, now_seconds: float) -> dict[TopicPartition, int]:
        """The positions to restore where the group has no offsets; see ``lost_of``."""
        return lost_of(self.entries(connector), retention_seconds, now_seconds)

    def unfinished(self, connector: str) -> set[TopicPartition]:
        """Those of its positions that somebody was about to set over REST when the process died."""
        return unfinished_of(self.entries(connector))

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
    ) -> tuple[int, bytes, bytes | None]:
        """Partition, key and value of a task's entry, for its transaction. ``ranges`` maps topic and partition to [first, next]."""
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
            )
        )
        return _place(settings), wire.key, wire.value

    @staticmethod
    def reset(settings: WorkerSettings, connector: str, task: int) -> tuple[int, bytes, None]:
        """Partition, key and value of the tombstone that says: what the batch log knew of this task's positions no longer holds."""
        return _place(settings), batch_topic.encode(BatchReset(ConnectorTaskId(connector, task))).key, None

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log = None
        self._entries, self._delivered = {}, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def positions_of(entries: Iterable[BatchRecord]) -> dict[TopicPartition, int]:
    """The positions that the entries of a connector's tasks tell."""
    return {partition: position for partition, (_, position, _, _) in _newest(entries).items()}


def lost_of(entries: Iterable[BatchRecord], retention_seconds: float | None, now_seconds: float) -> dict[TopicPartition, int]:
    """The positions of a group that has lost its offsets: they have expired, since nobody was a member, or we died as we changed them.

    Offsets committed less than ``retention_seconds`` ago cannot have expired: somebody has deleted them, to begin anew. None: nobody knows
    how long the brokers keep them.
    """
    oldest = None if retention_seconds is None else (now_seconds - retention_seconds) * 1000
    newest = _newest(entries).items()
    return {at: position for at, (_, position, run, timestamp) in newest if run == ALTERING or oldest is None or timestamp <= oldest}


def unfinished_of(entries: Iterable[BatchRecord]) -> set[TopicPartition]:
    """The partitions whose position stands in the entry of a change that was not finished."""
    return {partition for partition, (_, _, run, _) in _newest(entries).items() if run == ALTERING}


def _newest(entries: Iterable[BatchRecord]) -> dict[TopicPartition, tuple[Claim, int, str, int]]:
    """For each partition the newest claim that tells its position, that position, the furthest of several, the run, and when."""
    known: dict[TopicPartition, tuple[Claim, int, str, int]] = {}
    for entry in entries:
        for topic, positions in entry.next.items():
            for partition, position in positions.items():
                at, found = TopicPartition(topic, partition), (entry.claim, position, entry.run, entry.timestamp)
                known[at] = max(known.get(at, found), found)
    return known


def _place(settings: WorkerSettings) -> int:
    return 0 if settings.internal_topic(settings.batch_topic).partitions == 1 else BY_KEY


def _is_of(connector: str, key: bytes | None) -> bool:
    decoded = batch_topic.decode(key, None)
    return isinstance(decoded, BatchReset) and decoded.task.connector == connector
