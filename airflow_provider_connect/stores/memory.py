"""The stores without Kafka: same verbs, same rules, nothing kept. For unit tests, and for a worker that persists no configs."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self

from airflow_provider_connect.errors import ConflictException
from airflow_provider_connect.model.batches import BatchRecord
from airflow_provider_connect.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.offsets import OffsetRecord
from airflow_provider_connect.model.records import ConfigRecord, Unreadable
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.model.status import StatusRecord, StatusState
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.stores.batch_log import Delivered, lost_of, positions_of, unfinished_of
from airflow_provider_connect.stores.config_changes import ConfigChanges, Decide
from airflow_provider_connect.stores.config_follower import Change, ConfigFollower, gravest_change
from airflow_provider_connect.stores.log_consumer import CommittedOffset
from airflow_provider_connect.stores.offset_store import Offset, Partition, SourceOffsets
from airflow_provider_connect.stores.status_verbs import StatusVerbs
from airflow_provider_connect.wire import config_topic, offset_topic, status_topic
from airflow_provider_connect.wire.record import WireRecord

TOPIC_ID = "memory"


class MemoryConfigStore(ConfigChanges):
    """A ConfigStore; what it writes goes through the topic's bytes all the same."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._fold = ConfigLog(TOPIC_ID)
        self.records: list[ConfigRecord | Unreadable] = []

    def read(self, timeout_seconds: float | None = None) -> ClusterConfigState:
        with self._lock:
            return self._fold.state.copy()

    def topic_id(self) -> str:
        return TOPIC_ID

    def change(self, decide: Decide) -> list[int]:
        with self._lock:
            return [self._append(record) for record in decide(self._fold.state.copy())]

    def _append(self, record: ConfigRecord) -> int:
        wire = config_topic.encode(record)
        decoded = config_topic.decode(wire.key, wire.value, wire.headers, offset=len(self.records))
        self.records.append(decoded)
        self._fold.apply(decoded)
        return len(self.records) - 1

    def follow(self, connector: str, claim: Claim) -> ConfigFollower:
        return MemoryConfigFollower(self.records, connector, claim)

    def close(self) -> None:
        """Nothing is open."""


class MemoryConfigFollower:
    """A ConfigFollower of a MemoryConfigStore."""

    def __init__(self, records: Sequence[ConfigRecord | Unreadable], connector: str, claim: Claim) -> None:
        self._records = records
        self._connector = connector
        self._claim = claim
        self._next = claim.offset + 1

    def poll(self, timeout_seconds: float = 0.0) -> Change | None:
        """Never waits: what was written is seen at once."""
        return gravest_change(self.new(), self._connector, self._claim)

    def new(self) -> list[ConfigRecord | Unreadable]:
        """The records since the last call."""
        new = list(self._records[self._next :])
        self._next += len(new)
        return new

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryOffsetStore:
    """An OffsetStore that is also written to: ``put`` stands for a task's committed transaction."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes | None] = {}

    def put(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> None:
        for partition, offset in offsets:
            wire = offset_topic.encode(connector, partition, offset)
            self._values[wire.key] = wire.value

    def read(self, connector: str) -> SourceOffsets:
        found = (offset_topic.decode(key, value) for key, value in self._values.items())
        records = [record for record in found if isinstance(record, OffsetRecord)]
        return SourceOffsets(
            connector, {record.key: record for record in records if record.connector == connector and record.offset is not None}
        )

    def close(self) -> None:
        """Nothing is open."""


class MemoryStatusStore(StatusVerbs):
    """A StatusWriter and a StatusStore in one: what is put can be read at once. Safe to share between threads.

    ``under`` writes to the same statuses with another claim.
    """

    def __init__(self, claim: Claim | None = None) -> None:
        super().__init__(claim)
        self._lock = threading.Lock()
        self._state = StatusState()
        self._written = 0

    def under(self, claim: Claim | None) -> "MemoryStatusStore":
        """A writer of the same statuses."""
        writer = MemoryStatusStore(claim)
        writer._lock, writer._state = self._lock, self._state
        return writer

    def _put(self, record: StatusRecord, wire: WireRecord) -> None:
        with self._lock:
            self._written += 1
            self._state.apply(status_topic.decode(wire.key, wire.value, wire.headers, offset=self._written))

    def read(self) -> StatusState:
        """The statuses as they are now; the caller's own."""
        with self._lock:
            return self._state.copy()

    def flush(self, timeout_seconds: float) -> bool:
        return True

    def metrics(self) -> dict[str, float]:
        return {"status-update-retry-total": 0.0, "status-update-failure-total": 0.0, "status-update-success-total": float(self._written)}

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Nothing is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


class MemoryGroupOffsets:
    """A GroupOffsets. ``joined`` holds who consumes with which group, for tests to set."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self.joined: dict[str, list[str]] = {}

    def committed(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, CommittedOffset]:
        known = self._groups.get(group, {})
        return dict(known) if partitions is None else {partition: known[partition] for partition in partitions if partition in known}

    def members(self, group: str) -> list[str]:
        return list(self.joined.get(group, ()))

    def alter(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str | None = None) -> None:
        self._require_idle(group)
        known = self._groups.setdefault(group, {})
        known.update({partition: CommittedOffset(offset, metadata or "") for partition, offset in offsets.items()})

    def delete(self, group: str) -> None:
        self._require_idle(group)
        self._groups.pop(group, None)

    def delete_partitions(self, group: str, partitions: Collection[TopicPartition]) -> None:
        self._require_idle(group)
        for partition in partitions:
            self._groups.get(group, {}).pop(partition, None)

    def _require_idle(self, group: str) -> None:
        if self.members(group):
            raise ConflictException(f"Group {group} has active members, so its offsets cannot be changed")

    def close(self) -> None:
        """Nothing is open."""


class MemoryBatchLog:
    """A BatchLog that is also written to."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], BatchRecord] = {}

    def put(self, record: BatchRecord) -> None:
        self._entries[record.task] = record

    def reset(self, connector: str, task: int) -> None:
        self._entries.pop((connector, task), None)

    def entries(self, connector: str) -> list[BatchRecord]:
        return [self._entries[task] for task in sorted(self._entries) if task[0] == connector]

    def last(self, connector: str) -> dict[TopicPartition, int]:
        return positions_of(self.entries(connector))

    def lost(self, connector: str, retention_seconds: float | None, now_seconds: float) -> dict[TopicPartition, int]:
        return lost_of(self.entries(connector), retention_seconds, now_seconds)

    def unfinished(self, connector: str) -> set[TopicPartition]:
        return unfinished_of(self.entries(connector))

    def delivered(self) -> dict[ConnectorTaskId, Delivered]:
        """The last run of each task."""
        return {entry.task: Delivered(entry.type, entry.records, entry.bytes) for entry in self._entries.values()}

    def close(self) -> None:
        """Nothing is open."""
