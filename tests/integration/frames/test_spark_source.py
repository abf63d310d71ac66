"""SparkSource by a Spark of this process: the suite, types, whole values, databases; runs on a real broker, and kills."""

from __future__ import annotations

import dataclasses
import datetime
import json
import runpy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import airflow_provider_connect
from airflow_provider_connect.connectors.spark.source import SparkSourceConnector, SparkSourceTask
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import SOURCE_STEPS
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.allowed_spark import AllowedSpark
from airflow_provider_connect.sdk.testing import MemorySourceContext, SourceConnectorSuite, run
from airflow_provider_connect.sdk.testing.contexts import partition_key
from tests.conftest import CHECKOUT
from tests.integration.frames.conftest import FORMATS, OPTIONS
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment, values_of
from tests.integration.worker.killed_run import run_and_kill
from tests.samples import sample

pytestmark = pytest.mark.usefixtures("spark")
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
KILLS = [KillPoint(step, side, nth=2) for step in SOURCE_STEPS["exactly_once"] for side in ("before", "after")]
SOME = sample(KILLS, 2)


def write(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> None:
    """One more file of rows."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"{len(list(folder.iterdir())):04d}.parquet")


def numbered(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"row {number}"} for number in range(first, first + count)]


def connector() -> SparkSourceConnector:
    made = SparkSourceConnector()
    made.allowed_spark = AllowedSpark(tuple(FORMATS.split(", ")), tuple(OPTIONS.split(", ")))
    return made


def config(folder: Path, **more: str) -> dict[str, str]:
    return {"topic": "t", "format": "parquet", "path": str(folder)} | {key.replace("_", "."): value for key, value in more.items()}


class TestSparkSource(SourceConnectorSuite):
    connector_class = SparkSourceConnector
    poll_limit_seconds = 60.0

    @pytest.fixture(autouse=True)
    def rows(self, tmp_path: Path) -> None:
        self.path, self.count = tmp_path / "rows", 0
        write(self.path, [])

    def connector(self) -> Any:
        made = super().connector()
        made.allowed_spark = connector().allowed_spark
        return made

    def config(self) -> dict[str, str]:
        return config(self.path, incremental_column="id")

    def write_to_source(self, count: int) -> None:
        write(self.path, numbered(self.count, count))
        self.count += count

    @pytest.mark.soak  # two jobs for each record
    def test_any_offset_resumes_with_the_next_record(self) -> None:
        super().test_any_offset_resumes_with_the_next_record()


def test_rows_of_one_value_are_one_batch_and_batches_are_in_order(tmp_path: Path) -> None:
    write(tmp_path / "rows", [{"id": number // 7, "name": str(number)} for number in reversed(range(50))])
    done = run(connector(), config(tmp_path / "rows", incremental_column="id", batch_max_rows="5"))
    assert [record.value["id"] for record in done.records] == sorted(number // 7 for number in range(50))
    ends = [record.value["id"] for record in done.records if record.source_offset is not None]
    assert ends == list(range(8)), "an offset stands behind the last row of a value alone"
    again = run(connector(), config(tmp_path / "rows", incremental_column="id"), offsets=done.offsets)
    assert again.records == []


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (pa.timestamp("us", "UTC"), [datetime.datetime(2026, 3, 29, 1, 59, 59, n, tzinfo=datetime.UTC) for n in (1, 2, 999_999)]),
        (pa.decimal128(30, 9), [Decimal("-0.000000001"), Decimal("0.000000001"), Decimal("123456789012345678901.5")]),
        (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2026, 11, 22)]),
    ],
    ids=str,
)
def test_a_value_is_exact_after_a_restart(tmp_path: Path, type: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([("at", type)])
    write(tmp_path / "rows", [{"at": value} for value in values[:2]] + [{"at": None}], schema)
    given = config(tmp_path / "rows", incremental_column="at")
    first = run(connector(), given)
    assert len(first.records) == 2, "a row without a value has no position in the order"
    write(tmp_path / "rows", [{"at": value} for value in values], schema)
    assert len(run(connector(), given, offsets=first.offsets).records) == 1


@pytest.mark.parametrize(
    ("type", "first", "last"), [(pa.date32(), -800_000, 2_932_902), (pa.timestamp("us", "UTC"), -(10**17), 3 * 10**17)]
)
def test_years_that_python_has_not_are_read_and_continued_behind(tmp_path: Path, type: pa.DataType, first: int, last: int) -> None:
    """In a table whose columns have names that are syntax to Spark."""
    (tmp_path / "rows").mkdir()
    given = SparkSourceConnector.config_def.parse(config(tmp_path / "rows", incremental_column="a.`t`"))
    offsets: dict[str, Any] = {}
    for value in (first, last, last + 1):
        table = pa.table({"a.`t`": pa.array([value], type), "name.of `it`": ["x"]})
        pq.write_table(table, tmp_path / "rows" / f"{value}.parquet")
        task = SparkSourceTask()
        task.allowed_paths, task.context = ALL_ALLOWED, MemorySourceContext({}, offsets)
        task.start(given)
        batch = task.poll()
        assert batch is not None
        assert batch.value is not None
        assert [field.name for field in batch.value.type] == table.column_names
        assert batch.value.field(1).to_pylist() == ["x"]
        assert task.poll() is None
        task.stop()
        offsets = {partition_key(batch.source_partition): batch.source_offset}


def test_a_database_is_read_by_its_driver(tmp_path: Path, spark: SparkSession) -> None:
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    rows = spark.createDataFrame([(n, f"row {n}") for n in range(30)], "id INT, name STRING")
    rows.write.format("jdbc").options(url=url, dbtable="items").save()
    given = {"topic": "t", "format": "jdbc", "incremental.column": "ID", "option.url": url, "option.dbtable": "items"}
    wrong = [error for value in connector().validate(given) for error in value.errors]
    assert wrong == []
    with pytest.raises(ConfigException, match=r"incremental.column: The column is not one of id, name"):
        run(connector(), given)
    assert len(run(connector(), given | {"incremental.column": "id"}).records) == 30


def test_without_a_column_each_run_reads_all(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,name\n1,a\n2,b\n")
    given = config(tmp_path / "rows.csv", format="csv", option_header="true", schema="id BIGINT, name STRING")
    for _ in range(2):
        assert [(record.value["id"], record.value["name"]) for record in run(connector(), given).records] == [(1, "a"), (2, "b")]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match=r"Invalid value parquet for configuration format: Spark rejects it: .*PATH_NOT_FOUND"):
        run(connector(), config(tmp_path / "away"))
    write(tmp_path / "rows", numbered(0, 1))
    with pytest.raises(ConfigException, match=r"incremental.column: The column is of type string"):
        run(connector(), config(tmp_path / "rows", incremental_column="name"))


def test_offsets_of_another_form_are_refused() -> None:
    good = {"format": "parquet", "path": "/data", "column": "id"}
    assert connector().alter_offsets({}, [(good, {"value": "17"}), (good, None)])
    with pytest.raises(ConnectException, match="must be a value of the column as text"):
        connector().alter_offsets({}, [(good, {"value": 17})])
    with pytest.raises(ConnectException, match="A source partition has format, path and column"):
        connector().alter_offsets({}, [({"path": "/data"}, {"value": "17"})])


def ids(environment: RunEnvironment, topic: str) -> list[int]:
    return [json.loads(value)["id"] for value in values_of(environment.bootstrap, topic)]


def source(environment: RunEnvironment, topic: str) -> dict[str, str]:
    own = {"name": environment.connector, "connector.class": "SparkSource"} | JSON
    return own | config(environment.folder / "rows", topic=topic, incremental_column="id", batch_max_rows="100")


def test_the_example_brings_what_is_new(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(environment.folder))
    found: dict[str, dict[str, str]] = {}
    monkeypatch.setattr(airflow_provider_connect, "ConnectorDag", lambda name, given, **more: found.update({name: {"name": name, **given}}))
    runpy.run_path(str(CHECKOUT / "dags" / "example_spark_source.py"))
    [(name, given)] = found.items()
    write(environment.folder / "spark-rows", numbered(0, 5))
    topic = f"{environment.connector}-rows"
    result = dataclasses.replace(environment, connector=name).run(given | {"topic": topic})
    assert (result.state, result.error) == (RunState.DONE, None)
    assert ids(environment, topic) == list(range(5))


def test_each_run_brings_what_is_new(environment: RunEnvironment, unique: str) -> None:
    given = source(environment, unique)
    for first in (0, 500):
        write(environment.folder / "rows", numbered(first, 500))
        result = environment.run(given)
        assert (result.state, result.error, [task.records for task in result.tasks]) == (RunState.DONE, None, [500])
    assert ids(environment, unique) == list(range(1000)), "in order, too"
    assert [task.records for task in environment.run(given).tasks] == [0]


@pytest.mark.parametrize("kill_point", SOME, ids=lambda kill_point: f"{kill_point.side} {kill_point.method}")
def test_killed_at_a_step_of_a_commit_nothing_is_lost_or_doubled(environment: RunEnvironment, unique: str, kill_point: KillPoint) -> None:
    given = source(environment, unique)
    write(environment.folder / "rows", numbered(0, 1000))
    run_and_kill(environment, given, kill_point)
    write(environment.folder / "rows", numbered(1000, 200))
    assert environment.run(given).state is RunState.DONE
    assert ids(environment, unique) == list(range(1200))
