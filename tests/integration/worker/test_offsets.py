"""Whose offset holds: the group's, the destination's, the batch log's, another application's; and where a topic ends."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.herder.source_offsets import SourceOffsetChanges
from airflow_provider_connect.runtime.model.ids import partition_for
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.wire import offset_topic
from tests.integration.worker.environment import (
    RunEnvironment,
    commit_by_hand,
    make_topic,
    read_topic,
    send,
    values_of,
)
from tests.integration.worker.test_runs import text
from tests.kafka_topics import settle
from tests.waiting import HANG_SECONDS, wait_until


def set_by_hand(environment: RunEnvironment, offsets: dict[TopicPartition, int]) -> None:
    commit_by_hand(environment.bootstrap, environment.group, offsets)
    found = {p: known for p, known in environment.group_offsets().items() if p in offsets}
    assert {p: (known.offset, known.metadata) for p, known in found.items()} == {p: (n, "") for p, n in offsets.items()}


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_offset_set_by_an_admin_tool_wins_at_the_next_run(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, text(100))
    config = environment.file_sink(unique, delivery_guarantee=guarantee)
    environment.run(config)
    set_by_hand(environment, {TopicPartition(unique, 0): 40})
    assert environment.readiness(config).state == "work"
    assert environment.run(config).tasks[0].records == 60
    assert environment.lines() == [*text(100), *text(60, 40)]
    assert environment.readiness(config).state == "no-work"
    set_by_hand(environment, {TopicPartition(unique, 0): 100})  # the same offset, but not our mark
    environment.run(config)
    assert len(environment.lines()) == 160
    set_by_hand(environment, {TopicPartition(unique, 0): 90})
    environment.run(config)
    environment.run(config)
    assert environment.lines()[160:] == text(10, 90)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_offsets_of_a_real_connect_are_continued(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    """Its sink has committed the group's offsets, without a mark of ours; we have never run."""
    make_topic(environment.bootstrap, unique, 2)
    send(environment.bootstrap, unique, text(100), partitions=2)
    environment.file.write_text("what Connect wrote\n")
    set_by_hand(environment, {TopicPartition(unique, 0): 30, TopicPartition(unique, 1): 50})
    environment.run(environment.file_sink(unique, delivery_guarantee=guarantee))
    assert environment.lines() == ["what Connect wrote", *text(100)[60::2]]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_source_offsets_of_a_real_connect_are_continued(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    lines = text(100)
    environment.file.write_text("\n".join(lines) + "\n")
    position = sum(len(line) + 1 for line in lines[:70])
    environment.run(environment.numbers(f"{unique}-other", until="0"))  # makes the internal topics
    wire = offset_topic.encode(environment.connector, {"filename": str(environment.file)}, {"position": position})
    producer = Producer({"bootstrap.servers": environment.bootstrap, "enable.idempotence": True})
    producer.produce(environment.settings.offset_topic, wire.value, wire.key, partition_for(wire.key, 5))
    assert producer.flush(HANG_SECONDS) == 0
    make_topic(environment.bootstrap, unique)
    environment.put_config(environment.file_source(unique, delivery_guarantee=guarantee))
    assert environment.run().state is RunState.DONE
    assert values_of(environment.bootstrap, unique) == lines[70:]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_a_source_whose_offsets_topic_was_made_anew_doubles_nothing(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    """It FAILS, unless it delivers at least once, and a reset of the offsets is the answer to go on from the first record."""
    make_topic(environment.bootstrap, unique)
    environment.file.write_text("one\ntwo\n")
    config = environment.file_source(unique, delivery_guarantee=guarantee)
    environment.run(config)
    make_anew(environment, environment.settings.offset_topic)
    result = environment.run(config)
    if guarantee == "at_least_once":
        assert (result.state, values_of(environment.bootstrap, unique)) == (RunState.DONE, ["one", "two"] * 2)
        return
    error = result.tasks[0].trace or ""
    commands = [f"airflow connect offsets {verb} {environment.connector}" for verb in ("alter", "undo", "reset")]
    assert all(part in error for part in (environment.settings.offset_topic, "created anew", "/offsets", *commands)), error
    assert values_of(environment.bootstrap, unique) == ["one", "two"]
    reset_offsets(environment, config)
    assert environment.run(config).state is RunState.DONE
    assert values_of(environment.bootstrap, unique) == ["one", "two"] * 2


def test_a_source_that_keeps_no_offsets_needs_no_offsets_topic(environment: RunEnvironment, unique: str) -> None:
    database = environment.folder / "shop.db"
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        opened.execute("INSERT INTO orders VALUES (1)")
    config = {
        "name": environment.connector,
        "connector.class": "JdbcSource",
        "connection.url": f"jdbc:sqlite:{database}",
        "mode": "bulk",
        "topic.prefix": f"{unique}-",
        "delivery.guarantee": "at_most_once",
    }
    make_topic(environment.bootstrap, f"{unique}-orders")
    for _ in range(2):
        assert environment.run(config).state is RunState.DONE
        make_anew(environment, environment.settings.offset_topic)
    assert len(values_of(environment.bootstrap, f"{unique}-orders")) == 2


def make_anew(environment: RunEnvironment, topic: str) -> None:
    """Delete the topic. The next run creates it."""
    admin = AdminClient({"bootstrap.servers": environment.bootstrap})  # kept until the answer is there
    admin.delete_topics([topic])[topic].result(HANG_SECONDS)
    wait_until(lambda: topic not in admin.list_topics(timeout=HANG_SECONDS).topics, f"topic {topic} is gone")


def reset_offsets(environment: RunEnvironment, config: dict[str, str]) -> None:
    settings = environment.settings
    with ConfigStore(settings) as store:
        claim = store.claim(environment.connector)
    changes = SourceOffsetChanges(settings, TopicBacking(settings), environment.connector, config, ask=lambda _kind, _offsets: True)
    changes.request_reset()
    assert changes.write(claim, lambda: None)
    changes.close()


@pytest.mark.parametrize("tasks", [1, 2])
def test_aborted_offsets_are_repaired(environment: RunEnvironment, unique: str, tasks: int) -> None:
    """A worker without exactly-once support would believe the last record, committed or not."""
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique, tasks_max=str(tasks), tasks=str(tasks), until="100")
    environment.run(config)
    wrong = {("task", 0): 7_000, ("task", 1): 8_000, ("gone", 0): 9_000}  # the last has never been committed
    producer = Producer({"bootstrap.servers": environment.bootstrap, "transactional.id": f"{unique}-zombie"})
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    for (name, number), offset in wrong.items():
        wire = offset_topic.encode(environment.connector, {name: number}, {"next": offset})
        producer.produce(environment.settings.offset_topic, wire.value, wire.key, partition_for(wire.key, 5))
    producer.flush(HANG_SECONDS)
    producer.abort_transaction(HANG_SECONDS)
    settle(environment.bootstrap, environment.settings.offset_topic, 5)
    environment.run(config)
    last = {r.key: r.value for r in read_topic(environment.bootstrap, environment.settings.offset_topic, read_committed=False)}
    of_key = {key: value for key, value in last.items() if key is not None}
    expected = {("task", 0): b'{"next":100}', ("task", 1): b'{"next":100}' if tasks == 2 else None, ("gone", 0): None}
    for (name, number), value in expected.items():
        assert of_key[offset_topic.encode(environment.connector, {name: number}, None).key] == value
    environment.run(config)
    end = len(read_topic(environment.bootstrap, environment.settings.offset_topic, read_committed=False))
    environment.run(config)
    assert len(read_topic(environment.bootstrap, environment.settings.offset_topic, read_committed=False)) == end, "repaired once"


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_transactional_topic_is_read_to_its_end(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    """Committed, aborted, committed, aborted at the very end; then an open transaction hides what lies behind it."""
    make_topic(environment.bootstrap, unique)
    producer = Producer({"bootstrap.servers": environment.bootstrap, "transactional.id": unique})
    producer.init_transactions(HANG_SECONDS)

    def transaction(values: list[str], *, commit: bool | None) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(unique, value.encode())
        producer.flush(HANG_SECONDS)
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)(HANG_SECONDS)
            settle(environment.bootstrap, unique)

    transaction(text(50), commit=True)
    transaction(["aborted"] * 20, commit=False)
    transaction(text(50, 50), commit=True)
    transaction(["aborted"] * 20, commit=False)
    config = environment.file_sink(unique, delivery_guarantee=guarantee)
    assert environment.run(config).state is RunState.DONE
    assert environment.lines() == text(100)
    assert environment.group_offsets()[TopicPartition(unique, 0)].offset == 144, "140 records and 4 markers"
    assert environment.readiness(config).state == "no-work"

    transaction(text(10, 100), commit=None)
    send(environment.bootstrap, unique, ["behind the open one"])
    assert environment.readiness(config).state == "no-work"
    assert environment.run(config).state is RunState.DONE
    assert environment.lines() == text(100)
    producer.commit_transaction(HANG_SECONDS)
    wait_until(lambda: environment.readiness(config).state == "work")
    environment.run(config)
    assert environment.lines() == [*text(110), "behind the open one"]
    assert environment.readiness(config).state == "no-work"
    transaction(["aborted"] * 5, commit=False)
    assert environment.run(config).state is RunState.DONE
    assert len(environment.lines()) == 111
    assert environment.readiness(config).state == "no-work"


def test_what_a_run_has_committed_is_visible_when_it_ends(environment: RunEnvironment, unique: str) -> None:
    """A broker writes the markers of a commit behind its answer, and a sink may start at the end of this run."""
    make_topic(environment.bootstrap, unique, 3)
    admin, partitions = TopicAdmin(environment.settings), [TopicPartition(unique, number) for number in range(3)]
    for end in (10, 20, 30, 40, 50):
        assert environment.run(environment.numbers(unique, until=str(end))).state is RunState.DONE
        assert admin.end_offsets(partitions) == admin.end_offsets(partitions, read_committed=False)


def test_compacted_topic_is_read_over_its_gaps(environment: RunEnvironment, unique: str) -> None:
    quick = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "0"}
    make_topic(environment.bootstrap, unique, 1, **quick)
    producer = Producer({"bootstrap.servers": environment.bootstrap, "enable.idempotence": True})
    for number in range(300):
        producer.produce(unique, f"value {number}".encode(), f"key {number % 10}".encode())
    producer.flush(HANG_SECONDS)
    time.sleep(0.3)

    def is_compacted() -> bool:
        producer.produce(unique, b"last", b"rolls the segment")
        producer.flush(HANG_SECONDS)
        time.sleep(0.5)
        return len(read_topic(environment.bootstrap, unique)) < 200

    wait_until(is_compacted)  # Kafka's cleaner begins every 15 s
    config = environment.file_sink(unique, batch_max_records="5")
    expected = [(record.value or b"").decode() for record in read_topic(environment.bootstrap, unique)]
    print(f"{len(expected)} records left of 300")
    while environment.readiness(config).state == "work":
        environment.run(config)
    assert set(expected) <= set(environment.lines())
    assert len(environment.lines()) <= len(expected) + 5, "compaction may go on while the test reads"
    assert {f"value {number}" for number in range(290, 300)} <= set(environment.lines())


def test_latest_begins_where_the_first_run_finds_the_end(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 2)
    send(environment.bootstrap, unique, text(100), partitions=2)
    config = environment.file_sink(unique, **{"consumer.override.auto.offset.reset": "latest"})
    assert environment.readiness(config).state == "work"
    environment.run(config)
    assert environment.lines() == []
    assert {p.partition: known.offset for p, known in environment.group_offsets().items()} == {0: 50, 1: 50}
    assert environment.readiness(config).state == "no-work"
    send(environment.bootstrap, unique, text(10, 100), partitions=2)
    environment.run(config)
    assert sorted(environment.lines()) == sorted(text(10, 100))


def test_offset_outside_the_log_is_reset(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, text(10))
    set_by_hand(environment, {TopicPartition(unique, 0): 5_000})
    environment.run(environment.file_sink(unique))
    assert environment.lines() == text(10)
