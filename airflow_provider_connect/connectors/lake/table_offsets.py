"""What a table's properties keep of a connector: for each topic partition the next offset, the claim and the snapshot that wrote them.

A property outlives the expiry of snapshots and the snapshots of other writers. The same text is in the summary of each snapshot of a sink,
for a table that an admin has rolled back: offsets go back with the rows, claims never do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    """The rows that hold for the table's current snapshot."""
    name = property_name(connector)
    rows = from_text(metadata.properties.get(name))
    return {partition: _after_rollback(metadata, name, partition, each) for partition, each in rows.items()}


def _after_rollback(metadata: Any, name: str, partition: TopicPartition, stored: StoredRow) -> StoredRow:
    """The row with the offset of the newest snapshot that is still in the table's history, where that no longer has the row's own."""
    if metadata.snapshot_by_id(stored.snapshot) is None:
        return stored  # expired: its rows are in the table, or were removed with it
    snapshot, older = metadata.current_snapshot(), None
    while snapshot is not None and snapshot.snapshot_id != stored.snapshot:
        if older is None and snapshot.summary is not None:
            older = from_text(snapshot.summary.additional_properties.get(name)).get(partition)
        snapshot = metadata.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id is not None else None
    if snapshot is not None:
        return stored
    return replace(stored, row=replace(stored.row, next_offset=None if older is None else older.row.next_offset))
