"""Runs of connectors that a real Airflow schedules, with a fault in one of them and the scheduler killed and started again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from airflow_provider_connect.dev.airflow_client import ENDED, AirflowClient, DagRun
from airflow_provider_connect.dev.marked import marked_processes
from airflow_provider_connect.dev.stack import Stack
from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.spark.cache import cache_directory
from tests.conftest import worker_properties
from tests.e2e.faults.environments import PLAIN
from tests.e2e.faults.processes import processes_with
from tests.e2e.faults.runs import CHECKOUT, Fault
from tests.waiting import HANG_SECONDS, wait_until

INJECTED = Path(__file__).parent / "injected"
QUICK = {"transaction.boundary.poll.linger.ms": "0", "offset.flush.interval.ms": "0"}
RECOVERS_SOON = {
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "6",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "8",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
}


@dataclass(slots=True)
class AirflowRun:
    """One DAG run under way."""

    runs: AirflowRuns
    run: DagRun
    token: Path

    @property
    def struck(self) -> bool:
        return self.token.exists()

    def state(self) -> str:
        """The run's state now."""
        return next(iter(self.runs.client.watch(self.run))).state

    def wait(self) -> str:
        """How the run ended. Raises AssertionError if it does not."""
        wait_until(self._has_ended, lambda: f"{self.run.dag_id} has ended, and is not {self.state()}{self.runs.last_log(self.run)}")
        return self.state()

    def wait_until_struck(self) -> bool:
        """Whether the fault happens before the run ends."""
        wait_until(
            lambda: self.struck or self._has_ended(), lambda: f"{self.run.dag_id} is struck, or has ended{self.runs.last_log(self.run)}"
        )
        return self.struck

    def _has_ended(self) -> bool:
        return self.state() in ENDED


class AirflowRuns:
    """A stack in ``folder`` whose runs can be struck; up inside the block. Use it in one thread: its servers end with that."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._fault_file = folder / "fault.json"
        worker = folder / "worker.properties"
        self.properties = (
            {key: value for key, value in worker_properties("", "airflow").items() if key != "bootstrap.servers"} | PLAIN | QUICK
        )
        worker.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        variables = RECOVERS_SOON | {"PYTHONPATH": f"{INJECTED}:{CHECKOUT}", "FAULT_FILE": str(self._fault_file)}
        self.stack = Stack(folder, cache=cache_directory(), worker=worker, variables=variables)

    def __enter__(self) -> AirflowRuns:
        state = self.stack.up()
        self.properties["bootstrap.servers"] = str(state["bootstrap_servers"])
        self.client = AirflowClient(str(state["airflow_url"]), str(state["username"]), str(state["password"]))
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.down()

    def define(self, configs: Sequence[Mapping[str, str]]) -> None:
        """DAGs that never run by themselves, and are tried again soon; waits until Airflow knows them."""
        steering = {"airflow.schedule": "none", "airflow.retries": "6", "airflow.retry.delay": "1 s"}
        texts = [{key: str(value) for key, value in {**config, **steering}.items()} for config in configs]  # repr of an enum is no Python
        dags = [f"ConnectorDag({text['name']!r}, {text!r})\n" for text in texts]
        partial = self.stack.dags_folder / f"{uuid.uuid4().hex}.tmp"
        partial.write_text("from airflow_provider_connect import ConnectorDag\n\n" + "".join(dags))
        partial.rename(partial.with_suffix(".py"))
        for config in configs:
            self.client.wait_for_dag(dag_id_for(config["name"]))
            self.client.unpause(dag_id_for(config["name"]))

    def start(self, connector: str, fault: Fault | None = None) -> AirflowRun:
        """Trigger a run; the fault happens in the first application that reaches its step."""
        token = self._fault_file.with_name(f"struck-{uuid.uuid4().hex}")
        self._fault_file.unlink(missing_ok=True)
        if fault is not None:
            request = {name: getattr(fault, name) for name in ("step", "when", "nth", "signal", "victim", "linger")}
            text = json.dumps({**request, "token": str(token), "pid": self.scheduler_pid})
            partial = self._fault_file.with_suffix(".tmp")
            partial.write_text(text)
            partial.rename(self._fault_file)
        return AirflowRun(self, self.client.trigger(dag_id_for(connector)), token)

    def until_success(self, connector: str, tries: int = 4) -> None:
        """Run again until a run succeeds."""
        states = []
        for _ in range(tries):
            states.append(self.start(connector).wait())
            if states[-1] == "success":
                return
        raise AssertionError(f"no run of {connector} succeeds: {states}")

    @property
    def scheduler_pid(self) -> int:
        assert self.stack.airflow is not None
        return self.stack.airflow.processes["scheduler"].pid

    def restart_scheduler(self) -> None:
        """Start the scheduler again that was killed."""
        airflow = self.stack.airflow
        assert airflow is not None
        airflow.processes["scheduler"].wait(HANG_SECONDS)
        airflow.start_part("scheduler")

    def processes_of(self, connector: str) -> list[psutil.Process]:
        """Spark's processes of the connector's runs, by their run directory."""
        return processes_with(self.stack.folder / "runs", dag_id_for(connector))

    def kill(self, process: psutil.Process) -> None:
        """SIGKILL for a process of this stack; any other is refused."""
        assert process.pid in {found.pid for found in marked_processes(self.stack.mark)}, process
        process.kill()

    def last_log(self, run: DagRun) -> str:
        """The end of the newest task log of the DAG, for a failure's message."""
        logs = sorted(self.stack.log_folder.glob(f"dag_id={run.dag_id}/**/*.log"), key=lambda log: log.stat().st_mtime)
        return f"\n{logs[-1]}:\n{logs[-1].read_text(errors='replace')[-3000:]}" if logs else "; it has no task log"
