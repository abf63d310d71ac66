"""Files and sockets that a database URL names: below the worker's allowed folders, or refused."""

import os
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.jdbc.database import database_files
from airflow_provider_connect.connectors.jdbc.database.adbc_database import AdbcDatabase
from airflow_provider_connect.connectors.jdbc.database.database import open_database
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.connectors.jdbc.database.sqlalchemy_database import SqlAlchemyDatabase
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.connectors.jdbc.source.row_source import read_query_columns
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.sdk import AllowedPaths
from tests.reaching import reaching

BOTH = pytest.mark.parametrize("kind", [AdbcDatabase, SqlAlchemyDatabase])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    with closing(sqlite3.connect(tmp_path / "airflow.db")) as others:
        others.execute("create table secrets (word text)")
        others.execute("insert into secrets values ('canary')")
        others.commit()
    return tmp_path / "data"


@pytest.fixture
def allowed(data: Path) -> AllowedPaths:
    return AllowedPaths((str(data),))


@BOTH
def test_sqlite_opens_what_is_below_whatever_its_name_is(kind: Any, data: Path, allowed: AllowedPaths) -> None:
    path = f"{data}/a b%20&#.db"
    for _ in range(2):
        with closing(kind(parse_url(f"jdbc:sqlite:{path}").within(allowed))) as database:
            database.execute("create table if not exists t (x integer)")
            assert database.rows("select count(*) from t") == [(0,)]
    assert os.listdir(data) == ["a b%20&#.db"]


@BOTH
def test_sqlite_opens_nothing_outside(kind: Any, data: Path, allowed: AllowedPaths) -> None:
    (data / "link.db").symlink_to(data.parent / "airflow.db")
    for path in (data.parent / "airflow.db", data / "link.db", data / ".." / "airflow.db", data.parent / "new.db"):
        with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
            kind(parse_url(f"jdbc:sqlite:{path}").within(allowed))
    assert not (data.parent / "new.db").exists()


@BOTH
def test_a_link_that_comes_just_before_sqlite_opens_does_not_help(
    kind: Any, data: Path, allowed: AllowedPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data / "mine.db").touch()
    guarded = database_files.guarded_files

    def swapped(url: Any) -> Any:
        found = guarded(url)
        enter = type(found).__enter__

        class Swapping:
            def __enter__(self) -> Any:
                there = enter(found)
                (data / "mine.db").unlink()
                (data / "mine.db").symlink_to(data.parent / "airflow.db")
                return there

            def __exit__(self, *error: Any) -> Any:
                return found.__exit__(*error)

        return Swapping()

    monkeypatch.setattr(f"{kind.__module__}.guarded_files", swapped)
    with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
        kind(parse_url(f"jdbc:sqlite:{data}/mine.db").within(allowed))


def test_a_query_attaches_no_other_database(data: Path, allowed: AllowedPaths) -> None:
    """The driver takes the first statement of a text, which is always ours."""
    query = f"SELECT 1) AS x; ATTACH DATABASE '{data.parent}/airflow.db' AS y; --"
    url = parse_url(f"jdbc:sqlite:{data}/mine.db").within(allowed)
    with closing(open_database(url)) as database:
        read_query_columns(database, url, query)
        list(database.batches(f"SELECT * FROM ({query}) AS r", 10))
        assert [row[1] for row in database.rows("PRAGMA database_list") if row[1] != "temp"] == ["main"]


REFUSED = (
    "postgresql://%2Fvar%2Frun%2Fpostgresql/db",
    "postgresql://[%2Fvar%2Frun%2Fpostgresql]/db",
    "postgresql://[%2Frun]:5432/db",
    "postgresql://a:1,[%2Frun]:1/db",
    "jdbc:postgresql://[%40abstract]/db",
    "postgresql://[::1%25%2Frun]/db",
    "postgresql:///db?host=/var/run/postgresql",
    "postgresql:///db",
    "postgresql://db,/db?host=a,/run/x",
    "jdbc:postgresql:///db?host=@abstract",
    "postgresql:///db?host=a,,b",
    "duckdb:///etc/passwd",
    "mysql+mysqldb://localhost/db",
    "mariadb+mariadbconnector://db/db",
    "oracle://(DESCRIPTION=x)",
    "mysql:///db",
)


@pytest.mark.parametrize("text", REFUSED)
def test_sockets_and_drivers_that_open_files_need_to_be_allowed(text: str, allowed: AllowedPaths) -> None:
    for connector in (JdbcSourceConnector(), JdbcSinkConnector()):
        connector.allowed_paths = allowed
        values = connector.validate({"connection.url": text, "topic.prefix": "t", "mode": "bulk", "topics": "t"})
        [errors] = [value.errors for value in values if value.name == "connection.url"]
        assert len(errors) == 1
        assert "configuration connection.url" in errors[0]
    with pytest.raises(ConfigException, match=r"connection\.url"):
        open_database(parse_url(text).within(allowed))


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://db/x",
        "jdbc:postgresql:x",
        "jdbc:postgresql://a:1,b:2/x",
        "jdbc:mariadb://[::1]:1/x",
        "postgresql://[::1],[fe80::1%25eth0]:2/x",
    ],
)
def test_hosts_of_the_network_need_no_permission(text: str, allowed: AllowedPaths) -> None:
    url = parse_url(text).within(allowed)
    assert database_files.with_resolved_paths(url) == url


def test_the_folder_of_a_socket_may_be_allowed(tmp_path: Path, data: Path, allowed: AllowedPaths) -> None:
    """A server that answers nothing: what counts is who is called."""
    (data / "link").symlink_to(data)
    for folder, refuses in ((data / "link", False), (tmp_path, True)):
        with closing(socket.socket(socket.AF_UNIX)) as server:
            server.bind(f"{folder}/.s.PGSQL.5432")
            server.listen()
            url = parse_url(f"postgresql:///x?host={folder}&connect_timeout=2").within(allowed)
            assert _calls(lambda url=url: open_database(url), server) is not refuses  # type: ignore[misc]
    assert reaching(JdbcSourceConnector()).allowed_paths.allow_all


def _calls(connect: Callable[[], Any], server: socket.socket) -> bool:
    """Whether ``connect`` reaches the server."""
    server.setblocking(False)
    with pytest.raises(ConnectException):
        connect()
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True
