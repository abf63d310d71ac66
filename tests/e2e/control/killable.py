"""A real Airflow with a real broker whose parts are killed and started again, and whose API server dies in the middle of a verb."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
from sqlalchemy import Engine, create_engine

from airflow_provider_connect.dev.airflow_server import AirflowServer
from airflow_provider_connect.dev.stack import Stack
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.spark.cache import cache_directory
from tests.conftest import worker_properties
from tests.e2e.chaos.through_airflow import QUICK, RECOVERS_SOON
from tests.e2e.control.steps import ALL_STEPS, Step
from tests.e2e.faults.environments import PLAIN
from tests.e2e.faults.processes import processes_with
from tests.e2e.faults.runs import CHECKOUT
from tests.waiting import HANG_SECONDS, wait_until

INJECTED = Path(__file__).parent / "injected"
PARTS = ("api-server", "scheduler", "dag-processor")
GRACE = {"task.shutdown.graceful.timeout.ms": "3000"}
COMPACTED_SOON = {
    f"{kind}.storage.{name}": value
    for kind in ("config", "status", "offset")
    for name, value in (
        ("segment.ms", "5000"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("min.compaction.lag.ms", "60000"),
        ("max.compaction.lag.ms", "90000"),
    )
}
"""What a topic goes through in weeks: servers that start again read what compaction has left, others go on from what they read before.
The lag is longer than any server is away."""


class KillableAirflow:
    """A stack in ``folder``, up inside the block. Use it in one thread: its servers end with that. ``client`` has logged in."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._kill_file = folder / "kill.json"
        worker = folder / "given.properties"
        given = {key: value for key, value in worker_properties("", "control").items() if key != "bootstrap.servers"}
        worker.write_text("".join(f"{key}={value}\n" for key, value in (given | PLAIN | QUICK | GRACE | COMPACTED_SOON).items()))
        variables = RECOVERS_SOON | {
            "PYTHONPATH": f"{INJECTED}:{CHECKOUT}",
            "KILL_FILE": str(self._kill_file),
            "KILL_STEPS": json.dumps(ALL_STEPS),
        }
        self.stack = Stack(folder / "stack", cache=cache_directory(), worker=worker, variables=variables)

    def __enter__(self) -> KillableAirflow:
        state = self.stack.up()
        self.bootstrap_servers = str(state["bootstrap_servers"])
        self.client = httpx.Client(base_url=str(state["airflow_url"]), timeout=HANG_SECONDS)
        login = {"username": state["username"], "password": state["password"]}
        token = self.client.post("/auth/token", json=login).raise_for_status().json()["access_token"]
        self.client.headers["Authorization"] = f"Bearer {token}"
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.stack.down()

    def settings(self) -> WorkerSettings:
        return WorkerSettings.of(parse_properties(self.stack.worker_properties.read_text()))

    def database(self) -> Engine:
        return create_engine(f"sqlite:///{self._airflow.home / 'airflow.db'}", connect_args={"timeout": 60})

    def kill(self, part: str) -> None:
        """SIGKILL, and wait for its end."""
        process = self._airflow.processes[part]
        process.kill()
        process.wait(HANG_SECONDS)

    def restart(self, *parts: str) -> None:
        """Start parts that have ended, and wait until all of the stack serves."""
        for part in parts:
            self._airflow.processes[part].wait(HANG_SECONDS)
            self._airflow.start_part(part)
        self._airflow.wait_until_healthy(HANG_SECONDS)
        self.wait_until(lambda: self.client.get("/connect/health").is_success, "Connect's API serves")

    def arm(self, step: Step) -> Path:
        """The API server dies at ``step`` of its next verb. Returns the file that is there when it has."""
        token = self.folder / f"struck-{uuid.uuid4().hex}"
        partial = self._kill_file.with_suffix(".tmp")
        partial.write_text(json.dumps({"step": step.method, "when": step.when, "token": str(token)}))
        partial.rename(self._kill_file)
        return token

    def disarm(self) -> None:
        self._kill_file.unlink(missing_ok=True)

    def has_run(self, connector: str) -> bool:
        """Whether an application of the connector is alive."""
        runs = self.stack.folder / "runs"
        return runs.is_dir() and bool(processes_with(runs, f"{dag_id_for(connector)}-"))

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Raises AssertionError when ``condition`` is not so in time; a server that does not answer is waited for."""

        def is_so() -> bool:
            with suppress(httpx.TransportError):
                return condition()
            return False

        wait_until(is_so, what)

    @property
    def _airflow(self) -> AirflowServer:
        assert self.stack.airflow is not None
        return self.stack.airflow
