"""Source offsets on the offsets topic: read for one connector, written by the task's own transaction, repaired after aborted transactions.

Read them after taking over the task's transactional id. By then, every transaction of the previous owner has ended.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from airflow_provider_connect.errors import StoreException
from airflow_provider_connect.runtime.config.client_settings import ClientConfig, ClientKind, client_config, internal_client_config
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import partition_for
from airflow_provider_connect.runtime.model.offsets import OffsetRecord, normalised
from airflow_provider_connect.runtime.stores.decoders import decode_offset
from airflow_provider_connect.runtime.stores.log_consumer import Closing, LogRecord
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader, raw
from airflow_provider_connect.runtime.wire import offset_topic

_log = logging.getLogger(__name__)
MOST_BYTES: Final = 512 << 20
"""Limit for the offsets of one connector in memory, because the server also reads these offsets, for all connectors."""
_RECORD_BYTES: Final = 500  # approximate size of a record object itself

Partition = Mapping[str, object]
Offset = Mapping[str, object]


class ProducedOffset(NamedTuple):
    """A record for the offsets topic, to be produced inside a task's transaction."""

    partition: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """The offsets of one connector's source partitions, keyed by the exact bytes of the partitions' keys."""

    connector: str
    by_key: Mapping[bytes, OffsetRecord]

    def get(self, partition: Partition) -> dict[str, Any] | None:  # Any: a source's own JSON values
        """The partition's offset, or None. It is found by the bytes of its key, so the order of the partition's entries matters, as in
        Connect. An offset that was altered over REST, with its entries in Java's order, is also found."""
        found = self.by_key.get(offset_topic.key_bytes(self.connector, partition))
        if found is None and len(partition) > 1:
            found = self.by_key.get(offset_topic.key_bytes(self.connector, normalised(partition)))
        return None if found is None or found.offset is None else dict(found.offset)

    def key_of(self, partition: Partition) -> bytes:
        """The key of the partition's offset. The partition's entries keep their order."""
        return offset_topic.key_bytes(self.connector, partition)

    def spellings(self, partitions: Iterable[Partition]) -> list[list[Partition]]:
        """For each of ``partitions``, those partitions with an offset that differ from it only in the order of their entries."""
        known: dict[bytes, list[Partition]] = {}
        for record in self.by_key.values():
            known.setdefault(_sorted_key(self.connector, record.partition), []).append(record.partition)
        return [known.get(_sorted_key(self.connector, partition), []) for partition in partitions]

    def partitions(self) -> list[dict[str, object]]:
        """The source partitions that have an offset."""
        return [dict(record.partition) for record in self.by_key.values()]

    def pairs(self) -> list[tuple[dict[str, object], dict[str, object] | None]]:
        """Each partition with the offset that a lookup by its key finds. None: a writer has ordered the entries differently."""
        return [(partition, self.get(partition)) for partition in self.partitions()]

    def over(self, other: "SourceOffsets") -> "SourceOffsets":
        """These offsets, and the offsets of ``other`` for keys that these lack."""
        return SourceOffsets(self.connector, {**other.by_key, **self.by_key})


def decode_produced(records: Iterable[ProducedOffset]) -> dict[bytes, OffsetRecord]:
    """The offsets that the records set, by their keys."""
    decoded = (offset_topic.decode(record.key, record.value) for record in records)
    return {record.key: record for record in decoded if isinstance(record, OffsetRecord) and record.key is not None}


class OffsetStore(Closing):
    """See the module. ``topic`` None: the worker's offsets topic. ``overrides`` are a connector's ``consumer.override.*`` settings without
    this prefix, for a topic of its own. None: the worker's own client settings. ``settle_seconds`` limits the wait for an open transaction.
    Opens nothing before the first use. Not thread-safe."""

    def __init__(
        self,
        settings: WorkerSettings,
        topic: str | None = None,
        *,
        overrides: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
        settle_seconds: float | None = None,
    ) -> None:
        self.topic = topic or settings.offset_topic
        self._config = _consumer_config(settings, overrides)
        self._timeout_seconds = timeout_seconds
        self._settle_seconds = timeout_seconds if settle_seconds is None else settle_seconds
        self._reader = TopicReader(self.topic, self._config, raw)  # records that are replaced later are never decoded
        self._connector: str | None = None
        self._records: dict[tuple[int, bytes], LogRecord] = {}  # of this connector
        self._bytes = 0
        self._unreadable: set[tuple[int, bytes]] = set()
        self.skipped = self._reader.skipped

    def read(self, connector: str) -> SourceOffsets:
        """The connector's committed offsets. Waits while an open transaction hides some of them, but not for other connectors' offsets.

        Raises TopicMissingException, StoreTimeoutException, StoreException for more than ``MOST_BYTES``. The first call for a connector
        reads the whole topic, later calls read new records.
        """
        self._catch_up(connector)
        by_key: dict[bytes, OffsetRecord] = {}
        for (partition, key), record in self._records.items():
            decoded = decode_offset(record)
            if not isinstance(decoded, OffsetRecord):
                if (partition, key) not in self._unreadable:  # each read decodes the record again, but counts it once
                    self._unreadable.add((partition, key))
                    self.skipped.note(decoded.reason, decoded, partition=partition, offset=record.offset)
            elif decoded.offset is not None:
                by_key[key] = decoded
        return SourceOffsets(connector, by_key)

    def records(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> list[ProducedOffset]:
        """The records that set these offsets. None removes one. Each record has the partition that Java's partitioner chooses for its
        key."""
        count = self._reader.partitions()
        return [
            ProducedOffset(partition_for(wire.key, count), wire.key, wire.value)
            for wire in (offset_topic.encode(connector, partition, offset) for partition, offset in offsets)
        ]

    def repair(self, connector: str) -> list[ProducedOffset]:
        """The records to produce so that a reader of uncommitted records finds the committed offsets.

        A real worker without exactly-once support is such a reader, and would use the last record of an aborted transaction. If that record
        differs from the committed one, the committed value, or a tombstone, must follow it. Call it after all ids of the connector were
        taken over, because an open transaction would look like an aborted one.
        """
        self._catch_up(connector)
        last: dict[tuple[int, bytes], LogRecord] = {}

        def keep(record: LogRecord) -> str:
            if record.key is not None and _is_of(connector, record.key):
                last[record.partition, record.key] = record
            return ""

        with TopicReader(self.topic, self._config, raw, read_committed=False) as uncommitted:
            uncommitted.read(keep, self._timeout_seconds)
        again = []
        for (partition, key), record in last.items():
            committed = self._records.get((partition, key))
            value = None if committed is None else committed.value
            if record.value != value and (committed is None or record.offset > committed.offset):
                again.append(ProducedOffset(partition, key, value))
        if again:
            _log.info("Connector %s: %d aborted offsets are overwritten with the committed ones", connector, len(again))
        return again

    def _catch_up(self, connector: str) -> None:
        """Reads to the end. Keeps nothing of other connectors, because a config may name any topic for its offsets, however large."""
        if connector != self._connector:
            self._reader.rewind()
            self._forget()
            self._connector = connector
        self._reader.read(
            self._keep,
            self._timeout_seconds,
            forget=self._forget,
            wait_for=partial(_is_of, connector),
            settle_seconds=self._settle_seconds,
        )

    def _keep(self, record: LogRecord) -> str:
        if record.key is None:
            return "record has no key"
        if _is_of(str(self._connector), record.key):
            before = self._records.get((record.partition, record.key))
            self._records[record.partition, record.key] = record
            self._unreadable.discard((record.partition, record.key))
            self._bytes += _size(record) - (0 if before is None else _size(before))
            if self._bytes > MOST_BYTES:
                raise StoreException(
                    f"Connector {self._connector} has more than {MOST_BYTES >> 20} MiB of offsets on topic {self.topic} "
                    f"({len(self._records)} source partitions so far), and no more are read. Reset them, or divide the connector"
                )
        return ""

    def _forget(self) -> None:
        self._records, self._bytes, self._unreadable = {}, 0, set()

    def close(self) -> None:
        self._reader.close()
        self._forget()


def _size(record: LogRecord) -> int:
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")


def _sorted_key(connector: str, partition: Partition) -> bytes:
    return offset_topic.key_bytes(connector, dict(sorted(partition.items())))


def _consumer_config(settings: WorkerSettings, overrides: Mapping[str, str] | None) -> ClientConfig:
    if overrides is None:
        return internal_client_config(settings, ClientKind.CONSUMER, "offsets")
    return {"group.id": settings.group_id, **client_config(settings, ClientKind.CONSUMER, overrides)}


def _is_of(connector: str, key: bytes | None) -> bool:
    """Whether the key belongs to the connector. Compares plain keys by their first bytes, and parses others."""
    if key is None or key.startswith(offset_topic.key_bytes(connector, {})[:-3]):
        return key is not None
    if key.startswith(b'["') and b"\\" not in key:
        return False
    decoded = offset_topic.decode(key, None)
    return isinstance(decoded, OffsetRecord) and decoded.connector == connector
