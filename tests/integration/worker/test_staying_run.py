"""A run that stays, steered through the config topic as verbs do: its driver in this process, with tasks in threads; and as it runs in
Airflow, with processes that can be killed."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from airflow_provider_connect.connectors.filesystem import settings
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.batches import Stay
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.offsets import OFFSET, sink_partition
from airflow_provider_connect.runtime.model.run import RESULT_FILE, RUN_FILE, Claim, RunResult, RunSpec, RunState, TaskResult
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.spark.run_directory import write_private
from airflow_provider_connect.runtime.stores import admin_connection
from airflow_provider_connect.runtime.stores.batch_log import BatchLog
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from airflow_provider_connect.runtime.worker.application import handover, staying_run
from airflow_provider_connect.runtime.worker.application.handover import Leave
from airflow_provider_connect.runtime.worker.application.task_loop import run_payload
from airflow_provider_connect.runtime.worker.delivery.sink_delivery import GroupCommit
from airflow_provider_connect.runtime.worker.task import renewal, sink_loop
from airflow_provider_connect.runtime.worker.task.sink_runner import SinkTaskRunner
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from tests.final_failures import expect_each_once
from tests.integration.java.processes import children
from tests.integration.worker.destinations import make_again
from tests.integration.worker.environment import RunEnvironment, UnderWay, commit_by_hand, make_topic, send, send_until, values_of
from tests.integration.worker.test_filesystem_sink import texts
from tests.integration.worker.test_offsets import make_anew
from tests.no_runs import NoRuns
from tests.waiting import HANG_SECONDS, wait_until

STAYS_SECONDS = 3600.0
PROGRAM = "airflow_provider_connect.runtime.worker.application.driver"


@dataclass
class Staying:
    """A run that stays, in this process."""

    run: UnderWay
    claims: list[Claim]
    failures: list[Sequence[str]]

    def end(self) -> RunResult:
        self.run.application.request_end()
        return self.run.wait()


@dataclass
class Engine:
    """Runs tasks in threads of this process, but for the first ``losses``, which end with ``error``."""

    losses: int = 0
    error: Exception = field(default_factory=lambda: OSError("the worker is gone"))

    def run(self, payload: TaskPayload) -> TaskResult:
        if self.losses > 0:
            self.losses -= 1
            raise self.error
        return run_payload(payload)


@contextmanager
def staying(
    environment: RunEnvironment,
    define: Mapping[str, str] | None,
    *,
    engine: Engine | None = None,
    seconds: float = STAYS_SECONDS,
    leave: Leave | None = None,
) -> Iterator[Staying]:
    claims: list[Claim] = []
    failures: list[Sequence[str]] = []
    run = (engine or Engine()).run
    started = UnderWay(
        environment.application(define, on_claim=claims.append, on_failures=failures.append, engine=run, stays_seconds=seconds, leave=leave)
    )
    try:
        yield Staying(started, claims, failures)
    finally:
        started.application.request_end()
        started.wait()


def claim_as_a_verb(environment: RunEnvironment, change: Callable[[ConfigStore], object]) -> None:
    """What the herder writes for a change of a connector with a living run."""
    with ConfigStore(environment.settings) as store:
        change(store)
        store.claim(environment.connector)


def test_records_are_delivered_as_they_come_until_the_time_of_the_run_is_over(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.file_sink(unique)) as run:
        send(environment.bootstrap, unique, ["first"])
        wait_until(lambda: environment.lines() == ["first"])
        for number in range(3):
            send(environment.bootstrap, unique, [f"later {number}"])
            wait_until(lambda: len(environment.lines()) == number + 2)  # noqa: B023
        monkeypatch.setattr(staying_run, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + STAYS_SECONDS))
        result = run.run.wait()
    assert (result.state, result.error, [task.records for task in result.tasks]) == (RunState.DONE, None, [4])
    assert environment.states() == {0: "RUNNING"}
    assert [offset.offset for offset in environment.group_offsets().values()] == [4]
    (entry,) = environment.batch_log()
    assert (entry.stay, entry.ranges, entry.datasets) == (Stay.OPEN, {unique: {0: (0, 4)}}, (("file", str(environment.file)),))
    assert result.tasks[0].is_logged


@pytest.mark.parametrize("kind", ["sink", "source"])
def test_a_task_at_rest_keeps_no_admin_client(environment: RunEnvironment, unique: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic(environment.bootstrap, unique)
    environment.file.touch()
    in_use = []
    with staying(environment, environment.file_sink(unique) if kind == "sink" else environment.file_source(unique)):
        for number in range(1, 3):
            monkeypatch.setattr(admin_connection, "UNUSED_SECONDS", HANG_SECONDS)
            if kind == "sink":
                send(environment.bootstrap, unique, [f"{number}"])
                wait_until(lambda: [offset.offset for offset in environment.group_offsets().values()] == [number])  # noqa: B023
            else:
                with environment.file.open("a") as file:
                    file.write(f"{number}\n")
                wait_until(lambda: len(values_of(environment.bootstrap, unique)) == number)  # noqa: B023
                wait_until(lambda: [entry.records for entry in environment.batch_log()] == [number])  # noqa: B023
            in_use.append(admin_clients())
            monkeypatch.setattr(admin_connection, "UNUSED_SECONDS", 0.1)
            wait_until(lambda: admin_clients() < in_use[-1], "the task's admin client is closed")
    assert in_use == in_use[:1] * 2
    assert environment.states() == {0: "RUNNING"}


def admin_clients() -> int:
    """How many admin clients this process has: only they have such a thread."""
    gc.collect()
    names = (path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm"))
    return sum(name == "rdk:bg" for name in names)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_what_a_source_delivers_is_in_the_batch_log_while_it_stays(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    make_topic(environment.bootstrap, unique)
    environment.file.write_text("one\n")
    ends: list[int] = []

    def has_more() -> bool:
        entries = environment.batch_log()
        ends.extend(entry.ranges[unique][0][1] for entry in entries if unique in entry.ranges)
        return bool(ends) and ends[-1] > ends[0]

    with staying(environment, environment.file_source(unique, delivery_guarantee=guarantee)) as run:
        wait_until(lambda: values_of(environment.bootstrap, unique) == ["one"])  # the topics are there
        wait_until(lambda: has_more() or ends)
        with environment.file.open("a") as file:
            file.write("two\n")
        wait_until(has_more)
        (open_entry,) = environment.batch_log()
        assert (open_entry.stay, open_entry.datasets, open_entry.records) == (Stay.OPEN, (("file", str(environment.file)),), 2)
        result = run.end()
    (entry,) = environment.batch_log()
    assert (entry.stay, entry.claim) == (Stay.OVER, run.claims[-1])
    assert entry.ranges[unique][0] == (0, ends[-1])
    assert result.tasks[0].is_logged
    assert result.tasks[0].ranges == {unique: {"0": [0, ends[-1]]}}


def test_records_before_a_retry_in_place_count_too(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    for line in ("one", "two", "three"):
        with environment.file.open("a") as file:
            file.write(f"{line}\n")
    with staying(environment, environment.file_source(unique, batch_max_records="1")) as run:
        wait_until(lambda: values_of(environment.bootstrap, unique) == ["one", "two", "three"])
        wait_until(lambda: [entry.records for entry in environment.batch_log()] == [3])
        assert run.run.is_running


def test_a_change_of_the_config_restarts_the_tasks_in_the_same_application(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    other = environment.folder / "other.txt"
    with staying(environment, environment.file_sink(unique)) as run:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        config = {**environment.configs().connector_configs[environment.connector], "file": str(other)}
        claim_as_a_verb(environment, lambda store: store.put_connector(environment.connector, config))
        wait_until(lambda: len(run.claims) == 2)  # the old task has ended
        send(environment.bootstrap, unique, ["two"])
        wait_until(lambda: other.exists() and other.read_text() == "two\n")
        assert environment.lines() == ["one"]
        assert run.claims[-1] == environment.configs().claims[environment.connector]
        assert len(run.claims) == 2
        assert run.end().state is RunState.STOPPED


def test_a_sink_that_gets_another_file_delivers_each_record_to_one_of_both(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    other, enough, sent = environment.folder / "other.txt", threading.Event(), list[str]()
    with staying(environment, environment.file_sink(unique)):
        sender = threading.Thread(target=send_until, args=(enough, environment.bootstrap, unique, sent))
        sender.start()
        wait_until(lambda: len(environment.lines()) > 20)
        config = {**environment.configs().connector_configs[environment.connector], "file": str(other)}
        claim_as_a_verb(environment, lambda store: store.put_connector(environment.connector, config))
        wait_until(lambda: other.exists() and other.stat().st_size > 0)
        enough.set()
        sender.join()
        wait_until(lambda: sent[-1] in other.read_text().split())
    assert [*environment.lines(), *other.read_text().split()] == sent


def test_a_new_file_waits_for_a_commit_that_takes_longer_than_the_graceful_time(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.properties["task.shutdown.graceful.timeout.ms"] = "1"
    make_topic(environment.bootstrap, unique)
    other, is_slow, commit = environment.folder / "other.txt", threading.Event(), GroupCommit.commit

    def commit_slowly(group: GroupCommit, offsets: Mapping[TopicPartition, int]) -> None:
        if is_slow.is_set() and offsets[TopicPartition(unique, 0)] == 2:
            config = {**environment.configs().connector_configs[environment.connector], "file": str(other)}
            claim_as_a_verb(environment, lambda store: store.put_connector(environment.connector, config))
            time.sleep(1)
        commit(group, offsets)

    monkeypatch.setattr(GroupCommit, "commit", commit_slowly)
    with staying(environment, environment.file_sink(unique)) as run:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: [each.offset for each in environment.group_offsets().values()] == [1])
        is_slow.set()
        send(environment.bootstrap, unique, ["two"])
        wait_until(lambda: len(run.claims) == 2)
        send(environment.bootstrap, unique, ["three"])
        wait_until(lambda: other.exists() and "three" in other.read_text())
    assert (environment.lines(), other.read_text()) == (["one", "two"], "three\n")


def test_it_pauses_and_resumes_in_the_same_application_and_ends_with_a_stop(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.file_sink(unique)) as run:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        environment.put_target_state(TargetState.PAUSED)
        wait_until(lambda: environment.states() == {0: "PAUSED"})
        send(environment.bootstrap, unique, ["two"])
        time.sleep(1)
        assert environment.lines() == ["one"]
        claim_as_a_verb(environment, lambda store: store.put_target_state(environment.connector, TargetState.STARTED))
        wait_until(lambda: environment.lines() == ["one", "two"])
        wait_until(lambda: environment.states() == {0: "RUNNING"})
        environment.put_target_state(TargetState.STOPPED)
        assert run.run.wait().state is RunState.STOPPED


@pytest.mark.parametrize("is_paused_first", [False, True])
def test_a_pause_beside_a_change_of_the_config_is_reported(environment: RunEnvironment, unique: str, is_paused_first: bool) -> None:
    """The change ends the tasks before they see the pause."""
    make_topic(environment.bootstrap, unique)
    config = environment.file_sink(unique)

    def pause(store: ConfigStore) -> None:
        store.put_target_state(environment.connector, TargetState.PAUSED)

    with staying(environment, config) as run:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        with ConfigStore(environment.settings) as store:
            if is_paused_first:
                pause(store)
            store.put_connector(environment.connector, config | {"errors.tolerance": "all"})
            store.claim(environment.connector)
            if not is_paused_first:
                pause(store)
        wait_until(lambda: environment.states() == {0: "PAUSED"})
        environment.put_target_state(TargetState.STARTED)
        send(environment.bootstrap, unique, ["two"])
        wait_until(lambda: environment.lines() == ["one", "two"])
        wait_until(lambda: environment.states() == {0: "RUNNING"})
        assert run.run.is_running


def test_a_newer_run_takes_over_and_the_older_one_ends(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.file_sink(unique)) as older:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        with staying(environment, None) as newer:
            assert older.run.wait().state is RunState.STOPPED
            send(environment.bootstrap, unique, ["two"])
            wait_until(lambda: environment.lines() == ["one", "two"])
            assert newer.end().state is RunState.STOPPED


def test_a_newer_run_takes_over_from_a_task_that_waits_for_its_retry(environment: RunEnvironment, unique: str) -> None:
    with staying(environment, environment.away_source(unique, away_in="start")) as older:
        wait_until(lambda: environment.states() == {0: "FAILED"})
        with staying(environment, None):
            result = older.run.wait()
    assert result.state is RunState.STOPPED
    assert [task.trace for task in result.tasks] == [None]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_run_whose_time_is_over_delivers_until_the_next_one_takes_over(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    environment.properties["task.shutdown.graceful.timeout.ms"] = str(int(HANG_SECONDS * 1000))  # as in test_shared_run
    make_topic(environment.bootstrap, unique)
    enough, sent, left = threading.Event(), list[str](), list[RunResult]()

    def leave(result: RunResult) -> bool:
        left.append(result)
        return True

    with staying(environment, environment.file_sink(unique, delivery_guarantee=guarantee), leave=leave) as older:
        sender = threading.Thread(target=send_until, args=(enough, environment.bootstrap, unique, sent), daemon=True)
        sender.start()
        wait_until(lambda: len(environment.lines()) > 20)
        older.run.application.request_handover()
        wait_until(lambda: bool(left))
        assert (left[0].state, left[0].error) == (RunState.DONE, None)
        assert left[0].tasks[0].records > 10
        known = len(environment.lines())
        wait_until(lambda: len(environment.lines()) > known + 20)  # delivered although its time is over
        assert older.run.is_running
        with staying(environment, None) as newer:
            assert older.run.wait().state is RunState.DONE
            wait_until(lambda: len(newer.claims) == 1)
            known = len(environment.lines())
            wait_until(lambda: len(environment.lines()) > known + 20)
            enough.set()
            sender.join()
            wait_until(lambda: environment.lines()[-1] == sent[-1])
    expect_each_once(environment.lines(), sent)
    assert environment.lines() == sent, "the claims keep the order"
    assert environment.configs().successors == {}


def test_a_change_during_a_handover_is_made_and_the_handover_goes_on(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    other = environment.folder / "other.txt"
    with staying(environment, environment.file_sink(unique), leave=lambda _: True) as older:
        send(environment.bootstrap, unique, ["none"])
        wait_until(lambda: environment.lines() == ["none"])
        older.run.application.request_handover()
        wait_until(lambda: environment.configs().successors == {environment.connector: ""})
        config = {**environment.configs().connector_configs[environment.connector], "file": str(other)}
        claim_as_a_verb(environment, lambda store: store.put_connector(environment.connector, config))
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: other.exists() and other.read_text() == "one\n")
        assert older.run.is_running
        with staying(environment, None):
            assert older.run.wait().state is RunState.DONE
            send(environment.bootstrap, unique, ["two"])
            wait_until(lambda: other.read_text() == "one\ntwo\n")


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_files_are_published_although_the_run_does_not_end(
    environment: RunEnvironment, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarantee: str
) -> None:
    monkeypatch.setattr(settings, "OPEN_MS", 1000)
    environment.properties["offset.flush.interval.ms"] = "200"
    make_topic(environment.bootstrap, unique)
    config = {
        "name": environment.connector,
        "connector.class": "FileSystemSink",
        "url": str(tmp_path),
        "topics": unique,
        "flush.size": "300",
    }
    with staying(environment, {**config, "delivery.guarantee": guarantee}) as run:
        for count in (1, 2):
            send(environment.bootstrap, unique, [f"value {count}"])
            wait_until(lambda: texts(tmp_path) == [f"value {each + 1}" for each in range(count)])  # noqa: B023
            wait_until(lambda: [each.offset for each in environment.group_offsets().values()] == [count])  # noqa: B023
        assert run.run.is_running


def test_records_and_lag_are_right_after_each_event(environment: RunEnvironment, unique: str) -> None:
    name, topic = environment.connector, make_topic(environment.bootstrap, unique)
    producer = Producer({"bootstrap.servers": environment.bootstrap, "transactional.id": unique})
    producer.init_transactions(HANG_SECONDS)
    with staying(environment, environment.file_sink(topic, delivery_guarantee="at_most_once")):
        wait_until(lambda: environment.states() == {0: "RUNNING"})
        with Herder(environment.settings, NoRuns()) as herder, BatchLog(environment.settings) as log:

            def shown() -> tuple[int, int, int, int | None]:
                """Records and lags, each from two sources."""
                task = ConnectorTaskId(name, 0)
                by_herder = int(herder.task_metrics().get((name, 0), {}).get("sink-record-send-total", 0))
                records = delivered.records if (delivered := log.delivered().get(task)) else 0
                return by_herder, records, herder.current_distances()[name].left, herder.partition_lags(name).lag

            def expect(delivered: int, lag: int = 0) -> None:
                wait_until(lambda: shown() == (delivered, delivered, lag, lag), lambda: f"{shown()}, not {delivered} and {lag}")
                assert len(environment.lines()) == delivered

            expect(0)
            send(environment.bootstrap, topic, ["1", "2", "3"])
            expect(3)
            producer.begin_transaction()
            producer.produce(topic, b"4")
            producer.commit_transaction(HANG_SECONDS)
            expect(4)
            environment.put_target_state(TargetState.PAUSED)
            wait_until(lambda: environment.states() == {0: "PAUSED"})
            send(environment.bootstrap, topic, ["5", "6"])
            expect(4, lag=2)
            claim_as_a_verb(environment, lambda store: store.put_target_state(name, TargetState.STARTED))
            expect(6)
            config = {**environment.configs().connector_configs[name], "errors.log.enable": "true"}
            claim_as_a_verb(environment, lambda store: store.put_connector(name, config))
            send(environment.bootstrap, topic, ["7"])
            expect(7)
            make_again(environment, topic)
            send(environment.bootstrap, topic, ["8", "9"])
            expect(9)
            herder.stop(name)
            expect(9)
            herder.alter_offsets(name, [OffsetView(sink_partition(topic, 0), {OFFSET: 1})])
            expect(9, lag=1)
            herder.reset_offsets(name)
            expect(9, lag=2)
    assert environment.lines() == [str(number) for number in range(1, 10)]


def test_a_topic_that_is_not_there_is_logged_once_while_the_run_waits_for_it(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checks: list[bool] = []

    def count(runner: SinkTaskRunner, partitions: Sequence[TopicPartition]) -> bool:
        checks.append(check(runner, partitions))
        return checks[-1]

    check = SinkTaskRunner._has_other_partitions
    monkeypatch.setattr(SinkTaskRunner, "_has_other_partitions", count)
    monkeypatch.setattr(sink_loop, "FIRST_RECHECK_SECONDS", 0.01)
    with staying(environment, environment.file_sink(unique)):
        wait_until(lambda: len(checks) > 3)
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        f"Topic {unique} of connector {environment.connector} does not exist yet"
    ]


@pytest.mark.parametrize("direction", ["sink", "source"])
def test_a_note_about_what_is_missing_goes_when_it_is_there(environment: RunEnvironment, unique: str, direction: str) -> None:
    is_sink = direction == "sink"
    config = environment.file_sink(unique) if is_sink else environment.file_source(unique)
    missing = f"There is no {f'topic {unique}' if is_sink else f'file {environment.file}'}: nothing is read "
    with staying(environment, config) as run:
        wait_until(lambda: environment.states() == {0: "RUNNING"})
        wait_until(lambda: missing in environment.configs().notes.get(environment.connector, ""))
        make_topic(environment.bootstrap, unique)
        if is_sink:
            send(environment.bootstrap, unique, ["one"])
        else:
            environment.file.write_text("one\n")
        wait_until(lambda: environment.lines() == values_of(environment.bootstrap, unique) == ["one"])
        wait_until(lambda: environment.connector not in environment.configs().notes)
        assert run.run.is_running


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_topic_that_is_made_anew_is_read_from_its_beginning_at_once(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    make_topic(environment.bootstrap, unique)
    old, new = ([f"{kind} {number}" for number in range(count)] for kind, count in (("old", 20), ("new", 50)))
    with staying(environment, environment.file_sink(unique, delivery_guarantee=guarantee)) as run:
        send(environment.bootstrap, unique, old)
        wait_until(lambda: environment.lines() == old)
        wait_until(lambda: [entry.records for entry in environment.batch_log()] == [20])
        make_again(environment, unique)
        send(environment.bootstrap, unique, new)
        wait_until(lambda: set(environment.lines()) == {*old, *new})
        if guarantee == "at_most_once":
            expect_each_once(environment.lines(), [*old, *new])
            wait_until(lambda: [entry.records for entry in environment.batch_log()] == [70], lambda: str(environment.batch_log()))
        assert run.run.is_running


@pytest.mark.soak
def test_a_source_whose_offsets_topic_is_deleted_doubles_nothing(environment: RunEnvironment, unique: str) -> None:
    """Some runs wait until their transaction has expired."""
    make_topic(environment.bootstrap, unique)
    environment.file.write_text("one\n")
    config = environment.file_source(unique, delivery_guarantee="exactly_once")
    with staying(environment, config) as run:
        wait_until(lambda: values_of(environment.bootstrap, unique) == ["one"])  # the topics are there
        wait_until(environment.batch_log)
        make_anew(environment, environment.settings.offset_topic)
        with environment.file.open("a") as file:
            file.write("two\n")
        assert run.run.wait().state is RunState.FAILED
    result = environment.run(config)
    assert "created anew" in (result.tasks[0].trace or "")
    assert values_of(environment.bootstrap, unique) == ["one"]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_a_sink_goes_on_from_offsets_that_another_program_sets(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    make_topic(environment.bootstrap, unique)
    partition = TopicPartition(unique, 0)
    with staying(environment, environment.file_sink(unique, delivery_guarantee=guarantee)) as run:
        send(environment.bootstrap, unique, ["one", "two", "three"])
        wait_until(lambda: environment.lines() == ["one", "two", "three"])
        wait_until(lambda: environment.group_offsets()[partition].offset == 3)
        commit_by_hand(environment.bootstrap, environment.group, {partition: 1})
        send(environment.bootstrap, unique, ["four"])
        wait_until(lambda: environment.group_offsets()[partition].offset == 4)
        again = environment.lines()[3:]
        assert again[-3:] == ["two", "three", "four"]
        assert again[:-3] in ([], ["four"]), "at least once, what was read before the offsets were compared"
        assert guarantee != "exactly_once" or len(again) == 3
        assert run.run.is_running


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_transaction_markers_are_no_lag(environment: RunEnvironment, unique: str, guarantee: str) -> None:
    environment.properties["offset.flush.interval.ms"] = "1000"
    make_topic(environment.bootstrap, unique)
    producer = Producer({"bootstrap.servers": environment.bootstrap, "transactional.id": unique})
    producer.init_transactions(HANG_SECONDS)

    def transaction(end: Callable[[float], None]) -> None:
        producer.begin_transaction()
        for value in ("one", "two"):
            producer.produce(unique, value.encode())
        producer.flush(HANG_SECONDS)
        end(HANG_SECONDS)

    def positions() -> list[int]:
        (entry,) = environment.batch_log()
        return [*(each.offset for each in environment.group_offsets().values()), *entry.next[unique].values()]

    with staying(environment, environment.file_sink(unique, delivery_guarantee=guarantee)) as run:
        transaction(producer.commit_transaction)
        wait_until(lambda: environment.lines() == ["one", "two"])
        wait_until(lambda: positions() == [3, 3])
        transaction(producer.abort_transaction)
        wait_until(lambda: positions() == [6, 6])
        assert run.run.is_running
    assert environment.lines() == ["one", "two"]


def test_a_connector_that_is_paused_during_the_handover_stays_paused(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.file_sink(unique), leave=lambda _: True) as older:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        older.run.application.request_handover()
        wait_until(lambda: environment.configs().successors == {environment.connector: ""})
        environment.put_target_state(TargetState.PAUSED)
        wait_until(lambda: environment.states() == {0: "PAUSED"})
        with staying(environment, None) as newer:
            assert newer.run.wait().state is RunState.SKIPPED
        assert older.run.is_running
        assert environment.states() == {0: "PAUSED"}


def test_tasks_that_a_smaller_plan_no_longer_has_do_not_keep_a_run_from_its_handover(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 2)
    with staying(environment, environment.file_sink(unique, tasks_max="2"), leave=lambda _: True) as older:
        send(environment.bootstrap, unique, ["1", "2"], partitions=2)
        wait_until(lambda: sorted(environment.lines()) == ["1", "2"])
        config = {**environment.configs().connector_configs[environment.connector], "tasks.max": "1"}
        claim_as_a_verb(environment, lambda store: store.put_connector(environment.connector, config))
        wait_until(lambda: len(older.claims) == 2)
        older.run.application.request_handover()
        wait_until(lambda: environment.configs().successors == {environment.connector: ""})
        assert older.run.is_running


@pytest.mark.parametrize("target", [TargetState.STOPPED, TargetState.PAUSED])
def test_a_connector_that_is_stopped_or_paused_is_not_handed_over(environment: RunEnvironment, unique: str, target: TargetState) -> None:
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.file_sink(unique), leave=lambda _: True) as run:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        environment.put_target_state(target)
        if target is TargetState.PAUSED:
            wait_until(lambda: environment.states() == {0: "PAUSED"})
            run.run.application.request_handover()
        assert run.run.wait().state in (RunState.STOPPED, RunState.DONE)
    assert environment.configs().successors == {}


def test_without_a_next_run_the_offer_ends(environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staying_run, "HANDOVER_SECONDS", 1.0)
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.file_sink(unique), seconds=1, leave=lambda _: True) as run:
        assert run.run.wait().state is RunState.DONE
    assert environment.configs().successors == {}


def test_a_run_that_has_died_during_its_handover_is_not_waited_for_long(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(environment.bootstrap, unique)
    environment.run(environment.file_sink(unique))
    with ConfigStore(environment.settings) as store:
        store.put_successor(environment.connector, "", store.claim(environment.connector, owner="dead"))
    monkeypatch.setattr(handover, "_ANSWER_SECONDS", 1.0)
    with staying(environment, None) as run:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        assert len(run.claims) == 1


@contextmanager
def driver_process(environment: RunEnvironment, define: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The driver of a run that stays, whose tasks have processes of their own."""
    directory = environment.folder / "run"
    directory.mkdir(mode=0o700)
    spec = RunSpec(environment.connector, environment.properties, "run", define=define, stays_seconds=STAYS_SECONDS)
    write_private(directory / RUN_FILE, spec.to_json())
    paths = [str(environment.folder / "plugins"), os.getcwd()]
    process = subprocess.Popen(
        [sys.executable, "-m", PROGRAM, "--run-dir", str(directory)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_source_with_two_tasks_goes_on_after_the_kill_of_a_task(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.numbers(unique, tasks="2", tasks_max="2", until="300", size="1", poll_ms="20")
    with driver_process(environment, config) as driver:
        wait_until(lambda: len(values_of(environment.bootstrap, unique)) > 10)
        wait_until(lambda: len(task_processes(driver)) == 2)
        victim, other = task_processes(driver)
        victim.kill()
        wait_until(lambda: len(values_of(environment.bootstrap, unique)) >= 600)
        assert sorted(values_of(environment.bootstrap, unique)) == sorted(f"{task}-{number}" for task in range(2) for number in range(300))
        assert other.is_running()
        assert environment.states() == {0: "RUNNING", 1: "RUNNING"}
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(HANG_SECONDS) == 0
    result = RunResult.from_json((environment.folder / "run" / RESULT_FILE).read_text())
    assert result.state is RunState.STOPPED


def task_processes(driver: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return children("task_processes", driver.pid)


def test_a_task_whose_process_is_lost_again_and_again_is_started_again(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    engine = Engine(losses=99)
    with staying(environment, environment.file_sink(unique), engine=engine) as run:
        wait_until(lambda: environment.states() == {0: "FAILED"} and engine.losses <= 97)
        failed = environment.statuses().task(environment.connector, 0)
        assert failed is not None
        assert "the worker is gone" in str(failed.trace)
        assert "its Spark job was lost" in str(failed.trace)
        engine.losses = 0
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        wait_until(lambda: environment.states() == {0: "RUNNING"})
        assert run.end().state is RunState.STOPPED


def test_a_task_that_cannot_be_started_ends_the_run(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    engine = Engine(losses=99, error=ConfigException.of("tasks.max", "3", "the master has 2 cores"))
    with staying(environment, environment.file_sink(unique), engine=engine) as run:
        result = run.run.wait()
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    assert "the master has 2 cores" in str(result.error)
    assert environment.states() == {0: "FAILED"}


def test_a_run_ends_when_its_dag_changes(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.file_sink(unique)) as run:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        config = {**environment.configs().connector_configs[environment.connector], "airflow.schedule": "@hourly"}
        claim_as_a_verb(environment, lambda store: store.put_connector(environment.connector, config))
        assert run.run.wait().state is RunState.DONE


def test_a_change_of_a_config_with_values_of_airflow_ends_the_run(environment: RunEnvironment, unique: str) -> None:
    """Only the next run gets them from Airflow."""
    make_topic(environment.bootstrap, unique)
    environment.properties["config.providers.access.default"] = "allow"
    environment.secrets["${airflow:shop:password}"] = "s3cret"
    config = environment.numbers(unique, until="5", password="${airflow:shop:password}")
    with staying(environment, config) as run:
        wait_until(lambda: len(values_of(environment.bootstrap, unique)) == 5)
        claim_as_a_verb(environment, lambda store: None)
        assert run.run.wait().state is RunState.DONE


def test_a_sink_reads_a_topic_and_partitions_that_come_later(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_loop, "RECHECK_SECONDS", 1.0)
    with staying(environment, environment.file_sink(unique)) as run:
        wait_until(lambda: environment.states() == {0: "RUNNING"})
        make_topic(environment.bootstrap, unique)
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        admin = AdminClient({"bootstrap.servers": environment.bootstrap})
        admin.create_partitions([NewPartitions(unique, 2)])[unique].result(HANG_SECONDS)
        wait_until(lambda: len(admin.list_topics(unique, timeout=HANG_SECONDS).topics[unique].partitions) == 2)
        send(environment.bootstrap, unique, ["two"], partitions=2, first=1)
        wait_until(lambda: environment.lines() == ["one", "two"])
        assert run.claims == run.claims[:1]
        assert run.end().state is RunState.STOPPED


def test_a_deleted_connector_ends_its_run(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.file_sink(unique)) as run:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        with ConfigStore(environment.settings) as store:
            store.delete_connector(environment.connector)
        assert run.run.wait().state is RunState.STOPPED


def test_lines_of_a_file_are_delivered_as_they_are_written(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "SIGNAL_CHECK_SECONDS", STAYS_SECONDS)  # only the signal of the file ends a wait
    make_topic(environment.bootstrap, unique)
    environment.file.write_text("line 0\n")
    with staying(environment, environment.file_source(unique)) as run:
        wait_until(lambda: values_of(environment.bootstrap, unique) == ["line 0"])
        for number in range(1, 4):
            with environment.file.open("a") as file:
                file.write(f"line {number}\n")
            wait_until(lambda: len(values_of(environment.bootstrap, unique)) == number + 1)  # noqa: B023
        result = run.end()
    assert values_of(environment.bootstrap, unique) == [f"line {number}" for number in range(4)]
    assert (result.state, [task.records for task in result.tasks]) == (RunState.STOPPED, [4])
    assert result.tasks[0].ranges == {unique: {"0": [0, result.tasks[0].ranges[unique]["0"][1]]}}


def test_a_task_that_failed_for_good_leaves_its_siblings_and_comes_back_with_a_restart(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 2)
    config = environment.picky_sink(unique, **{"tasks.max": "2"})
    with staying(environment, config) as run:
        send(environment.bootstrap, unique, ["fine", "also fine"], partitions=2)
        wait_until(lambda: sorted(environment.lines()) == ["also fine", "fine"])
        send(environment.bootstrap, unique, ["broken", "still fine"], partitions=2)
        wait_until(lambda: sorted(environment.states().values()) == ["FAILED", "RUNNING"])
        failed = next(task for task, state in environment.states().items() if state == "FAILED")
        send(environment.bootstrap, unique, ["sibling"], partitions=2, first=1)
        wait_until(lambda: "sibling" in environment.lines())
        wait_until(lambda: [len(traces) for traces in run.failures] == [1])
        assert "the destination is gone" in run.failures[0][0]

        before = environment.statuses().task(environment.connector, failed)
        with ConfigStore(environment.settings) as store, StatusWriter(environment.settings) as statuses:  # as the herder restarts a task
            store.claim(environment.connector)
            statuses.put_task(TaskStatus(environment.connector, failed, State.RESTARTING, "127.0.0.1:1"))
            statuses.flush(HANG_SECONDS)
        wait_until(
            lambda: (now := environment.statuses().task(environment.connector, failed)) != before and now and now.state is State.FAILED
        )
        wait_until(lambda: [len(traces) for traces in run.failures] == [1, 0, 1])
        result = run.end()
    assert result.state is RunState.FAILED
    assert sorted(task.state for task in result.tasks) == ["FAILED", "RUNNING"]


def test_a_connector_whose_tasks_have_all_failed_ends_the_run(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.picky_sink(unique)) as run:
        send(environment.bootstrap, unique, ["broken"])
        result = run.run.wait()
    assert result.state is RunState.FAILED
    assert result.error
    assert environment.states() == {0: "FAILED"}


@pytest.mark.parametrize("change", [{"tasks.max": "none"}, {"connector.class": "tests.NoSuchConnector"}])
def test_a_config_that_cannot_be_planned_ends_the_run_with_its_error(
    environment: RunEnvironment, unique: str, change: Mapping[str, str]
) -> None:
    make_topic(environment.bootstrap, unique)
    with staying(environment, environment.file_sink(unique)) as run:
        send(environment.bootstrap, unique, ["one"])
        wait_until(lambda: environment.lines() == ["one"])
        config = {**environment.configs().connector_configs[environment.connector], **change}
        claim_as_a_verb(environment, lambda store: store.put_connector(environment.connector, config))
        result = run.run.wait()
    assert result.state is RunState.FAILED
    assert next(iter(change.values())) in (result.error or "")
    connector = environment.statuses().connector(environment.connector)
    assert connector is not None
    assert connector.state is State.FAILED


@pytest.mark.parametrize("kind", ["sink", "source"])
def test_a_run_with_an_idle_timeout_delivers_what_comes_while_it_waits_and_ends(
    environment: RunEnvironment, unique: str, kind: str
) -> None:
    make_topic(environment.bootstrap, unique)
    config = environment.file_sink(unique) if kind == "sink" else environment.file_source(unique)

    def deliver(line: str) -> None:
        if kind == "sink":
            send(environment.bootstrap, unique, [line])
            wait_until(lambda: line in environment.lines())
        else:
            with environment.file.open("a") as file:
                file.write(f"{line}\n")
            wait_until(lambda: line in values_of(environment.bootstrap, unique))

    environment.file.write_text("")
    run = UnderWay(environment.application(config, idle_seconds=20.0))
    try:
        for number in range(2):
            deliver(f"line {number}")
        result = run.wait()
    finally:
        run.application.request_end()
    assert (result.state, result.error, [task.records for task in result.tasks]) == (RunState.DONE, None, [2])
    assert environment.states() == {0: "RUNNING"}
