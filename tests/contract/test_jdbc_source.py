"""What the framework relies on in a source, asked of JdbcSource on a real SQLite file, in each mode that can go on from an offset."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.sdk.testing import SourceConnectorSuite


class TestJdbcSourceIncrementing(SourceConnectorSuite):
    connector_class = JdbcSourceConnector
    mode: ClassVar[str] = "incrementing"

    @pytest.fixture(autouse=True)
    def database(self, tmp_path: Path) -> None:
        self.path = tmp_path / "suite.db"
        self.do("CREATE TABLE lines (id INTEGER PRIMARY KEY, line TEXT NOT NULL, at TIMESTAMP NOT NULL)")

    def do(self, sql: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute(sql)
            connection.commit()

    def config(self) -> dict[str, str]:
        config = {"connection.url": f"jdbc:sqlite:{self.path}", "topic.prefix": "suite.", "mode": self.mode, "batch.max.rows": "4"}
        return config | {"incrementing.column.name": "id", "timestamp.column.name": "at"}

    def write_to_source(self, count: int) -> None:
        """Each third of a second, or so, has three rows: pages must not end among them."""
        self.do(
            f"WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < {count}) INSERT INTO lines (line, at) "
            "SELECT 'line ' || x, datetime('2024-01-01', '+' || (m.top + (x + 2) / 3) || ' seconds') "
            "FROM n, (SELECT count(*) AS top FROM lines) m"
        )


class TestJdbcSourceTimestamp(TestJdbcSourceIncrementing):
    mode = "timestamp"


class TestJdbcSourceTimestampIncrementing(TestJdbcSourceIncrementing):
    mode = "timestamp+incrementing"


class TestJdbcSourceQuery(TestJdbcSourceIncrementing):
    def config(self) -> dict[str, str]:
        return super().config() | {"query": "SELECT id, upper(line) AS loud FROM lines WHERE line <> ''"}


class TestJdbcSourceBulk(TestJdbcSourceIncrementing):
    mode = "bulk"
    can_resume = False

    def test_partitions_and_offsets_are_json_objects(self) -> None:
        """A bulk read has no offsets."""
        self.write_to_source(5)
        assert {record.source_offset for record in self.read_all()} == {None}
