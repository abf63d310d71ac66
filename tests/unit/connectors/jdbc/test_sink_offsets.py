"""The table of offset rows, on a real SQLite file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector, open_store
from airflow_provider_connect.connectors.jdbc.sink.offsets import OffsetsTable
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.offset_row import OffsetRow

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
OLD, OTHER = OffsetRow(10, "scope:1", 1, "first"), OffsetRow(7, "scope:1", 1, "first")


@pytest.mark.parametrize(
    "new",
    [
        OffsetRow(20, "scope:1", 1, "first"),
        OffsetRow(10, "scope:2", 2, "first"),
        OffsetRow(10, "scope:1", 1, "second"),
        OffsetRow(None, "scope:2", 2, "second"),
        OLD.alter(3),
        None,
    ],
)
def test_a_row_is_read_as_it_was_written_last(tmp_path: Path, new: OffsetRow | None) -> None:
    config = JdbcSinkConnector.config_def.parse({"connection.url": f"sqlite:///{tmp_path / 'offsets.db'}", "topics": "a,b"})
    with closing(open_store(config, ALL_ALLOWED)) as store:
        table = OffsetsTable(store, TableName("offsets"), "sink")
        table.create()
        written: list[dict[TopicPartition, OffsetRow | None]] = [{A: OLD, B: OTHER}, {A: new}]
        for rows in written:
            store.begin()
            table.read([A, B])
            table.write(rows)
            store.commit()
        assert table.read([A, B]) == ({B: OTHER} if new is None else {A: new, B: OTHER})
