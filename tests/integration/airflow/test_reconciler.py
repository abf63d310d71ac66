"""Paused flags, target states and configs, kept in agreement by the API server."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from airflow_provider_connect.runtime.model.ids import dag_id_for
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from tests.integration.airflow.conftest import Airflow, long_input
from tests.waiting import wait_until

Connector = tuple[Path, dict[str, str]]


@pytest.fixture
def connector(airflow: Airflow, unique: str, file_source: Connector) -> str:
    name = f"kept-{unique}"
    airflow.write_dag(name, file_source[1])
    return name


def test_a_pause_in_airflow_is_on_the_config_topic_soon_and_so_is_its_end(airflow: Airflow, connector: str) -> None:
    airflow.set_paused(connector, paused=True)
    wait_until(lambda: airflow.target_state(connector) is TargetState.PAUSED, "PAUSED")
    airflow.set_paused(connector, paused=False)
    wait_until(lambda: airflow.target_state(connector) is TargetState.STARTED, "STARTED")
    assert not airflow.is_paused(connector)


@pytest.mark.parametrize("target", [TargetState.PAUSED, pytest.param(TargetState.STOPPED, marks=pytest.mark.soak)])
def test_a_target_state_written_by_another_client_sets_the_flag(airflow: Airflow, connector: str, target: TargetState) -> None:
    airflow.put_target_state(connector, target)
    wait_until(lambda: airflow.is_paused(connector), "paused")
    assert airflow.target_state(connector) is target
    airflow.put_target_state(connector, TargetState.STARTED)
    wait_until(lambda: not airflow.is_paused(connector), "unpaused")


def test_a_stopped_connector_is_started_by_unpausing_its_dag(airflow: Airflow, connector: str) -> None:
    airflow.put_target_state(connector, TargetState.STOPPED)
    wait_until(lambda: airflow.is_paused(connector), "paused")
    airflow.set_paused(connector, paused=False)
    wait_until(lambda: airflow.target_state(connector) is TargetState.STARTED, "STARTED")


@pytest.mark.soak
def test_a_run_triggered_while_paused_waits_and_runs_when_resumed(airflow: Airflow, connector: str) -> None:
    airflow.put_target_state(connector, TargetState.PAUSED)
    wait_until(lambda: airflow.is_paused(connector), "paused")
    run = airflow.trigger(connector)
    assert airflow.run_state(connector, run) == "queued"
    airflow.put_target_state(connector, TargetState.STARTED)
    assert airflow.wait_for_run(connector, run) == "success"


@pytest.mark.soak
def test_a_run_in_progress_ends_after_its_batch_when_its_connector_is_paused(
    airflow: Airflow, connector: str, file_source: Connector
) -> None:
    long_input(file_source[0])
    run = airflow.trigger(connector)
    runs = airflow.stack.folder / "runs"
    wait_until(lambda: list(runs.glob(f"{dag_id_for(connector)}-*/*/try-*/claim.json")), "the application has claimed")
    airflow.set_paused(connector, paused=True)
    assert airflow.wait_for_run(connector, run) == "success"
    (task,) = airflow.tasks(connector, run)
    assert (task["state"], task["try_number"]) == ("success", 1)
    assert moved(airflow, connector, run) < 3_000_000
    airflow.set_paused(connector, paused=False)
    airflow.run(connector)  # what was interrupted may go on by itself besides
    wait_until(lambda: sum(moved(airflow, connector, run) for run in airflow.runs(connector)) == 3_000_000, "all records")


def moved(airflow: Airflow, connector: str, run: str) -> int:
    """How many records a run has moved; none where it did not begin its task, or found nothing to do."""
    records: int = airflow.xcoms(connector, run).get("return_value", {}).get("0", {}).get("records", 0)
    return records


def test_a_changed_file_changes_the_config_and_a_run_does_not_bring_the_old_one_back(
    airflow: Airflow, connector: str, file_source: Connector
) -> None:
    airflow.write_dag(connector, {**file_source[1], "batch.size": "500"})
    config = airflow.config(connector)
    assert config is not None
    assert config["batch.size"] == "500"
    assert config["name"] == connector
    assert config["airflow.defined.in"] == f"{connector}.py"
    file_source[0].write_text("one\n")
    airflow.run(connector)
    assert airflow.config(connector) == config


@pytest.mark.soak
def test_a_file_that_is_gone_for_a_while_stops_nothing_and_one_that_returns_brings_the_state_of_before(
    airflow: Airflow, connector: str
) -> None:
    """Comes before the tests that shorten the grace time: the API server keeps settings for ten seconds."""
    file = airflow.stack.dags_folder / f"{connector}.py"
    text = file.read_text()
    config = airflow.config(connector)
    file.unlink()
    wait_until(lambda: f"Connector {connector}: its DAG is gone" in server_log(airflow), "the reconciler knows that the file is gone")
    time.sleep(2)  # it ticks every second
    assert airflow.target_state(connector) is TargetState.STARTED
    assert airflow.config(connector) == config
    airflow.set_variable("connect_worker_config", json.dumps({"airflow.missing.dag.grace": "1s"}))
    wait_until(lambda: airflow.target_state(connector) is TargetState.STOPPED, "STOPPED")
    wait_until(lambda: "airflow.defined.in" not in (airflow.config(connector) or {}), "only REST changes it")
    file.write_text(text)
    wait_until(lambda: airflow.target_state(connector) is TargetState.STARTED, "STARTED again")
    assert airflow.config(connector) == config
    airflow.set_variable("connect_worker_config", None)


def test_a_connector_whose_file_is_gone_is_stopped_and_kept_for_rest_to_delete(airflow: Airflow, connector: str) -> None:
    airflow.set_variable("connect_worker_config", json.dumps({"airflow.missing.dag.grace": "1s"}))
    (airflow.stack.dags_folder / f"{connector}.py").unlink()
    wait_until(lambda: airflow.target_state(connector) is TargetState.STOPPED, "STOPPED")
    airflow.set_variable("connect_worker_config", None)
    wait_until(lambda: "airflow.defined.in" not in (airflow.config(connector) or {}), "only REST changes it")
    assert airflow.client.get(f"/connect/connectors/{connector}/config").json()["name"] == connector
    assert airflow.client.delete(f"/connect/connectors/{connector}").status_code == 204
    assert airflow.config(connector) is None


@pytest.mark.soak
def test_more_dags_that_are_gone_than_the_limit_are_shown_by_the_health_check(airflow: Airflow, connector: str) -> None:
    def message() -> str:
        answer = airflow.client.get("/connect/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "healthy")
        return str(answer.json()["message"])

    file = airflow.stack.dags_folder / f"{connector}.py"
    text = file.read_text()
    wait_until(lambda: airflow.config(connector), "the connector that the file defines")
    settings = {"airflow.missing.dag.grace": "1s", "airflow.missing.dag.limit": "0", "connectors.max.tasks": "7"}
    airflow.set_variable("connect_worker_config", json.dumps(settings))
    try:
        wait_until(lambda: "no more than 7 (worker setting" in refusal_of_many_tasks(airflow), "the settings are in force")
        file.unlink()
        wait_until(lambda: "more than airflow.missing.dag.limit (0)" in message(), "the warning")
        assert connector not in message(), "not every user who sees it may know of the connector"
        assert connector in server_log(airflow).partition("none of them is stopped")[2]
        time.sleep(2)
        assert airflow.target_state(connector) is TargetState.STARTED
        file.write_text(text)
        wait_until(lambda: "missing.dag.limit" not in message(), "no warning")
    finally:
        airflow.set_variable("connect_worker_config", None)


def server_log(airflow: Airflow) -> str:
    return (airflow.stack.folder / "airflow" / "logs" / "api-server.log").read_text()


def refusal_of_many_tasks(airflow: Airflow) -> str:
    config = {"connector.class": "FileStreamSource", "file": "/none", "topic": "none", "tasks.max": "5000"}
    return airflow.client.put("/connect/connector-plugins/FileStreamSource/config/validate", json=config).text


@pytest.mark.soak
def test_a_file_that_cannot_be_imported_stops_nothing(airflow: Airflow, connector: str) -> None:
    file = airflow.stack.dags_folder / f"{connector}.py"
    file.write_text(f"{file.read_text()}\nraise RuntimeError('airflow dag')\n")
    wait_until(lambda: f"{connector}.py" in str(airflow.api("GET", "/importErrors")), "an import error")
    assert airflow.target_state(connector) is TargetState.STARTED


# ── verbs over REST, runs and statuses ──


def status(airflow: Airflow, connector: str) -> tuple[str | None, list[str]]:
    """The connector's state and its tasks', as REST returns them; None: there is no status."""
    answer = airflow.client.get(f"/connect/connectors/{connector}/status")
    if answer.status_code == 404:
        return None, []
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body["connector"]["state"], [task["state"] for task in body["tasks"]]


def has_dag(airflow: Airflow, connector: str) -> bool:
    """Whether the DAG is in Airflow's lists; a deleted connector's is hidden first, and removed later."""
    dags = airflow.api("GET", "/dags", params={"dag_id_pattern": dag_id_for(connector)})["dags"]
    return dag_id_for(connector) in [dag["dag_id"] for dag in dags]


@pytest.fixture
def created(airflow: Airflow, unique: str, file_source: Connector) -> Iterator[str]:
    """A connector made over REST, with its task RUNNING; it runs only when it is asked to."""
    name = f"made-{unique}"
    file_source[0].write_text("one\n")
    config = {**file_source[1], "airflow.schedule": "none", "airflow.retries": "0"}
    answer = airflow.client.post("/connect/connectors", json={"name": name, "config": config})
    assert answer.status_code == 201, answer.text
    wait_until(lambda: status(airflow, name) == ("RUNNING", ["RUNNING"]), "connector and task are RUNNING")
    yield name
    airflow.client.delete(f"/connect/connectors/{name}")


def test_a_pause_in_airflow_is_a_pause_over_rest_and_the_other_way_round(airflow: Airflow, created: str) -> None:
    wait_until(lambda: has_no_run(airflow, created), "its first run is over")
    airflow.set_paused(created, paused=True)
    wait_until(lambda: status(airflow, created) == ("PAUSED", ["PAUSED"]), "PAUSED")
    assert airflow.client.put(f"/connect/connectors/{created}/resume").status_code == 202
    assert status(airflow, created) == ("RUNNING", ["RUNNING"])
    wait_until(lambda: not airflow.is_paused(created), "unpaused")
    assert airflow.client.put(f"/connect/connectors/{created}/pause").status_code == 202
    wait_until(lambda: airflow.is_paused(created), "paused")


def has_no_run(airflow: Airflow, connector: str) -> bool:
    runs = airflow.api("GET", f"/dags/{dag_id_for(connector)}/dagRuns")["dag_runs"]
    return bool(runs) and all(run["state"] in ("success", "failed") for run in runs)


def applications(connector: str) -> list[int]:
    """The processes that Airflow has started for tasks of the connector, and what they have started, Spark and all."""
    mark = f"connect-{connector}"
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "cmdline").read_text():
                found.append(int(folder.name))
    return found


@pytest.mark.soak
def test_a_run_that_a_user_marked_as_failed_names_the_user(airflow: Airflow, created: str, file_source: Connector) -> None:
    wait_until(lambda: has_no_run(airflow, created), "its first run is over")
    long_input(file_source[0])
    run = airflow.trigger(created)
    runs = airflow.stack.folder / "runs"
    wait_until(lambda: list(runs.glob(f"{dag_id_for(created)}-*/*/try-*/claim.json")), "the application has claimed")
    airflow.api("PATCH", f"/dags/{dag_id_for(created)}/dagRuns/{quote(run)}", json={"state": "failed"})
    wait_until(lambda: status(airflow, created)[1] == ["FAILED"], "the task is FAILED")
    (task,) = airflow.client.get(f"/connect/connectors/{created}/status").json()["tasks"]
    assert task["trace"].startswith(f"Run {run} was marked as failed by user admin in Airflow.")
    assert "restart?includeTasks=true" in task["trace"]


@pytest.mark.soak  # a killed run: test_runs; what the herder makes of it: unit/herder/test_lifecycle
def test_a_killed_run_does_not_stay_running(airflow: Airflow, created: str, file_source: Connector) -> None:
    wait_until(lambda: has_no_run(airflow, created), "its first run is over")
    long_input(file_source[0])
    airflow.trigger(created)
    parents = wait_until(lambda: supervisors(created), "the application has started")
    for pid in parents:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: status(airflow, created)[1] == ["FAILED"], "FAILED")
    task = airflow.client.get(f"/connect/connectors/{created}/tasks/0/status").json()
    assert task["trace"]
    answer = airflow.client.post(f"/connect/connectors/{created}/restart?includeTasks=true&onlyFailed=true")
    assert (answer.status_code, answer.json()["tasks"][0]["state"]) == (202, "RESTARTING")
    wait_until(lambda: status(airflow, created) == ("RUNNING", ["RUNNING"]), "RUNNING again")


def supervisors(connector: str) -> list[int]:
    """The parents of spark-submit: the task processes."""
    found = set()
    for pid in applications(connector):
        with contextlib.suppress(OSError, IndexError):
            found.add(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]))
    return sorted(found - set(applications(connector)) - {1})


@pytest.mark.soak
def test_a_stop_of_which_only_the_record_was_written_ends_the_run(airflow: Airflow, created: str, file_source: Connector) -> None:
    wait_until(lambda: has_no_run(airflow, created), "its first run is over")
    long_input(file_source[0])
    airflow.trigger(created)
    wait_until(lambda: applications(created), "the application has started")
    airflow.put_target_state(created, TargetState.STOPPED)
    wait_until(lambda: status(airflow, created) == ("STOPPED", []), "STOPPED")
    assert applications(created) == []
    wait_until(lambda: airflow.is_paused(created), "paused")


_SOON = [("resume", "stop"), ("resume", "begun", "stop")]
_SOON_TOO = [
    *(("resume", "pause", "stop"), ("resume", "begun", "pause", "stop"), ("pause", "resume", "stop"), ("resume", "stop", "resume", "stop")),
    *(("resume", "restart", "stop"), ("resume", "begun", "restart", "stop"), ("restart", "stop"), ("pause", "restart", "resume", "stop")),
]


@pytest.mark.soak  # one call at a time: test_a_pause_in_airflow_is_a_pause_over_rest_and_the_other_way_round
@pytest.mark.parametrize("orders", [_SOON, _SOON_TOO], ids=["two", "eight"])
def test_calls_that_follow_each_other_at_once_leave_no_failed_run(
    airflow: Airflow, created: str, file_source: Connector, orders: list[tuple[str, ...]]
) -> None:
    wait_until(lambda: has_no_run(airflow, created), "its first run is over")
    long_input(file_source[0])
    path = f"/connect/connectors/{created}"
    for order in orders:
        for call in order:
            if call == "begun":
                wait_until(lambda: applications(created), "the application has started")
            elif call == "restart":
                assert airflow.client.post(f"{path}/restart?includeTasks=true").status_code == 202
            else:
                assert airflow.client.put(f"{path}/{call}").status_code in (202, 204)
        wait_until(lambda: status(airflow, created) == ("STOPPED", []) and has_no_run(airflow, created), f"stopped after {order}")
        wait_until(lambda: not applications(created), "its processes have ended")
    runs = airflow.api("GET", f"/dags/{dag_id_for(created)}/dagRuns")["dag_runs"]
    assert {run["state"] for run in runs} == {"success"}, runs


@pytest.mark.soak
def test_a_deletion_of_which_only_the_record_was_written_leaves_nothing(airflow: Airflow, created: str) -> None:
    with ConfigStore(airflow.settings()) as store:
        store.delete_connector(created)
    wait_until(lambda: status(airflow, created) == (None, []) and not has_dag(airflow, created), "everything of it is gone")


@pytest.mark.soak
def test_airflow_forgets_the_dag_of_a_connector_that_is_deleted(airflow: Airflow, created: str) -> None:
    with ConfigStore(airflow.settings()) as store:
        store.delete_connector(created)
    path = f"/api/v2/dags/{dag_id_for(created)}"
    wait_until(lambda: airflow.client.get(path).status_code == 404, "Airflow has forgotten its DAG")


def test_a_name_is_free_again_at_once_after_a_deletion(airflow: Airflow, created: str, file_source: Connector) -> None:
    assert airflow.client.put(f"/connect/connectors/{created}/stop").status_code == 204
    wait_until(lambda: airflow.is_paused(created), "paused")
    assert airflow.client.delete(f"/connect/connectors/{created}").status_code == 204
    assert status(airflow, created) == (None, [])
    again = {"name": created, "config": {**file_source[1], "airflow.schedule": "none"}, "initial_state": "STOPPED"}
    assert airflow.client.post("/connect/connectors", json=again).status_code == 201
    wait_until(lambda: has_dag(airflow, created) and airflow.is_paused(created), "its DAG is there, and paused")
    assert status(airflow, created) == ("STOPPED", [])
