"""A real Kafka Connect 4.3.1, as the tests of clients meet it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from tests.airflow_home import airflow_home
from tests.benchmark.connect_peer import ConnectWorker
from tests.conftest import CACHE

DAGS = Path(__file__).resolve().parents[3] / "dags"


@pytest.fixture(scope="package")
def connect_worker(tmp_path_factory: pytest.TempPathFactory, bootstrap: str) -> Iterator[ConnectWorker]:
    """A worker that all tests here share, on the shared broker."""
    directory, quickly = tmp_path_factory.mktemp("connect-worker"), {"offset.flush.interval.ms": "500"}
    worker = ConnectWorker(directory, CACHE, find_java(cache=CACHE), bootstrap, exactly_once=False, more=quickly)
    with worker.started():
        yield worker


@pytest.fixture(scope="package")
def connect_url(connect_worker: ConnectWorker) -> str:
    """The address of that worker."""
    return connect_worker.url


@pytest.fixture
def connect(connect_url: str) -> Iterator[ConnectClient]:
    with ConnectClient.of(connect_url) as client:
        yield client


@pytest.fixture
def file_source(tmp_path: Path, unique: str) -> dict[str, str]:
    """The config of a source that reads a file of two lines."""
    file = tmp_path / "input.txt"
    file.write_text("one\ntwo\n")
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": f"lines-{unique}"}


@pytest.fixture
def file_sink(tmp_path: Path, unique: str) -> dict[str, str]:
    """The config of a sink that writes what ``file_source`` reads."""
    return {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(tmp_path / "output.txt"), "topics": f"lines-{unique}"}


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory, connect_url: str, bootstrap: str) -> dict[str, str]:
    """The environment of an Airflow with an empty database, a directory for files, and a Connection to the foreign cluster."""
    path = tmp_path_factory.mktemp("airflow")
    connection = {"conn_type": "connect", "host": connect_url, "extra": json.dumps({"bootstrap.servers": bootstrap})}
    return airflow_home(
        path,
        {
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
            "AIRFLOW_CONN_FOREIGN": json.dumps(connection),
            "CONNECT_EXAMPLE_CONN_ID": "foreign",
            "CONNECT_DEMO_DIR": str(path / "files"),
        },
    )
