"""The storage of a worker's state: configs, statuses, source offsets and the batch log.

``TopicBacking`` keeps the state on the internal topics. A standalone worker keeps it in memory and in a local file (``local_backing``).
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.status import StatusState
from airflow_provider_connect.runtime.stores.batch_log import BatchLog
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.connector_offsets import ConnectorOffsets
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.stores.offset_store import Offset, Partition, ProducedOffset, SourceOffsets
from airflow_provider_connect.runtime.stores.status_notes import StatusNotes
from airflow_provider_connect.runtime.stores.status_store import StatusStore, StatusWriter
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord


class Statuses(Protocol):
    """Reads statuses: a StatusStore."""

    def read(self) -> StatusState: ...

    def close(self) -> None: ...


class Offsets(Protocol):
    """Reads source offsets, and encodes offsets to write: ConnectorOffsets, FileOffsets."""

    topic: str

    def ensure(self) -> None: ...

    def read(self, connector: str) -> SourceOffsets: ...

    def records(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> list[ProducedOffset]: ...

    def repair(self, connector: str) -> list[ProducedOffset]: ...

    def copy(self, records: Sequence[ProducedOffset]) -> None: ...

    def remove_from_worker(self, records: Sequence[ProducedOffset]) -> None: ...

    def close(self) -> None: ...


def repair_records(offsets: Offsets, connector: str) -> list[ProducerRecord]:
    """The records to write so that a reader of uncommitted records finds no aborted offset. A real worker without exactly once is such a
    reader."""
    return [ProducerRecord(offsets.topic, *record) for record in offsets.repair(connector)]


class OffsetCommitter(Protocol):
    """Writes a task's source offsets, or the records of the batch log. Raises FencedException once a newer committer has taken over."""

    def take_over(self) -> None:
        """Prevents older claims from committing. Read offsets only after this call."""

    def write(self, records: Sequence[ProducerRecord]) -> None:
        """Sends and commits the records. Does nothing without records."""

    def begin(self) -> None: ...

    def send(self, records: Iterable[ProducerRecord]) -> None: ...

    def commit(self) -> None:
        """Makes everything sent since ``begin`` durable, even if this process dies."""

    def abort(self) -> None: ...


class Backing(Protocol):
    """Provides the stores. The caller closes each store that it obtains.

    ``exactly_once``: claims survive the process, and offsets can share a transaction with records. ``keeps_batch_log``: tasks write entries
    to the batch log.
    """

    exactly_once: bool
    keeps_batch_log: bool

    def ensure(self) -> None:
        """Creates missing topics. Raises ConfigException for a topic that cannot be used."""

    def configs(self) -> ConfigChanges: ...

    def statuses(self) -> Statuses: ...

    def status_notes(self, claim: Claim | None = None) -> StatusNotes: ...

    def offsets(self, location: OffsetLocation, *, settle_seconds: float | None = None) -> Offsets:
        """``settle_seconds`` limits the wait for an open transaction. None: the timeout of other requests applies."""

    def committer(self, connector: str, claim: Claim) -> OffsetCommitter | None:
        """Commits source offsets. None: each task commits them in transactions of its own id."""

    def batch_log(self) -> BatchLog: ...


class TopicBacking:
    """Keeps everything on the internal topics, shared with every process of the group.

    A run, which needs the configs of one connector, uses ``known`` and ``only``: see ConfigStore.
    """

    exactly_once = True
    keeps_batch_log = True

    def __init__(self, settings: WorkerSettings, *, known: ConfigSnapshot | None = None, only: str | None = None) -> None:
        self._settings = settings
        self._known = known
        self._only = only

    def ensure(self) -> None:
        TopicAdmin(self._settings).ensure_internal_topics()

    def configs(self) -> ConfigChanges:
        return ConfigStore(self._settings, known=self._known, only=self._only)

    def statuses(self) -> Statuses:
        return StatusStore(self._settings)

    def status_notes(self, claim: Claim | None = None) -> StatusNotes:
        return StatusWriter(self._settings, claim=claim)

    def offsets(self, location: OffsetLocation, *, settle_seconds: float | None = None) -> Offsets:
        return ConnectorOffsets(self._settings, location, settle_seconds=settle_seconds)

    def committer(self, connector: str, claim: Claim) -> OffsetCommitter | None:
        return None

    def batch_log(self) -> BatchLog:
        return BatchLog(self._settings)
