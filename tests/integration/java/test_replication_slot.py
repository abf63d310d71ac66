"""A replication slot of a real PostgreSQL, asked whether it holds changes that are not delivered."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection

from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.connectors.jdbc.dialects.postgresql import Postgresql
from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.java.bounded import database_server
from airflow_provider_connect.runtime.java.bounded.database_server import DatabaseServer
from airflow_provider_connect.runtime.java.bounded.debezium_postgres import DebeziumPostgres
from airflow_provider_connect.runtime.java.bounded.replication_slot import ReplicationSlot
from airflow_provider_connect.runtime.worker.bounded_call import within
from tests.integration.java.conftest import drop_capture
from tests.waiting import wait_until

KINDS = "IUDTM"


@pytest.fixture
def database(postgres: PostgresServer, unique: str) -> Iterator[Connection]:
    """With tables ``a`` and ``b`` in the schema of ``slot_name``, of which the slot has ``a``."""
    name = slot_name(unique)
    engine = create_engine(postgres.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in (
            f"CREATE SCHEMA {name}",
            f"CREATE TABLE {name}.a (id int PRIMARY KEY)",
            f"CREATE TABLE {name}.b (id int PRIMARY KEY)",
            f"CREATE PUBLICATION {name} FOR TABLE {name}.a",
            f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')",
        ):
            connection.execute(text(statement))
        yield connection
        drop_capture(connection, name)
    engine.dispose()


def slot_name(unique: str) -> str:
    return f"s_{unique[-8:]}"


def config_of(postgres: PostgresServer, name: str, **more: str) -> dict[str, str]:
    keys = {"hostname": LOOPBACK, "port": str(postgres.port), "user": USER, "dbname": "postgres", **more}
    names = {"topic.prefix": "p", "slot.name": name, "publication.name": name}
    return {**{f"database.{key}": value for key, value in keys.items()}, **names}


def slot_of(postgres: PostgresServer, name: str, **more: str) -> ReplicationSlot:
    return ReplicationSlot(config_of(postgres, name, **more), within)


def delivered(database: Connection, name: str) -> list[tuple[int, str]]:
    """Position and kind of each message that the slot holds."""
    found = database.execute(
        text(
            "SELECT (lsn - '0/0'::pg_lsn)::bigint, chr(get_byte(data, 0)) FROM pg_logical_slot_peek_binary_changes("
            f"'{name}', NULL, NULL, 'proto_version', '1', 'publication_names', '{name}', 'messages', 'true')"
        )
    )
    return [(position, kind) for position, kind in found if kind in KINDS]


def test_only_changes_that_are_not_delivered_count(postgres: PostgresServer, database: Connection, unique: str) -> None:
    name = slot_name(unique)
    with closing(slot_of(postgres, name)) as slot:
        state = slot.state()
        assert state is not None
        assert (state.plugin, state.is_active) == ("pgoutput", False)
        before = slot.position()
        database.execute(text(f"INSERT INTO {name}.b SELECT generate_series(1, 300)"))
        assert slot.has_changes(before, KINDS) is False, "another table's"
        for number in range(150):  # more transactions than the first questions read
            database.execute(text(f"INSERT INTO {name}.a VALUES ({number})"))
        last = delivered(database, name)[-1][0]
        assert slot.has_changes(before, KINDS) is True
        assert slot.has_changes(last - 1, KINDS) is True
        assert slot.has_changes(last, KINDS) is False
        database.execute(text(f"TRUNCATE {name}.a"))
        assert slot.has_changes(last, "IUD") is False
        assert slot.has_changes(last, KINDS) is True
        assert slot.passed(before) == (False, False), "no process reads"


def test_a_transaction_that_began_first_and_ended_last_counts(postgres: PostgresServer, database: Connection, unique: str) -> None:
    name = slot_name(unique)
    long = database.engine.connect().execution_options(isolation_level="READ COMMITTED")
    long.execute(text(f"INSERT INTO {name}.a VALUES (1)"))
    database.execute(text(f"INSERT INTO {name}.a VALUES (2)"))
    with closing(slot_of(postgres, name)) as slot:
        (short,) = delivered(database, name)
        assert slot.has_changes(short[0], KINDS) is False
        long.commit()
        long.close()
        assert delivered(database, name)[1][0] < short[0]
        assert slot.has_changes(short[0], KINDS) is True
        assert slot.has_changes(delivered(database, name)[1][0], KINDS) is False


@pytest.mark.parametrize(
    ("given", "is_new"),
    [
        ({"table.include.list": "{0}.a"}, False),
        ({"table.include.list": "{0}.A, other.c"}, False),
        ({"table.include.list": "{0}.a,{0}.b"}, True),
        ({"table.include.list": r"{0}\.a"}, True),
        ({"table.include.list": "{0}.a", "signal.data.collection": "postgres.{0}.b"}, True),
        ({}, True),
    ],
)
def test_changes_of_tables_that_the_config_leaves_out_do_not_count(
    postgres: PostgresServer, database: Connection, unique: str, given: dict[str, str], is_new: bool
) -> None:
    """A publication may have more tables than the connector. An expression may mean any table."""
    name = slot_name(unique)
    database.execute(text(f"ALTER PUBLICATION {name} ADD TABLE {name}.b"))
    config = config_of(postgres, name) | {key: value.format(name) for key, value in given.items()}
    with closing(slot_of(postgres, name)) as slot:
        start = slot.position()
        database.execute(text(f"INSERT INTO {name}.b SELECT generate_series(1, 300)"))
        source = DebeziumPostgres()
        assert source.has_new_data(config, lambda _: {"lsn": start}, within) is is_new
        assert delivered(database, name) == [] or is_new
        database.execute(text(f"INSERT INTO {name}.a VALUES (1)"))
        assert source.has_new_data(config, lambda _: {"lsn": start}, within) is True


def test_a_slot_or_server_that_is_not_there(postgres: PostgresServer, unique: str, free_port: int) -> None:
    with closing(slot_of(postgres, "not_there")) as slot:
        assert slot.state() is None
    slot = slot_of(postgres, "not_there", port=str(free_port), password="canary")
    with pytest.raises(RetriableException) as refused:
        slot.position()
    assert "database.hostname" in str(refused.value)
    assert "canary" not in str(refused.value)


def test_a_connection_whose_question_was_given_up_is_closed_once_it_answers(
    postgres: PostgresServer, database: Connection, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the next question has a connection of its own."""
    monkeypatch.setattr(database_server, "_ANSWER_SECONDS", 5.0)
    url = DatabaseUrl(Postgresql(), LOOPBACK, postgres.port, "postgres", USER)
    server = DatabaseServer(url, within, [f"SET application_name = '{unique}'"])

    def pids() -> set[int]:
        found = database.execute(text("SELECT pid FROM pg_stat_activity WHERE application_name = :name"), {"name": unique})
        return {pid for (pid,) in found}

    with pytest.raises(RetriableException, match="took more than 5 s"):
        server.row("SELECT pg_sleep(15)")
    late = pids()
    assert len(late) == 1
    assert server.row("SELECT pg_backend_pid()")[0] not in late
    wait_until(lambda: not pids() & late)
    assert len(pids()) == 1
    server.close()
    wait_until(lambda: not pids())


def test_a_hundred_checks_hold_no_wal_of_other_tables_back_and_lose_no_change(
    postgres: PostgresServer, database: Connection, unique: str
) -> None:
    """The check before a run that has nothing to do moves the slot. Meanwhile a transaction is open that has written into the table."""
    name = slot_name(unique)
    database.execute(text(f"CREATE TABLE {name}.w (filler text)"))
    config, source = config_of(postgres, name), DebeziumPostgres()

    def held() -> tuple[int, int]:
        """WAL that the server keeps for the slot, and how far it is behind."""
        query = "SELECT pg_current_wal_lsn() - restart_lsn, pg_current_wal_lsn() - confirmed_flush_lsn FROM pg_replication_slots"
        kept, unread = database.execute(text(f"{query} WHERE slot_name = '{name}'")).one()
        return int(kept), int(unread)

    with closing(slot_of(postgres, name)) as slot:
        start = slot.position()
    begun = database.execute(text("SELECT CAST(pg_current_wal_lsn() AS text)")).scalar_one()
    seen: list[tuple[int, int]] = []
    with database.engine.connect().execution_options(isolation_level="READ COMMITTED") as long:
        for schedule in range(100):
            database.execute(text(f"INSERT INTO {name}.w SELECT repeat(md5(n::text), 30) FROM generate_series(1, 400) n"))
            database.execute(text("CHECKPOINT"))
            if schedule in (80, 90):
                long.execute(text(f"INSERT INTO {name}.a VALUES ({schedule})"))
            assert source.has_new_data(config, lambda _: {"lsn": start}, within) is False
            seen.append(held())
        long.commit()
    assert max(unread for _, unread in seen) < 1 << 20
    written = int(database.execute(text("SELECT pg_current_wal_lsn() - CAST(:start AS pg_lsn)"), {"start": begun}).scalar_one())
    assert max(kept for kept, _ in seen[:80]) < written / 4, "an open transaction holds it back"
    assert [kind for _, kind in delivered(database, name)] == ["I", "I"]
    assert source.has_new_data(config, lambda _: {"lsn": start}, within) is True
    assert [kind for _, kind in delivered(database, name)] == ["I", "I"]


def test_records_that_are_not_on_the_servers_disk_hold_no_check_up(postgres: PostgresServer, database: Connection, unique: str) -> None:
    """Those of an open transaction: the server writes whole pages of them, and a reader of the slot waits for the rest of the last one."""
    name = slot_name(unique)
    database.execute(text(f"CREATE TABLE {name}.w (filler text)"))
    config, source = config_of(postgres, name), DebeziumPostgres()
    with closing(slot_of(postgres, name)) as slot, database.engine.connect().execution_options(isolation_level="READ COMMITTED") as long:
        start = slot.position()
        for _ in range(5):
            long.execute(text(f"INSERT INTO {name}.w SELECT repeat(md5(n::text), 50) FROM generate_series(1, 50) n"))
            time.sleep(0.5)
            assert source.has_new_data(config, lambda _: {"lsn": start}, within) is False
            assert source.has_new_data(config, lambda _: {"lsn": start, "lsn_proc": start}, within) is False
        long.rollback()


def test_a_change_that_is_committed_while_the_slot_moves_stays(postgres: PostgresServer, database: Connection, unique: str) -> None:
    name = slot_name(unique)
    config, source = config_of(postgres, name), DebeziumPostgres()
    statements = (f"INSERT INTO {name}.a VALUES (:n)", "SELECT pg_logical_emit_message(:n % 4 = 1, 'p', 'text')")
    with closing(slot_of(postgres, name)) as slot:
        offset: dict[str, object] = {"lsn": slot.position()}
    with database.engine.connect() as other:
        for number in range(60):
            database.execute(text(f"INSERT INTO {name}.b SELECT {number} * 1000 + n FROM generate_series(1, 200) n"))
            writer = threading.Thread(target=other.execute, args=(text(statements[number % 2]), {"n": number}))
            timer = threading.Timer(random.uniform(0, 0.03), writer.start)  # within the check's questions
            timer.start()
            assert source.has_new_data(config, lambda _: offset, within) in (True, False)
            timer.join()
            writer.join()
            # a message without a transaction is on the server's disk, and so in the slot, 0.2 s later
            found: list[tuple[int, str]] = wait_until(lambda: delivered(database, name))
            assert [kind for _, kind in found] == ["I" if number % 2 == 0 else "M"], number
            assert source.has_new_data(config, lambda _: offset, within) is True
            offset["lsn"] = found[0][0]
            database.execute(text(f"SELECT pg_replication_slot_advance('{name}', pg_current_wal_lsn())"))
