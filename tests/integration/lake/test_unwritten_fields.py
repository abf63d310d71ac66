"""A field whose column another writer has renamed or dropped is named once with a remedy, and its values are counted. Nothing is named
where every field has its column."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.delta_zombies import deliver as deliver_to_delta
from tests.integration.lake.delta_zombies import opened as opened_delta
from tests.integration.lake.notes import batches, note
from tests.integration.lake.tables import rows_of, table_of
from tests.integration.lake.test_delta_sink import config as delta_config
from tests.integration.lake.test_iceberg_sink import config, deliver, opened

NESTED: Final = Schema.struct({"id": INT64_SCHEMA, "of": Schema.struct({"a": STRING_SCHEMA, "b": STRING_SCHEMA.as_optional()})})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def rename(folder: Path) -> None:
    with table_of(folder, "shop.notes").update_schema() as update:
        update.rename_column("text", "words")


def test_a_column_of_iceberg_that_is_renamed_is_named_once_and_its_values_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deliver(config(tmp_path), batches([note(1, "one")]))
    task = opened(config(tmp_path))
    assert warnings(caplog) == []
    rename(tmp_path)
    for first, values in ((1, [note(2, "two"), note(3, None)]), (3, [note(4, "four")])):
        [batch] = batches(values, first=first)
        task.put(batch)
        task.commit()
    [line] = warnings(caplog)
    for words in (
        "values of field text are not written, because table shop.notes has no such column; ",
        "its columns without a field, which become null: words.",
        "ReplaceField$Value, renames",
        "schema.name-mapping.default",
        "iceberg.tables.evolve-schema-enabled=true",
    ):
        assert words in line
    assert task.task.lost_values() == 2
    assert [row.get("words") for row in rows_of(tmp_path, "shop.notes") if row["id"] > 1] == [None, None, None]


def test_a_column_that_is_added_again_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    evolving = config(tmp_path, **{"iceberg.tables.evolve-schema-enabled": "true"})
    deliver(evolving, batches([note(1, "one")]))
    rename(tmp_path)
    deliver(evolving, batches([note(2, "two")], first=1))
    assert warnings(caplog) == []
    assert [row["text"] for row in rows_of(tmp_path, "shop.notes") if row["id"] == 2] == ["two"]


def test_a_field_within_a_struct_is_named_by_its_path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    deliver(config(tmp_path), batches([{"id": 1, "of": {"a": "x", "b": "y"}}], NESTED))
    with table_of(tmp_path, "shop.notes").update_schema() as update:
        update.delete_column(("of", "b"))
    deliver(config(tmp_path), batches([{"id": 2, "of": {"a": "x", "b": "y"}}], NESTED, first=1))
    [line] = warnings(caplog)
    assert "values of field of.b are not written" in line


def test_a_column_of_delta_that_is_replaced_is_named_once_and_its_values_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = delta_config(tmp_path)
    deliver_to_delta(settings, batches([note(1, "one")]))
    table = DeltaTable(str(tmp_path / "notes"))
    write_deltalake(table, pa.table({"id": [1], "words": ["one"]}), mode="overwrite", schema_mode="overwrite")
    task = opened_delta(settings)
    for number in (2, 3):
        [batch] = batches([note(number, "more")], first=number - 1)
        task.put(batch)
        task.commit()
    [line] = warnings(caplog)
    assert "values of field text are not written" in line
    assert "delta.table.evolve-schema-enabled=true" in line
    assert "name-mapping" not in line
    assert task.task.lost_values() == 2
    assert {row["words"] for row in delta_rows(tmp_path / "notes")} == {"one", None}
