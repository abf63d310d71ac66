"""A run of ours that is killed between produce and commit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_connect.runtime.stores.transactional_producer import TransactionalProducer
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.integration.worker.environment import RunEnvironment
from tests.killed_process import run_to_kill
from tests.waiting import HANG_SECONDS


def run_and_kill(environment: RunEnvironment) -> None:
    """Returns when the process of the run is dead: exactly once has sent everything, records and offsets, at least once the
    records. Nothing is committed."""
    run_to_kill(_run, environment.properties, environment.connector, environment.folder)


def _run(properties: dict[str, str], connector: str, folder: Path) -> None:
    TransactionalProducer.commit = _send_and_die  # type: ignore[assignment,method-assign]
    RunEnvironment(properties, connector, folder, step=_die_before_offsets_alone).run()


def _send_and_die(owner: TransactionalProducer) -> None:
    owner.producer.flush(HANG_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def _die_before_offsets_alone(step: CommitStep) -> Iterator[None]:
    if step is CommitStep.COMMIT_OFFSETS:
        os.kill(os.getpid(), signal.SIGKILL)
    yield
