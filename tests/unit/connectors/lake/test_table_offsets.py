"""Which offset rows hold in an Iceberg table by its history, and what it costs to find out."""

from __future__ import annotations

import time

import pytest

from airflow_provider_connect.connectors.lake.table_offsets import StoredRow, property_name, stored_rows, to_text
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.sdk.offset_row import OffsetRow

pytest.importorskip("pyiceberg")
from pyiceberg.table.metadata import TableMetadataV2

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
NAME = property_name("sink")


def row(offset: int | None, snapshot: int, topic_id: str = "") -> StoredRow:
    return StoredRow(OffsetRow(offset, "claim:1", 1, topic_id), 7, snapshot)


def metadata(
    count: int, current: int, stored: dict[TopicPartition, StoredRow], summaries: dict[int, dict[TopicPartition, StoredRow]]
) -> TableMetadataV2:
    """A table whose snapshots 1 … ``count`` follow each other, and whose head is ``current``."""
    snapshots = [
        {
            "snapshot-id": number,
            "parent-snapshot-id": number - 1 or None,
            "sequence-number": number,
            "timestamp-ms": number,
            "manifest-list": "x",
            "summary": {"operation": "append"} | ({NAME: to_text(summaries[number])} if number in summaries else {}),
        }
        for number in range(1, count + 1)
    ]
    return TableMetadataV2.model_validate(
        {
            "location": "/x",
            "last-column-id": 0,
            "schemas": [{"type": "struct", "fields": [], "schema-id": 0}],
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "properties": {NAME: to_text(stored)},
            "snapshots": snapshots,
            "current-snapshot-id": current,
        }
    )


CASES = {
    "the head": (4, {A: row(40, 4)}, {A: 40}),
    "before the head": (4, {A: row(30, 3), B: row(5, 1)}, {A: 30, B: 5}),
    "expired": (4, {A: row(40, 99)}, {A: 40}),
    "rolled back": (2, {A: row(40, 4), B: row(5, 1)}, {A: 20, B: 5}),
    "rolled back to before the first": (1, {A: row(40, 4), B: row(8, 3)}, {A: None, B: 5}),
}


@pytest.mark.parametrize(("current", "stored", "offsets"), CASES.values(), ids=CASES)
def test_offsets_are_those_of_the_newest_snapshot_in_the_history(
    current: int, stored: dict[TopicPartition, StoredRow], offsets: dict[TopicPartition, int | None]
) -> None:
    summaries = {1: {B: row(5, 1)}, 2: {A: row(20, 2)}, 3: {A: row(30, 3), B: row(8, 3)}, 4: {A: row(40, 4)}}
    found = stored_rows(metadata(4, current, stored, summaries), "sink")
    assert {partition: each.row.next_offset for partition, each in found.items()} == offsets
    assert [each.row.claim for each in found.values()] == ["claim:1"] * len(stored)


@pytest.mark.parametrize(("older", "offset"), [("second", 10), ("first", None)])
def test_after_a_rollback_an_offset_of_an_earlier_topic_of_the_name_is_unknown(older: str, offset: int | None) -> None:
    table = metadata(4, 2, {A: row(40, 4, "second")}, {2: {A: row(10, 2, older)}, 4: {A: row(40, 4, "second")}})
    assert stored_rows(table, "sink")[A].row == OffsetRow(offset, "claim:1", 1, "second")


EXPIRED = {
    "of the head's own ancestors": ([3, 4], 4, (40, 2), 40),
    "abandoned by a rollback": ([1, 2], 2, (40, 4), 20),
    "abandoned, and another writer has gone on": ([1, 2, 5], 5, (40, 4), 20),
    "abandoned before the first that the sink has written": ([1], 1, (40, 4), None),
    "all before the head": ([4], 4, (30, 3), 30),
    "abandoned and kept by a tag, and that which was gone back to has expired": ([4, 5], 5, (40, 4), None),
}


@pytest.mark.parametrize(("kept", "current", "written", "offset"), EXPIRED.values(), ids=EXPIRED)
def test_a_snapshot_that_has_expired_counts_unless_it_was_abandoned(
    kept: list[int], current: int, written: tuple[int, int], offset: int | None
) -> None:
    given, number = written
    stored = {A: StoredRow(OffsetRow(given, "claim:1", 1), 7, number, number)}
    whole = metadata(5, current, stored, {2: {A: row(20, 2)}, 4: {A: row(40, 4)}})
    parents = {5: 2}
    snapshots = [
        each.model_copy(update={"parent_snapshot_id": parents.get(each.snapshot_id, each.parent_snapshot_id)})
        for each in whole.snapshots
        if each.snapshot_id in kept
    ]
    assert stored_rows(whole.model_copy(update={"snapshots": snapshots}), "sink")[A].row.next_offset == offset


def test_a_row_that_is_no_longer_renewed_costs_one_walk_through_a_long_history() -> None:
    count = 10_000
    table = metadata(count, count, {A: row(9, count), B: row(5, 1)}, {number: {A: row(number, number)} for number in range(1, count + 1)})
    begun = time.thread_time()
    found = stored_rows(table, "sink")
    assert time.thread_time() - begun < 0.5
    assert found[B].row.next_offset == 5


def replaced(stored: dict[TopicPartition, StoredRow], current: int | None) -> TableMetadataV2:
    """A table whose snapshots 1 to 3 were replaced by one that begins with 4, or by an empty one."""
    whole = metadata(4, 4, stored, {2: {A: row(20, 2)}})
    snapshots = [each.model_copy(update={"parent_snapshot_id": None}) if each.snapshot_id == 4 else each for each in whole.snapshots]
    return whole.model_copy(update={"snapshots": snapshots, "current_snapshot_id": current})


@pytest.mark.parametrize("current", [4, None])
def test_a_table_that_was_replaced_keeps_its_offsets(current: int | None) -> None:
    assert stored_rows(replaced({A: StoredRow(OffsetRow(20, "claim:1", 1), 7, 2, 2)}, current), "sink")[A].row.next_offset == 20


def test_a_property_that_was_removed_is_replaced_by_the_newest_summary() -> None:
    table = metadata(4, 4, {}, {2: {A: row(20, 2), B: row(5, 2)}, 3: {A: row(30, 3)}})
    assert stored_rows(table, "sink") == {}  # it is there, and empty: the connector has forgotten its offsets
    rows = stored_rows(table.model_copy(update={"properties": {}}), "sink")
    assert {partition: each.row.next_offset for partition, each in rows.items()} == {A: 30, B: 5}


def test_branches_have_properties_of_their_own() -> None:
    names = [property_name("a"), property_name("a", "b"), property_name("b/a", "c"), property_name("a", "c/b"), property_name("b/a")]
    assert names[0] == "connect.offsets.a"
    assert len(set(names)) == len(names)
