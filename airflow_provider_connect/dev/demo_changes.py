"""The part of the demonstration with Java (``--java``): the unchanged Debezium reads the changes of a PostgreSQL table, and a connector of
this package writes them to a table of another database.

Uses only the connectors' settings, which a user would send by REST.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.cache import made_once

PLUGIN = "maven:io.debezium:debezium-connector-postgres:3.6.0.Final"
TABLE = "customers"
SOURCE, SINK = "demo-changes", "demo-changes-copy"
_TOPIC = f"demo.public.{TABLE}"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_CHANGES = (
    f"UPDATE {TABLE} SET city = 'Oslo' WHERE id <= 3",
    f"DELETE FROM {TABLE} WHERE id = 4",
    f"ALTER TABLE {TABLE} ADD COLUMN since integer",
    f"INSERT INTO {TABLE} VALUES (6, 'customer 6', 'Porto', 2026), (7, 'customer 7', 'Graz', NULL)",
    f"UPDATE {TABLE} SET since = 2020 WHERE id = 1",
)


class DemoChanges:
    """A table of customers in one database, and its copy in another. ``original`` and ``copy`` are URLs of SQLAlchemy."""

    def __init__(self, original: str, copy: str) -> None:
        self._original, self._copy = make_url(original), make_url(copy)

    @staticmethod
    def install_plugin(cache: Path) -> Path:
        """A folder in the cache with Debezium's plugin, for ``plugin.path``. A user would install the plugin with the command."""

        def install(folder: Path) -> None:
            folder.mkdir()
            home = folder.with_name("airflow")
            command = [sys.executable, "-m", "airflow", "connect", "plugins", "install", PLUGIN, "--path", str(folder)]
            done = subprocess.run(command, env={**os.environ, "AIRFLOW_HOME": str(home)}, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ConnectException(f"{' '.join(command[2:])} failed: {done.stderr[-2000:]}")

        return made_once(cache / "jars" / "demo-plugins-1", install)

    @staticmethod
    def worker_settings(plugins: Path, own: Path) -> dict[str, str]:
        """The worker settings for Java plugins below ``plugins``, in addition to the plugins in ``own``."""
        return {
            "plugin.path": f"{own},{plugins}",
            "java.allowed.locations": str(plugins),
            "java.memory": "512m",
            "airflow.allowed.engines": "process",
        }

    def start(self) -> None:
        """Create the table, with five rows."""
        rows = ", ".join(f"({number}, 'customer {number}', 'Lyon')" for number in range(1, 6))
        self._execute(f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, name text NOT NULL, city text)", f"INSERT INTO {TABLE} VALUES {rows}")

    def change(self) -> int:
        """Execute updates, deletes, inserts, and a new column. Returns the number of statements."""
        self._execute(*_CHANGES)
        return len(_CHANGES)

    def create(self, create_connector: Callable[[str, Mapping[str, str]], object]) -> None:
        """Create both connectors."""
        create_connector(SOURCE, self._source())
        create_connector(SINK, self._sink())

    def rows(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The table and its copy, by id."""
        found = []
        for url in (self._original, self._copy):
            engine = create_engine(url)
            with engine.connect() as connection:
                found.append([dict(row) for row in connection.execute(text(f"SELECT * FROM {TABLE} ORDER BY id")).mappings()])
            engine.dispose()
        return found[0], found[1]

    def _execute(self, *statements: str) -> None:
        engine = create_engine(self._original, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()

    def _source(self) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": self._original.host or "",
            "database.port": str(self._original.port),
            "database.user": self._original.username or "",
            "database.password": "not asked for",
            "database.dbname": self._original.database or "",
            "topic.prefix": "demo",
            "table.include.list": f"public.{TABLE}",
            "publication.autocreate.mode": "filtered",
            "slot.name": "demo_changes",
            "transforms": "unwrap",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "airflow.engine": "process",
            "airflow.schedule": "none",
            **self._converters(),
        }

    def _sink(self) -> dict[str, str]:
        url = self._copy.set(drivername="postgresql").render_as_string(hide_password=False)
        return {
            "connector.class": "JdbcSink",
            "connection.url": url,
            "topics": _TOPIC,
            "table.name.format": TABLE,
            "insert.mode": "upsert",
            "pk.mode": "record_key",
            "pk.fields": "id",
            "delete.enabled": "true",
            "auto.create": "true",
            "auto.evolve": "true",
            "airflow.engine": "process",
            "airflow.schedule": "none",
            **self._converters(),
        }

    @staticmethod
    def _converters() -> dict[str, str]:
        return {f"{side}.converter": _JSON for side in ("key", "value")}
