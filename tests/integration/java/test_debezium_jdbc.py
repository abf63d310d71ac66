"""Debezium's JDBC sink, unchanged, in runs that end: from a topic into a table of PostgreSQL."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.runtime.worker.application.readiness import NO_WORK, WORK, check_readiness
from tests.conftest import CACHE
from tests.integration.java.conftest import JavaRuns
from tests.java_plugins import JDBC, installed_jdbc
from tests.waiting import HANG_SECONDS

JSON = "org.apache.kafka.connect.json.JsonConverter"
FIELDS = [{"field": "id", "type": "int32", "optional": False}, {"field": "state", "type": "string", "optional": True}]
ID = {"type": "struct", "optional": False, "fields": FIELDS[:1]}
ROW = {"type": "struct", "optional": False, "fields": FIELDS}


@pytest.fixture
def database(postgres: PostgresServer, unique: str) -> Iterator[Connection]:
    engine = create_engine(postgres.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
        connection.execute(text(f'DROP TABLE IF EXISTS "{table_of(unique)}"'))
    engine.dispose()


def table_of(unique: str) -> str:
    return unique.replace("-", "_")


def send(java_runs: JavaRuns, topic: str, rows: dict[int, str | None]) -> None:
    """One record a row; a row without a state is deleted."""
    producer = Producer({"bootstrap.servers": java_runs.settings.bootstrap_servers})
    for number, state in rows.items():
        key = json.dumps({"schema": ID, "payload": {"id": number}})
        row = None if state is None else json.dumps({"schema": ROW, "payload": {"id": number, "state": state}})
        producer.produce(topic, row, key)
    assert producer.flush(HANG_SECONDS) == 0


@pytest.mark.soak
def test_rows_are_written_changed_and_deleted(java_runs: JavaRuns, postgres: PostgresServer, database: Connection, unique: str) -> None:
    java_runs.use(installed_jdbc(CACHE))
    java_runs.make_topic(unique)
    keys = {
        "connector.plugin.location": JDBC,
        "topics": unique,
        "connection.url": f"jdbc:postgresql://{LOOPBACK}:{postgres.port}/postgres",
        "connection.username": USER,
        "connection.password": "canary-of-a-password",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": table_of(unique),
        "key.converter": JSON,
        "value.converter": JSON,
    }
    sink = java_runs.config(unique, "io.debezium.connector.jdbc.JdbcSinkConnector", **keys)
    send(java_runs, unique, dict.fromkeys(range(100), "new"))
    code, output = java_runs.run(sink)
    assert code == 0, output
    send(java_runs, unique, {1: "paid", 2: None, 100: "new"})
    assert check_readiness(java_runs.settings, unique, define=None, secrets_of=lambda _: {}).state == WORK
    code, output = java_runs.run(sink)
    assert (code, "canary-of-a-password" in output) == (0, False), output
    assert check_readiness(java_runs.settings, unique, define=None, secrets_of=lambda _: {}).state == NO_WORK
    rows: dict[int, str] = dict(database.execute(text(f'SELECT id, state FROM "{table_of(unique)}"')).tuples().all())
    assert rows == {number: "paid" if number == 1 else "new" for number in range(101) if number != 2}
