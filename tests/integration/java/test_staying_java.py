"""Java connectors in runs that stay: they may ask for other tasks, fail and lose their JVM at any time, as in Kafka Connect."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_connect import Connect
from tests.integration.java.conftest import JavaRuns
from tests.integration.java.processes import children
from tests.integration.standalone.agent import wait_for
from tests.java_plugins import compiled_plugin

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
        """Whether the topic holds these lines, each once."""
        return sorted(self.runs.records(self.name)) == sorted(lines)


@pytest.fixture
def files(java_runs: JavaRuns, folder_plugin: Path, unique: str) -> Folder:
    java_runs.use(folder_plugin, memory="256m")
    java_runs.make_topic(unique)
    return Folder(java_runs, unique)


def test_a_connector_that_asks_for_other_tasks_gets_them(files: Folder) -> None:
    files.add("a.txt", "a1")
    with files.hosted() as connect:
        wait_for(lambda: files.holds("a1"))
        files.add("b.txt", "b1")
        wait_for(lambda: files.holds("a1", "b1"))
        assert files.states(connect) == ["RUNNING", "RUNNING"]
        files.add("a.txt", "a2")
        files.add("b.txt", "b2")
        wait_for(lambda: files.holds("a1", "a2", "b1", "b2"))
        (files.path / "a.txt").unlink()
        wait_for(lambda: files.states(connect) == ["RUNNING"])
        files.add("b.txt", "b3")
        wait_for(lambda: files.holds("a1", "a2", "b1", "b2", "b3"))


def test_a_task_that_failed_for_good_is_started_again_with_another_config(files: Folder) -> None:
    files.add("a.txt", "x" * 2_000_000)  # larger than a request of the producer, in every attempt
    files.add("b.txt", "b1")
    with files.hosted() as connect:
        wait_for(lambda: files.states(connect) == ["FAILED", "RUNNING"])
        wait_for(lambda: files.holds("b1"))
        (files.path / "a.txt").unlink()
        files.add("b.txt", "b2")
        wait_for(lambda: files.states(connect) == ["RUNNING"])
        files.add("b.txt", "b3")
        wait_for(lambda: files.holds("b1", "b2", "b3"))


def test_a_restart_of_the_connector_starts_it_anew(files: Folder) -> None:
    before = children()
    files.add("a.txt", "a1")
    with files.hosted() as connect:
        wait_for(lambda: files.holds("a1"))
        first = {each.pid for each in children() if each not in before}
        connect.herder.restart_connector(files.name, include_tasks=False, only_failed=False)
        wait_for(lambda: len(second := {each.pid for each in children() if each not in before}) == 2 and not second & first)
        files.add("b.txt", "b1")
        wait_for(lambda: files.holds("a1", "b1"))


def test_a_failed_connector_is_started_again_while_its_tasks_continue(files: Folder) -> None:
    files.add("a.txt", "a1")
    with files.hosted() as connect:
        wait_for(lambda: files.holds("a1"))
        (files.path / "fail").touch()
        wait_for(lambda: connect.herder.connector_status(files.name).connector.state == "FAILED")
        trace = connect.herder.connector_status(files.name).connector.trace or ""
        assert "the folder is out of order" in trace
        assert SECRET not in trace
        assert files.states(connect) == ["RUNNING"]
        files.add("a.txt", "a2")
        files.add("b.txt", "b1")
        wait_for(lambda: files.holds("a1", "a2"))
        (files.path / "fail").unlink()
        wait_for(lambda: files.holds("a1", "a2", "b1"))
        assert connect.herder.connector_status(files.name).connector.state == "RUNNING"


def test_a_killed_jvm_is_replaced_and_each_record_comes_once(files: Folder) -> None:
    before = children()
    files.add("a.txt", "a1")
    with files.hosted():
        wait_for(lambda: files.holds("a1"))
        for number in range(2, 6):  # the connector's and the task's
            jvms = [each for each in children() if each not in before]
            assert len(jvms) == 2
            jvms[number % 2].kill()
            files.add("a.txt", f"a{number}")
            wait_for(lambda: files.holds(*(f"a{each}" for each in range(1, number + 1))))  # noqa: B023
            wait_for(lambda: len([each for each in children() if each not in before]) == 2)
