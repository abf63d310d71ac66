"""Change data capture for minutes: a table under hundreds of changes a second, read by Debezium's source in a run every 20 seconds, which
is killed at random, and written by JdbcSink into another table. At the end the source table, the topic and the target table are equal, and
the topic has each change once, in order.

``SECONDS`` is how long the table changes, ``CHANGES`` how many changes a second there are. Latency and the WAL that was held back are
written to ``.dev/change-capture.json``.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition
from sqlalchemy import Connection, create_engine, text

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.runtime.model.run import RUN_FILE, RunSpec
from airflow_provider_connect.runtime.spark.submit_options import submit_options
from tests.conftest import CACHE, CHECKOUT
from tests.integration.java.conftest import JavaRuns, drop_capture
from tests.integration.java.processes import jvm_of
from tests.integration.standalone.agent import properties
from tests.java_plugins import DEBEZIUM, installed_plugins
from tests.waiting import HANG_SECONDS, wait_until

PAUSE_SECONDS = 0.01

DURATION = float(os.environ.get("SECONDS", "600"))
CHANGES = int(os.environ.get("CHANGES", "500"))
INTERVAL = 20.0
EVERY_SPARK = 5
"""One run in so many is a Spark application."""
IN_TRANSACTION = 10
LONGEST_RUN = 8.0
STRIKES = ("jvm", "run", "connection", "backend", "none")
PASSWORD = "canary-of-a-password"
JSON = "org.apache.kafka.connect.json.JsonConverter"

_SESSIONS = {
    "backend": "(SELECT active_pid AS pid FROM pg_replication_slots WHERE slot_name = '{slot}' AND active) slots",
    "connection": "pg_stat_activity WHERE application_name LIKE 'Debezium%'",
}
"""Where the process ids of a run's sessions on the server are found."""

Version = tuple[int, int | None]
"""An id, and the number of the change that made its row; None: deleted."""


class Shop(threading.Thread):
    """Changes a table at a steady rate until ``ended`` is set. ``changes`` are all that are committed, in the order of the log; half-way a
    column is added."""

    def __init__(self, url: str, table: str) -> None:
        super().__init__(daemon=True)
        self.url, self.table, self.ended = url, table, threading.Event()
        self.changes: list[Version] = [(0, 0)]
        self.at_ms: dict[int, float] = {}
        self._random, self._living, self._next = random.Random(7), list[int](), 1
        self._has_note = False
        self.failure: Exception | None = None

    def run(self) -> None:
        engine = create_engine(self.url)
        try:
            with engine.connect() as database:
                began = time.monotonic()
                while not self.ended.is_set():
                    elapsed = time.monotonic() - began
                    if elapsed > DURATION / 2 and not self._has_note:
                        database.execute(text(f"ALTER TABLE {self.table} ADD COLUMN note text"))
                        database.commit()
                        self._has_note = True
                    if len(self.changes) >= elapsed * CHANGES:
                        self.ended.wait(PAUSE_SECONDS)
                        continue
                    made = [self._change(database) for _ in range(IN_TRANSACTION)]
                    database.commit()
                    now = time.time() * 1000
                    self.changes += made
                    self.at_ms.update((version, now) for _, version in made if version is not None)
        except Exception as error:
            self.failure = error
        finally:
            engine.dispose()

    def _change(self, database: Connection) -> Version:
        version, chance = self._next, self._random.random()
        self._next += 1
        if chance < 0.6 or len(self._living) < 100:
            key, statement = version, "INSERT INTO {} (id, version, state) VALUES (:id, :version, :state)"
            self._living.append(key)
        else:
            at = self._random.randrange(len(self._living))
            key = self._living[at]
            if chance < 0.7:
                self._living[at] = self._living[-1]
                self._living.pop()
                database.execute(text(f"DELETE FROM {self.table} WHERE id = :id"), {"id": key})
                return key, None
            statement = "UPDATE {} SET version = :version, state = :state WHERE id = :id"
            if self._has_note:
                statement = "UPDATE {} SET version = :version, state = :state, note = 'paid' WHERE id = :id"
        database.execute(text(statement.format(self.table)), {"id": key, "version": version, "state": f"state {version}"})
        return key, version


class Seen(threading.Thread):
    """Reads a topic as consumers see it, with the time of each record's arrival in ms."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        config = {"bootstrap.servers": bootstrap, "group.id": f"seen-{topic}", "enable.auto.commit": False}
        self._consumer = Consumer({**config, "isolation.level": "read_committed", "allow.auto.create.topics": False})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self.records: list[tuple[Version, float]] = []
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            message = self._consumer.poll(0.5)
            if message is None or message.error() is not None:
                continue
            key, row = (json.loads(part or b"null") for part in (message.key(), message.value()))
            row = row and row["payload"]
            self.records.append(((key["payload"]["id"], row and row["version"]), time.time() * 1000))
        self._consumer.close()


class Capture:
    """The connectors, their runs, and what ends these."""

    def __init__(self, runs: JavaRuns, server: PostgresServer, name: str) -> None:
        self.runs, self.server, self.name = runs, server, name
        self.schema = name.replace("-", "_").lower()
        self.table, self.topic = f"{self.schema}.orders", f"{name}.{self.schema}.orders"
        self.target = f"{self.schema}_copy"
        schemas = {"key.converter": JSON, "value.converter": JSON}
        self.source_keys = {
            "name": name,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "connector.plugin.location": DEBEZIUM[1],
            "tasks.max": "1",
            "plugin.name": "pgoutput",
            "database.hostname": LOOPBACK,
            "database.port": str(server.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": "postgres",
            "topic.prefix": name,
            "slot.name": self.schema,
            "publication.name": self.schema,
            "publication.autocreate.mode": "filtered",
            "table.include.list": self.table,
            "transforms": "row",
            "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.row.delete.tombstone.handling.mode": "tombstone",
            **schemas,
        }
        self.sink_keys = {
            "name": f"{name}-copy",
            "connector.class": "JdbcSink",
            "topics": self.topic,
            "connection.url": f"jdbc:postgresql://{LOOPBACK}:{server.port}/postgres",
            "connection.user": USER,
            "connection.password": PASSWORD,
            "table.name.format": self.target,
            "insert.mode": "upsert",
            "pk.mode": "record_key",
            "pk.fields": "id",
            "delete.enabled": "true",
            "auto.create": "true",
            "auto.evolve": "true",
            **schemas,
        }
        self.source, self.sink = (self._written(keys) for keys in (self.source_keys, self.sink_keys))
        self.started, self.kills = 0, dict[str, int]()

    def _written(self, keys: dict[str, str]) -> Path:
        path = self.runs.folder / f"{keys['name']}.properties"
        path.write_text(properties(keys))
        return path

    def start(self) -> "subprocess.Popen[str]":
        """A run of the source: a process, or at times a Spark application."""
        self.started += 1
        if self.started % EVERY_SPARK:
            return self.runs.start(self.source)
        directory = self.runs.folder / f"run-{self.started}"
        directory.mkdir(mode=0o700)
        spec = RunSpec(self.name, self.runs.worker, f"run-{self.started}", define=self.source_keys)
        (directory / RUN_FILE).write_text(spec.to_json())
        options = submit_options("local[1]", scratch=self.runs.folder)
        command = options.command("local[1]", str(CHECKOUT / "spark_jobs" / "run_connector.py"), "--run-dir")
        with (self.runs.folder / f"spark-{self.started}.log").open("w") as log:
            process = subprocess.Popen([*command, str(directory)], env=options.environment(), stdout=log, stderr=log, text=True)
        self.runs.started.append(process)
        return process

    def strike(self, what: str, run: "subprocess.Popen[str]", database: Connection) -> None:
        if what in _SESSIONS:
            struck = _SESSIONS[what].format(slot=self.schema)
            is_struck = bool(database.execute(text(f"SELECT pg_terminate_backend(pid) FROM {struck}")).all())
        elif what == "jvm":
            jvm = jvm_of(run)
            is_struck = jvm is not None
            if jvm is not None:
                jvm.kill()
        else:
            is_struck = run.poll() is None
            run.kill()
        if is_struck:
            self.kills[what] = self.kills.get(what, 0) + 1

    def wal_held(self, database: Connection) -> int:
        held = f"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) FROM pg_replication_slots WHERE slot_name = '{self.schema}'"
        return int(database.execute(text(held)).scalar() or 0)

    def drop(self, database: Connection) -> None:
        drop_capture(database, self.schema)
        database.execute(text(f"DROP TABLE IF EXISTS {self.target}"))


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Connection]:
    engine = create_engine(postgres.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def capture(java_runs: JavaRuns, postgres: PostgresServer, database: Connection, unique: str) -> Iterator[Capture]:
    java_runs.use(installed_plugins(CACHE))
    made = Capture(java_runs, postgres, unique)
    database.execute(text(f"CREATE SCHEMA {made.schema}"))
    database.execute(text(f"CREATE TABLE {made.table} (id bigint PRIMARY KEY, version bigint NOT NULL, state text)"))
    java_runs.make_topic(made.topic)
    yield made
    java_runs.end()
    made.drop(database)


@pytest.mark.soak
@pytest.mark.timeout(int(DURATION) + 900)
def test_source_topic_and_target_are_equal_after_minutes_of_changes_and_kills(
    capture: Capture, postgres: PostgresServer, database: Connection
) -> None:
    shop, seen = Shop(postgres.url(), capture.table), Seen(capture.runs.settings.bootstrap_servers, capture.topic)
    chance = random.Random(os.environ.get("SEED", "1"))
    database.execute(text(f"INSERT INTO {capture.table} VALUES (0, 0, 'first')"))  # without a row, a snapshot has no offset to commit
    code, output = capture.runs.run(capture.source)
    assert code == 0, output
    seen.start()
    shop.start()
    held, sinks, deck = [0], list["subprocess.Popen[str]"](), list[str]()
    ends = time.monotonic() + DURATION
    while time.monotonic() < ends:
        next_run = time.monotonic() + INTERVAL
        run = capture.start()
        if not sinks or sinks[-1].poll() is not None:
            sinks.append(capture.runs.start(capture.sink))
        strikes = time.monotonic() + chance.uniform(1, LONGEST_RUN)
        deck = deck or chance.sample(STRIKES, len(STRIKES))
        what = deck.pop()
        while time.monotonic() < next_run or run.poll() is None:
            if what != "none" and time.monotonic() >= strikes and run.poll() is None:
                capture.strike(what, run, database)
                what = "none"
            held.append(capture.wal_held(database))
            time.sleep(0.5)
            assert shop.failure is None, shop.failure
    shop.ended.set()
    shop.join(HANG_SECONDS)
    for _ in range(3):  # the first one may find the slot's reader of a killed run still there, or a claim to fence
        code, output = capture.runs.run(capture.source)
        if code == 0 and wait_all(seen, len(shop.changes)):
            break
    sinks[-1].wait(HANG_SECONDS)
    code, output = capture.runs.run(capture.sink)
    assert code == 0, output
    seen.ended.set()
    seen.join(HANG_SECONDS)
    report(capture, shop, seen, held)
    assert_each_change_once([version for version, _ in seen.records], shop.changes)
    expected = database.execute(text(f"SELECT id, version, state, note FROM {capture.table} ORDER BY id")).all()
    assert database.execute(text(f"SELECT id, version, state, note FROM {capture.target} ORDER BY id")).all() == expected
    last = {key: version for (key, version), _ in seen.records}
    assert {key: version for key, version in last.items() if version is not None} == {row.id: row.version for row in expected}


def wait_all(seen: Seen, count: int) -> bool:
    with suppress(AssertionError):
        wait_until(lambda: len(seen.records) >= count)
    return len(seen.records) >= count


def assert_each_change_once(found: list[Version], changes: list[Version]) -> None:
    """As lists of a hundred thousand would be compared for minutes where they differ."""
    for number, (one, other) in enumerate(zip(found, changes, strict=False)):
        assert one == other, f"record {number}: {one} in the topic, {other} in the table"
    assert len(found) == len(changes)


def report(capture: Capture, shop: Shop, seen: Seen, held: list[int]) -> None:
    latency = [at - shop.at_ms[version] for (_, version), at in seen.records if version is not None and version in shop.at_ms]
    p50, p99 = np.percentile(latency, [50, 99]) / 1000
    found: dict[str, Any] = {
        "seconds": DURATION,
        "changes": len(shop.changes),
        "changes_a_second": round(len(shop.changes) / DURATION),
        "runs": capture.started,
        "kills": capture.kills,
        "latency_seconds": {"p50": round(float(p50), 2), "p99": round(float(p99), 2)},
        "wal_held_mb": {"p50": round(float(np.median(held)) / 1e6, 1), "max": round(max(held) / 1e6, 1)},
    }
    (CHECKOUT / ".dev" / "change-capture.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found), file=sys.stderr)
