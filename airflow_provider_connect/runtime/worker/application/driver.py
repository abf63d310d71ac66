"""The driver process of a run: the application, of one connector or shared, with Spark or this process as its engine, the run's files and
the signal handler.

Started as a program with ``--run-dir DIR``, it runs without Spark.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.dag_settings import ENGINE, PROCESS, application_key
from airflow_provider_connect.runtime.config.masking import Mask, mask_output
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.model.log_lines import write_logs
from airflow_provider_connect.runtime.model.run import (
    CLAIM_FILE,
    FAILURES_FILE,
    KEEPER_FILE,
    LEFT_FILE,
    PID_FILE,
    PROGRESS_FILE,
    RESULT_FILE,
    RUN_FILE,
    RunResult,
    RunSpec,
    TaskResult,
)
from airflow_provider_connect.runtime.spark.driver_heartbeat import send_heartbeats
from airflow_provider_connect.runtime.spark.parent_death import discard_output, outlive_parent
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory, write_private
from airflow_provider_connect.runtime.spark.secret_requests import request_secrets
from airflow_provider_connect.runtime.worker.application.application import Application
from airflow_provider_connect.runtime.worker.application.remote_task import TaskRunner
from airflow_provider_connect.runtime.worker.application.shared_processes import SharedProcesses
from airflow_provider_connect.runtime.worker.application.shared_run import SharedRun
from airflow_provider_connect.runtime.worker.application.spark_engine import SparkEngine, exit_at_once, start_engine
from airflow_provider_connect.runtime.worker.application.task_processes import run_in_process
from airflow_provider_connect.runtime.worker.application.task_threads import TaskThreads
from airflow_provider_connect.runtime.worker.task.task_payload import TaskPayload

_LOOPBACK = "127.0.0.1"
_KEEPER_SECONDS, _STEP_SECONDS = 2.0, 0.01

log = logging.getLogger(__name__)


def run_with_spark(directory: Path) -> NoReturn:
    """Run the ``run.json`` of ``directory``, write the result there and end the process. The exit code is 0 if there is a result.

    SIGTERM ends every task after its current batch.
    """
    spec, engines, mask = _spec(directory), list[SparkEngine](), Mask()
    host = os.environ.get("SPARK_LOCAL_IP") or own_address(spec.settings.get("bootstrap.servers", ""))
    name, is_shared = spec.application or spec.connector, spec.application is not None
    _run(directory, spec, lambda: start_engine(name, engines, mask, is_shared=is_shared), host=host, mask=mask, leave=_leave_with_spark)
    for engine in engines:
        engine.stop()
    exit_at_once(0)
    raise AssertionError("unreachable")


def run_without_spark(directory: Path) -> NoReturn:
    """As ``run_with_spark``, but each task has a process of its own. A single task, and the tasks of a Java connector, run in this process.
    In a shared application, tasks share processes, but for those of Java connectors."""
    spec, mask, java = _spec(directory), Mask(), JavaHost()
    _run(directory, spec, lambda: _here(spec, mask, java), host=_LOOPBACK, mask=mask, leave=_leave, java=java)
    exit_at_once(0)
    raise AssertionError("unreachable")


def _spec(directory: Path) -> RunSpec:
    write_logs(sys.stdout)
    spec = RunSpec.from_json((directory / RUN_FILE).read_text())
    write_private(directory / PID_FILE, str(os.getpid()))  # from now on the file with the secrets is no longer needed
    send_heartbeats(directory / PID_FILE)
    return spec


def _run(
    directory: Path,
    spec: RunSpec,
    start_engine: Callable[[], TaskRunner],
    *,
    host: str,
    mask: Mask,
    leave: Callable[[Path], bool],
    java: JavaHost | None = None,
) -> None:
    application: Application | SharedRun

    def leave_airflow(result: RunResult) -> bool:
        return leave(directory) and _report_and_leave(directory, result)

    may_leave = leave_airflow if spec.may_leave else None
    if spec.application is not None:
        secrets_of = partial(request_secrets, directory)
        application = SharedRun(spec, start_engine, host=host, mask=mask, secrets_of=secrets_of, leave=may_leave)
        _run_to_end(directory, application, mask)
        return
    application = Application(
        spec,
        start_engine,
        host=host,
        on_claim=lambda claim: write_private(directory / CLAIM_FILE, str(claim)),
        on_progress=lambda progress: write_private(directory / PROGRESS_FILE, progress.to_json()),
        on_failures=lambda traces: write_private(directory / FAILURES_FILE, json.dumps(list(traces))),
        mask=mask,
        java=java,
        leave=may_leave,
    )
    _run_to_end(directory, application, mask)


def _run_to_end(directory: Path, application: Application | SharedRun, mask: Mask) -> None:
    mask_output(mask)
    signal.signal(signal.SIGTERM, lambda *_: application.request_end())
    signal.signal(signal.SIGUSR1, lambda *_: application.request_handover())
    result = application.run()
    run = RunDirectory(directory)
    if run.has_left:
        run.remove()
    else:
        write_private(directory / RESULT_FILE, result.to_json())


def _leave(_: Path) -> bool:
    """Let this process outlive Airflow's task, its parent."""
    outlive_parent()
    return True


def _leave_with_spark(directory: Path) -> bool:
    """Let spark-submit, and with it this process, outlive Airflow's task. False: its keeper does not answer."""
    file, until = directory / KEEPER_FILE, time.monotonic() + _KEEPER_SECONDS
    with suppress(OSError, ValueError):
        os.kill(int(file.read_text()), signal.SIGUSR1)
        while file.exists() and time.monotonic() < until:
            time.sleep(_STEP_SECONDS)
        return not file.exists()
    return False


def _report_and_leave(directory: Path, result: RunResult) -> bool:
    """Report the result to Airflow's task, which then ends. False: it cannot be written.

    Steps: 1 write the result; 2 print nothing any longer, because the reader may end at once; 3 note that the application has left; 4 have
    the reader look, which it does after each line.
    """
    try:
        write_private(directory / RESULT_FILE, result.to_json())  # 1
        output = os.dup(1)
        discard_output()  # 2
        write_private(directory / LEFT_FILE, "")  # 3
    except OSError as error:
        log.warning("The result could not be written, so the run ends: %s", error)
        return False
    with suppress(OSError):
        os.write(output, b"Airflow starts the next run. This application delivers until that run takes over.\n")  # 4
    os.close(output)
    return True


def _here(spec: RunSpec, mask: Mask, java: JavaHost) -> TaskRunner:
    threads, shared = TaskThreads(mask, java, has_memory_limit=True), SharedProcesses(spec.settings, spec.secrets)

    def run(payload: TaskPayload) -> TaskResult:
        if payload.needs_spark:
            key = ENGINE if spec.application is None else application_key(spec.application, "engine")
            raise ConfigException.of(key, PROCESS, "the connector works with Spark: leave the key out, or write spark")
        if spec.application is not None:
            return run_in_process(payload) if payload.is_java else shared.run(payload)
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
