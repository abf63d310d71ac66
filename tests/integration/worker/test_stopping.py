"""A run that is told to end half-way: by the config topic, or by its driver."""

from __future__ import annotations

import time

import pytest

from airflow_provider_connect.model.run import RunResult, RunState
from airflow_provider_connect.model.states import TargetState
from airflow_provider_connect.sdk.records import TopicPartition
from tests.integration.worker.scene import Scene, UnderWay, eventually, make_topic, send, values_of
from tests.integration.worker.test_runs import text

GRACEFUL_SECONDS = 5.0


def running_source(scene: Scene, topic: str, **more: str) -> UnderWay:
    """A source in the middle of a run of 2,000 records, 10 each 50 ms."""
    make_topic(scene.bootstrap, topic)
    run = scene.start(scene.numbers(topic, until="2000", size="10", poll_ms="50", **more))
    eventually(lambda: len(values_of(scene.bootstrap, topic)) >= 20)
    return run


def running_sink(scene: Scene, topic: str, partitions: int = 1, **more: str) -> UnderWay:
    """A sink in the middle of a run of 100,000 records, about 10,000 a second."""
    make_topic(scene.bootstrap, topic, partitions)
    send(scene.bootstrap, topic, text(100_000), partitions=partitions)
    run = scene.start(scene.slow_sink(topic, put_ms="1000", **more))
    eventually(lambda: scene.file.exists() and set(scene.states().values()) == {"RUNNING"})
    time.sleep(1.2)
    return run


def ended(run: UnderWay) -> tuple[RunResult, float]:
    begun = time.monotonic()
    result = run.wait()
    seconds = time.monotonic() - begun
    print(f"ended {seconds:.2f} s after it was told to")
    assert seconds < GRACEFUL_SECONDS
    return result, seconds


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_source_ends_after_its_batch(scene: Scene, unique: str, target: TargetState, guarantee: str) -> None:
    run = running_source(scene, unique, delivery_guarantee=guarantee)
    scene.put_target_state(target)
    result, _ = ended(run)
    assert result.state is RunState.STOPPED
    assert result.tasks[0].stopped_by == str(target).lower()
    delivered = values_of(scene.bootstrap, unique)
    assert 20 <= len(delivered) < 2000
    assert scene.offsets().get({"task": 0}) == {"next": len(delivered)}
    assert len(set(delivered)) == len(delivered)
    if target is TargetState.PAUSED:
        assert scene.states() == {0: "PAUSED"}
        assert str(scene.statuses().connectors[scene.connector].state) == "PAUSED"
    else:
        assert scene.configs().tasks(scene.connector) == []
    scene.put_target_state(TargetState.STARTED)
    scene.put_config(scene.numbers(unique, until="2000", size="500", delivery_guarantee=guarantee))
    assert scene.run().state is RunState.DONE
    assert sorted(values_of(scene.bootstrap, unique)) == sorted(f"0-{number}" for number in range(2000))
    assert scene.states() == {0: "RUNNING"}


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_sink_ends_after_its_batch(scene: Scene, unique: str, target: TargetState) -> None:
    run = running_sink(scene, unique)
    scene.put_target_state(target)
    result, _ = ended(run)
    assert result.tasks[0].stopped_by == str(target).lower()
    delivered = len(scene.lines())
    assert 0 < delivered < 100_000
    assert scene.group_offsets()[TopicPartition(unique, 0)].offset == delivered
    assert scene.batch_log()[0].next == {unique: {0: delivered}}
    if target is TargetState.PAUSED:
        assert scene.states() == {0: "PAUSED"}
    scene.put_target_state(TargetState.STARTED)
    scene.put_config(scene.slow_sink(unique))
    assert scene.run().state is RunState.DONE
    assert scene.lines() == text(100_000)


def test_all_tasks_are_paused(scene: Scene, unique: str) -> None:
    run = running_sink(scene, unique, partitions=3, tasks_max="3")
    scene.put_target_state(TargetState.PAUSED)
    ended(run)
    assert scene.states() == {0: "PAUSED", 1: "PAUSED", 2: "PAUSED"}
    assert sum(known.offset for known in scene.group_offsets().values()) == len(scene.lines())


def test_deleted_connector_ends_its_run(scene: Scene, unique: str) -> None:
    from airflow_provider_connect.stores.config_store import ConfigStore

    run = running_source(scene, unique)
    with ConfigStore(scene.settings) as store:
        store.delete_connector(scene.connector)
    result, _ = ended(run)
    assert result.tasks[0].stopped_by == "deleted"
    assert scene.offsets().get({"task": 0}) == {"next": len(values_of(scene.bootstrap, unique))}


def test_driver_tells_its_tasks_to_end(scene: Scene, unique: str) -> None:
    run = running_source(scene, unique)
    run.application.request_end()
    result, _ = ended(run)
    assert result.state is RunState.STOPPED
    assert result.tasks[0].stopped_by == "the application was asked to end"
    assert scene.offsets().get({"task": 0}) == {"next": len(values_of(scene.bootstrap, unique))}
    assert scene.states() == {0: "RUNNING"}, "nobody asked for another state: the next run goes on"


def test_pause_while_a_sink_waits_to_put_again(scene: Scene, unique: str) -> None:
    make_topic(scene.bootstrap, unique)
    send(scene.bootstrap, unique, text(100))
    run = scene.start(scene.slow_sink(unique, fail_put="retriable"))
    eventually(lambda: scene.states() == {0: "RUNNING"})
    scene.put_target_state(TargetState.PAUSED)
    result, _ = ended(run)
    assert result.tasks[0].stopped_by == "paused"
    assert scene.states() == {0: "PAUSED"}
    assert scene.group_offsets()[TopicPartition(unique, 0)].offset == 0
    assert scene.lines() == []
