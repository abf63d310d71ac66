"""Paused flags, target states and configs, kept in agreement by the API server."""

from pathlib import Path

import pytest

from airflow_provider_connect.model.ids import dag_id_for
from airflow_provider_connect.model.states import TargetState
from tests.integration.airflow.conftest import Airflow, wait_until

Connector = tuple[Path, dict[str, str]]


@pytest.fixture
def connector(airflow: Airflow, unique: str, file_source: Connector) -> str:
    name = f"kept-{unique}"
    airflow.write_dag(name, file_source[1])
    return name


def test_a_pause_in_airflow_is_on_the_config_topic_within_two_seconds_and_so_is_its_end(airflow: Airflow, connector: str) -> None:
    airflow.set_paused(connector, paused=True)
    wait_until(lambda: airflow.target_state(connector) is TargetState.PAUSED, 3, "PAUSED")
    airflow.set_paused(connector, paused=False)
    wait_until(lambda: airflow.target_state(connector) is TargetState.STARTED, 3, "STARTED")
    assert not airflow.is_paused(connector)


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_target_state_written_by_another_client_sets_the_flag(airflow: Airflow, connector: str, target: TargetState) -> None:
    airflow.put_target_state(connector, target)
    wait_until(lambda: airflow.is_paused(connector), 3, "paused")
    assert airflow.target_state(connector) is target
    airflow.put_target_state(connector, TargetState.STARTED)
    wait_until(lambda: not airflow.is_paused(connector), 3, "unpaused")


def test_a_stopped_connector_is_started_by_unpausing_its_dag(airflow: Airflow, connector: str) -> None:
    airflow.put_target_state(connector, TargetState.STOPPED)
    wait_until(lambda: airflow.is_paused(connector), 3, "paused")
    airflow.set_paused(connector, paused=False)
    wait_until(lambda: airflow.target_state(connector) is TargetState.STARTED, 3, "STARTED")


def test_a_run_triggered_while_paused_waits_and_runs_when_resumed(airflow: Airflow, connector: str) -> None:
    airflow.put_target_state(connector, TargetState.PAUSED)
    wait_until(lambda: airflow.is_paused(connector), 3, "paused")
    run = airflow.trigger(connector)
    assert airflow.run_state(connector, run) == "queued"
    airflow.put_target_state(connector, TargetState.STARTED)
    assert airflow.wait_for_run(connector, run) == "success"


def test_a_run_in_progress_ends_after_its_batch_when_its_connector_is_paused(
    airflow: Airflow, connector: str, file_source: Connector
) -> None:
    with file_source[0].open("w") as file:
        file.writelines(f"{number:090d}\n" for number in range(3_000_000))
    run = airflow.trigger(connector)
    runs = airflow.stack.folder / "runs"
    wait_until(lambda: list(runs.glob(f"{dag_id_for(connector)}-*/*/try-*/claim.json")), 60, "the application has claimed")
    airflow.set_paused(connector, paused=True)
    assert airflow.wait_for_run(connector, run, 20) == "success"
    (task,) = airflow.tasks(connector, run)
    assert (task["state"], task["try_number"]) == ("success", 1)
    assert airflow.xcoms(connector, run)["return_value"]["0"]["records"] < 3_000_000
    airflow.set_paused(connector, paused=False)
    run = airflow.run(connector)
    assert airflow.xcoms(connector, run)["return_value"]["0"]["records"] > 0


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


def test_a_connector_whose_file_is_gone_is_stopped_and_kept(airflow: Airflow, connector: str) -> None:
    (airflow.stack.dags_folder / f"{connector}.py").unlink()
    wait_until(lambda: airflow.target_state(connector) is TargetState.STOPPED, 60, "STOPPED")
    assert airflow.config(connector) is not None


def test_a_file_that_cannot_be_imported_stops_nothing(airflow: Airflow, connector: str) -> None:
    file = airflow.stack.dags_folder / f"{connector}.py"
    file.write_text(f"{file.read_text()}\nraise RuntimeError('airflow dag')\n")
    wait_until(lambda: f"{connector}.py" in str(airflow.api("GET", "/importErrors")), 30, "an import error")
    assert airflow.target_state(connector) is TargetState.STARTED
