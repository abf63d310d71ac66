"""Processes that tasks share: records are delivered, a busy task leaves, and the end of a process is named."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.model.run import RunState, TaskResult
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.config_stream import ConfigStream
from airflow_provider_connect.runtime.stores.log_consumer import LogTruncatedException
from airflow_provider_connect.runtime.worker.application import process_host, shared_processes
from airflow_provider_connect.runtime.worker.application.process_host import Answer, ProcessHost, Setup
from airflow_provider_connect.runtime.worker.application.shared_processes import MOST_TASKS, SharedProcess, SharedProcesses
from airflow_provider_connect.runtime.worker.application.task_processes import TaskProcessLost
from airflow_provider_connect.runtime.worker.task.memory_limit import SharedMemoryLimit
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload
from tests.integration.java.processes import children
from tests.integration.worker.environment import RunEnvironment, UnderWay, make_topic, send, values_of
from tests.integration.worker.test_task_processes import EndsWhenRead, payload
from tests.waiting import HANG_SECONDS, wait_until

STAYS_SECONDS = 3600.0
pytestmark = pytest.mark.usefixtures("topics")
ALONE, SHARED = "task_processes", "process_host"


def since(before: list[psutil.Process]) -> list[psutil.Process]:
    """The shared processes that were started after ``before`` were found. Those of other tests end after a minute without tasks."""
    return [process for process in children(SHARED) if process not in before]


@pytest.fixture
def topics(environment: RunEnvironment) -> None:
    """The internal topics, which the driver of a shared application creates first."""
    TopicBacking(environment.settings).ensure()


class Hosted:
    """Runs tasks in a ``ProcessHost`` in a thread of this process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.payloads: dict[int, TaskPayload] = {}
        self.answers: dict[int, Answer] = {}
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        try:
            while True:
                if text := self._connection.recv_bytes().decode():
                    answer = Answer.from_json(text)
                    self.answers[answer.number] = answer
        except (EOFError, OSError):
            pass

    def run(self, payload: TaskPayload) -> TaskResult:
        with self._lock:
            number = len(self.payloads)
            self.payloads[number] = payload
            self._connection.send((number, payload))
        wait_until(lambda: number in self.answers)
        return self.answers[number].result


@contextmanager
def hosted(settings: Mapping[str, str]) -> Iterator[Hosted]:
    ours, theirs = Pipe()
    with SharedMemoryLimit("the tests", 8 << 30) as limit:
        host = ProcessHost(theirs, Setup(settings, {}, ()), memory_limit=limit, mask=Mask())
        thread = threading.Thread(target=host.serve)
        thread.start()
        try:
            yield Hosted(ours)
        finally:
            ours.close()
            thread.join(HANG_SECONDS)
            assert not thread.is_alive()


def staying(environment: RunEnvironment, define: Mapping[str, str], engine: Hosted | SharedProcesses) -> UnderWay:
    return UnderWay(environment.application(define, engine=engine.run, stays_seconds=STAYS_SECONDS))


def test_two_connectors_share_a_process(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    first, second = environment, replace(environment, connector=f"second-{unique}")
    processes, before = SharedProcesses(environment.properties, {}), children(SHARED)
    runs = [staying(one, one.file_sink(unique), processes) for one in (first, second)]
    try:
        send(environment.bootstrap, unique, ["1"])
        wait_until(lambda: first.lines() == second.lines() == ["1"])
        (process,) = since(before)
        assert children(ALONE) == []
        second.put_target_state(TargetState.STOPPED)
        assert runs[1].wait().state is RunState.STOPPED
        send(environment.bootstrap, unique, ["2"])
        wait_until(lambda: first.lines() == ["1", "2"])

        process.kill()
        send(environment.bootstrap, unique, ["3"])
        wait_until(lambda: first.lines() == ["1", "2", "3"])
        (smaller,) = since(before)
        assert children(ALONE) == []

        smaller.kill()
        send(environment.bootstrap, unique, ["4"])
        wait_until(lambda: first.lines() == ["1", "2", "3", "4"])
        assert since(before) == []
        assert len(children(ALONE)) == 1
    finally:
        for run in runs:
            run.application.request_end()
    assert runs[0].wait().state is RunState.STOPPED
    assert second.lines() == ["1"]


def test_the_busiest_task_leaves_with_what_it_has_delivered(
    environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_host, "BUSY_SECONDS", 2.0)
    monkeypatch.setattr(process_host, "BUSY_SHARE", 99.0)
    make_topic(environment.bootstrap, unique)
    make_topic(environment.bootstrap, f"{unique}-numbers")
    quiet, busy = environment, replace(environment, connector=f"busy-{unique}")
    with hosted(environment.properties) as host:
        runs = [staying(quiet, quiet.file_sink(unique), host)]
        send(environment.bootstrap, unique, ["1"])
        wait_until(lambda: quiet.lines() == ["1"])
        runs.append(staying(busy, busy.numbers(f"{unique}-numbers", until="1000000", size="10"), host))
        wait_until(lambda: len(values_of(environment.bootstrap, f"{unique}-numbers")) > 10)
        time.sleep(3 * process_host.BUSY_SECONDS)
        assert host.answers == {}
        monkeypatch.setattr(process_host, "BUSY_SHARE", 0.0)
        wait_until(lambda: host.answers)
        (answer,) = host.answers.values()
        for run in runs:
            run.application.request_end()
        results = [run.wait() for run in runs]
    assert answer.leaves
    assert 0 < answer.result.records == len(values_of(environment.bootstrap, f"{unique}-numbers"))
    assert [result.state for result in results] == [RunState.STOPPED, RunState.STOPPED]


def test_no_task_leaves_because_other_threads_are_busy(environment: RunEnvironment, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those of Kafka's clients while the broker is away, which need no interpreter."""
    monkeypatch.setattr(process_host, "BUSY_SECONDS", 1.0)
    monkeypatch.setattr(process_host, "BUSY_SHARE", 99.0)
    make_topic(environment.bootstrap, unique)
    connectors = environment, replace(environment, connector=f"second-{unique}")
    with hosted(environment.properties) as host:
        runs = [staying(one, one.file_sink(unique), host) for one in connectors]
        send(environment.bootstrap, unique, ["1"])
        wait_until(lambda: all(one.lines() == ["1"] for one in connectors))
        monkeypatch.setattr(process_host, "BUSY_SHARE", 0.7)
        until, block = time.process_time() + 4 * process_host.BUSY_SECONDS, bytes(8 << 20)
        while time.process_time() < until:
            hashlib.sha256(block)
        assert host.answers == {}
        for run in runs:
            run.application.request_end()
        assert [run.wait().state for run in runs] == [RunState.STOPPED, RunState.STOPPED]


def test_a_task_waits_for_the_config_topic_until_it_is_asked_to_end(environment: RunEnvironment, unique: str) -> None:
    make_topic(environment.bootstrap, unique)
    with hosted({**environment.properties, "bootstrap.servers": "127.0.0.1:1", "internal.request.timeout.ms": "1000"}) as host:
        run = staying(environment, environment.file_sink(unique), host)
        wait_until(lambda: host.payloads)
        time.sleep(1)
        assert host.answers == {}
        run.application.request_end()
        assert run.wait().state is RunState.STOPPED
    assert [answer.result.records for answer in host.answers.values()] == [0]


def test_a_task_that_leaves_continues_alone(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = SharedProcesses(environment.properties, {})
    monkeypatch.setattr(SharedProcess, "_receive_answers", leaving(SharedProcess._receive_answers))
    result = processes.run(payload(environment.properties))
    assert "contains no connector type" in str(result.trace)
    assert processes._limits == {"orders": 1}


def leaving(receive: object) -> object:
    """Has each answer say that its task leaves."""
    read = Answer.from_json

    def received(self: SharedProcess) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Answer, "from_json", classmethod(lambda _, text: replace(read(text), leaves=True)))
            receive(self)  # type: ignore[operator]

    return received


@pytest.mark.parametrize(
    ("call", "silent_seconds", "how"),
    [
        (EndsWhenRead(os._exit, 3), 60.0, "ended with exit code 3"),
        (EndsWhenRead(signal.raise_signal, 9), 60.0, "was ended by signal 9"),
        (EndsWhenRead(time.sleep, 600), 15.0, "was ended by signal 9"),
    ],
    ids=["exit", "killed", "hangs"],
)
def test_an_end_of_the_process_is_named_and_the_connector_shares_with_fewer_tasks_then_with_none(
    environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, call: EndsWhenRead, silent_seconds: float, how: str
) -> None:
    monkeypatch.setattr(shared_processes, "SILENT_SECONDS", silent_seconds)
    processes, before = SharedProcesses(environment.properties, {}), children(SHARED)
    with pytest.raises(TaskProcessLost, match=f"The process that the task shares with others {how}"):
        processes.run(payload(call))
    assert processes._limits == {"orders": 5}
    with pytest.raises(TaskProcessLost):
        processes.run(payload(EndsWhenRead(os._exit, 3)))
    result = processes.run(payload(environment.properties))
    assert "contains no connector type" in str(result.trace)
    assert since(before) == []


def test_a_process_that_hangs_delays_no_task_of_another(environment: RunEnvironment) -> None:
    processes, before = SharedProcesses(environment.properties, {}), children(SHARED)
    process, slot = processes._reserve((), MOST_TASKS)
    (hanging,) = since(before)
    with ThreadPoolExecutor(MOST_TASKS) as pool:
        ends = [pool.submit(process.run, slot, payload(EndsWhenRead(time.sleep, 600)))]
        large = payload({**environment.properties, "group.id": "g" * 100_000})  # more than the connection takes at once
        ends += [pool.submit(process.run, more, large) for more in iter(process.reserve, None)]
        try:
            assert "contains no connector type" in str(processes.run(payload(environment.properties)).trace)
            assert not any(end.done() for end in ends)
        finally:
            hanging.kill()
    assert {type(end.exception()) for end in ends} == {TaskProcessLost}


def test_a_process_without_tasks_ends(environment: RunEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_processes, "_UNUSED_SECONDS", 0.0)
    processes, before = SharedProcesses(environment.properties, {}), children(SHARED)
    asked = replace(payload(environment.properties), locations=[str(tmp_path)])
    assert "contains no connector type" in str(processes.run(asked).trace)
    wait_until(lambda: since(before) == [])
    assert "contains no connector type" in str(processes.run(asked).trace)


def test_a_shared_process_that_does_not_start_may_pass(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = SharedProcesses(environment.properties, {})
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(RetriableException, match="A process of small tasks does not start"):
            processes.run(payload(environment.properties))
    assert "contains no connector type" in str(processes.run(payload(environment.properties)).trace)


def test_the_process_ends_when_the_config_topic_is_lost(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise LogTruncatedException("the config topic was recreated")

    monkeypatch.setattr(ConfigStream, "poll", lost)
    _, theirs = Pipe()
    with SharedMemoryLimit("the tests", 8 << 30) as limit, pytest.raises(LogTruncatedException, match="was recreated"):
        ProcessHost(theirs, Setup(environment.properties, {}, ()), memory_limit=limit, mask=Mask()).serve()


def test_settings_that_cannot_be_read_fail_their_task_alone(environment: RunEnvironment) -> None:
    with hosted(environment.properties) as host:
        failed = host.run(payload({**environment.properties, "group.id": ""}))
        assert (str(failed.state), failed.retriable) == ("FAILED", True)
        assert "group.id" in str(failed.trace)
        assert "contains no connector type" in str(host.run(payload(environment.properties)).trace)
