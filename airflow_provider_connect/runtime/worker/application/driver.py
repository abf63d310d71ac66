"""The driver process of a run: the application, with Spark or this process as its engine, the run's files and the signal handler.

Started as a program with ``--run-dir DIR``, it runs without Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.masking import Mask, mask_output
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.model.log_lines import write_logs
from airflow_provider_connect.runtime.model.run import (
    CLAIM_FILE,
    FAILURES_FILE,
    PID_FILE,
    PROGRESS_FILE,
    RESULT_FILE,
    RUN_FILE,
    RunSpec,
    TaskResult,
)
from airflow_provider_connect.runtime.worker.application.application import Application
from airflow_provider_connect.runtime.worker.application.plan_process import write_private
from airflow_provider_connect.runtime.worker.application.remote_task import TaskRunner
from airflow_provider_connect.runtime.worker.application.spark_engine import SparkEngine, exit_at_once, start_engine
from airflow_provider_connect.runtime.worker.application.task_processes import run_in_process
from airflow_provider_connect.runtime.worker.application.task_threads import TaskThreads
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

_LOOPBACK = "127.0.0.1"


def run_with_spark(directory: Path) -> NoReturn:
    """Run the ``run.json`` of ``directory``, write the result there and end the process. The exit code is 0 if there is a result.

    SIGTERM ends every task after its current batch.
    """
    spec, engines, mask = _spec(directory), list[SparkEngine](), Mask()
    host = os.environ.get("SPARK_LOCAL_IP") or own_address(spec.settings.get("bootstrap.servers", ""))
    _run(directory, spec, lambda: start_engine(spec.connector, engines, mask), host=host, mask=mask)
    for engine in engines:
        engine.stop()
    exit_at_once(0)
    raise AssertionError("unreachable")


def run_without_spark(directory: Path) -> NoReturn:
    """As ``run_with_spark``, but each task has a process of its own. A single task, and the tasks of a Java connector, run in this
    process."""
    spec, mask, java = _spec(directory), Mask(), JavaHost()
    _run(directory, spec, lambda: _here(mask, java), host=_LOOPBACK, mask=mask, java=java)
    exit_at_once(0)
    raise AssertionError("unreachable")


def _spec(directory: Path) -> RunSpec:
    write_logs(sys.stdout)
    spec = RunSpec.from_json((directory / RUN_FILE).read_text())
    write_private(directory / PID_FILE, str(os.getpid()))  # from now on the file with the secrets is no longer needed
    return spec


def _run(
    directory: Path, spec: RunSpec, start_engine: Callable[[], TaskRunner], *, host: str, mask: Mask, java: JavaHost | None = None
) -> None:
    application = Application(
        spec,
        start_engine,
        host=host,
        on_claim=lambda claim: write_private(directory / CLAIM_FILE, str(claim)),
        on_progress=lambda progress: write_private(directory / PROGRESS_FILE, progress.to_json()),
        on_failures=lambda traces: write_private(directory / FAILURES_FILE, json.dumps(list(traces))),
        mask=mask,
        java=java,
    )
    mask_output(mask)
    signal.signal(signal.SIGTERM, lambda *_: application.request_end())
    write_private(directory / RESULT_FILE, application.run().to_json())


def _here(mask: Mask, java: JavaHost) -> TaskRunner:
    threads = TaskThreads(mask, java, fenced=True)

    def run(payload: TaskPayload) -> TaskResult:
        if payload.needs_spark:
            raise ConfigException.of("airflow.engine", "process", "the connector works with Spark: leave the key out, or write spark")
        return threads.run(payload) if payload.hosted == 1 or payload.is_java else run_in_process(payload)

    return run


def own_address(bootstrap_servers: str) -> str:
    """The address from which this machine reaches the broker. Executors can reach this address too. A host's own name often resolves to its
    loopback interface. Sends nothing."""
    host, _, port = bootstrap_servers.partition(",")[0].rpartition("://")[2].rpartition(":")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as way:
            way.connect(address)
            return str(way.getsockname()[0])
    except (OSError, ValueError):
        return _LOOPBACK


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run's own directory, with run.json in it")
    run_without_spark(parser.parse_args().run_dir)
