"""Whatever process of a run is killed, the others end with it; and Airflow, even with its scheduler killed, ends the run well."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.conftest import WorkerSettings
from tests.e2e.chaos.through_airflow import AirflowRun, AirflowRuns
from tests.e2e.faults.environments import SinkEnvironment, SourceEnvironment
from tests.e2e.faults.processes import descendants, processes_with, wait_until_gone
from tests.e2e.faults.runs import CHECKOUT, Fault
from tests.waiting import HANG_SECONDS, wait_until

HELD_SECONDS = 2 * HANG_SECONDS  # by then, processes that a killed one takes along are gone
STEP = CommitStep.COMMIT_TRANSACTION
SINK_STEP = CommitStep.COMMIT_GROUP
LAUNCHER = "import subprocess, sys; subprocess.run(sys.argv[1:])"  # stands for Airflow's supervisor, the submitter for its task process
OVERLAP_SECONDS = 12.0


def held(step: str = STEP, seconds: float = HELD_SECONDS) -> Fault:
    """The worker waits in the middle of a commit; no process is killed."""
    return Fault(step, signal="SIGCONT", victim="jvm", linger=seconds)


@contextmanager
def submitted(environment: SourceEnvironment, folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A run held in the middle of a commit, as Airflow would start it: the process that launched all, and Spark's processes."""
    request = {
        "folder": str(folder),
        "connector": environment.runs.connector,
        "settings": environment.runs.settings,
        "config": environment.runs.config,
    }
    variables = {**os.environ, "AIRFLOW_HOME": str(folder / "airflow"), "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-c", LAUNCHER, sys.executable, "-m", "tests.e2e.faults.submitter"]
    launcher = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=variables, cwd=CHECKOUT)
    assert launcher.stdin is not None
    started: list[psutil.Process] = []
    try:
        launcher.stdin.write(json.dumps({**request, "fault": dataclasses.asdict(held())}))
        launcher.stdin.close()
        wait_until(lambda: launcher.poll() is not None or any(folder.glob("*/struck")))
        assert launcher.poll() is None, "nothing was submitted"
        started = descendants(launcher)
        (token,) = folder.glob("*/struck")
        yield launcher, processes_with(token.parent)
    finally:
        for process in started or descendants(launcher):  # only what this launcher has started
            with suppress(psutil.NoSuchProcess):
                process.kill()
        launcher.kill()
        launcher.wait()


@pytest.mark.parametrize(
    "victim", ["jvm", pytest.param("driver", marks=pytest.mark.soak), pytest.param("task", marks=pytest.mark.soak), "supervisor"]
)
def test_a_killed_process_takes_all_of_its_run_along(victim: str, tmp_path: Path, worker_settings: WorkerSettings) -> None:
    environment = SourceEnvironment.make(tmp_path, worker_settings(), "exactly_once")
    with submitted(environment, tmp_path / "run") as (launcher, processes):
        jvm = the_jvm(processes)
        submitter = jvm.parent()
        victims = {"jvm": jvm, "driver": the_driver(processes), "task": submitter, "supervisor": psutil.Process(launcher.pid)}
        assert len(processes) >= 4, processes  # JVM, driver, Python daemon, worker
        assert submitter.ppid() == launcher.pid, submitter
        assert victims[victim].pid in {launcher.pid, *(process.pid for process in descendants(launcher))}
        victims[victim].kill()
        seconds = wait_until_gone([*processes, submitter])
        print(f"{victim} killed: {len(processes)} processes gone after {seconds:.2f} s")
    environment.runs.until_done()
    environment.verdict().expect("exactly_once")


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowRuns]:
    with AirflowRuns(tmp_path_factory.mktemp("airflow") / "stack") as runs:
        yield runs


@pytest.fixture
def connector(airflow: AirflowRuns, tmp_path: Path) -> SourceEnvironment:
    """A connector that Airflow knows."""
    environment = SourceEnvironment.make(tmp_path, airflow.properties, "exactly_once")
    airflow.define([environment.runs.config])
    return environment


@pytest.mark.soak  # tests/integration/airflow/test_runs kills a task process in every run
@pytest.mark.parametrize("victim", ["task", "supervisor"])
def test_airflow_retries_what_a_killed_process_took_along(victim: str, airflow: AirflowRuns, connector: SourceEnvironment) -> None:
    run = airflow.start(connector.runs.connector, held())
    assert run.wait_until_struck(), airflow.last_log(run.run)
    processes = airflow.processes_of(connector.runs.connector)
    task = the_jvm(processes).parent()
    supervisor = task.parent()
    airflow.kill(task if victim == "task" else supervisor)
    seconds = wait_until_gone([*processes, task])
    print(f"{victim} killed: {len(processes)} processes gone after {seconds:.2f} s")
    finish(run, connector)


@pytest.mark.soak
def test_a_scheduler_that_is_killed_and_started_again_loses_and_doubles_nothing(airflow: AirflowRuns, tmp_path: Path) -> None:
    """The next scheduler starts a second copy of the run while the first is still there."""
    environment = SinkEnvironment.make(tmp_path, airflow.properties, "exactly_once")
    airflow.define([environment.runs.config])
    run = airflow.start(environment.runs.connector, Fault(SINK_STEP, signal="SIGKILL", victim="scheduler", linger=OVERLAP_SECONDS))
    assert run.wait_until_struck(), airflow.last_log(run.run)
    airflow.restart_scheduler()
    finish(run, environment)
    logs = list(airflow.stack.log_folder.glob(f"dag_id={run.run.dag_id}/*/task_id=run/attempt=*.log"))
    assert len(logs) >= 2, logs


def finish(run: AirflowRun, environment: SourceEnvironment | SinkEnvironment) -> None:
    """Airflow brings the run to a good end by itself, and nothing is lost or doubled."""
    started = time.monotonic()
    assert run.wait() == "success", run.runs.last_log(run.run)
    verdict = environment.verdict()
    print(f"success {time.monotonic() - started:.1f} s later: {verdict}")
    verdict.expect("exactly_once")


def the_jvm(processes: list[psutil.Process]) -> psutil.Process:
    (jvm,) = [process for process in processes if process.name() == "java"]
    return jvm


def the_driver(processes: list[psutil.Process]) -> psutil.Process:
    (driver,) = [process for process in processes if process.name() != "java" and "--run-dir" in process.cmdline()]
    return driver
