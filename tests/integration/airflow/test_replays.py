"""Dead-letter records in a real Airflow: shown, tried, replayed over REST, by a command and by a DAG of one's own, each as a Dag run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.integration.airflow.conftest import SECRET, Airflow
from tests.integration.airflow.test_control import CONNECTION, add_connection
from tests.integration.client.commands import run_commands
from tests.integration.worker.environment import make_topic, send, values_of
from tests.waiting import wait_until

DAG = """
from airflow.sdk import DAG
from airflow_provider_connect.operators.dead_letters import ReplayDeadLettersOperator

with DAG({dag!r}, schedule=None, is_paused_upon_creation=False):
    ReplayDeadLettersOperator(
        task_id="replay",
        connector={connector!r},
        connect_conn_id={connection!r},
        transforms={{
            "transforms": "d",
            "transforms.d.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
            "transforms.d.exclude": "note",
        }},
        deferrable=True,
    )
"""


def ask(airflow: Airflow, method: str, path: str, body: object = None) -> httpx.Response:
    return airflow.client.request(method, f"/connect/{path}", json=body)


def answered(airflow: Airflow, method: str, path: str, body: object = None) -> Any:  # whatever JSON can hold
    answer = ask(airflow, method, path, body)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def done(airflow: Airflow, replay: str, name: str) -> Any:
    """The state of a replay that has ended; it must not have failed."""
    found = answered(airflow, "GET", f"connectors/{name}/dead-letters/replay")
    assert found["replay"] == replay
    return found if found["is_done"] else None


@pytest.mark.soak  # what a replay does, without Airflow: herder/test_replays
@pytest.mark.timeout(1200)
def test_dead_letters_are_replayed_as_dag_runs(
    airflow: Airflow, unique: str, file_sink: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    name, (file, config) = f"refuses-{unique}", file_sink
    bootstrap, topic, path = airflow.settings().bootstrap_servers, config["topics"], f"connectors/{name}/dead-letters/replay"
    make_topic(bootstrap, topic)
    send(bootstrap, topic, ['{"n":1}', '{"n":2', f'{{"n":"{SECRET}"', '{"n":4'])
    whole = {
        **config,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "db.password": "${airflow:shop:password}",
        "airflow.schedule": "none",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"letters-{unique}",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    answered(airflow, "POST", "connectors", {"name": name, "config": whole})
    letters = wait_until(lambda: refused(airflow, name), "three records are refused")
    assert [each["is_whole"] for each in letters] == [True, False, True]
    assert ask(airflow, "GET", path).status_code == 404

    offsets = {each["value"]: f"{each['partition']}:{each['offset']}" for each in letters}
    edits = {offsets['{"n":2']: {"value": '{"n":2}'}}
    chosen = {"offsets": [offsets['{"n":2']], "edits": edits}
    tried = answered(airflow, "POST", path, {**chosen, "dry_run": True})
    shown_records = [(record["topic"], record["value"], record["source_offset"]) for record in tried["preview"]["records"]]
    partition, offset = map(int, offsets['{"n":2'].split(":"))
    assert shown_records == [(topic, '{"n":2}', {"partition": partition, "offset": offset})], "text, as people can read it"
    shown = ask(airflow, "POST", path, {"dry_run": True}).text
    assert ("[hidden]" in shown, SECRET in shown) == (True, False)
    assert ask(airflow, "GET", path).status_code == 404, "a dry run changes nothing"

    replay = answered(airflow, "POST", path, chosen)
    assert replay["connector"] == f"{name}-replay"
    assert wait_until(lambda: done(airflow, replay["replay"], name), "the replay is done")["records"] == 1
    assert values_of(bootstrap, topic)[4:] == ['{"n":2}']
    hidden = answered(airflow, "GET", f"connectors/{name}-replay/config")
    assert (hidden["dead.letters.edits"], hidden["connector.class"]) == ("[hidden]", "DeadLetterReplay")
    assert [each["is_replayed"] for each in refused(airflow, name)] == [False, False, True]
    (first,) = wait_until(lambda: airflow.runs(f"{name}-replay"), "the replay is a Dag run")
    assert airflow.wait_for_run(f"{name}-replay", first) == "success"

    fixed = tmp_path / "fixed.json"
    left = offsets['{"n":4']
    fixed.write_text(json.dumps({left: {"value": '{"n":4,"note":"by hand"}'}}))
    assert airflow.stack.airflow is not None
    command = ["dlq", "replay", name, "--offsets", left, "--edits", str(fixed), "--wait", "--timeout", "230"]
    by_command, again = run_commands(airflow.stack.airflow.variables, [command, ["dlq", "replay", name, "--status"]])
    assert (by_command.code, "1 dead-letter record of" in by_command.out) == (0, True), by_command
    assert again.code == 0, again
    assert values_of(bootstrap, topic)[5:] == ['{"n":4,"note":"by hand"}']
    assert len(airflow.runs(f"{name}-replay")) == 2

    state = airflow.stack.state() or {}
    add_connection(airflow, {"rest.login": state["username"], "rest.password": state["password"]})
    send(bootstrap, topic, ['{"n":5,"note":"x"'])
    airflow.run(name)
    assert len(refused(airflow, name, 4) or []) == 4
    failed = run_by_dag(airflow, f"replay-{unique}", name)
    assert failed[0] == "failed"
    assert "is FAILED" in failed[1], "a record that cannot be decoded is named"
    assert SECRET not in failed[1] + airflow.log(f"{name}-replay", airflow.runs(f"{name}-replay")[-1])
    airflow.run(name)
    assert sorted(file.read_text().splitlines()) == ["{n=1}", "{n=2}", "{note=by hand, n=4}"]
    for gone in (name, f"{name}-replay"):
        answered(airflow, "DELETE", f"connectors/{gone}")


def refused(airflow: Airflow, name: str, count: int = 3) -> Any:
    """The dead-letter records, the newest first, once there are so many."""
    found = ask(airflow, "GET", f"ui/connectors/{name}/dead-letters")
    records = found.json()["records"] if found.is_success else []
    return records if len(records) == count else None


def run_by_dag(airflow: Airflow, dag: str, connector: str) -> tuple[str, str]:
    """A run of a DAG with the operator: its state, and what it has logged."""
    return run_of(airflow, dag, DAG.format(dag=dag, connector=connector, connection=CONNECTION))


def run_of(airflow: Airflow, dag: str, code: str) -> tuple[str, str]:
    """A run of the DAG that ``code`` defines: its state, and what it has logged."""
    file = airflow.stack.dags_folder / f"{dag}.py"
    file.write_text(code)
    wait_until(lambda: airflow.client.get(f"/api/v2/dags/{dag}").status_code == 200, "the DAG is known")
    run = airflow.api("POST", f"/dags/{dag}/dagRuns", json={"logical_date": None})["dag_run_id"]
    path = f"/dags/{dag}/dagRuns/{quote(run)}"
    ended = wait_until(
        lambda: state if (state := airflow.api("GET", path)["state"]) in ("success", "failed") else None, "the run ends", 600
    )
    folder = airflow.stack.log_folder / f"dag_id={dag}" / f"run_id={run}"
    text = "\n".join(each.read_text() for each in sorted(folder.rglob("*.log")))
    file.unlink()
    return str(ended), text
