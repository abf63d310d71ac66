"""What goes on while something else does not: deferred waits while the API server restarts, connectors while another's stop is stuck."""

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.run import CLAIM_FILE, PID_FILE
from airflow_provider_connect.runtime.model.states import TargetState
from tests.integration.airflow.conftest import Airflow, long_input
from tests.waiting import HANG_SECONDS, wait_until

Connector = tuple[Path, dict[str, str]]
CONNECTION = "own_connect"

WAITS = """
from airflow.sdk import DAG
from airflow_provider_connect.operators.control import ResumeConnectorOperator
from airflow_provider_connect.sensors.connect import ConnectorStateSensor

with DAG({dag!r}, schedule=None, default_args={{"connect_conn_id": {connection!r}, "deferrable": True}}):
    ConnectorStateSensor(task_id="sensor", connector={sensor!r}, states="PAUSED", poke_interval=1, timeout=600)
    ResumeConnectorOperator(task_id="operator", connector={operator!r}, failure_timeout_seconds=40, timeout_seconds=600)  # it gets no tasks
"""


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_deferred_waits_go_on_while_the_api_server_restarts(airflow: Airflow, unique: str, file_source: Connector) -> None:
    sensor, operator, dag = f"sensor-{unique}", f"operator-{unique}", re.sub(r"\W", "_", f"waits_{unique}")
    for connector in (sensor, operator):
        airflow.write_dag(connector, file_source[1])
    add_connection(airflow)
    file = airflow.stack.dags_folder / f"{dag}.py"
    file.write_text(WAITS.format(dag=dag, connection=CONNECTION, sensor=sensor, operator=operator))
    wait_until(lambda: airflow.client.get(f"/api/v2/dags/{dag}").status_code == 200, "the DAG is known")
    airflow.api("PATCH", f"/dags/{dag}", json={"is_paused": False})
    run = airflow.api("POST", f"/dags/{dag}/dagRuns", json={"logical_date": None})["dag_run_id"]
    wait_until(lambda: tasks(airflow, dag, run) == {"sensor": "deferred", "operator": "deferred"}, "both wait")

    server = airflow.stack.airflow
    assert server is not None
    end(server.processes["api-server"])
    logs = airflow.stack.log_folder / f"dag_id={dag}"
    try:
        wait_until(lambda: len(noticed(logs)) == 2, "both have given up one poll")
    finally:
        server.start_part("api-server")
        server.wait_until_healthy()

    assert tasks(airflow, dag, run)["sensor"] == "deferred"
    set_in_airflow(airflow, sensor, TargetState.PAUSED)
    wait_until(lambda: tasks(airflow, dag, run)["sensor"] == "success", "the sensor has seen it")
    wait_until(lambda: tasks(airflow, dag, run)["operator"] == "success", "the operator has its state")
    assert {task["try_number"] for task in instances(airflow, dag, run)} == {1}
    file.unlink()


@contextlib.contextmanager
def frozen_run(airflow: Airflow, connector: str) -> Iterator[None]:
    """A run whose driver does nothing more inside the block."""
    runs = airflow.stack.folder / "runs"
    (claim,) = wait_until(lambda: list(runs.glob(f"{dag_id_for(connector)}-*/*/try-*/{CLAIM_FILE}")), "the application has claimed")
    driver = int((claim.parent / PID_FILE).read_text())
    os.kill(driver, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(driver, signal.SIGCONT)


def long_file(folder: Path, connector: str) -> dict[str, str]:
    """The config of a connector that has something to read for some seconds."""
    file = folder / f"{connector}.txt"
    long_input(file, 1_000_000)
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": connector, "tasks.max": "1"}


def state(airflow: Airflow, connector: str) -> str | None:
    """None: there is no status."""
    answer = airflow.client.get(f"/connect/connectors/{connector}/status")
    return None if answer.status_code == 404 else str(answer.json()["connector"]["state"])


def set_in_airflow(airflow: Airflow, connector: str, target: TargetState) -> None:
    """Pause or unpause its DAG; on the config topic that is soon."""
    airflow.set_paused(connector, paused=target is TargetState.PAUSED)
    wait_until(lambda: airflow.target_state(connector) is target, f"{connector} is {target}")


def noticed(logs: Path) -> list[Path]:
    """The logs of triggers that found the server away."""
    return [file for file in logs.rglob("*.log") if "goes on until its own time-out" in file.read_text()]


def instances(airflow: Airflow, dag: str, run: str) -> list[dict[str, Any]]:
    found = airflow.api("GET", f"/dags/{dag}/dagRuns/{quote(run)}/taskInstances")["task_instances"]
    return list(found)


def tasks(airflow: Airflow, dag: str, run: str) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in instances(airflow, dag, run)}


def add_connection(airflow: Airflow) -> None:
    state = airflow.stack.state() or {}
    login = {"rest.login": state["username"], "rest.password": state["password"]}
    airflow.client.delete(f"/api/v2/connections/{CONNECTION}")
    airflow.api("POST", "/connections", json={"connection_id": CONNECTION, "conn_type": "connect", "extra": json.dumps(login)})


def end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(HANG_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture
def worker_config(airflow: Airflow) -> Iterator[None]:
    """The Variable of worker settings is gone again behind the test."""
    yield
    airflow.set_variable("connect_worker_config", None)


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("worker_config")
@pytest.mark.soak
def test_a_stop_and_a_deletion_that_are_stuck_hold_up_no_other_connector(airflow: Airflow, unique: str, tmp_path: Path) -> None:
    """The drivers of both runs are frozen, so that neither ends within the graceful time."""
    stopped, deleted, other = (f"{kind}-{unique}" for kind in ("stopped", "deleted", "other"))
    for name in (stopped, other):
        airflow.write_dag(name, long_file(tmp_path, name))
    with contextlib.ExitStack() as frozen:
        airflow.trigger(stopped)
        frozen.enter_context(frozen_run(airflow, stopped))
        config = {**long_file(tmp_path, deleted), "airflow.schedule": "none"}
        assert airflow.client.put(f"/connect/connectors/{deleted}/config", json=config).status_code == 201  # which starts a run
        frozen.enter_context(frozen_run(airflow, deleted))
        settings = {"task.shutdown.graceful.timeout.ms": 400_000, "airflow.missing.dag.grace": "1s"}
        airflow.set_variable("connect_worker_config", json.dumps(settings))
        (airflow.stack.dags_folder / f"{stopped}.py").unlink()
        wait_until(lambda: airflow.target_state(stopped) is TargetState.STOPPED, "STOPPED on the topic")
        deletion = threading.Thread(target=airflow.client.delete, args=(f"/connect/connectors/{deleted}",), kwargs={"timeout": 600})
        deletion.start()
        wait_until(lambda: airflow.config(deleted) is None, "deleted on the topic")
        for target in (TargetState.PAUSED, TargetState.STARTED):
            set_in_airflow(airflow, other, target)
        assert [state(airflow, name) for name in (stopped, deleted)] == ["RUNNING", "RUNNING"], "neither is over"
    wait_until(lambda: (state(airflow, stopped), state(airflow, deleted)) == ("STOPPED", None), "both are over")
    deletion.join()
    airflow.set_variable("connect_worker_config", None)
    assert airflow.client.delete(f"/connect/connectors/{stopped}").status_code == 204
