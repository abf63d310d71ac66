"""Upserts into Iceberg tables of many files: which files are read, how much at once, and the rows that are left, against a dictionary."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import ArrowScan

from airflow_provider_connect.data.records import SinkRecord
from airflow_provider_connect.data.schema import (
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT64_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from airflow_provider_connect.sdk.batch import Batch
from tests.integration.lake.notes import batches, note
from tests.integration.lake.tables import table_of
from tests.integration.lake.test_iceberg_sink import UPSERT, config, deliver
from tests.samples import sample

FILES, ROWS = 10, 400


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Files, rows and columns of each read of the table."""
    found: list[tuple[int, int, int]] = []
    real = ArrowScan.to_table

    def noted(scan: ArrowScan, tasks: Any) -> Any:
        tasks = list(tasks)
        table = real(scan, tasks)
        found.append((len(tasks), table.num_rows, table.num_columns))
        return table

    monkeypatch.setattr(ArrowScan, "to_table", noted)
    return found


def fill(settings: dict[str, str], value: Callable[[int, int], dict[str, Any]]) -> None:
    """Files with the values of (file, row)."""
    for file in range(FILES):
        records = batches([value(file, row) for row in range(ROWS)], first=file * ROWS)
        deliver(settings, records, claim_epoch=file + 1)


def rows(folder: Path) -> dict[Any, Any]:
    found = table_of(folder, "shop.notes").scan().to_arrow().to_pylist()
    keyed = {row["id"]: row["text"] for row in found}
    assert len(keyed) == len(found)
    return keyed


@pytest.mark.parametrize("count", [200, 201, ROWS])
def test_however_many_keys_change_only_files_that_have_them_are_read(tmp_path: Path, reads: list[tuple[int, int, int]], count: int) -> None:
    settings = config(tmp_path, **UPSERT)
    fill(settings, lambda file, row: note(file * ROWS + row, "old"))
    reads.clear()
    changed = [*range(3 * ROWS, 3 * ROWS + count - 1), 7 * ROWS]  # of two files, with others between them
    deliver(settings, batches([note(id, "new") for id in changed], first=FILES * ROWS), claim_epoch=FILES + 1)
    assert sorted(reads) == [(1, ROWS, 1), (1, ROWS, 1), (1, ROWS, 2), (1, ROWS, 2)]
    assert rows(tmp_path) == {id: "new" if id in changed else "old" for id in range(FILES * ROWS)}


def test_a_key_of_two_columns_reads_one_file_at_a_time(tmp_path: Path, reads: list[tuple[int, int, int]]) -> None:
    """Each value of either column is in each file, and one pair in each."""
    settings = config(tmp_path, **UPSERT) | {"iceberg.tables.default-id-columns": "id,text"}
    fill(settings, lambda file, row: note(row, str((row + file) % ROWS)))
    reads.clear()
    changes = [note(row, str(row)) for row in range(ROWS)]  # all rows of the first file
    deliver(settings, batches(changes, first=FILES * ROWS), claim_epoch=FILES + 1)
    assert max(reads) == (1, ROWS, 2)
    found = table_of(tmp_path, "shop.notes").scan().to_arrow().to_pylist()
    assert len(found) == FILES * ROWS
    assert len({(row["id"], row["text"]) for row in found}) == FILES * ROWS


MONEY = decimal_schema(2, parameters={"scale": "2", "connect.decimal.precision": "12"})
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
KEYS: dict[str, tuple[Schema, Callable[[int], Any], str]] = {
    "int": (INT32_SCHEMA, lambda n: n - 500, ""),
    "buckets": (INT64_SCHEMA, lambda n: n << 40, "bucket(id,4)"),
    "text": (STRING_SCHEMA, lambda n: f"a prefix of more than sixteen bytes \N{SNOWMAN} {n:04}", ""),
    "cut text": (STRING_SCHEMA, lambda n: f"{n:04}", "truncate(id,2)"),
    "bytes": (BYTES_SCHEMA, lambda n: b"\xff" * 20 + n.to_bytes(2), ""),
    "date": (DATE_SCHEMA, lambda n: START.date() + datetime.timedelta(days=n), "months(id)"),
    "time": (TIMESTAMP_SCHEMA, lambda n: START + datetime.timedelta(milliseconds=n * 7_000_000), "days(id)"),
    "decimal": (MONEY, lambda n: Decimal(n * 25 - 9000).scaleb(-2), ""),
    "float": (FLOAT64_SCHEMA, lambda n: float("nan") if n == 0 else n / 8, ""),
}


@pytest.mark.parametrize("kind", sample(KEYS, 0, 3, 6))
def test_rows_by_keys_of_any_type_are_those_of_a_dictionary(tmp_path: Path, kind: str) -> None:
    schema, key, partitions = KEYS[kind]
    key_schema, value_schema = Schema.struct({"id": schema}), Schema.struct({"id": schema, "text": STRING_SCHEMA}).as_optional()
    settings = config(tmp_path, **UPSERT) | ({"iceberg.tables.default-partition-by": partitions} if partitions else {})
    draw, expected, first = random.Random(7), {}, 0
    for epoch in range(1, 6):
        middle, width = draw.randrange(1000), draw.choice([20, 300, 1000])
        changes = [(max(0, min(999, middle + draw.randrange(-width, width))), draw.random() < 0.7) for _ in range(450)]
        records = []
        for offset, (n, stays) in enumerate(changes, first):
            value = {"id": key(n), "text": f"{offset}"} if stays else None
            records.append(SinkRecord("notes", 0, offset, {"id": key(n)}, value, key_schema, value_schema))
            expected[str(key(n))] = value and value["text"]
        deliver(settings, Batch.from_sink_records(records), claim_epoch=epoch)
        first += len(changes)
        assert {str(id): text for id, text in rows(tmp_path).items()} == {id: text for id, text in expected.items() if text is not None}
