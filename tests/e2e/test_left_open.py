"""A worker killed inside a transaction leaves it open: the next search for work sees that there is some, and does not wait for its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings as Settings
from airflow_provider_connect.runtime.worker.application.readiness import LEFT_OPEN, check_readiness
from tests.conftest import WorkerSettings
from tests.e2e.faults.environments import SinkEnvironment, SourceEnvironment
from tests.e2e.faults.processes import processes_with, wait_until_gone
from tests.e2e.faults.runs import Fault, wait_for

DELIVERY = "airflow_provider_connect.runtime.worker.delivery"
SOON_SECONDS = 20.0  # a third of the time after which the broker ends it


@pytest.mark.parametrize(
    ("make", "module"), [(SourceEnvironment.make, "source_delivery"), (SinkEnvironment.make, "sink_delivery")], ids=["source", "sink"]
)
def test_a_transaction_left_open_is_work(
    make: Callable[..., SourceEnvironment | SinkEnvironment], module: str, tmp_path: Path, worker_settings: WorkerSettings
) -> None:
    environment = make(tmp_path, worker_settings(), "exactly_once")
    submission = environment.runs.submit(
        Fault(f"{DELIVERY}.{module}:TransactionalProducer.commit", nth=2, signal="SIGCONT", victim="driver", linger=30.0)
    )  # the worker waits
    wait_for(lambda: submission.struck, 180)
    time.sleep(1.5)  # what is queued reaches the broker
    submission.process.kill()
    wait_until_gone(processes_with(submission.directory), 30)
    started = time.monotonic()
    found = check_readiness(
        Settings.of(environment.runs.settings), environment.runs.connector, define=environment.runs.config, secrets_of=lambda _: {}
    )
    seconds = time.monotonic() - started
    print(f"{seconds:.2f} s: {found}")
    assert (found.state, found.reason) == ("work", LEFT_OPEN)
    assert seconds < SOON_SECONDS
    environment.runs.until_done()
    environment.verdict().expect("exactly_once")
