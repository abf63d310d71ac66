"""A worker killed inside a transaction leaves it open: the next search for work sees that there is some, and does not wait for its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings as Settings
from airflow_provider_connect.runtime.worker.application.readiness import LEFT_OPEN, Readiness, check_readiness
from tests.conftest import WorkerSettings
from tests.e2e.faults.environments import SinkEnvironment, SourceEnvironment
from tests.e2e.faults.processes import processes_with, wait_until_gone
from tests.e2e.faults.runs import Fault
from tests.waiting import HANG_SECONDS, wait_until

DELIVERY = "airflow_provider_connect.runtime.worker.delivery"


@pytest.mark.parametrize(
    ("make", "module"), [(SourceEnvironment.make, "source_delivery"), (SinkEnvironment.make, "sink_delivery")], ids=["source", "sink"]
)
def test_a_transaction_left_open_is_work(
    make: Callable[..., SourceEnvironment | SinkEnvironment], module: str, tmp_path: Path, worker_settings: WorkerSettings
) -> None:
    environment = make(tmp_path, worker_settings(producer_transaction_timeout_ms="900000"), "exactly_once")  # the most that a broker allows
    submission = environment.runs.submit(
        Fault(f"{DELIVERY}.{module}:TransactionalProducer.commit", nth=2, signal="SIGCONT", victim="driver", linger=2 * HANG_SECONDS)
    )  # the worker waits
    wait_until(lambda: submission.struck)

    def checked() -> Readiness:
        runs = environment.runs
        return check_readiness(Settings.of(runs.settings), runs.connector, define=runs.config, secrets_of=lambda _: {})

    wait_until(lambda: checked().reason == LEFT_OPEN, "what is queued reaches the broker")
    submission.process.kill()
    wait_until_gone(processes_with(submission.directory))
    started = time.monotonic()
    found = checked()
    seconds = time.monotonic() - started
    print(f"{seconds:.2f} s: {found}")
    assert (found.state, found.reason) == ("work", LEFT_OPEN)
    assert seconds < HANG_SECONDS, "the broker ends the transaction after fifteen minutes"
    environment.runs.until_done()
    environment.verdict().expect("exactly_once")
