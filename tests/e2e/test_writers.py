"""Eight connections write to a table while runs bring it into another one: in the end both are equal, in each mode.

``make chaos`` does so for minutes, with runs of Spark that are killed; here runs are in this process, for seconds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.model.run import RunResult, RunState
from tests.conftest import WorkerSettings
from tests.e2e.writers.environment import WriterEnvironment
from tests.e2e.writers.modes import MODES, Mode
from tests.integration.worker.environment import RunEnvironment

QUICK = {"transaction.boundary.poll.linger.ms": "0", "offset.flush.interval.ms": "0"}  # many commits
SECONDS = 0.5
LONGEST_SECONDS = 0.3


class RunsHere:
    """Runs in this process, without Spark."""

    def __init__(self, settings: dict[str, str], config: Mapping[str, str], folder: Path) -> None:
        self._environment, self._config = RunEnvironment(settings, config["name"], folder), config

    def run_once(self) -> None:
        self.ends_well()

    def ends_well(self) -> RunResult:
        result = self._environment.run(self._config)
        assert (result.state, result.error) == (RunState.DONE, None)
        return result


IN_EVERY_RUN = "timestamp+incrementing"


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, id=mode.name, marks=[] if mode.name == IN_EVERY_RUN else pytest.mark.soak) for mode in MODES]
)
def test_what_is_written_while_runs_follow_each_other_arrives(
    mode: Mode, worker_settings: WorkerSettings, postgres: PostgresServer, tmp_path: Path
) -> None:
    settings, seed = worker_settings() | QUICK, int(os.environ.get("SEED", "1"))
    environment = WriterEnvironment(
        mode, settings, postgres, lambda config: RunsHere(settings, config, tmp_path), longest_seconds=LONGEST_SECONDS
    )
    account = environment.live_through(SECONDS, seed)
    print(f"seed {seed}, {account}")
    account.target.expect("exactly_once")
    assert account.problems == [], f"seed {seed}, {account}"
