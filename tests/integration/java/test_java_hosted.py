"""Java connectors that a process hosts without an end: ``Connect`` in an application, and ``connect-standalone``."""

import os
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect import Connect
from airflow_provider_connect.runtime.java.task import runner
from tests.e2e.faults.environments import send
from tests.integration.java.conftest import JavaRuns
from tests.integration.java.processes import children
from tests.integration.standalone.agent import Agent
from tests.waiting import wait_until


def holds(file: Path, lines: list[str]) -> bool:
    return file.exists() and file.read_text().splitlines() == lines


def states(connect: Connect, connector: str) -> list[str]:
    return [task.state for task in connect.herder.connector_status(connector).tasks]


def config_of(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


@pytest.mark.soak
def test_an_application_hosts_java_sources_and_sinks(java_runs: JavaRuns, unique: str) -> None:
    """Records come at once, in one JVM for each connector and each task. After a restart of the application they go on at their offsets."""
    java_runs.make_topic(unique)
    source, sink = java_runs.source(f"{unique}-in", unique), java_runs.sink(f"{unique}-out", unique)
    java_runs.input.write_text("one\n")
    before = children()
    expected = ["one"]
    for _ in range(2):
        with Connect(unique, java_runs.worker) as connect:
            for config in (source, sink):
                connect.add_connector(config_of(config))
            jvms: list[psutil.Process] = []
            for _ in range(3):
                with java_runs.input.open("a") as file:
                    file.write(f"{len(expected)}\n")
                expected.append(str(len(expected)))
                wait_until(partial(holds, java_runs.output, expected))
                jvms = jvms or children()
            assert len(jvms) == len(before) + 4
            assert children() == jvms
        wait_until(lambda: len(children()) == len(before))
    assert java_runs.records(unique) == expected


def test_a_hosted_java_task_that_fails_has_javas_trace(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique)
    sink = java_runs.sink(unique, unique, file=str(java_runs.folder / "nowhere" / "out.txt"))
    with Connect(unique, java_runs.worker) as connect:
        connect.add_connector(config_of(sink))
        wait_until(lambda: states(connect, unique) == ["FAILED"])
        [task] = connect.herder.connector_status(unique).tasks
        assert (task.trace or "").startswith("org.apache.kafka.connect.errors.ConnectException: Couldn't find or create file")
        (java_runs.folder / "nowhere").mkdir()
        connect.herder.restart_task(unique, 0)
        wait_until(lambda: states(connect, unique) == ["RUNNING"])


@pytest.mark.soak
def test_a_paused_java_connector_has_no_jvm_and_goes_on_after_it(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique)
    java_runs.input.write_text("one\n")
    before = len(children())
    with Connect(unique, java_runs.worker) as connect:
        connect.add_connector(config_of(java_runs.source(unique, unique)))
        wait_until(lambda: java_runs.records(unique) == ["one"])
        connect.herder.pause(unique)
        wait_until(lambda: len(children()) == before)
        with java_runs.input.open("a") as file:
            file.write("two\n")
        time.sleep(0.5)
        assert java_runs.records(unique) == ["one"]
        connect.herder.resume(unique)
        wait_until(lambda: java_runs.records(unique) == ["one", "two"])


@pytest.mark.soak
def test_standalone_hosts_java_sinks_and_refuses_sources(java_runs: JavaRuns, unique: str) -> None:
    """A source's offsets would share a transaction with its records, and lie in a file."""
    java_runs.make_topic(unique)
    own = {key: java_runs.worker[key] for key in ("plugin.path", "java.allowed.locations", "java.memory")}
    agent = Agent(java_runs.folder, java_runs.settings.bootstrap_servers, own).start(java_runs.sink(f"{unique}-out", unique))
    try:
        (java_runs.folder / "python.txt").write_text("one\n")
        lines = {"connector.class": "FileStreamSource", "file": str(java_runs.folder / "python.txt"), "topic": unique}
        agent.request("POST", "/connectors", {"name": f"{unique}-in", "config": lines})
        wait_until(partial(holds, java_runs.output, ["one"]))
        agent.request("POST", "/connectors", {"name": unique, "config": config_of(java_runs.source(unique, unique))})
        wait_until(lambda: agent.states(unique) == ["FAILED"])
        _, status = agent.request("GET", f"/connectors/{unique}/status")
    finally:
        agent.stop()
    assert "A Java source cannot run here. This worker keeps offsets in a local file" in status["connector"]["trace"]


def test_a_java_sink_that_hangs_is_named_and_ended(
    java_runs: JavaRuns, unique: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named pipe blocks its writer until another program opens it, and when that program reads nothing."""
    monkeypatch.setattr(runner, "_LONG_START_SECONDS", 1.0)
    java_runs.make_topic(unique, partitions=3)
    os.mkfifo(pipe := java_runs.folder / "pipe")
    send(java_runs.settings.bootstrap_servers, unique, [b"x" * 10_000] * 20)
    config = java_runs.sink(
        unique, unique, file=str(pipe), consumer_override_max_poll_interval_ms="7000", consumer_override_session_timeout_ms="6000"
    )
    with Connect(unique, java_runs.worker) as connect:
        connect.add_connector(config_of(config))
        start = "org.apache.kafka.connect.file.FileStreamSinkTask.start"
        wait_until(lambda: "its start has not returned for 1 s; it is at " + start in caplog.text)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            wait_until(lambda: states(connect, unique) == ["FAILED"])
            trace = connect.herder.connector_status(unique).tasks[0].trace or ""
        finally:
            os.close(reader)
    assert "org.apache.kafka.connect.file.FileStreamSinkConnector (" in trace
    assert "longer than the 7 s of consumer.override.max.poll.interval.ms" in trace
    assert "It was then at org.apache.kafka.connect.file.FileStreamSinkTask.put" in trace
