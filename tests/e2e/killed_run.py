"""A run of ours that is killed between produce and commit: ``python -m tests.e2e.killed_run``, its environment as JSON on stdin."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_connect.runtime.stores.transactional_producer import TransactionalProducer
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.conftest import CHECKOUT
from tests.integration.worker.environment import RunEnvironment


def run_and_kill(environment: RunEnvironment) -> None:
    """Returns when the process of the run is dead: exactly once has sent everything, records and offsets, at least once the
    records. Nothing is committed."""
    spec = {"properties": environment.properties, "connector": environment.connector, "folder": str(environment.folder)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.killed_run"], input=json.dumps(spec), text=True, cwd=CHECKOUT, timeout=300, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.returncode


def _send_and_die(owner: TransactionalProducer) -> None:
    owner.producer.flush(60)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _die_before_offsets_alone(step: CommitStep) -> Iterator[None]:
    if step is CommitStep.COMMIT_OFFSETS:
        os.kill(os.getpid(), signal.SIGKILL)
    yield


if __name__ == "__main__":
    given = json.load(sys.stdin)
    TransactionalProducer.commit = _send_and_die  # type: ignore[assignment,method-assign]
    RunEnvironment(given["properties"], given["connector"], Path(given["folder"]), step=_die_before_offsets_alone).run()
