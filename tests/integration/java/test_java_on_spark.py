"""Java connectors as applications: of Spark, where the plan's JVM is a child of the driver and each task's of its Python worker, and of one
process without Spark, where the plan's JVM is the task's too."""

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

from airflow_provider_connect.runtime.model.run import RESULT_FILE, RUN_FILE, RunResult, RunSpec, RunState
from airflow_provider_connect.runtime.spark.submit_options import submit_options
from tests.conftest import CACHE, CHECKOUT
from tests.integration.java.conftest import SINK, SOURCE, JavaRuns
from tests.integration.standalone.agent import without_airflow
from tests.waiting import HANG_SECONDS


def started(java_runs: JavaRuns, name: str, config: Mapping[str, str], command: list[str], environment: Mapping[str, str]) -> RunResult:
    """One run of the connector by the command, which is given the run's directory."""
    chosen = {"name": name, "connector.plugin.location": "file", "tasks.max": "1", **{k.replace("_", "."): v for k, v in config.items()}}
    directory = java_runs.folder / f"run-{name}"
    directory.mkdir(mode=0o700)
    (directory / RUN_FILE).write_text(RunSpec(name, java_runs.worker, "run-1", define=chosen).to_json())
    done = subprocess.run([*command, str(directory)], env=environment, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert (directory / RESULT_FILE).exists(), done.stdout + done.stderr
    return RunResult.from_json((directory / RESULT_FILE).read_text())


def submitted(java_runs: JavaRuns, name: str, **config: str) -> RunResult:
    options = submit_options("local[1]", scratch=java_runs.folder)
    command = options.command("local[1]", str(CHECKOUT / "spark_jobs" / "run_connector.py"), "--run-dir")
    return started(java_runs, name, config, command, options.environment())


def test_a_source_runs_without_spark(java_runs: JavaRuns, unique: str) -> None:
    java_runs.input.write_text("one\ntwo\n")
    command = [sys.executable, "-m", "airflow_provider_connect.runtime.worker.application.driver", "--run-dir"]
    config = {"connector_class": SOURCE, "file": str(java_runs.input), "topic": unique}
    environment = {**without_airflow(java_runs.folder), "AIRFLOW_PROVIDER_CONNECT_CACHE": str(CACHE)}
    result = started(java_runs, unique, config, command, environment)
    assert (result.state, result.error, [task.records for task in result.tasks]) == (RunState.DONE, None, [2])
    assert result.tasks[0].cpu_seconds > 0.5, "of the JVM too"
    assert 6 <= result.tasks[0].bytes < 1000
    assert java_runs.records(unique) == ["one", "two"]
    assert java_runs.offset(unique) == {"position": 8}


@pytest.mark.timeout(600)
@pytest.mark.soak
def test_a_source_and_a_sink_run_as_applications_of_spark(java_runs: JavaRuns, unique: str) -> None:
    java_runs.input.write_text("one\ntwo\n")
    source = submitted(java_runs, f"{unique}-in", connector_class=SOURCE, file=str(java_runs.input), topic=unique)
    sink = submitted(java_runs, f"{unique}-out", connector_class=SINK, file=str(java_runs.output), topics=unique)
    for result in (source, sink):
        assert (result.state, result.error) == (RunState.DONE, None)
        assert [task.records for task in result.tasks] == [2]
        assert result.tasks[0].cpu_seconds > 0.5, "of the JVM too"
        assert 6 <= result.tasks[0].bytes < 1000
        assert json.loads(result.to_json())["versions"]["connector"] == "4.3.1"
    assert java_runs.output.read_text() == "one\ntwo\n"
