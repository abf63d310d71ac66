"""What the framework relies on in a sink, tried with JdbcSink on real databases."""

from typing import Any, ClassVar

import pytest

from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import FencedException
from airflow_provider_connect.sdk.task import SinkTask
from airflow_provider_connect.sdk.testing import SinkConnectorSuite
from airflow_provider_connect.sdk.transactional_sink import TransactionalSink
from tests.integration.jdbc.sinks import NOTE, Sink, TargetDatabase
from tests.reaching import reaching


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


@pytest.mark.soak
class TestPostgresqlUpsert(TestPostgresql):
    settings: ClassVar[dict[str, str]] = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}


class LinesOfTheBase(JdbcSinkSuite):
    """Kills fall between the lines of ``TransactionalSinkTask``, not of JdbcSink; each batch is written as it is put."""

    lines_between_kills = 1
    settings: ClassVar[dict[str, str]] = {"batch.size": "1"}

    def task(self, *arguments: Any, **named: Any) -> SinkTask:
        task = super().task(*arguments, **named)
        task.__class__ = type(type(task).__name__, (type(task),), {"__module__": TransactionalSink.__module__})
        return task


class TestPostgresqlInLinesOfTheBase(LinesOfTheBase, TestPostgresql):
    @pytest.mark.soak  # a plain run has each line of the base with SQLite, and every eleventh of the connector with PostgreSQL
    def test_kill_at_any_line_neither_loses_nor_duplicates_records(self) -> None:
        super().test_kill_at_any_line_neither_loses_nor_duplicates_records()


class TestPostgresqlAtLeastOnce(TestPostgresql):
    exactly_once = False


class TestSqlite(JdbcSinkSuite):
    @pytest.fixture(autouse=True)
    def database(self, sqlite_target: TargetDatabase) -> None:
        self.target = sqlite_target


class TestSqliteInLinesOfTheBase(LinesOfTheBase, TestSqlite):
    pass


def test_the_table_of_offsets_keeps_its_form(target: TargetDatabase) -> None:
    """Runs of other versions read and write it."""
    columns = "connector, topic, kafka_partition, next_offset, claim, claim_order, session"
    sink = Sink(target, {"auto.create": "true"}, claim_epoch=7)
    sink.put_notes((1, "a"), (2, "b"))
    sink.commit()
    claim = sink.context.claim
    [(*row, session)] = target.rows(f"SELECT {columns} FROM connect_sink_offsets")
    assert row == ["sink", "notes", 0, 2, claim, 7]
    assert bool(session) is (target.dialect == "postgresql")
    assert reaching(JdbcSinkConnector()).alter_offsets(sink.context.config, {TopicPartition("notes", 0): 1, TopicPartition("notes", 1): 5})
    sink.put_notes((3, "c"))
    with pytest.raises(FencedException):
        sink.commit()
    sink.end()
    assert target.rows(f"SELECT {columns} FROM connect_sink_offsets") == [("sink", "notes", 0, 1, f"{claim} altered", 7, session)]
    assert Sink(target, {}, claim_epoch=8).offsets == {"notes": 1}
