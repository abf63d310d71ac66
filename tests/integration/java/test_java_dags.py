"""Eleven Java connectors of five makers, unchanged, as DAGs of a real Airflow against real servers: files, a second Kafka cluster,
PostgreSQL, MariaDB, RabbitMQ, a table of Iceberg, and a server of MongoDB's protocol.

What each run cost is written to ``.dev/java-dags.json``: seconds and CPU-seconds of its task, records, and MB that
JVMs of plugins took at most.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyiceberg.table import StaticTable
from sqlalchemy import create_engine, text

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.dev.stack import Stack
from tests.conftest import CACHE, CHECKOUT
from tests.integration.airflow.conftest import Airflow, signed_in
from tests.integration.java.conftest import DEBEZIUM_PASSWORD, DEBEZIUM_USER, SINK, SOURCE, drop_capture
from tests.integration.standalone.agent import STRING, properties
from tests.integration.worker.environment import read_topic, send
from tests.java_plugins import (
    DEBEZIUM,
    FILE,
    ICEBERG,
    JDBC,
    MARIADB,
    MIRROR,
    MONGODB,
    RABBITMQ,
    copied_mirror,
    installed_iceberg,
    installed_jdbc,
    installed_mariadb,
    installed_mongodb,
    installed_plugins,
    installed_rabbitmq,
)
from tests.kafka_topics import create_topic
from tests.mariadb_server import MariadbServer
from tests.mongo_server import MongoServer
from tests.rabbitmq_server import RabbitmqServer
from tests.waiting import HANG_SECONDS

JSON = "org.apache.kafka.connect.json.JsonConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
PASSWORD = "canary-of-a-password"
PLAIN = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
TEXT = {"key.converter": STRING, "value.converter": STRING}
COUNT = 200

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


@dataclass(slots=True)
class JavaDags:
    """An Airflow whose worker allows the plugins. ``costs`` has an entry for each run."""

    airflow: Airflow
    folder: Path
    costs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return self.airflow.settings().bootstrap_servers

    def run(self, name: str, config: Mapping[str, str], *, engine: str = "process") -> int:
        """A run of the connector's DAG, which succeeds. Returns the records that it delivered."""
        if self.airflow.config(name) is None:
            self.airflow.write_dag(name, {"tasks.max": "1", "airflow.engine": engine, **config})
        with Peak() as peak:
            run = self.airflow.run(name, within_seconds=2 * HANG_SECONDS)
        [task] = [each for each in self.airflow.tasks(name, run) if each["task_id"] == "run"]
        [of_task] = self.airflow.xcoms(name, run)["return_value"].values()
        seconds = (datetime.fromisoformat(task["end_date"]) - datetime.fromisoformat(task["start_date"])).total_seconds()
        log = self.airflow.log(name, run)
        assert PASSWORD not in log
        assert DEBEZIUM_PASSWORD not in log
        records = int(of_task["records"])
        cost = {"records": records, "seconds": seconds, "cpu": of_task.get("cpu_seconds"), "mb": peak.mb}
        self.costs.append({"class": config["connector.class"], "engine": engine, **cost})
        return records

    def send(self, topic: str, values: list[str]) -> None:
        send(self.bootstrap, topic, values)


class Peak:
    """The most memory that a JVM of Java plugins has had meanwhile."""

    def __enter__(self) -> "Peak":
        self.mb, self._ended = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            for process in psutil.process_iter(["name"]):
                with suppress(psutil.Error):
                    if process.info["name"] == "java" and "connect-java" in " ".join(process.cmdline()):
                        self.mb = max(self.mb, process.memory_info().rss >> 20)


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDags]:
    folder = tmp_path_factory.mktemp("java-dags")
    own = folder / "plugins"
    own.mkdir()
    copied_mirror(CACHE, own)
    installed = (installed_plugins, installed_mariadb, installed_jdbc, installed_iceberg, installed_mongodb, installed_rabbitmq)
    paths = ",".join(map(str, (own, *(each(CACHE) for each in installed))))
    worker = folder / "worker.properties"
    worker.write_text(properties({"plugin.path": paths, "java.allowed.locations": paths}))
    with Stack(folder / "stack", cache=CACHE, worker=worker, allowed=Path("/")) as stack, signed_in(stack) as client:
        made = JavaDags(Airflow(stack, client, folder / "notices"), folder)
        yield made
        (CHECKOUT / ".dev").mkdir(exist_ok=True)
        (CHECKOUT / ".dev" / "java-dags.json").write_text(json.dumps(made.costs, indent=1))


@pytest.mark.parametrize("engine", ["spark", "process"])
def test_lines_of_a_file_into_a_file_by_kafkas_file_connectors(dags: JavaDags, unique: str, engine: str) -> None:
    source, target = dags.folder / f"{engine}-in.txt", dags.folder / f"{engine}-out.txt"
    read = {"connector.class": SOURCE, "connector.plugin.location": FILE, "file": str(source), "topic": unique, **TEXT}
    write = {"connector.class": SINK, "connector.plugin.location": FILE, "file": str(target), "topics": unique, **TEXT}
    for number in range(2):
        with source.open("a") as file:
            file.writelines(f"{number} line {line}\n" for line in range(COUNT))
        assert dags.run(f"in-{unique}", read, engine=engine) == COUNT
        assert dags.run(f"out-{unique}", write, engine=engine) == COUNT
        assert target.read_text() == source.read_text()


def test_a_topic_of_another_cluster_by_mirror_makers_three(dags: JavaDags, unique: str) -> None:
    with KafkaServer(dags.folder / "origin", CACHE) as there:
        create_topic(there.bootstrap_servers, unique, 1)
        send(there.bootstrap_servers, unique, map(str, range(COUNT)))
        keys = {
            "connector.plugin.location": MIRROR,
            "source.cluster.alias": "there",
            "target.cluster.alias": "here",
            "source.cluster.bootstrap.servers": there.bootstrap_servers,
            "target.cluster.bootstrap.servers": dags.bootstrap,
            "topics": unique,
            "groups": f"readers-{unique}",
            "sync.group.offsets.enabled": "true",
            "key.converter": BYTES,
            "value.converter": BYTES,
            **{f"{name}replication.factor": "1" for name in ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.")},
        }

        def run(kind: str) -> int:
            return dags.run(f"{kind}-{unique}", {"connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector", **keys})

        assert run("Source") == COUNT
        assert [int(each.value or b"") for each in read_topic(dags.bootstrap, f"there.{unique}")] == [*range(COUNT)]
        reader = Consumer({"bootstrap.servers": there.bootstrap_servers, "group.id": f"readers-{unique}"})
        reader.commit(offsets=[TopicPartition(unique, 0, COUNT)], asynchronous=False)
        reader.close()
        assert run("Checkpoint") == 1
        assert run("Heartbeat") >= 1
        copied = Consumer({"bootstrap.servers": dags.bootstrap, "group.id": f"readers-{unique}"})
        [found] = copied.committed([TopicPartition(f"there.{unique}", 0)], timeout=HANG_SECONDS)
        copied.close()
        assert found.offset >= COUNT


@pytest.mark.parametrize("engine", ["spark", "process"])
def test_changes_of_a_table_into_another_by_debezium_and_its_jdbc_sink(
    dags: JavaDags, postgres: PostgresServer, unique: str, engine: str
) -> None:
    schema = unique.replace("-", "_").lower()
    database = {"database.hostname": LOOPBACK, "database.port": str(postgres.port), "database.user": USER, "database.dbname": "postgres"}
    source = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "connector.plugin.location": DEBEZIUM[1],
        "plugin.name": "pgoutput",
        **database,
        "database.password": PASSWORD,
        "topic.prefix": unique,
        "slot.name": schema,
        "publication.name": schema,
        "publication.autocreate.mode": "filtered",
        "table.include.list": f"{schema}.orders",
        "key.converter": JSON,
        "value.converter": JSON,
    }
    sink = {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "connector.plugin.location": JDBC,
        "topics": f"{unique}.{schema}.orders",
        "connection.url": f"jdbc:postgresql://{LOOPBACK}:{postgres.port}/postgres",
        "connection.username": USER,
        "connection.password": PASSWORD,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": f"{schema}_copy",
        "key.converter": JSON,
        "value.converter": JSON,
    }
    engine_of = create_engine(postgres.url(), isolation_level="AUTOCOMMIT")
    with ExitStack() as opened, engine_of.connect() as connection:
        opened.callback(engine_of.dispose)
        for statement in (f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.orders (id int PRIMARY KEY, state text)"):
            connection.execute(text(statement))
        opened.callback(_drop, engine_of, schema)
        connection.execute(text(f"INSERT INTO {schema}.orders SELECT n, 'new' FROM generate_series(1, {COUNT}) n"))
        assert dags.run(f"cdc-{unique}", source, engine=engine) == COUNT
        for statement in ("UPDATE {} SET state = 'paid' WHERE id <= 10", "DELETE FROM {} WHERE id > 190"):
            connection.execute(text(statement.format(f"{schema}.orders")))
        assert dags.run(f"cdc-{unique}", source, engine=engine) == 10 + 2 * 10, "each delete has a tombstone"
        dags.run(f"copy-{unique}", sink, engine=engine)
        rows: dict[int, str] = dict(connection.execute(text(f"SELECT id, state FROM {schema}_copy")).tuples().all())
        assert rows == {number: "paid" if number <= 10 else "new" for number in range(1, 191)}


def _drop(engine: Any, schema: str) -> None:
    with engine.connect() as connection:
        drop_capture(connection, schema)
        connection.execute(text(f"DROP TABLE IF EXISTS {schema}_copy"))


def test_changes_of_mariadb_by_debezium(dags: JavaDags, logged_mariadb: MariadbServer, unique: str) -> None:
    database = unique.replace("-", "_").lower()
    with logged_mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"CREATE TABLE {database}.orders (id int PRIMARY KEY, state text)")
        cursor.execute(f"INSERT INTO {database}.orders VALUES (1, 'new'), (2, 'new')")
    create_topic(dags.bootstrap, f"{unique}-history", 1)
    config = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "connector.plugin.location": MARIADB,
        "database.hostname": LOOPBACK,
        "database.port": str(logged_mariadb.port),
        "database.user": DEBEZIUM_USER,
        "database.password": DEBEZIUM_PASSWORD,
        "database.server.id": "5417",
        "topic.prefix": unique,
        "database.include.list": database,
        "table.include.list": f"{database}.orders",
        "include.schema.changes": "false",
        "schema.history.internal.kafka.bootstrap.servers": dags.bootstrap,
        "schema.history.internal.kafka.topic": f"{unique}-history",
        "key.converter": JSON,
        **PLAIN,
    }
    assert dags.run(unique, config) == 2
    with logged_mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"UPDATE {database}.orders SET state = 'paid' WHERE id = 2")
        cursor.execute(f"INSERT INTO {database}.orders VALUES (3, 'new')")
    assert dags.run(unique, config) == 2
    values = [json.loads(each.value) for each in read_topic(dags.bootstrap, f"{unique}.{database}.orders") if each.value]
    assert [(value["op"], value["after"]["id"], value["after"]["state"]) for value in values] == [
        ("r", 1, "new"),
        ("r", 2, "new"),
        ("u", 2, "paid"),
        ("c", 3, "new"),
    ]


def test_a_topic_into_a_table_of_iceberg_by_its_own_sink(dags: JavaDags, unique: str) -> None:
    warehouse = dags.folder / "warehouse"
    for topic in (unique, f"{unique}-control"):
        create_topic(dags.bootstrap, topic, 1)
    config = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "connector.plugin.location": ICEBERG,
        "topics": unique,
        **PLAIN,
        "iceberg.tables": "shop.orders",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": warehouse.as_uri(),
        "iceberg.control.topic": f"{unique}-control",
        "iceberg.control.commit.timeout-ms": "10000",
    }
    for number in range(2):
        dags.send(unique, [json.dumps({"id": each}) for each in range(number * COUNT, (number + 1) * COUNT)])
        assert dags.run(unique, config) == COUNT
    metadata = sorted((warehouse / "shop" / "orders" / "metadata").glob("v*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    rows = StaticTable.from_metadata(str(metadata[-1])).scan().to_arrow()
    assert sorted(int(str(each)) for each in rows["id"]) == [*range(2 * COUNT)]


def test_a_topic_into_documents_by_mongodbs_own_sink(dags: JavaDags, unique: str) -> None:
    strategies = "com.mongodb.kafka.connect.sink"
    create_topic(dags.bootstrap, unique, 1)
    with MongoServer() as server:
        config = {
            "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
            "connector.plugin.location": MONGODB,
            "topics": unique,
            "connection.uri": server.uri,
            "database": "shop",
            "collection": unique,
            "document.id.strategy": f"{strategies}.processor.id.strategy.ProvidedInValueStrategy",
            "document.id.strategy.overwrite.existing": "true",
            "writemodel.strategy": f"{strategies}.writemodel.strategy.ReplaceOneDefaultStrategy",
            **PLAIN,
        }
        dags.send(unique, [json.dumps({"_id": number, "state": "new"}) for number in range(COUNT)])
        assert dags.run(unique, config) == COUNT
        client = server.client()
        assert sorted(each["_id"] for each in client["shop"][unique].find()) == [*range(COUNT)]
        client.close()


def test_a_topic_into_a_queue_of_rabbitmq(dags: JavaDags, unique: str) -> None:
    create_topic(dags.bootstrap, unique, 1)
    with RabbitmqServer() as server:
        server.declare(unique)
        config = {
            "connector.class": "com.github.jcustenborder.kafka.connect.rabbitmq.RabbitMQSinkConnector",
            "connector.plugin.location": RABBITMQ,
            "topics": unique,
            "rabbitmq.host": LOOPBACK,
            "rabbitmq.port": str(server.port),
            "rabbitmq.exchange": "",
            "rabbitmq.routing.key": unique,
            "value.converter": BYTES,
        }
        values = [f"message {number}" for number in range(COUNT)]
        dags.send(unique, values)
        assert dags.run(unique, config) == COUNT
        assert server.messages(unique) == values
