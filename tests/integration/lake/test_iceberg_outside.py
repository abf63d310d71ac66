"""What others do to an IcebergSink's table, some of it within the sink's own commit: each record is there once, comes back where an admin
has taken it out, or is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from pyiceberg.types import LongType, NestedField, StringType

from airflow_provider_connect.connectors.lake.iceberg_table import TableWriter
from airflow_provider_connect.errors import ConfigException, ConnectException, FencedException
from tests.integration.lake.notes import PARTITION, batches, note
from tests.integration.lake.rest_catalog import rest_catalog
from tests.integration.lake.tables import catalog_in, table_of
from tests.integration.lake.test_iceberg_sink import UPSERT, config, deliver, opened

if TYPE_CHECKING:
    from airflow_provider_connect.sdk.testing.calls import SinkCalls

AUDIT: Final = {"iceberg.tables.default-commit-branch": "audit"}
OTHERS: Final = 1000
"""From which on ids are another writer's."""


def ids(folder: Path, ref: str = "main") -> list[int]:
    """The sink's rows on a branch."""
    table = table_of(folder, "shop.notes")
    if ref not in table.metadata.refs:
        return []
    return sorted(row["id"] for row in table.scan().use_ref(ref).to_arrow().to_pylist() if row["id"] < OTHERS)


def add(table: Table, ref: str = "main", **summary: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("text", pa.string())])
    table.append(pa.table({"id": [OTHERS], "text": ["another writer's"]}, schema), branch=ref, snapshot_properties=summary)


def head_of(table: Table) -> Snapshot:
    head = table.refresh().current_snapshot()
    assert head is not None
    return head


def add_many(table: Table) -> None:
    for _ in range(5):
        add(table)


def delete(table: Table) -> None:
    add(table)
    table.delete(f"id >= {OTHERS}")


def expire(table: Table) -> None:
    add(table)
    heads = {each.snapshot_id for each in table.refresh().metadata.refs.values()}
    table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in table.snapshots() if each.snapshot_id not in heads]).commit()
    assert {each.snapshot_id for each in table.refresh().snapshots()} == heads


def tag(table: Table) -> None:
    head = head_of(table).snapshot_id
    table.manage_snapshots().create_tag(head, "kept").create_branch(head, "other").commit()
    add(table, "other")


def add_column(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("more", StringType())


def add_partition(table: Table) -> None:
    with table.update_spec() as update:
        update.add_identity("text")


def roll_back_the_claim(table: Table) -> None:
    table.manage_snapshots().rollback_to_snapshot(head_of(table).parent_snapshot_id or 0).commit()
    add(table)


def remove_properties(table: Table) -> None:
    with table.transaction() as change:
        change.remove_properties("connect.offsets.sink")
    add(table)


def replace(table: Table) -> None:
    """What CREATE OR REPLACE TABLE … AS SELECT does: the table and its properties stay, and its history begins anew, with all rows."""
    rows = table.scan().to_arrow()
    clear(table)
    table.refresh().append(rows)


def clear(table: Table) -> None:
    """CREATE OR REPLACE TABLE without rows."""
    with table.transaction() as change:
        change._apply((RemoveSnapshotRefUpdate.model_validate({"ref-name": "main"}),))


CHANGES: Final = [add, add_many, delete, expire, tag, add_column, add_partition, roll_back_the_claim, remove_properties, replace]


@pytest.fixture(params=["sql", "rest"])
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    if request.param == "sql":
        yield config(tmp_path) | {"max.retries": "3"}
        return
    with rest_catalog(tmp_path) as address:
        yield config(tmp_path) | {
            "max.retries": "3",
            "iceberg.catalog.type": "rest",
            "iceberg.catalog.uri": address,
            "iceberg.catalog.token": "token",
        }


@contextmanager
def within_a_commit(change: Callable[[], Any], times: int = 1) -> Iterator[None]:
    """``change`` comes after the sink has read the table, and before its commit reaches the catalog."""
    left, real = times, TableWriter._stage_changes

    def staged(writer: TableWriter, *arguments: Any) -> None:
        nonlocal left
        real(writer, *arguments)
        if left:
            left -= 1
            change()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableWriter, "_stage_changes", staged)
        yield
    assert not left


def two_then(settings: dict[str, str]) -> SinkCalls:
    """Notes 0 and 1 are there, and a task with a newer claim has taken notes 2 and 3."""
    deliver(settings, batches([note(0), note(1)]))
    calls = opened(settings, 2)
    calls.put(batches([note(2), note(3)], first=2)[0])
    return calls


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_between_claim_and_commit_loses_and_doubles_nothing(tmp_path: Path, settings: dict[str, str], change: Any) -> None:
    calls = two_then(settings)
    with within_a_commit(lambda: change(table_of(tmp_path, "shop.notes"))):
        calls.commit()
    assert ids(tmp_path) == [0, 1, 2, 3]
    add_many(table_of(tmp_path, "shop.notes"))
    expire(table_of(tmp_path, "shop.notes"))
    calls = opened(settings, 3)
    assert calls.start == {PARTITION: 4}
    calls.put(batches([note(4)], first=4)[0])
    calls.commit()
    assert ids(tmp_path) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_between_two_runs_loses_and_doubles_nothing(tmp_path: Path, change: Any) -> None:
    settings = config(tmp_path)
    deliver(settings, batches([note(0), note(1)]))
    opened(settings, 2)
    change(table_of(tmp_path, "shop.notes"))
    calls = opened(settings, 3)
    assert calls.start == {PARTITION: 2}
    calls.put(batches([note(2)], first=2)[0])
    calls.commit()
    assert ids(tmp_path) == [0, 1, 2]


def test_an_upsert_changes_the_rows_that_another_writer_adds_meanwhile(tmp_path: Path, settings: dict[str, str]) -> None:
    settings |= UPSERT
    deliver(settings, batches([note(OTHERS, "old")]))
    calls = opened(settings, 2)
    calls.put(batches([note(OTHERS, "new")], first=1)[0])
    with within_a_commit(lambda: add(table_of(tmp_path, "shop.notes")), times=3):
        calls.commit()
    assert table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist() == [note(OTHERS, "new")]


def test_a_writer_that_is_always_faster_is_named(tmp_path: Path) -> None:
    calls = two_then(config(tmp_path))
    with (
        within_a_commit(lambda: add(table_of(tmp_path, "shop.notes")), times=20),
        pytest.raises(ConnectException, match=r"Other writers of table shop\.notes were faster 20 times"),
    ):
        calls.commit()
    assert ids(tmp_path) == [0, 1]
    assert opened(config(tmp_path), 3).start == {PARTITION: 2}


def recreate(folder: Path, *fields: NestedField) -> None:
    catalog = catalog_in(folder)
    catalog.drop_table("shop.notes")
    catalog.create_table("shop.notes", IcebergSchema(*fields))
    catalog.close()


SWAPPED: Final = (NestedField(1, "text", StringType(), required=False), NestedField(2, "id", LongType(), required=False))
"""The sink's columns under each other's ids."""


def test_a_table_that_is_created_anew_within_a_commit_gets_all_in_the_next_run(tmp_path: Path, settings: dict[str, str]) -> None:
    calls = two_then(settings)
    with within_a_commit(lambda: recreate(tmp_path, *SWAPPED)), pytest.raises(FencedException):
        calls.commit()
    assert ids(tmp_path) == []
    calls = opened(settings, 3)
    assert calls.start == {}
    calls.put(batches([note(id) for id in range(4)])[0])
    calls.commit()
    assert ids(tmp_path) == [0, 1, 2, 3]


def test_at_least_once_too_no_file_reaches_a_table_whose_columns_have_other_ids(tmp_path: Path, settings: dict[str, str]) -> None:
    deliver(settings, batches([note(0)]), exactly_once=False)
    recreate(tmp_path, NestedField(1, "id", LongType(), required=False), NestedField(2, "text", StringType(), required=False))
    with within_a_commit(lambda: recreate(tmp_path, *SWAPPED)):
        deliver(settings, batches([note(1, "a")], first=1), exactly_once=False, claim_epoch=2)
    assert table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist() == [{"text": "a", "id": 1}]


def test_rows_that_are_rolled_back_within_a_commit_come_again(tmp_path: Path, settings: dict[str, str]) -> None:
    deliver(settings, batches([note(0), note(1)]))
    first = head_of(table_of(tmp_path, "shop.notes"))
    deliver(settings, batches([note(2)], first=2), claim_epoch=2)
    calls = opened(settings, 3)
    calls.put(batches([note(3)], first=3)[0])
    back = table_of(tmp_path, "shop.notes").manage_snapshots().rollback_to_snapshot(first.snapshot_id)
    with within_a_commit(back.commit), pytest.raises(FencedException):
        calls.commit()
    calls = opened(settings, 4)
    assert calls.start == {PARTITION: 2}
    calls.put(batches([note(2), note(3)], first=2)[0])
    calls.commit()
    assert ids(tmp_path) == [0, 1, 2, 3]


def test_a_rollback_to_before_the_first_commit_leaves_no_offset_and_the_rows_of_the_other_writer(tmp_path: Path) -> None:
    """So the run refuses: the rows that are left may be the sink's own."""
    settings = config(tmp_path)
    deliver(settings, batches([note(0)]))
    table = table_of(tmp_path, "shop.notes")
    with table.transaction() as change:
        change.remove_properties("connect.offsets.sink")
    clear(table)
    add(table.refresh())
    foreign = head_of(table)
    deliver(settings, batches([note(0), note(1)]), claim_epoch=2)
    assert opened(settings, 3).start == {PARTITION: 2}
    table.refresh().manage_snapshots().rollback_to_snapshot(foreign.snapshot_id).commit()
    calls = opened(settings, 4)
    assert (calls.start, calls.task.holds_records(PARTITION, None)) == ({}, True)


def test_a_snapshot_that_is_cherry_picked_counts_with_its_offset(tmp_path: Path) -> None:
    settings = config(tmp_path)
    deliver(settings, batches([note(0), note(1)]))
    table = table_of(tmp_path, "shop.notes")
    first = head_of(table)
    deliver(settings, batches([note(2)], first=2), claim_epoch=2)
    picked = head_of(table)
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    rows = pa.table({"id": [2], "text": [None]}, pa.schema([pa.field("id", pa.int64(), False), ("text", pa.string())]))
    table.refresh().append(rows, snapshot_properties={"source-snapshot-id": str(picked.snapshot_id)})
    assert opened(settings, 3).start == {PARTITION: 3}
    assert ids(tmp_path) == [0, 1, 2]


def test_a_table_that_is_replaced_by_an_empty_one_goes_on(tmp_path: Path) -> None:
    settings = config(tmp_path)
    deliver(settings, batches([note(0), note(1)]))
    clear(table_of(tmp_path, "shop.notes"))
    assert ids(tmp_path) == []
    calls = opened(settings, 2)
    assert calls.start == {PARTITION: 2}
    calls.put(batches([note(2)], first=2)[0])
    calls.commit()
    assert ids(tmp_path) == [2]
    assert opened(settings, 3).start == {PARTITION: 3}


# Branches


def test_a_branch_begins_at_the_head_of_main_and_is_published(tmp_path: Path, settings: dict[str, str]) -> None:
    deliver(settings, batches([note(0), note(1)]))
    audit = settings | AUDIT
    calls = opened(audit, 2)
    assert calls.start == {}  # main's offsets are not the branch's; a run goes on from the group's
    calls.put(batches([note(2), note(3)], first=2)[0])
    with within_a_commit(lambda: tag(table_of(tmp_path, "shop.notes"))):
        calls.commit()
    assert (ids(tmp_path), ids(tmp_path, "audit")) == ([0, 1], [0, 1, 2, 3])
    table_of(tmp_path, "shop.notes").manage_snapshots().set_current_snapshot(ref_name="audit").commit()
    assert ids(tmp_path) == [0, 1, 2, 3]
    add_many(table_of(tmp_path, "shop.notes"))
    table_of(tmp_path, "shop.notes").manage_snapshots().remove_branch("audit").commit()
    calls = opened(audit, 3)
    assert calls.start == {PARTITION: 4}
    calls.put(batches([note(4)], first=4)[0])
    calls.commit()
    assert (ids(tmp_path), ids(tmp_path, "audit")) == ([0, 1, 2, 3], [0, 1, 2, 3, 4])


def test_a_branch_that_is_dropped_before_it_was_published_gets_its_rows_again(tmp_path: Path) -> None:
    settings = config(tmp_path)
    deliver(settings, batches([note(0)]))
    deliver(settings | AUDIT, batches([note(1), note(2)], first=1), claim_epoch=2)
    add(table_of(tmp_path, "shop.notes"))
    table_of(tmp_path, "shop.notes").manage_snapshots().remove_branch("audit").commit()
    assert opened(settings | AUDIT, 3).start == {}
    assert opened(settings, 4).start == {PARTITION: 1}


def test_a_zombie_on_a_branch_writes_nothing(tmp_path: Path) -> None:
    settings = config(tmp_path) | AUDIT
    old, new = opened(settings, 1), opened(settings, 2)
    old.put(batches([note(0)])[0])
    new.put(batches([note(1)])[0])
    new.commit()
    with pytest.raises(FencedException):
        old.commit()
    assert (ids(tmp_path), ids(tmp_path, "audit")) == ([], [1])


def test_upserts_change_the_rows_of_their_branch_alone(tmp_path: Path) -> None:
    settings = config(tmp_path, **UPSERT)
    deliver(settings, batches([note(0, "a"), note(1, "a")]))
    deliver(settings | AUDIT, batches([note(1, "b"), note(2, "b")], first=2), claim_epoch=2)
    table = table_of(tmp_path, "shop.notes")
    found = {ref: sorted((row["id"], row["text"]) for row in table.scan().use_ref(ref).to_arrow().to_pylist()) for ref in ("main", "audit")}
    assert found == {"main": [(0, "a"), (1, "a")], "audit": [(0, "a"), (1, "b"), (2, "b")]}


def test_each_of_several_tables_has_its_branch_and_offsets_stay_on_main(tmp_path: Path) -> None:
    settings = config(tmp_path) | {"iceberg.tables": "shop.notes, shop.copies", "iceberg.table.shop.notes.commit-branch": "audit/1"}
    deliver(settings, batches([note(0), note(1)]))
    assert (ids(tmp_path), ids(tmp_path, "audit/1")) == ([], [0, 1])
    assert len(table_of(tmp_path, "shop.copies").scan().to_arrow()) == 2
    assert list(table_of(tmp_path, "connect.sink_offsets").metadata.refs) == ["main"]
    assert opened(settings, 2).start == {PARTITION: 2}


def test_a_tag_is_no_branch(tmp_path: Path) -> None:
    deliver(config(tmp_path), batches([note(0)]))
    tag(table_of(tmp_path, "shop.notes"))
    with pytest.raises(ConfigException, match=r"default-commit-branch: It is a tag of table shop\.notes"):
        opened(config(tmp_path) | {"iceberg.tables.default-commit-branch": "kept"}, 2)
