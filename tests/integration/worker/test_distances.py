"""How far sources are from their ends: in the batch log at the end of a run, and from there in what a herder lists."""

from __future__ import annotations

import sqlite3

import pytest

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.run import RunState
from tests.integration.herder.conftest import RunsByHand
from tests.integration.worker.environment import RunEnvironment


@pytest.mark.parametrize("kind", ["file", "table"])
def test_a_run_to_the_end_leaves_nothing(environment: RunEnvironment, kind: str) -> None:
    topic, database = f"{environment.connector}-data", environment.folder / "shop.db"
    environment.file.write_text("one\ntwo\n")
    with sqlite3.connect(database) as connection:
        connection.execute("create table orders (id integer primary key)")
        connection.execute("insert into orders values (3), (7)")
    table = {
        "connector.class": "JdbcSource",
        "connection.url": f"jdbc:sqlite:{database}",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": topic,
    }
    config, unit = (environment.file_source(topic), "bytes") if kind == "file" else (table, "numbers of id")
    assert environment.run({**config, "name": environment.connector}).state is RunState.DONE
    assert distances(environment) == {environment.connector: Distance(0, unit)}


def test_a_run_that_ends_early_leaves_what_it_did_not_read(environment: RunEnvironment) -> None:
    lines = "".join(f"{number:09d}\n" for number in range(100))
    environment.file.write_text(lines)
    config = environment.file_source(f"{environment.connector}-lines", batch_size="10", batch_max_records="30")
    assert [task.records for task in environment.run(config).tasks] == [30]
    assert distances(environment) == {environment.connector: Distance(700, "bytes")}


def distances(environment: RunEnvironment) -> dict[str, Distance]:
    with Herder(environment.settings, RunsByHand()) as herder:
        herder.task_metrics()
        return herder.distances(herder.connectors())
