"""Rows that a table refuses cost themselves alone: constraints, partitions that cannot hold a value, values without fields."""

from __future__ import annotations

import errno
import math
import os
import tempfile
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.connectors.lake.delta_sink import DeltaSinkConnector
from airflow_provider_connect.connectors.lake.iceberg_sink import IcebergSinkConnector
from airflow_provider_connect.data.schema import (
    BYTES_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    Schema,
    SchemaType,
    decimal_schema,
)
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk.testing import run
from tests.integration.lake import test_delta_sink, test_iceberg_sink
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.delta_zombies import UPSERT
from tests.integration.lake.delta_zombies import deliver as deliver_delta
from tests.integration.lake.notes import NOTE, batches, note
from tests.integration.lake.tables import rows_of

both_sinks = pytest.mark.parametrize("sink", [test_iceberg_sink, test_delta_sink], ids=["iceberg", "delta"])
CONNECTOR: Final = {test_iceberg_sink: IcebergSinkConnector, test_delta_sink: DeltaSinkConnector}
PARTITION: Final = {test_iceberg_sink: "iceberg.tables.default-partition-by", test_delta_sink: "delta.table.partition-by"}


def rows(sink: ModuleType, folder: Path) -> list[dict[str, Any]]:
    return sorted(rows_of(folder, "shop.notes") if sink is test_iceberg_sink else delta_rows(folder / "notes"), key=lambda row: row["id"])


def refused(sink: ModuleType, settings: dict[str, str], values: list[Any], schema: Schema, **more: Any) -> list[int]:
    """The offsets of the records that are left out; the others are delivered."""
    given = settings | {"errors.tolerance": "all"}
    return run(CONNECTOR[sink](), given, batches=batches(values, schema, **more), exactly_once=True, claim_epoch=9).reporter.offsets


@pytest.mark.parametrize("is_upsert", [False, True], ids=["append", "upsert"])
def test_a_constraint_of_a_delta_table_refuses_its_records_alone(tmp_path: Path, is_upsert: bool) -> None:
    settings = test_delta_sink.config(tmp_path, **(UPSERT if is_upsert else {}))
    deliver_delta(settings, batches([note(1)]))
    DeltaTable(str(tmp_path / "notes")).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ConnectException, match=r"rejects a row: DeltaError: .*1 rows failed validation check"):
        deliver_delta(settings, batches([note(-1)], first=1), claim_epoch=2)
    assert refused(test_delta_sink, settings, [note(3), note(-1), note(5), note(-2)], NOTE, first=1) == [2, 4]
    assert rows(test_delta_sink, tmp_path) == [note(1), note(3), note(5)]


@both_sinks
def test_a_partition_whose_name_is_too_long_for_a_folder_refuses_its_record(tmp_path: Path, sink: ModuleType) -> None:
    schema = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA})
    settings = sink.config(tmp_path) | {PARTITION[sink]: "text"}
    assert refused(sink, settings, [note(1, "a"), note(2, "x" * 300), note(3, "b")], schema) == [1]
    assert rows(sink, tmp_path) == [note(1, "a"), note(3, "b")]


def test_a_library_that_still_writes_when_its_trial_has_failed_hides_no_bad_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads put files into a folder that is being deleted."""
    remove = os.rmdir

    def busy(path: Any, **more: Any) -> None:
        if "text=" not in str(path) and "_delta_log" not in str(path) and str(path).startswith(tempfile.gettempdir()):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        remove(path, **more)

    schema = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA})
    settings = test_delta_sink.config(tmp_path) | {"delta.table.partition-by": "text"}
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        patch.setattr(os, "rmdir", busy)
        assert refused(test_delta_sink, settings, [note(1, "a"), note(2, "x" * 300), note(3, "b")], schema) == [1]
    assert rows(test_delta_sink, tmp_path) == [note(1, "a"), note(3, "b")]


PARTITIONS: Final = {
    "iceberg: NaN": (test_iceberg_sink, FLOAT64_SCHEMA, [1.5, math.nan, math.inf]),
    "iceberg: -0.0": (test_iceberg_sink, FLOAT32_SCHEMA, [0.0, -0.0, 1.5]),
    "delta: an empty text": (test_delta_sink, STRING_SCHEMA.as_optional(), [None, "", "a"]),
    "delta: bytes": (test_delta_sink, BYTES_SCHEMA.as_optional(), [None, b"a", None]),
    "delta: a negative decimal": (test_delta_sink, decimal_schema(2), [Decimal("0.05"), Decimal("-0.05"), Decimal("1.00")]),
}


@pytest.mark.parametrize(("sink", "type", "values"), PARTITIONS.values(), ids=PARTITIONS)
def test_values_that_a_partition_cannot_hold_are_refused(tmp_path: Path, sink: ModuleType, type: Schema, values: list[Any]) -> None:
    schema = Schema.struct({"id": INT64_SCHEMA, "v": type})
    settings = sink.config(tmp_path) | {PARTITION[sink]: "v"}
    assert refused(sink, settings, [{"id": id, "v": value} for id, value in enumerate(values)], schema) == [1]
    if sink is test_iceberg_sink:
        assert [(row["id"], row["v"]) for row in rows(sink, tmp_path)] == [(0, values[0]), (2, values[2])]
        return
    found = DeltaTable(str(tmp_path / "notes")).to_pyarrow_table().sort_by("id").to_pylist()
    assert found == [{"id": 0, "v": values[0]}, {"id": 2, "v": values[2]}]


@pytest.mark.parametrize(
    ("type", "partition"),
    [
        (Schema(SchemaType.STRING, name="uuid"), "v"),
        (FLOAT64_SCHEMA, "bucket(v, 4)"),
        (TIME_SCHEMA, "bucket(v, 4)"),
        (BYTES_SCHEMA, "truncate(v, 2)"),
        (STRING_SCHEMA, "day(v)"),
    ],
)
def test_partitions_that_cannot_be_written_are_refused_as_a_setting(tmp_path: Path, type: Schema, partition: str) -> None:
    schema = Schema.struct({"id": INT64_SCHEMA, "v": type.as_optional()})
    settings = test_iceberg_sink.config(tmp_path) | {PARTITION[test_iceberg_sink]: partition}
    with pytest.raises(ConfigException, match=r"default-partition-by: A partition of \w+ cannot be written"):
        test_iceberg_sink.deliver(settings, batches([{"id": 1, "v": None}], schema))


@both_sinks
def test_a_value_without_fields_is_a_row_of_nulls_and_begins_no_table(tmp_path: Path, sink: ModuleType) -> None:
    settings, nothing = sink.config(tmp_path), Schema.struct({})
    with pytest.raises(ConnectException, match="has no columns yet, and the value of a record has no fields"):
        sink.deliver(settings, batches([{}], nothing))
    schema = Schema.struct({"id": INT64_SCHEMA.as_optional(), "text": STRING_SCHEMA.as_optional()})
    sink.deliver(settings, batches([{"id": 1, "text": "a"}], schema), claim_epoch=2)
    sink.deliver(settings, batches([{}, {}], nothing, first=1), claim_epoch=3)
    found = rows_of(tmp_path, "shop.notes") if sink is test_iceberg_sink else delta_rows(tmp_path / "notes")
    assert sorted(str(row["id"]) for row in found) == ["1", "None", "None"]
