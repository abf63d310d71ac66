"""A change of offsets that is killed: ``python -m tests.integration.herder.killed_change``, what to do as JSON on standard input."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory
from tests.conftest import CHECKOUT
from tests.integration.herder.conftest import AskedHere, RunsByHand
from tests.integration.sql_mirror.conftest import open_database
from tests.integration.worker.environment import RunEnvironment


@dataclass(frozen=True, slots=True)
class KillPoint:
    """When the process is killed: ``before`` or ``after`` the ``nth`` call of a method, ``module:Class.method``."""

    method: str
    side: str = "after"
    nth: int = 1

    def arm(self) -> None:
        module, _, name = self.method.partition(":")
        owner_name, _, method = name.partition(".")
        owner = getattr(importlib.import_module(f"airflow_provider_connect.{module}"), owner_name)
        real, calls = getattr(owner, method), 0

        def deadly(*args: Any, **keywords: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == self.nth and self.side == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*args, **keywords)
            if calls == self.nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, method, deadly)


@dataclass(frozen=True, slots=True)
class Undo:
    """Back to the offsets of an instant, by the history in the database of this address."""

    to_ms: int
    database: str


def change_and_kill(environment: RunEnvironment, kill_point: KillPoint, offsets: Sequence[OffsetView] | Undo | None) -> None:
    """Alter or undo the connector's offsets, None: reset them, in a process that dies at ``kill_point``. Returns when it is dead."""
    pairs: object = None
    if isinstance(offsets, Undo):
        pairs = {"to_ms": offsets.to_ms, "database": offsets.database}
    elif offsets is not None:
        pairs = [(view.partition, view.offset) for view in offsets]
    request = {
        "properties": environment.properties,
        "connector": environment.connector,
        "folder": str(environment.folder),
        "path": sys.path,
    }
    asked = {**request, "offsets": pairs, "kill_point": [kill_point.method, kill_point.side, kill_point.nth]}
    command = [sys.executable, "-m", "tests.integration.herder.killed_change"]
    done = subprocess.run(command, input=json.dumps(asked), text=True, cwd=CHECKOUT, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, f"ended with {done.returncode} before {kill_point}"


if __name__ == "__main__":
    given = json.load(sys.stdin)
    sys.path[:] = given["path"]
    KillPoint(*given["kill_point"]).arm()
    here = RunEnvironment(given["properties"], given["connector"], Path(given["folder"]))
    asked = given["offsets"]
    recorded = RecordedHistory(open_database(asked["database"]).begin) if isinstance(asked, dict) else None
    with Herder(here.settings, RunsByHand(), probe=AskedHere(here.settings), recorded=recorded) as herder:
        if asked is None:
            herder.reset_offsets(here.connector)
        elif recorded is not None:
            herder.undo_offsets(here.connector, to=asked["to_ms"])
        else:
            herder.alter_offsets(here.connector, [OffsetView(*pair) for pair in asked])
