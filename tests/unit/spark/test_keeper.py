"""The keeper of spark-submit: its child ends with the task that has started it, or lives on where the keeper was asked to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect.runtime.model.run import KEEPER_FILE
from airflow_provider_connect.runtime.spark.parent_death import under_keeper
from tests.waiting import HANG_SECONDS, wait_until

TASK = """
import subprocess, sys
from pathlib import Path
from airflow_provider_connect.runtime.spark.parent_death import under_keeper

child = "import os, pathlib, time; pathlib.Path('child.pid').write_text(str(os.getpid())); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], preexec_fn=under_keeper(Path("keeper.pid").absolute())).wait()
"""


@pytest.mark.parametrize("lives_on", [False, True])
def test_the_child_ends_with_the_task_unless_its_keeper_was_asked_to_live_on(tmp_path: Path, *, lives_on: bool) -> None:
    checkout = Path(__file__).resolve().parents[3]
    task = subprocess.Popen([sys.executable, "-c", TASK], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(checkout)})
    child, keeper = tmp_path / "child.pid", tmp_path / KEEPER_FILE
    wait_until(lambda: child.exists() and child.read_text() and keeper.exists() and keeper.read_text())
    process = psutil.Process(int(child.read_text()))
    assert process.ppid() == int(keeper.read_text())
    try:
        if lives_on:
            os.kill(process.ppid(), signal.SIGUSR1)
            wait_until(lambda: not keeper.exists())
        task.kill()
        task.wait(HANG_SECONDS)
        if not lives_on:
            process.wait(HANG_SECONDS)
            return
        time.sleep(0.2)
        assert process.is_running()
        above = process.parent()
    finally:
        if process.is_running():
            process.kill()
    assert above is not None
    above.wait(HANG_SECONDS)


@pytest.mark.parametrize(("child", "code"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9), ("pass", 0)])
def test_the_keeper_ends_as_its_child_does(tmp_path: Path, child: str, code: int) -> None:
    with subprocess.Popen([sys.executable, "-c", child], preexec_fn=under_keeper(tmp_path / KEEPER_FILE)) as process:  # noqa: PLW1509
        assert process.wait(HANG_SECONDS) == code


def test_a_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        subprocess.Popen(["/no/such/program"], preexec_fn=under_keeper(tmp_path / KEEPER_FILE))  # noqa: PLW1509
