"""``airflow connect import`` from a real Kafka Connect and from files, with offsets, and back."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.runtime.model.views import OffsetView
from tests.airflow_home import airflow_home
from tests.benchmark.connect_peer import ConnectWorker
from tests.conftest import worker_properties
from tests.integration.client.commands import Done, run_and_kill, run_commands
from tests.integration.herder.killed_change import KillPoint
from tests.waiting import HANG_SECONDS, wait_until

STRIMZI = """
kind: KafkaConnect
metadata: {name: cluster}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaConnector
metadata:
  name: %(name)s
  labels: {strimzi.io/cluster: cluster}
spec:
  class: org.apache.kafka.connect.file.FileStreamSourceConnector
  tasksMax: 1
  state: paused
  config:
    file: %(file)s
    topic: lines
    batch.size: 7
---
kind: KafkaConnector
metadata: {name: %(name)s-java}
spec:
  class: io.debezium.connector.mysql.MySqlConnector
  config: {topics: a}
"""


@pytest.fixture
def ours(tmp_path: Path, bootstrap: str, unique: str) -> dict[str, str]:
    """The environment of an Airflow whose Connect is empty."""
    settings = {**worker_properties(bootstrap, unique), "connectors.allowed.paths": str(tmp_path)}
    return airflow_home(tmp_path / "airflow", {"AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(settings)})


def refused(done: Done) -> str:
    assert done.code == 1, done
    return done.err


def test_over_and_back_with_its_offsets(  # noqa: PLR0917 – fixtures
    ours: dict[str, str], connect: ConnectClient, connect_url: str, file_source: dict[str, str], unique: str, tmp_path: Path
) -> None:
    position = [OffsetView({"filename": file_source["file"]}, {"position": 8})]
    connect.put_connector_config(unique, file_source)
    connect.put_connector_config(f"{unique}-out", {**file_source, "file": "/etc/hostname", "producer.override.sasl.jaas.config": "x"})
    wait_until(lambda: connect.offsets(unique) == position)
    everything = ["import", connect_url, unique, f"{unique}-out"]
    this = ["import", connect_url, unique]
    with_login = connect_url.replace("://", "://someone:geheim@")
    commands = {
        "shown": [*everything, "-o", "json"],
        "dags": ["import", with_login, unique, "--dags", str(tmp_path / "dags")],
        "over": [*everything, "--handover"],
        "again": [*this, "--handover"],
        "offsets": ["offsets", "get", unique, "-o", "json"],
        "config": ["get", unique, "-o", "json"],
        "stop": ["stop", unique],
    }
    done = dict(zip(commands, run_commands(ours, list(commands.values())), strict=True))
    rows = json.loads(done["shown"].out)
    assert [(row["name"], row["state"], row["here"]) for row in rows] == [
        (unique, "RUNNING", "runs, 1 warning"),
        (f"{unique}-out", "RUNNING", "cannot run"),
    ]
    assert "connectors.allowed.paths" in rows[1]["reason"]
    assert rows[1]["reason"].count("producer.override.sasl.jaas.config: ") == 1
    assert done["dags"].code == 0, done["dags"].err
    assert "geheim" not in (tmp_path / "dags" / f"{unique}.py").read_text() + done["dags"].out + done["dags"].err
    assert "continues here with 1 offsets" in done["over"].out
    for each in ("shown", "over"):
        assert f"{unique}: key.converter and value.converter: not in the config, so the other worker's apply there" in done[each].err
    assert f"{unique}-out: " in refused(done["over"])  # and it goes on where it was
    assert connect.connector_status(f"{unique}-out").connector.state == "RUNNING"
    assert connect.connector_status(unique).connector.state == "STOPPED"
    assert f"airflow connect delete {unique}" in refused(done["again"])
    assert done["offsets"].json == [{"partition": {"filename": file_source["file"]}, "offset": {"position": 8}}]
    assert file_source.items() <= done["config"].json["config"].items()
    changed = ["offsets", "alter", unique, "--partition", json.dumps({"filename": file_source["file"]}), "--offset", '{"position": 4}']
    altered, differs, back, early = run_commands(ours, [changed, [*this, "--handover"], [*this, "--handback"], [*this, "--handback"]])
    assert altered.code == 0, altered.err
    assert "exists here" in refused(differs)  # it has offsets of its own
    assert "continues there with 1 offsets" in back.out, back.err
    assert "it was not handed over" in refused(early)
    wait_until(lambda: connect.connector_status(unique).connector.state == "RUNNING")
    wait_until(lambda: connect.offsets(unique) == position)  # it has read the second line again
    for name in (unique, f"{unique}-out"):
        connect.delete_connector(name)


def test_the_worker_file_of_a_running_cluster_stands_for_all_of_it(
    connect_worker: ConnectWorker, file_source: dict[str, str], unique: str, bootstrap: str, tmp_path: Path
) -> None:
    """By its config topic, read by an Airflow that has the file's settings; and a takeover waits for the end of the workers."""
    group = "connect-worker0"
    with ConnectClient.of(connect_worker.url) as connect:
        connect.put_connector_config(unique, file_source)
        own = {key: value for key, value in worker_properties(bootstrap, unique).items() if key.startswith("batch.")}
        settings = own | {"connectors.allowed.paths": str(tmp_path), "airflow.allowed.applications": "crm"}
        variables = {
            "AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(settings),
            "AIRFLOW__CONNECT__WORKER_PROPERTIES": str(connect_worker.file),
        }
        home = airflow_home(tmp_path / "airflow", variables)
        file = ["import", str(connect_worker.file), unique, "--application", "crm"]
        commands = [[*file, "-o", "json"], file, [*file, "--source-url", connect_worker.url, "-o", "json"], [*file, "--takeover"]]
        shown, table, over_rest, early = run_commands(home, commands)
        assert connect.connector_config(unique).items() >= file_source.items()
        assert "airflow.application" not in connect.connector_config(unique)
        connect.delete_connector(unique)
    found = shown.json
    here = {each["setting"]: each["here"] for each in found["settings"]}
    assert (found["application"], here["group.id"], here["listeners"]) == ("crm", "applies", "no effect")
    assert [(row["name"], row["here"]) for row in found["connectors"]] == [(unique, "runs")]
    assert json.loads(over_rest.out)["connectors"][0]["reason"].startswith("a connector of this name exists here")
    assert f"AIRFLOW__CONNECT__WORKER_PROPERTIES={connect_worker.file}" in table.out
    assert f"then: airflow connect import {connect_worker.file} --takeover --application crm\n" in table.out
    assert "To run without Spark, add to the file: airflow.application.crm.engine=process\n" in table.out
    assert f"Kafka Connect is running: group.id {group} has 1 workers" in refused(early)


@contextmanager
def recorded_cluster(connectors: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The address of a server that answers as Kafka Connect with these connectors has answered, and changes nothing."""
    views = {
        name: {
            "info": {"name": name, "config": {**config, "name": name}, "tasks": [], "type": "source"},
            "status": {"name": name, "connector": {"state": "RUNNING", "worker_id": "w:8083"}, "tasks": [], "type": "source"},
        }
        for name, config in connectors.items()
    }

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(
                views if self.path.startswith("/connectors") else {"version": "3.9.1", "commit": "a", "kafka_cluster_id": "k"}
            )
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_whole_cluster_is_one_page_by_what_there_is_to_do(ours: dict[str, str], tmp_path: Path) -> None:
    lines = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "lines"}
    connectors = {f"lines-{number}": lines for number in range(10)}
    connectors |= {f"rows-{number}": {"connector.class": "io.debezium.connector.mysql.MySqlConnector"} for number in range(7)}
    connectors |= {f"calls-{number}": {"connector.class": "io.confluent.connect.http.HttpSinkConnector"} for number in range(4)}
    connectors |= {"outside": {**lines, "file": "/etc/hostname"}}
    with recorded_cluster(connectors) as url:
        page, one, every = run_commands(ours, [["import", url], ["import", url, "rows-3"], ["import", url, "-o", "json"]])
    assert (page.code, page.err) == (1, "")
    assert page.out.startswith("10 of 22 connectors run here as they are, 12 need a step first.")
    for text in (
        f"1. Take over those that run (10): airflow connect import {url} NAME --handover",
        "2. Install plugins of Maven's central repository (7 connectors):\n"
        "   airflow connect plugins install maven:io.debezium:debezium-connector-mysql:",
        "   confluentinc/kafka-connect-http (4)\n",
        "4. Change settings (1 connectors):\n   1 × Connectors of this worker may only use files",
    ):
        assert text in page.out
    assert len(page.out.splitlines()) < 40
    assert "airflow connect plugins install maven:io.debezium:debezium-connector-mysql:" in one.out
    assert len(json.loads(every.out)) == 22


CREATE, STOP = "runtime.herder.herder:Herder.create_connector", "client.rest_client:ConnectClient.stop"
ALTER, RESUME = "runtime.herder.herder:Herder.alter_offsets", "runtime.herder.herder:Herder.resume"


@pytest.mark.soak
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(KillPoint(CREATE), id="after create"),
        pytest.param(KillPoint(STOP), id="after stop"),
        pytest.param(KillPoint(ALTER), id="after alter"),
        pytest.param(KillPoint(RESUME, "before"), id="before resume"),
    ],
)
def test_a_handover_that_was_killed_is_finished_by_the_same_command(  # noqa: PLR0917 – fixtures
    ours: dict[str, str], connect: ConnectClient, connect_url: str, file_source: dict[str, str], unique: str, point: KillPoint
) -> None:
    position = [OffsetView({"filename": file_source["file"]}, {"position": 8})]
    connect.put_connector_config(unique, file_source)
    wait_until(lambda: connect.offsets(unique) == position)
    command = ["import", connect_url, unique, "--handover"]
    run_and_kill(ours, command, point)
    over, offsets, status = run_commands(ours, [command, ["offsets", "get", unique, "-o", "json"], ["status", unique, "-o", "json"]])
    assert over.code == 0, over.err
    assert connect.connector_status(unique).connector.state == "STOPPED"
    assert offsets.json == [{"partition": position[0].partition, "offset": position[0].offset}]
    assert "continues here with 1 offsets" in over.out
    assert status.json["connector"]["state"] != "STOPPED"
    connect.delete_connector(unique)


def test_files_and_what_is_written_of_them(ours: dict[str, str], tmp_path: Path, unique: str) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    manifest, hostile = tmp_path / "connectors.yaml", tmp_path / "hostile.json"
    manifest.write_text(STRIMZI % {"name": unique, "file": tmp_path / "in.txt"})
    name = '../""" {{ macros }}'
    config = {
        "connector.class": "FileStreamSource",
        "file": str(tmp_path / "in.txt"),
        "topic": "a",
        "my.text": 'a"""\\',
        "db.password": "geheim",
    }
    hostile.write_text(json.dumps({"name": name, "config": config}))
    dags = tmp_path / "dags"
    refusing = tmp_path / "refusing.json"
    url = {"connection.url": "postgresql://u:geheim@:none/x", "connection.password": "geheim", "value.converter": "Missing"}
    refusing.write_text(json.dumps({"name": "refused", "config": {"connector.class": "JdbcSource", "mode": "x", **url}}))
    commands = {
        "refused": ["import", str(refusing), "-o", "json"],
        "shown": ["import", str(manifest), "-o", "json"],
        "created": ["import", str(manifest), unique, "--create"],
        "status": ["status", unique, "-o", "json"],
        "dag": ["import", str(hostile), "--dags", str(dags)],
        "there": ["import", str(hostile), "--dags", str(dags)],
        "file": ["import", str(manifest), "--handover"],
        "both": ["import", str(manifest), "--create", "--dags", str(dags)],
        "missing": ["import", str(manifest), "nobody"],
        "none": ["import", str(tmp_path / "none.yaml")],
    }
    done = dict(zip(commands, run_commands(ours, list(commands.values())), strict=True))
    assert "mode" in done["refused"].out
    assert "geheim" not in done["refused"].out + refused(done["refused"])
    rows = json.loads(done["shown"].out)
    assert [(row["name"], row["state"], row["here"]) for row in rows] == [
        (unique, "PAUSED", "runs, 1 warning"),
        (f"{unique}-java", "RUNNING", "needs a plugin"),
    ]
    assert "airflow connect plugins install maven:io.debezium:debezium-connector-mysql:3.6.1.Final" in rows[1]["reason"]
    assert "is created, STOPPED" in done["created"].out, done["created"].err
    assert done["status"].json["connector"]["state"] == "STOPPED"
    assert "Connector nobody not found" in refused(done["missing"])
    assert "cannot be read" in refused(done["none"])
    assert "need the URL of a running Kafka Connect" in refused(done["file"])
    assert "Give one of" in refused(done["both"])
    assert done["dag"].code == 0, done["dag"].err
    (file,) = dags.iterdir()
    assert file.parent == dags
    text = file.read_text()
    assert "geheim" not in text + done["dag"].out + done["dag"].err
    (call,) = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert ast.literal_eval(call.args[0]) == name
    assert ast.literal_eval(call.args[1])["my.text"] == 'a"""\\'
    assert ast.literal_eval(call.args[1])["db.password"].startswith("${variable:")
    assert f"airflow variables set {ast.literal_eval(call.args[1])['db.password'][11:-1]}" in done["dag"].out
    assert "exists already" in refused(done["there"])


def test_the_dag_file_is_a_dag(ours: dict[str, str], tmp_path: Path, unique: str) -> None:
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": unique, "name": unique}
    (tmp_path / "one.json").write_text(json.dumps(config))
    (done,) = run_commands(ours, [["import", str(tmp_path / "one.json"), "--dags", str(tmp_path / "dags")]])
    assert done.code == 0, done.err
    program = f"import runpy; runpy.run_path({str(tmp_path / 'dags' / f'{unique}.py')!r}); print('FINE')"
    found = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **ours}, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert "FINE" in found.stdout, found.stderr
