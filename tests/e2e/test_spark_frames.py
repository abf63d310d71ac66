"""SparkSource by spark-submit: its task is a thread of the driver, its frames are computed by executors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.conftest import CACHE, WorkerSettings
from tests.e2e.faults.runs import Fault, Runs
from tests.integration.worker.environment import values_of
from tests.spark_cluster import SparkCluster

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
ALLOWED = {"connectors.spark.formats": "parquet", "transaction.boundary.poll.linger.ms": "0"}


@pytest.fixture
def runs(tmp_path: Path, worker_settings: WorkerSettings, unique: str) -> Runs:
    """Of a source of 2,000 rows in two files, in many small commits."""
    rows = tmp_path / "rows"
    rows.mkdir()
    for number in range(2):
        ids = pa.array(range(number, 2000, 2), pa.int64())
        pq.write_table(pa.table({"id": ids}), rows / f"{number}.parquet")
    config = {"name": unique, "connector.class": "SparkSource", "topic": unique, "format": "parquet", "path": str(rows)}
    config |= {"incremental.column": "id", "batch.max.rows": "50"} | JSON
    return Runs(tmp_path, unique, worker_settings() | ALLOWED | {"connectors.allowed.paths": str(tmp_path)}, config)


def ids(runs: Runs) -> list[int]:
    return [json.loads(value)["id"] for value in values_of(runs.settings["bootstrap.servers"], runs.connector)]


@pytest.mark.soak
@pytest.mark.parametrize("victim", ["driver", "jvm"])
def test_a_killed_application_is_taken_up_where_it_was(runs: Runs, victim: str) -> None:
    submission = runs.submit(Fault(CommitStep.COMMIT_TRANSACTION, "after", nth=3, victim=victim))
    assert submission.wait() is None
    assert submission.struck
    assert 0 < len(ids(runs)) < 2000
    assert runs.until_done().tasks[0].stopped_by is None
    assert ids(runs) == list(range(2000))


@pytest.mark.soak
def test_a_signal_ends_the_task_behind_a_batch(runs: Runs) -> None:
    submission = runs.submit(Fault(CommitStep.COMMIT_TRANSACTION, "after", nth=2, signal="SIGTERM", victim="driver", linger=2.0))
    result = submission.wait()
    assert result is not None, submission.output()[-3000:]
    assert submission.victim_pid() == submission.driver_pid(), "the task is a thread of the driver"
    assert [task.stopped_by for task in result.tasks] == ["the application was asked to end"]
    assert 0 < len(ids(runs)) < 2000
    assert runs.until_done().state is RunState.DONE
    assert ids(runs) == list(range(2000))


@pytest.mark.soak
def test_a_topic_goes_into_files(runs: Runs, tmp_path: Path) -> None:
    schemas = {"value.converter.schemas.enable": "true"}
    runs.config = {**runs.config, **schemas}
    runs.until_done()
    own = {"name": f"{runs.connector}-sink", "connector.class": "SparkSink", "topics": runs.connector}
    config = own | {"format": "parquet", "path": str(tmp_path / "copy")} | JSON | schemas
    sink = Runs(tmp_path, own["name"], runs.settings, config)
    assert sink.until_done().tasks[0].records == 2000
    files = list((tmp_path / "copy").glob("*.parquet"))
    assert sorted(number for file in files for number in pq.read_table(file)["id"].to_pylist()) == list(range(2000))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "cluster", CACHE, memory="600m") as cluster:
        yield cluster


@pytest.mark.soak
def test_two_executors_of_a_cluster_compute_the_frames(runs: Runs, cluster: SparkCluster) -> None:
    runs.master, runs.conf = cluster.url, {"spark.executor.memory": "512m", "spark.driver.host": LOOPBACK}
    assert runs.until_done().tasks[0].records == 2000
    assert ids(runs) == list(range(2000))
    logs = [log.read_text() for log in (runs.folder / "cluster").rglob("stderr")]
    assert len([log for log in logs if "Running task" in log]) == 2
