"""Java connectors in runs that stay: they may ask for other tasks, fail and lose their JVM at any time, as in Kafka Connect."""

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_connect import Connect
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.task.staying_connector import StayingConnector
from airflow_provider_connect.runtime.model.run import LEFT_FILE
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from tests.e2e.faults import shared_application
from tests.integration.java.conftest import SINK, JavaRuns
from tests.integration.java.conftest import SOURCE as FILE_SOURCE
from tests.integration.java.processes import children
from tests.integration.worker.environment import Pauses
from tests.java_plugins import compiled_plugin
from tests.waiting import HANG_SECONDS, wait_until

SECRET = "canary-of-a-password"
SOURCE = "org.example.FolderSourceConnector"


@pytest.fixture(scope="module")
def folder_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_plugin(tmp_path_factory.mktemp("compiled"), SOURCE, "source.SourceConnector")


class Folder:
    """Files whose lines a connector of the name ``name`` copies to a topic of this name, each file by a task."""

    def __init__(self, runs: JavaRuns, name: str) -> None:
        self.runs, self.name, self.path = runs, name, runs.folder / "files"
        self.path.mkdir()

    @contextmanager
    def hosted(self) -> Iterator[Connect]:
        with Connect(self.name, self.runs.worker) as connect:
            connect.add_connector(
                {
                    "name": self.name,
                    "connector.class": SOURCE,
                    "tasks.max": "5",
                    "folder": str(self.path),
                    "topic": self.name,
                    "topic.password": SECRET,
                }
            )
            yield connect

    def add(self, file: str, *lines: str) -> None:
        with (self.path / file).open("a") as opened:
            opened.write("".join(f"{line}\n" for line in lines))

    def states(self, connect: Connect) -> list[str]:
        return [task.state for task in connect.herder.connector_status(self.name).tasks]

    def holds(self, *lines: str) -> bool:
        """Whether the topic holds these lines, each once. Fails if it holds one more than once."""
        found = sorted(self.runs.records(self.name))
        assert len(found) == len(set(found)), found
        return found == sorted(lines)

    def shown(self) -> str:
        return f"the topic holds {self.runs.records(self.name)}"


@pytest.fixture
def files(java_runs: JavaRuns, folder_plugin: Path, unique: str) -> Folder:
    java_runs.use(folder_plugin, memory="256m")
    java_runs.make_topic(unique)
    return Folder(java_runs, unique)


def test_a_connector_that_asks_for_other_tasks_gets_them(files: Folder) -> None:
    with files.hosted() as connect:
        wait_until(lambda: connect.herder.connector_status(files.name).connector.state == "RUNNING")
        files.add("a.txt", "a1")
        wait_until(lambda: files.holds("a1"))
        files.add("b.txt", "b1")
        wait_until(lambda: files.holds("a1", "b1"))
        wait_until(lambda: files.states(connect) == ["RUNNING", "RUNNING"])
        files.add("a.txt", "a2")
        files.add("b.txt", "b2")
        wait_until(lambda: files.holds("a1", "a2", "b1", "b2"), files.shown)
        (files.path / "a.txt").unlink()
        wait_until(lambda: files.states(connect) == ["RUNNING"])
        files.add("b.txt", "b3")
        wait_until(lambda: files.holds("a1", "a2", "b1", "b2", "b3"))


@pytest.mark.soak
def test_a_task_that_failed_for_good_is_started_again_with_another_config(files: Folder) -> None:
    files.add("a.txt", "x" * 2_000_000)  # larger than a request of the producer, in every attempt
    files.add("b.txt", "b1")
    with files.hosted() as connect:
        wait_until(lambda: files.states(connect) == ["FAILED", "RUNNING"])
        wait_until(lambda: files.holds("b1"))
        (files.path / "a.txt").unlink()
        files.add("b.txt", "b2")
        wait_until(lambda: files.states(connect) == ["RUNNING"])
        files.add("b.txt", "b3")
        wait_until(lambda: files.holds("b1", "b2", "b3"))


@pytest.mark.soak
def test_a_restart_of_the_connector_starts_it_anew(files: Folder) -> None:
    before = children()
    files.add("a.txt", "a1")
    with files.hosted() as connect:
        wait_until(lambda: files.holds("a1"))
        first = {each.pid for each in children() if each not in before}
        connect.herder.restart_connector(files.name, include_tasks=False, only_failed=False)
        wait_until(lambda: len(second := {each.pid for each in children() if each not in before}) == 2 and not second & first)
        files.add("b.txt", "b1")
        wait_until(lambda: files.holds("a1", "b1"))


def test_a_failed_connector_is_started_again_while_its_tasks_continue(files: Folder) -> None:
    files.add("a.txt", "a1")
    with files.hosted() as connect:
        wait_until(lambda: files.holds("a1"))
        (files.path / "fail").touch()
        wait_until(lambda: connect.herder.connector_status(files.name).connector.state == "FAILED")
        trace = connect.herder.connector_status(files.name).connector.trace or ""
        assert "the folder is out of order" in trace
        assert SECRET not in trace
        wait_until(lambda: files.states(connect) == ["RUNNING"])
        files.add("a.txt", "a2")
        files.add("b.txt", "b1")
        wait_until(lambda: files.holds("a1", "a2"))
        (files.path / "fail").unlink()
        wait_until(lambda: files.holds("a1", "a2", "b1"))
        wait_until(lambda: connect.herder.connector_status(files.name).connector.state == "RUNNING")


@pytest.mark.parametrize("poll", ["empty", "full"])
def test_a_task_whose_thread_was_interrupted_is_started_again(files: Folder, poll: str) -> None:
    """Connect's task ends without an error after an empty poll, and FAILED after one with records."""
    files.add("a.txt", "a1")
    interrupt = files.path / f"interrupt-{poll}"
    with files.hosted() as connect:
        wait_until(lambda: files.holds("a1"))
        interrupt.touch()
        if poll == "empty":
            wait_until(lambda: not interrupt.exists())
        files.add("a.txt", "a2")
        wait_until(lambda: not interrupt.exists())
        wait_until(lambda: files.holds("a1", "a2"), files.shown)
        wait_until(lambda: files.states(connect) == ["RUNNING"])


def test_a_jvm_that_ends_is_replaced_and_each_record_comes_once(files: Folder) -> None:
    before = children()

    def jvms() -> list[psutil.Process]:
        return sorted((each for each in children() if each not in before), key=lambda jvm: jvm.create_time())

    files.runs.worker["plugin.plan.timeout.ms"] = "10000"
    files.add("a.txt", "a1")
    (files.path / "hang").touch()
    with files.hosted() as connect:
        wait_until(lambda: connect.herder.connector_status(files.name).connector.state == "FAILED")
        trace = connect.herder.connector_status(files.name).connector.trace or ""
        assert f"{SOURCE} (" in trace
        assert "took more than the 10 s of plugin.plan.timeout.ms to name its tasks, and its JVM was ended" in trace
        assert f"at {SOURCE}.taskConfigs(FolderSourceConnector.java:" in trace
        (files.path / "hang").unlink()
        wait_until(lambda: files.holds("a1"))
        wait_until(lambda: len(jvms()) == 2)
        _, of_task = jvms()
        (files.path / "exit").touch()
        wait_until(lambda: connect.herder.connector_status(files.name).connector.state == "FAILED")
        trace = connect.herder.connector_status(files.name).connector.trace or ""
        assert re.search(rf"org\.example\.FolderSourceConnector\S* called System\.exit\(7\), which ended the JVM of {SOURCE} \(", trace)
        files.add("a.txt", "a2")
        files.add("b.txt", "b1")
        wait_until(lambda: files.holds("a1", "a2"))
        assert of_task.is_running()
        (files.path / "exit").unlink()
        wait_until(lambda: files.holds("a1", "a2", "b1"))
        wait_until(lambda: connect.herder.connector_status(files.name).connector.state == "RUNNING")
        for number, jvm in enumerate(jvms()):  # the connector's and the tasks'
            jvm.kill()
            files.add("b.txt", f"b{number + 2}")
            wait_until(lambda: files.holds("a1", "a2", *(f"b{each}" for each in range(1, number + 3))))  # noqa: B023
        wait_until(lambda: len(jvms()) == 3)
        assert connect.herder.connector_status(files.name).connector.state == "RUNNING"


@pytest.mark.soak
def test_a_jvm_killed_just_before_a_plan_is_replaced_by_the_next_plan(files: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    before, plan = children(), StayingConnector.task_configs

    def kill_and_plan(connector: StayingConnector, *args: Any, **kwargs: Any) -> list[Mapping[str, str]]:
        if files.holds("a1") and not killed:
            for jvm in (each for each in children() if each not in before):
                jvm.kill()
                killed.append(jvm.pid)
        return plan(connector, *args, **kwargs)

    monkeypatch.setattr(StayingConnector, "task_configs", kill_and_plan)
    files.add("a.txt", "a1")
    with files.hosted():
        wait_until(lambda: files.holds("a1"))
        files.add("b.txt", "b1")
        wait_until(lambda: files.holds("a1", "b1"))
        assert killed


@pytest.mark.soak
def test_the_next_run_takes_java_connectors_over(java_runs: JavaRuns, unique: str) -> None:
    """A sink at least once, and a source exactly once: each record comes once."""
    java_runs.make_topic(unique)
    java_runs.worker |= {"offset.flush.interval.ms": "500"}
    own = {"connector.plugin.location": "file", "airflow.application": shared_application.NAME, "tasks.max": "1"}
    sink = {**own, "connector.class": SINK, "file": str(java_runs.output), "topics": unique}
    source = {**own, "connector.class": FILE_SOURCE, "file": str(java_runs.input), "topic": unique}
    settings = WorkerSettings.of(java_runs.worker)
    TopicBacking(settings).ensure()
    with ConfigStore(settings) as store:
        store.put_connector(f"{unique}-in", source)
        store.put_connector(f"{unique}-out", sink)
    older = java_runs.folder / "run-1" / "try-1"
    older.parent.mkdir()
    enough, sent = threading.Event(), list[str]()
    writer = threading.Thread(target=write_until, args=(enough, java_runs.input, sent), daemon=True)
    applications = [shared_application.start(older, java_runs.worker, "process")]
    try:
        writer.start()
        wait_until(lambda: len(lines_of(java_runs.output)) > 20)
        with Pauses(java_runs.output) as pauses:
            os.kill(applications[0].driver_pid(), signal.SIGUSR1)
            wait_until((older / LEFT_FILE).exists)
            applications.append(shared_application.start(java_runs.folder / "next", java_runs.worker, "process"))
            assert applications[0].process.wait(HANG_SECONDS) == 0
            known = len(lines_of(java_runs.output))
            wait_until(lambda: len(lines_of(java_runs.output)) > known + 20)
        enough.set()
        writer.join()
        wait_until(lambda: lines_of(java_runs.output)[-1:] == sent[-1:])
    finally:
        for application in applications:
            shared_application.kill(application)
    print(f"the longest pause: {pauses.longest:.2f} s")
    assert java_runs.records(unique) == sent
    assert lines_of(java_runs.output) == sent


def write_until(enough: threading.Event, file: Path, sent: list[str]) -> None:
    with file.open("a") as opened:
        while not enough.wait(0.05):
            sent.append(str(len(sent)))
            opened.write(f"{sent[-1]}\n")
            opened.flush()


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
