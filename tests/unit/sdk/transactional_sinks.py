"""Sinks that stand on TransactionalSink and SqlSink, and the suite that all of them pass."""

from __future__ import annotations

import contextlib
import copy
import sqlite3
import threading
import uuid
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import psycopg2
import pymysql
import pytest
import sqlalchemy
from sqlalchemy.pool import NullPool

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk import Batch, ConfigDef, ConfigKey, OffsetRow, SqlSink, TopicPartition, TransactionalSink
from airflow_provider_connect.sdk.task import SinkTask
from airflow_provider_connect.sdk.testing import FakeReporter, SinkConnectorSuite
from tests.waiting import HANG_SECONDS

REFUSED = "refused"
CREATE = "CREATE TABLE IF NOT EXISTS records (value VARCHAR(100), {} CHECK (value <> 'refused'))"
SERIAL = {
    "sqlite": "id INTEGER PRIMARY KEY AUTOINCREMENT,",
    "postgresql": "id SERIAL PRIMARY KEY,",
    "mysql": "id INTEGER PRIMARY KEY AUTO_INCREMENT,",
}


def connect(address: str) -> Any:
    """A connection of the driver, or of SQLAlchemy for an address that begins with ``engine ``."""
    wrapper, _, url = address.rpartition(" ")
    made = sqlalchemy.make_url(url)
    if wrapper:
        wait: dict[str, Any] = {"timeout": HANG_SECONDS, "check_same_thread": False} if made.get_backend_name() == "sqlite" else {}
        return sqlalchemy.create_engine(made, poolclass=NullPool, connect_args=wait).connect()
    if made.get_backend_name() == "sqlite":
        return sqlite3.connect(str(made.database), timeout=HANG_SECONDS, check_same_thread=False)
    if made.get_backend_name() == "postgresql":
        return psycopg2.connect(host=made.host, port=made.port, user=made.username, dbname=made.database)
    return pymysql.connect(host=made.host or "", port=made.port or 0, user=made.username, database=made.database)


class TableSink(SqlSink):
    """Values as rows of the table ``records``."""

    config_def: ClassVar[ConfigDef] = ConfigDef(ConfigKey("url"))

    def open(self) -> Any:
        connection = connect(self.config["url"])
        dialect = sqlalchemy.make_url(self.config["url"].rpartition(" ")[2]).get_backend_name()
        self.mark = "?" if dialect == "sqlite" else "%s"
        with contextlib.suppress(psycopg2.errors.UniqueViolation):  # created by another task at this time
            self.execute(connection, CREATE.format(SERIAL[dialect]))
        connection.commit()
        return connection

    def execute(self, connection: Any, sql: str) -> None:
        if hasattr(connection, "exec_driver_sql"):
            connection.exec_driver_sql(sql)
        else:
            connection.cursor().execute(sql)

    def write(self, transaction: Any, batch: Batch) -> None:
        rows = [(value,) for value in ([None] * len(batch) if batch.value is None else batch.value.to_pylist())]
        sql = f"INSERT INTO records (value) VALUES ({self.mark})"
        if hasattr(transaction, "exec_driver_sql"):
            transaction.exec_driver_sql(sql, rows)
        else:
            transaction.executemany(sql, rows)

    def translate_error(self, error: Exception) -> Exception:
        """PyMySQL raises OperationalError for a CHECK of MariaDB."""
        return (
            DataException("refused")
            if getattr(error, "args", (0,))[:1] == (4025,) or "(4025" in str(error)
            else super().translate_error(error)
        )


def values_in(address: str) -> list[Any]:
    with contextlib.closing(connect(address.rpartition(" ")[2])) as connection:
        cursor = connection.cursor()
        with contextlib.suppress(sqlite3.OperationalError, psycopg2.errors.UndefinedTable, pymysql.ProgrammingError):  # no table yet
            cursor.execute("SELECT value FROM records ORDER BY id")
            return [value for (value,) in cursor.fetchall()]
        return []


class Memory:
    """A destination with transactions and without savepoints. A connection changes a copy, which its commit puts in place."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.rows: dict[Any, OffsetRow] = {}
        self.lock = threading.RLock()

    def commit(self, changed: Memory) -> None:
        self.values, self.rows = changed.values, changed.rows

    def __deepcopy__(self, memo: object) -> Memory:
        copied = Memory()
        copied.values, copied.rows = copy.copy(self.values), copy.copy(self.rows)
        return copied


MEMORIES: dict[str, Memory] = {}


class MemoryConnection:
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.draft = memory

    def close(self) -> None:
        pass


class MemorySink(TransactionalSink):
    config_def: ClassVar[ConfigDef] = ConfigDef(ConfigKey("memory"))

    def open(self) -> MemoryConnection:
        return MemoryConnection(MEMORIES.setdefault(self.config["memory"], Memory()))

    def begin(self, connection: MemoryConnection) -> Memory:
        connection.draft = copy.deepcopy(connection.memory)
        return connection.draft

    def write(self, transaction: Memory, batch: Batch) -> None:
        values = [None] * len(batch) if batch.value is None else batch.value.to_pylist()
        transaction.values += values[: values.index(REFUSED)] if REFUSED in values else values
        if REFUSED in values:
            raise DataException("refused")

    def commit(self, connection: MemoryConnection) -> None:
        connection.memory.commit(connection.draft)

    def read_offsets(self, transaction: Memory, connector: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        return {p: transaction.rows[connector, p] for p in partitions if (connector, p) in transaction.rows}

    def write_offsets(self, transaction: Memory, connector: str, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        for partition, row in rows.items():
            transaction.rows.pop((connector, partition), None)
            if row is not None:
                transaction.rows[connector, partition] = row


class TableSuite(SinkConnectorSuite):
    """A subclass sets ``address`` for each test."""

    connector_class: ClassVar[type[TransactionalSink]] = TableSink
    exactly_once = True
    refused_values = (REFUSED, REFUSED)

    address = ""

    def config(self) -> dict[str, str]:
        return {"url": self.address, "name": "it's"}

    def task(
        self, claim_epoch: int = 1, partitions: Collection[TopicPartition] | None = None, reporter: FakeReporter | None = None
    ) -> SinkTask:
        """Kills come before the lines of the sdk, not before those of the sink."""
        task = super().task(claim_epoch, partitions, reporter)
        type(task).__module__ = TransactionalSink.__module__
        return task

    def delivered(self) -> list[Any]:
        return values_in(self.address)


class MemorySuite(SinkConnectorSuite):
    connector_class = MemorySink
    exactly_once = True
    refused_values = (REFUSED, REFUSED)

    @pytest.fixture(autouse=True)
    def memory(self) -> None:
        self.name = uuid.uuid4().hex

    def config(self) -> dict[str, str]:
        return {"memory": self.name}

    def delivered(self) -> list[Any]:
        return MEMORIES.setdefault(self.name, Memory()).values
