"""Ways back over REST, with the history in Airflow's own database: who changed a config, and to which offsets a source goes back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.verbs import WARNINGS_HEADER
from tests.integration.airflow.conftest import Airflow
from tests.integration.worker.environment import values_of
from tests.waiting import wait_until

CANARY = "tiny-canary-0815"


def ask(airflow: Airflow, method: str, path: str, body: object = None) -> httpx.Response:
    return airflow.client.request(method, f"/connect/connectors/{path}", json=body)


def answered(airflow: Airflow, method: str, path: str, body: object = None) -> Any:  # whatever JSON can hold
    answer = ask(airflow, method, path, body)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def test_a_config_goes_back_to_a_revision(airflow: Airflow, unique: str, file_source: tuple[Path, dict[str, str]]) -> None:
    name, (_, config) = f"revised-{unique}", file_source
    first = {**config, "api.token": CANARY}
    answered(airflow, "POST", "", {"name": name, "config": first, "initial_state": "STOPPED"})
    answered(airflow, "PATCH", f"{name}/config", {"batch.size": "17"})

    def revisions() -> Any:
        found = answered(airflow, "GET", f"{name}/config/history")["revisions"]
        return found if len(found) == 2 else None

    newest, oldest = wait_until(revisions, "both revisions are recorded")
    assert (newest["who"], newest["changes"]) == ("admin", [{"key": "batch.size", "old": None, "new": "17"}])
    assert oldest["config"] == {**first, "name": name, "api.token": "[hidden]"}
    assert CANARY not in ask(airflow, "GET", f"{name}/config/history").text
    page = answered(airflow, "GET", f"{name}/config/history?limit=1")
    assert [each["revision"] for each in page["revisions"]] == [page["next_before"]] == [newest["revision"]]
    assert ask(airflow, "GET", f"{name}/config/history?limit=x").status_code == 400

    rolled_back = ask(airflow, "POST", f"{name}/config/rollback", {"revision": oldest["revision"]})
    assert rolled_back.json()["config"] == oldest["config"]
    assert json.loads(rolled_back.headers[WARNINGS_HEADER]) == ["Unknown setting 'api.token': nothing reads it"]
    assert (airflow.config(name) or {})["api.token"] == CANARY
    assert ask(airflow, "POST", f"{name}/config/rollback", {}).status_code == 400
    assert ask(airflow, "GET", f"no-{name}/config/history").status_code == 404
    answered(airflow, "DELETE", name)


@pytest.mark.soak
def test_a_source_goes_back_to_earlier_offsets(airflow: Airflow, unique: str, file_source: tuple[Path, dict[str, str]]) -> None:
    name, (file, config) = f"undone-{unique}", file_source
    file.write_text("one\ntwo\n")
    airflow.write_dag(name, config)
    refused = ask(airflow, "POST", f"{name}/config/rollback", {"revision": 1})
    assert (refused.status_code, f"DAG file {name}.py" in refused.text) == (409, True)
    first = airflow.run(name)
    with file.open("a") as more:
        more.write("three\n")
    second = airflow.run(name)

    def changes() -> Any:
        found = answered(airflow, "GET", f"{name}/offsets/history")["changes"]
        return found if len(found) == 2 else None

    newest, oldest = wait_until(changes, "the offsets of both runs are recorded")
    assert (newest["run"], oldest["run"], newest["moves"][0]["new"]) == (second, first, {"position": 14})
    assert ask(airflow, "POST", f"{name}/offsets/undo", {"entry": newest["entry"]}).status_code == 400, "it is not STOPPED"
    planned = answered(airflow, "POST", f"{name}/offsets/undo", {"entry": newest["entry"], "dry_run": True})
    assert (planned["dry_run"], [each["effect"] for each in planned["returns"]]) == (True, ["read again"])
    answered(airflow, "PUT", f"{name}/stop")
    done = answered(airflow, "POST", f"{name}/offsets/undo", {"entry": newest["entry"]})
    assert [each["then"] for each in done["returns"]] == [{"position": 8}]
    assert answered(airflow, "GET", f"{name}/offsets")["offsets"][0]["offset"] == {"position": 8}
    answered(airflow, "PUT", f"{name}/resume")
    wait_until(lambda: airflow.target_state(name) is TargetState.STARTED and not airflow.is_paused(name), "it is resumed")
    airflow.run(name)
    assert values_of(airflow.settings().bootstrap_servers, config["topic"]) == ["one", "two", "three", "three"]
    wait_until(lambda: [each["who"] for each in answered(airflow, "GET", f"{name}/offsets/history")["changes"]][1] == "admin", "who")
    assert time.time() * 1000 > planned["to_ms"] >= oldest["to_ms"]
