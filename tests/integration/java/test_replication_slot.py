"""A replication slot of a real PostgreSQL, asked whether it holds changes that are not delivered."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection

from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl
from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.java.debezium import database_server
from airflow_provider_connect.java.debezium.database_server import DatabaseServer
from airflow_provider_connect.java.debezium.replication_slot import ReplicationSlot
from airflow_provider_connect.worker.bounded_call import within
from tests.integration.java.conftest import drop_capture
from tests.integration.standalone.agent import wait_for

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


def slot_of(postgres: PostgresServer, name: str, **more: str) -> ReplicationSlot:
    keys = {"hostname": LOOPBACK, "port": str(postgres.port), "user": USER, "dbname": "postgres", **more}
    return ReplicationSlot(
        {**{f"database.{key}": value for key, value in keys.items()}, "slot.name": name, "publication.name": name}, within
    )


def delivered(database: Connection, name: str) -> list[tuple[int, str]]:
    """Position and kind of each message that the slot holds."""
    found = database.execute(
        text(
            "SELECT (lsn - '0/0'::pg_lsn)::bigint, chr(get_byte(data, 0)) FROM pg_logical_slot_peek_binary_changes("
            f"'{name}', NULL, NULL, 'proto_version', '1', 'publication_names', '{name}')"
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
    monkeypatch.setattr(database_server, "_ANSWER_SECONDS", 1.0)
    url = DatabaseUrl("postgresql", LOOPBACK, postgres.port, "postgres", USER)
    server = DatabaseServer(url, within, [f"SET application_name = '{unique}'"])

    def pids() -> set[int]:
        found = database.execute(text("SELECT pid FROM pg_stat_activity WHERE application_name = :name"), {"name": unique})
        return {pid for (pid,) in found}

    with pytest.raises(RetriableException, match="took more than 1 s"):
        server.row("SELECT pg_sleep(4)")
    late = pids()
    assert len(late) == 1
    assert server.row("SELECT pg_backend_pid()")[0] not in late
    wait_for(lambda: not pids() & late)
    assert len(pids()) == 1
    server.close()
    wait_for(lambda: not pids())
