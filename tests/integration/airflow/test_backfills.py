"""Backfills in a real Airflow, over REST, by a command and by a DAG of one's own: Dag runs of their own beside the live connector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_connect.model.ids import dag_id_for
from tests.integration.airflow.conftest import Airflow, wait_until
from tests.integration.airflow.test_control import CONNECTION, add_connection
from tests.integration.airflow.test_replays import answered, ask, run_of
from tests.integration.client.commands import run_commands
from tests.integration.worker.environment import make_topic, send

DAG = """
from airflow.sdk import DAG
from airflow_provider_connect.operators.backfill import BackfillOperator

with DAG({dag!r}, schedule=None, is_paused_upon_creation=False):
    BackfillOperator(
        task_id="again",
        connector={connector!r},
        connect_conn_id={connection!r},
        ranges=[{{"from": 1, "partition": 0}}],
        config={{"file": {file!r}}},
        delete=True,
        deferrable=True,
    )
"""


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.timeout(1200)
def test_ranges_are_delivered_again_by_dag_runs(
    airflow: Airflow, unique: str, file_sink: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    """What the live connector has committed stays, and its own Dag has no other run than before."""
    name, (file, config) = f"again-{unique}", file_sink
    bootstrap, topic, path = airflow.settings().bootstrap_servers, config["topics"], f"connectors/{name}/backfills"
    make_topic(bootstrap, topic)
    send(bootstrap, topic, ["a", "b", "c", "d"])
    answered(airflow, "POST", "connectors", {"name": name, "config": {**config, "airflow.schedule": "none"}})
    wait_until(lambda: lines(file) == ["a", "b", "c", "d"], "the live connector has delivered all")
    (run,) = airflow.runs(name)
    assert airflow.wait_for_run(name, run) == "success"
    offsets = answered(airflow, "GET", f"connectors/{name}/offsets")

    ranges = [{"topic": topic, "partition": 0, "from": 1, "to": 3}]
    refused = ask(airflow, "POST", path, {"ranges": ranges, "id": "rest"})
    assert (refused.status_code, "another value of file" in refused.text) == (400, True), refused.text
    asked = {"ranges": ranges, "id": "rest", "config": {"file": str(tmp_path / "rest.txt")}}
    assert answered(airflow, "POST", path, {**asked, "dry_run": True})["left"] == 2
    assert answered(airflow, "GET", path) == [], "a dry run creates nothing"
    created = answered(airflow, "POST", path, asked)
    own = f"{name}.backfill.rest"
    assert (created["name"], created["left"]) == (own, 2)
    wait_until(lambda: answered(airflow, "GET", path)[0]["is_done"], "the backfill is done")
    assert lines(tmp_path / "rest.txt") == ["b", "c"]
    (backfill_run,) = airflow.runs(own)
    assert airflow.wait_for_run(own, backfill_run) == "success"

    assert airflow.stack.airflow is not None
    command = ["backfill", name, "--partition", "0", "--from", "3", "--id", "command", "--set", f"file={tmp_path / 'command.txt'}"]
    by_command, listed = run_commands(
        airflow.stack.airflow.variables, [[*command, "--wait", "--timeout", "230"], ["backfills", name, "-o", "json"]]
    )
    assert by_command.code == 0, by_command
    assert [(each["name"], each["is_done"]) for each in json.loads(listed.out)] == [(f"{name}.backfill.command", True), (own, True)]
    assert lines(tmp_path / "command.txt") == ["d"]

    state = airflow.stack.state() or {}
    add_connection(airflow, {"rest.login": state["username"], "rest.password": state["password"]})
    dag = f"backfill-{unique}"
    code = DAG.format(dag=dag, connector=name, connection=CONNECTION, file=str(tmp_path / "dag.txt"))
    ended, log = run_of(airflow, dag, code)
    assert ended == "success", log
    assert lines(tmp_path / "dag.txt") == ["b", "c", "d"]
    assert len(answered(airflow, "GET", path)) == 2, "the operator has deleted its own"

    assert (answered(airflow, "GET", f"connectors/{name}/offsets"), airflow.runs(name), lines(file)) == (
        offsets,
        [run],
        ["a", "b", "c", "d"],
    )
    for backfill in (own, f"{name}.backfill.command"):
        answered(airflow, "DELETE", f"connectors/{backfill}")
    assert answered(airflow, "GET", path) == []
    wait_until(lambda: airflow.client.get(f"/api/v2/dags/{dag_id_for(own)}").status_code == 404, "the DAG of the backfill is gone")
    answered(airflow, "DELETE", f"connectors/{name}")
