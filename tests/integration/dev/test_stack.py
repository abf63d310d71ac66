"""The whole stack, up and down, by the commands that a user types; nothing of it is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.dev import stack
from airflow_provider_connect.dev.airflow_client import AirflowClient
from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.marked import marked_processes
from airflow_provider_connect.dev.own_server import is_listening
from airflow_provider_connect.dev.stack import Stack
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.skeleton.new import main as new
from tests.waiting import HANG_SECONDS, wait_until

LONG_DAG = """\
import pathlib, subprocess, sys, time
from airflow.sdk import DAG, task

with DAG("long", schedule=None):
    @task
    def sleep():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        pathlib.Path(__file__).with_name("child.pid").write_text(str(child.pid))
        time.sleep(600)
    sleep()
"""


def _command(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "airflow_provider_connect.dev.stack", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=2 * HANG_SECONDS, check=False)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory whose stack is down at the end, whatever happens."""
    folder = tmp_path_factory.mktemp("stack with space")
    yield folder
    assert _command(folder, "down").returncode == 0


def test_a_broker_alone_is_up_only_while_it_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert stack.up(directory=tmp_path, only_broker=True) == 0
        state = json.loads((tmp_path / "stack.json").read_text())
        assert state.keys() == {"bootstrap_servers", "pids"}
        assert AdminClient({"bootstrap.servers": state["bootstrap_servers"]}).list_topics(timeout=HANG_SECONDS).brokers
        assert state["pids"].keys() == {"kafka"}, "no Airflow"
        assert f"bootstrap.servers={state['bootstrap_servers']}" in capsys.readouterr().err
        assert stack.status(directory=tmp_path) == 0
        assert capsys.readouterr().out.splitlines() == ["up", f"bootstrap_servers  {state['bootstrap_servers']}"]
        assert stack.up(directory=tmp_path, only_broker=True) == 0
        assert capsys.readouterr().err.startswith(f"already up: broker {state['bootstrap_servers']}")

        os.kill(state["pids"]["kafka"], signal.SIGKILL)
        wait_until(lambda: stack.status(directory=tmp_path) == 1)
        assert "kafka has ended" in capsys.readouterr().out
    finally:
        Stack(tmp_path).down()


def test_a_broker_that_ends_while_airflow_starts_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_and_kill(self: KafkaServer) -> KafkaServer:
        start(self)
        os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not self.is_running)
        return self

    start = KafkaServer.start
    monkeypatch.setattr(KafkaServer, "start", start_and_kill)
    with pytest.raises(ConnectException, match=r"kafka has ended \(process \d+\); its log: .*server\.log"):
        Stack(tmp_path, only_broker=True).up()
    assert Stack(tmp_path).state() is None


def test_settings_of_an_airflow_that_is_not_started_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stack.up("worker.properties", directory=tmp_path, only_broker=True) == 1
    assert "--only-broker does not start" in capsys.readouterr().err


@pytest.mark.soak
def test_up_serves_and_down_leaves_nothing(directory: Path) -> None:
    (directory / "worker.properties").write_text("client.id = mine\\: a \\\n  group\nstatus.storage.retry.max.retries=3\n")
    started = _command(directory, "up", "worker.properties")
    assert started.returncode == 0, started.stderr
    state = json.loads((directory / ".dev" / "stack.json").read_text())
    assert {"airflow_url", "rest_url", "bootstrap_servers", "username", "password", "dags_folder", "log_folder", "plugins_folder"} <= set(
        state
    )
    assert _in_a_new_shell(started.stderr).startswith("No connectors yet")
    for url, auth, code in (
        (state["rest_url"], (state["username"], state["password"]), 200),
        (state["rest_root_url"], (state["username"], state["password"]), 200),
        (state["rest_root_url"], (state["username"], "wrong"), 401),
        (state["rest_root_url"], None, 401),
    ):
        assert httpx.get(f"{url}/connectors", auth=auth, timeout=HANG_SECONDS).status_code == code, url
    assert AdminClient({"bootstrap.servers": state["bootstrap_servers"]}).list_topics(timeout=HANG_SECONDS).brokers
    assert _command(directory, "status").stdout.startswith("up\n")
    assert "client.id=mine: a group" in Path(state["worker_properties"]).read_text()
    assert _command(directory, "up").stderr.startswith("already up")

    _run_a_plugin_that_is_installed_now(state, directory)
    child = _start_long_task(state)
    assert len(marked_processes(Stack(directory / ".dev").mark)) > 6

    ended = _command(directory, "down")
    assert ended.returncode == 0
    assert marked_processes(Stack(directory / ".dev").mark) == []
    wait_until(lambda: not Path(f"/proc/{child}").exists())  # killed, and not yet taken off the list by the system
    assert not is_listening(int(state["bootstrap_servers"].rpartition(":")[2]))
    assert not (directory / ".dev" / "stack.json").exists()
    assert (_command(directory, "status").returncode, _command(directory, "down").returncode) == (1, 0)


@pytest.mark.soak
def test_a_half_dead_stack_is_reported_and_started_anew(directory: Path) -> None:
    assert _command(directory, "up").returncode == 0
    state = json.loads((directory / ".dev" / "stack.json").read_text())
    killed = ["scheduler", "api-server", "kafka"]
    for count, name in enumerate(killed, 1):
        os.kill(state["pids"][name], signal.SIGKILL)
        time.sleep(1)
        status = _command(directory, "status")
        lines = status.stdout.splitlines()
        assert (status.returncode, status.stderr) == (1, "")
        assert lines[0].startswith("not healthy")
        assert {line.partition(" has ended")[0] for line in lines if " has ended" in line} == set(killed[:count])
    again = _command(directory, "up")
    assert (again.returncode, "started anew" in again.stderr) == (0, True), again.stderr
    status = _command(directory, "status")
    assert (status.returncode, status.stdout.partition("\n")[0]) == (0, "up")
    assert _command(directory, "down").returncode == 0


def _in_a_new_shell(printed: str) -> str:
    """What ``airflow connect list`` prints after the line that ``up`` names for it, in a shell that knows nothing else."""
    (line,) = [line for line in printed.splitlines() if line.startswith("its command line: ")]
    command = line.removeprefix("its command line: ")
    assert command.endswith("; airflow connect list")
    done = subprocess.run(["bash", "-ec", command], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run_a_plugin_that_is_installed_now(state: dict[str, str], directory: Path) -> None:
    """A generated package, installed while the stack is up, and its example DAG: as the tutorial ends."""
    new(["shop", "--directory", str(directory)])
    source = ["pip", "install", "--no-deps", "--no-build-isolation", "--target", f"{state['plugins_folder']}/shop-0.1.0", "."]
    subprocess.run([sys.executable, "-m", *source], cwd=directory / "shop", check=True, capture_output=True)
    (Path(state["data_folder"]) / "shop-source.txt").write_text("tea\nbread\n")
    dag = (directory / "shop" / "dags" / "shop_source.py").read_text()
    folder = next(line for line in dag.splitlines() if line.startswith("FOLDER = "))
    (Path(state["dags_folder"]) / "shop_source.py").write_text(dag.replace(folder, f"FOLDER = Path({state['data_folder']!r})"))
    client = AirflowClient(state["airflow_url"], state["username"], state["password"])
    client.wait_for_dag("connect.shop-source")
    client.unpause("connect.shop-source")
    run = next(iter(deque(client.watch(client.trigger("connect.shop-source")), 1)))
    assert run.state == "success", run
    topics = AdminClient({"bootstrap.servers": state["bootstrap_servers"]}).list_topics("shop", timeout=HANG_SECONDS).topics
    assert topics["shop"].error is None


def _start_long_task(state: dict[str, str]) -> int:
    """Triggers the long DAG and waits for the process that its task starts in a session of its own."""
    (Path(state["dags_folder"]) / "long.py").write_text(LONG_DAG)
    client = AirflowClient(state["airflow_url"], state["username"], state["password"])
    client.wait_for_dag("long")
    client.unpause("long")
    client.trigger("long")
    pid_file = Path(state["dags_folder"]) / "child.pid"
    return int(wait_until(lambda: pid_file.exists() and pid_file.read_text()))


@pytest.mark.soak  # test_kafka_server has the same for a broker, e2e/test_processes_end for Airflow's processes
def test_a_stack_in_a_program_ends_with_the_program(directory: Path) -> None:
    script = (
        "import pathlib, time\n"
        "from airflow_provider_connect.dev.stack import Stack\n"
        "state = Stack(pathlib.Path('.dev')).up()\n"
        "print(state['airflow_url'], flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=directory, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        port = int(program.stdout.readline().rpartition(":")[2])
        assert is_listening(port)
        os.kill(program.pid, signal.SIGKILL)
    wait_until(lambda: not is_listening(port))


def test_worker_properties_that_cannot_be_read_are_refused_before_anything_starts(tmp_path: Path) -> None:
    refused = _command(tmp_path, "up", "nothing.properties")
    assert refused.returncode == 1
    assert "nothing.properties cannot be read" in refused.stderr
    assert not (tmp_path / ".dev" / "stack.json").exists()
