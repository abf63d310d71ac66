"""A run that is killed at a step of its commit: ``python -m tests.integration.worker.killed_run``, with JSON on standard input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep, StepHook
from tests.conftest import CHECKOUT
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment


def run_and_kill(environment: RunEnvironment, config: Mapping[str, str], kill_point: KillPoint) -> None:
    """Run the connector in a process that dies at ``kill_point``, whose method may be a ``CommitStep``. Returns when it is dead."""
    request = {
        "properties": environment.properties,
        "connector": environment.connector,
        "folder": str(environment.folder),
        "path": sys.path,
    }
    asked = {**request, "config": config, "kill_point": [kill_point.method, kill_point.side, kill_point.nth]}
    command = [sys.executable, "-m", "tests.integration.worker.killed_run"]
    done = subprocess.run(command, input=json.dumps(asked), text=True, cwd=CHECKOUT, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, f"ended with {done.returncode} before {kill_point}"


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


if __name__ == "__main__":
    given = json.load(sys.stdin)
    sys.path[:] = given["path"]
    kill_point = KillPoint(*given["kill_point"])
    environment = RunEnvironment(given["properties"], given["connector"], Path(given["folder"]), step=deadly(kill_point))
    if ":" in kill_point.method:
        kill_point.arm()
    print(environment.run(given["config"]))
