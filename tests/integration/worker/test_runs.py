"""Runs from beginning to end: the first, one with nothing to do, parts of one, limits, failures."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.model.states import TargetState
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send, values_of
from tests.waiting import HANG_SECONDS


def text(count: int, first: int = 0) -> list[str]:
    return [f"line {number}" for number in range(first, first + count)]


def test_first_run_of_source_makes_topics_and_next_has_nothing_to_do(environment: RunEnvironment, unique: str) -> None:
    config = environment.file_source(unique)
    environment.file.write_text("\n".join(text(500)) + "\n")
    assert environment.readiness(config).state == "work"
    result = environment.run(config)
    assert (result.state, [task.records for task in result.tasks], result.error) == (RunState.DONE, [500], None)
    assert values_of(environment.bootstrap, unique) == text(500)
    assert environment.readiness(config).state == "no-work"
    assert environment.offsets().get({"filename": str(environment.file)}) == {"position": environment.file.stat().st_size}
    again = environment.run(config)  # although there is nothing to do
    assert (again.state, again.tasks[0].records) == (RunState.DONE, 0)
    assert len(values_of(environment.bootstrap, unique)) == 500
    with environment.file.open("a") as file:
        file.write("one more\n")
    assert environment.readiness(config).state == "work"


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_first_run_of_sink_delivers_all_and_next_has_nothing_to_do(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    make_topic(environment.bootstrap, unique, 3)
    send(environment.bootstrap, unique, text(600), partitions=3)
    config = environment.file_sink(unique, delivery_guarantee=guarantee)
    assert environment.readiness(config).state == "work"
    result = environment.run(config)
    assert (result.state, result.error, sum(task.records for task in result.tasks)) == (RunState.DONE, None, 600)
    assert sorted(environment.lines()) == sorted(text(600))
    assert {p: known.offset for p, known in environment.group_offsets().items()} == {TopicPartition(unique, n): 200 for n in range(3)}
    assert {known.metadata.partition(" at=")[0] for known in environment.group_offsets().values()} == {f"claim={result.claim}"}
    assert environment.readiness(config).state == "no-work"
    send(environment.bootstrap, unique, ["one more"])
    assert environment.readiness(config).state == "work"
    assert environment.run(config).tasks[0].records == 1
    assert len(environment.lines()) == 601


def test_an_authors_source_copies_ranges_byte_for_byte_and_no_internal_topic(environment: RunEnvironment, unique: str) -> None:
    """The connector's converters win over the worker's, which write text."""
    make_topic(environment.bootstrap, unique)
    values = [b"\x00\xff", b"two", b"three"]
    producer = Producer({"bootstrap.servers": environment.bootstrap})
    for value in values:
        producer.produce(unique, value, b"\xfe")
    assert producer.flush(HANG_SECONDS) == 0
    first = environment.run(environment.copy_source(unique, f"{unique}-copy", 2))
    assert (first.state, first.error, first.tasks[0].records) == (RunState.DONE, None, 2)
    environment.put_config(environment.copy_source(unique, f"{unique}-copy", 3))
    assert environment.run().tasks[0].records == 1
    assert [(record.key, record.value) for record in read_topic(environment.bootstrap, f"{unique}-copy")] == [(b"\xfe", v) for v in values]
    internal = environment.properties["config.storage.topic"]
    environment.put_config(environment.copy_source(internal, f"{unique}-copy", 3))
    refused = environment.run()
    assert refused.state is RunState.FAILED
    assert "worker's own topic" in (refused.error or "")


def test_connector_that_is_gone_or_not_started_is_skipped(environment: RunEnvironment, unique: str) -> None:
    assert environment.run().state is RunState.SKIPPED
    config = environment.file_source(unique)
    environment.file.write_text("a\n")
    environment.run(config)
    for target in (TargetState.PAUSED, TargetState.STOPPED):
        environment.put_target_state(target)
        assert environment.readiness(config).state == "not-started"
        result = environment.run(config)
        assert (result.state, result.claim) == (RunState.SKIPPED, None)
    assert values_of(environment.bootstrap, unique) == ["a"]


def test_single_task_is_run_alone(environment: RunEnvironment, unique: str) -> None:
    fixed = environment.folder / "fixed"
    config = environment.numbers(unique, tasks_max="3", tasks="3", until="200", fail_tasks="1", unless=str(fixed))
    make_topic(environment.bootstrap, unique)
    first = environment.run(config)
    assert [task.state for task in first.tasks] == ["RUNNING", "FAILED", "RUNNING"]
    fixed.touch()
    before = environment.statuses()
    count = len(environment.config_log())
    second = environment.run(tasks=[1])
    assert [(task.task, task.records) for task in second.tasks] == [(1, 200)]
    assert len(environment.config_log()) == count + 1, "a claim, and no new task set"
    after = environment.statuses()
    assert [after.task(environment.connector, n) == before.task(environment.connector, n) for n in range(3)] == [True, False, True]
    assert environment.states() == dict.fromkeys(range(3), "RUNNING")
    assert sorted(values_of(environment.bootstrap, unique)) == sorted(f"{task}-{n}" for task in range(3) for n in range(200))


def test_single_task_of_a_changed_config_is_not_run_alone(environment: RunEnvironment, unique: str) -> None:
    """Its siblings' configs are out of date, so all are planned and run."""
    make_topic(environment.bootstrap, unique)
    environment.run(environment.numbers(unique, tasks_max="2", tasks="2", until="100"))
    environment.put_config(environment.numbers(unique, tasks_max="3", tasks="3", until="200"))
    assert [task.records for task in environment.run(tasks=[1]).tasks] == [100, 100, 200]


def test_failing_task_leaves_its_siblings_alone(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique, tasks_max="3", tasks="3", until="300", fail_tasks="1")
    result = environment.run(config)
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    assert [task.records for task in result.tasks] == [300, 0, 300]
    assert environment.states() == {0: "RUNNING", 1: "FAILED", 2: "RUNNING"}
    status = environment.statuses().task(environment.connector, 1)
    assert status is not None
    assert status.trace is not None
    assert "ConnectException: task 1 cannot go on" in status.trace
    assert status.version == "1.2.3"
    connector = environment.statuses().connector(environment.connector)
    assert connector is not None
    assert (str(connector.state), connector.version) == ("RUNNING", "1.2.3")


def test_too_many_tasks_fail_the_connector(environment: RunEnvironment, unique: str) -> None:
    config = environment.numbers(unique, tasks_max="2", tasks="3")
    result = environment.run(config)
    assert (result.state, result.tasks, result.retriable) == (RunState.FAILED, [], False)
    assert "has generated 3 tasks, which is greater than 2" in str(result.error)
    status = environment.statuses().connector(environment.connector)
    assert status is not None
    assert str(status.state) == "FAILED"
    assert "TooManyTasksException" in str(status.trace)
    assert environment.configs().tasks(environment.connector) == []
    make_topic(environment.bootstrap, unique)
    environment.put_config({**config, "tasks.max.enforce": "false"})
    assert [task.records for task in environment.run().tasks] == [1000, 1000, 1000]


def test_run_ends_after_so_many_records(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique, until="1000", size="100", batch_max_records="250")
    for total in (300, 600, 900, 1000):
        assert environment.run(config).state is RunState.DONE
        assert len(values_of(environment.bootstrap, unique)) == total


def test_sink_run_ends_after_so_many_records(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, text(30_000))
    config = environment.file_sink(unique, batch_max_records="10000")
    delivered = []
    while environment.readiness(config).state == "work":
        environment.run(config)
        delivered.append(len(environment.lines()))
    print(f"lines after each run: {delivered}")
    assert delivered[-1] == 30_000
    assert 2 <= len(delivered) <= 3
    assert environment.lines() == text(30_000)


def test_run_ends_after_so_much_time(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique, until="100000", size="10", poll_ms="100", batch_max_duration_ms="1500")
    begun = time.monotonic()
    result = environment.run(config)
    seconds = time.monotonic() - begun
    assert seconds >= 1.5
    assert result.state is RunState.STOPPED
    assert "batch.max.duration.ms" in str(result.tasks[0].stopped_by)
    assert environment.offsets().get({"task": 0}) == {"next": result.tasks[0].records}
    assert environment.states() == {0: "RUNNING"}
    assert result.tasks[0].records < 100_000
    print(f"{result.tasks[0].records} records in {seconds:.2f} s")
