"""``connect-standalone`` as a process of its own, on a machine that has no Airflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from airflow_provider_connect.dev.own_server import free_ports
from tests.waiting import HANG_SECONDS, wait_until

FILES_OF_ALL = {"config.providers": "files", "config.providers.files.class": "FileConfigProvider"}
"""Worker settings that the worker warns of, with ``WARNED``."""

WARNED = "Config provider files gives every connector every file that the worker may read"
STRING = "org.apache.kafka.connect.storage.StringConverter"
CHECKOUT = Path(__file__).resolve().parents[3]


def without_airflow(folder: Path) -> dict[str, str]:
    """An environment in which ``import airflow`` fails."""
    package = folder / "no-airflow" / "airflow"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("raise ImportError('Airflow is not installed here')\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "_AIRFLOW"))}
    return {**kept, "PYTHONPATH": f"{package.parent}{os.pathsep}{CHECKOUT}"}


def properties(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


@dataclass(slots=True)
class Agent:
    """``folder`` takes its files; ``worker`` are settings besides the necessary ones."""

    folder: Path
    bootstrap: str
    worker: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_ports(1)[0])
    process: subprocess.Popen[bytes] | None = None

    @property
    def offsets(self) -> Path:
        return self.folder / "connect.offsets"

    @property
    def log(self) -> str:
        return (self.folder / "agent.log").read_text()

    def start(self, *connectors: Path, answers: bool = True) -> Self:
        worker = self.folder / "worker.properties"
        settings = {
            "bootstrap.servers": self.bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.storage.file.filename": str(self.offsets),
            "connectors.allowed.paths": "/",
            "listeners": f"http://127.0.0.1:{self.port}",
            **self.worker,
        }
        worker.write_text(properties(settings))
        command = [sys.executable, "-m", "airflow_provider_connect.standalone.agent", str(worker), *map(str, connectors)]
        with (self.folder / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=without_airflow(self.folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        if answers:
            wait_until(self.is_up)
        return self

    def is_up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        try:
            return self.request("GET", "/")[0] == 200
        except OSError:
            return False

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of the answer."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(asked, timeout=HANG_SECONDS) as answer:
                text = answer.read()
                is_json = "json" in answer.headers.get("Content-Type", "")
                return answer.status, json.loads(text) if is_json else text.decode()
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def states(self, connector: str) -> list[str]:
        """Of the connector, then of its tasks; none for one that is not known."""
        code, status = self.request("GET", f"/connectors/{connector}/status")
        return [] if code != 200 else [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and wait for the end; the exit code."""
        assert self.process is not None
        os.kill(self.process.pid, number)
        return self.process.wait(HANG_SECONDS)

    def stop(self) -> None:
        """However it is, it ends."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
