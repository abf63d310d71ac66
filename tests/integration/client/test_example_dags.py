"""The example DAGs about control, run by ``dag.test()`` in one process against a real Kafka Connect."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.errors import NotFoundException
from tests.waiting import HANG_SECONDS, wait_until

DAGS = Path(__file__).resolve().parents[3] / "dags"
_SCRIPT = """
import json, runpy, sys
run = runpy.run_path(sys.argv[1])["dag"].test()
print("STATES", json.dumps({task.task_id: task.state for task in run.get_task_instances()}))
"""


Run = Callable[[str], tuple[dict[str, str], str]]


@pytest.fixture
def run(home: dict[str, str]) -> Run:
    """Runs the DAG of an example file; the state of each task, and what was printed."""

    def test(file: str) -> tuple[dict[str, str], str]:
        command = [sys.executable, "-c", _SCRIPT, str(DAGS / file)]
        done = subprocess.run(command, env=home, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
        output = done.stdout + done.stderr
        states = [line.removeprefix("STATES ") for line in done.stdout.splitlines() if line.startswith("STATES ")]
        assert states, output
        return json.loads(states[-1]), output

    return test


def test_the_life_of_a_connector(run: Run, home: dict[str, str], connect: ConnectClient) -> None:
    states, output = run("example_control.py")
    assert set(states.values()) == {"success"}, output
    assert len(states) == 18
    files = Path(home["CONNECT_DEMO_DIR"])
    assert (files / "life-output.txt").read_text() == (files / "life-input.txt").read_text()
    assert not any(name.startswith("example-life") for name in connect.connectors())


@pytest.mark.soak
def test_what_has_failed_is_restarted(run: Run, connect: ConnectClient, unique: str, file_sink: dict[str, str], tmp_path: Path) -> None:
    connect.create_connector(unique, {**file_sink, "file": str(tmp_path / "missing" / "output.txt")})
    wait_for(lambda: failed_tasks(connect, unique), [0])
    (tmp_path / "missing").mkdir()
    states, output = run("example_control_hook.py")
    assert states == {"restart_failed": "success"}, output
    wait_for(lambda: failed_tasks(connect, unique), [])
    connect.delete_connector(unique)


def failed_tasks(connect: ConnectClient, name: str) -> list[int]:
    try:
        return [task.id for task in connect.connector_status(name).tasks if task.state == "FAILED"]
    except NotFoundException:
        return []


def wait_for(read: Callable[[], object], wanted: object) -> None:
    wait_until(lambda: read() == wanted, lambda: f"{wanted}, but {read()}")
