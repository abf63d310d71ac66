"""The stores without Kafka: the same verbs and rules in memory. For unit tests, and for a standalone worker."""

import threading
from collections.abc import Sequence

from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.runtime.model.records import ConfigRecord, Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.status import StatusRecord, StatusState
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges, Decide
from airflow_provider_connect.runtime.stores.config_follower import Change, ConfigFollower, gravest_change, has_changed
from airflow_provider_connect.runtime.stores.status_notes import StatusNotes
from airflow_provider_connect.runtime.wire import config_topic, status_topic
from airflow_provider_connect.runtime.wire.record import WireRecord

TOPIC_ID = "memory"


class MemoryConfigStore(ConfigChanges):
    """A ConfigStore in memory. Records are converted to the topic's bytes and back."""

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
        """Does nothing: nothing is open."""


class MemoryConfigFollower(ConfigFollower):
    """A ConfigFollower of a MemoryConfigStore."""

    def __init__(self, records: Sequence[ConfigRecord | Unreadable], connector: str, claim: Claim) -> None:
        self._records = records
        self._connector = connector
        self._claim = claim
        self._next = claim.offset + 1

    def poll(self, timeout_seconds: float = 0.0) -> Change | None:
        """Never waits: written records are visible immediately."""
        return gravest_change(self.new(), self._connector, self._claim)

    def has_changed(self, owner: str, timeout_seconds: float = 0.0) -> bool:
        return has_changed(self.new(), self._connector, owner)

    def new(self) -> list[ConfigRecord | Unreadable]:
        """The records since the last call."""
        new = list(self._records[self._next :])
        self._next += len(new)
        return new

    def close(self) -> None:
        """Does nothing: nothing is open."""


class MemoryStatusStore(StatusNotes):
    """Both a StatusWriter and a StatusStore. Statuses can be read as soon as they are put. Safe to share between threads.

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
        """A copy of the current statuses, which the caller may change."""
        with self._lock:
            return self._state.copy()

    def flush(self, timeout_seconds: float) -> bool:
        return True

    def metrics(self) -> dict[str, float]:
        return {"status-update-retry-total": 0.0, "status-update-failure-total": 0.0, "status-update-success-total": float(self._written)}

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Does nothing: nothing is open."""
