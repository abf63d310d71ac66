"""The demonstration, as ``make demo`` runs it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.dev.marked import marked_processes
from airflow_provider_connect.dev.stack import Stack
from tests.waiting import HANG_SECONDS

COMMAND = [sys.executable, "-m", "airflow_provider_connect.dev.demo", "--lines", "3000", "--rows", "2000"]


@pytest.mark.soak  # files and tables through a real Airflow: integration/airflow; its DAGs in the wheel: test_wheel
@pytest.mark.timeout(1200)
def test_once_copies_file_and_table_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--once"], cwd=tmp_path, capture_output=True, text=True, timeout=4 * HANG_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The files are equal. The tables are equal." in done.stdout
    assert done.stdout.count("2,000 rows") == 3
    assert done.stdout.count("3,000 lines") == 3
    assert "connector demo-file-source: RUNNING; task 0 RUNNING" in done.stdout
    assert marked_processes(Stack(tmp_path / ".dev" / "demo").mark) == []


@pytest.mark.soak
def test_java_follows_changes_into_a_table(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--once", "--java"], cwd=tmp_path, capture_output=True, text=True, timeout=3 * HANG_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The files are equal. The tables are equal." in done.stdout
    assert "{'id': 1, 'name': 'customer 1', 'city': 'Oslo', 'since': 2020}" in done.stdout
    assert "The changed tables are equal." in done.stdout
    assert marked_processes(Stack(tmp_path / ".dev" / "demo").mark) == []


@pytest.mark.soak  # what a process leaves behind when it is killed: e2e/test_processes_end
def test_control_c_takes_everything_down(tmp_path: Path) -> None:
    with subprocess.Popen(COMMAND, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "starting api-server" in line:
                demo.send_signal(signal.SIGINT)
        assert demo.wait(HANG_SECONDS) == 0
    assert marked_processes(Stack(tmp_path / ".dev" / "demo").mark) == []
