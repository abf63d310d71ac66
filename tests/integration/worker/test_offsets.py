"""Whose offset holds: the group's, the destination's, the batch log's, somebody else's; and where a topic ends."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.model.ids import partition_for
from airflow_provider_connect.model.run import RunState
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.wire import offset_topic
from tests.integration.worker.scene import (
    Scene,
    commit_by_hand,
    eventually,
    make_topic,
    read_topic,
    send,
    values_of,
)
from tests.integration.worker.test_runs import text


def set_by_somebody_else(scene: Scene, offsets: dict[TopicPartition, int]) -> None:
    commit_by_hand(scene.bootstrap, scene.group, offsets)
    found = {p: known for p, known in scene.group_offsets().items() if p in offsets}
    assert {p: (known.offset, known.metadata) for p, known in found.items()} == {p: (n, "") for p, n in offsets.items()}


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_offset_set_by_an_admin_tool_wins_at_the_next_run(scene: Scene, unique: str, guarantee: str) -> None:
    make_topic(scene.bootstrap, unique)
    send(scene.bootstrap, unique, text(100))
    config = scene.file_sink(unique, delivery_guarantee=guarantee)
    scene.run(config)
    set_by_somebody_else(scene, {TopicPartition(unique, 0): 40})
    assert scene.readiness(config).state == "work"
    assert scene.run(config).tasks[0].records == 60
    assert scene.lines() == [*text(100), *text(60, 40)]
    assert scene.readiness(config).state == "no-work"
    set_by_somebody_else(scene, {TopicPartition(unique, 0): 100})  # the same offset, but not our mark
    scene.run(config)
    assert len(scene.lines()) == 160
    set_by_somebody_else(scene, {TopicPartition(unique, 0): 90})
    scene.run(config)
    scene.run(config)
    assert scene.lines()[160:] == text(10, 90)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_offsets_of_a_real_connect_are_continued(scene: Scene, unique: str, guarantee: str) -> None:
    """Its sink has committed the group's offsets, without a mark of ours; we have never run."""
    make_topic(scene.bootstrap, unique, 2)
    send(scene.bootstrap, unique, text(100), partitions=2)
    scene.file.write_text("what Connect wrote\n")
    set_by_somebody_else(scene, {TopicPartition(unique, 0): 30, TopicPartition(unique, 1): 50})
    scene.run(scene.file_sink(unique, delivery_guarantee=guarantee))
    assert scene.lines() == ["what Connect wrote", *text(100)[60::2]]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_source_offsets_of_a_real_connect_are_continued(scene: Scene, unique: str, guarantee: str) -> None:
    lines = text(100)
    scene.file.write_text("\n".join(lines) + "\n")
    position = sum(len(line) + 1 for line in lines[:70])
    scene.run(scene.numbers(f"{unique}-other", until="0"))  # makes the internal topics
    wire = offset_topic.encode(scene.connector, {"filename": str(scene.file)}, {"position": position})
    producer = Producer({"bootstrap.servers": scene.bootstrap, "enable.idempotence": True})
    producer.produce(scene.settings.offset_topic, wire.value, wire.key, partition_for(wire.key, 5))
    assert producer.flush(10) == 0
    make_topic(scene.bootstrap, unique)
    scene.put_config(scene.file_source(unique, delivery_guarantee=guarantee))
    assert scene.run().state is RunState.DONE
    assert values_of(scene.bootstrap, unique) == lines[70:]


@pytest.mark.parametrize("tasks", [1, 2])
def test_aborted_offsets_are_repaired(scene: Scene, unique: str, tasks: int) -> None:
    """A worker without exactly-once support would believe the last record, committed or not."""
    make_topic(scene.bootstrap, unique)
    config = scene.numbers(unique, tasks_max=str(tasks), tasks=str(tasks), until="100")
    scene.run(config)
    wrong = {("task", 0): 7_000, ("task", 1): 8_000, ("gone", 0): 9_000}  # the last has never been committed
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": f"{unique}-zombie"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for (name, number), offset in wrong.items():
        wire = offset_topic.encode(scene.connector, {name: number}, {"next": offset})
        producer.produce(scene.settings.offset_topic, wire.value, wire.key, partition_for(wire.key, 5))
    producer.flush(10)
    producer.abort_transaction(20)
    scene.run(config)
    last = {r.key: r.value for r in read_topic(scene.bootstrap, scene.settings.offset_topic, read_committed=False)}
    of_key = {key: value for key, value in last.items() if key is not None}
    expected = {("task", 0): b'{"next":100}', ("task", 1): b'{"next":100}' if tasks == 2 else None, ("gone", 0): None}
    for (name, number), value in expected.items():
        assert of_key[offset_topic.encode(scene.connector, {name: number}, None).key] == value
    scene.run(config)
    end = len(read_topic(scene.bootstrap, scene.settings.offset_topic, read_committed=False))
    scene.run(config)
    assert len(read_topic(scene.bootstrap, scene.settings.offset_topic, read_committed=False)) == end, "repaired once"


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_transactional_topic_is_read_to_its_end(scene: Scene, unique: str, guarantee: str) -> None:
    """Committed, aborted, committed, aborted at the very end; then an open transaction hides what lies behind it."""
    make_topic(scene.bootstrap, unique)
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": unique})
    producer.init_transactions(20)

    def transaction(values: list[str], *, commit: bool | None) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(unique, value.encode())
        producer.flush(10)
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)(20)

    transaction(text(50), commit=True)
    transaction(["aborted"] * 20, commit=False)
    transaction(text(50, 50), commit=True)
    transaction(["aborted"] * 20, commit=False)
    config = scene.file_sink(unique, delivery_guarantee=guarantee)
    assert scene.run(config).state is RunState.DONE
    assert scene.lines() == text(100)
    assert scene.group_offsets()[TopicPartition(unique, 0)].offset == 144, "140 records and 4 markers"
    assert scene.readiness(config).state == "no-work"

    transaction(text(10, 100), commit=None)
    send(scene.bootstrap, unique, ["behind the open one"])
    assert scene.readiness(config).state == "no-work"
    assert scene.run(config).state is RunState.DONE
    assert scene.lines() == text(100)
    producer.commit_transaction(20)
    eventually(lambda: scene.readiness(config).state == "work")
    scene.run(config)
    assert scene.lines() == [*text(110), "behind the open one"]
    assert scene.readiness(config).state == "no-work"
    transaction(["aborted"] * 5, commit=False)
    assert scene.run(config).state is RunState.DONE
    assert len(scene.lines()) == 111
    assert scene.readiness(config).state == "no-work"


def test_compacted_topic_is_read_over_its_gaps(scene: Scene, unique: str) -> None:
    quick = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "0"}
    make_topic(scene.bootstrap, unique, 1, **quick)
    producer = Producer({"bootstrap.servers": scene.bootstrap, "enable.idempotence": True})
    for number in range(300):
        producer.produce(unique, f"value {number}".encode(), f"key {number % 10}".encode())
    producer.flush(10)
    time.sleep(0.3)

    def is_compacted() -> bool:
        producer.produce(unique, b"last", b"rolls the segment")
        producer.flush(10)
        time.sleep(0.5)
        return len(read_topic(scene.bootstrap, unique)) < 200

    eventually(is_compacted, 60)
    config = scene.file_sink(unique, batch_max_records="5")
    expected = [(record.value or b"").decode() for record in read_topic(scene.bootstrap, unique)]
    print(f"{len(expected)} records left of 300")
    while scene.readiness(config).state == "work":
        scene.run(config)
    assert set(expected) <= set(scene.lines())
    assert len(scene.lines()) <= len(expected) + 5, "compaction may go on while the test reads"
    assert {f"value {number}" for number in range(290, 300)} <= set(scene.lines())


def test_latest_begins_where_the_first_run_finds_the_end(scene: Scene, unique: str) -> None:
    make_topic(scene.bootstrap, unique, 2)
    send(scene.bootstrap, unique, text(100), partitions=2)
    config = scene.file_sink(unique, **{"consumer.override.auto.offset.reset": "latest"})
    assert scene.readiness(config).state == "work"
    scene.run(config)
    assert scene.lines() == []
    assert {p.partition: known.offset for p, known in scene.group_offsets().items()} == {0: 50, 1: 50}
    assert scene.readiness(config).state == "no-work"
    send(scene.bootstrap, unique, text(10, 100), partitions=2)
    scene.run(config)
    assert sorted(scene.lines()) == sorted(text(10, 100))


def test_offset_outside_the_log_is_reset(scene: Scene, unique: str) -> None:
    make_topic(scene.bootstrap, unique)
    send(scene.bootstrap, unique, text(10))
    set_by_somebody_else(scene, {TopicPartition(unique, 0): 5_000})
    scene.run(scene.file_sink(unique))
    assert scene.lines() == text(10)
