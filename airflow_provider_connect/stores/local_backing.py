"""Where a worker of its own keeps its state: configs and statuses in memory, source offsets in a local file. Nothing of it is on a topic.

A source delivers at least once: records have been acknowledged when their offsets are written to the file. Sinks commit to their consumer
group, at least once too.
"""

from collections.abc import Iterable, Sequence

from airflow_provider_connect.errors import FencedException
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.stores.backing import Ledger, OffsetCommitter, Offsets, Statuses, StatusNotes
from airflow_provider_connect.stores.config_changes import ConfigChanges
from airflow_provider_connect.stores.memory import MemoryBatchStore, MemoryConfigStore, MemoryStatusStore
from airflow_provider_connect.stores.offset_file import FileOffsets, OffsetFile
from airflow_provider_connect.stores.offset_place import OffsetPlace
from airflow_provider_connect.stores.transactional_producer import OffsetRecord


class LocalBacking:
    """A Backing. Its stores are shared, and stay open until the file is closed by its owner."""

    exactly_once = False
    keeps_ledger = False

    def __init__(self, file: OffsetFile) -> None:
        self._file = file
        self._configs = MemoryConfigStore()
        self._statuses = MemoryStatusStore()

    def ensure(self) -> None:
        """The file is there, or could be made: its lock is held."""

    def configs(self) -> ConfigChanges:
        return self._configs

    def statuses(self) -> Statuses:
        return self._statuses

    def status_notes(self, claim: Claim | None = None) -> StatusNotes:
        return self._statuses.under(claim)

    def offsets(self, place: OffsetPlace) -> Offsets:
        """The file, whatever ``offsets.storage.topic`` says."""
        return FileOffsets(self._file)

    def committer(self, connector: str, claim: Claim) -> OffsetCommitter | None:
        return FileCommitter(self._file, self._configs, connector, claim)

    def ledger(self) -> Ledger:
        return MemoryBatchStore()


class FileCommitter:
    """Commits one claim's offsets to the file. What an overdue task of an older claim commits is refused."""

    def __init__(self, file: OffsetFile, configs: ConfigChanges, connector: str, claim: Claim) -> None:
        self._file = file
        self._configs = configs
        self._connector = connector
        self._claim = claim
        self._waiting: dict[bytes, bytes | None] = {}

    def take_over(self) -> None:
        """The claim did."""

    def begin(self) -> None:
        self._waiting = {}

    def send(self, records: Iterable[OffsetRecord]) -> None:
        self._waiting.update({record.key: record.value for record in records})

    def commit(self) -> None:
        newest = self._configs.read().claims.get(self._connector)
        if newest != self._claim:
            raise FencedException(f"claim {self._claim} of {self._connector} is no longer the newest, {newest} is")
        self._file.put(self._waiting)
        self._waiting = {}

    def write(self, records: Sequence[OffsetRecord]) -> None:
        if records:
            self.begin()
            self.send(records)
            self.commit()

    def abort(self) -> None:
        self._waiting = {}
