"""Java connectors run by ``connect-run`` on a real broker: Apache Kafka's FileStream pair, unchanged, from its own jar."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from sqlalchemy import Connection, text

from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings as Settings
from airflow_provider_connect.runtime.model.run import RunResult
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.jar_cache import fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.standalone.files import read_connector_file
from airflow_provider_connect.standalone.one_run import run_once
from tests.conftest import CACHE
from tests.debian_packages import MissingServerError
from tests.integration.standalone.agent import STRING, properties, without_airflow
from tests.java_libraries import PINS
from tests.kafka_topics import create_topic
from tests.mariadb_server import MariadbServer
from tests.waiting import HANG_SECONDS

DEBEZIUM_USER, DEBEZIUM_PASSWORD = "debezium", "canary-of-a-password"
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


class JavaRuns:
    """Runs of Java connectors whose files, settings and configs lie in ``folder``."""

    def __init__(self, folder: Path, worker: dict[str, str], plugins: Path) -> None:
        self.folder = folder
        self.input, self.output = folder / "in.txt", folder / "out.txt"
        self.worker = {**worker, "key.converter": STRING, "value.converter": STRING}
        self.use(plugins, memory="256m")
        self.started: list[subprocess.Popen[str]] = []
        self.errors = iter(range(1000))

    def use(self, plugins: "Path | str", memory: str = "512m") -> None:
        """Have the runs take plugins from this ``plugin.path``."""
        self.worker |= {"plugin.path": str(plugins), "java.allowed.locations": str(plugins), "java.memory": memory}
        self.settings = Settings.of(self.worker)

    def source(self, name: str, topic: str, **more: str) -> Path:
        return self.config(name, SOURCE, file=str(self.input), topic=topic, **more)

    def sink(self, name: str, topics: str, **more: str) -> Path:
        return self.config(name, SINK, **{"file": str(self.output), "topics": topics, **more})

    def config(self, name: str, plugin: str, **keys: str) -> Path:
        """A config that chooses the Java plugin rather than the built-in of the same class; ``_`` for ``.`` in keys."""
        path = self.folder / f"{name}.properties"
        chosen = {"name": name, "connector.class": plugin, "tasks.max": "1"}
        if plugin in (SOURCE, SINK):
            chosen["connector.plugin.location"] = "file"
        path.write_text(properties({**chosen, **{key.replace("_", "."): text for key, text in keys.items()}}))
        return path

    def start(self, config: Path, **worker: str) -> subprocess.Popen[str]:
        settings = config.with_suffix(".worker")
        settings.write_text(properties({**self.worker, **{key.replace("_", "."): text for key, text in worker.items()}}))
        log = (self.folder / f"{config.stem}-{next(self.errors)}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow_provider_connect.standalone.one_run", str(config), "--worker", str(settings)],
            env={**without_airflow(self.folder), "AIRFLOW_PROVIDER_CONNECT_CACHE": str(CACHE)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )
        log.close()
        self.started.append(process)
        return process

    def run(self, config: Path, **worker: str) -> tuple[int, str]:
        """Exit code and output."""
        return self.ended(self.start(config, **worker))

    def run_here(self, config: Path) -> RunResult:
        """In a thread of this process, as by a program that does other things."""
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(run_once, read_connector_file(config), self.worker, Mask()).result(HANG_SECONDS)

    def ended(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Exit code and output of all runs so far, in the order of their starts."""
        process.wait(HANG_SECONDS)
        logs = sorted(self.folder.glob("*-*.log"), key=lambda log: int(log.stem.rpartition("-")[2]))
        return process.returncode, "".join(log.read_text() for log in logs)

    def task(self, connector: str) -> TaskStatus:
        statuses = TopicBacking(self.settings).statuses()
        try:
            return statuses.read().task_map(connector)[0]
        finally:
            statuses.close()

    def topics_of(self, connector: str) -> list[str]:
        statuses = TopicBacking(self.settings).statuses()
        try:
            return list(statuses.read().topics_of(connector))
        finally:
            statuses.close()

    def put_target_state(self, connector: str, target: TargetState) -> None:
        with TopicBacking(self.settings).configs() as store:
            store.put_target_state(connector, target)

    def make_topic(self, topic: str, *, partitions: int = 1) -> None:
        create_topic(self.settings.bootstrap_servers, topic, partitions)

    def records(self, topic: str) -> list[str]:
        """The committed records of its one partition."""
        return [value.decode() for _, value in self._read(topic, [0])]

    def end_of(self, topic: str) -> int:
        """The offset behind what is committed in its one partition; each transaction's marker counts as one."""
        config = {"bootstrap.servers": self.settings.bootstrap_servers, "group.id": f"end-{topic}"}
        consumer = Consumer({**config, "isolation.level": "read_committed"})
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=HANG_SECONDS)
        finally:
            consumer.close()
        return int(end)

    def offset(self, connector: str) -> dict[str, object]:
        """The last committed offset of the connector's source partition, as it lies on the offsets topic."""
        found: dict[str, object] = {}
        for key, value in self._read(
            self.settings.offset_topic, range(self.settings.internal_topic(self.settings.offset_topic).partitions)
        ):
            if json.loads(key)[0] == connector:
                found = json.loads(value)
        return found

    def _read(self, topic: str, partitions: "range | list[int]") -> Iterator[tuple[bytes, bytes]]:
        config = {"bootstrap.servers": self.settings.bootstrap_servers, "group.id": f"read-{topic}", "enable.auto.commit": False}
        consumer = Consumer({**config, "isolation.level": "read_committed", "enable.partition.eof": True})
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            left = set(partitions)
            while left:
                message = consumer.poll(HANG_SECONDS)
                assert message is not None, f"topic {topic} cannot be read"
                if message.error() is not None:
                    left.discard(message.partition())
                else:
                    yield message.key() or b"", message.value() or b""
        finally:
            consumer.close()

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(HANG_SECONDS)


def drop_capture(database: Connection, name: str) -> None:
    """Drop a replication slot, a publication and a schema of this name, also where a reader is left on the slot."""
    for statement in (
        f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{name}' AND active",
        f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{name}' AND NOT active",
        f"DROP PUBLICATION IF EXISTS {name}",
        f"DROP SCHEMA {name} CASCADE",
    ):
        database.execute(text(statement))


@pytest.fixture(scope="session")
def java_plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for ``plugin.path`` with the location ``file``."""
    jars = fetch_jars(
        CACHE, "connect-file-4.3.1", ("org.apache.kafka:connect-file:4.3.1:jar",), find_java(cache=cache_directory()), pins=PINS
    )
    path = tmp_path_factory.mktemp("plugins")
    shutil.copytree(jars, path / "file")
    return path


@pytest.fixture
def java_runs(tmp_path: Path, worker_settings: Callable[..., dict[str, str]], java_plugins: Path) -> Iterator[JavaRuns]:
    runs = JavaRuns(tmp_path, worker_settings(), java_plugins)
    assert "AIRFLOW_PROVIDER_CONNECT_CACHE" in os.environ
    yield runs
    runs.end()


@pytest.fixture(scope="module")
def logged_mariadb() -> Iterator[MariadbServer]:
    """A MariaDB with a binary log, for the tests of one file. User ``debezium`` has the rights that Debezium asks for, and no others."""
    server = MariadbServer(CACHE, binary_log=True)
    try:
        server.start()
    except MissingServerError as error:
        pytest.skip(str(error))
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE USER {DEBEZIUM_USER}@'%' IDENTIFIED BY '{DEBEZIUM_PASSWORD}'")
        rights = "SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT"
        cursor.execute(f"GRANT {rights} ON *.* TO {DEBEZIUM_USER}@'%'")
    yield server
    server.stop()
