"""Databases for the tests of JDBC connectors: of a real PostgreSQL that all share, a schema each; of a real MariaDB, a database each; of
SQLite, a file each."""

import uuid
from pathlib import Path

import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from tests.integration.jdbc.sinks import TargetDatabase
from tests.mariadb_server import MariadbServer


@pytest.fixture
def postgresql_target(postgres: PostgresServer) -> TargetDatabase:
    address = f"postgresql://connect@127.0.0.1:{postgres.port}/postgres"
    schema = f"test_{uuid.uuid4().hex[:12]}"
    TargetDatabase(address, "postgresql").run(f"CREATE SCHEMA {schema}")
    return TargetDatabase(f"{address}?currentSchema={schema}", "postgresql")


@pytest.fixture
def mariadb_target(mariadb: MariadbServer) -> TargetDatabase:
    name = f"test_{uuid.uuid4().hex[:12]}"
    TargetDatabase(mariadb.url, "mariadb").run(f"CREATE DATABASE {name}")
    return TargetDatabase(mariadb.url.rpartition("/")[0] + f"/{name}", "mariadb")


@pytest.fixture
def sqlite_target(tmp_path: Path) -> TargetDatabase:
    return TargetDatabase(f"sqlite:///{tmp_path / 'database.db'}", "sqlite")


@pytest.fixture(params=["postgresql", "sqlite"])
def target(request: pytest.FixtureRequest) -> TargetDatabase:
    """The test runs once for each."""
    found: TargetDatabase = request.getfixturevalue(f"{request.param}_target")
    return found
