"""What a run leaves for people to see: statuses with its claim, the topics in use, the batch log."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from airflow_provider_connect.errors import ConnectException, StoreTimeoutException
from airflow_provider_connect.runtime.model.run import PROGRESS_FILE, UNREPORTED, Claim, RunResult, RunState, TaskResult
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from airflow_provider_connect.runtime.worker.application.failure_report import report_lost
from airflow_provider_connect.runtime.worker.application.task_body import run_task
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from airflow_provider_connect.runtime.worker.task.written_topics import WrittenTopics
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.integration.worker.plugins import NumbersTask
from tests.integration.worker.test_runs import text
from tests.waiting import HANG_SECONDS


def topic_records(environment: RunEnvironment) -> list[tuple[str, int | None]]:
    """Topic and task of each record that notes a topic of the connector, tombstones with None."""
    found = []
    for record in environment.status_log():
        key = (record.key or b"").decode()
        if key.startswith("status-topic-") and key.endswith(f":connector-{environment.connector}"):
            value = None if record.value is None else json.loads(record.value)["topic"]
            found.append((key.removeprefix("status-topic-").rpartition(":")[0], None if value is None else value["task"]))
    return found


def test_statuses_carry_the_claim_and_the_version(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique, tasks_max="3", tasks="3", fail_tasks="2")
    claim = environment.run(config).claim
    records = environment.status_log()
    assert len(records) >= 1 + 3 + 1 + 1, "connector, three RUNNING (one may be overtaken), one FAILED, a topic"
    assert {dict(record.headers)["claim"] for record in records} == {str(claim).encode()}
    states = [json.loads(r.value or b"") for r in records if not (r.key or b"").startswith(b"status-topic-")]
    assert {value["version"] for value in states} == {"1.2.3"}
    assert {value["generation"] for value in states} == {0}
    assert all(value["worker_id"].partition(":")[0] == "127.0.0.1" for value in states)
    assert [str(environment.statuses().tasks_of(environment.connector)[n].claim) for n in range(3)] == [str(claim)] * 3


def test_status_of_an_older_claim_changes_nothing(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique)
    older, newer = environment.run(config).claim, environment.run(config).claim
    with StatusWriter(environment.settings, claim=older) as writer:
        writer.put_task(TaskStatus(environment.connector, 0, State.FAILED, "zombie:1", trace="I was dead"))
    status = environment.statuses().task(environment.connector, 0)
    assert status is not None
    assert (status.state, status.claim) == (State.RUNNING, newer)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_topics_of_a_source_are_noted_once(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    first, second, third = (make_topic(environment.bootstrap, f"{unique}-{name}") for name in "abc")
    before = int(time.time() * 1000)
    environment.run(environment.numbers(f"{first},{second}", until="500", delivery_guarantee=guarantee))
    assert sorted(topic_records(environment)) == [(first, 0), (second, 0)]
    environment.put_config(environment.numbers(f"{first},{second},{third}", until="1000", delivery_guarantee=guarantee))
    environment.run()
    assert sorted(topic_records(environment)) == [(first, 0), (second, 0), (third, 0)]
    noted = environment.statuses().topics[environment.connector][third]
    assert before <= noted.discover_timestamp <= time.time() * 1000
    assert noted.claim is not None


def test_topics_of_a_sink_are_noted_once_they_have_records(environment: RunEnvironment, unique: str) -> None:
    full, empty = make_topic(environment.bootstrap, f"{unique}-full", 2), make_topic(environment.bootstrap, f"{unique}-empty")
    send(environment.bootstrap, full, text(10), partitions=2)
    config = environment.file_sink(f"{full},{empty}")
    assert environment.run(config).state is RunState.DONE
    assert topic_records(environment) == [(full, 0)]
    send(environment.bootstrap, full, text(10), partitions=2)
    send(environment.bootstrap, empty, text(1))
    assert environment.run(config).state is RunState.DONE
    assert sorted(topic_records(environment)) == [(empty, 0), (full, 0)]
    with StatusWriter(environment.settings) as writer:
        writer.delete_topic(environment.connector, full)  # a reset; the next record shows it again
    send(environment.bootstrap, full, text(1))
    send(environment.bootstrap, empty, text(1))
    assert environment.run(config).state is RunState.DONE
    assert environment.statuses().topics_of(environment.connector) == [empty, full]
    assert [name for name, task in topic_records(environment) if task is not None].count(empty) == 1


def test_topics_are_not_noted_where_tracking_is_off(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    environment.properties["topic.tracking.enable"] = "false"
    assert environment.run(environment.numbers(unique)).state is RunState.DONE
    assert topic_records(environment) == []


def test_batch_log_of_a_sink(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 3)
    send(environment.bootstrap, unique, text(300), partitions=3)
    config = environment.file_sink(unique, tasks_max="2")
    claim = environment.run(config).claim
    entries = environment.batch_log()
    assert [entry.task.task for entry in entries] == [0, 1]
    assert {(entry.run, entry.claim, str(entry.type)) for entry in entries} == {("run-1", claim, "sink")}
    assert sum(entry.records for entry in entries) == 300
    assert all(entry.bytes > 0 for entry in entries)
    together = {p: span for entry in entries for p, span in entry.ranges[unique].items()}
    assert together == {0: (0, 100), 1: (0, 100), 2: (0, 100)}
    send(environment.bootstrap, unique, text(5))
    newer = environment.run(config).claim
    positions = {p: n for entry in environment.batch_log() for p, n in entry.next[unique].items()}
    assert positions == {0: 105, 1: 100, 2: 100}
    moved = next(entry for entry in environment.batch_log() if 0 in entry.next[unique])
    assert (moved.run, moved.claim, moved.records, moved.ranges) == ("run-2", newer, 5, {unique: {0: (100, 105)}})


def test_batch_log_of_a_source(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    result = environment.run(environment.numbers(unique, until="250"))
    (entry,) = environment.batch_log()
    assert (entry.run, entry.claim, str(entry.type), entry.records) == ("run-1", result.claim, "source", 250)
    assert result.tasks[0].ranges[unique]["0"][0] == 0
    assert result.tasks[0].ranges[unique]["0"][1] >= 250, "transaction markers count"


def test_lost_task_is_reported_failed(environment: RunEnvironment, unique: str) -> None:
    """Its Spark job died without a word; the siblings' statuses are their own."""
    make_topic(environment.bootstrap, unique)

    def lose_task_1(payload: TaskPayload) -> TaskResult:
        if payload.task == 1:
            raise RuntimeError("Python worker exited unexpectedly (crashed)")
        return run_task(payload)

    result = environment.application(environment.numbers(unique, tasks_max="2", tasks="2"), engine=lose_task_1).run()
    assert (result.state, result.retriable, result.tasks[0].records) == (RunState.FAILED, True, 1000)
    assert environment.states() == {0: "RUNNING", 1: "FAILED"}
    status = environment.statuses().task(environment.connector, 1)
    assert status is not None
    assert "crashed" in str(status.trace)
    assert status.claim == result.claim


def test_aftermath_of_an_application_that_died(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    claims: list[Claim] = []
    environment.run(environment.numbers(unique, tasks_max="2", tasks="2"), on_claim=claims.append)
    directory = environment.folder / "run"
    directory.mkdir()
    assert report_lost(environment.settings, environment.connector, directory, 137, ["no claim was made"]) == []
    (directory / "claim.json").write_text(str(claims[0]))
    assert report_lost(environment.settings, environment.connector, directory, 137, ["java.lang.OutOfMemoryError"]) == [0, 1]
    status = environment.statuses().task(environment.connector, 0)
    assert status is not None
    assert (status.state, status.claim) == (State.FAILED, claims[0])
    assert status.version, "that of the plugin, as a task that reports itself has it"
    assert "exit code 137" in str(status.trace)
    assert "OutOfMemoryError" in str(status.trace)
    assert socket.gethostname() in status.worker_id
    environment.run()
    assert report_lost(environment.settings, environment.connector, directory, 137, ["too late"]) == [], "a newer claim holds"
    assert environment.states() == {0: "RUNNING", 1: "RUNNING"}


def test_tasks_that_were_done_when_the_driver_died_are_not_reported_failed(environment: RunEnvironment, unique: str) -> None:
    """Task 1 is done, task 2 has FAILED by itself, task 0 was under way."""
    make_topic(environment.bootstrap, unique)
    directory = environment.folder / "run"
    directory.mkdir()
    two_ended = threading.Event()

    def until_the_driver_dies(payload: TaskPayload) -> TaskResult:
        if payload.task == 0:
            assert two_ended.wait(HANG_SECONDS)
        return run_task(payload)

    def note(progress: RunResult) -> None:
        if sum(task.trace != UNREPORTED for task in progress.tasks) == 2:
            (directory / PROGRESS_FILE).write_text(progress.to_json())
            two_ended.set()

    config = environment.numbers(unique, tasks_max="3", tasks="3", fail_tasks="2")
    result = environment.application(config, engine=until_the_driver_dies, on_progress=note).run()
    (directory / "claim.json").write_text(str(result.claim))
    assert report_lost(environment.settings, environment.connector, directory, 137, ["killed"]) == [0]
    assert environment.states() == {0: "FAILED", 1: "RUNNING", 2: "FAILED"}
    status = environment.statuses().task(environment.connector, 2)
    assert status is not None
    assert "exit code 137" not in str(status.trace), "what it wrote itself stands"


def test_an_application_that_died_reports_nothing_of_tasks_that_were_not_its_own(environment: RunEnvironment, unique: str) -> None:
    """With ``tasks.per.application`` they run elsewhere under the same claim; in a retry they may be done."""
    make_topic(environment.bootstrap, unique)
    claim = environment.run(environment.numbers(unique, tasks_max="3", tasks="3")).claim
    directory = environment.folder / "run"
    directory.mkdir()
    (directory / "claim.json").write_text(str(claim))
    assert report_lost(environment.settings, environment.connector, directory, 137, ["killed"], tasks=[1]) == [1]
    assert environment.states() == {0: "RUNNING", 1: "FAILED", 2: "RUNNING"}


def test_an_application_that_died_before_its_tasks_began_counts_where_they_had_failed_before(
    environment: RunEnvironment, unique: str
) -> None:
    make_topic(environment.bootstrap, unique)
    environment.run(environment.numbers(unique, fail_tasks="0"))

    def die(payload: TaskPayload) -> TaskResult:
        return TaskResult(payload.task)

    claim = environment.application(engine=die).run().claim
    directory = environment.folder / "run"
    directory.mkdir()
    (directory / "claim.json").write_text(str(claim))
    assert report_lost(environment.settings, environment.connector, directory, 137, ["killed"]) == [0]
    status = environment.statuses().task(environment.connector, 0)
    assert status is not None
    assert (status.failures, status.claim) == (2, claim)
    assert "137" in str(status.trace)


@pytest.mark.parametrize("late", ["ranges", "stop"])
def test_what_goes_wrong_behind_the_last_commit_fails_no_task(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, late: str
) -> None:
    """Its records are delivered: a retry of a read without offsets would write them all again."""
    make_topic(environment.bootstrap, unique)

    def fail(_: object) -> None:
        raise StoreTimeoutException("no answer from Kafka within 60 s")

    monkeypatch.setattr(*((WrittenTopics, "ranges", fail) if late == "ranges" else (NumbersTask, "stop", fail)))
    result = environment.run(environment.numbers(unique, delivery_guarantee="at_least_once"))
    assert (result.state, result.error, result.tasks[0].records) == (RunState.DONE, None, 1000)
    assert environment.states() == {0: "RUNNING"}
    assert "no answer from Kafka within 60 s" in caplog.text


def test_a_source_task_that_does_not_start_is_stopped(environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Connect, which stops what it has begun to start."""
    make_topic(environment.bootstrap, unique)
    stopped: list[NumbersTask] = []

    def fail(_: NumbersTask, config: object) -> None:
        raise ConnectException("no login")

    monkeypatch.setattr(NumbersTask, "start", fail)
    monkeypatch.setattr(NumbersTask, "stop", lambda task: stopped.append(task))  # noqa: PLW0108  (a builtin binds no task)
    assert "no login" in str(environment.run(environment.numbers(unique)).error)
    assert len(stopped) == 1


def test_a_connector_that_cannot_plan_is_failed_itself_with_trace_and_version_and_without_tasks(
    environment: RunEnvironment, unique: str
) -> None:
    result = environment.run(environment.numbers(unique, tasks_max="2", tasks="3"))
    assert result.state is RunState.FAILED
    failed = environment.statuses().connector(environment.connector)
    assert failed is not None
    assert (failed.state, failed.claim) == (State.FAILED, result.claim)
    assert str(failed.trace).startswith("airflow_provider_connect.errors.TooManyTasksException: The connector")
    assert failed.version
    assert environment.states() == {}
