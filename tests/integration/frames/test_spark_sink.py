"""SparkSink by a Spark of this process: the suite, types and databases; a run on a real broker, and the example."""

from __future__ import annotations

import dataclasses
import datetime
import runpy
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

import airflow_provider_connect
from airflow_provider_connect.connectors.spark.sink import SparkSinkConnector
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import (
    DATE_SCHEMA,
    INT8_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.testing import MemorySinkContext, SinkConnectorSuite
from airflow_provider_connect.sdk.testing.calls import SinkCalls, start_task
from tests.conftest import CHECKOUT
from tests.integration.frames.test_spark_source import connector as source
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.integration.worker.note_runs import JSON, notes

pytestmark = pytest.mark.usefixtures("spark")
NOTE = Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional()})
PARTITION = TopicPartition("notes", 0)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of the Parquet files."""
    files = sorted(map(str, folder.glob("*.parquet")))
    rows: list[dict[str, Any]] = ds.dataset(files, format="parquet").to_table().to_pylist() if files else []
    return sorted(rows, key=lambda row: row.get("id", 0))


class TestSparkSink(SinkConnectorSuite):
    connector_class = SparkSinkConnector
    value_schema: ClassVar[Schema | None] = NOTE
    lines_between_kills = 20

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "notes"

    def connector(self) -> Any:
        made = super().connector()
        made.allowed_spark = source().allowed_spark
        return made

    def config(self) -> dict[str, str]:
        return {"name": "suite", "topics": "suite", "format": "parquet", "path": str(self.path)}

    def values(self, first: int, count: int) -> list[Any]:
        return [{"id": number, "text": f"note {number}"} for number in range(first, first + count)]

    def delivered(self) -> list[Any]:
        return rows_of(self.path)


def written(config: Mapping[str, str], *batches: tuple[Schema, Sequence[Any]]) -> None:
    """What a task is given, and commits once."""
    task = start_task(SparkSinkConnector(), config, MemorySinkContext(config, [PARTITION]), ALL_ALLOWED)
    calls = SinkCalls(task, [PARTITION])
    for schema, values in batches:
        calls.put(Batch(PARTITION.topic, column_of(values, schema), value_schema=schema, kafka_partition=0))
    task.flush({})
    task.stop()


def test_types_and_schemas_that_change(tmp_path: Path) -> None:
    wide = Schema.struct({
        "id": INT8_SCHEMA,
        "price": decimal_schema(3).as_optional(),
        "day": DATE_SCHEMA,
        "at": TIMESTAMP_SCHEMA,
        "more": Schema.map(STRING_SCHEMA, Schema.array(STRING_SCHEMA)),
    }).as_optional()  # fmt: skip
    at = datetime.datetime(2026, 3, 29, 1, 59, 59, 123000, tzinfo=datetime.UTC)
    row = {"id": 2, "price": Decimal("1.250"), "day": at.date(), "at": at, "more": {"k": ["a", "b"]}}
    config = {"format": "parquet", "path": str(tmp_path / "t")}
    written(config, (NOTE, [{"id": 1, "text": "a"}]), (wide, [row, None]))
    found = [ds.dataset(file, format="parquet").to_table().to_pylist() for file in (tmp_path / "t").glob("*.parquet")]
    [first], [second] = sorted(found, key=lambda rows: rows[0]["id"])
    assert first == {"id": 1, "text": "a"}
    assert second.pop("at").replace(tzinfo=datetime.UTC) == row.pop("at"), "Spark's Parquet has times without a zone"
    assert second == row | {"more": [("k", ["a", "b"])]}


def test_what_spark_has_no_type_for_is_a_bad_record(tmp_path: Path) -> None:
    config = {"format": "parquet", "path": str(tmp_path / "t")}
    with pytest.raises(DataException, match="Spark has no type for the field at"):
        written(config, (Schema.struct({"at": TIME_SCHEMA}), [{"at": datetime.time(1)}]))
    with pytest.raises(DataException, match="A table's rows are structs"):
        written(config, (STRING_SCHEMA, ["a"]))


def test_a_database_gets_the_rows_in_one_transaction(tmp_path: Path, spark: SparkSession) -> None:
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    config = {"format": "jdbc", "option.url": url, "option.dbtable": "notes"}
    written(config, (NOTE, [{"id": number, "text": None} for number in range(100)]))
    assert spark.read.format("jdbc").options(url=url, dbtable="notes").load().count() == 100


def test_a_run_writes_what_is_on_the_topic_and_the_next_what_is_new(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 2)
    given = {"name": environment.connector, "connector.class": "SparkSink", "topics": unique, "format": "parquet", "tasks.max": "2"} | JSON
    given["path"] = str(environment.folder / "notes")
    for first in (0, 500):
        send(environment.bootstrap, unique, notes(500, first), partitions=2)
        result = environment.run(given)
        assert (result.state, result.error) == (RunState.DONE, None)
    assert [row["id"] for row in rows_of(environment.folder / "notes")] == list(range(1000))
    assert environment.readiness(given).state == "no-work"
    environment.put_config(given | {"delivery.guarantee": "exactly_once"})
    refused = environment.run()
    assert refused.state is RunState.FAILED
    assert "The connector does not support exactly-once semantics" in str(refused.error)


def test_the_example_appends_rows(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(environment.folder))
    found: dict[str, dict[str, str]] = {}
    monkeypatch.setattr(airflow_provider_connect, "ConnectorDag", lambda name, given, **more: found.update({name: {"name": name, **given}}))
    runpy.run_path(str(CHECKOUT / "dags" / "example_spark_sink.py"))
    [(name, given)] = found.items()
    make_topic(environment.bootstrap, topic := f"{environment.connector}-orders")
    send(environment.bootstrap, topic, notes(5))
    result = dataclasses.replace(environment, connector=name).run(given | {"topics": topic})
    assert (result.state, result.error) == (RunState.DONE, None)
    assert [row["id"] for row in rows_of(environment.folder / "spark-orders")] == list(range(5))
