"""Databases for the tests of JDBC connectors: of a real PostgreSQL that all share, a schema each; of a real MariaDB, a database each; of
SQLite, a file each."""

import uuid
from pathlib import Path

import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from tests.integration.jdbc.sinks import Place
from tests.mariadb_server import MariadbServer


@pytest.fixture
def postgresql_place(postgres: PostgresServer) -> Place:
    address = f"postgresql://connect@127.0.0.1:{postgres.port}/postgres"
    schema = f"test_{uuid.uuid4().hex[:12]}"
    Place(address, "postgresql").run(f"CREATE SCHEMA {schema}")
    return Place(f"{address}?currentSchema={schema}", "postgresql")


@pytest.fixture
def mariadb_place(mariadb: MariadbServer) -> Place:
    name = f"test_{uuid.uuid4().hex[:12]}"
    Place(mariadb.url, "mariadb").run(f"CREATE DATABASE {name}")
    return Place(mariadb.url.rpartition("/")[0] + f"/{name}", "mariadb")


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    return Place(f"sqlite:///{tmp_path / 'database.db'}", "sqlite")


@pytest.fixture(params=["postgresql", "sqlite"])
def place(request: pytest.FixtureRequest) -> Place:
    """The test runs once for each."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found
