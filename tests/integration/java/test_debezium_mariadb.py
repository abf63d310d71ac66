"""Debezium's source for MariaDB in runs that end, on a real server: its goal, its history, its gate without a JVM, kills, a purged log."""

import json
from pathlib import Path

import pymysql
import pytest

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.runtime.worker.application.readiness import NO_WORK, WORK, check_readiness
from tests.conftest import CACHE
from tests.integration.java.conftest import DEBEZIUM_PASSWORD, DEBEZIUM_USER, JavaRuns
from tests.integration.java.processes import children, jvm_of
from tests.integration.java.test_debezium import JSON
from tests.java_plugins import MARIADB, installed_mariadb
from tests.mariadb_server import MariadbServer
from tests.waiting import HANG_SECONDS, wait_until

ROWS = 8000


class Orders:
    """A table ``orders`` in a database of the test's own, and a connector that reads it; ``other`` is one that it does not read."""

    def __init__(self, runs: JavaRuns, server: MariadbServer, unique: str) -> None:
        self.runs, self.server, self.name = runs, server, unique
        self.database = unique.replace("-", "_").lower()[-40:]
        self.topic = f"{unique}.{self.database}.orders"
        self.history = f"{unique}.history"
        self.execute(f"CREATE DATABASE {self.database}")
        for table in ("orders", "other"):
            self.execute(f"CREATE TABLE {self.database}.{table} (id int PRIMARY KEY, state text)")

    def execute(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        self.transactions(*([statement] for statement in statements))

    def transactions(self, *groups: "list[str]") -> None:
        with self.server.connect() as connection, connection.cursor() as cursor:
            connection.autocommit(False)
            for statements in groups:
                for statement in statements:
                    cursor.execute(statement.format(orders=f"{self.database}.orders", other=f"{self.database}.other"))
                connection.commit()

    def config(self, **more: str) -> Path:
        keys = {
            "connector.plugin.location": MARIADB,
            "database.hostname": LOOPBACK,
            "database.port": str(self.server.port),
            "database.user": DEBEZIUM_USER,
            "database.password": DEBEZIUM_PASSWORD,
            "database.server.id": str(1000 + abs(hash(self.name)) % 1_000_000),
            "topic.prefix": self.name,
            "database.include.list": self.database,
            "table.include.list": f"{self.database}.orders",
            "schema.history.internal.kafka.bootstrap.servers": self.runs.settings.bootstrap_servers,
            "schema.history.internal.kafka.topic": self.history,
            "key.converter": JSON,
            "value.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
        }
        given = keys | {key.replace("_", "."): value for key, value in more.items()}
        return self.runs.config(self.name, "io.debezium.connector.mariadb.MariaDbConnector", **given)

    def run(self, config: Path) -> str:
        """The output of all runs so far; this one has succeeded."""
        code, output = self.runs.run(config)
        assert code == 0, output
        return output

    def changes(self) -> list[tuple[str, int]]:
        """Operation and id of each record; a tombstone has neither, and is left out."""
        values = [json.loads(value) for value in self.runs.records(self.topic) if value]
        return [(value["op"], (value["after"] or value["before"])["id"]) for value in values]

    def readiness(self) -> str:
        """What the check before a scheduled run answers, which starts no JVM."""
        found = check_readiness(self.runs.settings, self.name, define=None, secrets_of=lambda _: {})
        assert children() == []
        return found.state


@pytest.fixture
def orders(java_runs: JavaRuns, logged_mariadb: MariadbServer, unique: str) -> Orders:
    java_runs.use(installed_mariadb(CACHE))
    return Orders(java_runs, logged_mariadb, unique)


@pytest.mark.soak
def test_runs_take_the_snapshot_then_what_changed_and_nothing_starts_without_changes(orders: Orders) -> None:
    config = orders.config()
    orders.execute("INSERT INTO {orders} VALUES (1, 'new'), (2, 'new'), (3, 'new')")
    orders.run(config)
    snapshot = [("r", 1), ("r", 2), ("r", 3)]
    assert orders.changes() == snapshot
    assert orders.readiness() == NO_WORK

    orders.execute(*(f"INSERT INTO {{orders}} VALUES ({n}, 'new')" for n in range(4, 11)))
    orders.execute("UPDATE {orders} SET state = 'paid' WHERE id = 4", "DELETE FROM {orders} WHERE id IN (1, 5)")
    assert orders.readiness() == WORK
    output = orders.run(config)
    known = [*snapshot, *(("c", n) for n in range(4, 11)), ("u", 4), ("d", 1), ("d", 5)]
    assert orders.changes() == known
    assert orders.readiness() == NO_WORK, "the offset is at the end of the log, behind its last record's"
    assert DEBEZIUM_PASSWORD not in output

    orders.execute("INSERT INTO {other} VALUES (1, 'unread')", "ALTER TABLE {orders} ADD COLUMN note text")
    orders.run(config)
    assert orders.changes() == known
    assert orders.readiness() == NO_WORK, "another table's changes are passed once"

    orders.execute("INSERT INTO {orders} VALUES (11, 'new', 'with a column that the history has')")
    orders.run(config)
    assert orders.changes() == [*known, ("c", 11)]
    last = json.loads(orders.runs.records(orders.topic)[-1])
    assert last["after"] == {"id": 11, "state": "new", "note": "with a column that the history has"}


def test_a_first_run_that_finds_no_rows_is_continued_by_the_next(orders: Orders) -> None:
    config = orders.config(include_schema_changes="false")
    orders.run(config)
    assert orders.readiness() == NO_WORK
    orders.transactions(["INSERT INTO {orders} VALUES (1, 'event')", "DELETE FROM {orders}"])
    assert orders.readiness() == WORK
    orders.run(config)
    assert orders.changes() == [("c", 1), ("d", 1)]
    assert orders.readiness() == NO_WORK


def killed_and_finished(orders: Orders, config: Path, rows: int, kill: "list[str]") -> None:
    """Runs over so many new rows, of which each but the last is killed, process or JVM, once it has committed some."""
    first = 1 + len(orders.changes())
    groups = range(first, first + rows, 20)
    orders.transactions(*([f"INSERT INTO {{orders}} VALUES {', '.join(f'({n + m}, 0)' for m in range(20))}"] for n in groups))
    for what in kill:
        before = orders.runs.end_of(orders.topic)
        process = orders.runs.start(config)
        jvm = wait_until(lambda: jvm_of(process))  # noqa: B023
        wait_until(lambda: orders.runs.end_of(orders.topic) > before)  # noqa: B023
        (process if what == "process" else jvm).kill()
        orders.runs.ended(process)
        jvm.wait(HANG_SECONDS)  # it may commit once more than its process: the next run's records are counted behind that
        assert before < orders.runs.end_of(orders.topic)
        assert orders.readiness() == WORK, "it was killed on its way"
    orders.run(config)
    assert orders.changes()[first - 1 :] == [("c", n) for n in range(first, first + rows)]


@pytest.fixture
def small_batches(orders: Orders) -> Path:
    """A config of which one run has ended, with a row: its offset is committed. Batches end within transactions."""
    config = orders.config(max_batch_size="73", max_queue_size="200")
    orders.execute("INSERT INTO {orders} VALUES (1, 'new')")
    orders.run(config)
    return config


@pytest.mark.soak
def test_what_a_killed_run_has_left_comes_once(orders: Orders, small_batches: Path) -> None:
    killed_and_finished(orders, small_batches, ROWS, ["process"])
    assert orders.readiness() == NO_WORK


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_in_a_storm_of_kills(orders: Orders, small_batches: Path) -> None:
    for _ in range(3):
        killed_and_finished(orders, small_batches, 2 * ROWS, ["process", "jvm", "process", "jvm"])


@pytest.mark.soak
def test_a_run_ends_at_its_goal_though_changes_never_end(orders: Orders, small_batches: Path) -> None:
    process = orders.runs.start(small_batches)
    number = 1
    while process.poll() is None:
        number += 1
        orders.execute(f"INSERT INTO {{orders}} VALUES ({number}, 'new')")
    code, output = orders.runs.ended(process)
    assert code == 0, output
    orders.run(small_batches)
    assert orders.changes()[1:] == [("c", n) for n in range(2, number + 1)]


@pytest.mark.soak
def test_a_purged_log_is_named_with_the_way_out(orders: Orders) -> None:
    config = orders.config()
    orders.execute("INSERT INTO {orders} VALUES (1, 'new')")
    assert "BinaryLogClient" not in orders.run(config), "its ordinary work, which it logs by java.util.logging"
    orders.execute("INSERT INTO {orders} VALUES (2, 'lost')", "FLUSH BINARY LOGS", "INSERT INTO {orders} VALUES (3, 'kept')")
    with orders.server.connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW MASTER STATUS")
        newest = cursor.fetchone()
        assert newest is not None
        cursor.execute(f"PURGE BINARY LOGS TO '{newest['File']}'")
    assert orders.readiness() == WORK
    code, output = orders.runs.run(config)
    assert (code, orders.runs.task(orders.name).state) == (1, "FAILED"), output
    trace = orders.runs.task(orders.name).trace or ""
    assert "no longer holds" in trace
    assert "airflow connect offsets reset" in trace
    assert orders.changes() == [("r", 1)]


def test_a_history_on_an_internal_topic_is_refused(orders: Orders) -> None:
    internal = orders.runs.settings.config_topic
    code, output = orders.runs.run(orders.config(schema_history_internal_kafka_topic=internal))
    assert (code != 0, orders.runs.task(orders.name).state) == (True, "FAILED"), output
    assert "It is an internal topic" in (orders.runs.task(orders.name).trace or "")
