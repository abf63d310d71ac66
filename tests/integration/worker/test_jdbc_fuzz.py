"""A table of random rows through a topic into another table: what arrives is equal, and what does not is a dead-letter record.

``make soak`` runs it with 20,000 rows; ``FUZZ_ROWS`` and ``SEED`` set their number and the seed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from psycopg2.extras import execute_values

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.model.run import RunState
from tests.final_failures import expect_each_once
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic
from tests.integration.worker.fuzzed_rows import COLUMNS, PICKY, FuzzedColumn, rows
from tests.integration.worker.test_jdbc_sink import Target

ROWS = int(os.environ.get("FUZZ_ROWS", "600"))
SEED = int(os.environ.get("SEED", "20261121"))
JSON = {f"{side}.converter": "org.apache.kafka.connect.json.JsonConverter" for side in ("key", "value")}
TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s fine')",
    "CREATE DOMAIN limited AS int CHECK (VALUE BETWEEN 0 AND 100)",
)


@pytest.fixture
def database(postgres: PostgresServer, unique: str) -> Iterator[Target]:
    with closing(Target(postgres, f"s_{unique[-16:]}".replace("-", "_").lower())) as target:
        for statement in TYPES:
            target.do(statement)
        yield target


def fill(database: Target, columns: tuple[FuzzedColumn, ...]) -> None:
    definitions = ", ".join(f'"{column.name}" {column.type}' for column in columns)
    database.do(f"CREATE TABLE origin (id bigint PRIMARY KEY, {definitions})")
    template = ", ".join(f"%s::{column.type}" for column in columns)
    with database._connection.cursor() as cursor:
        execute_values(cursor, "INSERT INTO origin VALUES %s", rows(columns, ROWS, SEED), f"(%s, {template})", page_size=200)


def source_config(database: Target, connector: str, columns: tuple[FuzzedColumn, ...], guarantee: str) -> dict[str, str]:
    return {
        "name": connector,
        "connector.class": "JdbcSource",
        "connection.url": database.url,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.include": f"{database.name}.origin",
        "topic.prefix": f"{connector}-",
        "columns.as.text": ",".join(column.name for column in columns if column.as_text),
        "delivery.guarantee": guarantee,
        "batch.max.rows": "250",
        **JSON,
    }


def sink_config(database: Target, connector: str, topic: str, guarantee: str, tolerance: str) -> dict[str, str]:
    errors = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{connector}-letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    return {
        "name": connector,
        "connector.class": "JdbcSink",
        "connection.url": database.url,
        "topics": topic,
        "table.name.format": "target",
        "delivery.guarantee": guarantee,
        "batch.size": "200",
        **JSON,
        **(errors if tolerance == "all" else {}),
    }


@pytest.mark.parametrize(
    ("guarantee", "tolerance"),
    [
        ("exactly_once", "none"),
        pytest.param("at_least_once", "all", marks=pytest.mark.soak),
        *(
            pytest.param(guarantee, tolerance, marks=pytest.mark.soak)
            for guarantee, tolerance in (
                ("exactly_once", "all"),
                ("at_least_once", "none"),
                ("at_most_once", "none"),
                ("at_most_once", "all"),
            )
        ),
    ],
)
def test_source_and_target_are_equal_but_for_dead_letters(
    environment: RunEnvironment, database: Target, guarantee: str, tolerance: str, timings: list[str]
) -> None:
    began, unique = time.monotonic(), environment.connector
    columns = COLUMNS if tolerance == "none" else (*COLUMNS, *PICKY)
    fill(database, columns)
    source, sink = f"source-{unique}", f"sink-{unique}"
    topic = make_topic(environment.bootstrap, f"{source}-origin", 1)
    environment.connector = source
    result = environment.run(source_config(database, source, columns, guarantee))
    assert (result.state, result.error) == (RunState.DONE, None)
    there = ", ".join(f'"{column.name}" {column.target or column.type}' for column in columns)
    check = "" if tolerance == "none" else ", CHECK (id % 50 <> 7)"
    database.do(f"CREATE TABLE target (id bigint, {there}{check})")  # without a key: a row that comes twice is there twice
    environment.connector = sink
    result = environment.run(sink_config(database, sink, topic, guarantee, tolerance))
    assert (result.state, result.error) == (RunState.DONE, None), result.tasks[0].trace

    refused = dead_letters(environment, f"{sink}-letters") if tolerance == "all" else {}
    arrived = [row[0] for row in database.do("SELECT id FROM target")]
    expect_each_once([*arrived, *refused], range(1, ROWS + 1))
    assert all(refused.values())  # each has its reason
    assert refused.keys() >= ({id for id in range(1, ROWS + 1) if id % 50 == 7} if refused else set())
    assert changed(database, columns) == []
    assert len(arrived) >= ROWS // 20
    seconds = time.monotonic() - began
    timings.append(f"seed {SEED}: {ROWS} rows, {len(arrived)} equal in the target, {len(refused)} dead-letter records, {seconds:.0f} s")


def dead_letters(environment: RunEnvironment, topic: str) -> dict[int, str]:
    """The reason of each, by its row; none twice."""
    found: dict[int, str] = {}
    for dead_letter in read_topic(environment.bootstrap, topic):
        id = json.loads(dead_letter.value or b"")["payload"]["id"]
        assert id not in found, "two dead-letter records about one row"
        found[id] = next((value or b"").decode() for name, value in dead_letter.headers if name == "__connect.errors.exception.message")
    return found


def changed(database: Target, columns: tuple[FuzzedColumn, ...]) -> list[tuple[str, int, str, str]]:
    """Column, row and both values where these differ."""
    found = []
    for column in columns:
        here = column.shown.format(f'o."{column.name}"')
        there = (column.shown_there or column.shown).format(f't."{column.name}"')
        sql = f"SELECT o.id, {here}, {there} FROM origin o JOIN target t USING (id) WHERE {here} IS DISTINCT FROM {there} LIMIT 3"
        found += [(column.name, *row) for row in database.do(sql)]
    return found
