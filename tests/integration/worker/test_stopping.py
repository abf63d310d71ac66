"""A run that is asked to end half-way: by the config topic, or by its driver."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.run import RunResult, RunState
from airflow_provider_connect.runtime.model.states import TargetState
from tests.integration.worker.environment import RunEnvironment, UnderWay, make_topic, send, values_of
from tests.integration.worker.test_runs import text
from tests.waiting import wait_until


def running_source(environment: RunEnvironment, topic: str, **more: str) -> UnderWay:
    """A source in the middle of a run of 20,000 records, 10 each half a second: far from its end."""
    make_topic(environment.bootstrap, topic)
    run = environment.start(environment.numbers(topic, until="20000", size="10", poll_ms="500", **more))
    wait_until(lambda: len(values_of(environment.bootstrap, topic)) >= 20)
    return run


def running_sink(environment: RunEnvironment, topic: str, partitions: int = 1, **more: str) -> UnderWay:
    """A sink in its first put of 10,000 records, of 100,000. It goes on after ``let_go``; each later put takes twenty seconds."""
    make_topic(environment.bootstrap, topic, partitions)
    send(environment.bootstrap, topic, text(100_000), partitions=partitions)
    asks, gate = (str(environment.file.with_suffix(suffix)) for suffix in (".asks", ".gate"))
    run = environment.start(environment.slow_sink(topic, put_ms="20000", asks=asks, gate=gate, **more))
    wait_until(lambda: Path(asks).exists() and set(environment.states().values()) == {"RUNNING"})
    return run


def let_go(environment: RunEnvironment) -> None:
    environment.file.with_suffix(".gate").touch()


def ended(run: UnderWay) -> tuple[RunResult, float]:
    begun = time.monotonic()
    result = run.wait()
    seconds = time.monotonic() - begun
    print(f"ended {seconds:.2f} s after it was asked to")
    return result, seconds


@pytest.mark.parametrize(
    ("target", "guarantee"),
    [
        (TargetState.PAUSED, "exactly_once"),
        (TargetState.STOPPED, "at_least_once"),
        pytest.param(TargetState.PAUSED, "at_least_once", marks=pytest.mark.soak),
        pytest.param(TargetState.STOPPED, "exactly_once", marks=pytest.mark.soak),
    ],
)
def test_source_ends_after_its_batch(environment: RunEnvironment, unique: str, target: TargetState, guarantee: str) -> None:
    run = running_source(environment, unique, delivery_guarantee=guarantee)
    environment.put_target_state(target)
    result, _ = ended(run)
    assert result.state is RunState.STOPPED
    assert result.tasks[0].stopped_by == str(target).lower()
    delivered = values_of(environment.bootstrap, unique)
    assert 20 <= len(delivered) < 20_000
    assert environment.offsets().get({"task": 0}) == {"next": len(delivered)}
    assert len(set(delivered)) == len(delivered)
    if target is TargetState.PAUSED:
        assert environment.states() == {0: "PAUSED"}
        assert str(environment.statuses().connectors[environment.connector].state) == "PAUSED"
    else:
        assert environment.configs().tasks(environment.connector) == []
    environment.put_target_state(TargetState.STARTED)
    environment.put_config(environment.numbers(unique, until="20000", size="500", delivery_guarantee=guarantee))
    assert environment.run().state is RunState.DONE
    assert sorted(values_of(environment.bootstrap, unique)) == sorted(f"0-{number}" for number in range(20_000))
    assert environment.states() == {0: "RUNNING"}


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_sink_ends_after_its_batch(environment: RunEnvironment, unique: str, target: TargetState) -> None:
    run = running_sink(environment, unique)
    environment.put_target_state(target)
    let_go(environment)
    result, _ = ended(run)
    assert result.tasks[0].stopped_by == str(target).lower()
    delivered = len(environment.lines())
    assert 0 < delivered < 100_000
    assert environment.group_offsets()[TopicPartition(unique, 0)].offset == delivered
    assert environment.batch_log()[0].next == {unique: {0: delivered}}
    if target is TargetState.PAUSED:
        assert environment.states() == {0: "PAUSED"}
    environment.put_target_state(TargetState.STARTED)
    environment.put_config(environment.slow_sink(unique))
    assert environment.run().state is RunState.DONE
    assert environment.lines() == text(100_000)


def test_all_tasks_are_paused(environment: RunEnvironment, unique: str) -> None:
    run = running_sink(environment, unique, partitions=3, tasks_max="3")
    environment.put_target_state(TargetState.PAUSED)
    let_go(environment)
    ended(run)
    assert environment.states() == {0: "PAUSED", 1: "PAUSED", 2: "PAUSED"}
    assert sum(known.offset for known in environment.group_offsets().values()) == len(environment.lines())


def test_deleted_connector_ends_its_run(environment: RunEnvironment, unique: str) -> None:
    from airflow_provider_connect.runtime.stores.config_store import ConfigStore

    run = running_source(environment, unique)
    with ConfigStore(environment.settings) as store:
        store.delete_connector(environment.connector)
    result, _ = ended(run)
    assert result.tasks[0].stopped_by == "deleted"
    assert environment.offsets().get({"task": 0}) == {"next": len(values_of(environment.bootstrap, unique))}


def test_driver_asks_its_tasks_to_end(environment: RunEnvironment, unique: str) -> None:
    run = running_source(environment, unique)
    run.application.request_end()
    result, _ = ended(run)
    assert result.state is RunState.STOPPED
    assert result.tasks[0].stopped_by == "the application was asked to end"
    assert environment.offsets().get({"task": 0}) == {"next": len(values_of(environment.bootstrap, unique))}
    assert environment.states() == {0: "RUNNING"}, "no client asked for another state: the next run goes on"


def test_pause_while_a_sink_waits_to_put_again(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, text(100))
    run = environment.start(environment.slow_sink(unique, fail_put="retriable"))
    wait_until(lambda: environment.states() == {0: "RUNNING"})
    environment.put_target_state(TargetState.PAUSED)
    result, _ = ended(run)
    assert result.tasks[0].stopped_by == "paused"
    assert environment.states() == {0: "PAUSED"}
    assert environment.group_offsets()[TopicPartition(unique, 0)].offset == 0
    assert environment.lines() == []
