"""The same environments with real databases: a table into a topic, and a topic into a table, exactly once, in many small commits."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import OperationalError

from tests.e2e.faults.environments import PLAIN, RECORDS, lines, make_topic, send
from tests.e2e.faults.oracle import Verdict, judge, topic_records
from tests.e2e.faults.runs import Runs
from tests.waiting import wait_until

GUARANTEE = "exactly_once"
RETRIES = "1200"  # as long, at 100 ms; by default a run gives up after a second
QUICK = {"offset.flush.interval.ms": "0"}
SQL_SINKS = """\
import sqlite3
import sqlalchemy
from airflow_provider_connect.sdk import ConfigDef, ConfigKey, SqlSink

CREATE, INSERT = "CREATE TABLE IF NOT EXISTS {} (line VARCHAR(200) NOT NULL)", "INSERT INTO {} VALUES (?)"


class Driver(SqlSink):
    config_def = ConfigDef(ConfigKey("database"), ConfigKey("table"))
    offsets_table = "rows_offsets"

    def open(self):
        connection = sqlite3.connect(self.config["database"].removeprefix("sqlite:///"), timeout=30, check_same_thread=False)
        connection.execute(CREATE.format(self.config["table"]))
        return connection

    def write(self, transaction, batch):
        transaction.executemany(INSERT.format(self.config["table"]), [(line,) for line in batch.value.to_pylist()])


class Engine(Driver):
    def open(self):
        connection = sqlalchemy.create_engine(self.config["database"]).connect()
        connection.execute(sqlalchemy.text(CREATE.format(self.config["table"])))
        connection.commit()
        return connection

    def write(self, transaction, batch):
        insert = sqlalchemy.text(INSERT.format(self.config["table"]).replace("?", ":line"))
        transaction.execute(insert, [{"line": line} for line in batch.value.to_pylist()])
"""


@dataclass(slots=True)
class _TableEnvironment:
    """``database`` is SQLAlchemy's address of it. The run's connections to it bear the connector's name."""

    bootstrap: str
    topic: str
    database: str
    table: str
    runs: Runs
    sent: list[bytes]


class TableSourceEnvironment(_TableEnvironment):
    """``JdbcSource`` in polls of 500 rows; a record is the text of its row."""

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], database: str, *, master: str = "local[2]") -> TableSourceEnvironment:
        name = f"table-source-{uuid.uuid4().hex[:8]}"
        table, bootstrap = name.replace("-", "_"), settings["bootstrap.servers"]
        config = {
            "name": name,
            "connector.class": "JdbcSource",
            "connection.url": f"{database}?application_name={name}",
            "connection.backoff.ms": "100",
            "table.include": table,
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "topic.prefix": "topic-",
            "batch.max.rows": "500",
            "transforms": "text",
            "transforms.text.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
            "transforms.text.field": "line",
            "delivery.guarantee": GUARANTEE,
        }
        quick = {"transaction.boundary.poll.linger.ms": "0", "offset.flush.interval.ms": "0"}
        environment = cls(
            bootstrap, f"topic-{table}", database, table, Runs(folder, name, {**settings, **PLAIN, **quick}, config, master), []
        )
        make_topic(bootstrap, environment.topic)
        _execute(database, f"create table {table} (id bigserial primary key, line text not null)")
        environment.add()
        return environment

    def add(self, count: int = RECORDS) -> None:
        """More rows."""
        new = lines(count)
        _execute(self.database, f"insert into {self.table} (line) values (:line)", [{"line": line.decode()} for line in new])
        self.sent += new

    def verdict(self) -> Verdict:
        return judge(self.sent, topic_records(self.bootstrap, self.topic))


class TableSinkEnvironment(_TableEnvironment):
    """``JdbcSink`` that commits after every put; a record is the text of a row to be."""

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], database: str, *, master: str = "local[2]") -> Self:
        name = f"table-sink-{uuid.uuid4().hex[:8]}"
        table = name.replace("-", "_")
        config = {
            "name": name,
            "connector.class": "JdbcSink",
            "connection.url": f"{database}?application_name={name}",
            "retry.backoff.ms": "100",
            "max.retries": RETRIES,
            "topics": f"topic-{name}",
            "table.name.format": table,
            "auto.create": "true",
            "transforms": "text",
            "transforms.text.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.text.field": "line",
            "delivery.guarantee": GUARANTEE,
        }
        return cls._made(Runs(folder, name, {**settings, **PLAIN, **QUICK}, config, master), database, table)

    @classmethod
    def _made(cls, runs: Runs, database: str, table: str) -> Self:
        environment = cls(runs.settings["bootstrap.servers"], runs.config["topics"], database, table, runs, [])
        make_topic(environment.bootstrap, environment.topic, partitions=3)
        environment.add()
        return environment

    def add(self, count: int = RECORDS) -> None:
        """More records on the topic."""
        new = lines(count)
        send(self.bootstrap, self.topic, new)
        self.sent += new

    def verdict(self) -> Verdict:
        with _connected(self.database) as connection:
            arrived = [line.encode() for line in connection.execute(text(f"select line from {self.table}")).scalars()]
        return judge(self.sent, arrived)


class SqlSinkEnvironment(TableSinkEnvironment):
    """Two sinks on ``SqlSink``, in a module of ``plugin.path``: ``Engine`` by SQLAlchemy, ``Driver`` by Python's module for SQLite."""

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], database: str, *, master: str = "local[2]") -> Self:
        name = f"sql-sink-{uuid.uuid4().hex[:8]}"
        plugins = folder / "plugins"
        plugins.mkdir(exist_ok=True)
        (plugins / "rows.py").write_text(SQL_SINKS)
        table = name.replace("-", "_")
        config = {
            "name": name,
            "connector.class": "rows.Driver" if database.startswith("sqlite") else "rows.Engine",
            "database": database,
            "table": table,
            "topics": f"topic-{name}",
            "delivery.guarantee": GUARANTEE,
        }
        own = {**settings, **PLAIN, **QUICK, "plugin.path": str(plugins)}
        return cls._made(Runs(folder, name, own, config, master), database, table)


def _execute(database: str, statement: str, rows: list[dict[str, str]] | None = None) -> None:
    with _connected(database) as connection, connection.begin():
        connection.execute(text(statement), rows)


@contextmanager
def _connected(database: str) -> Iterator[Connection]:
    """As soon as the database answers."""
    engine = create_engine(database)
    wait_until(lambda: _answers(engine))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def _answers(engine: Engine) -> bool:
    try:
        engine.connect().close()
    except OperationalError:
        return False
    return True
