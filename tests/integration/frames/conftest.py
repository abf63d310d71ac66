"""A Spark of this process, as ``connect-run`` has it: connectors that need one find it as the session of the process."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_connect.runtime.spark.submit_options import submit_options
from tests.conftest import CACHE, WorkerSettings
from tests.integration.worker.environment import RunEnvironment

FORMATS = "parquet, orc, csv, jdbc"
OPTIONS = "csv.header, jdbc.url, jdbc.dbtable"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session. Processes that a test starts find the same Java and the same options."""
    options = submit_options("local[2]", cache=CACHE)
    conf = [text for name, value in options.conf.items() for text in ("--conf", f"{name}={value}")]
    conf += ["--conf", "spark.sql.shuffle.partitions=2", "--conf", f"spark.sql.warehouse.dir={tmp_path_factory.mktemp('warehouse')}"]
    arguments = shlex.join(["--master", "local[2]", *conf, "--driver-java-options", options.driver_java_options, "pyspark-shell"])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**options.env, "PYSPARK_SUBMIT_ARGS": arguments}.items():
            patch.setenv(name, value)
        session = SparkSession.builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture
def environment(tmp_path: Path, worker_settings: WorkerSettings, unique: str) -> RunEnvironment:
    """A connector's, on a worker that allows some formats below the test's folder."""
    quick = {"transaction.boundary.poll.linger.ms": "0", "offset.flush.interval.ms": "0"}
    allowed = {"connectors.allowed.paths": str(tmp_path), "connectors.spark.formats": FORMATS, "connectors.spark.options": OPTIONS}
    return RunEnvironment(worker_settings() | quick | allowed, unique, tmp_path)
