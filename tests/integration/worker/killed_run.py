"""A run that is killed at a step of its commit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep, StepHook
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment
from tests.killed_process import run_to_kill


def run_and_kill(environment: RunEnvironment, config: Mapping[str, str], kill_point: KillPoint) -> None:
    """Run the connector in a process that dies at ``kill_point``, whose method may be a ``CommitStep``. Returns when it is dead."""
    run_to_kill(_run, environment.properties, environment.connector, environment.folder, config, kill_point)


def _run(properties: dict[str, str], connector: str, folder: Path, config: Mapping[str, str], kill_point: KillPoint) -> None:
    if ":" in kill_point.method:
        kill_point.arm()
    print(RunEnvironment(properties, connector, folder, step=deadly(kill_point)).run(config))


def deadly(kill_point: KillPoint) -> StepHook:
    """The hook that ends this process at ``kill_point``."""
    calls = count(1)

    @contextmanager
    def around(step: CommitStep) -> Iterator[None]:
        is_nth = step == kill_point.method and next(calls) == kill_point.nth
        if is_nth and kill_point.side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        yield
        if is_nth:
            os.kill(os.getpid(), signal.SIGKILL)

    return around
