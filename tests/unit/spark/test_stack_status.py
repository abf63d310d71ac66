"""The status of a development stack when some of its processes have ended. The processes are real, Airflow's report is the test's."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.dev import stack
from airflow_provider_connect.dev.marked import VARIABLE
from airflow_provider_connect.dev.stack import Stack
from tests.waiting import HANG_SECONDS

NAMES = ("api-server", "scheduler", "dag-processor", "triggerer", "connect-rest", "kafka")
PORT = 19092


class Started:
    """A stack of sleeping processes. ``unhealthy`` is what Airflow's health report lists; ``listening`` are the ports that are open."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.unhealthy: list[str] = []
        self.listening = {PORT}
        mark = Stack(directory).mark
        self.processes = {name: _sleeping(mark) for name in NAMES}
        self.write({name: process.pid for name, process in self.processes.items()})

    def write(self, pids: dict[str, int]) -> None:
        addresses = {"airflow_url": "http://127.0.0.1:1", "bootstrap_servers": f"127.0.0.1:{PORT}"}
        (self.directory / "stack.json").write_text(json.dumps({**addresses, "pids": pids}))

    def kill(self, name: str) -> None:
        os.kill(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait(HANG_SECONDS)


def _sleeping(mark: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, VARIABLE: mark})


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    made = Started(tmp_path)
    monkeypatch.setattr(stack, "unhealthy_parts", lambda _url: made.unhealthy)
    monkeypatch.setattr(stack, "is_listening", lambda port: port in made.listening)
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait(HANG_SECONDS)


def faults(started: Started, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The faults in the JSON status, which the text has too; the exit code is checked."""
    code = stack.status("json", directory=started.directory)
    found = json.loads(capsys.readouterr().out)
    assert (code, found["up"]) == ((1, False) if found["faults"] else (0, True))
    assert stack.status(directory=started.directory) == code
    text = capsys.readouterr().out.splitlines()
    assert text[0].startswith("not healthy: " if code else "up")
    assert text[1 : 1 + len(found["faults"])] == found["faults"]
    return list(found["faults"])


def test_a_whole_stack_has_no_faults(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    assert faults(started, capsys) == []


@pytest.mark.parametrize(
    ("name", "log"), [(name, f"airflow/logs/{name}.log") for name in NAMES if name != "kafka"] + [("kafka", "kafka/server.log")]
)
def test_a_killed_process_is_named_though_airflow_still_reports_it_as_healthy(
    started: Started, name: str, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    started.kill(name)
    pid = started.processes[name].pid
    assert faults(started, capsys) == [f"{name} has ended (process {pid}); its log: {started.directory}/stack/{log}"]


def test_what_ended_is_named_once_beside_what_is_not_healthy(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    started.kill("scheduler")
    started.unhealthy, started.listening = ["metadatabase", "scheduler", "triggerer"], set()
    assert [fault.partition(";")[0] for fault in faults(started, capsys)] == [
        f"scheduler has ended (process {started.processes['scheduler'].pid})",
        f"kafka does not listen at 127.0.0.1:{PORT}",
        "metadatabase is not healthy",
        "triggerer is not healthy",
    ]


def test_another_process_with_the_id_of_one_that_ended_is_not_taken_for_it(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    started.write({name: process.pid for name, process in started.processes.items()} | {"scheduler": os.getpid()})
    assert [fault.partition(" (")[0] for fault in faults(started, capsys)] == ["scheduler has ended"]


def test_a_broker_of_others_is_not_checked(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    started.write({name: process.pid for name, process in started.processes.items() if name != "kafka"})
    started.listening = set()
    assert faults(started, capsys) == []


def test_a_stack_that_was_never_started_is_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stack.status(directory=tmp_path) == 1
    assert capsys.readouterr().out == f"down: no stack in {tmp_path}; 0 processes\n"
