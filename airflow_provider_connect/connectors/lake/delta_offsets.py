"""Offsets and claims of a connector in a Delta table. They are transaction identifiers, which are named numbers, five for each partition.

Transaction identifiers apply to all versions of the table. If an admin has restored an older version since a partition's last commit, the
offset of that version is valid. The table's history contains this offset. Loaded only by tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from deltalake import CommitProperties, DeltaTable, Transaction

from airflow_provider_connect.connectors.lake.delta_history import History, commit_info, restored_offset, was_restored
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.sdk.offset_row import OffsetRow, scope_of

_UNKNOWN, _FORGOTTEN = -1, -2
_ENDS: Final = ("", "/claim", "/scope", "/topic", "/read")
"""Suffixes of a partition's identifiers: the next offset, twice the claim's epoch (odd: set by an admin), the claim's scope, the topic's
id (0: unknown), and the version of the table that was read before the commit."""
_READ: Final = _ENDS[-1]


class DeltaOffsets:
    """The offsets of one connector. ``known`` are scopes of claims and ids of topics. Only their numbers can be converted back to text."""

    def __init__(self, connector: str, known: Iterable[str]) -> None:
        self._connector = connector
        self._texts = {_number(text): text for text in known}

    def rows(
        self, table: DeltaTable, partitions: Collection[TopicPartition], history: Callable[[int | None], History]
    ) -> dict[TopicPartition, OffsetRow]:
        """The offset rows of these partitions that are valid in the given state of the table. ``history`` returns the table's entries
        after a version, or all entries. Raises ConnectException if the table was restored and its history does not contain the offset of
        such a partition."""
        found = {partition: row for partition in partitions if (row := self._row(table, partition)) is not None}
        read = {p: version for p in found if (version := table.transaction_version(f"{self._id(p)}{_READ}")) is not None}
        if all(version + 1 >= table.version() for version in read.values()):
            return found
        newest = history(min(read.values()))
        for partition in [partition for partition, version in read.items() if was_restored(newest, version)]:
            topic = table.transaction_version(f"{self._id(partition)}/topic") or 0
            offset = restored_offset(history(None), self._connector, partition, topic, read[partition])
            found[partition] = replace(found[partition], next_offset=offset)
        return found

    def written(self, table: DeltaTable | None, rows: Mapping[TopicPartition, OffsetRow | None]) -> CommitProperties:
        """The commit properties that store these rows. None removes a row. ``table`` is the state that was read."""
        transactions, info = [], {}
        for partition, row in rows.items():
            numbers: tuple[int, ...] = (_FORGOTTEN,)
            topic = 0
            if row is not None:
                topic = _number(row.topic_id) if row.topic_id else 0
                offset = _UNKNOWN if row.next_offset is None else row.next_offset
                version = 0 if table is None else table.version()
                numbers = (offset, row.claim_epoch * 2 + row.is_altered, _number(scope_of(row.claim)), topic, version)
            transactions += [Transaction(f"{self._id(partition)}{end}", number) for end, number in zip(_ENDS, numbers, strict=False)]
            info[partition] = None if row is None else row.next_offset, topic
        return CommitProperties(app_transactions=transactions, custom_metadata=commit_info(self._connector, info) if info else None)

    def _id(self, partition: TopicPartition) -> str:
        return f"connect/{self._connector}/{partition.topic}/{partition.partition}"

    def _row(self, table: DeltaTable, partition: TopicPartition) -> OffsetRow | None:
        offset, claim, scope, topic = (table.transaction_version(f"{self._id(partition)}{end}") for end in _ENDS[:-1])
        if offset is None or offset == _FORGOTTEN or claim is None or scope is None:
            return None
        text = f"{self._text(scope)}:{claim >> 1}"
        row = OffsetRow(None if offset == _UNKNOWN else offset, text, claim >> 1, self._text(topic) if topic else "")
        return row.alter(row.next_offset) if claim & 1 else row

    def _text(self, number: int) -> str:
        return self._texts.get(number, f"#{number}")


def _number(text: str) -> int:
    """A scope or topic id as a 63-bit number. If ``text`` is ``#`` and a number, it is that number."""
    if text.startswith("#"):
        return int(text[1:])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
