"""Runs from beginning to end: the first, one with nothing to do, parts of one, limits, failures."""

from __future__ import annotations

import time

import pytest

from airflow_provider_connect.model.run import RunState
from airflow_provider_connect.model.states import TargetState
from airflow_provider_connect.sdk.records import TopicPartition
from tests.integration.worker.scene import Scene, make_topic, send, values_of


def text(count: int, first: int = 0) -> list[str]:
    return [f"line {number}" for number in range(first, first + count)]


def test_first_run_of_source_makes_topics_and_next_has_nothing_to_do(scene: Scene, unique: str) -> None:
    config = scene.file_source(unique)
    scene.file.write_text("\n".join(text(500)) + "\n")
    assert scene.readiness(config).state == "work"
    result = scene.run(config)
    assert (result.state, [task.records for task in result.tasks], result.error) == (RunState.DONE, [500], None)
    assert values_of(scene.bootstrap, unique) == text(500)
    assert scene.readiness(config).state == "no-work"
    assert scene.offsets().get({"filename": str(scene.file)}) == {"position": scene.file.stat().st_size}
    again = scene.run(config)  # although there is nothing to do
    assert (again.state, again.tasks[0].records) == (RunState.DONE, 0)
    assert len(values_of(scene.bootstrap, unique)) == 500
    with scene.file.open("a") as file:
        file.write("one more\n")
    assert scene.readiness(config).state == "work"


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_first_run_of_sink_delivers_all_and_next_has_nothing_to_do(scene: Scene, unique: str, guarantee: str) -> None:
    make_topic(scene.bootstrap, unique, 3)
    send(scene.bootstrap, unique, text(600), partitions=3)
    config = scene.file_sink(unique, delivery_guarantee=guarantee)
    assert scene.readiness(config).state == "work"
    result = scene.run(config)
    assert (result.state, result.error, sum(task.records for task in result.tasks)) == (RunState.DONE, None, 600)
    assert sorted(scene.lines()) == sorted(text(600))
    assert {p: known.offset for p, known in scene.group_offsets().items()} == {TopicPartition(unique, n): 200 for n in range(3)}
    assert {known.metadata.partition(" at=")[0] for known in scene.group_offsets().values()} == {f"claim={result.claim}"}
    assert scene.readiness(config).state == "no-work"
    send(scene.bootstrap, unique, ["one more"])
    assert scene.readiness(config).state == "work"
    assert scene.run(config).tasks[0].records == 1
    assert len(scene.lines()) == 601


def test_connector_that_is_gone_or_not_started_is_skipped(scene: Scene, unique: str) -> None:
    assert scene.run().state is RunState.SKIPPED
    config = scene.file_source(unique)
    scene.file.write_text("a\n")
    scene.run(config)
    for target in (TargetState.PAUSED, TargetState.STOPPED):
        scene.put_target_state(target)
        assert scene.readiness(config).state == "not-started"
        result = scene.run(config)
        assert (result.state, result.claim) == (RunState.SKIPPED, None)
    assert values_of(scene.bootstrap, unique) == ["a"]


def test_single_task_is_run_alone(scene: Scene, unique: str) -> None:
    mended = scene.folder / "mended"
    config = scene.numbers(unique, tasks_max="3", tasks="3", until="200", fail_tasks="1", unless=str(mended))
    make_topic(scene.bootstrap, unique)
    first = scene.run(config)
    assert [task.state for task in first.tasks] == ["RUNNING", "FAILED", "RUNNING"]
    mended.touch()
    before = scene.statuses()
    count = len(scene.config_log())
    second = scene.run(tasks=[1])
    assert [(task.task, task.records) for task in second.tasks] == [(1, 200)]
    assert len(scene.config_log()) == count + 1, "a claim, and no new task set"
    after = scene.statuses()
    assert [after.task(scene.connector, n) == before.task(scene.connector, n) for n in range(3)] == [True, False, True]
    assert scene.states() == dict.fromkeys(range(3), "RUNNING")
    assert sorted(values_of(scene.bootstrap, unique)) == sorted(f"{task}-{n}" for task in range(3) for n in range(200))


def test_single_task_of_a_changed_config_is_not_run_alone(scene: Scene, unique: str) -> None:
    """Its siblings' configs are out of date, so all are planned and run."""
    make_topic(scene.bootstrap, unique)
    scene.run(scene.numbers(unique, tasks_max="2", tasks="2", until="100"))
    scene.put_config(scene.numbers(unique, tasks_max="3", tasks="3", until="200"))
    assert [task.records for task in scene.run(tasks=[1]).tasks] == [100, 100, 200]


def test_failing_task_leaves_its_siblings_alone(scene: Scene, unique: str) -> None:
    make_topic(scene.bootstrap, unique)
    config = scene.numbers(unique, tasks_max="3", tasks="3", until="300", fail_tasks="1")
    result = scene.run(config)
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    assert [task.records for task in result.tasks] == [300, 0, 300]
    assert scene.states() == {0: "RUNNING", 1: "FAILED", 2: "RUNNING"}
    status = scene.statuses().task(scene.connector, 1)
    assert status is not None
    assert status.trace is not None
    assert "ConnectException: task 1 cannot go on" in status.trace
    assert status.version == "1.2.3"
    connector = scene.statuses().connector(scene.connector)
    assert connector is not None
    assert (str(connector.state), connector.version) == ("RUNNING", "1.2.3")


def test_too_many_tasks_fail_the_connector(scene: Scene, unique: str) -> None:
    config = scene.numbers(unique, tasks_max="2", tasks="3")
    result = scene.run(config)
    assert (result.state, result.tasks, result.retriable) == (RunState.FAILED, [], False)
    assert "has generated 3 tasks, which is greater than 2" in str(result.error)
    status = scene.statuses().connector(scene.connector)
    assert status is not None
    assert str(status.state) == "FAILED"
    assert "TooManyTasksException" in str(status.trace)
    assert scene.configs().tasks(scene.connector) == []
    make_topic(scene.bootstrap, unique)
    scene.put_config({**config, "tasks.max.enforce": "false"})
    assert [task.records for task in scene.run().tasks] == [1000, 1000, 1000]


def test_run_ends_after_so_many_records(scene: Scene, unique: str) -> None:
    make_topic(scene.bootstrap, unique)
    config = scene.numbers(unique, until="1000", size="100", batch_max_records="250")
    for total in (300, 600, 900, 1000):
        assert scene.run(config).state is RunState.DONE
        assert len(values_of(scene.bootstrap, unique)) == total


def test_sink_run_ends_after_so_many_records(scene: Scene, unique: str) -> None:
    make_topic(scene.bootstrap, unique)
    send(scene.bootstrap, unique, text(30_000))
    config = scene.file_sink(unique, batch_max_records="10000")
    delivered = []
    while scene.readiness(config).state == "work":
        scene.run(config)
        delivered.append(len(scene.lines()))
    print(f"lines after each run: {delivered}")
    assert delivered[-1] == 30_000
    assert 2 <= len(delivered) <= 3
    assert scene.lines() == text(30_000)


def test_run_ends_after_so_much_time(scene: Scene, unique: str) -> None:
    make_topic(scene.bootstrap, unique)
    config = scene.numbers(unique, until="1000", size="10", poll_ms="100", batch_max_duration_ms="1500")
    begun = time.monotonic()
    result = scene.run(config)
    seconds = time.monotonic() - begun
    assert result.state is RunState.STOPPED
    assert "batch.max.duration.ms" in str(result.tasks[0].stopped_by)
    assert 1.5 <= seconds < 6
    assert scene.offsets().get({"task": 0}) == {"next": result.tasks[0].records}
    assert scene.states() == {0: "RUNNING"}
    print(f"{result.tasks[0].records} records in {seconds:.2f} s")
