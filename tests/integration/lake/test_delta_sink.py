"""DeltaSink without Kafka: the suite, changes of rows and columns, and claims. polars reads the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest
from deltalake.exceptions import CommitFailedError

from airflow_provider_connect.connectors.lake.delta_offsets import DeltaOffsets
from airflow_provider_connect.connectors.lake.delta_session import DeltaSession
from airflow_provider_connect.connectors.lake.delta_settings import DeltaSettings
from airflow_provider_connect.connectors.lake.delta_sink import DeltaSinkConnector
from airflow_provider_connect.connectors.lake.unwritten_fields import UnwrittenFields
from airflow_provider_connect.data.schema import (
    FLOAT64_SCHEMA,
    INT32_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
)
from airflow_provider_connect.errors import ConfigException, ConnectException, FencedException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.datasets import Dataset
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.delta_zombies import MODES, UPSERT, deliver, opened, wake_within_a_commit
from tests.integration.lake.notes import PARTITION, NotesSuite, batches, note


class TestDeltaSink(NotesSuite):
    connector_class = DeltaSinkConnector
    lines_between_kills = 5

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "notes"

    def config(self) -> dict[str, str]:
        own = {"name": "suite", "topics": "suite", "delta.table.path": str(self.path), "delta.table.auto-create-enabled": "true"}
        return own | {"max.retries": "2"} | self.settings

    def delivered(self) -> list[Any]:
        return delta_rows(self.path)


class TestDeltaSinkUpsert(TestDeltaSink):
    lines_between_kills = 23
    settings: ClassVar[dict[str, str]] = UPSERT


class TestDeltaSinkAtLeastOnce(TestDeltaSink):
    exactly_once = False


def config(folder: Path, **more: str) -> dict[str, str]:
    own = {"name": "sink", "topics": "notes", "delta.table.path": str(folder / "notes"), "delta.table.auto-create-enabled": "true"}
    return own | {"max.retries": "0"} | more


def test_the_last_change_of_each_key_counts_and_a_tombstone_deletes(tmp_path: Path) -> None:
    settings = config(tmp_path, **UPSERT)
    deliver(settings, batches([note(1, "a"), note(2, "b"), note(1, "c"), note(3, "d")]))
    assert delta_rows(tmp_path / "notes") == [note(1, "c"), note(2, "b"), note(3, "d")]
    deliver(settings, batches([None, note(2, "e"), note(4)], first=4), claim_epoch=2)
    assert delta_rows(tmp_path / "notes") == [note(2, "e"), note(3, "d"), note(4)]
    deliver(settings, batches([None], first=7), claim_epoch=3)
    deliver(settings, batches([note(1, "again")], first=8), claim_epoch=4)
    assert [row["id"] for row in delta_rows(tmp_path / "notes")] == [1, 2, 3, 4]


def test_columns_are_added_and_a_new_table_is_partitioned(tmp_path: Path) -> None:
    settings = config(tmp_path) | {"delta.table.evolve-schema-enabled": "true", "delta.table.partition-by": "text"}
    wide = Schema.struct({"id": INT32_SCHEMA, "text": STRING_SCHEMA, "price": FLOAT64_SCHEMA, "at": TIMESTAMP_SCHEMA.as_optional()})
    deliver(settings, batches([note(1, "a"), note(2, "b")]))
    deliver(settings, batches([{"id": 3, "text": "c", "price": 1.5}], wide, first=2), claim_epoch=2)
    assert [row["price"] for row in delta_rows(tmp_path / "notes")] == [None, None, 1.5]
    assert {path.name for path in (tmp_path / "notes").iterdir()} >= {"text=a", "text=b", "text=c"}
    frame = pl.read_delta(str(tmp_path / "notes"))
    assert frame.schema["at"] == pl.Datetime("us", "UTC")
    (tmp_path / "times").mkdir()
    with pytest.raises(ConnectException, match="Delta has no type for the field at"):
        deliver(config(tmp_path / "times"), batches([{"at": None}], Schema.struct({"at": TIME_SCHEMA.as_optional()})))


def test_the_first_records_of_two_tasks_at_least_once_do_not_replace_each_other(tmp_path: Path) -> None:
    """Both have read the table before it has columns."""
    sessions = []
    for _ in range(2):
        settings = DeltaSettings.of(DeltaSinkConnector.task_config(config(tmp_path)), ALL_ALLOWED)
        sessions.append(DeltaSession(settings, ALL_ALLOWED, DeltaOffsets("sink", ()), UnwrittenFields("sink", "evolve")))
    for number, session in enumerate(sessions):
        session.write(batches([note(number)])[0])
    sessions[0].commit()
    with pytest.raises(CommitFailedError):
        sessions[1].commit()
    sessions[1].begin()
    sessions[1].write(batches([note(1)])[0])
    sessions[1].commit()
    assert delta_rows(tmp_path / "notes") == [note(0), note(1)]


def test_lineage_names_the_table_once_it_has_rows(tmp_path: Path) -> None:
    calls = opened(config(tmp_path))
    assert list(calls.task.datasets()) == []
    calls.put(batches([note(1, "a")])[0])
    calls.commit()
    assert list(calls.task.datasets()) == [Dataset("file", str((tmp_path / "notes").resolve()), {"id": "int64", "text": "string"})]


def test_of_two_zombies_neither_writes(tmp_path: Path) -> None:
    settings = config(tmp_path)
    first, second = opened(settings, 1), opened(settings, 2)
    first.put(batches([note(1)])[0])
    second.put(batches([note(2)])[0])
    newest = opened(settings, 3)
    with pytest.raises(FencedException):
        first.commit()
    newest.put(batches([note(3)])[0])
    newest.commit()
    with pytest.raises(FencedException):
        second.commit()
    assert delta_rows(tmp_path / "notes") == [note(3)]
    with pytest.raises(FencedException):
        opened(settings, 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_zombie_that_wakes_within_its_commit_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    before = wake_within_a_commit(config(tmp_path) | {"max.retries": "3"}, mode, monkeypatch)
    assert note(9) not in delta_rows(tmp_path / "notes")
    assert len(delta_rows(tmp_path / "notes")) == 1 + before


def test_offsets_that_an_admin_sets_hold_and_fence(tmp_path: Path) -> None:
    settings = config(tmp_path)
    deliver(settings, batches([note(1), note(2)]))
    calls, connector = opened(settings, 2), DeltaSinkConnector()
    connector.allowed_paths = AllowedPaths((str(tmp_path),))
    assert connector.alter_offsets(settings, {PARTITION: 1})
    calls.put(batches([note(3)], first=2)[0])
    with pytest.raises(FencedException):
        calls.commit()
    assert opened(settings, 3).start == {PARTITION: 1}
    assert connector.alter_offsets(settings, {PARTITION: None})
    assert opened(settings, 4).start == {}


def test_offsets_outlive_checkpoints_and_other_writers(tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    settings = config(tmp_path)
    deliver(settings, batches([note(1), note(2)]))
    calls = opened(settings, 2)
    table = DeltaTable(tmp_path / "notes")
    write_deltalake(table, table.to_pyarrow_table(), mode="append")
    table.create_checkpoint()
    calls.put(batches([note(3)], first=2)[0])
    calls.commit()
    table.optimize.compact()
    DeltaTable(tmp_path / "notes").create_checkpoint()
    assert opened(settings, 3).start == {PARTITION: 3}
    assert [row["id"] for row in delta_rows(tmp_path / "notes")] == [1, 1, 2, 2, 3]


REFUSED = {
    "outside": ({"delta.table.path": "/etc/delta"}, "delta.table.path"),
    "a store of another kind": ({"delta.table.path": "gs://bucket/table"}, "delta.table.path"),
    "no keys": ({"delta.table.path": "s3://bucket/table"}, "aws.access.key.id"),
    "a URL": ({"delta.table.path": "file:///etc/delta"}, "delta.table.path"),
    "a relative path": ({"delta.table.path": "delta"}, "delta.table.path"),
    "no key": ({"delta.table.upsert-mode-enabled": "true"}, "delta.table.id-columns"),
}


@pytest.mark.parametrize(("change", "key"), REFUSED.values(), ids=REFUSED)
def test_paths_outside_and_settings_without_sense_are_refused(tmp_path: Path, change: dict[str, str], key: str) -> None:
    connector = DeltaSinkConnector()
    connector.allowed_paths = AllowedPaths((str(tmp_path),))
    assert not any(value.errors for value in connector.validate(config(tmp_path)))
    assert [value.name for value in connector.validate(config(tmp_path) | change) if value.errors] == [key]
    with pytest.raises(ConfigException, match=key):
        connector.start(connector.config_def.parse(config(tmp_path) | change))


@pytest.mark.parametrize("form", ["file://{}", "link.parquet"])
def test_a_log_that_names_a_file_of_the_host_reads_nothing(tmp_path: Path, form: str) -> None:
    inside, secret = tmp_path / "inside", tmp_path / "secret.parquet"
    settings, allowed = config(inside, **UPSERT), AllowedPaths((str(inside),))
    inside.mkdir()
    deliver(settings, batches([note(1)]), allowed_paths=allowed)
    pl.DataFrame([note(2, "secret")]).write_parquet(secret)
    (inside / "notes" / "link.parquet").symlink_to(secret)
    add = {"path": form.format(secret), "partitionValues": {}, "size": secret.stat().st_size, "modificationTime": 0, "dataChange": True}
    number = len(list((inside / "notes" / "_delta_log").glob("*.json")))
    (inside / "notes" / "_delta_log" / f"{number:020}.json").write_text(json.dumps({"add": add}))
    with pytest.raises(ConfigException, match="may only use files"):
        deliver(settings, batches([note(3)], first=1), claim_epoch=2, allowed_paths=allowed)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    for guarantee in (True, False):
        with pytest.raises(ConfigException, match="auto-create-enabled"):
            deliver(config(tmp_path) | {"delta.table.auto-create-enabled": "false"}, batches([note(1)]), exactly_once=guarantee)
