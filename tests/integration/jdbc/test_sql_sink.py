"""Sinks of the sdk's SqlSink into a real PostgreSQL and a real MariaDB, by their drivers and by SQLAlchemy."""

from __future__ import annotations

import uuid
from contextlib import closing, suppress
from typing import Any, ClassVar

import psycopg2
import pytest
import sqlalchemy

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.errors import ConnectException, FencedException, RetriableException
from airflow_provider_connect.sdk import STRING_SCHEMA, Batch, SinkRecord, TopicPartition
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.testing import CommitStep, Fault, MemorySinkContext, SinkCalls, run
from airflow_provider_connect.sdk.testing.calls import start_task
from tests.mariadb_server import MariadbServer
from tests.unit.sdk.transactional_sinks import REFUSED, TableSink, TableSuite, connect, values_in

P = TopicPartition("t", 0)


@pytest.fixture
def postgresql_database(postgres: PostgresServer) -> str:
    name = f"test_{uuid.uuid4().hex[:12]}"
    with closing(psycopg2.connect(postgres.uri())) as admin:
        admin.autocommit = True
        admin.cursor().execute(f"CREATE DATABASE {name}")
    return postgres.url(name)


@pytest.fixture
def mariadb_database(mariadb: MariadbServer) -> str:
    name = f"test_{uuid.uuid4().hex[:12]}"
    with closing(mariadb.connect()) as admin:
        admin.cursor().execute(f"CREATE DATABASE {name}")
    return f"mysql+pymysql://root@127.0.0.1:{mariadb.port}/{name}"


class TestPostgresqlByItsDriver(TableSuite):
    wrapper: ClassVar[str] = ""
    lines_between_kills = 20

    @pytest.fixture(autouse=True)
    def url(self, postgresql_database: str) -> None:
        self.address = self.wrapper + postgresql_database


class TestPostgresqlByAnEngine(TestPostgresqlByItsDriver):
    wrapper = "engine "


class TestMariadbByItsDriver(TableSuite):
    wrapper: ClassVar[str] = ""
    lines_between_kills = 20

    @pytest.fixture(autouse=True)
    def url(self, mariadb_database: str) -> None:
        self.address = self.wrapper + mariadb_database


class TestMariadbByAnEngine(TestMariadbByItsDriver):
    wrapper = "engine "


@pytest.fixture(params=["postgresql", "mariadb"])
def address(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_database")
    return found


def batch(*values: str, first: int = 0) -> Batch:
    records = [SinkRecord(*P, first + n, value=value, value_schema=STRING_SCHEMA) for n, value in enumerate(values)]
    return Batch.from_sink_records(records)[0]


def opened(config: dict[str, str], claim_epoch: int) -> SinkCalls:
    context = MemorySinkContext(config, [P], claim_epoch=claim_epoch, exactly_once=True)
    calls = SinkCalls(start_task(TableSink(), config, context, ALL_ALLOWED), [P])
    calls.open()
    return calls


STEPS = (CommitStep.PUT, CommitStep.PRE_COMMIT, CommitStep.COMMIT_GROUP)
FAULTS = [*(Fault(step, "before") for step in STEPS), *(Fault(step, "after") for step in STEPS)]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_kills_around_each_step_of_a_commit_lose_and_double_nothing(fault: Fault, address: str) -> None:
    config, batches = {"url": address, "name": "shop"}, [batch("a", "b"), batch("c", first=2), batch("d", "e", first=3)]
    killed = run(TableSink(), config, batches=batches, exactly_once=True, fault=fault)
    run(TableSink(), config, batches=batches, exactly_once=True, claim_epoch=2, offsets=killed.offsets)
    assert values_in(address) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("name", ["c" * 1000, "c" * 1001, "ü" * 9000, "漢😀"], ids=["1000", "1001", "9000", "beyond"])
def test_offsets_of_connectors_with_long_names_are_stored(name: str, address: str) -> None:
    config, batches = {"url": address, "name": name}, [batch("a", "b")]
    first = run(TableSink(), config, batches=batches, exactly_once=True)
    run(TableSink(), config, batches=batches, exactly_once=True, claim_epoch=2, offsets=first.offsets)
    run(TableSink(), {**config, "name": name[:-1] + "x"}, batches=[batch("c")], exactly_once=True)
    assert values_in(address) == ["a", "b", "c"]


class ChecksAtTheCommit(TableSink):
    """Its column refers to another table, which is checked at the commit."""

    def open(self) -> Any:
        connection = super().open()
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE IF NOT EXISTS known (value VARCHAR(100) PRIMARY KEY)")
        cursor.execute("INSERT INTO known VALUES ('a'), ('b') ON CONFLICT DO NOTHING")
        cursor.execute("ALTER TABLE records DROP CONSTRAINT IF EXISTS known_value")
        reference = "FOREIGN KEY (value) REFERENCES known DEFERRABLE INITIALLY DEFERRED"
        cursor.execute(f"ALTER TABLE records ADD CONSTRAINT known_value {reference}")
        connection.commit()
        return connection


class ChecksWhenItWrites(ChecksAtTheCommit):
    def write(self, transaction: Any, batch: Batch) -> None:
        super().write(transaction, batch)
        transaction.execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_what_a_deferred_constraint_refuses_is_left_out_alone_if_write_checks_it(postgresql_database: str) -> None:
    config = {"url": postgresql_database, "name": "shop", "errors.tolerance": "all"}
    batches = [batch("a", "zzz", "b")]
    with pytest.raises(ConnectException, match="known_value"):
        run(ChecksAtTheCommit(), config, batches=batches, exactly_once=True)
    assert values_in(postgresql_database) == []
    done = run(ChecksWhenItWrites(), config, batches=batches, exactly_once=True, claim_epoch=2)
    assert set(done.reporter.offsets) == {1}
    assert values_in(postgresql_database) == ["a", "b"]


def test_a_zombie_that_wakes_up_between_its_rows_and_its_commit_writes_nothing(address: str) -> None:
    """It has read the database before the newer claim came."""
    config = {"url": address, "name": "shop"}
    first = opened(config, 1)
    first.put(batch("a"))
    first.commit()

    rows = batch("b", first=1)

    class Sleeps(TableSink):
        def write(self, transaction: object, batch: Batch) -> None:
            transaction.execute("SELECT count(*) FROM records")  # type: ignore[attr-defined]
            transaction.fetchall()  # type: ignore[attr-defined]
            newer = opened(config, 3)
            assert newer.start == {P: 1}
            newer.put(rows)
            newer.commit()
            super().write(transaction, batch)

    context = MemorySinkContext(config, [P], claim_epoch=2, exactly_once=True)
    zombie = SinkCalls(start_task(Sleeps(), config, context, ALL_ALLOWED), [P])
    zombie.open()
    zombie.put(batch("b", "c", first=1))
    with pytest.raises((FencedException, RetriableException)):
        zombie.commit()
    assert values_in(address) == ["a", "b"]
    assert opened(config, 4).start == {P: 2}


def test_a_connection_that_postgresql_ends_is_opened_again(postgresql_database: str) -> None:
    config = {"url": postgresql_database, "name": "shop"}
    calls = opened(config, 1)
    for first in range(3):
        calls.put(batch(f"{first}", first=first))
        with closing(connect(postgresql_database)) as admin, suppress(psycopg2.Error):
            own = "datname = current_database() AND pid <> pg_backend_pid()"
            admin.cursor().execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {own}")
        assert calls.commit() == {P: first + 1}
    assert values_in(postgresql_database) == ["0", "1", "2"]


def test_offsets_that_cannot_be_read_now_are_not_taken_for_absent_ones(postgresql_database: str) -> None:
    class Waiting(TableSink):
        def open(self) -> Any:
            connection = super().open()
            connection.cursor().execute("SET lock_timeout = '200ms'")
            connection.commit()
            return connection

    config = {"name": "c", "url": postgresql_database}
    calls = opened(config, 1)
    calls.put(batch("a", "b"))
    calls.commit()
    calls.task.close([P])
    with closing(connect(postgresql_database)) as other:
        other.cursor().execute("LOCK TABLE connect_sink_offsets IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(RetriableException, match="lock timeout"):
            Waiting().alter_offsets(config, {P: 0})
    Waiting().alter_offsets(config, {P: 0})
    with closing(connect(postgresql_database)) as other:
        other.cursor().execute("DROP TABLE connect_sink_offsets")
        other.commit()
    assert Waiting().alter_offsets(config, {P: 0})


@pytest.mark.parametrize("wrapper", ["", "engine "])
def test_a_transaction_that_a_suppressed_error_has_ended_is_not_committed(wrapper: str, postgresql_database: str) -> None:
    """PostgreSQL would answer with a rollback, and the records would be lost."""

    class Suppresses(TableSink):
        def write(self, transaction: Any, batch: Batch) -> None:
            with suppress(psycopg2.Error, sqlalchemy.exc.DBAPIError):
                super().write(transaction, batch)

    config = {"name": "c", "url": wrapper + postgresql_database}
    calls = SinkCalls(start_task(Suppresses(), config, MemorySinkContext(config, [P]), ALL_ALLOWED), [P])
    calls.open()
    calls.put(batch("a", REFUSED))
    with pytest.raises(ConnectException, match=r"Suppresses\.write has suppressed an error"):
        calls.commit()
