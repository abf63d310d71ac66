"""The binary log of a real MariaDB, asked by a user with Debezium's rights where it ends and what it still holds."""

from contextlib import closing

import pytest

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.runtime.java.bounded.binary_log import BinaryLog, LogPosition
from airflow_provider_connect.runtime.worker.bounded_call import within
from tests.integration.java.conftest import DEBEZIUM_PASSWORD, DEBEZIUM_USER
from tests.mariadb_server import MariadbServer


def log_of(server: MariadbServer, **more: str) -> BinaryLog:
    login = {"hostname": LOOPBACK, "port": str(server.port), "user": DEBEZIUM_USER, "password": DEBEZIUM_PASSWORD, **more}
    return BinaryLog({f"database.{key}": value for key, value in login.items()}, within, has_domains=True)


def execute(server: MariadbServer, *statements: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_each_transaction_moves_the_end(logged_mariadb: MariadbServer) -> None:
    with closing(log_of(logged_mariadb)) as log:
        before = log.end()
        assert log.has_read(before, log.end())
        execute(logged_mariadb, "CREATE TABLE shop.a (id int PRIMARY KEY)", "INSERT INTO shop.a VALUES (1), (2)")
        after = log.end()
        assert after.has_passed(before)
        assert not before.has_passed(after)
        assert not log.has_read(before, after)
        execute(logged_mariadb, "FLUSH BINARY LOGS")
        next_file = log.end()
        assert next_file.file > after.file
        assert log.has_read(after, next_file), "a new file without a transaction"


def test_what_the_server_has_purged_is_not_kept(logged_mariadb: MariadbServer) -> None:
    with closing(log_of(logged_mariadb)) as log:
        old = log.end()
        execute(logged_mariadb, "CREATE TABLE shop.b (id int PRIMARY KEY)", "FLUSH BINARY LOGS")
        read = log.end()
        execute(logged_mariadb, "FLUSH BINARY LOGS", "INSERT INTO shop.b VALUES (1)")
        assert log.is_kept(old)
        execute(logged_mariadb, f"PURGE BINARY LOGS TO '{log.end().file}'")
        assert not log.is_kept(old)
        assert log.is_kept(read), "only its file is gone: no transaction behind it was in there"
        assert not log.is_kept(LogPosition(read.file, read.position)), "without GTIDs the file alone shows it"


def test_a_server_without_a_log_is_refused_with_what_to_set(mariadb: MariadbServer) -> None:
    with (
        closing(log_of(mariadb, user="root", password="")) as log,
        pytest.raises(ConfigException, match=r"writes no binary log\. Set log_bin"),
    ):
        log.end()


def test_a_server_that_is_not_there(logged_mariadb: MariadbServer, free_port: int) -> None:
    with closing(log_of(logged_mariadb, port=str(free_port))) as log, pytest.raises(RetriableException) as refused:
        log.end()
    assert "database.hostname" in str(refused.value)
    with closing(log_of(logged_mariadb, password="wrong-canary")) as log, pytest.raises(ConfigException) as denied:
        log.end()
    assert "database.password" in str(denied.value)
    assert "canary" not in str(denied.value)
