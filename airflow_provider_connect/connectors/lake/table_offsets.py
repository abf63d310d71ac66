"""A connector's offsets in the properties of an Iceberg table: the next offset, the claim and the snapshot of each topic partition.

Properties survive the expiry of snapshots, and snapshots of other writers. For tables that an admin rolls back, the same text is in the
summary of each snapshot that a sink writes. Offsets go back with the rows, but claims never do. The summary also replaces a property that
another program has removed. Each branch of a table has its own offsets.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.sdk.offset_row import OffsetRow

MAIN: Final = "main"
_PREFIX, _OF_BRANCHES = "connect.offsets.", "connect.branch-offsets."
_PICKED: Final = "source-snapshot-id"
"""The entry in the summary of a cherry-picked snapshot that has the original's id."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """An offset row in a table. ``lineage`` changes when an admin sets offsets. After that, the partition's offsets in other tables are no
    longer valid. ``snapshot`` is the id of the snapshot that wrote the row. ``sequence`` is its sequence number, or 0 if unknown."""

    row: OffsetRow
    lineage: int
    snapshot: int
    sequence: int = 0


StoredRows = dict[TopicPartition, StoredRow]


def property_name(connector: str, branch: str = MAIN) -> str:
    """The table property of a connector that writes to a branch."""
    return f"{_PREFIX}{connector}" if branch == MAIN else f"{_OF_BRANCHES}{quote(branch, safe='')}/{connector}"


def to_text(rows: Mapping[TopicPartition, StoredRow]) -> str:
    """The property's value, sorted by partition."""
    texts = {}
    for (topic, partition), each in sorted(rows.items()):
        row = each.row
        values = [row.next_offset, row.claim, row.claim_epoch, each.lineage, each.snapshot, row.topic_id, each.sequence]
        texts[f"{topic}/{partition}"] = values
    return json.dumps(texts, separators=(",", ":"))


def from_text(text: str | None) -> StoredRows:
    """The inverse of ``to_text``. Empty for None."""
    found: StoredRows = {}
    for name, (offset, claim, epoch, lineage, snapshot, topic_id, sequence) in json.loads(text or "{}").items():
        topic, _, partition = name.rpartition("/")
        found[TopicPartition(topic, int(partition))] = StoredRow(OffsetRow(offset, claim, epoch, topic_id), lineage, snapshot, sequence)
    return found


def stored_rows(metadata: Any, connector: str, branch: str = MAIN) -> StoredRows:  # Any: pyiceberg's TableMetadata
    """The rows that are valid for the branch's head. Costs one walk through the branch's history. A missing branch starts at the head of
    main.

    A snapshot that is not an ancestor of the head was abandoned by a rollback, or has expired. Sequence numbers, which increase from
    ancestor to descendant, distinguish the two cases. A replaced table starts a new history. It keeps the property, and so the offsets.
    """
    name = property_name(connector, branch)
    line = _ancestors(metadata, branch)
    if name not in metadata.properties:
        return {partition: each for snapshot in reversed(line) for partition, each in _rows_of(snapshot, name).items()}
    rows = from_text(metadata.properties[name])
    undone = _undone_snapshots({(each.snapshot, each.sequence) for each in rows.values() if each.snapshot}, metadata, line)
    rolled_back = [partition for partition, each in rows.items() if each.snapshot in undone]
    if not rolled_back:
        return rows
    older = dict.fromkeys(rolled_back) | _newest_offsets(line, name, rows, rolled_back)
    return rows | {
        partition: replace(rows[partition], row=replace(rows[partition].row, next_offset=offset)) for partition, offset in older.items()
    }


def _ancestors(metadata: Any, branch: str) -> list[Any]:
    """The head of a branch and its ancestors that have not expired, newest first."""
    snapshots = {each.snapshot_id: each for each in metadata.snapshots}
    ref = metadata.refs.get(branch)
    snapshot = snapshots.get(metadata.current_snapshot_id if branch == MAIN or ref is None else ref.snapshot_id)
    found = []
    while snapshot is not None:
        found.append(snapshot)
        snapshot = snapshots.get(snapshot.parent_snapshot_id)
    return found


def _undone_snapshots(written: Collection[tuple[int, int]], metadata: Any, line: Sequence[Any]) -> set[int]:
    """The ids of snapshots in ``written`` (with their sequence numbers) whose rows are not in the newest snapshot of ``line``."""
    if not line:
        return set()  # the table was replaced by an empty one
    ancestors = {each.snapshot_id for each in line} | {
        int(each.summary.additional_properties.get(_PICKED, 0)) for each in line if each.summary
    }
    is_beginning = line[-1].parent_snapshot_id is None
    oldest = line[-1].sequence_number or 0  # snapshots with smaller numbers have expired, or are older than the table's replacement
    there = {each.snapshot_id for each in metadata.snapshots}
    return {
        snapshot
        for snapshot, sequence in written
        if snapshot not in ancestors and (sequence >= oldest or (snapshot in there and not is_beginning) if sequence else snapshot in there)
    }


def _newest_offsets(
    history: Sequence[Any], name: str, now: StoredRows, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """The offsets of partitions in the newest snapshots that have them. None if the topic differs from the topic in ``now``."""
    found: dict[TopicPartition, int | None] = {}
    for snapshot in history:
        if len(found) == len(partitions):
            break
        rows = _rows_of(snapshot, name)
        known = {partition: rows[partition].row for partition in partitions if partition in rows}
        found = {p: row.next_offset if row.topic_id == now[p].row.topic_id else None for p, row in known.items()} | found
    return found


def _rows_of(snapshot: Any, name: str) -> StoredRows:
    return {} if snapshot.summary is None else from_text(snapshot.summary.additional_properties.get(name))
