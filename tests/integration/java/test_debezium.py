"""Debezium's source for PostgreSQL in runs that end, on a real server: its goal, its gate without a JVM, kills."""

import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection

from airflow_provider_connect import Connect
from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.java.bounded.debezium_postgres import CLASS
from airflow_provider_connect.runtime.java.catalog.location import write_record
from airflow_provider_connect.runtime.model.plugin_kinds import Declared, PluginKind
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.model.upgrades import UpgradeState
from airflow_provider_connect.runtime.worker.application.readiness import NO_WORK, WORK, check_readiness
from airflow_provider_connect.standalone.files import read_connector_file
from tests.conftest import CACHE
from tests.integration.java.conftest import JavaRuns, drop_capture
from tests.integration.java.processes import children, jvm_of
from tests.java_plugins import DEBEZIUM, VALIDATED, installed_plugins, installed_validated
from tests.unit.herder.conftest import NotedRuns
from tests.waiting import HANG_SECONDS, wait_until

JSON = "org.apache.kafka.connect.json.JsonConverter"
ROWS = 2000


class Orders:
    """A table ``orders`` in a schema of the test's own, and a connector that reads it; ``other`` is one that it does not read."""

    def __init__(self, runs: JavaRuns, server: PostgresServer, database: Connection, unique: str) -> None:
        self.runs, self.server, self.database, self.name = runs, server, database, unique
        self.schema = unique.replace("-", "_").lower()
        self.topic = f"{unique}.{self.schema}.orders"
        self.execute(f"CREATE SCHEMA {self.schema}")
        for table in ("orders", "other"):
            self.execute(f"CREATE TABLE {self.schema}.{table} (id int PRIMARY KEY, state text)")

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.database.execute(text(statement.replace("{orders}", f"{self.schema}.orders").replace("{other}", f"{self.schema}.other")))

    def config(self, **more: str) -> Path:
        keys = {
            "connector.plugin.location": DEBEZIUM[1],
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
            "key.converter": JSON,
            "value.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
        }
        given = keys | {key.replace("_", "."): value for key, value in more.items()}
        return self.runs.config(self.name, "io.debezium.connector.postgresql.PostgresConnector", **given)

    def changes(self) -> list[tuple[str, int]]:
        """Operation and id of each record; a tombstone has neither, and is left out."""
        values = [json.loads(value) for value in self.runs.records(self.topic) if value]
        return [(value["op"], (value["after"] or value["before"])["id"]) for value in values]

    def run(self, config: Path) -> list[tuple[str, int]]:
        """The changes after a run that has ended well."""
        code, output = self.runs.run(config)
        assert code == 0, output
        return self.changes()

    def write_elsewhere(self, *, megabytes: int) -> None:
        """Changes of ``other``."""
        rows = f"SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, {1000 * megabytes}) n"
        self.execute("TRUNCATE {other}", f"INSERT INTO {{other}} {rows}", "CHECKPOINT")

    def held(self) -> int:
        """The bytes of WAL that the server keeps for the slot."""
        query = f"SELECT pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots WHERE slot_name = '{self.schema}'"
        return int(self.database.execute(text(query)).scalar_one())

    def readiness(self) -> str:
        """What the check before a scheduled run answers, which starts no JVM."""
        found = check_readiness(self.runs.settings, self.name, define=None, secrets_of=lambda _: {})
        assert children() == []
        return found.state

    def drop(self) -> None:
        drop_capture(self.database, self.schema)


@pytest.fixture
def orders(java_runs: JavaRuns, postgres: PostgresServer, unique: str) -> Iterator[Orders]:
    java_runs.use(installed_plugins(CACHE))
    engine = create_engine(postgres.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as database:
        made = Orders(java_runs, postgres, database, unique)
        yield made
        java_runs.end()
        made.drop()
    engine.dispose()


def test_runs_take_the_snapshot_then_what_changed_and_nothing_starts_without_changes(orders: Orders) -> None:
    config = orders.config()
    orders.execute("INSERT INTO {orders} SELECT n, 'new' FROM generate_series(1, 3) n")
    code, output = orders.runs.run(config)
    assert code == 0, output
    snapshot = [("r", 1), ("r", 2), ("r", 3)]
    assert orders.changes() == snapshot
    orders.execute("INSERT INTO {other} VALUES (1, 'unread')")
    assert orders.readiness() == NO_WORK

    orders.execute(*(f"INSERT INTO {{orders}} VALUES ({n}, 'new')" for n in range(4, 11)))
    orders.execute("UPDATE {orders} SET state = 'paid' WHERE id = 4", "DELETE FROM {orders} WHERE id IN (1, 5)")
    assert orders.readiness() == WORK
    code, output = orders.runs.run(config)
    assert code == 0, output
    assert orders.changes() == [*snapshot, *(("c", n) for n in range(4, 11)), ("u", 4), ("d", 1), ("d", 5)]
    assert orders.readiness() == NO_WORK
    assert "canary-of-a-password" not in output
    assert "AppenderLoggingException" not in output, "a plugin that cannot be loaded costs one line"


def test_a_first_run_that_finds_no_rows_is_continued_by_the_next(orders: Orders) -> None:
    config = orders.config()
    code, output = orders.runs.run(config)
    assert code == 0, output
    assert orders.readiness() == NO_WORK
    orders.execute("BEGIN; INSERT INTO {orders} VALUES (1, 'event'); DELETE FROM {orders}; COMMIT")
    assert orders.readiness() == WORK
    assert orders.run(config) == [("c", 1), ("d", 1)]
    assert orders.readiness() == NO_WORK


def test_changes_come_at_once_where_the_run_stays_and_once_after_kills(orders: Orders) -> None:
    config = dict(line.split("=", 1) for line in orders.config(heartbeat_interval_ms="200").read_text().splitlines())
    orders.execute("INSERT INTO {orders} SELECT n, 'new' FROM generate_series(1, 3) n")
    expected = [("r", 1), ("r", 2), ("r", 3)]
    before = children()
    with Connect(orders.name, orders.runs.worker) as connect:
        connect.add_connector(config)
        wait_until(lambda: orders.runs.topics_of(orders.name))
        wait_until(lambda: orders.changes() == expected)
        for number in range(4, 8):
            orders.execute(f"INSERT INTO {{orders}} VALUES ({number}, 'new')")
            expected.append(("c", number))
            wait_until(lambda: orders.changes() == expected)
            [*_, last] = [each for each in children() if each not in before]
            if number % 2 == 0:
                last.kill()
        connect.herder.pause(orders.name)
        wait_until(lambda: [task.state for task in connect.herder.connector_status(orders.name).tasks] == ["PAUSED"])
        orders.execute("DELETE FROM {orders} WHERE id = 1")
        connect.herder.resume(orders.name)
        wait_until(lambda: orders.changes() == [*expected, ("d", 1)])


@pytest.mark.soak
def test_a_runs_own_heartbeats_do_not_keep_it_from_its_end(orders: Orders) -> None:
    config = orders.config(heartbeat_interval_ms="100")
    orders.execute("INSERT INTO {orders} VALUES (1, 'new')")
    for _ in range(2):  # the second has nothing to read but heartbeats
        result = orders.runs.run_here(config)
        assert result.state is RunState.DONE, result.error
    assert orders.changes() == [("r", 1)]


@pytest.mark.soak  # each takes a minute
@pytest.mark.parametrize("version", [DEBEZIUM[0], pytest.param(VALIDATED[1], marks=pytest.mark.soak)])
def test_wal_of_other_tables_is_let_go_and_no_change_of_the_connectors_with_it(orders: Orders, version: str) -> None:
    """Neither one of a transaction that was open meanwhile. Debezium refuses a slot that is past its last record."""
    if version == VALIDATED[1]:
        orders.runs.use(installed_validated(CACHE))
    config = orders.config(connector_plugin_location=version)
    orders.execute("INSERT INTO {orders} VALUES (1, 'new')")
    assert orders.run(config) == [("r", 1)]
    orders.execute("INSERT INTO {orders} VALUES (2, 'new')")
    assert orders.run(config) == [("r", 1), ("c", 2)]
    with orders.database.engine.connect().execution_options(isolation_level="READ COMMITTED") as long:
        long.execute(text(f"INSERT INTO {orders.schema}.orders VALUES (3, 'new')"))
        for _ in range(4):
            orders.write_elsewhere(megabytes=20)
            assert orders.readiness() == NO_WORK
        long.execute(text(f"INSERT INTO {orders.schema}.orders VALUES (4, 'new')"))
        long.commit()
    orders.execute("INSERT INTO {orders} VALUES (5, 'new')")
    assert orders.readiness() == WORK
    assert orders.run(config)[2:] == [("c", 3), ("c", 4), ("c", 5)]
    for _ in range(4):
        orders.write_elsewhere(megabytes=20)
        assert orders.readiness() == NO_WORK
    assert orders.held() < 24 << 20
    orders.execute("INSERT INTO {orders} VALUES (6, 'new')")
    assert orders.run(config)[5:] == [("c", 6)]
    assert orders.readiness() == NO_WORK


def killed_and_finished(orders: Orders, config: Path, rows: int, kill: "list[str]") -> None:
    """Runs over so many new rows, of which each but the last is killed, process or JVM, once it has committed some."""
    first = 1 + len(orders.changes())
    orders.execute(
        f"DO $$ BEGIN FOR n IN 0..{rows // 10 - 1} LOOP INSERT INTO {{orders}} "
        f"SELECT {first} + 10 * n + m, 'new' FROM generate_series(0, 9) m; COMMIT; END LOOP; END $$"
    )
    for what in kill:
        before = len(orders.changes())
        process = orders.runs.start(config)
        wait_until(lambda: process.poll() is not None or len(orders.changes()) > before)  # noqa: B023
        target = process if what == "process" else jvm_of(process)
        if target is not None:
            target.kill()
        orders.runs.ended(process)
    code, output = orders.runs.run(config)
    assert code == 0, output
    assert orders.changes()[first - 1 :] == [("c", n) for n in range(first, first + rows)]


@pytest.fixture
def small_batches(orders: Orders) -> Path:
    """A config of which one run has ended, with a row: its offset is committed."""
    config = orders.config(max_batch_size="100", max_queue_size="200")
    orders.execute("INSERT INTO {orders} VALUES (1, 'new')")
    code, output = orders.runs.run(config)
    assert code == 0, output
    return config


@pytest.mark.soak
def test_what_a_killed_run_has_left_comes_once(orders: Orders, small_batches: Path) -> None:
    killed_and_finished(orders, small_batches, ROWS, ["process"])
    assert orders.readiness() == NO_WORK


@pytest.mark.soak
def test_an_upgrade_is_tried_at_once_and_a_version_that_fails_goes_back(orders: Orders) -> None:
    """Debezium 3.5, then 3.6, then a version without its driver of PostgreSQL."""
    runs, folder = orders.runs, orders.runs.folder / "versions"
    broken = folder / "debezium-connector-postgres-3.9.0.Final"
    shutil.copytree(installed_plugins(CACHE) / DEBEZIUM[1], broken)
    next(broken.glob("postgresql-*.jar")).unlink()
    declared = Declared(PluginKind.SOURCE, CLASS, CLASS, "3.9.0.Final")
    write_record(broken, [declared], "test")
    paths = f"{installed_plugins(CACHE)},{folder}"
    runs.use(paths)
    with closing(Herder(runs.settings, NotedRuns())) as herder:
        for number, (before, to, state, version) in enumerate(
            [
                ("3.5.0.Final", "", None, "3.5.0.Final"),
                ("3.5.0.Final", "3.6.0.Final", UpgradeState.DONE, "3.6.0.Final"),
                ("3.6.0.Final", "3.9.0.Final", UpgradeState.ROLLED_BACK, "3.6.0.Final"),
            ]
        ):
            config = orders.config(connector_plugin_version=before)
            config.write_text("".join(line for line in config.read_text().splitlines(True) if "plugin.location" not in line))
            orders.execute(f"INSERT INTO {{orders}} VALUES ({number}, 'new')")
            if to:
                herder.request_upgrade(orders.name, to, canary=100)
            code, output = runs.run(config)
            assert (code == 0) == (state is not UpgradeState.ROLLED_BACK), output
            assert runs.task(orders.name).version == version
            assert state is None or herder.upgrade(orders.name).state is state
        with pytest.raises(BadRequestException, match="Java connectors have no previews"):
            herder.compare_versions(orders.name, "3.5.0.Final", records=10)
    code, output = runs.run(config)
    assert (code, runs.task(orders.name).version) == (0, "3.6.0.Final"), output
    assert orders.changes() == [("r", 0), ("c", 1), ("c", 2)]


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_in_a_storm_of_kills(orders: Orders, small_batches: Path) -> None:
    for _ in range(3):
        killed_and_finished(orders, small_batches, 4 * ROWS, ["process", "jvm", "process", "jvm"])


@pytest.mark.soak
def test_a_run_ends_at_its_goal_though_changes_never_end(orders: Orders, small_batches: Path) -> None:
    process = orders.runs.start(small_batches)
    number = 1
    while process.poll() is None:
        number += 1
        orders.execute(f"INSERT INTO {{orders}} VALUES ({number}, 'new')")
    code, output = orders.runs.ended(process)
    assert code == 0, output
    code, output = orders.runs.run(small_batches)
    assert code == 0, output
    assert orders.changes()[1:] == [("c", n) for n in range(2, number + 1)]


def test_a_record_on_the_signal_topic_requests_a_snapshot(orders: Orders) -> None:
    """Without a table of signals. Debezium 3.6.0 takes such a snapshot only while other changes come."""
    signals = {"signal_enabled_channels": "kafka", "read_only": "true", "signal_poll_interval_ms": "100"}
    orders.runs.worker["airflow.allowed.continuous"] = "true"
    config = orders.config(snapshot_mode="no_data", heartbeat_interval_ms="200", airflow_schedule="@continuous", **signals)
    orders.runs.make_topic(f"{orders.name}-signal")
    orders.runs.make_topic(orders.topic)
    orders.execute("INSERT INTO {orders} SELECT n, 'old' FROM generate_series(1, 3) n")
    snapshot = {"type": "execute-snapshot", "data": {"data-collections": [f"{orders.schema}.orders"], "type": "INCREMENTAL"}}
    numbers = itertools.count(4)

    def changed(expected: tuple[str, int]) -> bool:
        orders.execute(f"INSERT INTO {{orders}} VALUES ({next(numbers)}, 'new')")
        return expected in orders.changes()

    with Connect(orders.name, orders.runs.worker) as connect:
        connect.add_connector(read_connector_file(config).config)
        wait_until(lambda: changed(("c", 5)))
        producer = Producer({"bootstrap.servers": orders.runs.settings.bootstrap_servers})
        producer.produce(f"{orders.name}-signal", json.dumps(snapshot).encode(), orders.name.encode())
        assert producer.flush(HANG_SECONDS) == 0
        wait_until(lambda: changed(("r", 3)))
        assert {("r", 1), ("r", 2)} <= set(orders.changes())
