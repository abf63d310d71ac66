"""Jobs of Spark, here run in this process: what a body is given, the plugins that travel with it, and the log that comes back."""

from __future__ import annotations

import logging
import os
import pickle
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from airflow_provider_connect.errors import ConfigException, RetriableException, TaskException
from airflow_provider_connect.runtime.java.catalog.manifests import allowed_locations
from airflow_provider_connect.runtime.model.run import Claim, TaskResult
from airflow_provider_connect.runtime.worker.application import spark_engine
from airflow_provider_connect.runtime.worker.application.spark_engine import SparkEngine, body, start_engine
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload


class Context:
    """A SparkContext of one executor, to which payloads travel pickled. ``sent`` counts its archives."""

    def __init__(self, master: str, files: Path) -> None:
        self.master, self.sent, self._files = master, 0, files
        self.defaultParallelism = 1  # Spark's name

    def setLocalProperty(self, key: str, value: str) -> None:  # noqa: N802 - Spark's name
        pass

    def addArchive(self, path: str) -> None:  # noqa: N802 - Spark's name
        self.sent += 1
        archive, _, name = path.partition("#")
        zipfile.ZipFile(archive).extractall(self._files / name)

    def parallelize(self, values: list[TaskPayload], slices: int) -> Context:
        assert slices == 1
        self._values = pickle.loads(pickle.dumps(values))
        return self

    def mapPartitions(self, run: Callable[[Iterable[TaskPayload]], Iterator[object]]) -> Context:  # noqa: N802 - Spark's name
        self._results = run(self._values)
        return self

    def collect(self) -> list[object]:
        return list(self._results)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[TaskPayload]:
    """The payloads of which tasks were run; each logs two lines. Its locations must be there, and have been loaded first."""
    ran: list[TaskPayload] = []
    loaded: list[str] = []

    def run_payload(payload: TaskPayload, *, has_memory_limit: bool) -> TaskResult:
        assert has_memory_limit
        assert loaded == [*payload.locations]
        loaded.clear()
        assert all(Path(path).exists() for path in payload.locations)
        ran.append(payload)
        logging.getLogger("orders").warning("first\nsecond")
        return TaskResult(payload.task, records=7)

    monkeypatch.setattr("airflow_provider_connect.runtime.worker.application.task_loop.run_payload", run_payload)
    monkeypatch.setattr("airflow_provider_connect.runtime.plugins.loading.plugin_loader.prepend_native_locations", loaded.extend)
    return ran


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(pyspark.SparkFiles, "getRootDirectory", lambda: str(files))
    monkeypatch.setattr(pyspark.SparkFiles, "get", lambda name: str(files / name))
    context = Context("spark://one:7077", files)
    monkeypatch.setattr(spark_engine, "_context", lambda _: context)
    return context


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A location of ``plugin.path``."""
    location = tmp_path / "plugins" / "echo-1.0"
    (location / "echo").mkdir(parents=True)
    (location / "echo" / "__init__.py").write_text("VERSION = 1\n")
    return location


def payload(*locations: Path, task: int = 0) -> TaskPayload:
    settings = {"group.id": "connect", "plugin.path": "/plugins"}
    stop = ("127.0.0.1", 1)
    paths = [str(path) for path in locations]
    return TaskPayload("orders", task, 2, settings, {}, {}, {}, Claim(1, "t"), "exactly_once", "run", stop, "token", locations=paths)


@pytest.mark.usefixtures("ran")
def test_a_result_comes_back_and_the_log_of_an_executor_with_it(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    assert SparkEngine("orders").run(payload(task=1)) == TaskResult(1, records=7)
    assert [(line.name, line.levelname, line.getMessage()) for line in caplog.records] == [("orders", "WARNING", "first\nsecond")] * 2
    assert context.sent == 0


def test_on_this_machine_plugins_and_log_stay_where_they_are(
    context: Context, ran: list[TaskPayload], plugin: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context.master = "local[2]"
    SparkEngine("orders").run(payload(plugin))
    assert ran == [payload(plugin)]
    assert context.sent == 0
    assert [line.getMessage() for line in caplog.records] == ["first\nsecond"]


def test_the_plugins_of_a_run_travel_to_executors_once(context: Context, ran: list[TaskPayload], plugin: Path) -> None:
    started: list[SparkEngine] = []
    run = start_engine("orders", started)
    for task in (0, 1):
        run(payload(plugin, task=task))
    assert (len(started), context.sent) == (1, 1)
    for given in ran:
        [location] = given.locations
        assert location != str(plugin)
        assert (Path(location) / "echo" / "__init__.py").read_text() == "VERSION = 1\n"
        assert given.settings == {"group.id": "connect", "plugin.path": os.path.dirname(location), "java.allowed.locations": ""}


def test_an_executor_allows_java_plugins_where_the_drivers_machine_does(context: Context, ran: list[TaskPayload], plugin: Path) -> None:
    other = plugin.parent.parent / "others" / "other-1.0"
    other.mkdir(parents=True)
    (other / "other.jar").write_bytes(b"")
    link = plugin.parent.parent / "link"  # which the executor's machine does not have
    link.symlink_to(plugin.parent)
    given = payload(plugin, other)
    SparkEngine("orders").run(replace(given, settings={**given.settings, "java.allowed.locations": str(link)}))
    [there] = ran
    allowed = allowed_locations(there.settings)
    assert [allowed(Path(path)) for path in there.locations] == [True, False]
    assert str(link) not in there.settings["java.allowed.locations"]


def test_plugins_that_have_gone_since_the_run_began_are_a_reason_for_another_run(context: Context, plugin: Path) -> None:
    (plugin / "echo" / "__init__.py").unlink()
    (plugin / "echo").rmdir()
    plugin.rmdir()
    with pytest.raises(RetriableException, match="The plugins that this run began with cannot be read"):
        SparkEngine("orders").run(payload(plugin))
    assert context.sent == 0


def test_a_second_attempt_of_spark_runs_nothing(ran: list[TaskPayload], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: SimpleNamespace(attemptNumber=lambda: 1))
    with pytest.raises(TaskException, match=r"a second time \(attempt 1\)"):
        list(body([payload()]))
    assert ran == []


def test_a_run_that_stays_needs_a_core_of_this_machine_for_each_task(context: Context, ran: list[TaskPayload]) -> None:
    context.master, context.defaultParallelism = "local[2]", 2
    staying = replace(payload(), stays=True)
    with pytest.raises(ConfigException, match=r"tasks\.max.*the master local\[2\] has 2: lower .* set airflow\.engine=process"):
        SparkEngine("orders").run(replace(staying, hosted=3))
    assert ran == []
    SparkEngine("orders").run(replace(staying, hosted=2))
    assert len(ran) == 1


def test_connectors_of_a_shared_application_have_their_own_plugins_and_find_a_free_core_or_wait(
    context: Context, ran: list[TaskPayload], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locations = [tmp_path / "one", tmp_path / "two"]
    for location in locations:
        location.mkdir()
        (location / "plugin.py").write_text("")
    engine = SparkEngine("crm", is_shared=True)
    for location in [*locations, locations[0]]:
        engine.run(payload(location))
    assert context.sent == 2
    folders = ["connect-plugins-0", "connect-plugins-1", "connect-plugins-0"]
    assert [Path(one.locations[0]).relative_to(tmp_path / "files").parts[0] for one in ran] == folders

    context.master = "local[1]"
    staying = replace(payload(), stays=True, hosted=1)
    monkeypatch.setattr(context, "collect", lambda: [engine.run(staying)])
    with pytest.raises(RetriableException, match=r"No core is free.*local\[1\] has 1.*set airflow\.application\.crm\.engine=process"):
        engine.run(staying)
