"""A thousand connectors at once, and a follower that has nothing to do. The durations are printed."""

import time

import pytest
from confluent_kafka import Producer
from sqlalchemy import Engine, Table

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.offsets import OffsetRecord
from airflow_provider_connect.runtime.model.records import CommitRecord, ConfigRecord, ConnectorRecord, TargetStateRecord, TaskRecord
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusRecord, TaskStatus
from airflow_provider_connect.runtime.sql_mirror.tables import (
    connector_config,
    connector_status,
    position,
    source_offset,
    task_config,
    task_status,
)
from airflow_provider_connect.runtime.wire import config_topic, offset_topic, status_topic
from tests.integration.sql_mirror.conftest import Follow, until
from tests.integration.sql_mirror.test_follower import CONFIG, count
from tests.samples import sample
from tests.waiting import HANG_SECONDS

CONNECTORS = 1000


def write_connectors(settings: WorkerSettings) -> int:
    """Nine records each: its config, target state, task set of two, three statuses and an offset. Returns how many in all."""
    producer, written = Producer({"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 5}), 0
    for number in range(CONNECTORS):
        name = f"connector-{number:04}"
        tasks = [ConnectorTaskId(name, task) for task in range(2)]
        configs: list[ConfigRecord] = [ConnectorRecord(name, CONFIG), TargetStateRecord(name, TargetState.STARTED)]
        configs += [*(TaskRecord(task, CONFIG) for task in tasks), CommitRecord(name, len(tasks))]
        statuses: list[StatusRecord] = [ConnectorStatus(name, State.RUNNING, "host:1", version="1.0")]
        statuses += [TaskStatus(*task, State.RUNNING, "host:1", version="1.0") for task in tasks]
        offset = OffsetRecord(name, {"filename": "/tmp/in"}, {"position": number}, b"")
        for topic, wires in (
            (settings.config_topic, map(config_topic.encode, configs)),
            (settings.status_topic, map(status_topic.encode, statuses)),
            (settings.offset_topic, [offset_topic.encode(offset.connector, offset.partition, offset.offset)]),
        ):
            for wire in wires:
                producer.produce(topic, wire.value, wire.key)
                written += 1
        producer.poll(0)
    assert producer.flush(HANG_SECONDS) == 0
    return written


@pytest.mark.soak
def test_a_thousand_connectors(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    expected: dict[Table, int] = {connector_config: 1, connector_status: 1, task_config: 2, task_status: 2, source_offset: 1}
    written, follower = write_connectors(settings), follow()
    started, cpu = time.monotonic(), time.thread_time()
    until(lambda: all(count(database, table) == each * CONNECTORS for table, each in expected.items()), follower)
    took, cpu = time.monotonic() - started, time.thread_time() - cpu
    print(f"{database.dialect.name}: {written} records in {took:.2f} s, {cpu:.2f} CPU-s: {written / took:.0f} records/s")


@pytest.mark.parametrize("url", sample(["sqlite", "postgresql", "mariadb"], 0), indirect=True)
def test_nothing_to_do_costs_next_to_nothing(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    follower = follow()
    until(lambda: count(database, position) > 0, follower)
    rest, cpu = time.monotonic(), time.process_time()
    while time.monotonic() < rest + 4:
        follower.step(1.0)
    share = (time.process_time() - cpu) / (time.monotonic() - rest)
    print(f"{database.dialect.name}: {share:.2%} of a core at rest")
    assert share < 0.2  # a loop that spins takes a whole one
