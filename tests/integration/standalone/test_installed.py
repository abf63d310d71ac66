"""The extra ``standalone`` in an empty environment, with the newest packages that the index has."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.dev.own_server import free_ports
from tests.conftest import CACHE
from tests.integration.standalone.agent import STRING, Agent, properties
from tests.waiting import wait_until


@pytest.fixture
def programs(tmp_path: Path, wheel: Path) -> Path:
    """Where its commands are."""
    environment = {**os.environ, "PIP_CACHE_DIR": str(CACHE / "pip"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment.pop("PIP_CONSTRAINT", None)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    programs = tmp_path / "venv" / "bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "-q", f"{wheel}[standalone]"], env=environment, check=True)
    return programs


@pytest.fixture
def agent(programs: Path, tmp_path: Path, worker_settings: Callable[..., dict[str, str]]) -> Iterator[Agent]:
    agent = Agent(tmp_path, worker_settings()["bootstrap.servers"], port=free_ports(1)[0])
    worker = {
        "bootstrap.servers": agent.bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(agent.offsets),
        "connectors.allowed.paths": str(tmp_path),
        "listeners": f"http://127.0.0.1:{agent.port}",
    }
    (tmp_path / "worker.properties").write_text(properties(worker))
    yield agent
    agent.stop()


@pytest.mark.timeout(600)
@pytest.mark.soak
def test_connectors_run_and_the_rest_api_answers(agent: Agent, programs: Path, tmp_path: Path, unique: str) -> None:
    home = {"HOME": str(tmp_path), "PATH": f"{programs}{os.pathsep}/usr/bin:/bin", "LANG": "C.UTF-8"}
    (tmp_path / "in.txt").write_text("tea\nbread\n")
    source = {"name": unique, "connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": unique}
    (tmp_path / "source.properties").write_text(properties(source))
    command = ["connect-run", "source.properties", "--worker", "worker.properties"]
    done = subprocess.run(command, cwd=tmp_path, env=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    with (tmp_path / "agent.log").open("ab") as log:
        agent.process = subprocess.Popen(
            ["connect-standalone", "worker.properties", "source.properties"], cwd=tmp_path, env=home, stdout=log, stderr=log
        )
    wait_until(agent.is_up)
    wait_until(lambda: agent.request("GET", "/connectors") == (200, [unique]))
    assert agent.end() == 0
