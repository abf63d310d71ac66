"""The driver of a shared application as a process, with or without Spark, as its Airflow task starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import psutil

from airflow_provider_connect.operators.spark_submit import application_path
from airflow_provider_connect.runtime.model.run import KEEPER_FILE, RUN_FILE, RunSpec
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent, under_keeper
from airflow_provider_connect.runtime.spark.run_directory import write_private
from airflow_provider_connect.runtime.spark.submit_options import submit_options
from tests.e2e.faults.runs import CHECKOUT, INJECTED, Fault, Submission

NAME = "crm"
DRIVER = "airflow_provider_connect.runtime.worker.application.driver"


def start(
    directory: Path,
    settings: Mapping[str, str],
    engine: str,
    fault: Fault | None = None,
    *,
    cores: int = 3,
    struck: str = "",
    seconds: float = 3600.0,
) -> Submission:
    """Start the driver of application ``NAME`` in a new directory, for so many ``seconds``. ``engine``: process, or spark with so many
    ``cores``. ``struck`` is the connector of a fault in a JVM."""
    directory.mkdir(mode=0o700)
    spec = RunSpec("", settings, f"connect-application.{NAME}/run-1", stays_seconds=seconds, application=NAME)
    write_private(directory / RUN_FILE, spec.to_json())
    command, variables = [sys.executable, "-m", DRIVER, "--run-dir", str(directory)], dict(os.environ)
    before_exec = dies_with_parent(own_group=True)
    if engine == "spark":
        master = f"local[{cores}]"
        options = submit_options(master)
        options.conf["spark.python.worker.reuse"] = "false"
        command, variables = options.command(master, application_path(), "--run-dir", str(directory)), options.environment()
        before_exec = under_keeper(directory / KEEPER_FILE)
    token, path = directory / "struck", [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    if fault is not None:
        of_run = {"connector": struck, "bootstrap": settings["bootstrap.servers"], "database": ""}
        variables["FAULT"] = json.dumps({**asdict(fault), **of_run, "token": str(token), "run_dir": str(directory)})
        path.insert(0, str(INJECTED))
    variables["PYTHONPATH"] = os.pathsep.join(path)
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=variables,
            preexec_fn=before_exec,  # as the operator does  # noqa: PLW1509
        )
    return Submission(directory, process, token)


def kill(application: Submission) -> None:
    """Kill the driver with all processes below it, if it has not ended."""
    if application.process.poll() is None:
        for process in [*psutil.Process(application.process.pid).children(recursive=True), psutil.Process(application.process.pid)]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
    application.process.wait()
