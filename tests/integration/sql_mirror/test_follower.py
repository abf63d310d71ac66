"""What is on the topics is in the tables, with its history, on each kind of database."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer
from sqlalchemy import Engine, Table, func, select

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus, TopicStatus
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.sql_mirror.changes import Kind
from airflow_provider_connect.runtime.sql_mirror.follower import rebuild
from airflow_provider_connect.runtime.sql_mirror.queries import changes, last_runs, offsets_before, run_metrics, sink_lags
from airflow_provider_connect.runtime.sql_mirror.tables import (
    CURRENT,
    active_topic,
    connector_config,
    connector_status,
    history,
    metadata,
    sink_position,
    source_offset,
    target_state,
    task_config,
    task_set,
    task_status,
)
from airflow_provider_connect.runtime.stores.batch_log import BatchLog
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.offset_store import OffsetStore
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from tests.integration.sql_mirror.conftest import Follow, until
from tests.waiting import HANG_SECONDS

CONFIG = {"connector.class": "FileStreamSource", "file": "/tmp/in", "topic": "lines"}
SECRET = "canary-7f3a"


def rows(database: Engine, table: Table) -> list[dict[str, Any]]:
    """All rows but for their times, in the order of their keys."""
    with database.connect() as connection:
        found = [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns)).mappings()]
    return [{name: value for name, value in row.items() if name != "changed_ms"} for row in found]


def count(database: Engine, table: Table) -> int:
    with database.connect() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def reported(database: Engine, connector: str, *kinds: Kind) -> list[tuple[str, str, str | None, str | None]]:
    """Kind, subject, old and new of the connector's history, the oldest first."""
    with database.connect() as connection:
        found = changes(connection, connector, kinds=kinds, limit=10_000)
    return [(change.kind, change.subject, change.old, change.new) for change in reversed(found)]


@pytest.fixture
def configs(settings: WorkerSettings) -> Iterator[ConfigStore]:
    with ConfigStore(settings) as store:
        yield store


def write_offsets(settings: WorkerSettings, connector: str, *offsets: tuple[Mapping[str, object], Mapping[str, object] | None]) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    with OffsetStore(settings) as store:
        for record in store.records(connector, offsets):
            producer.produce(store.topic, record.value, record.key, record.partition)
    assert producer.flush(HANG_SECONDS) == 0


def write_batch(
    settings: WorkerSettings,
    connector: str,
    task: int,
    run: str,
    claim: Claim,
    *,
    is_source: bool = False,
    positions: dict[str, dict[str, int]] | None = None,
    **measured: Any,
) -> None:
    partition, key, value = BatchLog.record(
        settings,
        connector=connector,
        task=task,
        run=run,
        claim=claim,
        is_source=is_source,
        ranges={},
        positions=positions or {},
        **measured,
    )
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    producer.produce(settings.batch_topic, value, key, partition)
    assert producer.flush(HANG_SECONDS) == 0


def test_configs_target_states_and_task_sets(settings: WorkerSettings, configs: ConfigStore, database: Engine, follow: Follow) -> None:
    follower = follow()
    configs.create_connector("orders", CONFIG)
    configs.put_tasks("orders", [{"file": "a"}, {"file": "b"}], configs.claim("orders"))
    configs.put_target_state("orders", TargetState.PAUSED)
    configs.put_connector("orders", {**CONFIG, "file": "/tmp/other"})
    until(lambda: len(reported(database, "orders", Kind.CONFIG)) == 2, follower)
    (connector,) = rows(database, connector_config)
    assert json.loads(connector["config"]) == {**CONFIG, "file": "/tmp/other"}
    assert rows(database, target_state) == [{"connector": "orders", "state": "PAUSED"}]
    assert rows(database, task_set) == [{"connector": "orders", "tasks": 2, "is_whole": True}]
    assert [(row["task"], row["config"]) for row in rows(database, task_config)] == [(0, '{"file":"a"}'), (1, '{"file":"b"}')]
    assert reported(database, "orders", Kind.TARGET_STATE, Kind.TASKS) == [
        ("tasks", "", "[]", '[{"file":"a"},{"file":"b"}]'),
        ("target-state", "", "STARTED", "PAUSED"),
    ]
    first, second = reported(database, "orders", Kind.CONFIG)
    assert (first[2], second[2]) == (None, first[3])

    configs.delete_connector("orders")
    until(lambda: len(reported(database, "orders", Kind.CONFIG)) == 3 and not rows(database, target_state), follower)
    assert [table.name for table in CURRENT if count(database, table)] == []
    assert reported(database, "orders", Kind.CONFIG)[-1] == ("config", "", second[3], None)


def test_statuses_and_topics_and_which_run_wrote_them(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    follower, old, new = follow(), Claim(5, "topic-id"), Claim(9, "topic-id")
    with StatusWriter(settings, claim=new) as writer:
        writer.put_connector(ConnectorStatus("orders", State.RUNNING, "host:1", version="1.0", claim=new))
        writer.put_task(TaskStatus("orders", 0, State.FAILED, "host:1", trace="Traceback\n\0", version="1.0", claim=new))
        writer.put_topic(TopicStatus("lines", "orders", 0, 1234, new))
        assert writer.flush(HANG_SECONDS)
    with StatusWriter(settings, claim=old) as writer:  # a zombie
        writer.put_task(TaskStatus("orders", 0, State.RUNNING, "host:2", claim=old))
        assert writer.flush(HANG_SECONDS)
    write_batch(settings, "orders", 0, "scheduled__1", new)
    with StatusWriter(settings, claim=new) as writer:
        writer.put_task(TaskStatus("orders", 0, State.RUNNING, "host:3", claim=new))
        assert writer.flush(HANG_SECONDS)
    until(lambda: [row["worker_id"] for row in rows(database, task_status)] == ["host:3"], follower)
    until(lambda: count(database, active_topic) == 1 and count(database, connector_status) == 1, follower)
    with database.connect() as connection:
        until(lambda: run_metrics(connection, "orders"), follower)
        lines = changes(connection, "orders", kinds=[Kind.TASK_STATUS])
    assert [(line.who, line.run) for line in reversed(lines)] == [("host:1", "scheduled__1"), ("host:3", "scheduled__1")]
    assert json.loads(lines[-1].new or "")["trace"] == "Traceback\n\0"

    with StatusWriter(settings, claim=new) as writer:
        writer.delete_connector("orders")
        writer.delete_topic("orders", "lines")
        assert writer.flush(HANG_SECONDS)
    until(lambda: not count(database, connector_status) and not count(database, active_topic), follower)
    until(lambda: not count(database, task_status), follower)
    with StatusWriter(settings, claim=old) as writer:  # the zombie again: what was removed stays so
        writer.put_connector(ConnectorStatus("orders", State.RUNNING, "host:2", claim=old))
        writer.put_connector(ConnectorStatus("other", State.RUNNING, "host:2", claim=old))
        assert writer.flush(HANG_SECONDS)
    until(lambda: [row["connector"] for row in rows(database, connector_status)] == ["other"], follower)


def test_offsets_and_what_undoes_a_change(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    follower, one, two = follow(), {"file": "ä", "n": 1}, {"file": "b"}
    write_offsets(settings, "orders", (one, {"position": 10}), (two, {"position": 1}))
    write_offsets(settings, "orders", (one, {"position": 20}))
    until(lambda: len(reported(database, "orders")) == 3, follower)
    with database.connect() as connection:
        newest = changes(connection, "orders")[0].id
    write_offsets(settings, "orders", (one, {"position": 30}), (two, None), ({"file": "c"}, {"position": 5}))
    until(lambda: len(reported(database, "orders")) == 6, follower)
    assert sorted(row["source_offset"] for row in rows(database, source_offset)) == ['{"position":30}', '{"position":5}']
    with database.connect() as connection:
        undone = offsets_before(connection, "orders", newest + 1)
        assert offsets_before(connection, "orders", newest + 100) == []
    assert sorted(undone, key=str) == sorted(
        [OffsetView(one, {"position": 20}), OffsetView(two, {"position": 1}), OffsetView({"file": "c"}, None)], key=str
    )


def test_runs_with_their_figures_and_the_lag_that_is_left(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    follower, first, second = follow(), Claim(5, "id"), Claim(9, "id")
    write_batch(
        settings,
        "sink",
        0,
        "one",
        first,
        positions={"lines": {"0": 10, "1": 4}},
        records=14,
        size=140,
        seconds=1.5,
        cpu_seconds=0.5,
        failed=3,
    )
    write_batch(
        settings, "sink", 1, "one", first, positions={"other": {"0": 7}}, records=7, size=70, seconds=0.5, cpu_seconds=0.25, failed=1
    )
    write_batch(settings, "sink", 0, "two", second, positions={"lines": {"0": 12}}, records=2, size=20, seconds=1.0, cpu_seconds=0.1)
    moved = {"other": {"0": 7}, "lines": {"1": 9}}
    write_batch(settings, "sink", 1, "two", second, positions=moved, records=5, size=50, seconds=1.0, cpu_seconds=0.1, failed=2)
    until(lambda: len(rows(database, sink_position)) == 3 and len(reported(database, "sink")) >= 5, follower)
    with database.begin() as connection:
        runs = run_metrics(connection, "sink")
        assert last_runs(connection) == []  # no such connector exists
        connection.execute(connector_config.insert().values(connector="sink", config="{}", changed_ms=0))
        assert [(run.connector, run.run, run.tasks, run.records, run.failed) for run in last_runs(connection)] == [("sink", "two", 2, 7, 2)]
        lags = sink_lags(connection, "sink", {TopicPartition("lines", 0): 20, TopicPartition("lines", 1): 9})
        (recreated, *_) = sink_lags(connection, "sink", {TopicPartition("lines", 0): 11})
    assert [(run.run, run.tasks, run.tries, run.records, run.bytes, run.seconds, run.failed) for run in runs] == [
        ("two", 2, 1, 7, 70, 2.0, 2),
        ("one", 2, 1, 21, 210, 2.0, 4),
    ]
    assert [(lag.topic, lag.partition, lag.position, lag.lag) for lag in lags] == [
        ("lines", 0, 12, 8),
        ("lines", 1, 9, 0),
        ("other", 0, 7, None),
    ]
    assert (recreated.position, recreated.lag) == (12, None)


def test_secrets_are_in_no_table(settings: WorkerSettings, configs: ConfigStore, database: Engine, follow: Follow) -> None:
    follower = follow()
    secret = {"connection.password": SECRET, "url": f"jdbc:postgresql://user:{SECRET}@host/db", "api.token": "${env:TOKEN}"}
    configs.create_connector("orders", {**CONFIG, **secret})
    configs.put_tasks("orders", [secret], configs.claim("orders"))
    configs.put_connector("orders", {**CONFIG, **secret, "connection.password": f"{SECRET}2"})
    until(lambda: len(reported(database, "orders", Kind.CONFIG)) == 2, follower)  # only what is hidden has changed
    until(lambda: reported(database, "orders", Kind.TASKS), follower)
    everything = json.dumps([rows(database, table) for table in metadata.tables.values()])
    assert SECRET not in everything
    assert "[hidden]" in everything
    assert "${env:TOKEN}" in everything


def test_dropped_tables_are_filled_again(settings: WorkerSettings, configs: ConfigStore, database: Engine, follow: Follow) -> None:
    follower = follow()
    fill(settings, configs)
    until(lambda: count(database, history) == FILLED, follower)
    before = {table.name: rows(database, table) for table in CURRENT}
    lines = reported(database, "orders")
    metadata.drop_all(database)
    metadata.create_all(database)
    until(lambda: count(database, history) == FILLED, follower)
    assert {table.name: rows(database, table) for table in CURRENT} == before
    assert sorted(reported(database, "orders"), key=str) == sorted(lines, key=str)


@pytest.mark.soak
def test_a_rebuilt_mirror_keeps_its_history_and_reports_nothing_twice(
    settings: WorkerSettings, configs: ConfigStore, database: Engine, follow: Follow
) -> None:
    follower = follow()
    fill(settings, configs)
    until(lambda: count(database, history) == FILLED, follower)
    before = {table.name: rows(database, table) for table in CURRENT}
    with database.begin() as connection:
        connection.execute(task_status.delete())
        connection.execute(connector_config.update().values(config='{"what":"is wrong"}'))
    with database.begin() as connection:
        rebuild(connection)
    until(lambda: {table.name: rows(database, table) for table in CURRENT} == before, follower)
    assert count(database, history) == FILLED
    write_offsets(settings, "orders", ({"file": "a"}, {"position": 99}))
    until(lambda: count(database, history) == FILLED + 1, follower)
    with database.begin() as connection:
        rebuild(connection, keep_history=False)
    until(lambda: count(database, history) == FILLED + 1, follower)


FILLED = 9


def fill(settings: WorkerSettings, configs: ConfigStore) -> None:
    """Something on each topic, which makes ``FILLED`` lines of history."""
    configs.create_connector("orders", CONFIG)
    claim = configs.claim("orders")
    configs.put_tasks("orders", [{"file": "a"}], claim)
    configs.put_target_state("orders", TargetState.PAUSED)
    configs.create_connector("gone", CONFIG)
    configs.delete_connector("gone")
    with StatusWriter(settings, claim=claim) as writer:
        writer.put_task(TaskStatus("orders", 0, State.RUNNING, "host:1", claim=claim))
        assert writer.flush(HANG_SECONDS)
    write_offsets(settings, "orders", ({"file": "a"}, {"position": 10}))
    write_batch(settings, "orders", 0, "one", claim, positions={"lines": {"0": 10}})
