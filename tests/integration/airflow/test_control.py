"""The example DAGs about control in a real Airflow, its triggerer waiting, against the Connect in that Airflow's own API server."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.airflow.conftest import Airflow
from tests.waiting import wait_until

DAGS = Path(__file__).resolve().parents[3] / "dags"
CONNECTION = "own_connect"


@pytest.mark.timeout(1200)
@pytest.mark.soak
def test_the_life_of_a_connector_of_ours(airflow: Airflow, tmp_path: Path) -> None:
    state = airflow.stack.state() or {}
    login = {"rest.login": state["username"], "rest.password": state["password"]}
    add_connection(airflow, login)
    text = (DAGS / "example_control.py").read_text().replace("connect_default", CONNECTION).replace("/tmp/connect-demo", str(tmp_path))
    file = airflow.stack.dags_folder / "example_control.py"
    file.write_text(text)
    wait_until(lambda: airflow.client.get("/api/v2/dags/connect_example_life").status_code == 200, "the DAG is known")
    airflow.api("PATCH", "/dags/connect_example_life", json={"is_paused": False})
    run = airflow.api("POST", "/dags/connect_example_life/dagRuns", json={"logical_date": None})["dag_run_id"]
    path = f"/dags/connect_example_life/dagRuns/{quote(run)}"
    wait_until(lambda: airflow.api("GET", path)["state"] in ("success", "failed"), "the run ends", 800)
    tasks: list[dict[str, Any]] = airflow.api("GET", f"{path}/taskInstances")["task_instances"]
    folder = airflow.stack.log_folder / "dag_id=connect_example_life" / f"run_id={run}"
    unwell = [task["task_id"] for task in tasks if task["state"] != "success"]
    assert unwell == [], "\n".join(each.read_text() for each in sorted(folder.rglob("*.log")))
    assert (tmp_path / "life-output.txt").read_text() == (tmp_path / "life-input.txt").read_text()
    left = airflow.client.get("/connect/connectors").json()
    assert not any(name.startswith("example-life") for name in left)
    file.unlink()


def add_connection(airflow: Airflow, extra: dict[str, Any]) -> None:
    airflow.client.delete(f"/api/v2/connections/{CONNECTION}")
    airflow.api("POST", "/connections", json={"connection_id": CONNECTION, "conn_type": "connect", "extra": json.dumps(extra)})
