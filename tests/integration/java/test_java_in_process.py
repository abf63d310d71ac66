"""Runs of Java connectors by the function behind ``connect-run``, in the caller's own process: what they return and raise."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.run import RunState
from tests.integration.java.conftest import JavaRuns


def test_a_run_returns_what_it_has_moved_and_where(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique)
    java_runs.input.write_text("one\ntwo\n")
    source, sink = java_runs.source(f"{unique}-in", unique), java_runs.sink(f"{unique}-out", unique)
    for config in (source, sink):
        result = java_runs.run_here(config)
        assert (result.state, result.error, [task.records for task in result.tasks]) == (RunState.DONE, None, [2])
        assert result.tasks[0].cpu_seconds > 0.3, "of the JVM too"
        assert list(result.tasks[0].topics) == [unique]
    assert java_runs.output.read_text() == "one\ntwo\n"


def test_a_sink_of_two_tasks_has_a_jvm_for_each(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique, partitions=2)
    result = java_runs.run_here(java_runs.sink(unique, unique, tasks_max="2"))
    assert (result.state, [task.records for task in result.tasks]) == (RunState.DONE, [0, 0])


def test_a_task_that_does_not_start_has_failed_with_its_trace(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique)
    result = java_runs.run_here(java_runs.sink(unique, unique, file=str(java_runs.folder / "nowhere" / "out.txt")))
    [task] = result.tasks
    assert task.state == "FAILED"
    assert (task.trace or "").startswith("org.apache.kafka.connect.errors.ConnectException: Couldn't find or create file")


def test_what_connect_refuses_fails_the_run_and_what_is_refused_before_is_raised(java_runs: JavaRuns, unique: str) -> None:
    result = java_runs.run_here(java_runs.source(unique, unique, batch_size="many"))
    assert (result.state, "Not a number of type INT" in str(result.error)) == (RunState.FAILED, True)
    with pytest.raises(ConfigException, match=r"consumer\.override\.bootstrap\.servers"):
        java_runs.run_here(java_runs.sink(unique, unique, consumer_override_bootstrap_servers="evil:9092"))
    java_runs.worker["java.memory"] = "2gb"
    with pytest.raises(ConfigException, match=r"java\.memory: give a size"):
        java_runs.run_here(java_runs.source(unique, unique))
