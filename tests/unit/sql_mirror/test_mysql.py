"""Every statement of the mirror is one that MySQL has too, within its limits."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Table, event
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateIndex, CreateTable

from airflow_provider_connect.data.records import Distance, TopicPartition
from airflow_provider_connect.runtime.model.batches import BatchRecord, Stay
from airflow_provider_connect.runtime.model.cost import Span
from airflow_provider_connect.runtime.sql_mirror import delivery_rows, lag_rows, queries
from airflow_provider_connect.runtime.sql_mirror.changes import Entry, Kind, write_history
from airflow_provider_connect.runtime.sql_mirror.config_rows import take_configs
from airflow_provider_connect.runtime.sql_mirror.follower import (
    ReadPosition,
    add_position,
    forget_positions,
    move_position,
    read_positions,
    rebuild,
)
from airflow_provider_connect.runtime.sql_mirror.offset_rows import take_batches, take_offsets
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory
from airflow_provider_connect.runtime.sql_mirror.status_rows import take_statuses
from airflow_provider_connect.runtime.sql_mirror.sweep import Sweep
from airflow_provider_connect.runtime.sql_mirror.tables import metadata
from tests.unit.sql_mirror.records import BATCHES, CONFIGS, OFFSETS, STATUSES

MYSQL = mysql.dialect()
LONGEST_KEY = 3072  # bytes, of an InnoDB index
BYTES = {"BIGINT": 8, "BOOL": 1, "INTEGER": 4}

each_table = pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)


@each_table
def test_a_table_can_be_made(table: Table) -> None:
    made: list[CreateTable | CreateIndex] = [
        CreateTable(table),
        *(CreateIndex(index) for index in sorted(table.indexes, key=lambda index: str(index.name))),
    ]
    text = "\n".join(str(ddl.compile(dialect=MYSQL)) for ddl in made)
    assert "CREATE TABLE" in text
    for columns in (table.primary_key.columns, *(index.columns for index in table.indexes)):
        assert sum(key_bytes(column.type) for column in columns) <= LONGEST_KEY


def key_bytes(kind: object) -> int:
    text = str(kind.compile(dialect=MYSQL))  # type: ignore[attr-defined]
    if text.startswith("VARCHAR("):
        return 4 * int(text[8:].partition(")")[0])
    return BYTES[text]  # a text has no position in a key


@pytest.fixture
def statements(database: Connection) -> list[str]:
    """What was sent to the database, as to MySQL."""
    found: list[str] = []
    event.listen(database, "before_execute", lambda _connection, clause, *_: found.append(str(clause.compile(dialect=MYSQL))))
    return found


def test_every_statement_compiles(database: Connection, statements: list[str]) -> None:
    at, position = TopicPartition("configs", 0), ReadPosition("id", 5, 0, 0)
    queries.hold_lease(database, "mirror", "one", now=1.0, seconds=10.0)
    queries.drop_lease(database, "mirror", "one")
    queries.move_agreement(database, "orders", None, queries.Agreement(False, "STARTED"))
    queries.move_agreement(database, "orders", queries.Agreement(False, "STARTED"), queries.Agreement(True, "PAUSED"))
    queries.agreements(database)
    add_position(database, at, position)
    move_position(database, at, position, ReadPosition("id", 6, 0, 0))
    read_positions(database)
    for take, records in ((take_configs, CONFIGS), (take_statuses, STATUSES), (take_offsets, OFFSETS), (take_batches, BATCHES)):
        for record in records:  # one by one, so that rows are added, changed and removed
            write_history(database, take(database, [record]))
    for end in (20, 30):  # an event is added, then changed
        value = BATCHES[0].value
        assert isinstance(value, BatchRecord)
        take_batches(database, [replace(BATCHES[0], value=replace(value, stay=Stay.OPEN, ranges={"lines": {0: (0, end)}}))])
        assert list(delivery_rows.pending_connectors(database)) == ["orders"]
        assert len(delivery_rows.take_deliveries(database, "orders", now_ms=1)) == 1
    write_history(database, [Entry(Kind.MIRROR, "", 0, (at, -1))])
    queries.changes(database, "orders", kinds=[Kind.OFFSET], before_id=99)
    queries.offsets_before(database, "orders", 1)
    queries.run_metrics(database, "orders", before_ms=99)
    queries.last_runs(database)
    queries.records_by_hour(database, now_ms=10**12)
    queries.sink_lags(database, "orders", {})
    queries.offset_topics(database)
    for minute, left in ((1, 5), (2, 5), (3, 6)):
        lag_rows.write_distances(database, {"orders": Distance(left)}, now_ms=minute * 60_000)
    lag_rows.lag_history(database, "orders", hours=24, now_ms=4 * 60_000)
    lag_rows.forget_distances(database, now_ms=lag_rows.KEPT_MS + 2 * 60_001)
    lag_rows.forget_deleted(database, [Entry(Kind.CONFIG, "orders", 0, (at, 0), old="{}")])
    recorded = RecordedHistory(lambda: nullcontext(database))
    recorded.config_lines("orders", limit=5, before=99)
    recorded.offset_lines("orders", "offsets", limit=5)
    recorded.offsets_at("orders", "offsets", 0)
    span = Span(0, 1)
    recorded.usage_by_day(recorded.connectors_used(span), span, most=9)
    recorded.usage_by_run("orders", span, most=9)
    queries.forget_history(database, 0)
    sweep = Sweep(database, "offsets", 0)
    for verb in (sweep.configs, sweep.statuses, sweep.offsets, sweep.batches):
        verb([])
    rebuild(database)
    rebuild(database, keep_history=False)
    forget_positions(database, [at])
    verbs = {statement.split()[0] for statement in statements}
    assert verbs == {"SELECT", "INSERT", "UPDATE", "DELETE", "SAVEPOINT", "RELEASE"}
    foreign = ("RETURNING", "ON CONFLICT", "||", "ILIKE", "OFFSET ", "FULL OUTER", "NULLS ")
    assert [statement for statement in statements if any(word in statement for word in foreign)] == []
