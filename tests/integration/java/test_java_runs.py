"""Bounded runs of Apache Kafka's own FileStream connectors: what each takes and leaves, what a failure shows, what ends it."""

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect.runtime.java.bounded import sources
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.worker.application.readiness import NO_WORK, WORK, check_readiness
from tests.integration.java.conftest import JavaRuns
from tests.integration.java.processes import jvm_of
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS, wait_until

LINES = 600_000
EXPECTED = [f"line {number}" for number in range(LINES)]


def test_each_run_takes_what_is_new(java_runs: JavaRuns, unique: str) -> None:
    source, sink = java_runs.source(f"{unique}-in", unique), java_runs.sink(f"{unique}-out", unique)
    java_runs.input.write_text("one\ntwo\n")
    for config in (source, sink):
        code, output = java_runs.run(config)
        assert code == 0, output
    assert java_runs.output.read_text() == "one\ntwo\n"
    assert java_runs.offset(f"{unique}-in") == {"position": 8}
    assert readiness(java_runs, f"{unique}-in") == NO_WORK
    code, output = java_runs.run(source)
    assert (code, "task 0: 0 records" in output) == (0, True), output
    with java_runs.input.open("a") as file:
        file.write("three\n")
    assert readiness(java_runs, f"{unique}-in") == WORK
    for config in (source, sink, sink):
        code, output = java_runs.run(config)
        assert code == 0, output
    assert java_runs.output.read_text() == "one\ntwo\nthree\n"
    for name in (f"{unique}-in", f"{unique}-out"):
        assert (java_runs.task(name).state, java_runs.task(name).version) == ("RUNNING", "4.3.1")
        assert java_runs.topics_of(name) == [unique]


def test_a_source_that_only_a_run_can_ask_is_asked_as_often_as_its_config_wants(
    java_runs: JavaRuns, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is FileStream's, without its gate."""
    monkeypatch.setattr(sources, "bounded_source", lambda _: None)
    java_runs.input.write_text("one\n")
    java_runs.make_topic(unique)
    often, seldom = f"{unique}-often", f"{unique}-seldom"
    for name, more in ((often, {}), (seldom, {"airflow_java_probe_interval": "1h"})):
        code, output = java_runs.run(java_runs.source(name, unique, **more))
        assert code == 0, output
    assert (readiness(java_runs, often), readiness(java_runs, seldom)) == (WORK, NO_WORK)
    asked = check_readiness(java_runs.settings, seldom, define=None, secrets_of=lambda _: {}, is_asked_for=True)
    assert asked.state == WORK
    now = time.time()
    monkeypatch.setattr("airflow_provider_connect.runtime.worker.application.readiness.time.time", lambda: now + 3601)
    assert readiness(java_runs, seldom) == WORK


def readiness(java_runs: JavaRuns, connector: str) -> str:
    """What the check before a scheduled run answers, which starts no JVM."""
    return check_readiness(java_runs.settings, connector, define=None, secrets_of=lambda _: {}).state


def test_a_failure_has_javas_trace_in_its_status(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique)
    sink = java_runs.sink(unique, unique, file=str(java_runs.folder / "nowhere" / "out.txt"))
    code, output = java_runs.run(sink)
    assert code == 75, output
    failed = java_runs.task(unique)
    assert failed.state == "FAILED"
    first, *frames = (failed.trace or "").splitlines()
    assert first.startswith("org.apache.kafka.connect.errors.ConnectException: Couldn't find or create file")
    assert any("org.apache.kafka.connect.file.FileStreamSinkTask.start" in frame for frame in frames)


def test_a_record_that_is_too_large_fails_for_good_and_names_the_settings(java_runs: JavaRuns, unique: str) -> None:
    create_topic(java_runs.settings.bootstrap_servers, unique, max_message_bytes="1050000")
    java_runs.input.write_text(random.Random(1).randbytes(530_000).hex() + "\n")
    advice = "raise max.message.bytes of the topic, whose default is the brokers' message.max.bytes"
    own = "raise producer.override.max.request.size of the connector, and "
    for more, raised in (({}, own + advice.removeprefix("raise ")), ({"producer.override.max.request.size": "2000000"}, advice)):
        result = java_runs.run_here(java_runs.source(unique, unique, **more))
        assert (result.state, result.retriable) == (RunState.FAILED, False)
        assert (java_runs.task(unique).trace or "").splitlines()[-1] == f"A record is too large: {raised}"


def test_what_connect_finds_wrong_is_refused_in_its_words(java_runs: JavaRuns, unique: str) -> None:
    code, output = java_runs.run(java_runs.source(unique, "", batch_size="many"))
    assert code != 0
    assert "Invalid value many for configuration batch.size: Not a number of type INT" in output


def test_a_connector_has_a_heap_of_its_own(java_runs: JavaRuns, unique: str) -> None:
    java_runs.input.write_text("one\n")
    java_runs.make_topic(unique)
    process = java_runs.start(java_runs.source(unique, unique, airflow_java_memory="300m"))
    heap = wait_until(lambda: heap_of(process))
    code, output = java_runs.ended(process)
    assert (code, heap) == (0, ["-Xmx300m"]), output


def heap_of(process: "subprocess.Popen[str]") -> list[str]:
    """Empty while the JVM is not there, or is about to be."""
    jvm = jvm_of(process)
    return [] if jvm is None else [option for option in jvm.cmdline() if option.startswith("-Xmx")]


def test_a_heap_that_is_no_size_is_refused_by_its_key(java_runs: JavaRuns, unique: str) -> None:
    code, output = java_runs.run(java_runs.source(unique, unique), java_memory="2gb")
    assert (code, "Invalid value 2gb for configuration java.memory: give a size such as 512m or 2g" in output) == (2, True), output
    code, output = java_runs.run(java_runs.source(unique, unique, airflow_java_memory="16m"))
    assert (code, "Invalid value 16m for configuration airflow.java.memory: give a size" in output) == (2, True), output


def test_a_plugin_outside_of_the_allowed_locations_is_refused(java_runs: JavaRuns, unique: str) -> None:
    source = java_runs.source(unique, unique)
    for allowed in ("", str(java_runs.folder)):
        code, output = java_runs.run(source, java_allowed_locations=allowed)
        assert (code, "the worker setting java.allowed.locations must name its folder" in output) == (2, True), output


def started_source(java_runs: JavaRuns, unique: str) -> "tuple[Path, Callable[[], bool]]":
    java_runs.input.write_text("".join(f"{line}\n" for line in EXPECTED))
    java_runs.make_topic(unique)
    return java_runs.source(unique, unique, batch_size="200"), lambda: java_runs.end_of(unique) > 2000


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_when_a_run_is_killed(java_runs: JavaRuns, unique: str) -> None:
    source, has_begun = started_source(java_runs, unique)
    process = java_runs.start(source)
    wait_until(has_begun)
    process.kill()  # the JVM goes with it
    jvm_left = len(java_runs.records(unique))
    assert 1000 < jvm_left < LINES
    process.wait(HANG_SECONDS)
    process = java_runs.start(source)
    end = java_runs.end_of(unique)
    wait_until(lambda: java_runs.end_of(unique) > end + 1000)  # not by markers of the transaction that was left open alone
    jvm = wait_until(lambda: jvm_of(process))
    jvm.kill()
    code, output = java_runs.ended(process)
    assert (code, java_runs.task(unique).state) == (75, "FAILED"), output
    code, output = java_runs.run(source)
    assert code == 0, output
    assert java_runs.records(unique) == EXPECTED


@pytest.mark.soak
def test_a_frozen_run_is_fenced_by_the_next(java_runs: JavaRuns, unique: str) -> None:
    source, has_begun = started_source(java_runs, unique)
    zombie = java_runs.start(source)
    wait_until(has_begun)
    jvm = jvm_of(zombie)
    assert jvm is not None
    for pid in (jvm.pid, zombie.pid):
        os.kill(pid, signal.SIGSTOP)
    code, output = java_runs.run(source)
    assert code == 0, output
    assert re.search(rf"Task {unique}-0: [0-9,]+ records, [0-9.]+ MB, [0-9,]+ records/s", output), "a line each ten seconds"
    assert java_runs.records(unique) == EXPECTED
    for pid in (zombie.pid, jvm.pid):
        os.kill(pid, signal.SIGCONT)
    java_runs.ended(zombie)
    wait_until(lambda: not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE)
    assert java_runs.records(unique) == EXPECTED
    assert java_runs.task(unique).state == "RUNNING"


@pytest.mark.soak
def test_a_pause_ends_the_run_with_its_offsets_committed(java_runs: JavaRuns, unique: str) -> None:
    source, has_begun = started_source(java_runs, unique)
    process = java_runs.start(source)
    wait_until(has_begun)
    jvm = wait_until(lambda: jvm_of(process))
    jvm.suspend()  # else it may be at the end of the file before the pause is written
    java_runs.put_target_state(unique, TargetState.PAUSED)
    jvm.resume()
    code, output = java_runs.ended(process)
    assert (code, output.splitlines()[-1].endswith("before the end of what there is: paused")) == (0, True), output
    delivered = java_runs.records(unique)
    assert 1000 < len(delivered) < LINES
    assert java_runs.offset(unique) == {"position": sum(len(line) + 1 for line in delivered)}
    assert java_runs.task(unique).state == "PAUSED"
    java_runs.put_target_state(unique, TargetState.STARTED)
    code, output = java_runs.run(source)
    assert code == 0, output
    assert java_runs.records(unique) == EXPECTED


def test_the_value_of_a_variable_is_in_no_log_and_no_trace(java_runs: JavaRuns, unique: str) -> None:
    java_runs.make_topic(unique)
    (java_runs.folder / "secrets.properties").write_text("folder=/canary-of-a-secret\n")
    sink = java_runs.sink(unique, unique, file=f"${{file:{java_runs.folder}/secrets.properties:folder}}/out.txt")
    code, output = java_runs.run(
        sink,
        config_providers="file",
        config_providers_file_class="org.apache.kafka.common.config.provider.FileConfigProvider",
        config_providers_file_param_allowed_paths=str(java_runs.folder),
    )
    trace = java_runs.task(unique).trace or ""
    assert code == 75, output
    assert "FileStreamSinkTask" in trace, "the value reached the task"
    assert "canary-of-a-secret" not in output + trace


@pytest.mark.soak
def test_a_plugin_that_takes_more_than_its_heap_fails_its_task_by_name(java_runs: JavaRuns, unique: str) -> None:
    """The connector keeps a line that has no end yet. Once it ends nothing is lost."""
    java_runs.input.write_text("x" * (150 << 20))
    java_runs.make_topic(unique)
    source = java_runs.source(unique, unique, airflow_java_memory="100m")
    code, output = java_runs.run(source)
    assert code == 75, output
    failed = java_runs.task(unique)
    assert failed.state == "FAILED"
    first = (failed.trace or "").splitlines()[0]
    assert "java.lang.OutOfMemoryError: the JVM of org.apache.kafka.connect.file.FileStreamSourceConnector (" in first, failed.trace
    assert "needed more than its heap of 100m" in first, failed.trace
    assert "java.lang.OutOfMemoryError" in output.splitlines()[-1]
    java_runs.input.write_text("one\n")
    code, output = java_runs.run(source)
    assert code == 0, output
    assert java_runs.records(unique) == ["one"]


def test_a_heap_beyond_what_the_worker_allows_is_refused(java_runs: JavaRuns, unique: str) -> None:
    code, output = java_runs.run(java_runs.source(unique, unique, airflow_java_memory="5g"))
    assert code == 2, output
    assert "airflow.java.memory: Value must be no more than 4g, the worker setting java.memory.max" in output
