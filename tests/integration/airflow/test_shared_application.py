"""Connectors that share an application, in a real Airflow: one driver hosts them all, and each keeps its DAG, its pause and its alerts."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.ids import application_dag_id, dag_id_for
from airflow_provider_connect.runtime.model.run import PID_FILE
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.integration.airflow.conftest import Airflow
from tests.integration.airflow.test_continuous import append, connector, lines, running, states
from tests.integration.worker.environment import make_topic, send, values_of
from tests.waiting import wait_until

Connector = tuple[Path, dict[str, str]]
APPLICATION = "shared"
MEMBER = {"airflow.application": APPLICATION, "airflow.retries": "0"}
CONSUMER = """
import json
from airflow.sdk import DAG, Asset, task

with DAG({dag_id!r}, schedule=[Asset({uri!r})], is_paused_upon_creation=False):

    @task
    def note(*, triggering_asset_events=None):
        with open({file!r}, "a") as noted:
            for events in triggering_asset_events.values():
                for event in events:
                    print(json.dumps(event.extra), file=noted)

    note()
"""


def application_states(airflow: Airflow) -> list[str]:
    """The states of the application's runs, the newest first."""
    found = airflow.client.get(f"/api/v2/dags/{application_dag_id(APPLICATION)}/dagRuns", params={"order_by": "-id"})
    return [run["state"] for run in found.json().get("dag_runs", [])] if found.status_code == 200 else []


def driver_pid(airflow: Airflow) -> int:
    (file,) = (airflow.stack.folder / "runs").glob(f"{application_dag_id(APPLICATION)}-*/*/try-*/{PID_FILE}")
    return int(file.read_text())


@contextmanager
def consumer(airflow: Airflow, dag_id: str, uri: str, file: Path) -> Iterator[None]:
    """A DAG that runs for each event of an asset, and notes the events' content in a file."""
    path = airflow.stack.dags_folder / f"{dag_id}.py"
    path.write_text(CONSUMER.format(dag_id=dag_id, uri=uri, file=str(file)))
    wait_until(lambda: airflow.client.get(f"/api/v2/dags/{dag_id}").status_code == 200, "the consumer is parsed")
    try:
        yield
    finally:
        path.unlink()


def event_spans(airflow: Airflow, name: str) -> list[Any]:
    """The spans of partition 0 in the connector's asset events, in their order; Any: JSON. Airflow 3.3 answers 500 while a run that one of
    the events has created is queued, because it has no start yet."""
    query = {"source_dag_id": dag_id_for(name), "order_by": "timestamp", "limit": "100"}

    def answer() -> httpx.Response | None:
        found = airflow.client.get("/api/v2/assets/events", params=query)
        return None if found.status_code == 500 else found

    return [span for event in wait_until(answer).json()["asset_events"] for span in event["extra"]["ranges"]["0"]]


def has_events_until(airflow: Airflow, name: str, end: int) -> bool:
    spans = event_spans(airflow, name)
    return len(spans) > 1 and bool(spans[-1][1] >= end)


def repeated(spans: list[Any]) -> list[int]:
    """How many offsets of earlier spans each span repeats, after the start of the topic. A negative number: offsets are missing."""
    return [end - first for (_, end), (first, _) in pairwise([(0, 0), *spans])]


def test_connectors_share_an_application_and_each_keeps_its_run(
    airflow: Airflow, unique: str, file_sink: Connector, file_source: Connector
) -> None:
    bootstrap, topic = airflow.settings().bootstrap_servers, f"lines-{unique}"
    (target, sink), (origin, source) = file_sink, file_source
    make_topic(bootstrap, topic)
    origin.write_text("one\n")
    first, second = f"sink-{unique}", f"source-{unique}"
    member, noted = {**MEMBER, "airflow.asset.interval": "10s"}, target.with_name("noted.txt")
    with (
        consumer(airflow, f"consumer-{unique}", f"kafka://{bootstrap}/{topic}?group=connect-{first}", noted),
        connector(airflow, first, {**sink, **member}),
        connector(airflow, second, {**source, **member}),
    ):
        wait_until(lambda: lines(target) == ["one"], "both deliver")
        wait_until(lambda: states(airflow, first) == states(airflow, second) == ["RUNNING", "RUNNING"], "both are RUNNING")
        wait_until(lambda: len(running(airflow, first)) == len(running(airflow, second)) == 1, "each has its run")
        pid = driver_pid(airflow)
        wait_until(lambda: lines(noted), "a DAG that is scheduled on the sink's asset runs while the sink stays")
        assert json.loads(lines(noted)[0])["connector"] == first
        assert len(running(airflow, first)) == 1

        airflow.set_paused(first, paused=True)
        wait_until(lambda: states(airflow, first) == ["PAUSED", "PAUSED"], "one pauses")
        append(origin, "two")
        wait_until(lambda: values_of(bootstrap, topic) == ["one", "two"], "the other delivers on")
        wait_until(lambda: running(airflow, first) == [], "its run has ended")
        assert lines(target) == ["one"]
        airflow.set_paused(first, paused=False)
        wait_until(lambda: lines(target) == ["one", "two"], "it resumes")
        wait_until(lambda: len(running(airflow, first)) == 1, "it has another run")

        other = target.with_name("other.txt")
        assert airflow.client.put(f"/connect/connectors/{first}/config", json={**sink, **member, "file": str(other)}).status_code == 200
        wait_until(lambda: states(airflow, first) == ["RUNNING", "RUNNING"], "the new config is in force")
        append(origin, "three")
        wait_until(lambda: lines(other) == ["three"], "it delivers to another file")
        assert airflow.client.post(f"/connect/connectors/{second}/restart?includeTasks=true").status_code == 202
        wait_until(lambda: states(airflow, second) == ["RUNNING", "RUNNING"], "the source is restarted")
        assert driver_pid(airflow) == pid

        os.kill(pid, signal.SIGKILL)
        append(origin, "four")
        wait_until(lambda: lines(other) == ["three", "four"], "another driver hosts both")
        assert len(running(airflow, first)) == 1
        with closing(TopicAdmin(airflow.settings())) as admin:
            end = admin.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        for name, marker in ((first, 1), (second, 0)):  # a sink's position may be before or after the marker of a transaction
            wait_until(partial(has_events_until, airflow, name, end - marker), f"events of {name} reach the topic's end")
            assert set(repeated(spans := event_spans(airflow, name))) <= {0, marker}, spans
    wait_until(lambda: "running" not in application_states(airflow), "without connectors, the application ends")


def test_a_failure_of_a_hosted_connector_fails_its_run_and_no_other(airflow: Airflow, unique: str, file_sink: Connector) -> None:
    bootstrap, topic, good, bad = airflow.settings().bootstrap_servers, f"lines-{unique}", f"good-{unique}", f"bad-{unique}"
    target, config = file_sink
    other = target.with_name("bad.txt")
    make_topic(bootstrap, topic)
    alert = {"airflow.on.failure": "canary"}
    transform = {"transforms": "number", "transforms.number.type": "org.apache.kafka.connect.transforms.Cast$Value"}
    failing = {**config, **MEMBER, **alert, **transform, "transforms.number.spec": "int32", "file": str(other)}
    airflow.set_variable(f"file-{unique}", str(target))  # Airflow resolves it, so the driver asks its Airflow task
    with connector(airflow, good, {**config, **MEMBER, "file": f"${{variable:file-{unique}}}"}), connector(airflow, bad, failing):
        send(bootstrap, topic, ["1"])
        wait_until(lambda: lines(target) == lines(other) == ["1"], "both deliver")
        wait_until(lambda: len(running(airflow, bad)) == 1, "its run is there")
        send(bootstrap, topic, ["no\0 number"])  # a text that PostgreSQL refuses
        wait_until(lambda: states(airflow, bad) == ["RUNNING", "FAILED"], "its task FAILED")
        wait_until(
            lambda: any(line.startswith(f"{bad} ") and " number" in line for line in lines(airflow.notices)),
            "the notice is sent",
        )
        wait_until(lambda: "failed" in [airflow.run_state(bad, run) for run in airflow.runs(bad)], "its run has failed")
        send(bootstrap, topic, ["2"])
        wait_until(lambda: lines(target) == ["1", "no\0 number", "2"], "the other delivers on")
        assert [airflow.run_state(good, run) for run in airflow.runs(good)] == ["running"]
