"""A task that takes memory without end: its process is killed alone, with a name, and nothing is lost or doubled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from airflow_provider_connect.runtime.model.run import RESULT_FILE, RUN_FILE, RunResult, RunSpec, RunState
from airflow_provider_connect.runtime.spark.run_directory import write_private
from airflow_provider_connect.runtime.spark.submit_options import submit_options
from tests.conftest import CHECKOUT
from tests.integration.worker import hungry
from tests.integration.worker.environment import RunEnvironment, make_topic, values_of
from tests.waiting import HANG_SECONDS

LIMIT: Final = "256m"
ALL: Final = [f"0-{number}" for number in range(30)]
SIBLING: Final = [f"1-{number}" for number in range(30)]
POSITION: Final = "what follows source partition {'task': 0}, offset {'next': 10}"


@pytest.fixture
def hungry_task(environment: RunEnvironment, unique: str) -> dict[str, str]:
    """The config of a source whose first task eats after its tenth record, while the file ``eats`` is there."""
    hungry.install(environment.folder / "locations")
    environment.properties |= {"plugin.path": str(environment.folder / "locations"), "task.memory.max": LIMIT}
    (environment.folder / "eats").touch()
    make_topic(environment.bootstrap, unique)
    own = {"topic": unique, "while": str(environment.folder / "eats"), "how": "eat_slowly", "tasks": "2", "tasks.max": "2"}
    return {"name": environment.connector, "connector.class": hungry.NAME, **own}


def started(environment: RunEnvironment, config: Mapping[str, str], engine: str) -> subprocess.CompletedProcess[str]:
    """A whole run in processes of its own."""
    environment.runs += 1
    directory = environment.folder / f"run-{environment.runs}"
    directory.mkdir(mode=0o700)
    spec = RunSpec(environment.connector, environment.properties, f"run-{environment.runs}", define=config)
    write_private(directory / RUN_FILE, spec.to_json())
    arguments = ["--run-dir", str(directory)]
    command, variables = [sys.executable, "-m", "airflow_provider_connect.runtime.worker.application.driver", *arguments], None
    if engine == "spark":
        options = submit_options("local[2]", scratch=environment.folder)
        command = options.command("local[2]", str(CHECKOUT / "spark_jobs" / "run_connector.py"), *arguments)
        variables = options.environment()
    return subprocess.run(command, env=variables, cwd=CHECKOUT, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)


def result_of(environment: RunEnvironment) -> RunResult:
    return RunResult.from_json((environment.folder / f"run-{environment.runs}" / RESULT_FILE).read_text())


@pytest.mark.parametrize(
    ("engine", "how"),
    [
        pytest.param("process", "eat_slowly", marks=pytest.mark.soak),
        ("process", "eat_at_once"),
        pytest.param("spark", "eat_by_arrow", marks=pytest.mark.soak),
    ],
)
def test_the_task_fails_alone(environment: RunEnvironment, unique: str, hungry_task: dict[str, str], engine: str, how: str) -> None:
    ended = started(environment, {**hungry_task, "how": how}, engine)
    output = ended.stdout + ended.stderr
    result = result_of(environment)
    assert ([task.state for task in result.tasks], result.state) == (["FAILED", "RUNNING"], RunState.FAILED), output
    trace = str(result.tasks[0].trace)
    assert trace.startswith(f"airflow_provider_connect.errors.TaskMemoryException: Task {environment.connector}-0 needs more memory"), trace
    assert all(part in trace for part in ("limit is 256 MiB", POSITION, "task.memory.max", "smaller batches")), trace
    assert result.tasks[0].retriable
    assert f"Task {environment.connector}-0 needs more memory" in output
    assert {task: (str(status.state), status.trace) for task, status in environment.statuses().task_map(environment.connector).items()} == {
        0: ("FAILED", trace),
        1: ("RUNNING", None),
    }
    assert result.tasks[1].records == len(SIBLING)
    (environment.folder / "eats").unlink()
    started(environment, hungry_task, engine)
    assert sorted(values_of(environment.bootstrap, unique)) == sorted([*ALL, *SIBLING])


def test_a_task_alone_in_its_run(environment: RunEnvironment, unique: str, hungry_task: dict[str, str]) -> None:
    """It runs in the driver's process, whose last line has the name."""
    environment.properties["task.memory.max"] = "2g"
    ended = started(environment, {**hungry_task, "tasks": "1", "task.memory.max": "300m"}, "process")
    last = (ended.stdout + ended.stderr).splitlines()[-1]
    assert ended.returncode == -9
    assert f"Task {environment.connector}-0 needs more memory" in last
    assert "limit is 300 MiB" in last
    (environment.folder / "eats").unlink()
    started(environment, {**hungry_task, "tasks": "1"}, "process")
    assert values_of(environment.bootstrap, unique) == ALL


def test_a_connector_may_not_ask_for_more_than_the_worker_allows(environment: RunEnvironment, hungry_task: dict[str, str]) -> None:
    result = environment.run({**hungry_task, "task.memory.max": "1g"})
    assert result.state is RunState.FAILED
    assert "Invalid value 1g for configuration task.memory.max: Value must be no more than 256m" in str(result.error)


def test_connect_run_ends_with_the_name(environment: RunEnvironment, hungry_task: dict[str, str], tmp_path: Path) -> None:
    worker, connector = tmp_path / "worker.properties", tmp_path / "connector.properties"
    for file, properties in ((worker, environment.properties), (connector, {**hungry_task, "tasks": "1"})):
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = [sys.executable, "-m", "airflow_provider_connect.standalone.one_run", str(connector), "--worker", str(worker)]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert ended.returncode == -9
    assert f"Task {environment.connector}-0 needs more memory" in ended.stderr.splitlines()[-1]
