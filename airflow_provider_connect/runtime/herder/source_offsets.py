"""The offsets of one source connector, on its offsets topic: read, alter, reset (contract §7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from airflow_provider_connect.errors import BadRequestException, DataException, StoreException, StoreTimeoutException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.ports import Ask, Pair
from airflow_provider_connect.runtime.model.offsets import (
    SOURCE_GET_FAILED,
    SOURCE_READ_TIMEOUT,
    SOURCE_WRITE_TIMEOUT,
    checked_source_offset,
    normalised,
)
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.backing import Backing, OffsetCommitter, Offsets
from airflow_provider_connect.runtime.stores.batch_log import BatchLog, recreated_offsets_topic
from airflow_provider_connect.runtime.stores.offset_change import OffsetChange
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation, is_elsewhere
from airflow_provider_connect.runtime.stores.offset_store import Offset, Partition, SourceOffsets
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord

log = logging.getLogger(__name__)
Check = Callable[[], None]


class SourceOffsetChanges:
    """See the module. ``resolved`` is the config with its variables resolved. ``ask`` calls the connector's ``alter_offsets``. ``author``
    is the user who requested a change."""

    word = "source"
    note: str | None = None

    def __init__(
        self, settings: WorkerSettings, backing: Backing, name: str, resolved: Mapping[str, str], *, ask: Ask, author: str | None = None
    ) -> None:
        self._settings = settings
        self._backing = backing
        self._name = name
        self._location = OffsetLocation.of(settings, resolved)
        self._ask = ask
        self._author = author
        self._keeps_batch_log = backing.keeps_batch_log and not is_elsewhere(settings, self._location.producer)
        self._wanted: Sequence[Pair] | None = None

    @property
    def topic(self) -> str:
        """The topic whose offsets take precedence."""
        return self._location.topic

    @property
    def has_transactional_ids(self) -> bool:
        """Whether the connector's tasks commit with transactional ids. Otherwise the offset store fences old claims."""
        return self._backing.exactly_once

    @property
    def transaction_overrides(self) -> Mapping[str, str]:
        """Settings of the connector's transactional producers, in addition to the worker's."""
        return self._location.producer

    def read(self) -> list[OffsetView]:
        """Every source partition with its committed offset."""
        with closing(self._backing.offsets(self._location)) as store:
            try:
                known = store.read(self._name)
            except StoreException as error:
                raise StoreException(f"{SOURCE_GET_FAILED.format(self._name)}: {error}") from error
            except StoreTimeoutException as error:
                raise StoreTimeoutException(f"{SOURCE_GET_FAILED.format(self._name)}: {error}", stage=error.stage) from error
        return [OffsetView(partition, offset) for partition, offset in known.pairs()]

    def request_alteration(self, offsets: Sequence[OffsetView]) -> None:
        """Have ``write`` set these offsets. Raises BadRequestException."""
        self._wanted = [_pair(view) for view in offsets]

    def request_reset(self) -> None:
        """Have ``write`` remove every offset."""
        self._wanted = None

    def write(self, claim: Claim, check: Check) -> bool:
        """Write the requested offsets. Returns whether the connector agreed. ``check`` raises if the change is no longer allowed. See
        ``OffsetChange``."""
        with closing(self._backing.offsets(self._location)) as store:
            return self._written(store, claim, check)

    def repair(self, check: Check) -> None:
        """Overwrite aborted offsets with the committed ones. The connector's transactional ids must be fenced."""
        with closing(self._backing.offsets(self._location)) as store:
            store.ensure()
            with OffsetChange(self._settings, self._name, self._location.producer) as change:
                change.take_over()
                change.write([ProducerRecord(store.topic, *record) for record in store.repair(self._name)], check=check)

    def close(self) -> None:
        """Does nothing: nothing is open."""

    def _written(self, store: Offsets, claim: Claim, check: Check) -> bool:
        """Steps: 1 exclude other processes; 2 read the offsets; 3 ask the connector; 4 write the offsets."""
        store.ensure()
        committer = self._backing.committer(self._name, claim)
        if committer is not None:
            return self._write_without_transaction(store, committer, check)
        with OffsetChange(self._settings, self._name, self._location.producer) as change:
            change.take_over()  # 1
            known = self._known(store)  # 2
            pairs = self._pairs(known)
            agreed = self._ask(self.word, pairs)  # 3
            records = store.records(self._name, _with_known_keys(pairs, known))
            repairs = {(record.partition, record.key): record for record in store.repair(self._name)}
            last = {(record.partition, record.key): record for record in records}
            store.remove_from_worker(records)
            written = [ProducerRecord(store.topic, *record, claim=claim, author=self._author) for record in (repairs | last).values()]
            self._commit(store, change, written, check, self._forgotten_topics() if self._wanted is None else ())  # 4
            store.copy(records)
        return agreed

    def _pairs(self, known: SourceOffsets) -> list[Pair]:
        if self._wanted is not None:
            return list(self._wanted)
        return [(normalised(partition), None) for partition in known.partitions()]

    def _known(self, store: Offsets) -> SourceOffsets:
        try:
            return store.read(self._name)
        except StoreTimeoutException as error:
            raise StoreTimeoutException(f"{SOURCE_READ_TIMEOUT.format(self._name)}: {error}", stage=error.stage) from error

    def _forgotten_topics(self) -> list[ProducerRecord]:
        """The tombstones of batch log entries that name an earlier offsets topic, because a run would refuse to begin at the first record
        after them."""
        if not self._keeps_batch_log:
            return []
        with closing(AdminConnection.of(self._settings, self._location.admin)) as connection:
            ids = TopicAdmin(self._settings, connection=connection).topic_ids([self.topic])
        with closing(self._backing.batch_log()) as batch_log:
            old = [entry.task.task for entry in batch_log.entries(self._name) if recreated_offsets_topic([entry], ids) is not None]
        tombstones = [BatchLog.reset(self._settings, self._name, task) for task in old]
        return [ProducerRecord(self._settings.batch_topic, *record, author=self._author) for record in tombstones]

    def _commit(
        self, store: Offsets, change: OffsetChange, records: Sequence[ProducerRecord], check: Check, last: Sequence[ProducerRecord]
    ) -> None:
        """Write the records, ``last`` behind the others. After a timeout, find out whether the broker committed."""
        try:
            change.write([*records, *last], check=check)
        except StoreTimeoutException as error:
            with OffsetChange(self._settings, self._name, self._location.producer) as again:
                again.take_over()  # from now on, the commit has happened or will never happen
            if not self._is_written(store, records):
                raise StoreTimeoutException(f"{SOURCE_WRITE_TIMEOUT.format(self._name)}: {error}", stage=error.stage) from error
            log.info("The offsets of connector %s were written, though the broker confirmed it late", self._name)

    def _is_written(self, store: Offsets, records: Sequence[ProducerRecord]) -> bool:
        """Whether the topic contains exactly these records."""
        known = self._known(store)
        again = store.records(self._name, [(record.partition, record.offset) for record in known.by_key.values()])
        held = {record.key: record.value for record in again}
        return all(held.get(record.key) == record.value for record in records)

    def _write_without_transaction(self, store: Offsets, committer: OffsetCommitter, check: Check) -> bool:
        """Write the offsets to a file or to memory. Such a store refuses old claims itself."""
        committer.take_over()
        known = store.read(self._name)
        pairs = self._pairs(known)
        agreed = self._ask(self.word, pairs)
        check()
        committer.write(
            [
                ProducerRecord(store.topic, *record, author=self._author)
                for record in store.records(self._name, _with_known_keys(pairs, known))
            ]
        )
        return agreed


def _pair(view: OffsetView) -> Pair:
    """The pair, checked and normalised as by a round trip through the topic. Raises BadRequestException."""
    try:
        partition = None if view.partition is None else normalised(checked_source_offset(view.partition))
        offset = None if view.offset is None else normalised(checked_source_offset(view.offset))
    except DataException as error:
        raise BadRequestException(error.message) from error
    return partition, offset


def _with_known_keys(pairs: Iterable[Pair], known: SourceOffsets) -> list[tuple[Partition, Offset | None]]:
    """The changes under the keys that are already on the topic, whichever worker wrote those keys. If two changes have the same partition,
    the last one counts. Raises BadRequestException for an offset without a partition."""
    asked: list[tuple[Partition, Offset | None]] = []
    for partition, offset in pairs:
        if partition is not None:
            asked.append((partition, offset))
        elif offset is not None:  # no offset exists without a partition
            raise BadRequestException("Partition objects cannot be null")
    changes: dict[bytes, tuple[Partition, Offset | None]] = {}
    for (partition, offset), spellings in zip(asked, known.spellings(partition for partition, _ in asked), strict=True):
        for spelled in spellings or [partition]:
            changes[known.key_of(spelled)] = (spelled, offset)
    return list(changes.values())
