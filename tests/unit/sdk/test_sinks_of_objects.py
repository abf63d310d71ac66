"""The suite of sinks finds one that reads structs and not the same objects without a schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_provider_connect.sdk import (
    INT64_SCHEMA,
    STRING_SCHEMA,
    Batch,
    ConfigDef,
    ConfigKey,
    DataException,
    Schema,
    SqlSink,
    Struct,
    values_of,
)
from airflow_provider_connect.sdk.testing import SinkConnectorSuite

ORDER = Schema.struct({"id": INT64_SCHEMA, "item": STRING_SCHEMA})


class OrdersSink(SqlSink):
    config_def = ConfigDef(ConfigKey("path"))
    required_columns = frozenset()

    def open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.config["path"], check_same_thread=False)
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER, item TEXT)")
        return connection

    def write(self, transaction: sqlite3.Cursor, batch: Batch) -> None:
        rows = [(order["id"], order["item"]) for order in self.orders(batch)]
        transaction.executemany("INSERT INTO orders VALUES (?, ?)", rows)

    def orders(self, batch: Batch) -> list[Any]:
        if batch.value is None or batch.value.null_count:
            raise DataException("an order is null")
        return values_of(batch.value, batch.value_schema)


class NaiveSink(OrdersSink):
    def orders(self, batch: Batch) -> list[Any]:
        orders: list[Any] = [] if batch.value is None else batch.value.to_pylist()
        return orders


class TextSink(NaiveSink):
    """Writes something, which is not the order."""

    def write(self, transaction: sqlite3.Cursor, batch: Batch) -> None:
        transaction.executemany("INSERT INTO orders VALUES (?, ?)", [(1, str(order)) for order in self.orders(batch)])


class RefusingSink(OrdersSink):
    def orders(self, batch: Batch) -> list[Any]:
        if batch.value_schema is None:
            raise DataException("give orders a schema")
        return super().orders(batch)


class OrdersSuite(SinkConnectorSuite):
    connector_class = OrdersSink
    exactly_once = True
    value_schema = ORDER
    path: Path

    def config(self) -> dict[str, str]:
        return {"path": str(self.path)}

    def values(self, first: int, count: int) -> list[Any]:
        return [Struct(ORDER, {"id": number, "item": f"tea {number}"}) for number in range(first, first + count)]

    def delivered(self) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as database:
            rows = database.execute("SELECT id, item FROM orders ORDER BY rowid").fetchall()
        return [Struct(ORDER, {"id": id, "item": item}) for id, item in rows]


def tried(folder: Path, connector: type[OrdersSink], **declared: Any) -> None:
    """The suite's test, with what a subclass would declare."""
    suite = cast(Any, type("Suite", (OrdersSuite,), {"connector_class": connector, "path": folder / "orders.db", **declared}))()
    suite.test_objects_without_a_schema_arrive_like_structs()


def test_a_sink_that_reads_values_by_their_schema_passes(tmp_path: Path) -> None:
    tried(tmp_path, OrdersSink)


@pytest.mark.parametrize("connector", [NaiveSink, TextSink])
def test_a_sink_that_takes_json_text_for_an_object_is_found(connector: type[OrdersSink], tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"values_of\(batch.value, batch.value_schema\)"):
        tried(tmp_path, connector)


@pytest.mark.parametrize(
    ("connector", "declared", "reason"),
    [
        (RefusingSink, {}, "refuses objects without a schema: .*give orders a schema"),
        (NaiveSink, {"needs_schema": True}, "needs their schema"),
        (NaiveSink, {"value_schema": STRING_SCHEMA}, "not structs"),
        (NaiveSink, {"values": lambda *_: [{"at": b"bytes"}]}, "cannot be written without a schema"),
    ],
)
def test_a_sink_that_needs_a_schema_is_not_found(
    connector: type[OrdersSink], declared: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(pytest.skip.Exception, match=reason):
        tried(tmp_path, connector, **declared)
