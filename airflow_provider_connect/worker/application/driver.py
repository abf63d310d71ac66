"""The driver process of a run: the application with Spark as its engine, its files, its signal."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from airflow_provider_connect.config.masking import Mask, mask_output
from airflow_provider_connect.model.log_lines import write_logs
from airflow_provider_connect.model.run import CLAIM_FILE, PID_FILE, PROGRESS_FILE, RESULT_FILE, RUN_FILE, RunSpec
from airflow_provider_connect.worker.application.application import Application
from airflow_provider_connect.worker.application.plan_process import write_private
from airflow_provider_connect.worker.application.spark_engine import SparkEngine, exit_at_once, starter


def run_with_spark(directory: Path) -> NoReturn:
    """Run the ``run.json`` of ``directory``, leave the result there and end the process. The exit code is 0 whenever there is a result.

    SIGTERM ends every task body after its current batch.
    """
    write_logs(sys.stdout)
    spec = RunSpec.from_json((directory / RUN_FILE).read_text())
    write_private(directory / PID_FILE, str(os.getpid()))  # from here on the file with the secrets is not needed any more
    engines: list[SparkEngine] = []
    mask = Mask()
    application = Application(
        spec,
        lambda: starter(spec.connector, engines, mask),
        host=os.environ.get("SPARK_LOCAL_IP") or own_address(spec.settings.get("bootstrap.servers", "")),
        on_claim=lambda claim: write_private(directory / CLAIM_FILE, str(claim)),
        on_progress=lambda progress: write_private(directory / PROGRESS_FILE, progress.to_json()),
        mask=mask,
    )
    mask_output(mask)
    signal.signal(signal.SIGTERM, lambda *_: application.request_end())
    result = application.run()
    write_private(directory / RESULT_FILE, result.to_json())
    for engine in engines:
        engine.stop()
    exit_at_once(0)
    raise AssertionError("unreachable")


def own_address(bootstrap_servers: str) -> str:
    """The address of this machine on the way to the broker, where executors can reach it too. A host's own name often means its loopback
    interface. Sends nothing."""
    host, _, port = bootstrap_servers.partition(",")[0].rpartition("://")[2].rpartition(":")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as way:
            way.connect(address)
            return str(way.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"
