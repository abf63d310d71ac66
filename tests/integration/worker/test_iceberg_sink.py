"""IcebergSink with a real broker: runs, kills between the steps of a commit, a catalog in PostgreSQL, a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.example_dags import configs_of
from tests.integration.herder.killed_change import KillPoint
from tests.integration.lake.tables import catalog_of, rows_of
from tests.integration.worker.environment import RunEnvironment, commit_by_hand, make_topic, send
from tests.integration.worker.note_runs import JSON, notes, write_around_a_kill, write_changes
from tests.s3_servers import MotoServer

TABLE = "connectors.lake.iceberg_table:TableWriter"
KILL_POINTS = (
    KillPoint(f"{TABLE}.flush", "after", 1),
    KillPoint(f"{TABLE}._stage_changes", "after", 2),  # after that of the claim
    KillPoint(f"{TABLE}.commit", "after", 2),
    KillPoint(f"{TABLE}.commit", "before", 2),
    KillPoint(CommitStep.COMMIT_GROUP, "before", 1),
)


def config(environment: RunEnvironment, topic: str, **more: str) -> dict[str, str]:
    own = {
        "name": environment.connector,
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": topic,
        "iceberg.tables": "shop.notes",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.control.topic": "control-iceberg",
    }
    return own | catalog_of(environment.folder) | JSON | {key.replace("_", "."): value for key, value in more.items()}


def ids(folder: Path) -> list[int]:
    return sorted(row["id"] for row in rows_of(folder, "shop.notes"))


def test_each_run_writes_what_is_new_once_and_others_offsets_win(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 3)
    send(environment.bootstrap, unique, notes(600), partitions=3)
    given = config(environment, unique, tasks_max="2")
    result = environment.run(given)
    assert (result.state, result.error, sum(task.records for task in result.tasks)) == (RunState.DONE, None, 600)
    assert ids(environment.folder) == list(range(600))
    assert environment.readiness(given).state == "no-work"
    commit_by_hand(environment.bootstrap, environment.group, {TopicPartition(unique, 0): 199})
    again = environment.run(given)
    assert (again.error, sum(task.records for task in again.tasks)) == (None, 1)
    assert len(ids(environment.folder)) == 601


@pytest.mark.soak  # tests/e2e/test_file_commit_steps.py has one kill for each run of the tests
@pytest.mark.parametrize("kill_point", KILL_POINTS, ids=lambda kill_point: f"{kill_point.side} {kill_point.method.rpartition(':')[2]}")
def test_killed_between_the_steps_of_a_commit_nothing_is_lost_or_doubled(
    environment: RunEnvironment, unique: str, kill_point: KillPoint
) -> None:
    write_around_a_kill(environment, unique, config(environment, unique), kill_point)
    assert ids(environment.folder) == list(range(1000))


def test_the_example_changes_the_rows_of_its_table(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(tmp_path))
    write_changes(environment, configs_of(monkeypatch, "example_iceberg_sink.py"))
    with closing(SqlCatalog("iceberg", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=str(tmp_path / "lake"))) as catalog:
        assert sorted(catalog.load_table("shop.orders").scan().to_arrow()["id"].to_pylist()) == list(range(5))


@pytest.fixture
def store() -> Iterator[MotoServer]:
    with MotoServer() as server:
        yield server


def test_a_catalog_in_postgresql_and_a_bucket(
    environment: RunEnvironment, postgres: PostgresServer, store: MotoServer, unique: str
) -> None:
    """Tables and offsets lie in the bucket; pyiceberg reads them back by a catalog and keys of its own."""
    make_topic(environment.bootstrap, unique, 2)
    send(environment.bootstrap, unique, notes(100), partitions=2)
    name = f"c{unique[-8:]}".replace("-", "_")
    location = {
        "iceberg.catalog": name,
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": f"jdbc:{postgres.uri()}",
        "iceberg.catalog.warehouse": f"s3://{store.bucket}/warehouse",
        **{f"iceberg.catalog.{key}": value for key, value in store.iceberg_options.items()},
    }
    given = config(environment, unique, tasks_max="2") | location
    assert environment.run(given).error is None
    send(environment.bootstrap, unique, notes(10, 100))
    assert environment.run(given).error is None
    with closing(SqlCatalog(name, uri=postgres.url(), **store.iceberg_options)) as catalog:
        rows = catalog.load_table("shop.notes").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == list(range(110))
