"""A run that is killed at a step of its commit: ``python -m tests.integration.worker.killed_run``, with JSON on standard input."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import CHECKOUT
from tests.integration.herder.killed_change import Moment
from tests.integration.worker.scene import Scene


def run_and_kill(scene: Scene, config: Mapping[str, str], moment: Moment) -> None:
    """Run the connector in a process that dies at ``moment``. Returns when it is dead."""
    place = {"properties": scene.properties, "connector": scene.connector, "folder": str(scene.folder), "path": sys.path}
    asked = {**place, "config": config, "moment": [moment.method, moment.side, moment.nth]}
    command = [sys.executable, "-m", "tests.integration.worker.killed_run"]
    done = subprocess.run(command, input=json.dumps(asked), text=True, cwd=CHECKOUT, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, f"ended with {done.returncode} before {moment}"


if __name__ == "__main__":
    given = json.load(sys.stdin)
    sys.path[:] = given["path"]
    Moment(*given["moment"]).arm()
    print(Scene(given["properties"], given["connector"], Path(given["folder"])).run(given["config"]))
