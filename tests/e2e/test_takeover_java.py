"""A Kafka Connect 4.3.1 with Debezium, a JDBC sink and MirrorMaker 2 becomes a shared application, and gets its connectors back."""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from tests.airflow_home import airflow_home
from tests.benchmark.connect_peer import ConnectWorker
from tests.conftest import CACHE
from tests.e2e.faults import shared_application
from tests.e2e.test_handover import QUICK, Connect, on_connect
from tests.final_failures import expect_each_once
from tests.integration.client.commands import run_commands
from tests.integration.java.conftest import drop_capture
from tests.integration.worker.environment import PLAIN, RunEnvironment, make_topic, values_of
from tests.java_plugins import DEBEZIUM, JDBC, copied_mirror, installed_jdbc, installed_plugins
from tests.waiting import HANG_SECONDS, wait_until

MANY = 500
JSON = "org.apache.kafka.connect.json.JsonConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(slots=True)
class Chain:
    """Rows of ``orders`` go to a topic (Debezium); from there to a table (JDBC sink), and to another topic (MirrorMaker 2)."""

    bootstrap: str
    server: PostgresServer
    database: Connection
    name: str
    rows: int = 0

    @property
    def schema(self) -> str:
        return self.name.replace("-", "_").lower()

    @property
    def topic(self) -> str:
        return f"{self.name}.{self.schema}.orders"

    def create(self) -> None:
        make_topic(self.bootstrap, self.topic)
        self.database.execute(text(f"CREATE SCHEMA {self.schema}"))
        self.database.execute(text(f"CREATE TABLE {self.schema}.orders (id int PRIMARY KEY, state text)"))

    def configs(self) -> dict[str, dict[str, str]]:
        url = f"jdbc:postgresql://{LOOPBACK}:{self.server.port}/postgres"
        json_both = {"key.converter": JSON, "value.converter": JSON}
        debezium = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": LOOPBACK,
            "database.port": str(self.server.port),
            "database.user": USER,
            "database.password": "canary-of-a-password",
            "database.dbname": "postgres",
            "topic.prefix": self.name,
            "slot.name": self.schema,
            "publication.name": self.schema,
            "publication.autocreate.mode": "filtered",
            "table.include.list": f"{self.schema}.orders",
            "transforms": "rows",
            "transforms.rows.type": "io.debezium.transforms.ExtractNewRecordState",
            **json_both,
        }
        sink = {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "topics": self.topic,
            "connection.url": url,
            "connection.username": USER,
            "connection.password": "canary-of-a-password",
            "insert.mode": "insert",
            "primary.key.mode": "none",
            "schema.evolution": "basic",
            "collection.name.format": f"{self.schema}.copies",
            **json_both,
        }
        mirror = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "east",
            "target.cluster.alias": "west",
            "source.cluster.bootstrap.servers": self.bootstrap,
            "target.cluster.bootstrap.servers": self.bootstrap,
            "topics": self.topic,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "sync.topic.acls.enabled": "false",
            "refresh.topics.interval.seconds": "5",
            "key.converter": BYTES,
            "value.converter": BYTES,
        }
        return {f"debezium-{self.name}": debezium, f"jdbc-{self.name}": sink, f"mirror-{self.name}": mirror}

    def insert(self) -> None:
        rows = f"SELECT n, 'state ' || n FROM generate_series({self.rows}, {self.rows + MANY - 1}) n"
        self.database.execute(text(f"INSERT INTO {self.schema}.orders {rows}"))
        self.rows += MANY

    def found(self) -> list[Counter[int]]:
        """How often each row has arrived: on the topic, on the mirrored topic, in the table."""
        topics = [self._on_topic(self.topic), self._on_topic(f"east.{self.topic}")]
        has_copies = self.database.execute(text(f"SELECT to_regclass('{self.schema}.copies')")).scalar_one()
        ids = self.database.execute(text(f"SELECT id FROM {self.schema}.copies")).scalars() if has_copies else ()
        return [*topics, Counter(ids)]

    def _on_topic(self, topic: str) -> Counter[int]:
        with suppress(TopicMissingException):
            return Counter(json.loads(value)["payload"]["id"] for value in values_of(self.bootstrap, topic) if value)
        return Counter()

    def arrive(self) -> None:
        try:
            wait_until(lambda: all(len(counted) == self.rows for counted in self.found()))
        except AssertionError as error:
            raise AssertionError(f"{[len(counted) for counted in self.found()]} of {self.rows}") from error


@pytest.fixture
def chain(bootstrap: str, postgres: PostgresServer, unique: str) -> Iterator[Chain]:
    engine = create_engine(postgres.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as database:
        made = Chain(bootstrap, postgres, database, f"t{unique[-8:]}")
        made.create()
        yield made
        drop_capture(database, made.schema)
    engine.dispose()


def plugin_path(folder: Path) -> Path:
    """The same plugins for both."""
    folder.mkdir()
    for installed, location in ((installed_plugins(CACHE), DEBEZIUM[0]), (installed_jdbc(CACHE), JDBC)):
        shutil.copytree(installed / location, folder / location)
    copied_mirror(CACHE, folder)
    return folder


@pytest.mark.soak
def test_debezium_a_jdbc_sink_and_mirror_maker_are_taken_over_and_given_back(chain: Chain, unique: str, tmp_path: Path) -> None:
    group, plugins = f"takeover-{unique}", str(plugin_path(tmp_path / "plugins"))
    more = {**QUICK, "plugin.path": plugins}
    worker = ConnectWorker(tmp_path / group, CACHE, find_java(cache=CACHE), chain.bootstrap, exactly_once=False, more=more)
    own = {"batch.storage.topic": f"{group}-batch", "batch.storage.replication.factor": "1", "java.allowed.locations": plugins}
    variables = {
        "AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(own | PLAIN | {"airflow.allowed.applications": "crm"}),
        "AIRFLOW__CONNECT__WORKER_PROPERTIES": str(worker.file),
    }
    configs = chain.configs()
    chain.insert()
    with on_connect(worker) as connect:
        home = airflow_home(tmp_path / "airflow", variables)
        for name, config in configs.items():
            connect.create(RunEnvironment({}, name, tmp_path), config)
        chain.arrive()
    chain.insert()
    (taken,) = run_commands(home, [["import", str(worker.file), "--takeover", "--application", "crm"]])
    assert (taken.code, taken.out.count("joins application crm")) == (0, 3), taken.out + taken.err

    settings = parse_properties(worker.file.read_bytes()) | own | PLAIN
    application = shared_application.start(tmp_path / "application", settings, "process")
    try:
        chain.arrive()
        chain.insert()
        chain.arrive()
        stopped, states = run_commands(home, [["stop", *configs], ["list", "-o", "json"]])
        assert stopped.code == 0, stopped.err
        assert {row["state"] for row in states.json} == {"STOPPED"}
        application.process.send_signal(signal.SIGTERM)
        application.process.wait(HANG_SECONDS)
    finally:
        shared_application.kill(application)
        print(application.output()[-3000:])
    chain.insert()
    with on_connect(worker) as connect:
        given_back(connect, tmp_path, list(configs))
        chain.arrive()
        chain.insert()
        chain.arrive()
    for found in chain.found():
        expect_each_once(found.elements(), range(chain.rows))


def given_back(connect: Connect, folder: Path, names: list[str]) -> None:
    for name in names:
        assert connect.ask("GET", f"/connectors/{name}")["config"]["airflow.application"] == "crm"
        connect.resume(RunEnvironment({}, name, folder))
