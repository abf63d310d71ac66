"""What others do to a DeltaSink's table: each change leaves every record there once, brings back what an admin has taken out, or is refused
by name."""

from __future__ import annotations

import datetime
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from airflow_provider_connect.connectors.lake.delta_offsets import DeltaOffsets
from airflow_provider_connect.connectors.lake.delta_session import DeltaSession
from airflow_provider_connect.connectors.lake.delta_settings import DeltaSettings
from airflow_provider_connect.connectors.lake.delta_sink import DeltaSinkConnector
from airflow_provider_connect.connectors.lake.unwritten_fields import UnwrittenFields
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA
from airflow_provider_connect.data.schema import Schema as RecordSchema
from airflow_provider_connect.errors import ConfigException, ConnectException, FencedException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, AllowedPaths
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.delta_zombies import deliver, opened
from tests.integration.lake.notes import PARTITION, batches, note
from tests.integration.lake.test_delta_sink import config

COLUMNS: Final = Schema([Field("id", PrimitiveType("long")), Field("text", PrimitiveType("string"))])


def table(folder: Path) -> DeltaTable:
    return DeltaTable(str(folder / "notes"))


def ids(folder: Path) -> list[int]:
    return [row["id"] for row in delta_rows(folder / "notes")]


def five_and_five(folder: Path) -> list[int]:
    """Two runs of five notes each; returns the table's versions after each."""
    versions = []
    for run in range(2):
        deliver(config(folder), batches([note(5 * run + n) for n in range(5)], first=5 * run), claim_epoch=run + 1)
        versions.append(table(folder).version())
        time.sleep(0.05)  # the next version has a time of its own
    return versions


def goes_on(folder: Path, first: int, claim_epoch: int = 9) -> None:
    """A run that begins at ``first`` and delivers up to note 14."""
    calls = opened(config(folder), claim_epoch)
    assert calls.start == ({} if first == 0 else {PARTITION: first})
    calls.put(batches([note(id) for id in range(first, 15)], first=first)[0])
    calls.commit()


def set_offset(folder: Path, offset: int) -> None:
    connector = DeltaSinkConnector()
    connector.allowed_paths = AllowedPaths((str(folder),))
    assert connector.alter_offsets(config(folder), {PARTITION: offset})


def test_a_restored_table_is_read_again_from_the_offset_of_that_version(tmp_path: Path) -> None:
    first, _ = five_and_five(tmp_path)
    table(tmp_path).restore(first)
    goes_on(tmp_path, 5)
    assert ids(tmp_path) == list(range(15))
    assert opened(config(tmp_path), 10).start == {PARTITION: 15}


def test_a_table_that_is_restored_to_before_its_first_records_begins_anew(tmp_path: Path) -> None:
    five_and_five(tmp_path)
    table(tmp_path).restore(0)
    goes_on(tmp_path, 0)
    assert ids(tmp_path) == list(range(15))


def test_a_table_that_is_restored_there_and_back_lacks_nothing(tmp_path: Path) -> None:
    first, second = five_and_five(tmp_path)
    table(tmp_path).restore(first)
    table(tmp_path).restore(second)
    goes_on(tmp_path, 10)
    assert ids(tmp_path) == list(range(15))


def test_a_restore_is_found_behind_checkpoints_and_commits_of_others(tmp_path: Path) -> None:
    first, _ = five_and_five(tmp_path)
    table(tmp_path).restore(first)
    write_deltalake(table(tmp_path), pa.table({"id": pa.array([100], pa.int64()), "text": ["theirs"]}), mode="append")
    table(tmp_path).create_checkpoint()
    table(tmp_path).optimize.compact()
    goes_on(tmp_path, 5)
    assert ids(tmp_path) == [*range(15), 100]


def test_a_restore_of_which_the_log_does_not_have_the_version_is_refused_until_offsets_are_set(tmp_path: Path) -> None:
    first, _ = five_and_five(tmp_path)
    written = next(entry["timestamp"] for entry in table(tmp_path).history() if entry["version"] == first)
    table(tmp_path).restore(datetime.datetime.fromtimestamp(written / 1000 + 0.02, datetime.UTC))
    with pytest.raises(ConnectException, match=r"was restored in its version \d+, to a timestamp.*PATCH /connectors"):
        opened(config(tmp_path), 3)
    set_offset(tmp_path, 5)
    goes_on(tmp_path, 5)
    assert ids(tmp_path) == list(range(15))


def test_a_restore_while_a_task_runs_is_not_written_over(tmp_path: Path) -> None:
    first, _ = five_and_five(tmp_path)
    calls = opened(config(tmp_path), 3)
    table(tmp_path).restore(first)
    calls.put(batches([note(10)], first=10)[0])
    with pytest.raises(FencedException):
        calls.commit()
    goes_on(tmp_path, 5)
    assert ids(tmp_path) == list(range(15))


def forget_log(folder: Path) -> None:
    """A checkpoint, and the log before it gone by age."""
    table(folder).create_checkpoint()
    for file in (folder / "notes" / "_delta_log").iterdir():
        os.utime(file, (1, 1))
    table(folder).cleanup_metadata()
    assert not (folder / "notes" / "_delta_log" / f"{0:020}.json").exists()


def theirs(folder: Path, mode: Any, **more: Any) -> None:
    rows = pa.table({"id": pa.array([100], pa.int64()), "text": ["theirs"]} | {name: [value] for name, value in more.items()})
    write_deltalake(table(folder), rows, mode=mode, schema_mode="merge" if more else None)


KEPT: Final[dict[str, tuple[Callable[[Path], object], list[int]]]] = {
    "append": (lambda folder: theirs(folder, "append"), [*range(15), 100]),
    "overwrite": (lambda folder: theirs(folder, "overwrite"), [*range(10, 15), 100]),
    "delete": (lambda folder: table(folder).delete("id < 5"), list(range(5, 15))),
    "update": (lambda folder: table(folder).update({"text": "'x'"}), list(range(15))),
    "a new column": (lambda folder: theirs(folder, "append", more=1.5), [*range(15), 100]),
    "compaction": (lambda folder: table(folder).optimize.compact(), list(range(15))),
    "vacuum": (lambda folder: table(folder).vacuum(0, dry_run=False, enforce_retention_duration=False), list(range(15))),
    "replace": (lambda folder: DeltaTable.create(str(folder / "notes"), COLUMNS, mode="overwrite"), list(range(10, 15))),
    "a log that is cleaned up": (forget_log, list(range(15))),
}


@pytest.mark.parametrize(("change", "found"), KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("when", ["between runs", "within a run"])
def test_changes_of_others_stay_and_the_sink_goes_on(tmp_path: Path, change: Callable[[Path], object], found: list[int], when: str) -> None:
    five_and_five(tmp_path)
    calls = opened(config(tmp_path) | {"max.retries": "3"}, 3) if when == "within a run" else None
    change(tmp_path)
    if calls is None:
        goes_on(tmp_path, 10)
    else:
        calls.put(batches([note(id) for id in range(10, 15)], first=10)[0])
        calls.commit()
    assert ids(tmp_path) == found
    assert opened(config(tmp_path), 10).start == {PARTITION: 15}


@pytest.mark.parametrize("another", [False, True], ids=["gone", "another"])
def test_a_table_that_is_dropped_within_a_run_is_fenced_from_it(tmp_path: Path, another: bool) -> None:
    five_and_five(tmp_path)
    calls = opened(config(tmp_path), 3)
    shutil.rmtree(tmp_path / "notes")
    if another:
        DeltaTable.create(str(tmp_path / "notes"), COLUMNS)
    calls.put(batches([note(10)], first=10)[0])
    with pytest.raises(FencedException, match="belongs to no claim now"):
        calls.commit()
    assert ids(tmp_path) == []
    goes_on(tmp_path, 0)
    assert ids(tmp_path) == list(range(15))


def test_a_table_that_takes_the_place_of_another_within_a_commit_gets_nothing_of_it(tmp_path: Path) -> None:
    settings = DeltaSettings.of(DeltaSinkConnector.task_config(config(tmp_path)), ALL_ALLOWED)
    session = DeltaSession(settings, ALL_ALLOWED, DeltaOffsets("sink", ()), UnwrittenFields("sink", "evolve"))
    session.write(batches([note(1)])[0])
    session.commit()
    session.write(batches([note(2)], first=1)[0])
    shutil.rmtree(tmp_path / "notes")
    DeltaTable.create(str(tmp_path / "notes"), COLUMNS)
    with pytest.raises(RetriableException, match=r"The table at .*/notes was replaced"):
        session.commit()
    assert len(list((tmp_path / "notes" / "_delta_log").glob("*.json"))) == 1


def test_a_table_that_forgets_offsets_is_refused(tmp_path: Path) -> None:
    five_and_five(tmp_path)
    table(tmp_path).alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 days"})
    with pytest.raises(ConfigException, match=r"delta\.setTransactionRetentionDuration, which makes it lose offsets"):
        opened(config(tmp_path), 3)


def test_a_column_that_others_have_made_required_refuses_records_without_it(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "notes"), Schema([COLUMNS.fields[0], Field("text", PrimitiveType("string"), nullable=False)]))
    with pytest.raises(ConnectException, match="Column text is required"):
        deliver(config(tmp_path), batches([note(1)]))
    deliver(config(tmp_path), batches([note(1, "a")]), claim_epoch=2)
    assert ids(tmp_path) == [1]


def test_columns_that_are_mapped_to_other_names_are_written_by_those(tmp_path: Path) -> None:
    """By their own names a reader in Java would find nulls."""
    DeltaTable.create(str(tmp_path / "notes"), COLUMNS, configuration={"delta.columnMapping.mode": "name"})
    settings = config(tmp_path) | {"delta.table.evolve-schema-enabled": "true"}
    deliver(settings, batches([note(1, "a")]))
    names = {field.name: field.metadata["delta.columnMapping.physicalName"] for field in table(tmp_path).schema().fields}
    [file] = [path for path in (tmp_path / "notes").rglob("*.parquet") if "_delta_log" not in str(path)]
    assert pyarrow.parquet.read_table(file).to_pylist() == [{names["id"]: 1, names["text"]: "a"}]
    wide = RecordSchema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA, "more": STRING_SCHEMA})
    with pytest.raises(ConfigException, match=r"evolve-schema-enabled: .*delta\.columnMapping\.mode"):
        deliver(settings, batches([note(2, "b") | {"more": "c"}], wide, first=1), claim_epoch=2)
