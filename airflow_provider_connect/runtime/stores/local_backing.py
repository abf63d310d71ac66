"""The state of a standalone worker: configs and statuses in memory, source offsets in a local file, nothing on a topic.

A source delivers at least once: records have been acknowledged when their offsets are written to the file. Sinks commit to their consumer
group, also at least once.
"""

import threading
from collections.abc import Iterable, Sequence

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import FencedException
from airflow_provider_connect.runtime.model.batches import BatchRecord
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import ConfigRecord, FencingRecord, Unreadable
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.backing import OffsetCommitter, Offsets, Statuses
from airflow_provider_connect.runtime.stores.batch_log import BatchLog, Delivered
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges
from airflow_provider_connect.runtime.stores.config_follower import ConfigFollower
from airflow_provider_connect.runtime.stores.memory import MemoryConfigFollower, MemoryConfigStore, MemoryStatusStore
from airflow_provider_connect.runtime.stores.offset_file import FileOffsets, OffsetFile
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.stores.status_notes import StatusNotes
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord


class LocalBacking:
    """A Backing. Its stores are shared, and stay open until their owner closes the file."""

    exactly_once = False
    keeps_batch_log = False

    def __init__(self, file: OffsetFile) -> None:
        self._file = file
        self._configs = _Configs()
        self._owners: dict[str, Claim] = {}
        self._lock = threading.Lock()
        self._statuses = MemoryStatusStore()

    def ensure(self) -> None:
        """Does nothing: the file exists or can be created, because its lock is held."""

    def configs(self) -> ConfigChanges:
        return self._configs

    def statuses(self) -> Statuses:
        return self._statuses

    def status_notes(self, claim: Claim | None = None) -> StatusNotes:
        return self._statuses.under(claim)

    def offsets(self, location: OffsetLocation, *, settle_seconds: float | None = None) -> Offsets:
        """The file. ``offsets.storage.topic`` has no effect."""
        return FileOffsets(self._file)

    def committer(self, connector: str, claim: Claim) -> OffsetCommitter | None:
        return FileCommitter(self, self._file, connector, claim)

    def own(self, connector: str, claim: Claim) -> None:
        """Prevents older claims from committing offsets of the connector. Raises FencedException if a newer claim has done so."""
        with self._lock:
            newest = max(self._owners.get(connector, claim), claim)
            if newest != claim:
                raise FencedException(f"claim {claim} of {connector} is no longer the newest, {newest} is")
            self._owners[connector] = claim

    def batch_log(self) -> BatchLog:
        return _NoBatchLog()


class _NoBatchLog(BatchLog):
    """The batch log of a standalone worker, which is always empty."""

    def __init__(self) -> None: ...

    def entries(self, connector: str) -> list[BatchRecord]:
        return []

    def delivered(self) -> dict[ConnectorTaskId, Delivered]:
        return {}

    def last_entries(self) -> dict[ConnectorTaskId, BatchRecord]:
        return {}

    def sink_positions(self) -> dict[str, dict[TopicPartition, int]]:
        return {}

    def close(self) -> None:
        """Does nothing: nothing is open."""


class _Configs(MemoryConfigStore):
    """A config store whose followers ignore claims. The host of the tasks sees the claims, and ends the tasks after a commit of their
    offsets."""

    def follow(self, connector: str, claim: Claim) -> ConfigFollower:
        return _UnclaimedFollower(self.records, connector, claim)


class _UnclaimedFollower(MemoryConfigFollower):
    def new(self) -> list[ConfigRecord | Unreadable]:
        return [record for record in super().new() if not isinstance(record, FencingRecord)]


class FileCommitter:
    """Commits one claim's offsets to the file, until a newer claim commits. Later commits of an overdue task are refused.

    A newer claim that has not yet committed does not end the right to commit: when the herder claims for a restart, the ending tasks commit
    first.
    """

    def __init__(self, backing: LocalBacking, file: OffsetFile, connector: str, claim: Claim) -> None:
        self._backing = backing
        self._file = file
        self._connector = connector
        self._claim = claim
        self._waiting: dict[bytes, bytes | None] = {}

    def take_over(self) -> None:
        self._backing.own(self._connector, self._claim)

    def begin(self) -> None:
        self._waiting = {}

    def send(self, records: Iterable[ProducerRecord]) -> None:
        self._waiting.update({record.key: record.value for record in records})

    def commit(self) -> None:
        self._backing.own(self._connector, self._claim)
        self._file.put(self._waiting)
        self._waiting = {}

    def write(self, records: Sequence[ProducerRecord]) -> None:
        if records:
            self.begin()
            self.send(records)
            self.commit()

    def abort(self) -> None:
        self._waiting = {}
