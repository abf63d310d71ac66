"""What the framework relies on in a sink, tried with JdbcSink on real databases."""

from typing import Any, ClassVar

import pytest

from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.sdk.schema import Schema
from airflow_provider_connect.sdk.testing import SinkConnectorSuite
from tests.integration.jdbc.sinks import NOTE, TargetDatabase


class JdbcSinkSuite(SinkConnectorSuite):
    connector_class = JdbcSinkConnector
    exactly_once: ClassVar[bool] = True
    value_schema: ClassVar[Schema | None] = NOTE
    lines_between_kills: ClassVar[int] = 11  # tests/e2e kills its processes between all steps
    settings: ClassVar[dict[str, str]] = {}
    target: TargetDatabase

    def config(self) -> dict[str, str]:
        return {
            "name": "suite",
            "connection.url": self.target.url,
            "topics": "suite",
            "auto.create": "true",
            "max.retries": "2",
            "retry.backoff.ms": "20",
            **self.settings,
        }

    def values(self, first: int, count: int) -> list[Any]:
        return [{"id": number, "text": f"note {number}"} for number in range(first, first + count)]

    def delivered(self) -> list[Any]:
        table = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'suite'"
        if self.target.dialect == "sqlite":
            table = "SELECT count(*) FROM sqlite_master WHERE name = 'suite'"
        if self.target.rows(table) == [(0,)]:
            return []
        return [{"id": id, "text": text} for id, text in self.target.rows("SELECT id, text FROM suite ORDER BY id")]


class TestPostgresql(JdbcSinkSuite):
    @pytest.fixture(autouse=True)
    def database(self, postgresql_target: TargetDatabase) -> None:
        self.target = postgresql_target


class TestPostgresqlUpsert(TestPostgresql):
    settings: ClassVar[dict[str, str]] = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}


class TestPostgresqlAtLeastOnce(TestPostgresql):
    exactly_once = False


class TestSqlite(JdbcSinkSuite):
    @pytest.fixture(autouse=True)
    def database(self, sqlite_target: TargetDatabase) -> None:
        self.target = sqlite_target
