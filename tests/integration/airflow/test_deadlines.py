"""Missed deadlines in a real Airflow: the notices of an overdue run, a lagging sink and a silent connector."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.runtime.model.ids import dag_id_for
from tests.integration.airflow.conftest import Airflow
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS, wait_until

Connector = tuple[Path, dict[str, str]]


def notices(airflow: Airflow, connector: str) -> list[str]:
    """The lines that the notifier has written of the connector."""
    lines = airflow.notices.read_text().splitlines() if airflow.notices.exists() else []
    return [line for line in lines if line.startswith(f"{connector} ")]


@pytest.fixture
def stored(airflow: Airflow, unique: str) -> Iterator[str]:
    """The name of a connector that the test creates over REST; it is deleted in the end."""
    yield unique
    airflow.client.delete(f"/connect/connectors/{unique}")
    dag = f"/api/v2/dags/{dag_id_for(unique)}"
    wait_until(lambda: (found := airflow.client.get(dag)).status_code == 404 or found.json().get("is_stale"), "its DAG is gone")


@pytest.mark.soak
def test_an_overdue_run_of_a_stored_connector_has_a_notice(airflow: Airflow, stored: str, file_source: Connector) -> None:
    config = {**file_source[1], "airflow.schedule": "none", "airflow.on.deadline": "canary", "airflow.deadline.duration": "10s"}
    wrong = {**config, "airflow.on.deadline": "canary,os.system", "airflow.deadline.duration": "9s"}
    refused = airflow.client.post("/connect/connectors", json={"name": stored, "config": wrong})
    assert refused.status_code == 400
    assert "Invalid value 9s for configuration airflow.deadline.duration: give a duration from 10s to 366d" in refused.json()["message"]
    assert "Invalid value os.system for configuration airflow.on.deadline: no notifier has this name" in refused.json()["message"]
    made = airflow.client.post("/connect/connectors", json={"name": stored, "config": config, "initial_state": "PAUSED"})
    assert made.status_code == 201, made.text
    dag = f"/dags/{dag_id_for(stored)}"
    wait_until(lambda: airflow.client.get(f"/api/v2{dag}").status_code == 200, "its DAG")
    run = airflow.trigger(stored)  # it is queued for as long as the connector is paused
    (line,) = wait_until(lambda: notices(airflow, stored), "the notice")
    assert (
        line
        == f"{stored} {run}  overdue: Run {run} has taken longer than 10s (airflow.deadline.duration) since it was queued. It is queued."
    )
    shown = airflow.client.get(f"/ui{dag}/dagRuns/{quote(run)}/deadlines").raise_for_status().json()["deadlines"]
    assert [(each["missed"], each["alert_name"]) for each in shown] == [(True, "a run takes longer than 10s")]


@pytest.mark.soak  # no silence is shorter than a minute
def test_a_sink_that_stays_behind_and_then_runs_no_more_has_a_notice_of_each(airflow: Airflow, unique: str, file_sink: Connector) -> None:
    connector = f"sink-{unique}"
    servers = airflow.settings().bootstrap_servers
    create_topic(servers, file_sink[1]["topics"])
    producer = Producer({"bootstrap.servers": servers})
    deadlines = {"airflow.deadline.silence": "60s", "airflow.deadline.lag": "0", "airflow.deadline.lag.duration": "0s"}
    config = {**file_sink[1], "airflow.engine": "process", "airflow.on.deadline": "canary", **deadlines}
    airflow.write_dag(connector, config)
    airflow.run(connector)  # without a record to read: what waits for the first run would be a lag
    assert notices(airflow, connector) == []
    producer.produce(file_sink[1]["topics"], b"one")
    assert producer.flush(HANG_SECONDS) == 0
    found = wait_until(lambda: len(found := notices(airflow, connector)) == 2 and found, "both notices")
    assert sorted(line.partition(" (")[0] for line in found) == [
        f"{connector}   lagging: Connector {connector} is 1 records behind its topics, and has been more than 0",
        f"{connector}   silent: No run of connector {connector} has succeeded for 60s",
    ]
    airflow.run(connector)
    assert file_sink[0].read_text() == "one\n"
    assert notices(airflow, connector) == found
