"""Offsets of one source connector, on its offsets topic: read, altered, reset (contract §7)."""

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
from airflow_provider_connect.runtime.stores.backing import Backing, OffsetCommitter, Offsets
from airflow_provider_connect.runtime.stores.offset_change import OffsetChange
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.stores.offset_store import Offset, Partition, SourceOffsets
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord

log = logging.getLogger(__name__)
Check = Callable[[], None]


class SourceOffsetChanges:
    """See the module. ``resolved`` is the config with its variables' values; ``ask`` puts offsets to the connector;
    ``author`` is the user who asks for a change."""

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
        self._wanted: Sequence[Pair] | None = None

    @property
    def topic(self) -> str:
        """The topic whose offsets hold."""
        return self._location.topic

    @property
    def has_transactional_ids(self) -> bool:
        """Whether its tasks commit in transactions of ids of theirs; else the store of the offsets fences old claims."""
        return self._backing.exactly_once

    @property
    def transaction_overrides(self) -> Mapping[str, str]:
        """Settings of its transactional producers, besides the worker's."""
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

    def want_altered(self, offsets: Sequence[OffsetView]) -> None:
        """What ``write`` is to do. Raises BadRequestException."""
        self._wanted = [_pair(view) for view in offsets]

    def want_reset(self) -> None:
        """``write`` is to remove every offset."""
        self._wanted = None

    def write(self, claim: Claim, check: Check) -> bool:
        """Whether the connector agreed. ``check`` raises when the change is not allowed any more; see ``OffsetChange``."""
        with closing(self._backing.offsets(self._location)) as store:
            return self._written(store, claim, check)

    def settle(self, check: Check) -> None:
        """Write over what was aborted, behind what tasks have committed. Its ids are fenced."""
        with closing(self._backing.offsets(self._location)) as store:
            store.ensure()
            with OffsetChange(self._settings, self._name, self._location.producer) as change:
                change.take_over()
                change.write([ProducerRecord(store.topic, *record) for record in store.repair(self._name)], check=check)

    def close(self) -> None:
        """Nothing is open."""

    def _written(self, store: Offsets, claim: Claim, check: Check) -> bool:
        """1 no other process changes them now 2 read 3 ask the connector 4 write."""
        store.ensure()
        committer = self._backing.committer(self._name, claim)
        if committer is not None:
            return self._kept_elsewhere(store, committer, check)
        with OffsetChange(self._settings, self._name, self._location.producer) as change:
            change.take_over()  # 1
            known = self._known(store)  # 2
            pairs = self._pairs(known)
            agreed = self._ask(self.word, pairs)  # 3
            records = store.records(self._name, _spelled(pairs, known))
            repairs = {(record.partition, record.key): record for record in store.repair(self._name)}
            last = {(record.partition, record.key): record for record in records}
            store.remove_from_worker(records)
            written = [ProducerRecord(store.topic, *record, claim=claim, author=self._author) for record in (repairs | last).values()]
            self._commit(store, change, written, check)  # 4
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

    def _commit(self, store: Offsets, change: OffsetChange, records: Sequence[ProducerRecord], check: Check) -> None:
        """Write, and where the broker was silent find out what became of it."""
        try:
            change.write(records, check=check)
        except StoreTimeoutException as error:
            with OffsetChange(self._settings, self._name, self._location.producer) as again:
                again.take_over()  # from here on the commit has happened, or never will
            if not self._reads_back(store, records):
                raise StoreTimeoutException(f"{SOURCE_WRITE_TIMEOUT.format(self._name)}: {error}", stage=error.stage) from error
            log.info("The offsets of connector %s were written, though the broker confirmed it late", self._name)

    def _reads_back(self, store: Offsets, records: Sequence[ProducerRecord]) -> bool:
        """Whether the topic holds just what was sent."""
        known = self._known(store)
        again = store.records(self._name, [(record.partition, record.offset) for record in known.by_key.values()])
        held = {record.key: record.value for record in again}
        return all(held.get(record.key) == record.value for record in records)

    def _kept_elsewhere(self, store: Offsets, committer: OffsetCommitter, check: Check) -> bool:
        """The same where offsets lie in a file or in memory: their store refuses old claims."""
        committer.take_over()
        known = store.read(self._name)
        pairs = self._pairs(known)
        agreed = self._ask(self.word, pairs)
        check()
        committer.write(
            [ProducerRecord(store.topic, *record, author=self._author) for record in store.records(self._name, _spelled(pairs, known))]
        )
        return agreed


def _pair(view: OffsetView) -> Pair:
    """The request's pair, checked and in the form that a round trip through the topic gives. Raises BadRequestException."""
    try:
        partition = None if view.partition is None else normalised(checked_source_offset(view.partition))
        offset = None if view.offset is None else normalised(checked_source_offset(view.offset))
    except DataException as error:
        raise BadRequestException(error.message) from error
    return partition, offset


def _spelled(pairs: Iterable[Pair], known: SourceOffsets) -> list[tuple[Partition, Offset | None]]:
    """The changes by the keys that are on the topic, so that they are found whichever worker wrote them first. Of two for one partition the
    later counts. Raises BadRequestException for an offset of no partition."""
    asked: list[tuple[Partition, Offset | None]] = []
    for partition, offset in pairs:
        if partition is not None:
            asked.append((partition, offset))
        elif offset is not None:  # nothing is kept for no partition
            raise BadRequestException("Partition objects cannot be null")
    changes: dict[bytes, tuple[Partition, Offset | None]] = {}
    for (partition, offset), spellings in zip(asked, known.spelled(partition for partition, _ in asked), strict=True):
        for spelled in spellings or [partition]:
            changes[known.key_of(spelled)] = (spelled, offset)
    return list(changes.values())
