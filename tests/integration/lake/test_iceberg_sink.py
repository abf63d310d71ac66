"""IcebergSink without Kafka: changes of rows and columns, several tables, claims, and configs that would reach the host."""

from __future__ import annotations

import datetime
import json
import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from airflow_provider_connect.connectors.lake.iceberg_sink import IcebergSinkConnector
from airflow_provider_connect.data.records import SinkRecord
from airflow_provider_connect.data.schema import (
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
)
from airflow_provider_connect.errors import ConfigException, ConnectException, FencedException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.task import CommitStep
from airflow_provider_connect.sdk.testing import Fault, run
from tests.integration.lake import notes
from tests.integration.lake.notes import KEY, PARTITION, batches, note
from tests.integration.lake.tables import catalog_of, rows_of, table_of

UPSERT = {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.default-id-columns": "id"}
deliver, opened = partial(notes.deliver, IcebergSinkConnector), partial(notes.opened, IcebergSinkConnector)


def config(folder: Path, **more: str) -> dict[str, str]:
    own = {"name": "sink", "topics": "notes", "iceberg.tables": "shop.notes", "iceberg.tables.auto-create-enabled": "true"}
    return own | catalog_of(folder) | {"max.retries": "0"} | more


def ids(folder: Path, name: str = "shop.notes") -> list[int]:
    return sorted(row["id"] for row in rows_of(folder, name))


def test_the_last_change_of_each_key_counts_and_a_tombstone_deletes(tmp_path: Path) -> None:
    settings = config(tmp_path, **UPSERT)
    deliver(settings, batches([note(1, "a"), note(2, "b"), note(1, "c"), note(3, "d")]))
    assert sorted(rows_of(tmp_path, "shop.notes"), key=lambda row: row["id"]) == [note(1, "c"), note(2, "b"), note(3, "d")]
    deliver(settings, batches([None, note(2, "e"), note(4)], first=4), claim_epoch=2)
    assert sorted(rows_of(tmp_path, "shop.notes"), key=lambda row: row["id"]) == [note(2, "e"), note(3, "d"), note(4)]
    deliver(settings, batches([None, note(1, "again")], first=7), claim_epoch=3)
    assert ids(tmp_path) == [1, 2, 3, 4]


def test_a_key_of_two_columns_changes_no_other_row(tmp_path: Path) -> None:
    settings = config(tmp_path, **UPSERT) | {"iceberg.tables.default-id-columns": "id,text"}
    deliver(settings, batches([note(1, "a"), note(1, "b"), note(2, "a"), note(2, "b")]))
    deliver(settings, batches([note(1, "a"), note(2, "b"), note(3, "a")], first=4), claim_epoch=2)
    rows = sorted((row["id"], row["text"]) for row in rows_of(tmp_path, "shop.notes"))
    assert rows == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a")]


def test_a_null_in_a_key_is_a_bad_record_and_the_others_arrive(tmp_path: Path) -> None:
    schema = Schema.struct({"id": INT64_SCHEMA.as_optional(), "text": STRING_SCHEMA.as_optional()})
    settings = config(tmp_path, **UPSERT) | {"errors.tolerance": "all"}
    records = [SinkRecord("notes", 0, n, None, {"id": id, "text": "x"}, None, schema) for n, id in enumerate([1, None, 3])]
    done = run(IcebergSinkConnector(), settings, batches=Batch.from_sink_records(records), exactly_once=True)
    assert ids(tmp_path) == [1, 3]
    assert done.reporter.offsets == [1]


def test_tombstones_add_no_row_to_a_table_that_is_appended_to(tmp_path: Path) -> None:
    deliver(config(tmp_path), batches([note(1), None, note(2)]))
    assert ids(tmp_path) == [1, 2]


WIDE = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional(), "price": FLOAT64_SCHEMA})


def test_columns_are_added_and_widened(tmp_path: Path) -> None:
    settings = config(tmp_path) | {"iceberg.tables.evolve-schema-enabled": "true"}
    narrow = Schema.struct({"id": INT16_SCHEMA})
    deliver(settings, batches([{"id": 1}], narrow))
    assert str(table_of(tmp_path, "shop.notes").schema().find_type("id")) == "int"
    deliver(settings, batches([{"id": 2**40, "text": "b", "price": 1.5}], WIDE, first=1), claim_epoch=2)
    deliver(settings, batches([{"id": 3}], narrow, first=2), claim_epoch=3)
    table = table_of(tmp_path, "shop.notes")
    assert [str(column) for column in table.schema().columns] == [
        "1: id: required long",
        "2: text: optional string",
        "3: price: optional double",
    ]
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert rows == [
        {"id": 1, "text": None, "price": None},
        {"id": 3, "text": None, "price": None},
        {"id": 2**40, "text": "b", "price": 1.5},
    ]


def test_without_evolution_other_fields_are_left_out_and_wide_numbers_are_bad_records(tmp_path: Path) -> None:
    deliver(config(tmp_path), batches([{"id": 1}], Schema.struct({"id": INT32_SCHEMA})))
    with pytest.raises(ConnectException, match=r"Column id \(int32\)"):
        deliver(config(tmp_path), batches([{"id": 2**40}], KEY, first=1), claim_epoch=2)
    deliver(config(tmp_path), batches([note(2, "x")], first=1), claim_epoch=3)
    assert rows_of(tmp_path, "shop.notes") == [{"id": 2}, {"id": 1}]


def test_a_new_table_has_the_partitions_types_and_docs_of_its_schema(tmp_path: Path) -> None:
    inner = Schema.struct({"x": INT16_SCHEMA, "of": Schema.array(Schema.map(STRING_SCHEMA, TIME_SCHEMA))})
    schema = Schema.struct({"id": Schema.of(INT64_SCHEMA.type, doc="the number"), "at": TIMESTAMP_SCHEMA, "inner": inner})
    at, noon = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), datetime.time(12)
    value = {"id": 7, "at": at, "inner": {"x": 1, "of": [{"a": noon}]}}
    settings = config(tmp_path) | {"iceberg.table.shop.notes.partition-by": "days(at), bucket(id, 4)", "offsets.table": "x.offsets"}
    deliver(settings, batches([value, value | {"at": at + datetime.timedelta(days=1)}], schema))
    table = table_of(tmp_path, "shop.notes")
    assert [str(field.transform) for field in table.spec().fields] == ["day", "bucket[4]"]
    assert table.schema().find_field("id").doc == "the number"
    assert len(list(table.scan().plan_files())) == 2
    found = min(table.scan().to_arrow().to_pylist(), key=lambda row: row["at"])
    assert found == {"id": 7, "at": at, "inner": {"x": 1, "of": [[("a", noon)]]}}


# Several tables


ROUTED = {
    "iceberg.tables": "shop.even,shop.odd",
    "iceberg.tables.route-field": "text",
    "iceberg.table.shop.even.route-regex": "even|both",
    "iceberg.table.shop.odd.route-regex": "(odd|both)",
}


def test_records_go_to_the_tables_that_their_field_selects(tmp_path: Path) -> None:
    deliver(config(tmp_path) | ROUTED, batches([note(1, "odd"), note(2, "even"), note(3, "both"), note(4, "none"), note(5)]))
    assert (ids(tmp_path, "shop.even"), ids(tmp_path, "shop.odd")) == ([2, 3], [1, 3])


def test_lineage_names_the_tables_that_have_got_rows(tmp_path: Path) -> None:
    calls = opened(config(tmp_path) | ROUTED)
    calls.put(batches([note(1, "odd"), note(3, "none")])[0])
    calls.commit()
    location = table_of(tmp_path, "shop.odd").location().removeprefix("file://")
    assert list(calls.task.datasets()) == [Dataset("file", location, {"id": "long", "text": "string"})]


def dynamic(folder: Path) -> dict[str, str]:
    settings = config(folder) | {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "text"}
    del settings["iceberg.tables"]
    return settings


def test_records_name_their_tables(tmp_path: Path) -> None:
    settings = dynamic(tmp_path) | {"errors.tolerance": "all"}
    values = [note(1, "Shop.A"), note(2, "shop.b"), note(3, "../../x.y"), note(4), note(5, "shop.a")]
    done = run(IcebergSinkConnector(), settings, batches=batches(values), exactly_once=True)
    assert (ids(tmp_path, "shop.a"), ids(tmp_path, "shop.b")) == ([1, 5], [2])
    assert done.reporter.offsets == [2, 3]


@pytest.mark.parametrize("table", ["shop.even", "shop.odd"])
def test_a_kill_between_the_commits_of_several_tables_loses_and_doubles_nothing(tmp_path: Path, table: str) -> None:
    """One fault for every second line of a commit; the table is named only to read it."""
    names, claim, settings = ("shop.even", "shop.odd"), 0, config(tmp_path) | ROUTED
    count, killed_runs = 0, 0
    for line in range(0, 30, 2):
        records = batches([note(count + n, ("even", "odd", "both")[n % 3]) for n in range(6)], first=count)
        killed = run(
            IcebergSinkConnector(),
            settings,
            batches=records,
            exactly_once=True,
            claim_epoch=claim,
            fault=Fault(CommitStep.PRE_COMMIT, line=line),
        )
        killed_runs += killed.is_killed
        run(IcebergSinkConnector(), settings, batches=records, exactly_once=True, claim_epoch=claim + 1, offsets=killed.offsets)
        claim, count = claim + 2, count + 6
    assert killed_runs
    skipped = 1 - names.index(table)
    assert ids(tmp_path, table) == [id for id in range(count) if id % 3 != skipped]


def test_offsets_set_back_by_an_admin_bring_the_records_again_to_each_table(tmp_path: Path) -> None:
    settings = config(tmp_path) | ROUTED
    records = batches([note(1, "odd"), note(2, "even"), note(3, "both")])
    deliver(settings, records)
    connector = IcebergSinkConnector()
    connector.allowed_paths = AllowedPaths((str(tmp_path),))
    assert connector.alter_offsets(settings, {PARTITION: 1})
    deliver(settings, records, claim_epoch=2)
    assert (ids(tmp_path, "shop.even"), ids(tmp_path, "shop.odd")) == ([2, 2, 3, 3], [1, 3, 3])


# Claims


def test_of_two_zombies_neither_writes(tmp_path: Path) -> None:
    """The first has written data files when the newer claim comes; the second has not begun its commit."""
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
    assert ids(tmp_path) == [3]
    with pytest.raises(FencedException):
        opened(settings, 2)


@pytest.mark.parametrize("attempt", ["_stage_changes", "flush"])
def test_a_zombie_that_wakes_within_its_commit_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: str) -> None:
    """The newer claim comes after the zombie has read the claims and before its change reaches the catalog."""
    from airflow_provider_connect.connectors.lake.iceberg_table import TableWriter

    settings = config(tmp_path)
    zombie = opened(settings, 1)
    real = getattr(TableWriter, attempt)

    def slow(writer: TableWriter, *arguments: Any) -> Any:
        monkeypatch.setattr(TableWriter, attempt, real)
        result = real(writer, *arguments)
        newest = opened(settings, 2)
        newest.put(batches([note(3)])[0])
        newest.commit()
        return result

    monkeypatch.setattr(TableWriter, attempt, slow)
    zombie.put(batches([note(1)])[0])
    with pytest.raises(FencedException):
        zombie.commit()
    assert ids(tmp_path) == [3]


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_commit_that_went_through_and_is_reported_as_failed_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exactly_once: bool
) -> None:
    real = SqlCatalog.commit_table

    def unlucky(catalog: SqlCatalog, *arguments: Any) -> Any:
        real(catalog, *arguments)
        raise CommitFailedException("the answer was lost")

    monkeypatch.setattr(SqlCatalog, "commit_table", unlucky)
    deliver(config(tmp_path), batches([note(1), note(2)]), exactly_once=exactly_once)
    assert ids(tmp_path) == [1, 2]


def test_another_writers_snapshots_and_their_expiry_change_no_offset(tmp_path: Path) -> None:
    settings = config(tmp_path)
    deliver(settings, batches([note(1), note(2)]))
    table = table_of(tmp_path, "shop.notes")
    for _ in range(3):
        table.append(table.scan().to_arrow().slice(0, 1))
    table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in table.snapshots()[:-1]]).commit()
    assert len(table_of(tmp_path, "shop.notes").snapshots()) == 1
    calls = opened(settings, 2)
    assert calls.start == {PARTITION: 2}
    table.refresh().append(table.scan().to_arrow().slice(0, 1))  # the head is another one than the task has read
    calls.put(batches([note(3)], first=2)[0])
    calls.commit()
    assert len(ids(tmp_path)) == 7  # four are the other writer's
    assert set(ids(tmp_path)) == {1, 2, 3}


def test_rows_that_a_rollback_has_removed_come_again(tmp_path: Path) -> None:
    settings = config(tmp_path)
    deliver(settings, batches([note(1), note(2)]))
    good = table_of(tmp_path, "shop.notes").current_snapshot()
    deliver(settings, batches([note(3), note(4)], first=2), claim_epoch=2)
    assert good is not None
    table_of(tmp_path, "shop.notes").manage_snapshots().rollback_to_snapshot(good.snapshot_id).commit()
    assert ids(tmp_path) == [1, 2]
    calls = opened(settings, 3)
    assert calls.start == {PARTITION: 2}
    calls.put(batches([note(3), note(4)], first=2)[0])
    calls.commit()
    assert ids(tmp_path) == [1, 2, 3, 4]


# What a config may not do


HOSTILE = {
    "iceberg.catalog.py-catalog-impl": "os.system",
    "iceberg.catalog.py-io-impl": "os.system",
    "iceberg.catalog.rest.sigv4-enabled": "true",
    "iceberg.catalog.auth.impl": "os.system",
    "iceberg.catalog.ssl.cabundle": "/etc/passwd",
    "iceberg.catalog.s3.role-arn": "arn:aws:iam::1:role/x",
    "iceberg.catalog.client.access-key-id": "x",
    "iceberg.catalog.echo": "debug",
}


@pytest.mark.parametrize("key", HOSTILE)
def test_options_that_reach_the_host_are_refused_by_name(tmp_path: Path, key: str) -> None:
    values = IcebergSinkConnector().validate(config(tmp_path) | {key: HOSTILE[key]})
    assert [value.name for value in values if value.errors] == [key]


REFUSED = {
    "a file outside": {"iceberg.catalog.uri": "jdbc:sqlite:/etc/catalog.db"},
    "an option of SQLite": {"iceberg.catalog.uri": "sqlite:///file:/tmp/x?vfs=unix-none&uri=true"},
    "a socket": {"iceberg.catalog.uri": "jdbc:postgresql:///x?host=/var/run/postgresql"},
    "a file of libpq": {"iceberg.catalog.uri": "jdbc:postgresql://h/x?sslkey=/root/key"},
    "another database": {"iceberg.catalog.uri": "mysql+pymysql://h/x?read_default_file=/x"},
    "a REST catalog in a file": {"iceberg.catalog.type": "rest", "iceberg.catalog.uri": "file:///etc"},
    "a warehouse outside": {"iceberg.catalog.warehouse": "/etc"},
    "a warehouse as a URL of a file": {"iceberg.catalog.warehouse": "file:///etc"},
    "a warehouse in another store": {"iceberg.catalog.warehouse": "gs://bucket/lake"},
    "a relative warehouse": {"iceberg.catalog.warehouse": "lake"},
    "a name that leads out": {"iceberg.tables": "..etc.x"},
    "no catalog": {"iceberg.catalog.type": "hadoop"},
    "no partition spec": {"iceberg.tables.default-partition-by": "week(at)"},
    "two partitions of a column": {"iceberg.tables.default-partition-by": "day(at),hour(at)"},
    "no key": {"iceberg.tables.upsert-mode-enabled": "true"},
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_addresses_outside_and_settings_without_sense_are_refused(tmp_path: Path, change: dict[str, str]) -> None:
    connector = IcebergSinkConnector()
    connector.allowed_paths = AllowedPaths((str(tmp_path),))
    assert not any(value.errors for value in connector.validate(config(tmp_path)))
    found = [error for value in connector.validate(config(tmp_path) | change) for error in value.errors]
    assert len(found) == 1, found
    with pytest.raises(ConfigException):
        connector.start(connector.config_def.parse(config(tmp_path) | change))


def test_a_table_that_lies_outside_or_loads_code_is_not_written_to(tmp_path: Path) -> None:
    """Its location and its properties are its author's, not the config's."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    settings = config(inside) | {"iceberg.tables": "shop.notes"}
    deliver(settings, [])
    catalog = table_of(inside, "shop.notes").catalog
    catalog.create_namespace("far")
    catalog.create_table("far.notes", table_of(inside, "shop.notes").schema(), location=str(outside / "notes"))
    catalog.create_table("shop.code", table_of(inside, "shop.notes").schema())
    file = Path(catalog.load_table("shop.code").metadata_location.removeprefix("file://"))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"properties": {"write.py-location-provider.impl": "os.system"}}))
    before = sorted(str(path) for path in outside.rglob("*"))
    for name, reason in (("far.notes", "may only use files"), ("shop.code", "loads code")):
        with pytest.raises(ConfigException, match=reason):
            deliver(settings | {"iceberg.tables": name}, batches([note(1)]), allowed_paths=AllowedPaths((str(inside),)))
    assert sorted(str(path) for path in outside.rglob("*")) == before


def test_a_catalog_that_names_a_file_of_the_host_as_metadata_reads_nothing(tmp_path: Path) -> None:
    inside, secret = tmp_path / "inside", tmp_path / "secret.metadata.json"
    inside.mkdir()
    deliver(config(inside), batches([note(1)]))
    file = table_of(inside, "shop.notes").metadata_location.removeprefix("file://")
    secret.write_text(Path(file).read_text())
    with closing(sqlite3.connect(inside / "catalog.db")) as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", (str(secret),))
        database.commit()
    with pytest.raises(ConfigException, match="may only use files"):
        deliver(config(inside), batches([note(2)], first=1), claim_epoch=2, allowed_paths=AllowedPaths((str(inside),)))


def test_credentials_of_the_host_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "the host's")
    with pytest.raises(ConfigException, match="access-key-id"):
        deliver(config(tmp_path) | {"iceberg.catalog.warehouse": "s3://bucket/x"}, batches([note(1)]))
    assert os.environ["AWS_ACCESS_KEY_ID"] == "the host's"


def test_a_missing_table_and_values_without_a_schema_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match=r"iceberg\.tables\.auto-create-enabled"):
        deliver(config(tmp_path) | {"iceberg.tables.auto-create-enabled": "false"}, batches([note(1)]))
    records = Batch.from_sink_records([SinkRecord("notes", 0, 0, value="text", value_schema=STRING_SCHEMA)])
    with pytest.raises(ConnectException, match="rows are structs"):
        deliver(config(tmp_path), records)
