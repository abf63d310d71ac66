"""What a table's properties keep of a connector: for each topic partition the next offset, the claim and the snapshot that wrote them.

A property outlives the expiry of snapshots and the snapshots of other writers. The same text is in the summary of each snapshot of a sink,
for a table that an admin has rolled back: offsets go back with the rows, claims never do.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.transactional_sink import OffsetRow

_PREFIX: Final = "connect.offsets."


@dataclass(frozen=True, slots=True)
class StoredRow:
    """An offset row in a table. ``lineage`` changes whenever offsets are set by an admin: then what other tables know of the partition no
    longer counts. ``snapshot`` is the id of the snapshot that wrote the row."""

    row: OffsetRow
    lineage: int
    snapshot: int


StoredRows = dict[TopicPartition, StoredRow]


def property_name(connector: str) -> str:
    """The table property of a connector."""
    return f"{_PREFIX}{connector}"


def to_text(rows: Mapping[TopicPartition, StoredRow]) -> str:
    """The property's value, in one order."""
    texts = {
        f"{topic}/{partition}": [each.row.next_offset, each.row.claim, each.row.claim_epoch, each.lineage, each.snapshot]
        for (topic, partition), each in sorted(rows.items())
    }
    return json.dumps(texts, separators=(",", ":"))


def from_text(text: str | None) -> StoredRows:
    """The inverse of ``to_text``; None has no rows."""
    found: StoredRows = {}
    for name, (offset, claim, epoch, lineage, snapshot) in json.loads(text or "{}").items():
        topic, _, partition = name.rpartition("/")
        found[TopicPartition(topic, int(partition))] = StoredRow(OffsetRow(offset, claim, epoch), lineage, snapshot)
    return found


def stored_rows(metadata: Any, connector: str) -> StoredRows:  # Any: pyiceberg's TableMetadata
    """The rows that hold for the table's current snapshot. Costs one walk through the history, as far as the oldest snapshot of a row."""
    name = property_name(connector)
    rows = from_text(metadata.properties.get(name))
    snapshots = {each.snapshot_id: each for each in metadata.snapshots}
    left = {each.snapshot for each in rows.values()} & snapshots.keys()  # others have expired: their rows are in the table, or were removed
    for snapshot in _history(metadata, snapshots):
        if not left:
            break
        left.discard(snapshot.snapshot_id)
    if not left:
        return rows
    rolled_back = [partition for partition, each in rows.items() if each.snapshot in left]
    older = dict.fromkeys(rolled_back) | _newest_offsets(_history(metadata, snapshots), name, rolled_back)
    return rows | {
        partition: replace(rows[partition], row=replace(rows[partition].row, next_offset=offset)) for partition, offset in older.items()
    }


def _history(metadata: Any, snapshots: Mapping[int, Any]) -> Iterator[Any]:
    """The current snapshot, its parent, and so on."""
    snapshot = snapshots.get(metadata.current_snapshot_id)
    while snapshot is not None:
        yield snapshot
        snapshot = snapshots.get(snapshot.parent_snapshot_id)


def _newest_offsets(history: Iterable[Any], name: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    """The offsets of partitions in the newest snapshots that have some."""
    found: dict[TopicPartition, int | None] = {}
    for snapshot in history:
        if len(found) == len(partitions):
            break
        rows = {} if snapshot.summary is None else from_text(snapshot.summary.additional_properties.get(name))
        found = {partition: rows[partition].row.next_offset for partition in partitions if partition in rows} | found
    return found
