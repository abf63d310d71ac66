"""Java connectors as applications of Spark: the plan's JVM is a child of the driver, each task's of its Python worker."""

import json
import subprocess

import pytest

from airflow_provider_connect.model.run import RESULT_FILE, RUN_FILE, RunResult, RunSpec, RunState
from airflow_provider_connect.spark.submit_options import submit_options
from tests.conftest import CHECKOUT
from tests.integration.java.conftest import SINK, SOURCE, JavaRuns


def submitted(java_runs: JavaRuns, name: str, **config: str) -> RunResult:
    """One run of the connector by spark-submit."""
    chosen = {"name": name, "connector.plugin.location": "file", "tasks.max": "1", **{k.replace("_", "."): v for k, v in config.items()}}
    directory = java_runs.folder / f"run-{name}"
    directory.mkdir(mode=0o700)
    (directory / RUN_FILE).write_text(RunSpec(name, java_runs.worker, "run-1", define=chosen).to_json())
    options = submit_options("local[1]", scratch=java_runs.folder)
    command = options.command("local[1]", str(CHECKOUT / "spark_jobs" / "run_connector.py"), "--run-dir", str(directory))
    done = subprocess.run(command, env=options.environment(), capture_output=True, text=True, timeout=300, check=False)
    assert (directory / RESULT_FILE).exists(), done.stdout + done.stderr
    return RunResult.from_json((directory / RESULT_FILE).read_text())


@pytest.mark.timeout(600)
def test_a_source_and_a_sink_run_as_applications_of_spark(java_runs: JavaRuns, unique: str) -> None:
    java_runs.input.write_text("one\ntwo\n")
    source = submitted(java_runs, f"{unique}-in", connector_class=SOURCE, file=str(java_runs.input), topic=unique)
    sink = submitted(java_runs, f"{unique}-out", connector_class=SINK, file=str(java_runs.output), topics=unique)
    for result in (source, sink):
        assert (result.state, result.error) == (RunState.DONE, None)
        assert [task.records for task in result.tasks] == [2]
        assert json.loads(result.to_json())["versions"]["connector"] == "4.3.1"
    assert java_runs.output.read_text() == "one\ntwo\n"
