"""A change of offsets that is killed."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.sql_mirror.recorded_history import RecordedHistory
from tests.integration.herder.conftest import AskedHere, RunsByHand
from tests.integration.sql_mirror.conftest import open_database
from tests.integration.worker.environment import RunEnvironment
from tests.killed_process import run_to_kill


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
    run_to_kill(_change, environment.properties, environment.connector, environment.folder, kill_point, offsets)


def _change(
    properties: dict[str, str], connector: str, folder: Path, kill_point: KillPoint, offsets: Sequence[OffsetView] | Undo | None
) -> None:
    kill_point.arm()
    settings = RunEnvironment(properties, connector, folder).settings
    recorded = RecordedHistory(open_database(offsets.database).begin) if isinstance(offsets, Undo) else None
    with Herder(settings, RunsByHand(), probe=AskedHere(settings), recorded=recorded) as herder:
        if offsets is None:
            herder.reset_offsets(connector)
        elif isinstance(offsets, Undo):
            herder.undo_offsets(connector, to=offsets.to_ms)
        else:
            herder.alter_offsets(connector, list(offsets))
