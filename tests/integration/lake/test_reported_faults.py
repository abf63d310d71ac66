"""Faults that users of other sinks into Iceberg and Delta have reported, tried on ours (docs/contract.md §15). Each names its report."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from airflow_provider_connect.connectors.lake.delta_sink import DeltaSinkConnector
from airflow_provider_connect.connectors.lake.iceberg_sink import IcebergSinkConnector
from airflow_provider_connect.data.records import SinkRecord
from airflow_provider_connect.data.schema import (
    DATE_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.testing import run
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.delta_zombies import UPSERT, deliver
from tests.integration.lake.notes import batches
from tests.integration.lake.tables import table_of
from tests.integration.lake.test_delta_sink import config
from tests.integration.lake.test_iceberg_sink import config as iceberg_config
from tests.integration.lake.test_iceberg_sink import deliver as deliver_iceberg

EVOLVE: Final = {"delta.table.evolve-schema-enabled": "true"}
CODE: Final = Schema.struct({"id": INT64_SCHEMA, "code": STRING_SCHEMA})
WIDE: Final = Schema.struct({"id": INT64_SCHEMA, "code": STRING_SCHEMA, "date": STRING_SCHEMA})
DAY: Final = datetime.date(2024, 11, 25)
AT: Final = datetime.datetime(2024, 11, 25, 9, 44, 46, 660_000, datetime.UTC)


def sent(folder: Path, settings: dict[str, str], *runs: list[Batch]) -> list[dict[str, Any]]:
    for number, records in enumerate(runs, 1):
        deliver(config(folder) | settings, records, claim_epoch=number)
    return delta_rows(folder / "notes")


@pytest.mark.parametrize("partition", ["", "code"])
def test_an_upsert_adds_a_column_to_a_partitioned_table(tmp_path: Path, partition: str) -> None:
    """delta-rs 3943 (a duplicate field), 2355 (the new column is missing)."""
    settings = EVOLVE | UPSERT | {"delta.table.partition-by": partition}
    first = batches([{"id": 1, "code": "12"}], CODE)
    second = batches([{"id": 1, "code": "12", "date": "2018"}, {"id": 2, "code": "23", "date": "2019"}], WIDE, first=1)
    assert sent(tmp_path, settings, first, second) == [
        {"id": 1, "code": "12", "date": "2018"},
        {"id": 2, "code": "23", "date": "2019"},
    ]


def test_a_row_that_changes_its_partition_is_there_once(tmp_path: Path) -> None:
    settings = UPSERT | {"delta.table.partition-by": "code"}
    runs = [batches([{"id": 1, "code": code}], CODE, first=number) for number, code in enumerate("xyx")]
    assert sent(tmp_path, settings, *runs) == [{"id": 1, "code": "x"}]


@pytest.mark.parametrize("partition", ["day", "at", "price"])
def test_rows_of_a_table_with_a_feed_of_changes_are_replaced_in_their_partition(tmp_path: Path, partition: str) -> None:
    """delta-rs 3013 (partitions by dates), 2832 (a feed of changes, and types that are not plain)."""
    columns = [("id", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))]
    columns += [("list", pa.list_(pa.string())), ("price", pa.decimal128(38, 1))]
    properties = {"delta.enableChangeDataFeed": "true"}
    DeltaTable.create(
        str(tmp_path / "notes"), DeltaSchema.from_arrow(pa.schema(columns)), partition_by=[partition], configuration=properties
    )
    fields = {
        "id": INT64_SCHEMA,
        "day": DATE_SCHEMA,
        "at": TIMESTAMP_SCHEMA,
        "list": Schema.array(STRING_SCHEMA),
        "price": decimal_schema(1),
    }

    def value(id: int, text: str) -> dict[str, Any]:
        return {"id": id, "day": DAY, "at": AT, "list": [text], "price": Decimal("823.0")}

    schema = Schema.struct(fields)
    runs = [batches([value(1, "a"), value(2, "a")], schema), batches([value(1, "b"), value(3, "b")], schema, first=2)]
    for number, records in enumerate(runs, 1):
        deliver(config(tmp_path) | UPSERT, records, claim_epoch=number)
    rows = DeltaTable(str(tmp_path / "notes")).to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == [value(1, "b"), value(2, "a"), value(3, "b")]


@pytest.mark.parametrize("text", ["a/b", "a=b", "a%2Fb", "a:b", "..", "a\\b", "a'b", 'a"b', "\n", "#", "?", " ", "ä"])
def test_texts_of_partitions_that_paths_change_stay(tmp_path: Path, text: str) -> None:
    settings = UPSERT | {"delta.table.partition-by": "code"}
    runs = [batches([{"id": 1, "code": text}, {"id": number, "code": text}], CODE, first=2 * number - 4) for number in (2, 3)]
    assert sent(tmp_path, settings, *runs) == [{"id": id, "code": text} for id in (1, 2, 3)]


def test_microseconds_of_debezium_are_the_instant_that_they_were(tmp_path: Path) -> None:
    """getindata/kafka-connect-iceberg-sink 8, memiiso/debezium-server-iceberg 506. A new column is a long, as in Apache's sink."""
    micro = Schema.of(INT64_SCHEMA.type, name="io.debezium.time.MicroTimestamp")
    number = int(AT.timestamp() * 1_000_000)
    records = batches([{"id": 1, "at": number}], Schema.struct({"id": INT64_SCHEMA, "at": micro}))
    deliver_iceberg(iceberg_config(tmp_path) | {"iceberg.tables": "shop.new"}, records)
    assert table_of(tmp_path, "shop.new").scan().to_arrow().to_pylist() == [{"id": 1, "at": number}]
    deliver_iceberg(iceberg_config(tmp_path), batches([{"id": 0, "at": AT}], Schema.struct({"id": INT64_SCHEMA, "at": TIMESTAMP_SCHEMA})))
    deliver_iceberg(iceberg_config(tmp_path), batches([{"id": 1, "at": number}], records[0].value_schema or CODE, first=1), claim_epoch=2)
    assert [row["at"] for row in table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist()] == [AT, AT]


def test_a_timestamp_reaches_a_column_of_longs_as_milliseconds(tmp_path: Path) -> None:
    """apache/iceberg 15344."""
    deliver_iceberg(iceberg_config(tmp_path), batches([{"id": 0, "at": 5}], Schema.struct({"id": INT64_SCHEMA, "at": INT64_SCHEMA})))
    records = batches([{"id": 1, "at": AT}], Schema.struct({"id": INT64_SCHEMA, "at": TIMESTAMP_SCHEMA}), first=1)
    deliver_iceberg(iceberg_config(tmp_path), records, claim_epoch=2)
    found = sorted(row["at"] for row in table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist())
    assert found == [5, int(AT.timestamp() * 1000)]


SMALL: Final = Schema.struct(
    {"id": INT64_SCHEMA, "tiny": INT8_SCHEMA, "in": Schema.struct({"small": INT16_SCHEMA}), "list": Schema.array(INT8_SCHEMA)}
)


@pytest.mark.parametrize("lake", ["iceberg", "delta"])
def test_small_numbers_below_zero_keep_their_sign(tmp_path: Path, lake: str) -> None:
    """apache/flink-cdc 4146: -1 became 65535."""
    value = {"id": 1, "tiny": -1, "in": {"small": -300}, "list": [-128, 127]}
    if lake == "iceberg":
        deliver_iceberg(iceberg_config(tmp_path), batches([value], SMALL))
        assert table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist() == [value]
    else:
        assert sent(tmp_path, {}, batches([value], SMALL)) == [value]


@pytest.mark.parametrize("upsert", [False, True])
@pytest.mark.parametrize("evolve", [False, True])
def test_a_field_that_changes_its_type_is_no_null(tmp_path: Path, evolve: bool, upsert: bool) -> None:
    """delta-io/delta 1551: where columns are added, a value of another type became null."""
    settings = (EVOLVE if evolve else {}) | (UPSERT if upsert else {}) | {"errors.tolerance": "all"}
    deliver(config(tmp_path) | settings, batches([{"id": 1, "code": "12"}], CODE))
    other = Schema.struct({"id": INT64_SCHEMA, "code": Schema.array(INT64_SCHEMA), "more": INT64_SCHEMA})
    number = Schema.struct({"id": INT64_SCHEMA, "code": INT64_SCHEMA})
    records = [
        *batches([{"id": 2, "code": [5], "more": 1}], other, first=1),
        *batches([{"id": 3, "code": 5}], number, first=2),
        *batches([{"id": 4, "code": "x"}], CODE, first=3),
    ]
    done = run(DeltaSinkConnector(), config(tmp_path) | settings, batches=records, exactly_once=True, claim_epoch=2)
    rows = {row["id"]: row["code"] for row in delta_rows(tmp_path / "notes")}
    assert rows.pop(1) == "12"
    assert rows.pop(4) == "x"
    assert None not in rows.values()
    assert {*rows, *(offset + 1 for offset in done.reporter.offsets)} == {2, 3}


@pytest.mark.parametrize("lake", ["iceberg", "delta"])
def test_two_topics_of_one_table_have_positions_of_their_own(tmp_path: Path, lake: str) -> None:
    """delta-io/kafka-delta-ingest, pull request 23: positions were those of a partition, whatever its topic."""
    topics = {"topics": "notes,others"}
    settings, sink = (iceberg_config(tmp_path), IcebergSinkConnector) if lake == "iceberg" else (config(tmp_path), DeltaSinkConnector)

    def records(topic: str, first: int, *ids: int) -> list[Batch]:
        return Batch.from_sink_records(
            SinkRecord(topic, 0, first + number, None, {"id": id, "code": topic}, None, CODE) for number, id in enumerate(ids)
        )

    for number, (topic, first, ids) in enumerate(
        [("notes", 0, (1, 2, 3)), ("others", 0, (4,)), ("others", 1, (5,)), ("notes", 3, (6,))], 1
    ):
        run(sink(), settings | topics, batches=records(topic, first, *ids), exactly_once=True, claim_epoch=number)
    rows = table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist() if lake == "iceberg" else delta_rows(tmp_path / "notes")
    assert sorted((row["id"], row["code"]) for row in rows) == [
        (1, "notes"),
        (2, "notes"),
        (3, "notes"),
        (4, "others"),
        (5, "others"),
        (6, "notes"),
    ]


def test_a_column_that_is_new_has_its_first_value(tmp_path: Path) -> None:
    """apache/iceberg pull request 9641: the record that brought a field had null in it."""
    settings = iceberg_config(tmp_path) | {"iceberg.tables.evolve-schema-enabled": "true"}
    deliver_iceberg(settings, batches([{"id": 1, "code": "a"}], CODE))
    deliver_iceberg(settings, batches([{"id": 2, "code": "b", "date": "2018"}], WIDE, first=1), claim_epoch=2)
    rows = {row["id"]: row["date"] for row in table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist()}
    assert rows == {1: None, 2: "2018"}
