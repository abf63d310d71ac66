"""What a table's properties keep of a connector: for each topic partition the next offset, the claim and the snapshot that wrote them.

A property outlives the expiry of snapshots and the snapshots of other writers. The same text is in the summary of each snapshot of a sink,
for a table that an admin has rolled back: offsets go back with the rows, claims never do.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_provider_connect.sdk.offset_row import OffsetRow
from airflow_provider_connect.sdk.records import TopicPartition

_PREFIX: Final = "connect.offsets."


@dataclass(frozen=True, slots=True)
class StoredRow:
    """An offset row in a table. ``lineage`` changes whenever offsets are set by an admin: then what other tables know of the partition no
    longer counts. ``snapshot`` is the id of the snapshot that wrote the row, ``sequence`` its sequence number; 0: not known."""

    row: OffsetRow
    lineage: int
    snapshot: int
    sequence: int = 0


StoredRows = dict[TopicPartition, StoredRow]


def property_name(connector: str) -> str:
    """The table property of a connector."""
    return f"{_PREFIX}{connector}"


def to_text(rows: Mapping[TopicPartition, StoredRow]) -> str:
    """The property's value, in one order."""
    texts = {}
    for (topic, partition), each in sorted(rows.items()):
        row = each.row
        values = [row.next_offset, row.claim, row.claim_epoch, each.lineage, each.snapshot, row.topic_id, each.sequence]
        texts[f"{topic}/{partition}"] = values
    return json.dumps(texts, separators=(",", ":"))


def from_text(text: str | None) -> StoredRows:
    """The inverse of ``to_text``; None has no rows."""
    found: StoredRows = {}
    for name, (offset, claim, epoch, lineage, snapshot, topic_id, sequence) in json.loads(text or "{}").items():
        topic, _, partition = name.rpartition("/")
        found[TopicPartition(topic, int(partition))] = StoredRow(OffsetRow(offset, claim, epoch, topic_id), lineage, snapshot, sequence)
    return found


def stored_rows(metadata: Any, connector: str) -> StoredRows:  # Any: pyiceberg's TableMetadata
    """The rows that hold for the table's current snapshot. Costs one walk through the history.

    A snapshot that is neither among the ancestors of the current one nor among the table's snapshots has expired, or was abandoned by a
    rollback and expired then. Sequence numbers decide: they rise from ancestor to descendant.
    """
    name = property_name(connector)
    rows = from_text(metadata.properties.get(name))
    snapshots = {each.snapshot_id: each for each in metadata.snapshots}
    undone = _undone({(each.snapshot, each.sequence) for each in rows.values() if each.snapshot}, metadata, snapshots)
    rolled_back = [partition for partition, each in rows.items() if each.snapshot in undone]
    if not rolled_back:
        return rows
    older = dict.fromkeys(rolled_back) | _newest_offsets(_history(metadata, snapshots), name, rows, rolled_back)
    return rows | {
        partition: replace(rows[partition], row=replace(rows[partition].row, next_offset=offset)) for partition, offset in older.items()
    }


def _undone(written: Collection[tuple[int, int]], metadata: Any, snapshots: Mapping[int, Any]) -> set[int]:
    """Those of the snapshots, each with its sequence number, that the current one does not follow."""
    line = list(_history(metadata, snapshots))
    ancestors = {each.snapshot_id for each in line}
    oldest = (line[-1].sequence_number or 0) if line else 0  # what has a smaller number may be an ancestor that has expired
    others = ((snapshot, sequence) for snapshot, sequence in written if snapshot not in ancestors)
    return {snapshot for snapshot, sequence in others if (sequence >= oldest if sequence else snapshot in snapshots)}


def _history(metadata: Any, snapshots: Mapping[int, Any]) -> Iterator[Any]:
    """The current snapshot, its parent, and so on."""
    snapshot = snapshots.get(metadata.current_snapshot_id)
    while snapshot is not None:
        yield snapshot
        snapshot = snapshots.get(snapshot.parent_snapshot_id)


def _newest_offsets(
    history: Iterable[Any], name: str, now: StoredRows, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """The offsets of partitions in the newest snapshots that have some, of the topics that ``now`` has."""
    found: dict[TopicPartition, int | None] = {}
    for snapshot in history:
        if len(found) == len(partitions):
            break
        rows = {} if snapshot.summary is None else from_text(snapshot.summary.additional_properties.get(name))
        known = {partition: rows[partition].row for partition in partitions if partition in rows}
        found = {p: row.next_offset if row.topic_id == now[p].row.topic_id else None for p, row in known.items()} | found
    return found
