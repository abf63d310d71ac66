"""Java plugins that end their JVM or lack a class, in a task or in a validation, and one whose validation raises an exception of 50 MB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider_connect import Connect
from airflow_provider_connect.errors import MOST_CHARACTERS, ConnectException, last_line
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from tests.integration.java.conftest import JavaRuns
from tests.java_plugins import compiled_plugin
from tests.waiting import HANG_SECONDS, wait_until

ODD = "org.example.OddSinkConnector"
SLOW_MACHINE_MS = "300000"
EXIT = "org.example.OddSinkConnector.fail called System.exit(3), which ended the JVM of "
MISSING = "There is no class some.Missing in the jars of "
VALIDATED = {"name": "odd", "connector.class": ODD, "topics": "t", "where": "validate"}


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_plugin(tmp_path_factory.mktemp("compiled"), ODD, "sink.SinkConnector")


@pytest.fixture(scope="module")
def probe(plugin_path: Path) -> Iterator[PluginProbe]:
    located = {"plugin.path": str(plugin_path), "java.allowed.locations": str(plugin_path)}
    with PluginProbe(
        WorkerSettings.of({"bootstrap.servers": "localhost:1", "plugin.probe.timeout.ms": SLOW_MACHINE_MS, **located})
    ) as opened:
        yield opened


@pytest.fixture
def sink(java_runs: JavaRuns, plugin_path: Path, unique: str) -> dict[str, str]:
    """The config of a sink with a record to deliver."""
    java_runs.use(plugin_path)
    java_runs.make_topic(unique)
    producer = Producer({"bootstrap.servers": java_runs.settings.bootstrap_servers})
    producer.produce(unique, b"a record")
    assert producer.flush(HANG_SECONDS) == 0
    return {"name": unique, "connector.class": ODD, "topics": unique, "where": "put", "tasks.max": "1"}


def test_system_exit_in_a_task_is_named_and_not_retried(java_runs: JavaRuns, sink: dict[str, str], unique: str) -> None:
    code, output = java_runs.run(java_runs.config(unique, ODD, topics=unique, where="put", does="exit"))
    assert code == 1, output
    trace = java_runs.task(unique).trace
    assert f"TaskException: {EXIT}{ODD} (" in str(trace)


def test_system_exit_in_a_task_of_a_run_that_stays_leaves_it_failed(java_runs: JavaRuns, sink: dict[str, str], unique: str) -> None:
    with Connect(unique, java_runs.worker) as connect:
        connect.add_connector({**sink, "does": "exit"})
        wait_until(lambda: [task.state for task in connect.herder.connector_status(unique).tasks] == ["FAILED"])
        assert EXIT in str(connect.herder.connector_status(unique).tasks[0].trace)


def test_system_exit_in_a_validation_is_named_and_costs_one_request(probe: PluginProbe) -> None:
    with pytest.raises(ConnectException) as raised:
        probe.validate(None, {**VALIDATED, "does": "exit"})
    assert f"{EXIT}{ODD} (" in raised.value.message
    assert probe.validate(None, {**VALIDATED, "where": "put"}).error_count == 0


def test_a_missing_class_is_named_with_the_plugin(java_runs: JavaRuns, sink: dict[str, str], probe: PluginProbe, unique: str) -> None:
    with pytest.raises(ConnectException) as raised:
        probe.validate(None, {**VALIDATED, "does": "miss"})
    assert raised.value.message.startswith(f"{MISSING}{ODD} (")
    java_runs.run(java_runs.config(unique, ODD, topics=unique, where="put", does="miss"))
    assert last_line(str(java_runs.task(unique).trace)).startswith(f"{MISSING}{ODD} (")


def test_an_exception_of_50_mb_is_cut(probe: PluginProbe) -> None:
    with pytest.raises(ConnectException, match=r"^begin x{4000,}…$") as raised:
        probe.validate(None, {**VALIDATED, "does": "talk"})
    assert len(raised.value.message) < MOST_CHARACTERS
    assert probe.validate(None, {**VALIDATED, "where": "put"}).error_count == 0
