"""Tables that the lake's sinks have written, as readers in Java find them: added, partitioned and merged rows, each type of column."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from tests.conftest import CACHE
from tests.integration.lake import test_delta_sink, test_iceberg_sink
from tests.integration.lake.java_readers import read_by_java
from tests.integration.lake.test_nested_fields import write_nested

INNER = Schema.struct({"name": STRING_SCHEMA, "number": INT64_SCHEMA.as_optional()})
TYPES = {
    "small": (INT16_SCHEMA, -7),
    "yes": (BOOLEAN_SCHEMA, True),
    "price": (FLOAT64_SCHEMA, 1.5),
    "money": (decimal_schema(2, parameters={"scale": "2", "connect.decimal.precision": "12"}), Decimal("12345.67")),
    "day": (DATE_SCHEMA, datetime.date(2024, 2, 29)),
    "at": (TIMESTAMP_SCHEMA, datetime.datetime(2024, 2, 29, 12, 30, 0, 123_000, tzinfo=datetime.UTC)),
    "raw": (BYTES_SCHEMA, b"\x00\xff"),
    "tags": (Schema.array(STRING_SCHEMA), ["ä", ""]),
    "inner": (INNER, {"name": "x", "number": None}),
    "missing": (STRING_SCHEMA.as_optional(), None),
}
WIDE = Schema.struct({"id": INT64_SCHEMA} | {name: schema for name, (schema, _) in TYPES.items()})
WIDE_VALUE = {"id": 1} | {name: value for name, (_, value) in TYPES.items()}
WIDE_ROW = {"id": 1, "small": -7, "yes": True, "price": 1.5, "missing": None} | {
    "money": "12345.67",
    "day": "2024-02-29",
    "raw": "b'\\x00\\xff'",
}
SPLIT = {
    test_iceberg_sink: {"iceberg.tables.evolve-schema-enabled": "true", "iceberg.tables.default-partition-by": "bucket(id,2)"},
    test_delta_sink: {"delta.table.evolve-schema-enabled": "true"},
}
KINDS = ("merged", "wide", "nested")
MERGED = [(2, "e", 0.5), (3, "c", None), (4, None, 2.0), (5, "f", None)]


def write(sink: Any, folder: Path) -> Path:
    """``notes`` below ``merged``: rows that are added, changed and deleted by key while a column is added; below ``wide``: each type;
    below ``nested``: fields that were added within columns."""
    note, more = sink.note, Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional(), "price": FLOAT64_SCHEMA.as_optional()})
    settings = sink.config(folder / "merged", **sink.UPSERT) | SPLIT[sink]
    sink.deliver(settings, sink.batches([note(1, "a"), note(2, "b"), note(3, "c")]))
    changes = [{"id": 2, "text": "e", "price": 0.5}, None, {"id": 4, "text": None, "price": 2.0}]
    sink.deliver(settings, sink.batches(changes, more, first=3), claim_epoch=2)
    sink.deliver(settings, sink.batches([note(5, "f")], first=6), claim_epoch=3)
    sink.deliver(sink.config(folder / "wide"), sink.batches([WIDE_VALUE], WIDE))
    write_nested(sink, folder / "nested")
    return folder


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The tables of both sinks, read by one Spark application."""
    folder = tmp_path_factory.mktemp("lakes")
    for kind in KINDS:
        (folder / "iceberg" / kind).mkdir(parents=True)
        (folder / "delta" / kind).mkdir(parents=True)
    iceberg, delta = write(test_iceberg_sink, folder / "iceberg"), write(test_delta_sink, folder / "delta")
    return read_by_java(
        CACHE,
        folder,
        iceberg={kind: iceberg / kind for kind in KINDS},
        delta={f"delta {kind}": delta / kind / "notes" for kind in KINDS},
    )


def rows(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["text"], row["price"]) for row in found)


@pytest.mark.soak
def test_apache_icebergs_reader_finds_the_rows(found: dict[str, list[dict[str, Any]]]) -> None:
    assert rows(found["merged"]) == MERGED
    assert found["wide"] == [WIDE_ROW | {"at": "2024-02-29T12:30:00.123Z", "tags": "[ä, ]", "inner": "Record(x, null)"}]


@pytest.mark.soak
def test_sparks_delta_reader_finds_the_rows(found: dict[str, list[dict[str, Any]]]) -> None:
    assert rows(found["delta merged"]) == MERGED
    others = {"at": "2024-02-29 12:30:00.123000", "tags": ["ä", ""], "inner": {"name": "x", "number": None}}
    assert found["delta wide"] == [WIDE_ROW | others]


@pytest.mark.soak
def test_readers_in_java_find_fields_that_were_added_within_columns(found: dict[str, list[dict[str, Any]]]) -> None:
    rows = sorted(found["nested"], key=lambda row: row["id"])
    assert [row["a"] for row in rows] == ["Record(1, null)", "Record(2, Record(new))", "Record(3, null)"]
    assert [row["list"] for row in rows] == [f"[{row['a']}, {row['a']}]" for row in rows]
    inner = [{"x": "1", "y": None}, {"x": "2", "y": {"z": "new"}}, {"x": "3", "y": None}]
    rows = sorted(found["delta nested"], key=lambda row: row["id"])
    assert [(row["a"], row["list"], row["deep"]) for row in rows] == [(each, [each, each], {"of": [each]}) for each in inner]
