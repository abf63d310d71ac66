"""A run of ours that is killed between produce and commit: ``python -m tests.e2e.killed_run``, the scene as JSON on standard input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from airflow_provider_connect.worker.delivery.source_delivery import AtLeastOnce, ExactlyOnce
from tests.conftest import CHECKOUT
from tests.integration.worker.scene import Scene


def run_and_kill(scene: Scene) -> None:
    """Returns when the process of the run is dead: everything was sent, records and offsets, and nothing committed."""
    spec = {"properties": scene.properties, "connector": scene.connector, "folder": str(scene.folder)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.killed_run"], input=json.dumps(spec), text=True, cwd=CHECKOUT, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.returncode


def _die_before_the_commit() -> None:
    def exactly_once(self: ExactlyOnce) -> None:
        self._producer.producer.flush(20)
        os.kill(os.getpid(), signal.SIGKILL)

    def at_least_once(self: AtLeastOnce, closing: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    ExactlyOnce._commit_transaction = exactly_once  # type: ignore[method-assign]
    AtLeastOnce._commit_offsets = at_least_once  # type: ignore[method-assign]


if __name__ == "__main__":
    given = json.load(sys.stdin)
    _die_before_the_commit()
    Scene(given["properties"], given["connector"], Path(given["folder"])).run()
